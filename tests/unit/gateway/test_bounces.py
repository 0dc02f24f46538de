"""Bounces as mail systems write them, and everything else that comes to the same mailbox."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.gateway.approvals.bounces import EMPTY_LINES_MAX, TYPE_BYTES_MAX, TYPES_MAX, Bounce, read_bounce
from tests.support.bounced_mail import MAIL, a_bounce


@pytest.mark.parametrize(
    "raw",
    [
        a_bounce(),
        a_bounce(to="Placet <bounces@example.org>", returned=True),
        a_bounce(to="postmaster@example.org", returned=True, headers_only=True),
        a_bounce().replace(b"\n", b"\r\n"),
    ],
)
def test_a_bounce_names_its_mail(raw: bytes) -> None:
    """By the address that it came back to, or by the Message-ID of what it returns."""
    assert Bounce(MAIL, "5.1.1", "smtp; 550 5.1.1 no such user") == read_bounce(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\x00\xfe",
        a_bounce(action="delayed"),
        a_bounce(action="delivered"),
        a_bounce(to="bounces@example.org"),
        a_bounce(to=f"bounces+{MAIL[:-1]}@example.org"),
        f"To: bounces+{MAIL}@example.org\nAuto-Submitted: auto-replied\n\nI am on holiday. Action: failed".encode(),
        f"To: bounces+{MAIL}@example.org\n\nApproved!".encode(),
        a_bounce().replace(b"multipart/report", b"text/plain"),
    ],
)
def test_what_is_no_bounce_means_nothing(raw: bytes) -> None:
    """Holiday notes, answers, delays, and what names no mail of ours."""
    assert read_bounce(raw) is None


def with_types(number: int, size: int) -> bytes:
    """Return a bounce with so many headers that name a type, over two lines each, and one of so many bytes."""
    text = "Content-Type:\r\n text/plain;"
    more = (f"--=_b\n{text}\n\nx\n\n" * (number - 4) + f"--=_b\n{text:{size}}\n\nx\n\n--=_b--").encode()
    return a_bounce().replace(b"--=_b--", more)


def test_a_mail_that_takes_long_to_parse_means_nothing() -> None:
    """A report has few parts and short types; one within the bounds is read, one beyond is not even parsed."""
    most = with_types(TYPES_MAX, TYPE_BYTES_MAX)
    bounce = Bounce(MAIL, "5.1.1", "smtp; 550 5.1.1 no such user")
    assert (TYPES_MAX, bounce) == (most.count(b"Content-Type"), read_bounce(most))
    assert read_bounce(with_types(TYPES_MAX + 1, TYPE_BYTES_MAX)) is None
    assert read_bounce(with_types(TYPES_MAX, TYPE_BYTES_MAX + 1)) is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_mail_of_empty_lines_means_nothing(end: bytes) -> None:
    """A report of many lines has some; of each the parser may make a mail, and beyond the bound nothing is parsed."""
    bounce, lines = a_bounce(), b"\nx" * 2 * EMPTY_LINES_MAX
    numbers = (0, EMPTY_LINES_MAX - 100, EMPTY_LINES_MAX + 1)
    read = [read_bounce((bounce + lines + b"\n" * empty).replace(b"\n", end)) for empty in numbers]
    assert [True, True, False] == [found is not None for found in read]


def test_a_mail_in_a_mail_in_a_mail_means_nothing() -> None:
    """However deep: it is no error either."""
    assert read_bounce(b"Content-Type: message/rfc822\n\n" * 8_700) is None


def test_the_words_of_a_mail_system_are_one_short_line() -> None:
    """They end in logs and on screens."""
    found = read_bounce(a_bounce(reason="smtp; \x1b[31m" + "long " * 500))
    assert found is not None
    assert (500, True) == (len(found.reason), found.reason.isprintable())


@settings(deadline=None)
@given(st.binary(max_size=500), st.integers(0, 900))
def test_no_broken_mail_is_an_error(garbage: bytes, place: int) -> None:
    """A report with anything in its middle is read or means nothing."""
    raw = a_bounce(returned=True)
    read_bounce(raw[:place] + garbage + raw[place:])
