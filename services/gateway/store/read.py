"""What the gateway reads of other services: the views of schema `read`, and never their tables.

Every statement is bound to one tenant, but for the house's rulebooks; a row of another tenant is not found. Rows come
back as read-only mappings with the views' column names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.ids import is_of_job
from placet.contracts.messages import COMMIT_TOOL
from placet.contracts.visitors import ANSWERED
from placet.domain.approvers import identity_of
from placet.gateway.tables import API_KEYS, CONVERSATIONS, RESTORES, STOPS
from placet.runtime.sql import Connection

Row = Mapping[str, Any]
#: Tenant and conversation.
Place = tuple[str, str]

#: Of columns that are no plain values.
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(["approvers", "approval_rule", "delegations", "seats", "closed_to", "voters"], pg.JSONB),
    **dict.fromkeys(["edited", "differences", "labels", "origins", "roles"], pg.JSONB),
    **dict.fromkeys(("bounds", "result", "final_answer", "detail", "details"), pg.JSONB),
    "deciders": pg.ARRAY(pg.TEXT),
    # The operators of texts.
    "searched": sa.Text(),
}


def _view(name: str, columns: str) -> sa.TableClause:
    typed: list[sa.ColumnClause[Any]] = [sa.column(each, _TYPES.get(each)) for each in columns.split()]
    return sa.table(name, *typed, schema="read")


APPROVALS = _view(
    "approvals",
    "approval_id tenant conversation_id call_id turn_id tool category arguments digest schema_digest revision state"
    " summary rule rulebook_digest reason approvers requester agent language created_at expires_at decided_by"
    " decision_reason answer_kind closed_at arguments_revision edited approval_rule steps_done next_step_at claimed_by"
    " claimed_until delegations seats closed_to voters cancel_asked_by cancel_asked_at deciders deciders_digest labels"
    " arguments_masked searched origins",
)
WORDS = _view("approval_words", "tenant word is_open created_at approval_id")
CALLS = _view(
    "tool_calls",
    "call_id tenant conversation_id turn_id message_id step position tool arguments digest state result_kind result"
    " proposed_at answered_at held next_message",
)
#: How the id of a conversation ends that a job works in.
_OF_JOB: sa.ColumnElement[str] = sa.literal_column("'job-[0-9a-f]{32}$'")
_NEVER: sa.ColumnElement[Any] = sa.literal_column("'infinity'::timestamptz")
_ENTRIES = _view("workspace_entries", "tenant conversation_id call_id tool requester staged_at")
_VERDICTS = _view("verdicts", "verdict_id call_id tenant effect rule reason rulebook_digest judged_at")
EXECUTIONS = _view(
    "executions",
    "call_id tenant conversation_id pool state fence worker permit_id permit_issuer lease_until started_at"
    " finished_at result_kind error digest permit_expires_at resolution resolved_by resolution_note resolved_at"
    " resolution_signed",
)
DECISIONS = _view(
    "decisions",
    "decision_id tenant approval_id person roles conversation_id verb reason digest revision proof key_id details"
    " outcome arguments_revision counted_revision decided_at",
)
_EDITS = _view(
    "edits",
    "edit_id tenant approval_id person reason state base_revision before before_digest arguments digest differences"
    " refusal rulebook_digest asked_at judged_at",
)
_DELIVERIES = _view(
    "deliveries",
    "delivery_id tenant approval_id channel recipient person state pending revision sent_revision attempt error due_at"
    " updated_at",
)
_HISTORY = _view("history", "tenant machine subject_id call_id event from_state to_state actor message_id at detail")


def opened_by(view: sa.FromClause) -> sa.ColumnElement[Any]:
    """Return who may have asked for an approval's call beside its requester, separated by spaces; empty for nobody.

    The model reads all that is written in a conversation, whoever it answers: so it is everybody who opened it with a
    key that may decide, or had a key that opened it, wrote for its visitor or took its token; and, with a mark before
    them, who wrote in it as themselves, who asked for what a commit is made of, and who made a key for the requester
    that this one had not taken over when the call was held. What was asked with a key may come late: a revoked one, and
    in a job one that was taken over, counts for a month longer.
    """
    c, k = CONVERSATIONS.c, API_KEYS.c
    here = (c.tenant == view.c.tenant, c.conversation_id == view.c.conversation_id)
    present = sa.select(_openers()).where(*here).correlate(view).scalar_subquery()
    theirs = (k.tenant == view.c.tenant, k.person == sa.func.substr(view.c.requester, len(identity_of("")) + 1))
    late = sa.cast(sa.literal_column("'30 days'"), sa.Interval)
    # Who writes in a conversation is noted with the maker of their key. A job may have been begun without one.
    begun = sa.case((view.c.conversation_id.regexp_match(_OF_JOB), view.c.created_at - late), else_=view.c.created_at)
    before = (k.created_at <= view.c.created_at, sa.func.coalesce(k.taken_over_at, _NEVER) > begun)
    working = sa.func.coalesce(k.revoked_at, _NEVER) > view.c.created_at - late
    made = sa.select(_marked(k.created_by)).where(*theirs, *before, working).correlate(view).scalar_subquery()
    makers = sa.case((view.c.requester.like(f"{identity_of('')}%"), made))
    staged = sa.select(_marked(_ENTRIES.c.requester)).where(_is_named(view)).correlate(view).scalar_subquery()
    of_commit = sa.case((view.c.tool == COMMIT_TOOL, staged))
    return sa.func.concat_ws(" ", sa.func.nullif(present, ""), makers, of_commit).label("opened_by")


def _marked(people: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return each of these people with the mark of who holds no token, separated by spaces; NULL for nobody."""
    return sa.func.string_agg(sa.func.concat(ANSWERED, people), sa.literal_column("' '"))


def _openers() -> sa.ColumnElement[Any]:
    """Return who may have asked in a conversation, as `opened_by` says it; empty for nobody."""
    c = CONVERSATIONS.c
    return sa.func.concat_ws(" ", sa.case((c.opener_decides, c.created_by)), sa.func.nullif(c.relayed_by, ""))


def _has_entry(
    view: sa.FromClause, *those: sa.ColumnElement[bool], arguments: sa.ColumnElement[Any] | None = None
) -> sa.Exists:
    """Tell of a commit whether such an entry is among those that its arguments name, or `arguments` in their place."""
    return sa.exists().where(_is_named(view, arguments), *those)


def _is_named(view: sa.FromClause, arguments: sa.ColumnElement[Any] | None = None) -> sa.ColumnElement[bool]:
    """Tell of an entry whether a commit's arguments name it, or `arguments` in their place."""
    e = _ENTRIES.c
    named = sa.func.strpos(view.c.arguments if arguments is None else arguments, e.call_id) > 0
    return sa.and_(e.tenant == view.c.tenant, e.conversation_id == view.c.conversation_id, named)


def stopped(view: sa.FromClause, arguments: sa.ColumnElement[Any] | None = None) -> sa.ColumnElement[Any]:
    """Return why an administrator has stopped such calls; null where nobody has.

    A commit is stopped with any entry that its arguments name, or `arguments` in their place.
    """
    c, e = STOPS.c, _ENTRIES.c
    entry = _has_entry(view, e.tool == c.tool, arguments=arguments).correlate(view, STOPS)
    in_it = sa.and_(view.c.tool == COMMIT_TOOL, entry)
    tool, *covers = [sa.func.coalesce(c[name] == view.c[name], sa.true()) for name in ("tool", "tenant", "agent")]
    found = sa.select(sa.func.min(c.reason)).where(c.resumed_at.is_(None), *covers, sa.or_(tool, in_it)).correlate(view)
    return found.scalar_subquery().label("stopped")


def restored(view: sa.FromClause) -> sa.ColumnElement[Any]:
    """Return when the house was restored since an approval was opened: its call may have run; null where never.

    What was staged before may have been committed meanwhile, whenever people are asked about it.
    """
    at = RESTORES.c.restored_at
    entry = _has_entry(view, _ENTRIES.c.staged_at < at).correlate(view, RESTORES)
    since = sa.or_(at > view.c.created_at, sa.and_(view.c.tool == COMMIT_TOOL, entry))
    found = sa.select(sa.func.max(at)).where(since).correlate(view)
    return found.scalar_subquery().label("restored_at")


def approval_facts(view: sa.FromClause) -> list[Any]:
    """Return the columns of an approval with what is known of it beside its own row."""
    return [view, opened_by(view), stopped(view), restored(view)]


def _approvals_statement() -> sa.Select[Any]:
    arrays = [sa.bindparam(name, type_=pg.ARRAY(pg.TEXT)) for name in ("tenants", "approval_ids")]
    wanted = sa.func.unnest(*arrays).table_valued("tenant", "approval_id", name="wanted").render_derived()
    c = APPROVALS.c
    here = sa.and_(c.tenant == wanted.c.tenant, c.approval_id == wanted.c.approval_id)
    return sa.select(*approval_facts(APPROVALS)).join_from(wanted, APPROVALS, here)


def _openers_statement() -> sa.Select[Any]:
    arrays = [sa.bindparam(name, type_=pg.ARRAY(pg.TEXT)) for name in ("tenants", "places")]
    wanted = sa.func.unnest(*arrays).table_valued("tenant", "place", name="wanted").render_derived()
    c = CONVERSATIONS.c
    here = sa.and_(c.tenant == wanted.c.tenant, c.conversation_id == wanted.c.place)
    return sa.select(c.tenant, c.conversation_id, _openers()).join_from(wanted, CONVERSATIONS, here)


def _votes_statement() -> sa.Select[Any]:
    c, wanted = DECISIONS.c, sa.bindparam("approval_ids", type_=pg.ARRAY(pg.TEXT))
    here = [c.tenant == sa.bindparam("tenant"), c.approval_id == sa.any_(wanted), c.counted_revision.is_not(None)]
    return sa.select(DECISIONS).where(*here).order_by(c.counted_revision, c.decided_at)


def _untold_statement() -> sa.Select[Any]:
    c, wanted = _DELIVERIES.c, sa.bindparam("approval_ids", type_=pg.ARRAY(pg.TEXT))
    here = [c.tenant == sa.bindparam("tenant"), c.approval_id == sa.any_(wanted)]
    held = sa.or_(c.state == sa.literal_column("'kept'"), c.due_at > sa.func.now())
    hidden = sa.or_(c.state == sa.literal_column("'given_up'"), sa.and_(c.sent_revision == 0, held))
    return sa.select(c.approval_id).where(*here).group_by(c.approval_id).having(sa.func.bool_and(hidden))


# Every decision or page runs one of them, and building a statement costs more than running it.
_LOAD_APPROVALS = _approvals_statement()
_LIST_VOTES = _votes_statement()
_LIST_UNTOLD = _untold_statement()
_OPENERS = _openers_statement()
_SHOWN_IN = sa.text("""
WITH RECURSIVE up AS (
    SELECT w.tenant, w.place, w.place AS conversation_id, 0 AS depth
    FROM unnest(CAST(:tenants AS text[]), CAST(:places AS text[])) AS w (tenant, place)
    UNION ALL
    SELECT up.tenant, up.place, j.spec -> 'caller' ->> 'conversation_id', up.depth + 1
    FROM up
    JOIN read.conversations c ON c.tenant = up.tenant AND c.conversation_id = up.conversation_id
    JOIN read.jobs j ON j.tenant = up.tenant AND j.job_id = c.job_id
    WHERE j.spec -> 'caller' ->> 'conversation_id' IS NOT NULL AND up.depth < 100
)
SELECT DISTINCT ON (tenant, place) up.tenant, up.place, up.conversation_id, c.job_id
FROM up LEFT JOIN read.conversations c ON c.tenant = up.tenant AND c.conversation_id = up.conversation_id
ORDER BY tenant, place, depth DESC
""")
#: Who answered in an attempt of a job, by job.
_TOLD_JOBS = sa.text("""
SELECT w.tenant, w.place, string_agg(c.relayed_by, ' ')
FROM unnest(CAST(:tenants AS text[]), CAST(:places AS text[])) AS w (tenant, place)
JOIN read.job_attempts a ON a.tenant = w.tenant AND a.job_id = w.place
JOIN gateway.conversations c ON c.tenant = a.tenant AND c.conversation_id = a.conversation_id AND c.relayed_by <> ''
GROUP BY w.tenant, w.place
""")
_EXECUTION_STATES = sa.text(
    "SELECT call_id, state FROM read.executions WHERE tenant = :tenant AND call_id = ANY(CAST(:call_ids AS text[]))"
)


async def load_approval(connection: Connection, tenant: str, approval_id: str) -> Row | None:
    """Return one approval."""
    return (await load_approvals(connection, [(tenant, approval_id)])).get((tenant, approval_id))


async def load_approvals(connection: Connection, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Row]:
    """Return approvals by tenant and id, those that are there."""
    values = {"tenants": [tenant for tenant, _ in keys], "approval_ids": [approval_id for _, approval_id in keys]}
    found = await with_openers(connection, (await connection.execute(_LOAD_APPROVALS, values)).mappings())
    return {(row["tenant"], row["approval_id"]): row for row in found}


async def with_openers(connection: Connection, rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Return approvals with each once who may have asked, for what a job holds also where the job was called.

    In a job that no conversation called what one attempt was told reaches the others and the commit.
    """
    found = [dict(row) for row in rows]
    if asked := [row for row in found if is_of_job(row["tenant"], row["conversation_id"])]:
        outer = await _outermost(connection, {(row["tenant"], row["conversation_id"]) for row in asked})
        openers = (await connection.execute(_OPENERS, _arrays({shown for shown, _ in outer.values()}))).all()
        told = (await connection.execute(_TOLD_JOBS, _arrays({job for _, job in outer.values() if job}))).all()
        by_place, by_job = ({(tenant, each): people for tenant, each, people in those} for those in (openers, told))
        for row in asked:
            shown, job = outer[row["tenant"], row["conversation_id"]]
            there = (by_place.get(shown, ""), by_job.get(job, "") if job else "")
            row["opened_by"] = " ".join((*there, row["opened_by"]))
    for row in found:
        row["opened_by"] = " ".join(dict.fromkeys(row["opened_by"].split()))
    return found


async def shown_in(connection: Connection, places: Collection[Place]) -> dict[Place, Place]:
    """Return where people see what they are asked in conversations: there, or where their jobs were called."""
    return {place: shown for place, (shown, _) in (await _outermost(connection, places)).items()}


async def _outermost(
    connection: Connection, places: Collection[Place]
) -> dict[Place, tuple[Place, tuple[str, str] | None]]:
    """Return where people see what they are asked in conversations, and the job (tenant, id) that works there."""
    rows = (await connection.execute(_SHOWN_IN, _arrays(places))).all()
    return {
        (tenant, place): ((tenant, shown), (tenant, job_id) if job_id else None)
        for tenant, place, shown, job_id in rows
    }


def _arrays(places: Collection[Place]) -> dict[str, list[str]]:
    return {"tenants": [tenant for tenant, _ in places], "places": [place for _, place in places]}


async def load_call(connection: Connection, tenant: str, call_id: str) -> Row | None:
    """Return one call as the agent keeps it."""
    return await _of_call(connection, CALLS, tenant, call_id, CALLS.c.proposed_at)


async def load_verdict(connection: Connection, tenant: str, call_id: str) -> Row | None:
    """Return policy's newest verdict on a call."""
    return await _of_call(connection, _VERDICTS, tenant, call_id, _VERDICTS.c.judged_at)


async def load_approval_of_call(connection: Connection, tenant: str, call_id: str) -> Row | None:
    """Return the newest approval of a call."""
    return await _of_call(connection, APPROVALS, tenant, call_id, APPROVALS.c.created_at)


async def list_decisions(connection: Connection, tenant: str, approval_id: str, limit: int) -> Sequence[Row]:
    """Return the decisions that people sent about an approval, counted or not, oldest first."""
    return await _of_approval(connection, DECISIONS, tenant, approval_id, DECISIONS.c.decided_at, limit)


async def list_votes(connection: Connection, tenant: str, approval_ids: Collection[str]) -> Sequence[Row]:
    """Return the votes on several approvals, those on earlier arguments too, in the order in which they counted."""
    values = {"tenant": tenant, "approval_ids": sorted(approval_ids)}
    return [dict(row) for row in (await connection.execute(_LIST_VOTES, values)).mappings()]


async def list_untold(connection: Connection, tenant: str, rows: Iterable[Row]) -> frozenset[str]:
    """Return the ids of those approvals that wait and that nobody was told of: every card was given up or kept back."""
    waiting = [row["approval_id"] for row in rows if row["state"] == "pending"]
    if not waiting:
        return frozenset()
    values = {"tenant": tenant, "approval_ids": waiting}
    return frozenset((await connection.execute(_LIST_UNTOLD, values)).scalars())


async def list_edits(connection: Connection, tenant: str, approval_id: str, limit: int) -> Sequence[Row]:
    """Return the edits that people wanted, oldest first."""
    return await _of_approval(connection, _EDITS, tenant, approval_id, _EDITS.c.asked_at, limit)


async def list_deliveries(connection: Connection, tenant: str, approval_id: str, limit: int) -> Sequence[Row]:
    """Return where an approval's cards were sent."""
    return await _of_approval(connection, _DELIVERIES, tenant, approval_id, _DELIVERIES.c.channel, limit)


async def load_execution(connection: Connection, tenant: str, call_id: str) -> Row | None:
    """Return the execution of a call."""
    return await _of_call(connection, EXECUTIONS, tenant, call_id, EXECUTIONS.c.started_at)


async def execution_states(connection: Connection, tenant: str, call_ids: Collection[str]) -> dict[str, str]:
    """Return the states of the executions of calls, those that an executor took, by the calls' ids."""
    if not call_ids:
        return {}
    values = {"tenant": tenant, "call_ids": list(call_ids)}
    return {row.call_id: row.state for row in await connection.execute(_EXECUTION_STATES, values)}


async def load_history(
    connection: Connection, tenant: str, call_id: str, limit: int, subject_id: str = ""
) -> Sequence[Row]:
    """Return every change of state that a call, or one thing that it has, went through, in the order of time."""
    c = _HISTORY.c
    statement = _of_tenant(_HISTORY, tenant).where(c.call_id == call_id).order_by(c.at).limit(limit)
    return await _all(connection, statement.where(c.subject_id == subject_id) if subject_id else statement)


async def why_stopped(connection: Connection, tenant: str, approval_id: str, arguments: str) -> str | None:
    """Return why an administrator has stopped an approval's call with these arguments; None where nobody has."""
    c = APPROVALS.c
    statement = sa.select(stopped(APPROVALS, sa.literal(arguments))).where(
        c.tenant == tenant, c.approval_id == approval_id
    )
    return (await connection.execute(statement)).scalar_one_or_none()


def _of_tenant(view: sa.TableClause, tenant: str) -> sa.Select[Any]:
    return sa.select(view).where(view.c.tenant == tenant)


async def _all(connection: Connection, statement: sa.Select[Any]) -> Sequence[Row]:
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def _of_approval(
    connection: Connection,
    view: sa.TableClause,
    tenant: str,
    approval_id: str,
    order: sa.ColumnElement[Any],
    limit: int,
) -> Sequence[Row]:
    statement = _of_tenant(view, tenant).where(view.c.approval_id == approval_id).order_by(order).limit(limit)
    return await _all(connection, statement)


async def _of_call(
    connection: Connection, view: sa.TableClause, tenant: str, call_id: str, newest: sa.ColumnElement[Any]
) -> Row | None:
    statement = _of_tenant(view, tenant).where(view.c.call_id == call_id).order_by(newest.desc()).limit(1)
    return next(iter(await _all(connection, statement)), None)
