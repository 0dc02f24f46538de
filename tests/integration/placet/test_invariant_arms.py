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
_DEPUTY = [{"by": {"person": "person:grace", "roles": []}, "to": "person:ada"}]
_JUDGED = row("policy.verdicts", call_id="x", tool="pay", requester="person:ada")
_FOR_EVE = approval(requester="person:eve")
_ID = "01a2258a-cdc6-700d-b337-0d100a080776"
#: Names the call in the middle of what nobody can read.
_LETTER = {"dead_letter_id": "l", "body": f'[{{"d": "f{_ID}-{_ID}"'}


def _claimed(permit_id: str, event: str = "claimed") -> Row:
    """Return a row of a call's history that names a permit."""
    return moved("executor", "execution", None, "running", event, detail=json.dumps({"permit_id": permit_id}))


#: Each way to break an invariant: its name, and the rows.
PLANTED: Mapping[str, tuple[str, Sequence[Row]]] = {
    "letter that was discarded": (
        "calls_wait_for_a_reason",
        [call(call_id=_ID, proposed_at=LONG_AGO), row("dead_letters.dead_letters", **_LETTER, state="discarded")],
    ),
    "execution without history": ("history_leads_to_the_state", [_RAN]),
    "approval without history": ("history_leads_to_the_state", [approval(created_at=LONG_AGO)]),
    "call without history": ("history_leads_to_the_state", [call(proposed_at=LONG_AGO)]),
    "permit of another call": ("permits_are_used_once", [execution(permit_id="p"), _claimed("q")]),
    "another tool was judged": ("tools_are_as_they_were_judged", [_JUDGED, call(tool="add")]),
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
    **{
        f"future of {service}": ("nothing_is_from_the_future", [moved(service, "m", None, "a", at="infinity")])
        for service in ("jobs", "notifier", "dead_letters")
    },
}
#: What looks like one of them, and is none.
HONEST: Mapping[str, tuple[str, Sequence[Row]]] = {
    "letter that waits": (
        "calls_wait_for_a_reason",
        [call(call_id=_ID, proposed_at=LONG_AGO), row("dead_letters.dead_letters", **_LETTER, state="open")],
    ),
    "letter of no call": ("calls_wait_for_a_reason", [row("dead_letters.dead_letters", **_LETTER, state="open")]),
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


def _yes(number: int, person: str, **said: Any) -> Row:
    values = {"verb": "approve", "outcome": "accepted", "arguments_revision": 1, "proof": "api_key"}
    return row("approval.decisions", decision_id=str(number), approval_id="a", person=person, **values | said)


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
