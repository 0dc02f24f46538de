"""What people can do with an approval is said once: each verb of the messages has its row, and the row is whole."""

from __future__ import annotations

from typing import get_args

import pytest

from placet.approval.rules import VERBS, VOTING
from placet.contracts.messages.approvals import ApprovalRule, Verb


def test_every_verb_has_its_row() -> None:
    """No verb may be sent that approval cannot judge, and none is judged that nobody can send."""
    assert get_args(Verb) == tuple(VERBS)


def test_votes_are_these() -> None:
    """The database counts them under this very list."""
    assert ("approve", "deny", "abstain", "edit") == VOTING


@pytest.mark.parametrize("verb", get_args(Verb))
def test_a_row_contradicts_itself_nowhere(verb: Verb) -> None:
    """Every vote is about what was shown, and reasons are asked for as rules can say."""
    meaning = VERBS[verb]
    known = get_args(ApprovalRule.model_fields["reason_required"].annotation)
    assert (True, set()) == (
        meaning.is_binding or meaning.vote is None,
        set(meaning.reason_where) - set(known),
    )
