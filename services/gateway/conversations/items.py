"""What every frontend of a conversation is told: items of the agent's log, and pieces of a text being written. Pure.

Items are numbered per conversation from 1 without gaps; pieces have no number and are kept nowhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from pydantic_core import from_json

ItemType = Literal[
    "message", "tool_call", "approval", "progress", "decision", "holder", "turn", "resolution", "conversation"
]
ITEM_TYPES: tuple[ItemType, ...] = get_args(ItemType)
#: Types of items that say something to a reader: neither the beginnings of turns nor decisions by message.
READ_BY_PEOPLE: tuple[ItemType, ...] = ("message", "holder", "tool_call", "approval", "conversation")
#: Result kinds that a frontend shows as done; every other ending is an error with its kind beside it.
SUCCESSES = frozenset({"succeeded", "staged"})


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a conversation's log."""

    id: int
    type: ItemType
    #: ISO 8601.
    at: str
    data: dict[str, Any]

    @property
    def moment(self) -> datetime:
        """When it was appended."""
        return datetime.fromisoformat(self.at)

    def as_json(self) -> dict[str, Any]:
        """Return it as clients get it."""
        return {"id": self.id, "type": self.type, "at": self.at, "data": self.data}


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a text that the model is writing now; the whole text follows as a message."""

    turn_id: str
    step: int
    #: The assistant message that the text will become.
    message_id: str
    #: Characters of the message before this piece.
    offset: int
    text: str
    #: True: forget the text so far.
    reset: bool = False
    while_waiting: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """Return it as clients get it."""
        return asdict(self)


def arguments_value(text: str) -> Any:
    """Return the value of a call's shown arguments; None where the model wrote no JSON or nothing may be shown."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
