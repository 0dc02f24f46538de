"""What is stored of a change and of an event to send: one list of columns, whichever statement writes them."""

from __future__ import annotations

from dataclasses import fields

from shared.database import service_tables
from shared.outbox import OUTBOX_COLUMNS, row_of, stored_row
from shared.work import CHANGE_COLUMNS, Change, change_row
from tests.builders import a_posted_message, an_event

CHANGE = Change("acme", "turn", "t-1", "answered", "thinking", "finished", "agent")
TABLES = service_tables("agent")


def test_change_is_stored_with_all_that_it_says() -> None:
    """A field that no column took would be lost without a word: PostgreSQL passes over keys that it does not know."""
    row = change_row(CHANGE, "m-1")
    assert {each.name for each in fields(Change)} | {"message_id"} == set(row) == set(CHANGE_COLUMNS)
    assert set(CHANGE_COLUMNS) <= set(TABLES.history.c.keys())


def test_change_without_a_cause_has_no_message() -> None:
    """A person or a timer began it."""
    assert [None, "m-1"] == [change_row(CHANGE, cause)["message_id"] for cause in ("", "m-1")]


def test_event_to_send_is_stored_with_all_that_it_brings() -> None:
    """The relay sends it from its row alone."""
    row = row_of(an_event(a_posted_message()))
    stored = stored_row(row)
    assert (set(OUTBOX_COLUMNS), row.destination.key, row.event) == (set(stored), stored["key"], stored["event"])
    assert set(OUTBOX_COLUMNS) <= set(TABLES.outbox.c.keys())
