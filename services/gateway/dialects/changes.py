"""What an entry of a conversation's log can change, as every dialect tells it. Pure.

A *reply* is what a chat client shows as one assistant message: the steps that answer one message of the user. It has
the id of the turn that began it. Where a turn goes on and hears what was written meanwhile, another reply begins in
it; a later turn that tells what became of a call goes on with the reply that made the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as far as it is known."""

    call_id: str
    turn_id: str
    reply_id: str
    tool: str
    #: As people may see them; None where the model wrote no JSON.
    arguments: Any
    #: Everything known of its approval; empty where nobody is asked.
    card: Data = field(default_factory=dict)
    #: Of a call in a job: the call that began the job; empty for one of the conversation's own.
    caller: str = ""
    #: How it ended: `succeeded`, `denied`, …; empty while it has not.
    kind: str = ""

    @property
    def approval_id(self) -> str:
        """Id of its approval; empty where nobody is asked."""
        return str(self.card.get("approval_id", ""))

    @property
    def waits(self) -> bool:
        """Whether people are asked and nobody has decided."""
        return not self.kind and self.card.get("state") == "pending"

    @property
    def settled(self) -> bool:
        """Whether nothing more is told of it until people decide; a result may come before its approval's end."""
        return self.waits or bool(self.kind and self.card.get("state") != "pending")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as far as it is known."""

    turn_id: str
    #: The reply to which its next step belongs.
    reply_id: str
    #: `running`, `paused`, or how it ended.
    state: str = "running"
    #: The newest step whose message is stored; 0 for none.
    step: int = 0
    #: The step that the model is asked for now; 0: for none.
    asked: int = 0
    #: Whether people were asked about a call of the reply when the model was asked for its newest step.
    aside: bool = False
    #: Calls of the newest step that have no result.
    open: frozenset[str] = frozenset()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state not in {"running", "paused"}


@dataclass(frozen=True, slots=True)
class UserSpoke:
    """A user wrote a message."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class OperatorSpoke:
    """A person said something in the agent's place; `operator` is a stable id such as `person:ada`."""

    message_id: str
    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class ReplyBegan:
    """A turn begins, or goes on, with this reply."""

    reply_id: str


@dataclass(frozen=True, slots=True)
class StepBegan:
    """The model's next answer begins to show; `aside`: when it was asked, a call of the reply waited for people."""

    reply_id: str
    aside: bool


@dataclass(frozen=True, slots=True)
class StepEnded:
    """All of that answer is told, results included; `aside` is of the answer that follows, False where none does."""

    reply_id: str
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of what the model says; the first and the last piece of a text say so."""

    reply_id: str
    text_id: str
    text: str
    begins: bool = False
    ends: bool = False
    #: False where it ends because the model gave it up and says something else.
    counts: bool = True


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call was proposed, or an approver edited its arguments."""

    reply_id: str
    call: Call


@dataclass(frozen=True, slots=True)
class CardMoved:
    """The call's approval was opened, has changed, or is over."""

    reply_id: str
    call: Call


@dataclass(frozen=True, slots=True)
class CallProgressed:
    """A running call says how far it is: `fraction` from 0 to 1, None where the tool cannot say."""

    reply_id: str
    call_id: str
    fraction: float | None
    text: str


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """A call has its one result: {kind, data, error, ui_blocks}."""

    reply_id: str
    call: Call
    result: Data

    @property
    def error(self) -> str:
        """What people are told where it did not succeed; never empty then."""
        return str(self.result.get("error") or f"The call did not run: {self.call.kind}.")


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn is over: {turn_id, state, reason, limit, final_answer, idle, open}."""

    reply_id: str
    end: Data


def shown_end(end: Data) -> dict[str, Any]:
    """Return what clients are told of a turn's end: {state, reason, limit, final_answer}, without what is empty."""
    return {name: end[name] for name in ("state", "reason", "limit", "final_answer") if end.get(name)}


@dataclass(frozen=True, slots=True)
class HolderMoved:
    """Somebody else answers from now on: {state, operator, text, …}."""

    holder: Data


OfReply = ReplyBegan | StepBegan | StepEnded | Text | CallMade | CardMoved | CallProgressed | CallAnswered | TurnEnded
Change = UserSpoke | OperatorSpoke | HolderMoved | OfReply


#: What an approval's card tells beside who may decide it.
_CARD_FIELDS = (
    *("approval_id", "call_id", "tool", "arguments", "summary", "reason", "digest", "revision", "state", "approvers"),
    *("expires_at", "decided_by", "decision_reason", "answer_kind", "note", "staged"),
)


def shown_card(card: Data) -> dict[str, Any]:
    """Return what a frontend of any dialect is told of an approval."""
    return {name: card[name] for name in _CARD_FIELDS if card.get(name) is not None}
