"""All SQL of policy: verdicts here, `limits`, `grants` and `rulebooks` beside it.

Statements are built once: building one costs more than running it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.messages import AbandonCall, ApprovalRule, ToolCall
from placet.policy.rules import CallFacts, Verdict
from placet.policy.rules.call import COUNTERS, facts_from
from placet.policy.rules.staging import StagedEntry, StageTerms, terms_of
from placet.policy.tables import VERDICTS
from placet.runtime.queries import load_queries, query
from placet.runtime.work import Work

QUERIES = load_queries(__file__)
_OF_CALLS = ("call_id", "tenant", "conversation_id", "tool", "digest", "schema_digest")
#: The same in a transaction.
_ADD = query("add_verdicts", f"WITH {QUERIES.add_verdicts.source} TABLE effect")


_ITS = VERDICTS.alias("its")
#: What was judged before the call was judged first: all there is, where that is now.
_BEFORE_IT = ~sa.exists().where(
    _ITS.c.call_id == sa.bindparam("call_id"),
    sa.tuple_(_ITS.c.judged_at, _ITS.c.verdict_id) <= sa.tuple_(VERDICTS.c.judged_at, VERDICTS.c.verdict_id),
)


#: What was judged before a call that has its verdict.
_BEFORE_ENTRY = sa.tuple_(VERDICTS.c.judged_at, VERDICTS.c.verdict_id) < sa.tuple_(_ITS.c.judged_at, _ITS.c.verdict_id)


def _counts(of: Callable[[str], sa.ColumnElement[Any]], before: sa.ColumnElement[bool]) -> list[sa.ScalarSelect[int]]:
    """Count, per counter, the calls that were judged `before` a call whose columns are `of` their names."""
    now, c, found = sa.bindparam("now", type_=sa.TIMESTAMP(timezone=True)), VERDICTS.c, []
    for shared, window in COUNTERS.values():
        same = [c[name] == of(name) for name in ("tenant", "tool", shared)]
        since = c.judged_at > now - sa.literal(window, sa.Interval)
        found.append(sa.select(sa.func.count()).select_from(VERDICTS).where(*same, since, before).scalar_subquery())
    return found


_HISTORY = sa.select(*_counts(sa.bindparam, _BEFORE_IT))
_HISTORIES = sa.select(_ITS.c.call_id, *_counts(lambda name: _ITS.c[name], _BEFORE_ENTRY)).where(
    _ITS.c.tenant == sa.bindparam("tenant"),
    _ITS.c.call_id == sa.any_(sa.bindparam("call_ids", type_=pg.ARRAY(pg.TEXT))),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A verdict to be stored."""

    verdict_id: str
    call: ToolCall | AbandonCall
    verdict: Verdict
    #: The text that `kept` makes of the call; None for a call that nobody has seen.
    facts: str | None = None


async def add_verdicts(work: Work, entries: Sequence[Entry]) -> set[str]:
    """Store verdicts; return the ids of the calls that had none. A second proposal waits for the first one's commit.

    No two may be of one call.
    """
    return {row["key"] for row in await work.connection.run(_ADD, **_given(entries, work.now))}


async def add_verdicts_once(work: Work, entries: Sequence[Entry]) -> set[str]:
    """Do the same with what was handed over by the calls' ids, in one statement."""
    return {row["key"] for row in await work.execute_once(QUERIES.add_verdicts, **_given(entries, work.now))}


def _given(entries: Sequence[Entry], judged_at: datetime) -> dict[str, Any]:
    calls, answers = [each.call for each in entries], [_answer(each.verdict, each.call) for each in entries]
    return {
        "verdict_ids": [each.verdict_id for each in entries],
        **{f"{name}s": [getattr(call, name) for call in calls] for name in _OF_CALLS},
        "requesters": [call.requester if isinstance(call, ToolCall) else "" for call in calls],
        **{f"{name}s": [answer[name] for answer in answers] for name in answers[0]},
        "rulebook_digests": [each.verdict.rulebook_digest for each in entries],
        "facts": [each.facts for each in entries],
        "judged_at": judged_at,
    }


async def change_verdict(work: Work, entry: Entry, verdict: Verdict) -> None:
    """Change a verdict that this transaction has stored: a limit had no room, or a grant covers the call."""
    answer = _answer(verdict, entry.call)
    await work.connection.run(QUERIES.change_verdict, verdict_id=entry.verdict_id, **answer)


async def load_staged(work: Work, call: ToolCall, call_ids: Sequence[str]) -> tuple[StagedEntry, ...]:
    """Return those of these calls that policy let the tenant and conversation of `call` stage, in the order given."""
    place = {"tenant": call.tenant, "conversation_id": call.conversation_id}
    rows = await work.connection.run(QUERIES.staged_calls, call_ids=list(call_ids), **place)
    found = {row["call_id"]: _staged_from(row) for row in rows}
    return tuple(found[call_id] for call_id in call_ids if call_id in found)


async def load_staged_facts(work: Work, call: ToolCall, call_ids: Sequence[str]) -> list[CallFacts]:
    """Return what the rules looked at of those of these calls that the conversation of `call` staged, in that order."""
    place = {"tenant": call.tenant, "conversation_id": call.conversation_id}
    rows = await work.connection.run(QUERIES.staged_facts, call_ids=list(call_ids), **place)
    found = {row["call_id"]: facts_from(row["facts"], row) for row in rows}
    return [found[call_id] for call_id in call_ids if call_id in found]


def _staged_from(row: Mapping[str, Any]) -> StagedEntry:
    return StagedEntry(
        row["call_id"],
        row["tool"],
        row["requester"],
        row["digest"],
        StageTerms.model_validate_json(row["terms"]),
        ApprovalRule.model_validate_json(row["approval"]) if row["approval"] else None,
        row["seconds_left"],
        row["reason"],
        row["rule"],
    )


async def load_history(work: Work, call: ToolCall) -> dict[str, int]:
    """Return how many calls of this tool were judged lately and before `call` was judged first, for conditions.

    What is judged at the same moment elsewhere is not seen: limits are exact, these counters are not.
    """
    values = {name: getattr(call, name) for name in ("tenant", "conversation_id", "requester", "tool", "call_id")}
    row = (await work.connection.execute(_HISTORY, {**values, "now": work.now})).one()
    return dict(zip(COUNTERS, row, strict=True))


async def load_histories(work: Work, tenant: str, call_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the same of each of these calls, which have verdicts, by its id."""
    rows = await work.connection.execute(_HISTORIES, {"tenant": tenant, "call_ids": list(call_ids), "now": work.now})
    return {call_id: dict(zip(COUNTERS, counts, strict=True)) for call_id, *counts in rows}


def _answer(verdict: Verdict, call: ToolCall | AbandonCall) -> dict[str, str | None]:
    given: dict[str, str | None] = {
        name: getattr(verdict, name) for name in ("effect", "rule", "reason", "model_reason")
    }
    given["approval"] = verdict.approval.model_dump_json(exclude_defaults=True) if verdict.approval else None
    given["terms"] = _terms(verdict, call) if verdict.plan else None
    return given


def _terms(verdict: Verdict, call: ToolCall | AbandonCall) -> str | None:
    if verdict.plan is None or verdict.spec is None or not isinstance(call, ToolCall):
        return None
    return terms_of(verdict.spec, verdict.plan, call).model_dump_json()


async def load_approval(work: Work, tenant: str, call_id: str) -> ApprovalRule | None:
    """Return whom policy had asked about a held call; None where it asked nobody or does not know any more."""
    rows = await work.connection.run(QUERIES.approval_of, tenant=tenant, call_id=call_id)
    return ApprovalRule.model_validate_json(rows[0]["approval"]) if rows and rows[0]["approval"] else None


async def load_digests(work: Work, call_ids: Sequence[str]) -> dict[str, str]:
    """Return the digests of calls that have a verdict."""
    rows = await work.connection.run(QUERIES.digests, call_ids=call_ids)
    return {row["call_id"]: row["digest"] for row in rows}
