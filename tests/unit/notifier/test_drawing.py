"""Cards: what every surface shows of an approval, drawn from stored bytes alone."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.messages import ApprovalOpened, ToolCallProgressed
from placet.domain.card_text import REDACTED
from placet.notifier import drawing
from placet.notifier.card_limits import topic_of
from placet.notifier.cards import Card, as_json, from_json
from placet.notifier.drawing import ARGUMENTS_MAX, Pen
from placet.surfaces.card import ARGUMENT_MAX, QUOTE_MAX
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.cards import closed, finished, opened, progressed

PEN = Pen("en", "https://placet.example", lambda identity: identity.removeprefix("person:").title())


def a_card(news: ApprovalOpened | None = None, critical: tuple[str, ...] = ("amount",), pen: Pen = PEN) -> Card:
    """Return the first card of an approval."""
    return drawing.first_card(news or opened(), pen, critical)


def of_call(shown: dict[str, Any], critical: tuple[str, ...] = (), **changes: Any) -> Card:
    """Return the card of a call with arguments as people may see them."""
    return a_card(opened(call=a_call(arguments={}, shown_arguments=json.dumps(shown), **changes)), critical)


def test_critical_arguments_come_first() -> None:
    """What the tool's own sentence names, with all that is within it; the others follow in their order."""
    card = of_call({"a": 1, "customer": {"name": "Ada", "id": 7}, "lines": [{"price": 2}]}, ("customer", "lines.0"))
    named = [(each.name, each.text, each.critical) for each in card.arguments]
    assert [("customer.name", "Ada", True), ("customer.id", "7", True), ("lines.0.price", "2", True)] == named[:3]
    assert [("a", "1", False)] == named[3:]


def test_a_redacted_value_says_that_it_is_one() -> None:
    """Its place is shown, and nothing of it."""
    (argument,) = of_call({"card": REDACTED}).arguments
    assert (REDACTED, True) == (argument.text, argument.redacted)


def test_the_agent_s_words_are_cut_and_made_visible() -> None:
    """A quote cannot push the card off the screen or turn its text around."""
    card = of_call({}, quote="Trust me \u202eevil" + "x" * 1_000)
    assert (QUOTE_MAX, "…") == (len(card.quote), card.quote[-1])
    assert card.quote.startswith("Trust me [U+202E]evil")


def test_a_long_argument_is_cut_and_tells_its_digest() -> None:
    """Two that differ only behind the cut look different."""
    first, second = (of_call({"text": "x" * ARGUMENT_MAX + end}).arguments[0].text for end in ("a", "b"))
    assert first[:ARGUMENT_MAX] == second[:ARGUMENT_MAX]
    assert first != second


@pytest.mark.parametrize(
    ("rule", "tool", "expected"),
    [
        ({"grants": {"uses": 5, "bounds": ["amount"]}}, "pay", (5, ["amount"], 3600)),
        ({"grants": {"uses": 5, "expires_after_seconds": 1800}}, "pay", (5, [], 1800)),
        ({}, "pay", (0, [], 3600)),
        ({"grants": {"uses": 5}, "approvals": 2}, "pay", (0, [], 3600)),
        ({"grants": {"uses": 5}, "reason_required": "always"}, "pay", (0, [], 3600)),
        ({"grants": {"uses": 5}}, "commit_changes", (0, [], 3600)),
    ],
)
def test_the_narrowest_grant_is_offered_where_one_person_may_give_it(
    rule: dict[str, Any], tool: str, expected: tuple[int, list[str], int]
) -> None:
    """A card says how much it covers and for how long, for buttons that approve with it."""
    rules = an_approval_rule(**rule)
    card = a_card(opened(call=a_call(tool=tool), approval=rules))
    assert expected == (card.again_uses, card.again_bounds, card.again_seconds)


def test_too_many_arguments_are_counted() -> None:
    """The critical ones are among those that are shown."""
    card = of_call({f"a{number:03}": number for number in range(100)}, ("a099",))
    assert (ARGUMENTS_MAX, 60, "a099") == (len(card.arguments), card.arguments_left_out, card.arguments[0].name)


def test_what_an_edit_changed_is_among_those_that_are_shown() -> None:
    """However many arguments there are; and those that had no room before are not said to be new."""
    before = {f"a{number:03}": number for number in range(100)}
    call = a_call(arguments={**before, "a000": 1, "a039": 0})
    news = progressed(opened(), 2, kind="edited", call=call)
    first = of_call(before, ("a09", *(f"a{number:03}" for number in range(50, 88))))
    card = drawing.moved_on(first, news, PEN, tuple(f"a{number:03}" for number in range(50, 100)), NOON)
    changed = [(each.name, each.changed_from) for each in card.arguments if each.changed_from is not None]
    assert ([("a000", "0")], ARGUMENTS_MAX, 60) == (changed, len(card.arguments), card.arguments_left_out)


def test_an_edit_shows_what_was_proposed() -> None:
    """Changed, added and removed arguments say what they were; a second edit still tells of the first proposal."""
    card = of_call({"amount": 1, "to": "ada", "note": "x"})
    news = opened()
    for revision, shown in ((2, {"amount": 2, "to": "ada"}), (3, {"amount": 3, "to": "ada", "fast": True})):
        call = a_call(arguments=shown)
        card = drawing.moved_on(card, progressed(news, revision, kind="edited", call=call), PEN, (), NOON)
    found = {each.name: (each.text, each.changed_from) for each in card.arguments}
    assert {"amount": ("3", "1"), "to": ("ada", None), "fast": ("true", ""), "note": ("–", "x")} == found


def test_an_edit_voids_votes_and_counts_as_its_maker_s() -> None:
    """Who voted before is no longer on the card."""
    card = drawing.moved_on(a_card(), progressed(opened(), 2), PEN, (), NOON)
    edit = progressed(opened(), 3, kind="edited", call=a_call())
    assert ["person:p3"] == [vote.person for vote in drawing.moved_on(card, edit, PEN, (), NOON).votes]


def test_a_vote_is_told_and_which_way_it_went_only_in_the_end() -> None:
    """One line per person, however often they vote; the deciding one brings its words."""
    card, news = a_card(), opened()
    for revision, person in ((2, "ada"), (3, "ben"), (4, "ada")):
        card = drawing.moved_on(card, progressed(news, revision, person=f"person:{person}"), PEN, (), NOON)
    assert [("person:ben", ""), ("person:ada", "")] == [(vote.person, vote.decision) for vote in card.votes]
    end = drawing.over(card, closed(news, "denied", 5, decided_by="person:eve", reason="No \u200bway"), PEN)
    assert ("person:eve", "deny", "No [U+200B]way") == (
        end.votes[-1].person,
        end.votes[-1].decision,
        end.votes[-1].reason,
    )
    assert ("denied", "Eve denied it.", 5) == (end.state, end.note, end.revision)


def test_a_card_has_one_name_for_each_person() -> None:
    """Whoever asked, voted and decided, as the directory calls them; where it does not know them, their id."""
    news = opened(call=a_call(requester="person:eve"))
    card = drawing.moved_on(a_card(news), progressed(news, 2, person="person:ben"), PEN, (), NOON)
    over = drawing.over(card, closed(news, decided_by="person:ada"), PEN)
    assert ["Eve", "Ben", "Ada", "visitor:x", "zoe"] == [
        over.called(each) for each in ("person:eve", "person:ben", "person:ada", "visitor:x", "person:zoe")
    ]


def test_who_is_on_it_is_shown_until_they_are_not() -> None:
    """A claim is shown, a release and the end take it away."""
    card, news = a_card(), opened()
    claimed = drawing.moved_on(card, progressed(news, 2, kind="claimed", claimed_until=NOON), PEN, (), NOON)
    released = drawing.moved_on(claimed, progressed(news, 3, kind="released"), PEN, (), NOON)
    over = drawing.over(claimed, closed(news), PEN)
    told = [(each.claimed_by, each.claimed_until) for each in (claimed, released, over)]
    assert [("person:p2", NOON), ("", None), ("", None)] == told


def test_what_is_needed_is_said_in_words() -> None:
    """Panels with their numbers, alternatives joined; an escalation adds to it."""
    rule = an_approval_rule(
        approvers=["group:finance", "requester"],
        approvals=2,
        alternatives=[{"approvers": ["person:ada"], "approvals": 1}],
    )
    card = a_card(opened(approval=rule))
    assert "2 of finance, whoever asked or 1 of Ada" == card.needed
    more = progressed(opened(), 2, kind="escalated", approvers=["operators"])
    assert f"{card.needed}; operators may decide too" == drawing.moved_on(card, more, PEN, (), NOON).needed


@pytest.mark.parametrize(
    ("changes", "risk"),
    [
        ({}, "normal"),
        ({"category": "unsafe_exec"}, "high"),
        ({"approval": an_approval_rule(approvals=2)}, "high"),
        ({"approval": an_approval_rule(min_strength="web")}, "high"),
    ],
)
def test_what_is_risky_stands_alone(changes: dict[str, Any], risk: str) -> None:
    """Code, quorums and proven identities are never part of a batch."""
    card = a_card(opened(**changes))
    assert (risk, risk == "normal") == (card.risk, card.batchable)


def test_tricks_in_arguments_are_flagged() -> None:
    """Invisible characters and mixed alphabets, in values and names; honest foreign words are no trick."""
    honest = {"greeting": "Привет мир \u2764\ufe0f", "city": "İstanbul", "é": "カタ漢字"}
    card = of_call({"to": "p\u0430ypal.com", "note": "a\u200bb", "path": "a\ufe0f.py", **honest})
    assert [
        "“to”: the word “p\u0430ypal” mixes alphabets (CYRILLIC, LATIN).",
        "“note” has invisible characters.",
        "“path” has invisible characters.",
    ] == card.warnings


def test_the_lines_of_a_value_stay_lines_and_are_no_trick() -> None:
    """All else that steers a text is its code point, in a list within the arguments too."""
    card = of_call({"body": "Hello,\n\r\tbye\u2028", "lines": ["a\nb"], "a\nb": 1})
    assert {"body": "Hello,\n[U+000D][U+0009]bye[U+2028]", "lines.0": "a\nb", "a[U+000A]b": "1"} == {
        each.name: each.text for each in card.arguments
    }
    assert ["“body” has invisible characters.", "“a[U+000A]b” has invisible characters."] == card.warnings


@pytest.mark.parametrize(("blanks", "flagged"), [(" " * 39, 0), (" " * 40, 1), ("\n" * 100, 1), ("\u00a0 " * 50, 1)])
def test_blanks_that_push_the_rest_out_of_sight_are_flagged(blanks: str, flagged: int) -> None:
    """What stands behind them on a card is not seen; code may be indented."""
    card = of_call({"to": f"bob@example.org{blanks}, approved by finance"})
    assert (flagged, []) == (len(card.warnings), of_call({"to": f"bob@example.org{blanks}"}).warnings)


def test_an_error_of_a_call_with_redacted_arguments_is_not_told() -> None:
    """The tool may have repeated what people must not see."""
    news, error = opened(), {"kind": "failed", "error": "no such card 4111"}
    plain = drawing.ran(a_card(), finished(news, **error))
    masked = drawing.ran(of_call({"card": REDACTED}), finished(news, **error))
    assert ("no such card 4111", "", "failed") == (plain.error, masked.error, masked.ended)


def test_a_running_call_changes_its_card_with_each_tenth() -> None:
    """Small steps, what cannot be measured, calls that are not approved yet or over, and repeats change nothing."""
    news, card = opened(), replace(a_card(), state="approved")

    def report(fraction: float | None) -> ToolCallProgressed:
        call = news.call
        place = {"tenant": call.tenant, "conversation_id": call.conversation_id, "call_id": call.call_id}
        return ToolCallProgressed(**place, tool=call.tool, fraction=fraction, text="packing", attempt=1)

    first = drawing.running(card, report(0.27))
    assert first is not None
    assert (first.note, first.percent) == ("It runs: 20 % done. packing", 20)
    further = drawing.running(first, report(0.3))
    assert further is not None
    assert further.percent == 30
    masked = drawing.running(replace(of_call({"card": REDACTED}), state="approved"), report(0.5))
    assert masked is not None
    assert masked.note == "It runs: 50 % done."
    unmoved = [(first, 0.29), (further, 0.2), (card, None), (a_card(), 0.5), (replace(card, ended="failed"), 0.5)]
    assert [drawing.running(each, report(fraction)) for each, fraction in unmoved] == [None] * 5


@pytest.mark.parametrize(
    ("locale", "note"),
    [
        ("en", "It is still waiting for a decision and expires Nov 22, 2026, 1:00\u202fPM CET."),
        ("de", "Es wartet noch auf eine Entscheidung. Die Frist endet: 22.11.2026, 13:00 CET."),
        ("tr", "Hâlâ karar bekliyor. Süre sonu: 22 Kas 2026 13:00 CET."),
    ],
)
def test_a_reminder_says_when_it_expires(locale: str, note: str) -> None:
    """In the language and by the clock of its reader, also where the deadline moved."""
    pen = replace(PEN, locale=locale, zone="Europe/Berlin")
    card = replace(a_card(pen=pen), deadline=None)
    news = progressed(opened(), 2, kind="reminded", person="", expires_at=NOON)
    assert note == drawing.moved_on(card, news, pen, (), NOON).note


@pytest.mark.parametrize("locale", ["de", "tr"])
def test_cards_speak_the_language_of_their_reader(locale: str) -> None:
    """Notes, needs and warnings; the call's own sentence is as the tool's template said it."""
    english, other = a_card(), a_card(pen=Pen(locale, "", str))
    assert english.summary == other.summary
    assert english.note != other.note


def test_targets_make_topics_and_numbers_do_not() -> None:
    """Two payments to one person are one topic; another person, tool, agent or tenant makes another."""
    ada, more = (of_call({"to": "ada", "amount": amount}, ("to", "amount")) for amount in (1, 2))
    others = [
        of_call({"to": "ben", "amount": 1}, ("to", "amount")),
        of_call({"to": "ada", "amount": 1}, ("to", "amount"), tool="other"),
        of_call({"to": "ada", "amount": 1}, ("to", "amount"), agent="other"),
    ]
    assert topic_of(ada) == topic_of(more)
    assert 4 == len({topic_of(ada), *map(topic_of, others)})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda child: st.lists(child, max_size=4) | st.dictionaries(st.text(), child, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(min_size=1), JSON, max_size=6), st.text(), st.text())
def test_nothing_on_a_card_hides(arguments: dict[str, Any], said: str, reason: str) -> None:
    """Whatever the model wrote: nothing that prints nothing is on the card, and what is stored is read back.

    Values and the quote have lines; no name, reason or warning has.
    """
    call = a_call(arguments={}).model_copy(update={"shown_arguments": json.dumps(arguments), "quote": said})
    card = drawing.first_card(opened().model_copy(update={"call": call, "reason": reason}), PEN, ())
    texts = [card.quote.replace("\n", ""), card.reason, *card.warnings]
    texts += [part for each in card.arguments for part in (each.name, each.text.replace("\n", ""))]
    assert [] == [
        char for text in texts for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn"}
    ]
    assert card == from_json(json.loads(json.dumps(as_json(card))))


def test_a_card_of_an_older_version_is_read() -> None:
    """What was stored before recipients came has fewer parts, and some that are passed over."""
    stored = {"approval_id": "a", "tenant": "acme", "conversation_id": "c", "state": "denied", "digest_prefix": "abc"}
    assert ("denied", "", []) == (from_json(stored).state, from_json(stored).digest, from_json(stored).arguments)
