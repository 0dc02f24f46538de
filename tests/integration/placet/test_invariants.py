"""Each query of `services/cli/invariants.sql` finds the violation planted for it, and none in an empty house."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql

from placet.cli import invariants
from placet.dead_letters.states import MACHINE as LETTER

#: What a column holds for which a violation does not care, by its type.
_ANYTHING: Mapping[str, str] = {
    "jsonb": "{}",
    "boolean": "false",
    "ARRAY": "{}",
    "timestamp with time zone": "2026-01-01 00:00Z",
}
_LONG_AGO, _LATER = "2026-01-01 00:00Z", "2026-01-01 01:00Z"


@dataclass(frozen=True)
class Row:
    """One row as nobody should have written it; what it does not say is empty."""

    table: str
    said: Mapping[str, Any] = field(default_factory=dict)


def row(table: str, **said: Any) -> Row:
    """Return a row of a table."""
    return Row(table, said)


def _turn(**said: Any) -> Row:
    return row("agent.turns", **{"turn_id": "t", "conversation_id": "c", "state": "finished"} | said)


def _call(**said: Any) -> Row:
    return row("agent.tool_calls", **{"call_id": "x", "conversation_id": "c", "turn_id": "t", "state": "open"} | said)


def _approval(**said: Any) -> Row:
    values = {"approval_id": "a", "call_id": "x", "state": "approved", "arguments_revision": 1, "expires_at": _LATER}
    return row("approval.approvals", **values | said)


def _execution(**said: Any) -> Row:
    values = {"call_id": "x", "state": "running", "call": '{"digest": "d1"}', "permit_expires_at": _LATER}
    return row("executor.executions", **values | said)


def _denied(effect: str) -> list[Row]:
    """Return a call that people denied, and what became of the same later."""
    return [
        row("policy.watched_calls", call_id="w", tool="pay", denied_at=_LONG_AGO, until="infinity", veto_on="tool"),
        row("policy.verdicts", call_id="x", tool="pay", effect=effect, judged_at=_LATER),
    ]


def _moved(service: str, machine: str, before: str | None, after: str, event: str = "", **said: Any) -> Row:
    values = {"machine": machine, "subject_id": "x", "from_state": before, "to_state": after, "event": event}
    return row(f"{service}.history", **values | {"at": _LONG_AGO} | said)


_BEGUN = _execution(begun_at=_LONG_AGO, permit_issuer="policy")
_ANSWER = row("agent.log", conversation_id="c", type="tool_call", data='{"call_id": "x", "kind": "succeeded"}')
_ALLOWED = row("policy.verdicts", call_id="x", effect="allow", digest="d1")
_VOTE = row(
    "approval.decisions",
    decision_id="d",
    approval_id="a",
    person="person:ada",
    verb="approve",
    outcome="accepted",
    digest="d2",
    arguments_revision=1,
    counted_revision=1,
    decided_at=_LATER,
)
#: Who was asked, as policy and as approval keep it; of a commit, whose deadline is that of its entries.
_LADDER = [{"after_seconds": seconds, "to": ["group:owners"]} for seconds in (60, 600)]
_RULE = {"approvers": ["operators"], "approvals": 2, "escalations": _LADDER}
_HELD = row("policy.verdicts", call_id="x", effect="require_approval", digest="d1", approval=json.dumps(_RULE))


def _asked(said: Mapping[str, Any], **changed: Any) -> Row:
    rule = json.dumps({**_RULE, "min_strength": "link", **changed})
    return _approval(**{"digest": "d1", "approval_rule": rule, **said})


_SHORTENED = _asked({"tool": "commit_changes"}, expires_after_seconds=300, escalations=_LADDER[:1])
_KEY = {"key_id": "k", "person": "ada", "created_by": "person:eve", "taken_over_at": _LONG_AGO}
_GIVEN_UP = _moved("dead_letters", LETTER.name, LETTER.initial, "discarded", "discard", call_id="x")
#: For each query the rows that break it.
PLANTED: Mapping[str, Sequence[Row]] = {
    "calls_wait_for_a_reason": [_call(proposed_at=_LONG_AGO)],
    "leases_are_looked_after": [_execution(lease_until=_LONG_AGO)],
    "calls_have_one_answer": [
        _call(state="answered", result_kind="succeeded"),
        *(Row(_ANSWER.table, {**_ANSWER.said, "seq": seq}) for seq in (1, 2)),
    ],
    "executions_are_answered": [
        _call(state="answered", result_kind="succeeded"),
        _execution(state="unknown", finished_at=_LONG_AGO),
    ],
    "outboxes_are_drained": [row("jobs.outbox", id="x", created_at=_LONG_AGO)],
    "nobody_told_is_an_alarm": [
        _approval(state="pending"),
        row("notifier.deliveries", approval_id="a", state="given_up"),
    ],
    "discarded_letters_end_their_calls": [
        _call(),
        _GIVEN_UP,
    ],
    "messages_are_heard_once": [
        row("agent.log", conversation_id="c", seq=seq, type="message", data='{"role": "user", "message_id": "m"}')
        for seq in (1, 2)
    ],
    "logs_have_no_gaps": [row("agent.conversations", conversation_id="c", log_seq=1)],
    "nothing_unsafe_is_repeated": [
        _execution(fence=2, lease_until="infinity"),
        _moved("executor", "execution", "running", "running", "reclaimed"),
    ],
    "fences_rise": [
        _moved("executor", "execution", "running", "running", detail=json.dumps({"fence": fence})) for fence in (2, 1)
    ],
    "one_card_in_one_place": [row("notifier.deliveries", delivery_id=each, approval_id="a") for each in "12"],
    "decided_once": [
        _moved("approval", "approval", "pending", "approved"),
        _moved("approval", "approval", "pending", "denied"),
    ],
    "begun_by_right": [_BEGUN],
    "approved_is_what_ran": [_BEGUN, Row(_ALLOWED.table, {**_ALLOWED.said, "digest": "d2"})],
    "digests_are_of_their_calls": [_approval(state="pending", expires_at="infinity", digest="d1", arguments="{}")],
    "approvals_are_as_judged": [_HELD, _asked({"digest": "d2"})],
    "tools_are_as_they_were_judged": [_BEGUN, Row(_ALLOWED.table, {**_ALLOWED.said, "schema_digest": "other"})],
    "rulebooks_are_known": [_ALLOWED],
    "quorum_was_reached": [
        _approval(approval_rule='{"approvers": ["operators"], "approvals": 2}', closed_at=_LONG_AGO),
        *(
            row(
                "approval.decisions",
                decision_id=each,
                approval_id="a",
                person="person:ada",
                verb="approve",
                outcome="accepted",
                arguments_revision=1,
            )
            for each in "12"
        ),
    ],
    "decided_in_time": [_approval(closed_at=_LATER)],
    "permits_are_used_once": [_execution(call_id=each, permit_id="p") for each in "12"],
    "grants_add_up": [
        row("policy.grants", grant_id="g", uses=2, uses_left=2),
        row("policy.grant_uses", call_id="x", grant_id="g"),
    ],
    "denied_stays_denied": _denied("allow"),
    "decisions_say_how": [
        row("approval.decisions", decision_id="d", outcome="accepted", person="person:ada", proof="link", signed="")
    ],
    "votes_are_of_their_card": [_approval(digest="d1"), _VOTE],
    "votes_came_in_time": [_approval(digest="d2", state="denied"), _VOTE],
    "votes_had_a_right": [
        _approval(digest="d2"),
        Row(_VOTE.table, {**_VOTE.said, "key_id": "k"}),
        row("gateway.api_keys", key_id="k", person="ada", created_by="person:eve"),
    ],
    "signatures_are_there": [Row(_BEGUN.table, {**_BEGUN.said, "permit": "garbage"})],
    "ran_where_it_was_let": [
        _approval(pool="default"),
        _execution(begun_at=_LONG_AGO, permit_issuer="approval", pool="payments"),
    ],
    "successes_ran": [_call(state="answered", result_kind="succeeded", tool="pay"), _ALLOWED],
    "moves_are_of_the_machine": [_moved("approval", "approval", "denied", "approved")],
    "history_leads_to_the_state": [
        _approval(approval_id="x", state="denied"),
        _moved("approval", "approval", "pending", "approved"),
    ],
    "steps_are_in_order": [
        _moved("approval", "approval", None, "pending", "opened", at="2026-01-02 00:00Z", call_id="x"),
        _moved("executor", "execution", None, "running", "claimed", at=_LONG_AGO, call_id="x"),
    ],
    "turns_count_their_calls": [_turn(), _call()],
    "what_was_refused_never_ran": [_BEGUN, _approval(state="denied")],
    "nothing_ran_while_stopped": [
        row("gateway.stops", stop_id="s", stopped_at="2025-12-31 23:00Z"),
        _execution(state="succeeded", fence=1, begun_at=_LONG_AGO),
    ],
    "rows_stay_with_their_tenant": [_turn(tenant="acme"), _call(tenant="other")],
    "bounds_hold": [row("agent.outbox", id="x", events=["{}"] * 65, created_at="infinity")],
    "nothing_is_from_the_future": [_moved("policy", "grant", None, "active", at="infinity")],
}
#: For each query about rights the statements that give too many.
RIGHTS: Mapping[str, Sequence[str]] = {
    "history_is_append_only": ["GRANT UPDATE ON approval.history TO placet_planted_approval"],
    "services_have_no_other_rights": ["GRANT INSERT ON executor.executions TO placet_planted_approval"],
}
NAMES = [each.name for each in invariants.invariants()]


@pytest.fixture
def database(module_database_url: str) -> Iterator[psycopg.Connection]:
    """Lend a migrated database in which nothing stays that a test does."""
    with psycopg.connect(module_database_url) as connection:
        yield connection
        connection.rollback()


def _plant(database: psycopg.Connection, planted: Row) -> None:
    """Write a row against all constraints of its table."""
    schema, table = planted.table.split(".")
    where = sql.Identifier(schema, table)
    for (name,) in database.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND conname NOT IN ("
        "SELECT conname FROM pg_constraint WHERE contype = 'n') ORDER BY contype = 'p'",
        (planted.table,),
    ).fetchall():
        database.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {} CASCADE").format(where, sql.Identifier(name)))
    columns = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'",
        (schema, table),
    ).fetchall()
    numbers = ("integer", "bigint", "smallint", "numeric")
    empty = {name: "0" if kind in numbers else _ANYTHING.get(kind, "") for name, kind in columns}
    values = {**empty, **({"tenant": "acme"} if "tenant" in empty else {}), **planted.said}
    database.execute(
        sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            where,
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join([sql.Placeholder()] * len(values)),
        ),
        list(values.values()),
    )


def _broken(database: psycopg.Connection) -> set[str]:
    found = invariants.ask(database, settled_after_seconds=60)
    return {each.name for each, violations in found.items() if violations != []}


def _without_and_with(database: psycopg.Connection, name: str, rows: Sequence[Row], reason: Row) -> tuple[bool, bool]:
    """Tell whether a query finds these rows, and whether it still does beside the one that explains them."""
    for planted in rows:
        _plant(database, planted)
    without = name in _broken(database)
    _plant(database, reason)
    return without, name in _broken(database)


def test_every_query_has_its_violation() -> None:
    """None is without one, and none is for a query that is not there."""
    assert sorted(NAMES) == sorted([*PLANTED, *RIGHTS])


def test_an_empty_house_breaks_nothing(database: psycopg.Connection) -> None:
    """Right after the migration all of them hold."""
    assert set() == _broken(database)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str, database: psycopg.Connection) -> None:
    """Inv. 40: whatever of the row's world is missing too, its own query says so."""
    for planted in PLANTED[name]:
        _plant(database, planted)
    assert (name, True) == (name, name in _broken(database))


@pytest.mark.parametrize("name", RIGHTS)
def test_a_right_too_many_is_found(name: str, database: psycopg.Connection) -> None:
    """A service that may more than it needs is told, however it got there."""
    database.execute("CREATE ROLE placet_planted_approval LOGIN")
    database.execute("GRANT USAGE ON SCHEMA approval TO placet_planted_approval")
    for statement in RIGHTS[name]:
        database.execute(statement.encode())
    assert {name} <= _broken(database)


@pytest.mark.parametrize(("effect", "became"), [("allow", "let through"), ("stage", "staged")])
def test_what_became_of_a_denied_call_is_told(effect: str, became: str, database: psycopg.Connection) -> None:
    """Whoever looks for it knows whether it ran, or waits in a workspace."""
    for planted in _denied(effect):
        _plant(database, planted)
    asked = invariants.ask(database, settled_after_seconds=60)
    (found,) = next(violations or () for each, violations in asked.items() if each.name == "denied_stays_denied")
    assert ("x", True) == (found.subject, found.found.startswith(f"{became}, though w was denied"))


def test_a_call_that_was_given_up_may_end_otherwise(database: psycopg.Connection) -> None:
    """Its executor refused it, its conversation hears that it failed: an operator discarded what held its permit."""
    rows = _call(state="answered", result_kind="failed"), _execution(state="refused", finished_at=_LONG_AGO)
    assert (True, False) == _without_and_with(database, "executions_are_answered", rows, _GIVEN_UP)


@pytest.mark.parametrize(
    ("issuer", "right"),
    [
        ("approval", row("approval.approvals", approval_id="r", tool="commit_changes", state="approved")),
        ("policy", row("policy.verdicts", verdict_id="r", tool="commit_changes", effect="allow")),
    ],
)
def test_a_staged_call_has_the_right_of_its_commit(issuer: str, right: Row, database: psycopg.Connection) -> None:
    """Also once its workspace was purged: who let the commit through stands in its history."""
    rows = (
        _execution(begun_at=_LONG_AGO, permit_issuer=issuer, mode="staged_call"),
        _moved("executor", "execution", "staged", "running", "released", call_id="x", detail='{"reference": "r"}'),
    )
    assert (True, False) == _without_and_with(database, "begun_by_right", rows, right)


@pytest.mark.parametrize(
    ("broken", "asked"),
    [
        (False, _asked({})),
        (False, _SHORTENED),
        (False, _asked({"digest": "d2", "edited": "{}"})),
        (True, Row(_SHORTENED.table, {**_SHORTENED.said, "tool": "pay"})),
        (True, _asked({}, approvals=1)),
        (True, _asked({"tool": "commit_changes"}, escalations=[{"after_seconds": 1, "to": ["person:eve"]}])),
        (False, _asked({}, approvers=["person:erased-1"])),
    ],
)
def test_who_was_asked_is_whom_the_verdict_asks(asked: Row, database: psycopg.Connection, *, broken: bool) -> None:
    """An edit has another digest, a commit an earlier end, and who was erased another name; nothing else differs."""
    for planted in (_HELD, asked):
        _plant(database, planted)
    assert broken == ("approvals_are_as_judged" in _broken(database))


@pytest.mark.parametrize(
    ("broken", "requester", "opened_by", "author"),
    [
        (False, "person:ben", "person:ben ~person:eve", "person:ben"),
        (True, "person:ada", "", "person:ben"),
        (True, "person:ben", "person:shop ~person:ada", "person:ben"),
        (True, "person:ben", "", "person:ada"),
    ],
)
def test_nobody_approved_what_they_may_have_asked(
    requester: str, opened_by: str, author: str, database: psycopg.Connection, *, broken: bool
) -> None:
    """Under four eyes: not its requester, nor whom the gateway knew beside them, nor who asked for an entry of it."""
    rule = '{"approvers": ["operators"], "exclude": ["requester"]}'
    for planted in (
        _approval(approval_rule=rule, requester=requester, closed_at=_LONG_AGO, call_id="x"),
        Row(_VOTE.table, {**_VOTE.said, "details": json.dumps({"opened_by": opened_by})}),
        row("executor.workspace_entries", call_id="e", commit_call_id="x"),
        _execution(call_id="e", call=json.dumps({"requester": author})),
    ):
        _plant(database, planted)
    assert broken == ("quorum_was_reached" in _broken(database))


@pytest.mark.parametrize(
    ("broken", "stop", "ran"),
    [
        (True, {"tenant": "acme", "tool": "pay"}, {}),
        (True, {"agent": "clerk"}, {}),
        (False, {"tool": "other"}, {}),
        (False, {"tenant": "other"}, {}),
        (False, {"agent": "other"}, {}),
        (False, {"resumed_at": "2026-01-01 00:00:02Z"}, {}),
        (False, {"stopped_at": "2025-12-31 23:59:58Z"}, {}),
        # Nobody can say that it ran then: its worker was lost, or it was staged only.
        (False, {}, {"fence": 2}),
        (False, {}, {"state": "unknown"}),
        (False, {}, {"mode": "stage"}),
    ],
)
def test_a_stop_covers_what_it_names_while_it_stands(
    stop: Mapping[str, Any], ran: Mapping[str, Any], database: psycopg.Connection, *, broken: bool
) -> None:
    """Calls of its tenant, tool or agent, between its ends, that are known to have run then."""
    said = {"state": "succeeded", "fence": 1, "begun_at": _LONG_AGO, "tool": "pay", "call": '{"agent": "clerk"}'}
    values = {"stop_id": "s", "tenant": None, "stopped_at": "2025-12-31 23:00Z"}
    for planted in (row("gateway.stops", **{**values, **stop}), _execution(**{**said, **ran})):
        _plant(database, planted)
    assert broken == ("nothing_ran_while_stopped" in _broken(database))


@pytest.mark.parametrize(("broken", "actor"), [(True, "worker"), (False, "restore")])
def test_a_stop_covers_a_staged_call_at_its_turn(actor: str, database: psycopg.Connection, *, broken: bool) -> None:
    """It was staged before; what a restore only supposes to have run broke no stop."""
    for planted in (
        row("gateway.stops", stop_id="s", tenant=None, stopped_at="2025-12-31 23:00Z"),
        _execution(state="succeeded", fence=2, mode="staged_call", begun_at="2025-12-31 22:00Z"),
        _moved("executor", "execution", "staged", "running", "released", actor=actor),
    ):
        _plant(database, planted)
    assert broken == ("nothing_ran_while_stopped" in _broken(database))


@pytest.mark.parametrize(
    ("broken", "key", "opened_at"),
    [
        (False, {}, _LONG_AGO),
        (True, {}, "2026-01-02 00:00Z"),
        (True, {"taken_over_at": None}, _LONG_AGO),
        (True, {"taken_over_at": "2026-01-02 00:00Z"}, _LONG_AGO),
        (True, {"person": "eve"}, _LONG_AGO),
        (True, {"revoked_at": "2026-01-01 00:30Z"}, _LONG_AGO),
        (False, {"revoked_at": "2026-01-01 02:00Z"}, _LONG_AGO),
        (False, {"person": "erased-1", "revoked_at": "2026-01-01 00:30Z"}, _LONG_AGO),
    ],
)
def test_a_vote_counts_with_a_key_of_ones_own(
    key: Mapping[str, Any], opened_at: str, database: psycopg.Connection, *, broken: bool
) -> None:
    """Its maker's alone, working at that moment, and on a card that was there."""
    for planted in (
        _approval(digest="d2", created_at=opened_at),
        Row(_VOTE.table, {**_VOTE.said, "key_id": "k"}),
        row("gateway.api_keys", **{**_KEY, **key}),
    ):
        _plant(database, planted)
    assert broken == ("votes_had_a_right" in _broken(database))


def test_a_living_system_may_take_its_time(database: psycopg.Connection) -> None:
    """What was committed to be sent a moment ago is no violation yet."""
    _plant(database, row("agent.outbox", id="x"))
    assert set() == _broken(database)


def test_a_query_that_takes_too_long_has_no_answer(database: psycopg.Connection) -> None:
    """The others have theirs, and nobody takes it for a proof."""
    database.execute("LOCK TABLE notifier.deliveries")
    with psycopg.connect(database.info.dsn) as other:
        found = invariants.ask(other, settled_after_seconds=60, query_seconds=0.2)
    slow = {each.name for each, violations in found.items() if violations is None}
    assert {"nobody_told_is_an_alarm", "one_card_in_one_place", "rows_stay_with_their_tenant"} == slow
