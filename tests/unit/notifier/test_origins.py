"""Cards say where values stood before the call, on every channel and in every language."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet.contracts.canonical import canonical_text
from placet.notifier import drawing
from placet.notifier.cards import Card, as_json, from_json
from placet.notifier.channels import slack_blocks
from placet.notifier.drawing import Pen
from tests.builders import NOON, a_call
from tests.support.cards import opened, progressed
from tests.support.shown_cards import a_card

EVE, BOB = "eve@evil.example", "bob@shop.example"
FLAG = "“to” was named only in the output of read_inbox: the requester did not name it."


def a_card_of(origins: Any, locale: str = "en", category: str = "unsafe_api", **arguments: Any) -> Card:
    """Return the card of a call whose texts stood there."""
    text = canonical_text(arguments or {"to": EVE})
    call = a_call(arguments=text, shown_arguments=text, origins=origins, asked="Read my mails")
    return drawing.first_card(opened(call=call, category=category), Pen(locale, "", str), [])


def stood(card: Card) -> dict[str, str]:
    """Return what the card says of each argument."""
    return {each.name: each.stood(card.locale) for each in card.arguments}


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (["user", "tool:read_inbox"], "in the requester's own words"),
        (["agent"], "in the agent's instructions"),
        (["quoted", "tool:read_inbox"], "only in what the requester quoted or pasted"),
        (["tool:read_inbox", "tool:fetch"], "only seen in the output of read_inbox, fetch"),
        ([], "seen nowhere before"),
    ],
)
def test_card_says_where_a_value_stood(places: list[str], words: str) -> None:
    """The place that says most, and of tools all that are known."""
    assert {"to": words} == stood(a_card_of({"/to": places}))


def test_card_says_nothing_of_what_was_not_looked_for() -> None:
    """No word beside a value that was not looked for, and none beside a sentence that the model composed."""
    assert {"to": "", "n": ""} == stood(a_card_of(None, to=EVE, n=1))
    assert {"to": "", "body": ""} == stood(a_card_of({"/body": []}, to="ada", body="Dear Ada, all is well"))


def test_target_that_only_a_tool_named_is_flagged() -> None:
    """An address that nobody but a tool's output named is a warning on the card of a call that acts on the world."""
    assert [FLAG] == a_card_of({"/to": ["tool:read_inbox"]}).warnings
    assert [] == a_card_of({"/to": ["tool:read_inbox"]}, category="safe_read").warnings
    assert [] == a_card_of({"/to": ["user", "tool:read_inbox"]}).warnings
    assert [] == a_card_of({"/order": ["tool:find_orders"]}, order="ORD-20311").warnings


def test_card_speaks_its_language() -> None:
    """German and Turkish cards say it too."""
    assert {"to": "nur in der Ausgabe von read_inbox gesehen"} == stood(a_card_of({"/to": ["tool:read_inbox"]}, "de"))
    assert {"to": "isteyenin kendi sözlerinde"} == stood(a_card_of({"/to": ["user"]}, "tr"))


def test_kept_card_keeps_it() -> None:
    """A card that was stored says the same when it is read again."""
    card = a_card_of({"/to": ["tool:read_inbox"]})
    assert card == from_json(json.loads(json.dumps(as_json(card))))


def test_edited_card_says_it_of_what_was_left() -> None:
    """What people wrote into the call loses its evidence and its flag; the rest keeps both."""
    news = opened(call=a_call(arguments="{}", shown_arguments="{}"), category="unsafe_api")
    first = a_card_of({"/to": ["tool:read_inbox"], "/cc": ["user"]}, to=EVE, cc=BOB)
    text = canonical_text({"to": "ada@shop.example", "cc": BOB})
    call = a_call(arguments=text, shown_arguments=text, origins={"/cc": ["user"]})
    after = drawing.moved_on(first, progressed(news, 2, kind="edited", call=call), Pen("en", "", str), [], NOON)
    assert ({"to": "", "cc": "in the requester's own words"}, []) == (stood(after), after.warnings)


def test_address_that_nobody_looked_for_says_so() -> None:
    """There are bounds to what is looked for: silence beside the values of others would look like its end."""
    card = a_card_of({"/cc": ["user"]}, to=EVE, cc=BOB)
    assert {"to": "nobody looked where it comes from", "cc": "in the requester's own words"} == stood(card)
    assert {"to": "", "cc": ""} == stood(a_card_of(None, to=EVE, cc=BOB))


def test_slack_shows_it_beside_the_value() -> None:
    """In parentheses behind the value, and the requester's message as a quote before the agent's words."""
    card = a_card_of({"/to": ["tool:read_inbox"]})
    blocks = json.dumps(slack_blocks.blocks(card), ensure_ascii=False)
    assert " (only seen in the output of read_inbox)" in blocks
    assert blocks.index("The requester's message that led to it:") < blocks.index("Read my mails")
    assert FLAG in blocks
    assert "led to it" not in json.dumps(slack_blocks.blocks(a_card()))
