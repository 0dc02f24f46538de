"""Which mail a card needs, and how mails find their thread and their way back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.notifier.cards import DOUBT, Card, VoteShown
from placet.notifier.channels.email.threads import (
    REFERENCES_MAX,
    Kind,
    Told,
    envelope_sender,
    kind_for,
    mail_id,
    told_from,
)

CARD = Card("approval-1", "acme", "conversation-1", digest="a" * 64)
ASKED = Told("a" * 64, "pending", "", ("<1@x>",))
HEARD = replace(ASKED, state="approved")
IN_DOUBT = told_from({DOUBT: "yes"})


@pytest.mark.parametrize(
    ("changes", "told", "kind"),
    [
        ({}, Told(), Kind.ASKED),
        ({"votes": [VoteShown("person:ada")]}, Told(), None),
        ({}, ASKED, None),
        ({"happened": "voted"}, ASKED, None),
        ({"happened": "reminded"}, ASKED, Kind.AGAIN),
        ({"happened": "escalated"}, ASKED, Kind.AGAIN),
        ({"digest": "b" * 64, "happened": "edited"}, ASKED, Kind.ASKED),
        ({"digest": "b" * 64, "happened": "edited", "votes": [VoteShown("person:ada")]}, ASKED, None),
        ({"digest": "b" * 64, "happened": "edited", "votes": [VoteShown("person:ben")]}, ASKED, Kind.ASKED),
        ({"happened": "reminded", "votes": [VoteShown("person:ada")]}, ASKED, None),
        ({"state": "denied"}, ASKED, Kind.CLOSED),
        ({"state": "approved", "decided_by": "person:ada"}, ASKED, None),
        ({"state": "approved", "decided_by": "person:ada", "ended": "failed"}, ASKED, Kind.FINISHED),
        ({"state": "approved"}, HEARD, None),
        ({"state": "approved", "ended": "unknown"}, HEARD, Kind.FINISHED),
        ({"state": "approved", "ended": "unknown"}, replace(HEARD, ended="unknown"), None),
        ({}, IN_DOUBT, Kind.ASKED),
        ({"state": "approved"}, IN_DOUBT, Kind.CLOSED),
        ({"state": "approved", "ended": "succeeded", "decided_by": "person:ada"}, IN_DOUBT, Kind.FINISHED),
        ({"state": "withdrawn"}, Told(), None),
        ({"state": "approved", "ended": "succeeded"}, Told(), None),
    ],
)
def test_a_card_needs_a_mail_where_it_tells_something_new(
    changes: dict[str, Any], told: Told, kind: Kind | None
) -> None:
    """People are asked once, reminded, asked anew where the call changed, and told how it ended."""
    assert kind == kind_for(replace(CARD, **changes), told, "ada")


@pytest.mark.parametrize("happened", ["reminded", "escalated"])
def test_a_card_that_only_counts_anew_reminds_nobody_again(happened: str) -> None:
    """One mail for each reminder and each escalation, however often the card is sent after it."""
    first = replace(CARD, revision=2, happened=happened)
    told = ASKED.after(first, "<2@x>")
    again = [replace(first, similar=7), replace(first, held_back=3), replace(first, stopped="an incident")]
    assert [None, None, None, Kind.AGAIN] == [
        kind_for(each, told_from(told.as_reference()), "ada") for each in [*again, replace(first, revision=3)]
    ]


def test_what_was_told_survives_being_stored() -> None:
    """A reference is the same after a round through the database; an unknown one says that nothing was told."""
    assert (ASKED, Told(), Told()) == (told_from(ASKED.as_reference()), told_from(None), told_from({}))
    voted = IN_DOUBT.after(CARD)
    assert (voted, True, False) == (
        told_from(voted.as_reference()),
        voted.in_doubt,
        voted.after(CARD, "<1@x>").in_doubt,
    )


def test_an_end_that_is_heard_too_early_is_told_in_its_time() -> None:
    """The call's end may come before its approval's: whoever decided still hears how it ran."""
    ran = replace(CARD, ended="succeeded", happened="finished")
    told = ASKED.after(ran)
    over = replace(ran, state="approved", decided_by="person:ada")
    assert (None, Kind.FINISHED) == (kind_for(ran, ASKED, "ada"), kind_for(over, told, "ada"))


def test_an_edit_that_decides_keeps_its_thread() -> None:
    """Nobody was asked about the changed call: its maker hears how it ran, and all follows what was asked."""
    over = replace(CARD, digest="b" * 64, state="approved", decided_by="person:ada")
    told = {person: kind_for(over, ASKED, person) for person in ("ada", "ben")}
    heard = ASKED.after(over)
    ran = replace(over, ended="succeeded")
    assert ({"ada": None, "ben": Kind.CLOSED}, ("<1@x>",), ("<1@x>", "<2@x>"), Kind.FINISHED) == (
        told,
        heard.ids,
        ASKED.after(over, "<2@x>").ids,
        kind_for(ran, heard, "ada"),
    )


def test_being_asked_about_another_call_begins_a_thread() -> None:
    """Whoever made the change stays in the old one: nothing is asked of them."""
    edited = replace(CARD, digest="b" * 64, happened="edited")
    assert (("<2@x>",), ("<1@x>",)) == (ASKED.after(edited, "<2@x>").ids, ASKED.after(edited).ids)


def test_a_thread_refers_to_its_first_mail_and_the_last_ones() -> None:
    """However long it gets, its header does not."""
    told = Told()
    for number in range(30):
        told = told.after(CARD, f"<{number}@x>")
    assert (REFERENCES_MAX, "<0@x>", "<29@x>") == (len(told.ids), told.ids[0], told.ids[-1])


def test_a_repeated_mail_stands_in_its_thread_once() -> None:
    """The same Message-ID is the same mail."""
    assert ("<1@x>",) == ASKED.after(CARD, "<1@x>").ids


def test_a_mail_has_the_same_id_whenever_it_is_tried_again() -> None:
    """And another one for every other card; the return address has it too."""
    same, other = mail_id("delivery-1"), mail_id("delivery-2")
    assert (True, False, 32) == (same == mail_id("delivery-1"), same == other, len(same))
    assert f"bounces+{same}@example.org" == envelope_sender("bounces@example.org", same)
