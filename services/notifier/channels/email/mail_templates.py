"""Writes mails: plain text and HTML with the same facts, made by template from a card. Reads and sends nothing.

What stands on a card is hostile until proved otherwise. In the HTML part it is escaped, in the text part it has no
lines of its own, and in headers nothing of it stands but a cut line of what can be seen: the sentence of the card, or
the tool's name where the house wants no more in its subjects.
"""

from __future__ import annotations

import email.policy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address as MailAddress
from email.message import EmailMessage
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from placet.domain.card_text import printable
from placet.notifier.cards import Card
from placet.notifier.channels import ChannelFailed
from placet.notifier.channels.email.links import MailedLink
from placet.notifier.channels.email.threads import ASKING, Kind, Told
from placet.surfaces.card import Argument
from placet.surfaces.texts import moment, plural, text

#: Longest argument in a mail, in characters; the page has all of it.
ARGUMENT_MAX = 4_000
#: Longest sentence in a subject, in characters; phones show about forty.
SUBJECT_MAX = 90
#: Votes that a mail lists at most.
VOTES_MAX = 20
_NAME = "Placet"
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Letterhead:
    """What all mails of an installation have in common."""

    #: Address that mails come from: `placet@example.org`. Its domain is that of the message ids.
    sender: str
    reply_to: str = ""
    #: False: mails say that something waits, and of its arguments nothing.
    arguments: bool = True
    #: What the subject says: the sentence of the card, which has arguments in it, or the tool's name.
    subject: Literal["sentence", "tool"] = "sentence"

    @property
    def domain(self) -> str:
        """The domain of the message ids."""
        return self.sender.rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class Place:
    """Who a mail about one approval is for."""

    message_id: str
    recipient: str
    #: Where its person decides, or only looks at it.
    link: MailedLink
    #: Where they read it: a time zone such as `Europe/Berlin`.
    zone: str = "UTC"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(line=line, lines=lines)
    return made


def line(value: str, most: int = ARGUMENT_MAX) -> str:
    """Return `value` on one line, cut: it can begin no line that looks like ours."""
    flat = " ".join(value.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def lines(value: str, most: int = ARGUMENT_MAX) -> list[str]:
    """Return `value` in its lines, cut; whoever writes them down begins each with a sign of its own."""
    shown = value if len(value) <= most else value[: most - 1] + "…"
    return [line(each) for each in shown.split("\n")]


_TEMPLATES = _environment()


def letter(head: Letterhead, card: Card, kind: Kind, told: Told, place: Place) -> EmailMessage:
    """Return the mail that tells `card`.

    Raise ChannelFailed where the recipient is no address.
    """
    message = _envelope(head, _subject(head, card, kind), message_id=place.message_id, recipient=place.recipient)
    message["X-Placet-Approval"] = header_word(card.approval_id)
    if kind is not Kind.ASKED:
        _follow(message, told.ids)
    values = {"card": card, "kind": kind, "asks": kind in ASKING, "link": place.link, "arguments": head.arguments}
    at = partial(_moment, card.locale, place.zone)
    values |= {"votes_max": VOTES_MAX, "edited": _edited(card, told), "at": at, "on_duty": card.duty_lines(at)}
    return _written(message, card.locale, values)


def joint_letter(head: Letterhead, cards: Sequence[Card], place: Place, waiting: int = 0) -> EmailMessage:
    """Return the mail that lists calls which one person is asked about, in the language of the first card.

    `waiting` is how many wait in all that they are told about by mail, `place.link` leads to the page of all that
    waits. Raise ChannelFailed where the recipient is no address.
    """
    locale = cards[0].locale
    words = plural(locale, "{count} call needs your decision", "{count} calls need your decision", len(cards))
    message = _envelope(head, f"{_NAME}: {words}", message_id=place.message_id, recipient=place.recipient)
    for card in cards:
        message["X-Placet-Approval"] = header_word(card.approval_id)
    values = {"cards": cards, "heading": words, "link": place.link, "arguments": head.arguments}
    values["in_all"] = waiting if waiting > len(cards) else 0
    return _written(message, locale, values | {"at": partial(_moment, locale, place.zone)}, "list")


def note(head: Letterhead, subject: str, words: str, *, message_id: str, recipient: str) -> EmailMessage:
    """Return a mail about no approval, plain text; raise ChannelFailed where the recipient is no address."""
    message = _envelope(head, f"{_NAME}: {subject}", message_id=message_id, recipient=recipient)
    message.set_content(f"{words}\n", cte="quoted-printable")
    return message


def _edited(card: Card, told: Told) -> list[Argument] | None:
    """Return the arguments that people changed, none where these may not be seen; None where nobody changed any."""
    changed = [each for each in card.arguments if each.changed_from is not None]
    return changed if changed or told.digest not in {"", card.digest} else None


def header_word(value: str, most: int = 64) -> str:
    """Return what of a text may stand in a header: letters, digits and `_ . -`."""
    return _NOT_A_NAME.sub("-", value)[:most]


def _subject(head: Letterhead, card: Card, kind: Kind) -> str:
    """Return the subject of a mail: the same in a thread, but for the `Re:` and for what people have changed."""
    words = _sentence(card.summary) if head.arguments and head.subject == "sentence" else ""
    words = words or text(card.locale, "{tool} needs a decision", tool=header_word(card.tool))
    prefix = "" if kind is Kind.ASKED else "Re: "
    return f"{prefix}{_NAME}: {words} [{header_word(card.approval_id)[-8:]}]"


def _sentence(summary: str) -> str:
    """Return what of a card's sentence a header may have: what can be seen, on one line, cut."""
    # What looks like an encoded word would be decoded, line breaks and all.
    return line(printable(summary).replace("=?", "= ?"), SUBJECT_MAX)


def _envelope(head: Letterhead, subject: str, *, message_id: str, recipient: str) -> EmailMessage:
    message = EmailMessage(email.policy.SMTP)
    try:
        message["From"] = MailAddress(_NAME, addr_spec=head.sender)
        message["To"] = MailAddress(addr_spec=recipient)
        if head.reply_to:
            message["Reply-To"] = MailAddress(addr_spec=head.reply_to)
    except (ValueError, IndexError) as error:
        # The parser of the standard library trips over some texts that are no address.
        raise ChannelFailed(f"{recipient!r} cannot be written to: {error}", permanent=True) from error
    except Exception as error:
        if type(error).__module__.startswith("email."):
            raise ChannelFailed(f"{recipient!r} is no e-mail address", permanent=True) from error
        raise
    message["Subject"] = subject
    message["Date"] = formatdate(usegmt=True)
    message["Message-ID"] = message_id
    # No holiday note and no read receipt shall answer, and nobody's program shall answer those.
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    return message


def _follow(message: EmailMessage, ids: Sequence[str]) -> None:
    """Put a mail into a thread, oldest message id first."""
    others = [each for each in ids if each != message["Message-ID"]]
    if others:
        message["In-Reply-To"] = others[0]
        message["References"] = " ".join(others)


def _written(message: EmailMessage, locale: str, values: Mapping[str, Any], template: str = "letter") -> EmailMessage:
    """Write both parts; the last one is what mail programs prefer."""
    words = {"t": partial(text, locale), "locale": locale, **values}
    plain = _LINES.sub("\n\n", _TEMPLATES.get_template(f"{template}.txt").render(words)).strip() + "\n"
    message.set_content(plain, cte="quoted-printable")
    html = _TEMPLATES.get_template(f"{template}.html").render(words)
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    return message


def _moment(locale: str, zone: str, at: datetime | None) -> str:
    try:
        return moment(locale, at, zone) if at else ""
    except LookupError:
        # Quiet hours may name a zone that this machine does not know: another clock is better than no mail.
        return moment(locale, at) if at else ""
