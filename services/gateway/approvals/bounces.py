"""Reads what mail systems send back: delivery status notifications, RFC 3464. Pure.

A bounce comes from anybody, so it is only believed about which of our mails it names and that somebody with our key
passed it on. Anything else that comes to the same mailbox, holiday notes and answers, is no bounce and means nothing.
"""

from __future__ import annotations

import email.policy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import MessageError
from email.message import Message
from email.parser import BytesHeaderParser

from placet.contracts.messages.deliveries import WORDS_MAX
from placet.domain.card_text import printable

#: Parts of a report that are looked at, at most.
PARTS_MAX = 20
#: Headers that name a type, at most, and the bytes of one: each may open parts, the parser compares each line with the
#: ends of all parts around it, and reads a type in the square of its length. A report has four, and those of our mail.
TYPES_MAX, TYPE_BYTES_MAX = 20, 2_000
#: Empty lines of a mail, at most: each may end a group of fields, of which the parser makes a mail of its own.
EMPTY_LINES_MAX = 5_000

_TYPE = re.compile(rb"content-type:[^\r\n]*(?:[\r\n]+[ \t][^\r\n]*)*", re.IGNORECASE)
_EMPTY_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?=[\r\n])")
_ID = r"([0-9a-f]{32})"
_RETURN_ADDRESS = re.compile(rf"\+{_ID}@")
_MESSAGE_ID = re.compile(rf"<{_ID}@")
#: Where the address stands that a bounce came back to.
_RECIPIENT_HEADERS = ("to", "delivered-to", "x-original-to", "envelope-to")
_STATUS = re.compile(r"[245]\.\d{1,3}\.\d{1,3}")


@dataclass(frozen=True, slots=True)
class Bounce:
    """A mail that did not arrive."""

    mail_id: str
    #: RFC 3463; empty where the report has none.
    status: str
    reason: str


def read_bounce(raw: bytes) -> Bounce | None:
    """Return which of our mails a report says did not arrive; None where it says nothing of that kind."""
    if not _cheap(raw):
        return None
    try:
        report = message_from_bytes(raw, policy=email.policy.compat32)
        if report.get_content_type() != "multipart/report":
            return None
        parts = list(_parts(report))
        failed = next((block for block in _blocks(parts) if _field(block, "action").lower() == "failed"), None)
        mail = _mail_id(report, parts)
    except (MessageError, LookupError, ValueError, AttributeError, TypeError):
        # Mails from outside are broken in every way there is; one that cannot be read says nothing.
        return None
    if failed is None or mail is None:
        return None
    status = _STATUS.match(_field(failed, "status"))
    words = _field(failed, "diagnostic-code") or _field(failed, "status")
    return Bounce(mail, status[0] if status else "", words[:WORDS_MAX])


def _cheap(raw: bytes) -> bool:
    """Tell whether a mail can be parsed in a time that grows with its size alone."""
    if sum(1 for _ in _EMPTY_LINE.finditer(raw)) > EMPTY_LINES_MAX:
        return False
    types = [len(each[0]) for each in _TYPE.finditer(raw)]
    return len(types) <= TYPES_MAX and max(types, default=0) <= TYPE_BYTES_MAX


def _parts(report: Message) -> Iterator[Message]:
    for number, part in enumerate(report.walk()):
        if number >= PARTS_MAX:
            return
        yield part


def _blocks(parts: list[Message]) -> Iterator[Message]:
    """Yield the groups of fields of a delivery status: one about the report, and one for each recipient."""
    for part in parts:
        # What has no parts is not asked for: it would be decoded as it says, and some codecs take very long.
        if part.get_content_type() == "message/delivery-status" and part.is_multipart():
            yield from (block for block in part.get_payload() if isinstance(block, Message))


def _mail_id(report: Message, parts: list[Message]) -> str | None:
    """Return the id in the address that the bounce came back to, or in the returned mail's own Message-ID."""
    for name in _RECIPIENT_HEADERS:
        for value in report.get_all(name, []):
            if found := _RETURN_ADDRESS.search(str(value).lower()):
                return found[1]
    for part in parts:
        if part.get_content_type() == "text/rfc822-headers":
            text = part.get_payload(decode=True)
            # What it stands for; its text may be encoded, and hold any number of parts.
            part = BytesHeaderParser().parsebytes(text if isinstance(text, bytes) else b"")  # noqa: PLW2901
        if part is not report and (found := _MESSAGE_ID.search(str(part.get("message-id", "")))):
            return found[1]
    return None


def _field(block: Message, name: str) -> str:
    value = str(block.get(name, ""))
    return printable(" ".join(value.split()))
