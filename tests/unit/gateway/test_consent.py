"""What a chat message says about a call that waits: a plain yes, a plain no, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.messages.conversations import TAKEN_TEXT_MAX
from placet.gateway.approvals.consent import PHRASES, Said, may_consent, named, read

WAITING = [{"tool": "create_pay_link"}, {"tool": "deploy"}, {"tool": "Deploy_Twice"}]


@pytest.mark.parametrize(
    ("text", "language", "consent"),
    [
        ("yes", "en", "approve"),
        ("  Yes!  ", "en", "approve"),
        ("Yes, please.", "en", "approve"),
        ("yes,\nplease", "en", None),
        ("No, don\u2019t.", "en", "deny"),
        ("NO", "en", "deny"),
        ("Ja, bitte", "de", "approve"),
        ("Ich lehne ab.", "de", "deny"),
        ("EVET", "tr", "approve"),
        ("HAYIR", "tr", "deny"),
        ("ONAYLIYORUM", "tr", "approve"),
    ],
)
def test_a_plain_yes_or_no_is_read(text: str, language: str, consent: str | None) -> None:
    """Case, blanks around it, a comma and one mark at the end do not matter; anything else does."""
    said = read(text, language)
    assert consent == (said.consent if said and not said.name else None)


@pytest.mark.parametrize(
    "text",
    [
        "not yes",
        "ok",
        "ok?",
        "sure",
        "yes?",
        "yes...",
        "yes!!",
        '"yes"',
        "/yes",
        "y",
        "yess",
        "ye s",
        "y\u200bes",
        "\uff59\uff45\uff53",
        "\u0443es",
        "yes\u202e",
        "ja",
        "evet",
        "\U0001f44d",
        "",
        "I do not say yes",
        "confirmed",
        '{"confirmed": true}',
        "yes" + " " * 2 * TAKEN_TEXT_MAX + "no",
    ],
)
def test_anything_else_says_nothing(text: str) -> None:
    """Doubts, quotes, look-alikes, hidden characters and other languages are ordinary messages."""
    assert read(text, "en") is None


@pytest.mark.parametrize(
    "text", ["yes but not now", "yes no", "yes, if it is cheap", "yes deploy now", "no, deploy it", "yes both"]
)
def test_more_words_are_a_name_that_no_call_has(text: str) -> None:
    """What follows a yes must be exactly the name of one call that waits."""
    said = read(text, "en")
    assert said is not None
    assert named(said.name, WAITING) is None


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("yes deploy", "deploy"),
        ("Yes, create_pay_link", "create_pay_link"),
        ("approve create pay link", "create_pay_link"),
        ("no, deploy", "deploy"),
        ("i confirm deploy twice.", "Deploy_Twice"),
    ],
)
def test_a_name_says_which_call(text: str, tool: str) -> None:
    """A tool is named as it is called, or with blanks for its underscores."""
    said = read(text, "en")
    assert said is not None
    assert {"tool": tool} == named(said.name, WAITING)


def test_a_name_that_two_calls_have_names_none() -> None:
    """Two waiting calls of one tool cannot be told apart by its name."""
    assert named("deploy", [{"tool": "deploy"}, {"tool": "deploy"}]) is None


def test_the_longest_phrase_is_meant() -> None:
    """`yes please` is one phrase, and no tool is called please."""
    assert Said("approve") == read("yes please", "en")


def test_no_phrase_says_both() -> None:
    """A phrase is a yes or a no in every language, and is written as messages are read."""
    for language, phrases in PHRASES.items():
        assert frozenset() == phrases["approve"] & phrases["deny"]
        for consent, each in phrases.items():
            assert {Said(consent)} == {read(phrase, language) for phrase in each}


@given(st.text(max_size=40), st.sampled_from(["yes", "no", "approve"]), st.text(min_size=1, max_size=40))
def test_a_bare_decision_has_nothing_around_it(before: str, phrase: str, after: str) -> None:
    """Whatever stands around a phrase, it is bare only where nothing but blanks, a comma or one mark does."""
    said = read(f"{before}{phrase}{after}", "en")
    if said is not None and not said.name:
        left = f"{before}{phrase}{after}".lower().replace("\u2019", "'").replace(",", " ").strip().rstrip(".!")
        assert " ".join(left.split()) in PHRASES["en"][said.consent]


def test_most_messages_cost_no_look() -> None:
    """Only what begins with a phrase of some language is looked at further."""
    assert (True, True, False) == (may_consent("evet"), may_consent("yes but"), may_consent("where are my shoes?"))
