"""What the world is told: the model in plain words, the surfaces in full, the gateway its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.approval import notices
from placet.approval.rules import Answer, Approval, edits
from placet.approval.states import State
from placet.contracts.messages import DecideApproval, Edited
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.approval_builders import LATER, an_approval, closed_as

EDITED = a_call(edited=Edited(person="person:bob", proposed='{"amount":2}', proposed_digest="a" * 64))


def test_a_card_carries_the_call_and_its_deadline() -> None:
    """Whoever decides sees exactly what would run, and until when."""
    approval = an_approval()
    opened = notices.opened(approval)
    assert (approval.call, 1, LATER, approval.approval_rule) == (
        opened.call,
        opened.revision,
        opened.expires_at,
        opened.approval,
    )


@pytest.mark.parametrize(
    ("state", "changes", "kind", "reason", "decided_by"),
    [
        (State.DENIED, {}, "denied", 'The call did not run: a person denied it and said: "too much".', "person:ada"),
        (
            State.DENIED,
            {"decision_reason": ""},
            "denied",
            "The call did not run: a person denied it.",
            "person:ada",
        ),
        (
            State.DENIED,
            {"call": EDITED},
            "denied",
            'The call did not run: a person denied it and said: "too much"; its arguments had been changed before.',
            "person:ada",
        ),
        (State.ANSWERED, {}, "answered", "The call did not run: a person answered instead: 42", "person:ada"),
        (State.EXPIRED, {}, "expired", "The call did not run: nobody decided on it in time.", ""),
        (
            State.WITHDRAWN,
            {},
            "superseded",
            "Not run: the user wrote again.",
            "",
        ),
        (
            State.WITHDRAWN,
            {"decision_reason": ""},
            "superseded",
            "The call did not run: something newer took its place.",
            "",
        ),
        (
            State.WITHDRAWN,
            {"result_kind": "cancelled", "decision_reason": ""},
            "cancelled",
            "The call did not run: it was cancelled.",
            "",
        ),
    ],
)
def test_the_model_is_told_plainly_that_nothing_ran(
    state: State, changes: dict[str, Any], kind: str, reason: str, decided_by: str
) -> None:
    """Each way not to run has its own kind and one sentence."""
    refused = notices.refused(closed_as(state, **changes))
    assert (kind, reason, decided_by) == (refused.kind, refused.reason, refused.decided_by)


@pytest.mark.parametrize("approval", [an_approval(), closed_as(State.APPROVED)], ids=["pending", "approved"])
def test_only_a_call_that_will_not_run_is_refused(approval: Approval) -> None:
    """A refusal of what waits or was approved is a bug, not a message."""
    with pytest.raises(ValueError, match="refuses nothing"):
        notices.refused(approval)


def test_a_pending_approval_is_not_announced_as_closed() -> None:
    """The end is told once there is one."""
    with pytest.raises(ValueError, match="not closed"):
        notices.closed(an_approval())


def test_the_end_says_who_and_when() -> None:
    """Every surface gets the state, the person, their words and the time."""
    closed = notices.closed(closed_as(State.DENIED))
    assert ("denied", "person:ada", "too much", NOON) == (
        closed.state,
        closed.decided_by,
        closed.reason,
        closed.closed_at,
    )


def test_an_answer_carries_the_truth_as_it_is_now() -> None:
    """A late click is told the state, who decided and when."""
    approval = closed_as(State.APPROVED)
    asked = DecideApproval(tenant="acme", approval_id="a", decision_id="d", answer_to="g", decision="-")
    told = notices.answered(asked, Answer("already_decided", "late", approval))
    assert ("approved", 1, approval.call.digest, "person:ada", NOON, "late", "g") == (
        told.state,
        told.revision,
        told.digest,
        told.decided_by,
        told.decided_at,
        told.detail,
        told.answer_to,
    )


def test_policy_hears_the_end_of_a_watched_call() -> None:
    """Who ended it, how, and in which words: a veto window begins with that."""
    denied = closed_as(State.DENIED, approval_rule=an_approval_rule(veto_window_seconds=60))
    (told,) = notices.watched(denied)
    assert (denied.call.call_id, "denied", "person:ada", "too much", NOON) == (
        told.call_id,
        told.state,
        told.decided_by,
        told.reason,
        told.closed_at,
    )


def test_policy_does_not_hear_of_calls_that_nobody_watches() -> None:
    """Without a veto window there is nothing to remember."""
    assert [] == list(notices.watched(closed_as(State.DENIED)))


def test_the_end_of_what_was_edited_tells_of_the_edit_again() -> None:
    """Who hears of the end first has the new arguments too, and nobody is sent what only executors get."""
    closed = notices.closed(closed_as(State.APPROVED, call=EDITED))
    edited = notices.closed(closed_as(State.APPROVED)).edited
    assert (None, "edited", "person:bob", closed.revision) == (
        edited,
        closed.edited and closed.edited.kind,
        closed.edited and closed.edited.person,
        closed.edited and closed.edited.revision,
    )
    told = closed.model_dump(mode="json")["edited"]["call"]
    assert (EDITED.digest, True) == (told["digest"], {"arguments", "edited"}.isdisjoint(told))


def test_the_edit_that_an_end_tells_of_has_its_own_revision() -> None:
    """Who heard of the edit and missed a later vote is not told of the edit twice."""
    asked = an_approval()
    wanted = a_call(arguments={"amount": 7}, edited=EDITED.edited)
    edited = edits.applied(asked, wanted, "Over 7?")
    voted = replace(edited, revision=edited.revision + 1)
    end = notices.closed(replace(voted, state=State.APPROVED, closed_at=NOON, decided_by="person:eve"))
    told = end.edited
    assert (asked.revision + 2, asked.revision + 1) == (end.revision, told and told.revision)
