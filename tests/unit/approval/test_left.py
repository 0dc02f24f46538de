"""Whoever left decides nothing with the token of a conversation that they opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet.approval.states import State
from placet.domain.deciders import Voter
from placet.domain.directory import Directory, Person
from placet.domain.votes import Vote
from tests.support.approval_builders import claims_of, some_claims
from tests.unit.approval.test_votes import decide, held_by, outcome

LEFT = Directory(people={"ben": Person("ben", active=False), "ada": Person("ada"), "cem": Person("cem", active=False)})


@pytest.mark.parametrize(
    ("opened_by", "expected"),
    [
        ("person:ben", "not_allowed"),
        ("person:ben person:cem ~person:ada", "not_allowed"),
        ("person:ben person:ada", "accepted"),
        ("person:ben person:shop", "accepted"),
        ("~person:ben", "accepted"),
        ("", "accepted"),
    ],
    ids=["its opener", "all who had it", "another is there", "a backend that nobody lists", "wrote only", "unknown"],
)
def test_a_token_whose_known_holders_have_all_left_decides_nothing(opened_by: str, expected: str) -> None:
    """As long as it may be in the hands of somebody who is there, it counts."""
    approval = held_by(approvers=["requester"])
    claims = some_claims(
        approval,
        person=approval.call.requester,
        roles=["requester"],
        proof="conversation_token",
        conversation_id=approval.call.conversation_id,
        opened_by=opened_by,
    )
    assert expected == decide(approval, claims, directory=LEFT).outcome


def test_a_vote_by_the_token_of_somebody_who_left_since_counts_no_more() -> None:
    """Ben voted with it while he was there: ada's yes is the first."""
    approval = held_by(approvers=["requester", "person:ada"], approvals=2)
    asker = Voter(approval.call.requester, ("requester",), "conversation_token", approval.call.conversation_id)
    said = Vote(replace(asker, opened_by="person:ben"), "approve")
    made = [decide(approval, claims_of(approval, "ada", "approve"), said, directory=each) for each in (None, LEFT)]
    assert [("accepted", State.APPROVED), ("accepted", State.PENDING)] == [outcome(each) for each in made]
