"""What a commit may run of a workspace, and what it came to. Pure.

The commit names its entries and their digest. Both must be those of the workspace as it stands, or nothing is touched:
what people saw is what runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import to_json

from placet.contracts.canonical import tree_digest
from placet.contracts.messages import CommitArguments, CommitResult, EntryOutcome, ToolCall
from placet.contracts.messages.stage import TOOK_EFFECT, CommitState, EntryKind, EntryOutcomeKind, OnFailure
from placet.domain.standing import standing_on
from placet.executor.states import Event, WorkspaceState

#: Data of all staged calls that one commit's answer carries, in bytes of JSON.
ANSWER_BYTES_MAX: Final = 192 * 1024
STAGED_NOTE: Final = "Nothing has happened yet: it waits in the workspace until people decide about all of it together."
STAGED_CALL_NOTE: Final = (
    f"{STAGED_NOTE} The call has no result before that, so no other call may use anything that it would return."
)
NOT_APPLIED: Final = "Nothing of the workspace was applied: "
HALF_MADE: Final = "another commit has changed the same in part, and nobody has gone on with it yet"
STOPPED_TEXT: Final = "It was not run, because what came before it did not succeed."
LEFT_TEXT: Final = "It stood on a change that people left out."
FELL_TEXT: Final = "It stood on a change that was not applied."
_FAILED_TEXT: Final = "What a failed call may have done, its own error says."
CONFLICT_TEXT: Final = "Others have changed the same in the meantime. Look at it again, and make the change anew."


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a workspace, as it stands."""

    call_id: str
    position: int
    tool: str
    kind: EntryKind
    digest: str
    keys: Sequence[str]
    summary: str
    on_failure: OnFailure
    #: See `placet.executor.tables.EntryState`.
    state: str
    data: Any = None
    error: str = ""
    ui_blocks: Sequence[dict[str, Any]] = ()
    handover: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.state not in {"waiting", "kept"}

    @property
    def good(self) -> bool:
        """Whether it took effect."""
        return self.state in TOOK_EFFECT


@dataclass(frozen=True, slots=True)
class Decision:
    """What a commit lets through of a workspace."""

    kept: Sequence[Entry] = ()
    left_out: Sequence[Entry] = ()
    #: What was staged since on what is left out.
    fallen: Sequence[Entry] = ()
    #: Why nothing may be applied, half a sentence; empty where all is well.
    problem: str = ""


def not_applied(entry: Entry, conflicts: Collection[str]) -> str:
    """Return what becomes of an entry of a commit of which nothing is applied."""
    if set(conflicts) & set(entry.keys):
        return "conflicted"
    return "refused" if conflicts or entry.kind == "call" else "failed"


def arguments_of(text: str) -> CommitArguments | None:
    """Return the arguments of a commit; None where the text has none."""
    try:
        return CommitArguments.model_validate_json(text)
    except ValidationError:
        return None


def decide(entries: Sequence[Entry], call: ToolCall) -> Decision:
    """Return what `call` lets through of a workspace's entries, which come in their order."""
    arguments = arguments_of(call.arguments)
    if arguments is None:
        return Decision(problem="the commit names no entries")
    by_id = {entry.call_id: entry for entry in entries}
    named = [by_id.get(call_id) for call_id in arguments.entries]
    kept = [entry for entry in named if entry is not None]
    positions = [entry.position for entry in kept]
    if len(kept) < len(named) or any(entry.state != "waiting" for entry in kept):
        return Decision(problem="the workspace has other entries by now")
    if positions != sorted(set(positions)):
        return Decision(problem="the entries are not in their order")
    if tree_digest([(entry.call_id, entry.digest) for entry in kept]) != arguments.tree_digest:
        return Decision(problem="its digest is not that of what people were shown")
    proposed = _proposed(call) | set(arguments.entries)
    others = [entry for entry in entries if entry.state == "waiting" and entry.call_id not in set(arguments.entries)]
    left_out = [entry for entry in others if entry.call_id in proposed]
    if torn := _torn(kept, others, left_out):
        return Decision(problem=f"some changes of {torn!r} were left out, and they stand and fall together")
    return Decision(kept, left_out, fallen(others, {entry.call_id for entry in left_out}))


def fallen(entries: Iterable[Entry], gone: Collection[str]) -> list[Entry]:
    """Return what waits and cannot stand without entries that are gone, in order."""
    return standing_on((entry for entry in entries if entry.state == "waiting" or entry.call_id in gone), gone)


def _proposed(call: ToolCall) -> set[str]:
    """Return the entries that people were asked about, before they left some out."""
    proposed = arguments_of(call.edited.proposed) if call.edited else None
    return set(proposed.entries) if proposed else set()


def _torn(kept: Iterable[Entry], others: Iterable[Entry], left_out: Iterable[Entry]) -> str:
    """Return a key that was changed by what is let through and by what is not, where it came before or was shown."""
    last = {key: entry.position for entry in kept for key in entry.keys}
    out = {entry.call_id for entry in left_out}
    for entry in others:
        for key in entry.keys:
            if key in last and (entry.call_id in out or entry.position < last[key]):
                return key
    return ""


@dataclass(frozen=True, slots=True)
class Step:
    """What one entry made of one key."""

    call_id: str
    pack: str
    key: str
    base: str | None
    base_mode: int | None
    after: str | None
    after_size: int
    after_mode: int | None


@dataclass(slots=True)
class Net:
    """What several entries make of one key in the end."""

    first: Step
    last: Step
    call_ids: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        """Whether anything is left to do."""
        first, last = self.first, self.last
        return (first.base, first.base_mode if first.base else None) != (
            last.after,
            last.after_mode if last.after else None,
        )


def net(steps: Iterable[Step]) -> dict[str, list[Net]]:
    """Return by pack what steps, in their order, make of each key; keys that end as they began are left out."""
    found: dict[tuple[str, str], Net] = {}
    for step in steps:
        known = found.setdefault((step.pack, step.key), Net(step, step))
        known.last = step
        known.call_ids.append(step.call_id)
    packs: dict[str, list[Net]] = {}
    for (pack, _), each in found.items():
        if each.changes:
            packs.setdefault(pack, []).append(each)
    return packs


def result_of(entries: Sequence[Entry]) -> CommitResult:
    """Return what a commit is answered with: each of its entries, in order."""
    let_through = [entry for entry in entries if entry.state != "left_out"]
    state: CommitState = "partly_committed"
    if all(entry.good for entry in let_through):
        state = "committed"
    elif any(entry.state == "conflicted" for entry in let_through):
        state = "conflicted"
    elif not any(entry.good or entry.state == "unknown" for entry in let_through):
        state = "discarded"
    return CommitResult(state=state, entries=list(_outcomes(entries)))


def _outcomes(entries: Sequence[Entry]) -> Iterable[EntryOutcome]:
    room = ANSWER_BYTES_MAX
    for entry in entries:
        room -= len(to_json(entry.data))
        outcome: EntryOutcomeKind = entry.state  # type: ignore[assignment]  # ended: see EntryState
        yield EntryOutcome(
            call_id=entry.call_id,
            tool=entry.tool,
            outcome=outcome,
            summary=entry.summary,
            data=entry.data if room >= 0 else {"left_out": "too long for one answer"},
            error=entry.error,
        )


def error_of(result: CommitResult) -> str:
    """Return what the model reads of a commit that did not do all; empty where it did."""
    bad = [entry for entry in result.entries if entry.outcome not in TOOK_EFFECT | {"left_out"}]
    if not bad:
        return ""
    if result.state == "conflicted":
        names = ", ".join(entry.summary for entry in bad if entry.outcome == "conflicted")
        return f"{NOT_APPLIED}others have changed the same in the meantime ({names[:500]})."
    done = sum(entry.outcome in TOOK_EFFECT for entry in result.entries)
    named = "; ".join(f"{entry.tool}: {entry.outcome}" for entry in bad[:10])
    others = "nobody knows of all others" if any(entry.outcome == "unknown" for entry in bad) else "not the others"
    told = f"{done} of {len(result.entries)} entries succeeded, and {others} ({named})."
    # It may have run, and done something, before it failed.
    began = any(entry.outcome == "failed" and not entry.error.startswith((NOT_APPLIED, FELL_TEXT)) for entry in bad)
    return f"{told} {_FAILED_TEXT}" if began else told


def why_closed(workspace: Mapping[str, Any] | None, conversation: str) -> str:
    """Return why nothing of a workspace may be committed, half a sentence; empty where it may."""
    if workspace is None or workspace["conversation_id"] != conversation:
        return "there is no such workspace"
    if workspace["overdue"]:
        return "nobody decided in time"
    match WorkspaceState(workspace["state"]):
        case WorkspaceState.OPEN:
            return ""
        case WorkspaceState.COMMITTING:
            return "another commit of it is under way"
        case ended:
            return f"it was {ended.value.replace('_', ' ')} before"


def event_of(entries: Sequence[Entry]) -> Event:
    """Return what the entries of a commit, which have all ended, make of it."""
    let_through = [each for each in entries if each.state != "left_out"]
    if all(each.good for each in let_through):
        return Event.SUCCEEDED
    return Event.GAVE_UP if any(each.state == "unknown" for each in let_through) else Event.FAILED
