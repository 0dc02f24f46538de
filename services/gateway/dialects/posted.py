"""What every dialect asks of the text that a client posts, so that none of them lets through what another refuses."""

from __future__ import annotations

import re
from collections.abc import Callable

from shared.errors import Refused
from shared.messages.conversations import TEXT_MAX

#: A message's id that can be kept as it is; for any other one is derived.
MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def invalid_request(detail: str, pointer: str) -> Refused:
    """Return the refusal (400) of a request whose member at the JSON pointer `pointer` is no such thing."""
    fault = {"detail": detail, "pointer": pointer}
    return Refused("The request is not valid.", status=400, kind="invalid-request", errors=[fault])


def checked_text(text: str, invalid: Callable[[str], Refused]) -> str:
    """Return what a user wrote; raise `invalid` of what is wrong with it, or Refused (413) where it is too much."""
    if not text.strip():
        raise invalid("must end with a text of the user")
    if "\x00" in text:
        raise invalid("must not have the NUL character")
    if len(text) > TEXT_MAX:
        raise Refused(f"A message has at most {TEXT_MAX} characters.", status=413, kind="too-large")
    return text
