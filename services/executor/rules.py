"""What may run, how an attempt counts, and which words the model reads about it.

Pure: the database's clock and the catalogue come in as arguments. The texts are kept together here because each of
them must say plainly whether anything ran: the model, and then a person, acts on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from placet.contracts.canonical import NotStrictJson, parse_arguments
from placet.contracts.messages import (
    AbandonCall,
    CallResolved,
    Handover,
    ResolveCall,
    Staged,
    ToolCall,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallRefused,
)
from placet.contracts.permit import CONSENT_VOID, MAY_HAVE_RUN, NOTHING_RAN, STOPPED_CALL, Permit
from placet.domain.catalog import ToolSpec, validate_arguments
from placet.executor.states import MACHINE, Event, State

LOST_TEXT: Final = f"The worker that ran the tool was lost before it could tell the result. {MAY_HAVE_RUN}"
RESTORED_TEXT: Final = "The database was restored from a backup after the call had been permitted."
TAMPERED_TEXT: Final = (
    f"An attempt to run the tool was lost, and its stored call no longer fits its permit. {MAY_HAVE_RUN}"
)
NOT_RUN_TEXT: Final = (
    "The attempt to run the tool ended in doubt, and the tool's own check has found since that it took no effect: "
    "nothing was done."
)
NOT_STAGED_TEXT: Final = "The call could not be put into the workspace. Nothing has happened."
#: Code of an attempt that took no effect, as the tool's probe found.
NOT_RUN: Final = "not_run"
#: Problems of the arguments named in one refusal.
PROBLEMS_MAX: Final = 5

FinishedKind = Literal["succeeded", "failed", "unknown", "staged"]
_FINISHED_KINDS: dict[State, FinishedKind] = {
    State.STAGED: "staged",
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.UNKNOWN: "unknown",
}
_REFUSED_KINDS: dict[State, Literal["refused", "expired"]] = {
    State.REFUSED: "refused",
    State.EXPIRED: "expired",
}


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a permitted call may begin here."""

    #: CLAIMED, REFUSED or EXPIRED.
    event: Event
    #: For the model; empty where the call may begin.
    reason: str = ""

    @property
    def state(self) -> State:
        """The first stored state of the execution."""
        return MACHINE.next_state(State.NEW, self.event)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt came to."""

    #: SUCCEEDED, FAILED, STAGED, or GAVE_UP where the tool may have run and nobody knows.
    event: Event
    #: What the tool answered; a JSON value.
    data: Any = None
    #: For the model; empty on success.
    error: str = ""
    #: Blocks for the frontend, JSON objects.
    ui_blocks: Sequence[dict[str, Any]] = ()
    #: Stable word of a failure, for programs.
    code: str = ""
    #: Why the tool hands the conversation to people; empty: it does not.
    handover: str = ""
    #: Of a staged call: its place in the workspace.
    staged: Staged | None = None


def admit(
    call: ToolCall, permit: Permit, spec: ToolSpec | None, *, now: datetime, restored: datetime | None = None
) -> Admission:
    """Tell whether `call` may begin at `now`; `spec` is this executor's own entry for its tool, None without one.

    No permit counts that is from before the moment at which the database was `restored` from a backup.
    """
    if restored is not None and permit.iat <= restored.timestamp():
        return Admission(Event.REFUSED, f"{RESTORED_TEXT} {MAY_HAVE_RUN}")
    if problem := misfit(call, spec):
        return Admission(Event.REFUSED, f"{NOTHING_RAN}{problem}.")
    return too_late() if permit.expired(now) else Admission(Event.CLAIMED)


def too_late() -> Admission:
    """Return what becomes of a call whose permit has expired."""
    return Admission(
        Event.EXPIRED, f"{NOTHING_RAN}the permission had expired before a worker was free and its turn had come."
    )


def consent_void() -> Admission:
    """Return what becomes of a call that somebody approved who may decide nothing any more."""
    return Admission(Event.REFUSED, CONSENT_VOID)


def void(*, stop: bool, revoked: bool, late: bool) -> Admission | None:
    """Return what becomes of a call whose permit was good when it came, by what was so when it was taken."""
    if stop:
        return Admission(Event.REFUSED, STOPPED_CALL)
    return consent_void() if revoked else too_late() if late else None


def misfit(call: ToolCall, spec: ToolSpec | None) -> str:
    """Return why `call` is none that this executor can run, half a sentence; empty where it can."""
    if spec is None:
        return f"no worker of this pool has a tool called {call.tool!r}"
    if call.schema_digest != spec.schema_digest:
        return f"the tool {call.tool!r} has changed since the call was permitted"
    try:
        problems = validate_arguments(spec, parse_arguments(call.arguments))
    except NotStrictJson as error:
        return f"the arguments are no strict JSON object ({error})"
    named = "; ".join(f"{problem.pointer or '/'}: {problem.detail}" for problem in problems[:PROBLEMS_MAX])
    return named and f"the arguments do not fit the tool ({named})"


def overdue(seconds: float) -> Outcome:
    """Return the outcome of a tool that said nothing within its time."""
    return Outcome(Event.GAVE_UP, error=f"The tool did not answer within {seconds:g} seconds. {MAY_HAVE_RUN}")


def not_staged(reason: str = "") -> Outcome:
    """Return the outcome of a call that could not be staged."""
    return Outcome(Event.FAILED, error=f"{NOT_STAGED_TEXT} {reason}".rstrip(), code="not_staged")


def in_doubt(text: str, data: Any = None) -> Outcome:
    """Return the outcome of a tool that says itself that it does not know."""
    return Outcome(Event.GAVE_UP, data, f"{text} {MAY_HAVE_RUN}".lstrip())


def crashed(text: str, data: Any, code: str, *, idempotent: bool) -> Outcome:
    """Return the outcome of a tool that raised what it did not mean to say: failed, and honest about its effects."""
    return Outcome(Event.FAILED, data, text if idempotent else f"{text} {MAY_HAVE_RUN}", code=code)


def what_follows(outcome: Outcome, *, idempotent: bool, fence: int, attempts_max: int, verifiable: bool) -> Event:
    """Return what an outcome does to the execution.

    Doubt is overcome by repeating where another attempt is safe and allowed, else by the tool's probe, else not at all.
    """
    if outcome.event is not Event.GAVE_UP:
        return outcome.event
    if idempotent and fence < attempts_max:
        return Event.LET_GO
    return Event.PROBED if verifiable else Event.GAVE_UP


def kind_of(outcome: Outcome) -> FinishedKind:
    """Return the kind of answer that an outcome becomes when it ends the call."""
    return _FINISHED_KINDS[MACHINE.next_state(State.RUNNING, outcome.event)]


def refused(call: ToolCall, admission: Admission) -> ToolCallRefused:
    """Return the one answer to a call that never began."""
    return ToolCallRefused.of(call, _REFUSED_KINDS[admission.state], admission.reason)


def abandoned(message: AbandonCall) -> ToolCallRefused:
    """Return the one answer to a call whose permit was given up before an executor took it."""
    return ToolCallRefused.of(
        message, "failed", f"{NOTHING_RAN}its permit could not be handled, and an operator gave it up."
    )


def resolved(said: ResolveCall, call: ToolCall, *, at: datetime) -> CallResolved:
    """Return what the conversation is told when a person has looked."""
    return CallResolved(**_ids(call), outcome=said.outcome, note=said.note, by=said.by, resolved_at=at)


def answer(
    call: ToolCall, outcome: Outcome, *, fence: int, started_at: datetime, finished_at: datetime, held: bool = False
) -> ToolCallFinished | ToolCallRefused:
    """Return the one answer to a call that began, or that took no effect, as its probe found.

    The latter is told as what never ran: then what the call took of limits is given back.
    """
    if outcome.code == NOT_RUN:
        return ToolCallRefused.of(call, "failed", outcome.error)
    return finished(call, outcome, fence=fence, started_at=started_at, finished_at=finished_at, held=held)


def finished(
    call: ToolCall, outcome: Outcome, *, fence: int, started_at: datetime, finished_at: datetime, held: bool = False
) -> ToolCallFinished:
    """Return the one answer to a call that began; `held` says that people were asked about it."""
    return ToolCallFinished(
        **_ids(call),
        kind=kind_of(outcome),
        data=outcome.data,
        error=outcome.error,
        ui_blocks=list(outcome.ui_blocks),
        handover=Handover(reason=outcome.handover) if outcome.handover else None,
        staged=outcome.staged,
        edited=call.edited,
        executed=call.shown_arguments if call.edited else "",
        held=held,
        attempt=fence,
        started_at=started_at,
        finished_at=finished_at,
    )


def progressed(call: ToolCall, fraction: float | None, text: str, *, fence: int) -> ToolCallProgressed:
    """Return what the conversation is told while the call runs."""
    return ToolCallProgressed(**_ids(call), fraction=fraction, text=text, attempt=fence)


def _ids(call: ToolCall) -> dict[str, str]:
    """Return what every message about a call says."""
    names = ("tenant", "call_id", "conversation_id", "tool")
    return {name: getattr(call, name) for name in names}
