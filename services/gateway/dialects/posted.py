"""What every dialect asks of texts and answers that a client posts, so that none lets through what another refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from placet.contracts.errors import Refused
from placet.contracts.messages.approvals import REASON_MAX
from placet.contracts.messages.conversations import TEXT_MAX
from placet.contracts.messages.stage import ENTRIES_MAX
from placet.contracts.messages.tool_calls import CALLS_PER_STEP_MAX
from placet.gateway.approvals.answers import Answer
from placet.gateway.approvals.forms import CallId

#: A message's id that can be kept as it is; for any other one is derived.
MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Approval requests that one request may answer: clients post the answers to all calls of a message at once.
ANSWERS_MAX = CALLS_PER_STEP_MAX
#: Entries of a commit that its approval leaves out.
LeaveOut = Annotated[tuple[CallId, ...], Field(max_length=ENTRIES_MAX)]


def checked_text(text: str, invalid: Callable[[str], Refused]) -> str:
    """Return what a user wrote; raise `invalid` of what is wrong with it, or Refused (413) where it is too much."""
    if not text.strip():
        raise invalid("must end with a text of the user")
    if "\x00" in text:
        raise invalid("must not have the NUL character")
    if len(text) > TEXT_MAX:
        raise Refused(f"A message has at most {TEXT_MAX} characters.", status=413, kind="too-large")
    return text


def checked_answers(answers: Sequence[Answer], invalid: Callable[[str], Refused]) -> None:
    """Raise `invalid` where a request answers too much."""
    if len(answers) > ANSWERS_MAX:
        raise invalid(f"must answer at most {ANSWERS_MAX} approval requests")


def kept_reason(reason: str) -> str:
    """Return what of a reason can be kept."""
    return reason.replace("\x00", "")[:REASON_MAX]
