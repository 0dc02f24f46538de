"""Staged entries as the agent sees them: which still wait for a decision, the call that commits them, and their ends.

Pure. The executor owns the workspace and its contents; the agent knows the order, the digests, and whether people were
asked yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import ValidationError

from placet.agent.rules import CheckedCall, Claim, Result, Settlement
from placet.agent.states import Event
from placet.contracts.canonical import call_digest, canonical_text, tree_digest
from placet.contracts.ids import call_id
from placet.contracts.messages import COMMIT_TOOL, PROPOSE_TOOL, CommitArguments, CommitResult, ResultKind
from placet.contracts.messages.stage import Decide, Dropped, EntryOutcome, EntryOutcomeKind
from placet.domain.catalog import Catalog
from placet.domain.house_tools import COMMIT_SPEC, PROPOSE_SPEC

#: What the model is told of a staged call where the executor has not said it.
STAGED_NOTE = (
    "Staged, not done: nothing has happened yet. It takes effect when people have let it through, after this turn or "
    "when you call propose_changes. What it would return does not exist yet: let no later call depend on it."
)
ALONE = "not accepted: call propose_changes alone, after the results of the other calls"
NOTHING_STAGED = "nothing is staged that people have not been asked about"
FIRST_DECIDED = (
    "not accepted yet: people decide first about what is staged. Call final_answer again when you have heard what they "
    "decided"
)
DISCARDED = "Nothing of it happened: what was staged was thrown away."
FELL = "It stood on a change that people did not let through."
#: Why people are asked no more about a commit that had such an entry.
ASKED_ANEW = "Not run: some of it stood on a change that people did not let through. The rest is proposed again."
EXPIRED = "Nobody decided in time."
#: What the model is told of it with the next message.
EXPIRED_TEXT = (
    "From the system, not from the user: what you had staged was thrown away, because nobody decided in time. "
    "Nothing of it happened."
)
#: Names of one kind that anybody is told, at most.
LISTED_MAX = 10
#: What becomes of undecided entries when their commit ended without having run.
Fate = Literal["kept", "discarded"]

_DROPPED: Mapping[str, Dropped] = {"left_out": "left_out", "conflicted": "conflicted", "refused": "refused"}
_KINDS: Mapping[EntryOutcomeKind, ResultKind] = {
    "committed": "succeeded",
    "succeeded": "succeeded",
    "conflicted": "failed",
    "failed": "failed",
    "refused": "refused",
    "left_out": "denied",
    "unknown": "unknown",
}


@dataclass(slots=True)
class StagedEntry:
    """An entry that waits for its end. `commit_id` is the commit that people are asked about, None where none is."""

    call_id: str
    workspace_id: str
    position: int
    digest: str
    decide: Decide
    commit_id: str | None
    #: Of its call.
    turn_id: str
    tool: str
    message_id: str
    #: Of the turn that staged it.
    author: dict[str, str]
    cause: dict[str, str]
    #: What it changes; of a call that waits itself none.
    keys: list[str] = field(default_factory=list)

    @property
    def names(self) -> dict[str, str]:
        """What every item about its call says."""
        return {"call_id": self.call_id, "turn_id": self.turn_id, "tool": self.tool}


def with_propose(tools: Catalog) -> Catalog:
    """Return the tools that are offered where something is staged: the model may ask for a decision about it."""
    return tools if PROPOSE_SPEC.name in tools else Catalog([*tools.values(), PROPOSE_SPEC], redacts=tools.redacts)


def due(entries: Iterable[StagedEntry], *asked: Decide) -> list[StagedEntry]:
    """Return the entries of the workspace to propose now, in order: one whose rule is among `asked` is enough.

    None while people are asked about a commit already: what was staged since waits until that has ended.
    """
    waiting = sorted(entries, key=lambda each: (each.workspace_id, each.position))
    if any(each.commit_id for each in waiting):
        return []
    for workspace_id in dict.fromkeys(each.workspace_id for each in waiting):
        chosen = [each for each in waiting if each.workspace_id == workspace_id]
        if any(each.decide in asked for each in chosen):
            return chosen
    return []


def commit_of(
    claim: Claim, entries: Sequence[StagedEntry], *, position: int, provider_call_id: str = ""
) -> CheckedCall:
    """Return the house's call that proposes entries, as if the model had made it at `position` of its answer."""
    named = [(each.call_id, each.digest) for each in entries]
    return commit_call(claim, entries[0].workspace_id, named, position=position, provider_call_id=provider_call_id)


def commit_call(
    claim: Claim, workspace_id: str, entries: list[tuple[str, str]], *, position: int, provider_call_id: str = ""
) -> CheckedCall:
    """Return the same for the entries of a workspace by their calls' ids and digests, in order."""
    ids = [call_id for call_id, _ in entries]
    arguments = CommitArguments(workspace_id=workspace_id, tree_digest=tree_digest(entries), entries=ids)
    text = canonical_text(arguments.model_dump())
    digest = call_digest(
        tenant=claim.tenant,
        conversation_id=claim.conversation_id,
        tool=COMMIT_TOOL,
        schema_digest=COMMIT_SPEC.schema_digest,
        arguments=text,
    )
    return CheckedCall(
        call_id=call_id(claim.turn_id, claim.step, position),
        position=position,
        provider_call_id=provider_call_id,
        tool=COMMIT_TOOL,
        arguments=text,
        shown_arguments=text,
        schema_digest=COMMIT_SPEC.schema_digest,
        digest=digest,
    )


def with_commit(settlement: Settlement, claim: Claim, entries: Sequence[StagedEntry]) -> Settlement:
    """Return what an answer of the model means where these entries are staged: its end may be their proposal."""
    asked = [call for call in settlement.calls if call.tool == PROPOSE_TOOL and call.result is None]
    if asked:
        return _proposed(settlement, asked, claim, due(entries, "turn", "on_request", "each"))
    if settlement.event is not Event.ANSWERED:
        return settlement
    chosen = due(entries, "turn", "each")
    if not chosen:
        return settlement
    refused = tuple(replace(call, result=Result("invalid", error=FIRST_DECIDED)) for call in settlement.calls)
    commit = commit_of(claim, chosen, position=len(refused))
    return Settlement(Event.CALLS_PROPOSED, (*refused, commit))


def _proposed(
    settlement: Settlement, asked: Sequence[CheckedCall], claim: Claim, chosen: Sequence[StagedEntry]
) -> Settlement:
    """Let the model's wish become the house's call, or say why it cannot."""
    error = ALONE if len(settlement.calls) > 1 else "" if chosen else NOTHING_STAGED
    if not error:
        (wish,) = asked
        commit = commit_of(claim, chosen, position=wish.position, provider_call_id=wish.provider_call_id)
        return replace(settlement, calls=(commit,))
    refused = Result("invalid", error=error)
    return settlement.with_calls(replace(call, result=refused) if call in asked else call for call in settlement.calls)


def outcomes(result: Result, entries: Iterable[StagedEntry]) -> list[EntryOutcome] | None:
    """Return what became of each entry, by the result of a commit that ran or may have run; None where it did not."""
    try:
        return CommitResult.model_validate(result.data).entries
    except ValidationError:
        if result.kind != "unknown":
            return None
        doubt: dict[str, Any] = {"outcome": "unknown", "error": result.error or result.reason}
        return [EntryOutcome(call_id=each.call_id, tool=each.tool, **doubt) for each in entries]


def named_in(data: Any) -> list[str]:
    """Return the calls that a result names where it is that of a commit."""
    entries = data.get("entries") if isinstance(data, Mapping) else None
    named = [each.get("call_id") for each in entries if isinstance(each, Mapping)] if isinstance(entries, list) else []
    return [each for each in named if isinstance(each, str)]


def dropped(found: Iterable[EntryOutcome]) -> dict[Dropped, list[str]]:
    """Return the entries that never took effect, by what became of them."""
    calls: dict[Dropped, list[str]] = {}
    for each in found:
        if (kind := _DROPPED.get(each.outcome)) is not None:
            calls.setdefault(kind, []).append(each.call_id)
    return calls


def outcome_result(outcome: EntryOutcome) -> Result:
    """Return the end of an entry as the result of its call."""
    error = outcome.error or ("A person left it out: it did not run." if outcome.outcome == "left_out" else "")
    return Result(_KINDS[outcome.outcome], data=outcome.data, error=error)


def fate(result: Result, *, stopped: bool, ended: bool) -> Fate:
    """Return what becomes of entries whose commit came to nothing.

    What people turned down, or can never be committed, is thrown away. What the conversation itself took back, or a
    person answered with words, may be proposed again.
    """
    if ended:
        return "discarded"
    taken_back = result.kind in {"superseded", "answered"} or (result.kind == "cancelled" and stopped)
    return "kept" if taken_back else "discarded"


def asked_text(by: str) -> str:
    """Return what the model reads where a person asked for the decision: nobody wrote a message to it."""
    return f"(From the system: {json.dumps(by, ensure_ascii=False)} asked that people decide now about what is staged.)"


def failed_texts(reason: str) -> tuple[str, str]:
    """Return what the model reads, and what people read with the card, of a turn that failed with something staged."""
    asked = "(From the system: your turn failed. People are asked whether what you had staged until then shall happen.)"
    return asked, f"The turn failed before it was done. {reason} What it had staged until then may be only a part."


def discarded_text(by: str, reason: str) -> str:
    """Return what the model is told with the next message of what a person threw away."""
    said = f" They said: {json.dumps(reason, ensure_ascii=False)}." if reason else ""
    return f"From the system, not from the user: {by} threw away what you had staged. Nothing of it happened.{said}"


def fell_text(entries: Iterable[StagedEntry]) -> str:
    """Return what the model is told with the next message of what stood on changes that never came."""
    named = listed(dict.fromkeys(key for each in entries for key in each.keys))
    return (
        f"From the system, not from the user: what you had staged later on {named} was thrown away too, because "
        "it stood on a change that people did not let through. Nothing of it happened."
    )


def listed(names: Iterable[str]) -> str:
    """Return the first of some names, quoted, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - LISTED_MAX} more" if len(every) > LISTED_MAX else ""
    return ", ".join(json.dumps(each, ensure_ascii=False) for each in every[:LISTED_MAX]) + more


def staged_data(data: Any) -> Any:
    """Return what the model reads of a staged call, with the note that nothing has happened yet."""
    if isinstance(data, Mapping):
        return data if "note" in data else {**data, "note": STAGED_NOTE}
    return {"note": STAGED_NOTE} if data is None else {"data": data, "note": STAGED_NOTE}
