"""A card in Slack: what decides comes first, nothing hostile is read as markup, and every limit is kept."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.domain.card_text import visible
from placet.notifier.cards import Card, CommentShown, DutyShown, VoteShown
from placet.notifier.channels import slack_blocks
from placet.surfaces import slack as names
from placet.surfaces.block_kit import Block
from placet.surfaces.card import Argument
from placet.surfaces.texts import text as translated
from tests.support.shown_cards import HOSTILE, a_card
from tests.support.slack_rules import MESSAGE_TEXT_MAX, message_problems, text_length


def buttons(blocks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the buttons of a card by their action."""
    return {each["action_id"]: each for block in blocks if block["type"] == "actions" for each in block["elements"]}


def marked_up(value: Any) -> Iterator[str]:
    """Yield every text that Slack reads as markup."""
    if isinstance(value, dict):
        if value.get("type") == "mrkdwn":
            yield value["text"]
        for each in value.values():
            yield from marked_up(each)
    elif isinstance(value, list):
        for each in value:
            yield from marked_up(each)


def words(blocks: list[dict[str, Any]]) -> str:
    """Return a card's blocks as one text."""
    return json.dumps(blocks, ensure_ascii=False)


#: What may come out of a model: everything that Unicode has, often what is dangerous in Slack.
AMOUNT = Argument("amount", "299")
_hostile = st.one_of(
    st.text(max_size=400),
    st.sampled_from([HOSTILE, "<!here>" * 300, "\u202e" * 50, "&" * 3000, "x" * 5000, "\n\n*Approved*", "`" * 10]),
).map(visible)
_values = st.one_of(_hostile, st.lists(_hostile, max_size=60).map("\n".join))
_arguments = st.builds(
    Argument,
    name=_hostile,
    text=_values,
    critical=st.booleans(),
    redacted=st.booleans(),
    changed_from=st.one_of(st.none(), _values),
)
_votes = st.builds(
    VoteShown, person=_hostile, decision=st.sampled_from(["", "approve", "deny", "abstain"]), reason=_hostile
)
_cards = st.builds(
    a_card,
    agent=_hostile,
    summary=_hostile,
    requested_by=_hostile,
    reason=_hostile,
    rule=_hostile,
    quote=_hostile,
    note=_hostile,
    claimed_by=_hostile,
    stopped=_hostile,
    decided_by=_hostile,
    decision_reason=_hostile,
    needed=_hostile,
    on_duty=st.lists(
        st.builds(
            DutyShown, group=_hostile, people=st.lists(_hostile), until=st.just(datetime(2026, 11, 22, tzinfo=UTC))
        ),
        max_size=3,
    ),
    error=_hostile,
    arguments=st.lists(_arguments, max_size=60),
    warnings=st.lists(_hostile, max_size=20),
    votes=st.lists(_votes, max_size=30),
    happened=st.sampled_from(["opened", "voted", "edited", "reminded", "escalated", "closed", "finished"]),
    state=st.sampled_from(["pending", "approved", "denied", "answered", "expired", "withdrawn"]),
    ended=st.sampled_from(["", "succeeded", "failed", "unknown"]),
    risk=st.sampled_from(["normal", "high"]),
    strength=st.sampled_from(["link", "chat", "slack", "web"]),
    edits=st.booleans(),
    similar=st.integers(0, 1000),
    locale=st.sampled_from(["en", "de", "tr"]),
)


@settings(max_examples=150, deadline=None)
@given(_cards)
def test_any_card_keeps_slack_s_limits(card: Card) -> None:
    """T1: whatever stands in a card, Slack takes it: 50 blocks, the length of each text and of all together."""
    for blocks in (slack_blocks.blocks(card), slack_blocks.short_blocks(card)):
        assert [] == message_problems(blocks)
        assert text_length(blocks) <= MESSAGE_TEXT_MAX
    assert len(slack_blocks.notification(card)) <= 4000


@settings(max_examples=150, deadline=None)
@given(_cards)
def test_nothing_hostile_is_markup(card: Card) -> None:
    """T1: the only texts with markup are our own: the deadline and the link to the approval's page."""
    until = translated(card.locale, "Until")
    for text in marked_up(slack_blocks.blocks(card)):
        assert text.startswith((f"{until}: <!date^", "<https://placet.example/inbox/approval-1|"))
    assert set("<>").isdisjoint(slack_blocks.notification(card))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_no_raw_hidden_character_reaches_a_card(text: str) -> None:
    """T2: cards are made of visible texts, and rendering adds no control or format character."""
    card = a_card(summary=visible(text), quote=visible(text), arguments=[Argument(visible(text), visible(text))])
    found = {unicodedata.category(char) for char in words(slack_blocks.blocks(card)) if not char.isascii()}
    assert set() == found & {"Cc", "Cf", "Cs"}


def test_the_call_stands_before_everything_else() -> None:
    """T1: heading, sentence and arguments come first, critical ones before the others; the agent's words last."""
    blocks = slack_blocks.blocks(a_card(quote=HOSTILE, warnings=["mixed scripts"]))
    kinds = [block["type"] for block in blocks]
    assert ["header", "section", "rich_text", "context", "section", "context", "rich_text", "context"] == kinds[:8]
    assert "Approval needed: create_pay_link" == blocks[0]["text"]["text"]
    (items,) = blocks[2]["elements"]
    assert ["amount", "currency"] == [each["elements"][0]["text"] for each in items["elements"]]
    quoted = json.dumps(blocks[6])
    assert ("rich_text_quote" in quoted, HOSTILE in json.loads(quoted)["elements"][0]["elements"][0]["text"]) == (
        True,
        True,
    )


def test_an_argument_that_wraps_looks_like_no_other() -> None:
    """T1: each argument is an item of a list, its name bold: padding cannot fake a second argument."""
    padded = "299" + " " * 200 + "amount: 1"
    (items,) = slack_blocks.blocks(a_card(arguments=[Argument("amount", padded)]))[2]["elements"]
    assert ("rich_text_list", 1) == (items["type"], len(items["elements"]))


def test_lines_of_an_argument_stand_in_a_box() -> None:
    """T1: a value of several lines is below its name in a box, and no line of it is an item of the list."""
    body = Argument("body", "Hello\namount: 1", changed_from="Hi\nthere")
    arguments = slack_blocks.blocks(a_card(arguments=[AMOUNT, body, AMOUNT]))[2]
    kinds = [each["type"].removeprefix("rich_text_") for each in arguments["elements"]]
    assert ["list", "preformatted", "list", "preformatted", "list"] == kinds
    assert [2, 1, 1] == [len(each["elements"]) for each in arguments["elements"][::2]]
    boxes = [each["elements"][0]["text"] for each in arguments["elements"][1::2]]
    assert ["Hello\namount: 1", "Hi\nthere"] == boxes


def test_a_button_names_what_was_shown() -> None:
    """The value has approval, revision and digest of the card, and no argument."""
    card = a_card(revision=3, edits=True)
    found = buttons(slack_blocks.blocks(card))
    assert [names.DENY, names.APPROVE, names.EDIT, names.MORE] == list(found)
    assert {names.Subject("acme", "approval-1", 3, card.digest)} == {
        names.parse_subject(each["value"]) for each in found.values()
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"edits": False}, [names.DENY, names.APPROVE, names.MORE]),
        ({"strength": "web"}, [names.OPEN, names.MORE]),
        ({"strength": "web", "url": ""}, [names.MORE]),
        ({"state": "approved"}, []),
        ({"state": "expired"}, []),
        ({"state": "pending", "ended": "succeeded"}, []),
    ],
)
def test_buttons_are_those_that_can_do_something(changes: dict[str, Any], expected: list[str]) -> None:
    """No button asks for what the rule forbids here, and none stays when it is over."""
    assert expected == list(buttons(slack_blocks.blocks(a_card(**changes))))


def test_a_risky_call_is_confirmed() -> None:
    """High risk asks once more, with the sentence in the question."""
    pressed = buttons(slack_blocks.blocks(a_card(risk="high")))[names.APPROVE]
    assert "Create a payment link over 299 TRY?" == pressed["confirm"]["text"]["text"]
    assert "confirm" not in buttons(slack_blocks.blocks(a_card()))[names.APPROVE]


def test_the_same_again_says_what_it_covers() -> None:
    """The button is there where a grant is offered; what else would run is asked before it counts."""
    card = a_card(again_uses=5, again_bounds=["amount"])
    pressed = buttons(slack_blocks.blocks(card))[names.AGAIN]
    asked = pressed["confirm"]["text"]["text"]
    assert asked.startswith("Covers this very call in this conversation, at most 5 times. May be smaller: amo")
    assert card.summary in asked
    assert names.AGAIN not in buttons(slack_blocks.short_blocks(card))


@pytest.mark.parametrize(
    ("locale", "seconds", "expected"),
    [
        ("en", 3600, "Approve, and the same again for an hour"),
        ("en", 1800, "Approve, and the same again for 30 minutes"),
        ("en", 90, "Approve, and the same again for 90 seconds"),
        ("de", 1800, "Freigeben, und dasselbe 30 Minuten lang wieder"),
        ("tr", 60, "Onayla ve aynısına 1 dakika boyunca izin ver"),
    ],
)
def test_the_same_again_says_for_how_long(locale: str, seconds: int, expected: str) -> None:
    """As long as the rule lets it hold, in the button and in the question."""
    pressed = buttons(slack_blocks.blocks(a_card(again_uses=5, again_seconds=seconds, locale=locale)))[names.AGAIN]
    assert (expected, expected) == (pressed["text"]["text"], pressed["confirm"]["title"]["text"])


def test_a_card_too_long_for_slack_cannot_be_approved_unseen() -> None:
    """What does not show the arguments has no Approve."""
    assert [names.OPEN, names.MORE] == list(buttons(slack_blocks.short_blocks(a_card())))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "approved", "decided_by": "person:ada"}, "Approved: create_pay_link · by ada"),
        ({"state": "denied", "decided_by": "person:ada", "decision_reason": "no"}, "by ada · no"),
        ({"state": "approved", "ended": "succeeded"}, "It ran and succeeded."),
        ({"state": "approved", "ended": "failed", "error": "no money"}, "It ran and failed. no money"),
        ({"state": "approved", "ended": "unknown"}, "It may have run"),
        ({"claimed_by": "person:ada"}, "On it: ada"),
        ({"votes": [VoteShown("person:ada")]}, "ada voted"),
        ({"arguments_left_out": 7}, "7 more arguments"),
        ({"similar": 4}, "Similar calls waiting: 4"),
    ],
)
def test_a_card_tells_how_it_stands(changes: dict[str, Any], expected: str) -> None:
    """B4: votes, claims, the verdict and how the execution ended all show on the card."""
    assert expected in words(slack_blocks.blocks(a_card(**changes)))


def test_an_edited_argument_shows_what_it_was() -> None:
    """The old value stands struck through beside the new one."""
    edited = Argument("amount", "250", changed_from="299")
    (items,) = slack_blocks.blocks(a_card(arguments=[edited]))[2]["elements"]
    assert [("250", {"code": True}), ("299", {"strike": True})] == [
        (each["text"], each["style"]) for each in items["elements"][0]["elements"] if each["text"] in {"250", "299"}
    ]


def test_one_person_has_one_name_and_one_vote_is_told_once() -> None:
    """Whoever asked, votes, is on it, and decides: never an id where there is a name, and no line twice."""
    names = {"person:ada": "Ada Lovelace", "person:bo": "Bo Diddley"}
    card = a_card(requested_by="person:ada", votes=[VoteShown("person:bo")], names=names)
    voted = words(slack_blocks.blocks(replace(card, happened="voted", note="Bo Diddley voted.")))
    claimed = replace(card, votes=[], claimed_by="person:bo", happened="claimed", note="Bo Diddley is on it.")
    over = replace(card, votes=[], state="approved", decided_by="person:bo")
    told = [voted, words(slack_blocks.blocks(claimed)), words(slack_blocks.blocks(over))]
    assert [(1, 1, 0)] * 3 == [
        tuple(each.count(name) for name in ("Ada Lovelace", "Bo Diddley", "person:")) for each in told
    ]


def test_people_are_told_anew_of_reminders_only_while_it_waits() -> None:
    """A reminder, which says of what, and an escalation are news; a vote is not, and nothing is when it is over."""
    reminder = a_card(happened="reminded", note="It is still waiting for a decision.")
    told = [reminder, replace(reminder, happened="voted"), replace(reminder, state="approved")]
    news = [[piece["text"] for piece in slack_blocks.news(card)] for card in told]
    assert [[f"It is still waiting for a decision. {reminder.summary}"], [], []] == news


def test_who_is_on_duty_stands_among_the_facts_while_it_waits() -> None:
    """As a plain text: a name is no markup."""
    duty = [
        DutyShown("ops", ["person:ada"], datetime(2026, 11, 22, 17, tzinfo=UTC)),
        DutyShown("late", why_all="nobody"),
    ]
    card = a_card(on_duty=duty, names={"person:ada": "<!here>"})
    told = words(slack_blocks.blocks(card))
    assert "On duty: <!here> until Nov 22, 2026, 5:00\u202fPM UTC (ops)" in told
    assert "<!here>" not in " ".join(marked_up(slack_blocks.blocks(card)))
    assert "On duty: nobody in late, so the whole group is asked" in told
    assert "On duty" not in words(slack_blocks.blocks(replace(card, state="approved")))


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("X" * 700 + "1", "X" * 700 + "2", "… [701, SHA-256 "),
        (
            "X" * 1_000 + f"… [20001, SHA-256 {'a' * 16}]",
            "X" * 1_000 + f"… [20001, SHA-256 {'b' * 16}]",
            "… [20001, SHA-256 ",
        ),
    ],
)
def test_values_that_differ_behind_the_cut_look_different(one: str, other: str, told: str) -> None:
    """A long value tells its length and its digest in Slack, too, whether the card had cut it or not."""
    shown = [words(slack_blocks.blocks(a_card(arguments=[Argument("note", each)]))) for each in (one, other)]
    assert (True, True, True) == (shown[0] != shown[1], told in shown[0], told in shown[1])


#: Who is in the workspace.
USERS = {"person:ada": "U0ADA", "person:ben.f": "U0BEN"}


def said(words: str, person: str = "person:cem", **changes: Any) -> list[Block]:
    """Return a comment as it stands in a thread; a question is for U0REQ."""
    shown = CommentShown("comment-1", person, words, **changes)
    return slack_blocks.comment(a_card(), shown, ["U0REQ"], lambda identity: USERS.get(identity, ""))


def as_text(pieces: list[Block]) -> str:
    """Return pieces of rich text as one, mentions as Slack would write them."""
    return "".join(piece.get("text") or f"<@{piece['user_id']}>" for piece in pieces)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("See @ada.", "See <@U0ADA>."),
        ("@ben.f, @ada: why?", "<@U0BEN>, <@U0ADA>: why?"),
        ("@zoe and ada", "@zoe and ada"),
        ("mail@ada.example, @ada@evil.example, x/@ada", "mail@ada.example, @ada@evil.example, x/@ada"),
    ],
    ids=["a person", "two", "nobody", "addresses"],
)
def test_a_comment_calls_people_of_the_directory(words: str, told: str) -> None:
    """`@id` calls whom the directory knows in this workspace; anything else stands as it was written."""
    assert f"cem commented: {told}" == as_text(said(words))


def test_a_question_calls_the_requester() -> None:
    """It is for them, whatever its words are."""
    assert "cem asks the requester: <@U0REQ> Why?" == as_text(said("Why?", question=True))


@given(st.text(st.sampled_from("<>@!&|#U0ADAchannel: "), max_size=40))
def test_control_sequences_of_slack_stay_text(words: str) -> None:
    """Whoever writes `<!channel>` or `<@U0ADA>` into a comment calls nobody: it stands there as it was written."""
    pieces = said(f"{words}<!channel> <@U0EVE> <!subteam^S0ALL>", "person:cem")
    assert {"U0ADA"} >= {piece["user_id"] for piece in pieces if piece["type"] == "user"}
    literal = "".join(piece["text"] for piece in pieces if piece["type"] == "text")
    assert literal.endswith("<!channel> <@U0EVE> <!subteam^S0ALL>")
    assert {"text", "user"} >= {piece["type"] for piece in pieces}


def test_a_visitor_calls_nobody() -> None:
    """Who asked through a shop's chat is anybody: their words are text."""
    assert [] == [piece for piece in said("@ada help", "visitor:v77") if piece["type"] == "user"]


def test_a_card_calls_whom_it_asks_and_no_argument_does() -> None:
    """The ids of whom it asks are mentions, as long as it waits; what an argument says is a text."""
    hostile = Argument("note", "<!channel> <@U0EVE> @ada", critical=True)
    card = a_card(asks=["U0ADA"], arguments=[hostile], summary="Pay <!here>?", quote="<@U0EVE> said yes")
    shown = json.dumps(slack_blocks.blocks(card))
    assert (1, 1) == (shown.count('"type": "user"'), shown.count('{"type": "user", "user_id": "U0ADA"}'))
    assert "&lt;!here&gt;" in slack_blocks.notification(card)
    assert 0 == json.dumps(slack_blocks.blocks(replace(card, state="approved"))).count('"type": "user"')


def test_an_escalation_calls_whom_it_asks() -> None:
    """A reminder calls nobody: they have been called already."""
    card = a_card(happened="escalated", note="Nobody decided yet.", asks=["U0ADA", "U0BEN"])
    told = [as_text(slack_blocks.news(each)) for each in (card, replace(card, happened="reminded"))]
    assert ["Nobody decided yet. <@U0ADA> <@U0BEN>", f"Nobody decided yet. {card.summary}"] == told


def test_a_thread_is_told_what_it_lacks() -> None:
    """What came behind the newest comment that it has; all that the card keeps where that one is gone."""
    card = a_card(comments=[CommentShown(f"c{number}", "person:ada", "x") for number in range(3)])
    told = [[each.comment_id for each in slack_blocks.unsaid(card, last)] for last in ("", "c0", "c2", "older")]
    assert [["c0", "c1", "c2"], ["c1", "c2"], [], ["c0", "c1", "c2"]] == told


def test_a_stopped_call_can_be_denied_and_not_approved() -> None:
    """The card says why; whatever lets the call run is gone, and comes back once the stop is lifted."""
    stopped = slack_blocks.blocks(a_card(stopped="refunds run twice", edits=True, again_uses=3))
    lifted = slack_blocks.blocks(a_card(edits=True, again_uses=3))
    assert ([names.DENY, names.MORE], True) == (list(buttons(stopped)), "“refunds run twice”" in words(stopped))
    assert [names.DENY, names.APPROVE, names.AGAIN, names.EDIT, names.MORE] == list(buttons(lifted))
