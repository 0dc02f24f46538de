"""The API's small forms: cursors, pointers, problem documents, event frames."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.json_pointer import pointer
from placet.gateway.conversations.items import Item
from placet.gateway.conversations.sse import event_frame, item_frame
from placet.gateway.http.errors import problem
from placet.gateway.http.pages import next_of
from placet.gateway.store.paging import Cursor, decode_cursor, encode_cursor

_ZONES = st.sampled_from([UTC, timezone(timedelta(hours=3))])
#: None of a day that is before or after the days of another zone.
MOMENTS = st.datetimes(timezones=_ZONES).filter(lambda at: 1 < at.timetuple().tm_year < 9999)


@given(MOMENTS, st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_a_cursor_survives_its_journey(at: datetime, row_id: str) -> None:
    """A page goes on exactly where the last one ended, to the microsecond."""
    assert Cursor(at, row_id) == decode_cursor(encode_cursor(Cursor(at, row_id)))


@given(st.text(max_size=80))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """Whatever a client sends is a cursor of ours or a ValueError."""
    try:
        cursor = decode_cursor(text)
    except ValueError:
        return
    assert cursor.at.tzinfo is not None


@pytest.mark.parametrize(
    "value", [["2026-01-01T00:00:00+00:00"], ["2026-01-01T00:00:00", "x"], ["x", "y"], {}, ["", ""]]
)
def test_a_cursor_with_other_contents_is_refused(value: object) -> None:
    """The form may be right and the contents not: no time, no zone, no id."""
    import base64  # noqa: PLC0415 - builds a forged cursor

    forged = base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    with pytest.raises(ValueError, match="cursor"):
        decode_cursor(forged)


def test_the_last_page_has_no_next() -> None:
    """`next` is there only if there is a row more than was asked for."""
    rows = [{"at": datetime(2026, 1, day, tzinfo=UTC), "id": f"r{day}"} for day in (3, 2, 1)]
    more = next_of(rows, 2, "at", "id")
    assert (None, Cursor(rows[1]["at"], "r2")) == (next_of(rows, 3, "at", "id"), decode_cursor(more or ""))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "expected"), [((), "#"), (("text",), "#/text"), (("labels", "a/b~c", 0), "#/labels/a~1b~0c/0")]
)
def test_a_pointer_names_a_place_in_the_body(path: tuple[str | int, ...], expected: str) -> None:
    """RFC 6901: slashes and tildes of keys are escaped."""
    assert expected == f"#{pointer(path)}"


def test_a_problem_without_a_kind_is_its_status() -> None:
    """RFC 9457: about:blank has the status' own phrase as its title."""
    answer = problem(404)
    assert {"type": "about:blank", "title": "Not Found", "status": 404} == json.loads(bytes(answer.body))


def test_a_problem_with_a_kind_carries_its_facts() -> None:
    """Kinds add members of their own."""
    answer = problem(409, "Over.", kind="already-decided", state="approved", decided_by=None)
    body = json.loads(bytes(answer.body))
    assert ("urn:placet:problem:already-decided", "approved", None) == (body["type"], body["state"], body["decided_by"])


def test_only_a_401_asks_for_a_proof() -> None:
    """The challenge is there where a client can do something about it."""
    assert (True, False) == ("www-authenticate" in problem(401).headers, "www-authenticate" in problem(403).headers)


@given(st.text())
def test_a_frame_is_one_event_whatever_it_says(text: str) -> None:
    """No text breaks out of its line: not by line breaks of any alphabet."""
    item = Item(7, "message", "2026-01-01T00:00:00+00:00", {"text": text})
    lines = item_frame(item).decode().splitlines()
    assert ["id: 7", "event: message", ""] == [lines[0], lines[1], lines[3]]
    assert {"text": text, "at": item.at} == json.loads(lines[2].removeprefix("data: "))


def test_a_transient_frame_has_no_number() -> None:
    """A client that reconnects asks from the last kept item."""
    assert b"id:" not in event_frame("delta", {"text": "x"})
