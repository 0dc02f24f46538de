"""Invariants that can be broken in several ways: each way is found, and what honest rows have beside it is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest

from placet.cli import invariants
from tests.support.planted import LATER, LONG_AGO, Row, approval, broken_in, call, execution, moved, plant, row

#: After anything else, and not yet over.
_SOON = "2026-01-01 02:00Z"
_NAMED = {"approvers": ["person:grace"]}
_GROUP = {"approvers": ["group:a"]}
_ALSO = {**_NAMED, "also": [{"panels": [{"approvers": ["person:ada"]}, {"approvers": ["group:b"], "approvals": 2}]}]}
_EITHER = {**_NAMED, "approvals": 2, "alternatives": [{"approvers": ["person:ada"]}]}
_CARD = {"delivery_id": "d", "approval_id": "a", "state": "due", "channel": "slack:x"}
_LOST = row("notifier.deliveries", **_CARD, lease_until=LONG_AGO, due_at=LONG_AGO)
_BLOCK = row("gateway.checkpoints", number=2, sealed_at=LATER)
_RAN = execution(state="succeeded", begun_at=LONG_AGO)
_ALLOWED = row("policy.verdicts", call_id="x", effect="allow", digest="d1", requester="person:ada")
#: Whom a verdict asks, and who was asked.
_HELD = row("policy.verdicts", call_id="x", effect="require_approval", approval='{"approvers": ["person:grace"]}')
_ASKED = approval(approval_rule=json.dumps({**_NAMED, "min_strength": "link"}))
_DEPUTY = [{"by": {"person": "person:grace", "roles": []}, "to": "person:ada"}]
_JUDGED = row("policy.verdicts", call_id="x", tool="pay", requester="person:ada")
_FOR_EVE = approval(requester="person:eve")
_ID = "01a2258a-cdc6-700d-b337-0d100a080776"
_DENIED = row("policy.watched_calls", call_id="w", tool="pay", denied_at=LONG_AGO, until="infinity", veto_on="tool")
_AGAIN = row("policy.verdicts", call_id="x", tool="pay", effect="allow", judged_at=LATER, rulebook_digest="r")
#: Names the call in the middle of what nobody can read.
_LETTER = {"dead_letter_id": "l", "body": f'[{{"d": "f{_ID}-{_ID}"'}

_HAVE_DONE = call(tool="accomplish", proposed_at=LONG_AGO)


_GRANT = row("policy.grants", grant_id="g", uses=1, uses_left=0, given_at=LONG_AGO, expires_at=LATER)
_USE = row("policy.grant_uses", call_id="x", grant_id="g", used_at=LONG_AGO)
_GRANTED = row("policy.verdicts", call_id="x", effect="allow", rule="grant:g", judged_at=LONG_AGO)
_USED = moved("policy", "grant", "active", "used_up", "used", subject_id="g", call_id="x")
_GIVEN_BACK = "2026-01-01 00:30Z"


def _job(call_id: str, conversation_id: str = "c", **said: Any) -> Row:
    """Return a job that a call began."""
    caller = {"caller": {"conversation_id": conversation_id, "call_id": call_id}}
    return row(
        "jobs.jobs", **{"job_id": "j", "state": "running", "spec": json.dumps(caller), "cost": 0, "cost_most": 0} | said
    )


def _claimed(permit_id: str, event: str = "claimed") -> Row:
    """Return a row of a call's history that names a permit."""
    return moved("executor", "execution", None, "running", event, detail=json.dumps({"permit_id": permit_id}))


def _yes(number: int, person: str, **said: Any) -> Row:
    values = {"verb": "approve", "outcome": "accepted", "arguments_revision": 1, "proof": "api_key"}
    return row("approval.decisions", decision_id=str(number), approval_id="a", person=person, **values | said)


def _no(**said: Any) -> Row:
    return _yes(1, "person:bob", **{"verb": "deny", "counted_revision": 1} | said)


def _began(call: str) -> Row:
    """Return an execution by a right of a rule, of a call that is any text."""
    return execution(call=call, begun_at=LONG_AGO, permit_issuer="policy")


def _changed(planted: Row, **said: Any) -> Row:
    return Row(planted.table, {**planted.said, **said})


#: Each way to break an invariant: its name, and the rows.
PLANTED: Mapping[str, tuple[str, Sequence[Row]]] = {
    "let through by rules with veto windows": (
        "denied_stays_denied",
        [
            _DENIED,
            _AGAIN,
            row("policy.activations", digest="r", source="rules: [{veto_window_seconds: 60}]"),
            row("policy.activations", activation_id="other", digest="other", source="version: 1"),
        ],
    ),
    "letter that was discarded": (
        "calls_wait_for_a_reason",
        [call(call_id=_ID, proposed_at=LONG_AGO), row("dead_letters.dead_letters", **_LETTER, state="discarded")],
    ),
    "job that ended, and answered nothing": (
        "calls_wait_for_a_reason",
        [_HAVE_DONE, _job("x", state="done", ended_at=LONG_AGO)],
    ),
    "job that ended before another one": (
        "calls_wait_for_a_reason",
        [_HAVE_DONE, _job("x", state="done", ended_at=LONG_AGO), _job("y", job_id="k")],
    ),
    "job of another tenant": ("calls_wait_for_a_reason", [_HAVE_DONE, _job("x", tenant="other")]),
    "job of another conversation": (
        "calls_wait_for_a_reason",
        [call(tool="pay", proposed_at=LONG_AGO), _job("y", "d")],
    ),
    "execution without history": ("history_leads_to_the_state", [_RAN]),
    "approval without history": ("history_leads_to_the_state", [approval(created_at=LONG_AGO)]),
    "call without history": ("history_leads_to_the_state", [call(proposed_at=LONG_AGO)]),
    "permit of another call": ("permits_are_used_once", [execution(permit_id="p"), _claimed("q")]),
    "another tool was judged": ("tools_are_as_they_were_judged", [_JUDGED, call(tool="add")]),
    "what ran was made empty": ("approved_is_what_ran", [_began(""), _ALLOWED]),
    "what ran has no digest": ("approved_is_what_ran", [_began("[]"), _ALLOWED]),
    "whom the verdict asks was made empty": ("approvals_are_as_judged", [_changed(_HELD, approval=""), _ASKED]),
    "whom the verdict asks was taken out": ("approvals_are_as_judged", [_changed(_HELD, approval=None), _ASKED]),
    "asked for somebody else": ("tools_are_as_they_were_judged", [_JUDGED, _FOR_EVE]),
    "ran for somebody else": (
        "tools_are_as_they_were_judged",
        [_JUDGED, execution(call='{"requester": "person:eve"}')],
    ),
    "later than the oldest block": (
        "history_leads_to_the_state",
        [execution(state="succeeded", begun_at=_SOON), _BLOCK],
    ),
    "entry of another tenant": (
        "rows_stay_with_their_tenant",
        [
            row("executor.workspaces", workspace_id="w", tenant="other"),
            row("executor.workspace_entries", call_id="x", workspace_id="w"),
            execution(),
        ],
    ),
    "approval of another tenant": ("rows_stay_with_their_tenant", [approval(tenant="other"), execution()]),
    "edit of another tenant": (
        "rows_stay_with_their_tenant",
        [approval(), row("approval.edits", edit_id="e", approval_id="a", tenant="other")],
    ),
    "approval that was never judged": ("approvals_are_as_judged", [approval()]),
    "success that nobody judged": ("successes_ran", [call(state="answered", result_kind="succeeded", tool="pay")]),
    "card of a dead notifier": ("leases_are_looked_after", [_LOST]),
    "use of another grant": (
        "grants_know_what_they_let_through",
        [_GRANT, _changed(_USE, grant_id="other"), _GRANTED, _USED],
    ),
    "grant that nobody gave": ("grants_know_what_they_let_through", [_GRANTED]),
    "grant that let another call through": (
        "grants_know_what_they_let_through",
        [_GRANTED, _changed(_USED, call_id="y")],
    ),
    "grant that was over": (
        "grants_know_what_they_let_through",
        [_GRANT, _changed(_USE, used_at=_SOON), _GRANTED, _USED],
    ),
    **{
        f"grant that was over by {how}": (
            "grants_know_what_they_let_through",
            [_changed(_GRANT, **{how: LONG_AGO}), _changed(_USE, used_at=_GIVEN_BACK), _GRANTED, _USED],
        )
        for how in ("revoked_at", "void_at")
    },
    "grant that was not given yet": (
        "grants_know_what_they_let_through",
        [_changed(_GRANT, given_at=_GIVEN_BACK), _USE, _GRANTED, _USED],
    ),
    **{
        f"use that came back of a call that {state}": (
            "grants_know_what_they_let_through",
            [_GRANT, _changed(_USE, returned_at=_GIVEN_BACK), execution(state=state, resolution=resolution)],
        )
        for state, resolution in (("succeeded", None), ("resolved", "ran"))
    },
    "answered by nobody": (
        "endings_have_their_decision",
        [
            approval(state="answered", decided_by="person:ada"),
            _no(counted_revision=None),
            _yes(2, "person:ada", verb="respond", outcome="stale"),
        ],
    ),
    "denied by nobody of this tenant": (
        "endings_have_their_decision",
        [approval(state="denied", decided_by="person:ada"), _no(tenant="other")],
    ),
    **{
        f"denied and {state}": ("endings_have_their_decision", [approval(state=state, decided_by=None), _no()])
        for state in ("approved", "pending", "expired")
    },
    "conversation of another tenant": (
        "rows_stay_with_their_tenant",
        [
            row("agent.conversations", conversation_id="c"),
            row("gateway.conversations", conversation_id="c", tenant="other"),
        ],
    ),
    "watched call of another tenant": (
        "rows_stay_with_their_tenant",
        [_ALLOWED, row("policy.watched_calls", call_id="x", tenant="other")],
    ),
    **{
        f"future of {service}": ("nothing_is_from_the_future", [moved(service, "m", None, "a", at="infinity")])
        for service in ("jobs", "notifier", "dead_letters")
    },
}
#: What looks like one of them, and is none.
HONEST: Mapping[str, tuple[str, Sequence[Row]]] = {
    "let through by rules without veto windows": (
        "denied_stays_denied",
        [_DENIED, _AGAIN, row("policy.activations", digest="r", source="version: 1")],
    ),
    "letter that waits": (
        "calls_wait_for_a_reason",
        [call(call_id=_ID, proposed_at=LONG_AGO), row("dead_letters.dead_letters", **_LETTER, state="open")],
    ),
    **{
        f"job that is {state}": ("calls_wait_for_a_reason", [_HAVE_DONE, _job("x", state=state)])
        for state in ("dividing", "running", "waiting", "withdrawing")
    },
    "job that ended just now": (
        "calls_wait_for_a_reason",
        [_HAVE_DONE, _job("x", state="done", ended_at="infinity")],
    ),
    "job of another call of the turn": ("calls_wait_for_a_reason", [_HAVE_DONE, _job("y")]),
    "job of a job's attempt": (
        "calls_wait_for_a_reason",
        [
            _HAVE_DONE,
            _job("x"),
            call(call_id="y", conversation_id="d", tool="accomplish", proposed_at=LONG_AGO),
            _job("y", "d", job_id="k"),
        ],
    ),
    "permit that waits for a slot": (
        "calls_wait_for_a_reason",
        [call(call_id=_ID, proposed_at=LONG_AGO), row("executor.parked", event_id="e", body=_LETTER["body"])],
    ),
    "approved, behind a call of its answer that waits for people": (
        "calls_wait_for_a_reason",
        [
            call(proposed_at=LONG_AGO),
            approval(conversation_id="c", turn_id="t", closed_at=LONG_AGO),
            approval(approval_id="b", call_id="y", conversation_id="c", turn_id="t", expires_at="infinity"),
        ],
    ),
    "approved, behind a call of its answer that runs": (
        "calls_wait_for_a_reason",
        [
            call(proposed_at=LONG_AGO),
            approval(conversation_id="c", turn_id="t", closed_at=LONG_AGO),
            execution(call_id="y", conversation_id="c"),
        ],
    ),
    "letter of no call": ("calls_wait_for_a_reason", [row("dead_letters.dead_letters", **_LETTER, state="open")]),
    "ran as it was judged": ("approved_is_what_ran", [_began('{"digest": "d1"}'), _ALLOWED]),
    "given up before it began": ("approved_is_what_ran", [execution(call="", permit_issuer="policy"), _ALLOWED]),
    "asked as the verdict says": ("approvals_are_as_judged", [_HELD, _ASKED]),
    "history was purged": ("history_leads_to_the_state", [_RAN, approval(created_at=LONG_AGO), _BLOCK]),
    "history": (
        "history_leads_to_the_state",
        [_RAN, moved("executor", "execution", None, "succeeded")],
    ),
    "call and its history": ("history_leads_to_the_state", [call(), moved("agent", "tool_call", None, "open")]),
    "staged with one permit, released with another": (
        "permits_are_used_once",
        [execution(permit_id="q"), _claimed("p"), _claimed("q", "released")],
    ),
    "tool and requester as judged": (
        "tools_are_as_they_were_judged",
        [_JUDGED, call(tool="pay"), execution(call='{"requester": "person:ada"}'), approval(requester="person:ada")],
    ),
    "requester who was erased": (
        "tools_are_as_they_were_judged",
        [row("policy.verdicts", call_id="x", requester="person:erased-1"), _FOR_EVE, execution(call="")],
    ),
    "job that nobody called": ("tools_are_as_they_were_judged", [row("policy.verdicts", call_id="x"), _FOR_EVE]),
    "a conversation was purged": ("approvals_are_as_judged", [row("approval.decisions", approval_id="a")]),
    "answer of a turn": ("successes_ran", [call(state="answered", result_kind="succeeded", tool="final_answer")]),
    "let through by a grant": ("grants_know_what_they_let_through", [_GRANT, _USE, _GRANTED, _USED, _RAN]),
    "let through in the last moment of a grant": (
        "grants_know_what_they_let_through",
        [_changed(_GRANT, revoked_at=LONG_AGO), _changed(_USE, used_at="2026-01-01 00:00:05Z"), _GRANTED, _USED],
    ),
    "grant that is gone": ("grants_know_what_they_let_through", [_GRANTED, _USED]),
    "grant that is gone with its history": ("grants_know_what_they_let_through", [_GRANTED, _BLOCK]),
    **{
        f"use that came back of a call that {state}": (
            "grants_know_what_they_let_through",
            [_GRANT, _changed(_USE, returned_at=_GIVEN_BACK), execution(state=state, resolution=resolution)],
        )
        for state, resolution in (("failed", None), ("refused", None), ("unknown", None), ("resolved", "did_not_run"))
    },
    "denied by somebody": ("endings_have_their_decision", [approval(state="denied"), _no()]),
    "answered by somebody": (
        "endings_have_their_decision",
        [approval(state="answered"), _no(verb="respond", counted_revision=None)],
    ),
    **{
        f"approval that is {state}, of nobody": ("endings_have_their_decision", [approval(state=state)])
        for state in ("expired", "withdrawn")
    },
    "denied by one of the two that it takes": (
        "endings_have_their_decision",
        [approval(approval_rule='{"denials": 2}'), _no()],
    ),
    "denied in the place of somebody who has voted": (
        "endings_have_their_decision",
        [approval(delegations=json.dumps(_DEPUTY)), _no()],
    ),
    "denial that did not count": (
        "endings_have_their_decision",
        [approval(), _no(outcome="stale", counted_revision=None)],
    ),
    "conversation that did not come through the gateway": (
        "rows_stay_with_their_tenant",
        [row("agent.conversations", conversation_id="c")],
    ),
    "conversation whose id another tenant has too": (
        "rows_stay_with_their_tenant",
        [
            row("agent.conversations", conversation_id="c"),
            *(row("gateway.conversations", conversation_id="c", tenant=tenant) for tenant in ("acme", "other")),
        ],
    ),
    "card that waits": (
        "leases_are_looked_after",
        [row("notifier.deliveries", **_CARD, lease_until=LONG_AGO, due_at="infinity")],
    ),
    "channel that waits": (
        "leases_are_looked_after",
        [_LOST, row("notifier.paces", tenant="", channel="slack:x", free_at="infinity")],
    ),
    "card that is settled": ("leases_are_looked_after", [row("notifier.deliveries", **_CARD, due_at=LONG_AGO)]),
}


@pytest.mark.parametrize("way", PLANTED)
def test_each_way_to_break_it_is_found(way: str, database: psycopg.Connection) -> None:
    """Inv. 40: also where another way of the same invariant has its violation already."""
    name, rows = PLANTED[way]
    for planted in rows:
        plant(database, planted)
    assert name in broken_in(database)


@pytest.mark.parametrize("way", HONEST)
def test_what_only_looks_broken_is_no_alarm(way: str, database: psycopg.Connection) -> None:
    """What was purged, waits, or is judged by nobody has its reason."""
    name, rows = HONEST[way]
    for planted in rows:
        plant(database, planted)
    assert name not in broken_in(database)


_DEEP = "[" * 100_000
#: Text where JSON or a number is expected, and the queries that stop there.
UNREADABLE: Mapping[str, tuple[set[str], Sequence[Row]]] = {
    **{
        f"call {call[:9]}": (
            {"approved_is_what_ran", "digests_are_of_their_calls", "tools_are_as_they_were_judged"},
            [_began(call), _ALLOWED],
        )
        for call in ("{", "no JSON", _DEEP)
    },
    "author of an entry": (
        {"quorum_was_reached"},
        [
            *(approval(approval_rule=json.dumps(_NAMED), closed_at=LONG_AGO), _yes(1, "person:grace")),
            *(row("executor.workspace_entries", call_id="e", commit_call_id="x"), execution(call_id="e", call="{")),
        ],
    ),
    "agent of a call": (
        {"nothing_ran_while_stopped"},
        [
            row("gateway.stops", stop_id="s", tenant=None, agent="clerk", stopped_at="2025-12-31 23:00Z"),
            execution(state="succeeded", fence=1, begun_at=LONG_AGO, call="{"),
        ],
    ),
    "fence": ({"fences_rise"}, [moved("executor", "execution", None, "running", detail='{"fence": "one"}')]),
    "fence that is empty": ({"fences_rise"}, [moved("executor", "execution", None, "running", detail='{"fence": ""}')]),
    "rule of a verdict": ({"approvals_are_as_judged"}, [_changed(_HELD, approval="{"), _ASKED]),
    "rule of an approval": ({"approvals_are_as_judged"}, [_HELD, _changed(_ASKED, approval_rule="5")]),
    "panels": (
        {"quorum_was_reached"},
        [approval(approval_rule=json.dumps({**_NAMED, "also": 5}), closed_at=LONG_AGO), _yes(1, "person:grace")],
    ),
    "approvals of a panel": ({"quorum_was_reached"}, [approval(approval_rule='{"approvals": ""}')]),
}


@pytest.mark.parametrize("where", UNREADABLE)
def test_a_row_that_cannot_be_read_hides_nothing(where: str, database: psycopg.Connection) -> None:
    """The query that stops there is broken and says why; each other one finds what it does."""
    names, rows = UNREADABLE[where]
    for planted in (*rows, row("agent.outbox", id="x", events=["{}"] * 65, created_at="infinity")):
        plant(database, planted)
    asked = invariants.ask(database, settled_after_seconds=60)
    told = {each.name: violations for each, violations in asked.items() if violations}
    unread = {name for name, (first, *_) in told.items() if first.found.startswith("stops at a row")}
    assert ("65 events in one envelope", len(invariants.invariants())) == (told["bounds_hold"][0].found, len(asked))
    assert names <= unread


def _looked_at(node: Mapping[str, Any]) -> int:
    """Return the most rows that one step of a plan has read."""
    rows = sum(node.get(name, 0) for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter"))
    return max([int(node["Actual Loops"] * rows), *map(_looked_at, node.get("Plans", ()))])


def test_each_of_many_letters_is_read_once_however_many_calls_wait(database: psycopg.Connection) -> None:
    """A poisoned queue holds as many letters as calls wait: none is read for each of them."""
    plant(database, call(call_id=_ID, proposed_at=LONG_AGO))
    plant(database, row("dead_letters.dead_letters", **_LETTER, state="open"))
    for table, more in (
        ("agent.tool_calls", "'call_id', md5(n::text)::uuid"),
        ("dead_letters.dead_letters", "'body', repeat(md5(n::text), 90) || md5(n::text)::uuid"),
    ):
        database.execute(
            f"INSERT INTO {table} SELECT (jsonb_populate_record(one, jsonb_build_object({more}))).*"  # noqa: S608 - ours
            f" FROM {table} AS one, generate_series(1, 300) AS n".encode()
        )
    asked = invariants.ask(database, settled_after_seconds=60)
    [(sql, broken)] = [(each.sql, broken) for each, broken in asked.items() if each.name == "calls_wait_for_a_reason"]
    [(plans,)] = database.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + sql.encode())
    assert ([], True) == (broken, 300 < _looked_at(plans[0]["Plan"]) < 3000)


@pytest.mark.parametrize(
    ("broken", "rule", "people"),
    [
        (False, _NAMED, ["person:grace"]),
        (True, _NAMED, ["person:mallory"]),
        (True, _NAMED, ["person:mallory", "person:eve"]),
        # Who is in a group by now says nothing of then.
        (False, _GROUP, ["person:mallory"]),
        (False, {**_NAMED, "escalations": [{"after_seconds": 60, "approvers": ["group:b"]}]}, ["person:mallory"]),
        (False, _NAMED, ["person:erased-1"]),
        (False, {"approvers": ["requester"]}, ["person:ben"]),
        (True, {"approvers": ["requester"]}, ["person:mallory"]),
        (True, _ALSO, ["person:grace"]),
        (False, _ALSO, ["person:grace", "person:ada"]),
        (False, _ALSO, ["person:grace", "person:eve"]),
        (True, {**_NAMED, "also": [{"panels": [{"approvers": ["group:b"], "approvals": 2}]}]}, ["person:grace"]),
        (True, _EITHER, ["person:grace"]),
        (False, _EITHER, ["person:ada"]),
    ],
)
def test_each_yes_that_is_needed_was_said_by_who_may(
    rule: Mapping[str, Any], people: Sequence[str], database: psycopg.Connection, *, broken: bool
) -> None:
    """By as many as it takes, in one panel of each demand."""
    plant(database, approval(approval_rule=json.dumps(rule), requester="person:ben", closed_at=LONG_AGO))
    for number, person in enumerate(people):
        plant(database, _yes(number, person))
    assert broken == ("quorum_was_reached" in broken_in(database))


@pytest.mark.parametrize(
    ("broken", "rule", "said"),
    [
        (True, {**_NAMED, "min_strength": "web"}, {"proof": "link"}),
        (True, {**_NAMED, "min_strength": "web"}, {"proof": "slack"}),
        (False, {**_NAMED, "min_strength": "web"}, {"proof": "web_session"}),
        (False, {**_NAMED, "min_strength": "chat"}, {"proof": "slack"}),
        (True, _GROUP, {"proof": "conversation_token"}),
        (False, {"approvers": ["operators"]}, {"roles": '["operators"]'}),
        (True, {"approvers": ["operators"]}, {"roles": '["approver"]'}),
        # Votes of before roles were kept.
        (False, {"approvers": ["operators"]}, {}),
    ],
)
def test_a_yes_is_of_somebody_who_was_known_surely_enough(
    rule: Mapping[str, Any], said: Mapping[str, Any], database: psycopg.Connection, *, broken: bool
) -> None:
    """By the proof that stands beside it, and with the role that it had."""
    plant(database, approval(approval_rule=json.dumps(rule), closed_at=LONG_AGO))
    plant(database, _yes(1, "person:grace", **said))
    assert broken == ("quorum_was_reached" in broken_in(database))


@pytest.mark.parametrize(("broken", "delegations"), [(True, []), (False, _DEPUTY)])
def test_a_yes_in_the_place_of_who_let_them_counts(
    delegations: Sequence[Any], database: psycopg.Connection, *, broken: bool
) -> None:
    """The rule names the giver; who took the place is named by nobody."""
    rule = json.dumps(_NAMED)
    plant(database, approval(approval_rule=rule, closed_at=LONG_AGO, delegations=json.dumps(delegations)))
    plant(database, _yes(1, "person:ada"))
    assert broken == ("quorum_was_reached" in broken_in(database))
