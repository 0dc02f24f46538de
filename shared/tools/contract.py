"""What a tool function is given and what it may give back, and what its probe may find.

Owns the words between the executor and a tool pack: context, reply, the two errors a tool may raise on
purpose, and the three findings of a `verify` probe. They stand apart from the registry because a tool pack must
be importable without the machinery that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from placet.tools.staging import NoWorkspace, Workspace
from placet.tools.ui_blocks import UiBlock

Resource = TypeVar("Resource")


class ToolError(Exception):
    """The tool says that it did not do what was asked; the call ends as `failed` with this text.

    `text` is read by the model: say what is wrong and what would be right. `code` is a stable word for
    programs, `data` any JSON value that helps to try again (for example the variants to choose from).
    """

    def __init__(self, text: str, *, code: str = "failed", data: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.data = data


class ToolOutcomeUnknown(Exception):
    """The tool cannot say whether its effect happened (a time-out after sending, a lost answer).

    The call ends as `unknown`, unless the catalogue calls the tool idempotent: then the executor repeats it
    with the same idempotency key. `text` is read by the model and by the person who resolves the call.
    """

    def __init__(self, text: str, *, data: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.data = data


def _tell_nobody(fraction: float | None, text: str) -> None:
    """Let a report pass: nobody follows a call that a test or a script makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """For whom and under which permission a tool runs. Made by the executor, never by the model."""

    tenant: str
    """Every row a tool reads or writes belongs to this tenant."""
    conversation_id: str
    """The conversation the call belongs to."""
    call_id: str
    """The tool call; constant over all attempts."""
    idempotency_key: str
    """Constant over all attempts of this call: hand it to whatever can honour it."""
    fence: int
    """Number of this attempt, from 1, strictly growing; a store that compares fences can refuse a late writer."""
    requester: str
    """Who asked: the visitor's or the person's id."""
    message_id: str
    """The chat message that triggered the call."""
    language: str
    """The visitor's language as a BCP 47 tag, for example `tr` or `en-GB`."""
    agent: str = ""
    """Name of the agent that proposed the call."""
    deadline: datetime
    """When the executor stops waiting (timezone-aware). Time out before it, so that the outcome is said by the tool."""
    resources: Mapping[str, object] = field(default_factory=dict, repr=False)
    """What the tool packs opened at executor start, by name; see `placet.tools.resources`."""

    workspace: Workspace = field(default_factory=NoWorkspace, repr=False)
    """What waits in the conversation's workspace. Asking costs a query; a tool that never asks pays nothing."""

    reporter: Callable[[float | None, str], None] = field(default=_tell_nobody, repr=False)
    """Takes what `report` says, from any thread."""

    def report(self, fraction: float | None = None, text: str = "") -> None:
        """Say how far the work is: `fraction` from 0 to 1, None where nobody can know, and what is done now.

        Costs nothing and never fails: say it as often as you like, people are told the newest now and then.
        """
        self.reporter(fraction, text)

    def resource(self, name: str, kind: type[Resource]) -> Resource:
        """Return the resource called `name`; LookupError when no pack opened it as a `kind`."""
        found = self.resources.get(name)
        if not isinstance(found, kind):
            raise LookupError(f"no resource {name!r} of kind {kind.__name__} was opened at executor start")  # noqa: TRY004  # nothing was found
        return found

    def seconds_left(self, now: datetime) -> float:
        """Seconds from `now` to the deadline, never below zero."""
        return max(0.0, (self.deadline - now).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """A tool's success: `data` (any JSON value) for the model, `ui_blocks` for the frontend.

    `handover`, where it is not empty, hands the conversation to an operator and tells them why; the model still
    ends its turn, and then no message is answered by it until the operator gives the conversation back.
    """

    data: Any = None
    ui_blocks: Sequence[UiBlock] = ()
    handover: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return `{"data": …, "ui_blocks": […]}` as plain JSON values (`data` as it stands)."""
        return {"data": self.data, "ui_blocks": [block.model_dump(mode="json") for block in self.ui_blocks]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A probe's finding: the call took effect, once. It gives what the tool would have given, for the model."""

    data: Any = None
    ui_blocks: Sequence[UiBlock] = ()


@dataclass(frozen=True, slots=True)
class DidNotRun:
    """A probe's finding: the call took no effect and can take none any more. Say `CannotTell` short of that."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """A probe's finding: the call may have taken effect. `text` tells people and the model what is known."""

    text: str = ""


Finding: TypeAlias = Ran | DidNotRun | CannotTell
