"""Ids of the OpenAI dialects. Each is made of what it stands for, so nothing must be stored to find that again.

They are no secrets and no proofs: what they name is looked up in the caller's tenant, and a decision is bound to the
digest in the id of the request that it answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_RESPONSE = re.compile(r"resp_([0-9]{1,18})_([0-9]{1,18})_([A-Za-z0-9_-]{1,64})")
_REQUEST = re.compile(r"mcpr_([A-Za-z0-9_-]{1,64})_([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ResponseId:
    """Where a response begins in a conversation's feed."""

    conversation_id: str
    #: Number of the feed item after which it tells.
    told: int
    #: Number of the user's message that it answers; 0 where it follows decisions only.
    posted: int

    def __str__(self) -> str:
        """Return it as clients know it."""
        return f"resp_{self.told}_{self.posted}_{self.conversation_id}"


def parse_response_id(text: str) -> ResponseId | None:
    """Return what a response's id says; None where it is none of ours."""
    match = _RESPONSE.fullmatch(text)
    return ResponseId(match[3], int(match[1]), int(match[2])) if match else None


def request_id(card: Mapping[str, Any]) -> str:
    """Return the id of an approval request: which approval, and the digest of the call that is shown."""
    return f"mcpr_{card['approval_id']}_{card['digest']}"


def parse_request_id(text: str) -> tuple[str, str] | None:
    """Return the approval's id and the digest that an approval request named; None where it is none of ours."""
    match = _REQUEST.fullmatch(text)
    return (match[1], match[2]) if match else None


def item_id(prefix: str, name: str) -> str:
    """Return the id of an output item."""
    return f"{prefix}_{name.replace('#', '.')}"
