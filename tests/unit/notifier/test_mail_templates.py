"""Mails as they are written: whatever a card has in it, they stay one mail to one person that says what it should."""

from __future__ import annotations

import email.policy
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.notifier.cards import Card, DutyShown, VoteShown
from placet.notifier.channels import ChannelFailed
from placet.notifier.channels.email.links import MailedLink
from placet.notifier.channels.email.mail_templates import ARGUMENT_MAX, Letterhead, Place, joint_letter, letter
from placet.notifier.channels.email.threads import Kind, Told
from placet.surfaces.card import Argument

HEAD = Letterhead("placet@example.org", "help@example.org")
LINK = "https://placet.example/l/" + "t" * 43
PLACE = Place("<1@example.org>", "ada@example.org", MailedLink(LINK, code="K7R4W"))
HOSTILE = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30),
    st.sampled_from(
        [
            "x\r\nBcc: eve@example.org",
            "\nSubject: approved",
            "<script>alert(1)</script>",
            '"><a href="https://evil.example">Approve</a>',
            f"\n{LINK[:-1]}e\n",
            "=?utf-8?q?=0D=0ABcc:_eve@example.org?=",
            "{{ card.digest }}{% raw %}",
            "--\n-- \n.\r\n.\r\n",
            "\u202eevil\u2066",
            "</td></tr></table><h1>Approved</h1>",
        ]
    ),
)
CARDS = st.builds(
    Card,
    approval_id=HOSTILE,
    tenant=st.just("acme"),
    conversation_id=st.just("c"),
    agent=HOSTILE,
    tool=HOSTILE,
    summary=HOSTILE,
    requested_by=HOSTILE,
    reason=HOSTILE,
    rule=HOSTILE,
    arguments=st.lists(st.builds(Argument, name=HOSTILE, text=HOSTILE, changed_from=HOSTILE | st.none()), max_size=3),
    quote=HOSTILE,
    warnings=st.lists(HOSTILE, max_size=2),
    stopped=HOSTILE,
    digest=st.just("a" * 64),
    state=st.sampled_from(["pending", "approved", "denied", "expired"]),
    deadline=st.none() | st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    votes=st.lists(st.builds(VoteShown, person=HOSTILE), max_size=2),
    note=HOSTILE,
    needed=HOSTILE,
    claimed_by=HOSTILE,
    decided_by=HOSTILE,
    decision_reason=HOSTILE,
    error=HOSTILE,
    ended=st.sampled_from(["", "succeeded", "failed"]),
    locale=st.sampled_from(["en", "de", "tr"]),
)


class Seen(HTMLParser):
    """What a mail program would do with an HTML part."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note tags, and everything that would be followed or loaded."""
        self.tags.add(tag)
        self.targets += [value or "" for name, value in attrs if name in {"href", "src", "action", "background"}]


def received(message: EmailMessage) -> EmailMessage:
    """Return a mail as somebody gets it."""
    return message_from_bytes(message.as_bytes(), policy=email.policy.default)


def text_of(mail: EmailMessage, kind: str) -> str:
    """Return one part's text."""
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content())


def check(mail: EmailMessage, links: list[str]) -> None:
    """Fail unless the mail is to one person, has our headers alone, and leads nowhere but to `links`."""
    assert ["ada@example.org"] == [each.addr_spec for each in mail["To"].addresses]
    assert (None, None, "auto-generated") == (mail["Cc"], mail["Bcc"], mail["Auto-Submitted"])
    assert 1 == len(mail.get_all("Subject", []))
    html = Seen(text_of(mail, "html"))
    assert set() == html.tags & {"script", "form", "img", "iframe", "object", "h1", "link"}
    # Ours alone: what is dark in the dark.
    assert 1 == text_of(mail, "html").count("<style>")
    assert set(html.targets) <= set(links)
    lines = [line.strip() for line in text_of(mail, "plain").splitlines()]
    assert [link for link in links if "/l/" in link] == [
        line for line in lines if line.startswith("https://placet.example/l/")
    ]


@settings(deadline=None, max_examples=60)
@given(CARDS, st.sampled_from(Kind))
def test_no_card_changes_what_a_mail_is(card: Card, kind: Kind) -> None:
    """One recipient, our headers, our link and nobody else's, whatever stands on the card."""
    written = letter(HEAD, card, kind, Told("a" * 64, "pending", "", ("<0@example.org>",)), PLACE)
    mail = received(written)
    check(mail, [LINK])
    # A subject may be in any language; on its way it is ASCII.
    head = written.as_bytes().partition(b"\n\n")[0]
    assert (True, True) == (head.isascii(), len(str(mail["Subject"])) < 200)


@pytest.mark.parametrize(
    "recipient",
    [
        "",
        "ada",
        "ada@",
        "@example.org",
        "a@b@c",
        "ada@example.org, eve@example.org",
        "Ada <ada@example.org>",
        "a\r\nb@x.y",
    ],
)
def test_what_is_no_address_is_written_to_by_nobody(recipient: str) -> None:
    """It is given up, and its text does not reach the headers."""
    with pytest.raises(ChannelFailed) as failed:
        letter(HEAD, Card("a", "acme", "c"), Kind.ASKED, Told(), replace(PLACE, recipient=recipient))
    assert failed.value.permanent


def test_one_person_has_one_name() -> None:
    """Whoever asked, votes, is on it, and decides: never an id where there is a name."""
    names = {"person:ada": "Ada Lovelace", "person:bo": "Bo"}
    card = Card("a", "acme", "c", names=names, requested_by="person:ada", claimed_by="person:bo", digest="a" * 64)
    card = replace(card, votes=[VoteShown("person:ada")], decided_by="person:bo")
    mail = received(letter(HEAD, card, Kind.ASKED, Told(), PLACE))
    for kind in ("plain", "html"):
        found = re.findall(r"\b(Ada Lovelace|Bo|person|ada|bo)\b", text_of(mail, kind))
        assert {"Ada Lovelace": 2, "Bo": 2} == Counter(found)


def test_who_is_on_duty_stands_in_a_mail_by_the_reader_s_clock() -> None:
    """Until when, too; where nobody is, that all are asked."""
    duty = [
        DutyShown("ops", ["person:ada"], datetime(2026, 11, 22, 17, tzinfo=UTC)),
        DutyShown("late", why_all="nobody"),
    ]
    card = Card("a", "acme", "c", digest="a" * 64, names={"person:ada": "Ada"}, on_duty=duty)
    mail = received(letter(HEAD, card, Kind.AGAIN, Told(), replace(PLACE, zone="Europe/Berlin")))
    for kind in ("plain", "html"):
        told = text_of(mail, kind).replace("\u202f", " ")
        assert "Ada until Nov 22, 2026, 6:00 PM CET (ops)" in told
        assert "nobody in late, so the whole group is asked" in told


@pytest.mark.parametrize("kind", Kind)
def test_german_mails_say_sie(kind: Kind) -> None:
    """As the page behind the link does, and Slack."""
    card = Card("a", "acme", "c", digest="a" * 64, locale="de", held_back=2, similar=1, state="denied", ended="failed")
    words = set(re.findall(r"\w+", text_of(received(letter(HEAD, card, kind, Told(), PLACE)), "plain").lower()))
    assert set() == words & {"du", "dich", "dir", "dein", "deine", "deinen", "deiner"}


def test_a_long_argument_is_cut() -> None:
    """A mail stays readable; the page has all of it."""
    card = Card("a", "acme", "c", arguments=[Argument("text", "x" * 50_000)], digest="a" * 64)
    plain = text_of(received(letter(HEAD, card, Kind.ASKED, Told(), PLACE)), "plain")
    assert ARGUMENT_MAX - 1 == plain.count("x" * 1) - plain.replace("x" * (ARGUMENT_MAX - 1), "").count("x")


def test_lines_of_an_argument_each_begin_with_a_bar() -> None:
    """A mail's body is read in its lines, and none of them can begin like an argument or a line of ours."""
    body = Argument("body", "Hello\n  - amount: 1\n\nbye", changed_from="Hi")
    mail = received(letter(HEAD, Card("a", "acme", "c", arguments=[body]), Kind.ASKED, Told(), PLACE))
    shown = "  - body: \n      | Hello\n      | - amount: 1\n      | \n      | bye\n    before: Hi\n"
    assert [True, True] == [
        shown in text_of(mail, "plain").replace("\r\n", "\n"),
        "Hello<br>- amount: 1<br><br>bye<br>" in text_of(mail, "html"),
    ]


def test_the_agents_words_are_only_a_quote() -> None:
    """They stand behind a label that says what they are worth, in both parts, and behind everything else."""
    card = Card("a", "acme", "c", quote="Already approved by Ada.", digest="a" * 64)
    mail = received(letter(HEAD, card, Kind.ASKED, Told(), PLACE))
    for kind in ("plain", "html"):
        text = text_of(mail, kind)
        assert 0 < text.index("(unverified)") < text.index("Already approved by Ada.")
        assert 1 == text.count("Already approved by Ada.")


def test_a_mail_says_where_values_stood() -> None:
    """Beside the value, or below it where a value could write the same; nothing is said where arguments are not."""
    argument = Argument("to", "eve@evil.example", places=("tool:read_inbox",))
    card = Card("a", "acme", "c", arguments=[argument], asked="Read my mails", digest="a" * 64)
    mail = received(letter(HEAD, card, Kind.ASKED, Told(), PLACE))
    plain, html = text_of(mail, "plain"), text_of(mail, "html")
    assert "to: eve@evil.example\n    ^ only seen in the output of read_inbox\n" in plain.replace("\r\n", "\n")
    assert "(only seen in the output of read_inbox)" in html
    assert [True, True] == ["Read my mails" in text for text in (plain, html)]
    bare = received(letter(replace(HEAD, arguments=False), card, Kind.ASKED, Told(), PLACE))
    assert [False, False] == ["Read my mails" in text_of(bare, kind) for kind in ("plain", "html")]


def test_without_arguments_a_mail_has_no_words_of_the_agent() -> None:
    """The sentence of a card has arguments in it, and the agent's explanation may: the tool's name stands there."""
    card = Card("a", "acme", "c", tool="pay", summary="Pay 299 TRY?", quote="Pay 299 TRY now.", digest="a" * 64)
    for kind in (Kind.ASKED, Kind.AGAIN, Kind.CLOSED):
        mail = received(letter(replace(HEAD, arguments=False), card, kind, Told(), PLACE))
        told = [text_of(mail, part) for part in ("plain", "html")]
        assert [(False, True)] * 2 == [("299" in text, "pay" in text) for text in told]


def test_what_the_agent_wrote_stands_apart_from_what_placet_says() -> None:
    """An argument that looks like a fact of ours stands in a box of its own, under a heading that says whose it is."""
    fake = Argument("Held because", "Nothing is wrong; approve it.")
    card = Card("a", "acme", "c", tool="mail", summary="Send it?", arguments=[fake], reason="Mails are read.", rule="r")
    mail = letter(HEAD, card, Kind.ASKED, Told("a" * 64, "pending", "", ()), PLACE)
    html, plain = text_of(mail, "html"), text_of(mail, "plain")
    box = html[html.index('class="theirs"') : html.index("</table>", html.index('class="theirs"'))]
    assert (True, True, False) == ("Send it?" in box, "Nothing is wrong; approve it." in box, "Mails are read." in box)
    assert (1, 1) == (html.count("Send it?"), plain.count("Send it?"))
    assert 1 == html.count("Nothing is wrong; approve it.")
    theirs, ours = plain.index("Written by the agent"), plain.index("Said by Placet")
    assert theirs < plain.index("Nothing is wrong") < ours < plain.index("Mails are read.")


@pytest.mark.parametrize(
    ("head", "summary", "subject"),
    [
        (HEAD, "Send 299 TRY to ada?", "Placet: Send 299 TRY to ada? [c0ffee00]"),
        (HEAD, "x" * 200, f"Placet: {'x' * 89}… [c0ffee00]"),
        (HEAD, "one\r\nBcc: eve@example.org", "Placet: one Bcc: eve@example.org [c0ffee00]"),
        (HEAD, "pay \u202e\u2066now", "Placet: pay now [c0ffee00]"),
        (HEAD, "=?utf-8?q?=0D=0ABcc:_eve?=", "Placet: = ?utf-8?q?=0D=0ABcc:_eve?= [c0ffee00]"),
        (HEAD, "", "Placet: refund needs a decision [c0ffee00]"),
        (replace(HEAD, subject="tool"), "Send 299 TRY?", "Placet: refund needs a decision [c0ffee00]"),
        (replace(HEAD, arguments=False), "Send 299 TRY?", "Placet: refund needs a decision [c0ffee00]"),
    ],
    ids=["sentence", "long", "lines", "invisible", "encoded", "none", "opted out", "no arguments"],
)
def test_a_subject_is_the_sentence_of_the_card(head: Letterhead, summary: str, subject: str) -> None:
    """On one line, cut, of what can be seen; the tool's name where the house wants no arguments there."""
    card = Card("approval-c0ffee00", "acme", "c", tool="refund", summary=summary)
    mail = received(letter(head, card, Kind.ASKED, Told(), PLACE))
    assert (subject, None) == (mail["Subject"], mail["Bcc"])


@pytest.mark.parametrize(
    ("zone", "told"),
    [("Europe/Berlin", "CEST"), ("America/New_York", "EDT"), ("UTC", "UTC"), ("Nowhere/Land", "UTC")],
)
def test_times_are_in_the_zone_of_the_reader(zone: str, told: str) -> None:
    """Where it is noon in UTC; a zone that this machine does not know is no reason for no mail."""
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    hour = {"CEST": "2:00\u202fPM", "EDT": "8:00\u202fAM", "UTC": "12:00\u202fPM"}[told]
    card = Card("a", "acme", "c", deadline=noon)
    mail = received(letter(HEAD, card, Kind.ASKED, Told(), replace(PLACE, zone=zone)))
    found = [f"Jul 1, 2026, {hour} {told}" in text_of(mail, kind) for kind in ("plain", "html")]
    assert [True, True] == found


@settings(deadline=None, max_examples=40)
@given(st.lists(CARDS, min_size=2, max_size=4))
def test_no_card_changes_what_a_list_of_calls_is(cards: list[Card]) -> None:
    """One recipient, our headers, a link to each page and nobody else's, and no link that decides."""
    listed = [replace(card, url=f"https://placet.example/inbox/{n}", state="pending") for n, card in enumerate(cards)]
    written = joint_letter(HEAD, listed, replace(PLACE, link=MailedLink("https://placet.example/inbox")))
    mail = received(written)
    pages = ["https://placet.example/inbox", *(card.url for card in listed)]
    check(mail, pages)
    assert set(pages) == set(Seen(text_of(mail, "html")).targets)
    lines = [line.strip() for line in text_of(mail, "plain").splitlines()]
    assert [*pages[1:], pages[0]] == [line for line in lines if line.startswith("https://placet.example/")]
    assert len(cards) == sum(line.startswith("| ") or line == "|" for line in lines)
    head = written.as_bytes().partition(b"\n\n")[0]
    assert (True, len(cards)) == (head.isascii(), len(mail.get_all("X-Placet-Approval", [])))


def some_cards(locale: str = "en") -> list[Card]:
    """Return a call with a fake fact in its sentence, and a risky one with a warning."""
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    facts: dict[str, Any] = {
        "reason": "Mails are read.",
        "rule": "mails",
        "deadline": noon,
        "locale": locale,
        "tool": "mail",
    }
    first = Card("a-1", "acme", "c", summary="Send it?\nHeld because: nothing", url="https://x.example/1", **facts)
    risky = replace(first, approval_id="a-2", summary="Run <b>rm</b>?", risk="high", warnings=["It mixes alphabets."])
    return [first, replace(risky, url="https://x.example/2")]


def test_a_list_tells_each_call_with_what_placet_says_of_it() -> None:
    """Its sentence in a box of its own, then its flags, rule, deadline and the link to its page, in both parts."""
    mail = received(joint_letter(HEAD, some_cards(), replace(PLACE, zone="Europe/Berlin")))
    plain, html = text_of(mail, "plain").replace("\r\n", "\n"), text_of(mail, "html")
    assert "Placet: 2 calls need your decision" == mail["Subject"]
    entry = (
        "2.\nWritten by the agent, unverified: what would run\n  | Run <b>rm</b>?\nSaid by Placet\n! This is risky\n"
        "! It mixes alphabets.\nTool: mail\nHeld because: Mails are read. (rule: mails)\n"
        "Until: Jul 1, 2026, 2:00\u202fPM CEST\nSign in to review and decide:\nhttps://x.example/2\n"
    )
    assert (True, True) == (entry in plain, "  | Send it? Held because: nothing\n" in plain)
    boxes = re.findall(r'class="theirs".*?</table>', html, re.DOTALL)
    assert [True, True] == ["Send it?" in boxes[0], "Run &lt;b&gt;rm&lt;/b&gt;?" in boxes[1]]
    assert [0, 0] == [box.count("Mails are read.") + box.count("mixes alphabets") for box in boxes]
    told = ("This is risky", "It mixes alphabets.", "Mails are read.", "mails", "CEST", 'href="https://x.example/2"')
    assert [True] * 6 == [words in html for words in told]


def test_a_list_without_arguments_names_tools_alone() -> None:
    """Where the house sends no arguments, neither sentence nor warning stands in it."""
    for waiting, said in ((2, False), (40, True)):
        many = received(joint_letter(HEAD, some_cards(), PLACE, waiting))
        sentence = f"In all, {waiting} calls that you are mailed about"
        assert [said, said] == [sentence in text_of(many, part) for part in ("plain", "html")]
    mail = received(joint_letter(replace(HEAD, arguments=False), some_cards(), PLACE))
    for kind in ("plain", "html"):
        told = text_of(mail, kind)
        assert (2, 0, 0) == (told.count("mail needs a decision"), told.count("Send it"), told.count("alphabets"))


@pytest.mark.parametrize(
    ("locale", "subject"),
    [("de", "Placet: 2 Aufrufe brauchen Ihre Entscheidung"), ("tr", "Placet: 2 çağrı kararınızı bekliyor")],
)
def test_a_list_is_in_the_language_of_its_reader(locale: str, subject: str) -> None:
    """Heading and facts; nothing of it is English."""
    mail = received(joint_letter(HEAD, some_cards(locale), PLACE))
    plain = text_of(mail, "plain")
    english = ("decision", "signing in", "Sign in", "Until", "risky", "Said by")
    assert (subject, [False] * 6) == (mail["Subject"], [words in plain for words in english])
