"""Each query of `services/cli/invariants.sql` finds the violation planted for it, and none in an empty house."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest

from placet.cli import invariants
from placet.dead_letters.states import MACHINE as LETTER
from tests.support.planted import (
    LATER,
    LONG_AGO,
    Row,
    approval,
    broken_in,
    call,
    execution,
    moved,
    plant,
    row,
    turn,
)


def _denied(effect: str) -> list[Row]:
    """Return a call that people denied, and what became of the same later."""
    return [
        row("policy.watched_calls", call_id="w", tool="pay", denied_at=LONG_AGO, until="infinity", veto_on="tool"),
        row("policy.verdicts", call_id="x", tool="pay", effect=effect, judged_at=LATER),
    ]


_BEGUN = execution(begun_at=LONG_AGO, permit_issuer="policy")
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
    decided_at=LATER,
)
#: Who was asked, as policy and as approval keep it; of a commit, whose deadline is that of its entries.
_LADDER = [{"after_seconds": seconds, "to": ["group:owners"]} for seconds in (60, 600)]
_RULE = {"approvers": ["operators"], "approvals": 2, "escalations": _LADDER}
_HELD = row("policy.verdicts", call_id="x", effect="require_approval", digest="d1", approval=json.dumps(_RULE))


def _asked(said: Mapping[str, Any], **changed: Any) -> Row:
    rule = json.dumps({**_RULE, "min_strength": "link", **changed})
    return approval(**{"digest": "d1", "approval_rule": rule, **said})


_SHORTENED = _asked({"tool": "commit_changes"}, expires_after_seconds=300, escalations=_LADDER[:1])
_KEY = {"key_id": "k", "person": "ada", "created_by": "person:eve", "taken_over_at": LONG_AGO}
_GIVEN_UP = moved("dead_letters", LETTER.name, LETTER.initial, "discarded", "discard", call_id="x")
#: For each query the rows that break it.
PLANTED: Mapping[str, Sequence[Row]] = {
    "calls_wait_for_a_reason": [call(proposed_at=LONG_AGO)],
    "leases_are_looked_after": [execution(lease_until=LONG_AGO)],
    "calls_have_one_answer": [
        call(state="answered", result_kind="succeeded"),
        *(Row(_ANSWER.table, {**_ANSWER.said, "seq": seq}) for seq in (1, 2)),
    ],
    "executions_are_answered": [
        call(state="answered", result_kind="succeeded"),
        execution(state="unknown", finished_at=LONG_AGO),
    ],
    "outboxes_are_drained": [row("jobs.outbox", id="x", created_at=LONG_AGO)],
    "nobody_told_is_an_alarm": [
        approval(state="pending"),
        row("notifier.deliveries", approval_id="a", state="given_up"),
    ],
    "discarded_letters_end_their_calls": [
        call(),
        _GIVEN_UP,
    ],
    "messages_are_heard_once": [
        row("agent.log", conversation_id="c", seq=seq, type="message", data='{"role": "user", "message_id": "m"}')
        for seq in (1, 2)
    ],
    "logs_have_no_gaps": [row("agent.conversations", conversation_id="c", log_seq=1)],
    "nothing_unsafe_is_repeated": [
        execution(fence=2, lease_until="infinity"),
        moved("executor", "execution", "running", "running", "reclaimed"),
    ],
    "fences_rise": [
        moved("executor", "execution", "running", "running", detail=json.dumps({"fence": fence})) for fence in (2, 1)
    ],
    "one_card_in_one_place": [row("notifier.deliveries", delivery_id=each, approval_id="a") for each in "12"],
    "decided_once": [
        moved("approval", "approval", "pending", "approved"),
        moved("approval", "approval", "pending", "denied"),
    ],
    "begun_by_right": [_BEGUN],
    "approved_is_what_ran": [_BEGUN, Row(_ALLOWED.table, {**_ALLOWED.said, "digest": "d2"})],
    "digests_are_of_their_calls": [approval(state="pending", expires_at="infinity", digest="d1", arguments="{}")],
    "approvals_are_as_judged": [_HELD, _asked({"digest": "d2"})],
    "tools_are_as_they_were_judged": [_BEGUN, Row(_ALLOWED.table, {**_ALLOWED.said, "schema_digest": "other"})],
    "rulebooks_are_known": [_ALLOWED],
    "quorum_was_reached": [
        approval(approval_rule='{"approvers": ["operators"], "approvals": 2}', closed_at=LONG_AGO),
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
    "decided_in_time": [approval(closed_at=LATER)],
    "permits_are_used_once": [execution(call_id=each, permit_id="p") for each in "12"],
    "grants_add_up": [
        row("policy.grants", grant_id="g", uses=2, uses_left=2),
        row("policy.grant_uses", call_id="x", grant_id="g"),
    ],
    "grants_know_what_they_let_through": [
        row("policy.verdicts", call_id="x", effect="allow", rule="grant:g"),
        row("policy.grants", grant_id="g", uses=2, uses_left=2),
        moved("policy", "grant", "active", "active", "used", subject_id="g", call_id="x"),
    ],
    "denied_stays_denied": _denied("allow"),
    "decisions_say_how": [
        row("approval.decisions", decision_id="d", outcome="accepted", person="person:ada", proof="link", signed="")
    ],
    "endings_have_their_decision": [approval(state="denied", decided_by="person:ada")],
    "votes_are_of_their_card": [approval(digest="d1"), _VOTE],
    "votes_came_in_time": [approval(digest="d2", state="denied"), _VOTE],
    "votes_had_a_right": [
        approval(digest="d2"),
        Row(_VOTE.table, {**_VOTE.said, "key_id": "k"}),
        row("gateway.api_keys", key_id="k", person="ada", created_by="person:eve"),
    ],
    "signatures_are_there": [Row(_BEGUN.table, {**_BEGUN.said, "permit": "garbage"})],
    "ran_where_it_was_let": [
        approval(pool="default"),
        execution(begun_at=LONG_AGO, permit_issuer="approval", pool="payments"),
    ],
    "successes_ran": [call(state="answered", result_kind="succeeded", tool="pay"), _ALLOWED],
    "moves_are_of_the_machine": [moved("approval", "approval", "denied", "approved")],
    "history_leads_to_the_state": [
        approval(approval_id="x", state="denied"),
        moved("approval", "approval", "pending", "approved"),
    ],
    "steps_are_in_order": [
        moved("approval", "approval", None, "pending", "opened", at="2026-01-02 00:00Z", call_id="x"),
        moved("executor", "execution", None, "running", "claimed", at=LONG_AGO, call_id="x"),
    ],
    "turns_count_their_calls": [turn(), call()],
    "what_was_refused_never_ran": [_BEGUN, approval(state="denied")],
    "nothing_ran_while_stopped": [
        row("gateway.stops", stop_id="s", stopped_at="2025-12-31 23:00Z"),
        execution(state="succeeded", fence=1, begun_at=LONG_AGO),
    ],
    "stops_stand_until_lifted": [moved("gateway", "stop", None, "active", "stopped")],
    "rows_stay_with_their_tenant": [turn(tenant="acme"), call(tenant="other")],
    "bounds_hold": [row("agent.outbox", id="x", events=["{}"] * 65, created_at="infinity")],
    "nothing_is_from_the_future": [moved("policy", "grant", None, "active", at="infinity")],
}
#: For each query about rights the statements that give too many.
RIGHTS: Mapping[str, Sequence[str]] = {
    "history_is_append_only": ["GRANT UPDATE ON approval.history TO placet_planted_approval"],
    "services_have_no_other_rights": ["GRANT INSERT ON executor.executions TO placet_planted_approval"],
}
NAMES = [each.name for each in invariants.invariants()]


def _without_and_with(database: psycopg.Connection, name: str, rows: Sequence[Row], reason: Row) -> tuple[bool, bool]:
    """Tell whether a query finds these rows, and whether it still does beside the one that explains them."""
    for planted in rows:
        plant(database, planted)
    without = name in broken_in(database)
    plant(database, reason)
    return without, name in broken_in(database)


def test_every_query_has_its_violation() -> None:
    """None is without one, and none is for a query that is not there."""
    assert sorted(NAMES) == sorted([*PLANTED, *RIGHTS])


def test_an_empty_house_breaks_nothing(database: psycopg.Connection) -> None:
    """Right after the migration all of them hold."""
    assert set() == broken_in(database)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str, database: psycopg.Connection) -> None:
    """Inv. 40: whatever of the row's world is missing too, its own query says so."""
    for planted in PLANTED[name]:
        plant(database, planted)
    assert (name, True) == (name, name in broken_in(database))


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("successes_ran", [execution(state="succeeded", begun_at=None)]),
        (
            "rows_stay_with_their_tenant",
            [execution(), moved("executor", "execution", None, "running", "claimed", tenant="other")],
        ),
        (
            "rows_stay_with_their_tenant",
            [approval(approval_id="x"), moved("approval", "approval", None, "pending", "opened", tenant="other")],
        ),
        ("rows_stay_with_their_tenant", [turn(), row("agent.steps", turn_id=turn().said["turn_id"], tenant="other")]),
    ],
    ids=["begun", "execution", "approval", "step"],
)
def test_one_row_that_was_changed_is_found(name: str, rows: Sequence[Row], database: psycopg.Connection) -> None:
    """What succeeded has begun, and the history of a thing, or a step of a turn, is its tenant's."""
    for planted in rows:
        plant(database, planted)
    assert name in broken_in(database)


@pytest.mark.parametrize("name", RIGHTS)
def test_a_right_too_many_is_found(name: str, database: psycopg.Connection) -> None:
    """A service that may more than it needs is told, however it got there."""
    database.execute("CREATE ROLE placet_planted_approval LOGIN")
    database.execute("GRANT USAGE ON SCHEMA approval TO placet_planted_approval")
    for statement in RIGHTS[name]:
        database.execute(statement.encode())
    assert {name} <= broken_in(database)


@pytest.mark.parametrize(("effect", "became"), [("allow", "let through"), ("stage", "staged")])
def test_what_became_of_a_denied_call_is_told(effect: str, became: str, database: psycopg.Connection) -> None:
    """Whoever looks for it knows whether it ran, or waits in a workspace."""
    for planted in _denied(effect):
        plant(database, planted)
    asked = invariants.ask(database, settled_after_seconds=60)
    (found,) = next(violations or () for each, violations in asked.items() if each.name == "denied_stays_denied")
    assert ("x", True) == (found.subject, found.found.startswith(f"{became}, though w was denied"))


def test_a_call_that_was_given_up_may_end_otherwise(database: psycopg.Connection) -> None:
    """Its executor refused it, its conversation hears that it failed: an operator discarded what held its permit."""
    rows = call(state="answered", result_kind="failed"), execution(state="refused", finished_at=LONG_AGO)
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
        execution(begun_at=LONG_AGO, permit_issuer=issuer, mode="staged_call"),
        moved("executor", "execution", "staged", "running", "released", call_id="x", detail='{"reference": "r"}'),
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
        plant(database, planted)
    assert broken == ("approvals_are_as_judged" in broken_in(database))


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
        approval(approval_rule=rule, requester=requester, closed_at=LONG_AGO, call_id="x"),
        Row(_VOTE.table, {**_VOTE.said, "details": json.dumps({"opened_by": opened_by})}),
        row("executor.workspace_entries", call_id="e", commit_call_id="x"),
        execution(call_id="e", call=json.dumps({"requester": author})),
    ):
        plant(database, planted)
    assert broken == ("quorum_was_reached" in broken_in(database))


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
    said = {"state": "succeeded", "fence": 1, "begun_at": LONG_AGO, "tool": "pay", "call": '{"agent": "clerk"}'}
    values = {"stop_id": "s", "tenant": None, "stopped_at": "2025-12-31 23:00Z"}
    for planted in (row("gateway.stops", **{**values, **stop}), execution(**{**said, **ran})):
        plant(database, planted)
    assert broken == ("nothing_ran_while_stopped" in broken_in(database))


@pytest.mark.parametrize(("broken", "actor"), [(True, "worker"), (False, "restore")])
def test_a_stop_covers_a_staged_call_at_its_turn(actor: str, database: psycopg.Connection, *, broken: bool) -> None:
    """It was staged before; what a restore only supposes to have run broke no stop."""
    for planted in (
        row("gateway.stops", stop_id="s", tenant=None, stopped_at="2025-12-31 23:00Z"),
        execution(state="succeeded", fence=2, mode="staged_call", begun_at="2025-12-31 22:00Z"),
        moved("executor", "execution", "staged", "running", "released", actor=actor),
    ):
        plant(database, planted)
    assert broken == ("nothing_ran_while_stopped" in broken_in(database))


@pytest.mark.parametrize(
    ("broken", "key", "opened_at"),
    [
        (False, {}, LONG_AGO),
        (True, {}, "2026-01-02 00:00Z"),
        (True, {"taken_over_at": None}, LONG_AGO),
        (True, {"taken_over_at": "2026-01-02 00:00Z"}, LONG_AGO),
        (True, {"person": "eve"}, LONG_AGO),
        (True, {"revoked_at": "2026-01-01 00:30Z"}, LONG_AGO),
        (False, {"revoked_at": "2026-01-01 02:00Z"}, LONG_AGO),
        (False, {"person": "erased-1", "revoked_at": "2026-01-01 00:30Z"}, LONG_AGO),
    ],
)
def test_a_vote_counts_with_a_key_of_ones_own(
    key: Mapping[str, Any], opened_at: str, database: psycopg.Connection, *, broken: bool
) -> None:
    """Its maker's alone, working at that moment, and on a card that was there."""
    for planted in (
        approval(digest="d2", created_at=opened_at),
        Row(_VOTE.table, {**_VOTE.said, "key_id": "k"}),
        row("gateway.api_keys", **{**_KEY, **key}),
    ):
        plant(database, planted)
    assert broken == ("votes_had_a_right" in broken_in(database))


def test_a_living_system_may_take_its_time(database: psycopg.Connection) -> None:
    """What was committed to be sent a moment ago is no violation yet."""
    plant(database, row("agent.outbox", id="x"))
    assert set() == broken_in(database)


def test_a_query_that_takes_too_long_has_no_answer(database: psycopg.Connection) -> None:
    """The others have theirs, and nobody takes it for a proof."""
    database.execute("LOCK TABLE notifier.deliveries")
    with psycopg.connect(database.info.dsn) as other:
        found = invariants.ask(other, settled_after_seconds=60, query_seconds=0.2)
    slow = {each.name for each, violations in found.items() if violations is None}
    cards = {"leases_are_looked_after", "nobody_told_is_an_alarm", "one_card_in_one_place"}
    assert cards | {"rows_stay_with_their_tenant"} == slow


_STOPPED = moved("gateway", "stop", None, "active", "stopped", call_id=None)
_RESUMED = moved("gateway", "stop", "active", "resumed", "resumed", call_id=None, at=LATER)


@pytest.mark.parametrize(
    ("planted", "broken"),
    [
        ([_STOPPED, row("gateway.stops", stop_id="x", stopped_at=LONG_AGO)], False),
        ([_STOPPED, _RESUMED, row("gateway.stops", stop_id="x", stopped_at=LONG_AGO, resumed_at=LATER)], False),
        ([_STOPPED, row("gateway.stops", stop_id="x", stopped_at=LONG_AGO, resumed_at=LATER)], True),
        ([_STOPPED, row("gateway.stops", stop_id="y", stopped_at=LONG_AGO)], True),
        ([row("gateway.stops", stop_id="x", stopped_at=LONG_AGO)], False),
    ],
)
def test_a_stop_that_went_without_being_lifted_is_seen(
    database: psycopg.Connection, planted: Sequence[Row], *, broken: bool
) -> None:
    """Its history is what tells of it; where that was purged, nothing is said."""
    for each in planted:
        plant(database, each)
    assert broken == ("stops_stand_until_lifted" in broken_in(database))
