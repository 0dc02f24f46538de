"""Staged calls, and the one call that commits them: what a verdict keeps of each, and what the commit asks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from placet.contracts.ids import call_id
from placet.contracts.messages import ApprovalRule, StagedCall, StagePlan, ToolCall
from placet.contracts.messages.stage import OnFailure
from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import ToolSpec
from placet.domain.strictest import strictest

#: Categories that may stand on a card, the most dangerous first.
_BY_DANGER = (Category.UNSAFE_EXEC, Category.UNSAFE_API)


class StageTerms(BaseModel):
    """What a verdict keeps of a staged call beside who decides: what its permit will have to say."""

    model_config = ConfigDict(frozen=True)

    pool: str
    message_id: str
    #: True: the tool's pack stages what it changes; else the whole call waits.
    changes: bool
    on_failure: OnFailure
    category: Category
    #: Of an attempt at a job: the conversation in which its job is committed; None: its own.
    commits_in: str | None = Field(default=None, exclude_if=lambda value: value is None)
    #: How long it waits undecided; None: as long as its job does.
    expires_after_seconds: int | None = Field(default=None, exclude_if=lambda value: value is None)


@dataclass(frozen=True, slots=True)
class StagedEntry:
    """A call that policy let somebody stage."""

    call_id: str
    tool: str
    requester: str
    digest: str
    terms: StageTerms
    #: Who decides whether it takes effect; None leaves it to the commit's own rule.
    approval: ApprovalRule | None
    #: How long it still waits when it is loaded; None where nobody knows, or no clock runs.
    seconds_left: int | None = None
    #: What its rule says of such calls.
    reason: str = ""
    #: The rule that staged it; empty where it is only tried.
    rule: str = ""

    @property
    def staged_call(self) -> StagedCall:
        """What approval needs to let it run after the commit."""
        return StagedCall(
            call_id=self.call_id,
            tool=self.tool,
            pool=self.terms.pool,
            digest=self.digest,
            requester=self.requester,
            message_id=self.terms.message_id,
            on_failure=self.terms.on_failure,
        )


def terms_of(spec: ToolSpec, plan: StagePlan, call: ToolCall) -> StageTerms:
    """Return what a verdict keeps of a call of `spec` that is staged by `plan`."""
    return StageTerms(
        pool=spec.pool,
        message_id=call.message_id,
        changes=spec.stage is not None,
        on_failure=plan.on_failure,
        category=spec.category,
        commits_in=call.base and call.base.conversation_id,
        expires_after_seconds=None if call.base else plan.expires_after_seconds,
    )


def tried_entry(
    call_id: str, requester: str, spec: ToolSpec, on_failure: OnFailure, approval: ApprovalRule | None
) -> StagedEntry:
    """Return what a commit that is only tried has of a call of `spec`, whose message and clock nobody knows."""
    changes, category = spec.stage is not None, spec.category
    terms = StageTerms(pool=spec.pool, message_id="message", changes=changes, on_failure=on_failure, category=category)
    return StagedEntry(call_id, spec.name, requester, spec.schema_digest, terms, approval)


def staged_before(call: ToolCall, earlier: Sequence[int], judged: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the calls that must have been staged, or cannot be any more, before `call` is: those before it.

    `earlier` are their positions in the model's answer; `judged` says of calls whose verdict is known whether they are
    staged. Back to the nearest that is, for that one waits for those before it.
    """
    found: list[str] = []
    for position in reversed(earlier):
        each = call_id(call.turn_id, call.step, position)
        staged = judged.get(each)
        if staged is not False:
            found.append(each)
        if staged:
            break
    return tuple(reversed(found))


def wanted_entries(arguments: Mapping[str, Any]) -> list[str]:
    """Return the entries that arguments of a commit name, whatever else they are; none where they name none."""
    entries = arguments.get("entries")
    return [each for each in entries if isinstance(each, str)] if isinstance(entries, list) else []


def problem(arguments: Mapping[str, Any], entries: Sequence[StagedEntry] | None) -> str:
    """Return why nobody may commit these entries, half a sentence; empty where people may decide.

    `entries` are those of the arguments that policy let this conversation stage.
    """
    wanted = arguments["entries"]
    if len(set(wanted)) < len(wanted):
        return "an entry stands in it twice"
    known = {entry.call_id for entry in entries or ()}
    missing = [call_id for call_id in wanted if call_id not in known]
    if missing:
        return f"call {missing[0]} was never staged in this conversation"
    is_over = all(entry.seconds_left is not None and entry.seconds_left <= 0 for entry in entries or ())
    return "the time in which people could decide about it is over" if is_over else ""


#: Reasons of entries' rules that a commit tells.
REASONS_MAX = 3
#: What is said of a single call's arguments says nothing of a commit: grants and veto windows stay out, and people may
#: always leave entries out.
_CLEARED = {
    "grants": None,
    "edits": True,
    "veto_window_seconds": 0,
    "veto_on": "arguments",
    "veto_within": "conversation",
    "independent": False,
}


def names_people(entries: Sequence[StagedEntry]) -> bool:
    """Tell whether a rule of one of the entries says who decides about it."""
    return any(entry.approval is not None for entry in entries)


def commit_approval(own: ApprovalRule | None, entries: Sequence[StagedEntry], default: ApprovalRule) -> ApprovalRule:
    """Return who decides a commit: at least whom its own rule and each entry's rule ask.

    An entry whose rule names nobody asks `default`, whatever is asked because of the others. People may always leave
    entries out. Nobody can allow commits from now on: each is of another tree.
    """
    asked = [(entry.approval or default).model_copy(update=_CLEARED) for entry in entries]
    rules = asked if own is None else [own, *asked]
    return strictest(rules).model_copy(update={"edits": True, "grants": None})


def commit_reason(own: str, entries: Sequence[StagedEntry]) -> str:
    """Return why people are asked about a commit: its own reason, and those of the rules that name who decides."""
    others = dict.fromkeys(each.reason for each in entries if each.approval is not None and each.reason)
    return " ".join([own, *islice(others, REASONS_MAX)])


def while_it_waits(approval: ApprovalRule, entries: Sequence[StagedEntry]) -> ApprovalRule:
    """Return who decides a commit with a deadline at which its entries are still there: the last of theirs to go."""
    left = [entry.seconds_left for entry in entries]
    known = [each for each in left if each is not None]
    expires = max(1, *known) if known and len(known) == len(left) else approval.expires_after_seconds
    if expires >= approval.expires_after_seconds:
        return approval
    times = {
        "expires_after_seconds": expires,
        "reminders_after_seconds": [each for each in approval.reminders_after_seconds if each < expires],
        "escalations": [each for each in approval.escalations if each.after_seconds < expires],
    }
    return approval.model_copy(update=times)


def pool_of(entries: Sequence[StagedEntry]) -> str:
    """Return the pool that commits: that of the packs whose changes it applies, else that of the first call."""
    return next((entry.terms.pool for entry in entries if entry.terms.changes), entries[0].terms.pool)


def category_of(entries: Sequence[StagedEntry]) -> Category:
    """Return how dangerous a commit is: as its most dangerous call."""
    found = {entry.terms.category for entry in entries if not entry.terms.changes}
    return next((each for each in _BY_DANGER if each in found), Category.UNSAFE_WRITE)
