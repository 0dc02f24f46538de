"""What the agent shows of its turns, read for whether a conversation rests: people are asked, and nothing goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from services.gateway.store import reading
from services.gateway.store.turns import Rest, load_rest, turn_waits
from shared.database import Database
from tests.support.gateway import House, insert

PLACE = {"tenant": "acme", "conversation_id": "c"}
ASKED = Rest("t", over=False, step=1)
BEHIND = Rest("t", over=False, step=1, queued=True)


@pytest.fixture
async def database(house: House) -> AsyncIterator[Database]:
    """Reach the house's database as its gateway does."""
    database = Database(house.url, service="gateway")
    yield database
    await database.close()


def a_waiting_turn(house: House, held: str | None, written: str) -> None:
    """Let a turn wait for a call that people are asked about; `written`: whose message waits, if any."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    spoken = {"": None, "its requester": True, "another": False}[written]
    turn = {**PLACE, "turn_id": "t"}
    insert(house.url, "turns", **turn, state="waiting", step=1, started_at=now, spoken=spoken)
    insert(house.url, "tool_calls", **turn, call_id="k", state="open", held=held, proposed_at=now)
    insert(house.url, "messages", **turn, message_id="m1", queued=False)
    if written:
        insert(house.url, "messages", **PLACE, message_id="m2", queued=True)


@pytest.mark.parametrize(
    ("held", "written", "rest"),
    [
        (None, "", None),
        (None, "its requester", None),
        ("at_once", "", None),
        ("on_message", "", ASKED),
        ("on_message", "its requester", None),
        ("on_message", "another", BEHIND),
        ("wait", "", ASKED),
        ("wait", "its requester", BEHIND),
        ("supersede", "", ASKED),
        ("supersede", "its requester", None),
        ("supersede", "another", BEHIND),
    ],
)
async def test_a_turn_rests_when_the_agent_knows_that_people_are_asked(
    house: House, database: Database, held: str | None, written: str, rest: Rest | None
) -> None:
    """Until the agent has heard of an approval nobody knows what it does next, whatever waits behind the call."""
    a_waiting_turn(house, held, written)
    async with reading(database) as connection:
        assert rest == await load_rest(connection, "acme", "c", ["k"])


async def test_what_waits_for_people_who_hold_a_conversation_keeps_nothing_going(
    house: House, database: Database
) -> None:
    """A message that an operator will answer neither makes the turn go on nor stands behind its calls."""
    a_waiting_turn(house, "on_message", "its requester")
    async with reading(database) as connection:
        assert await load_rest(connection, "acme", "c", ["k"], held=True) == ASKED


@pytest.mark.parametrize(("held", "waits"), [(None, False), ("on_message", True), ("wait", True), ("supersede", True)])
async def test_a_turn_waits_for_people_once_the_agent_has_heard(
    house: House,
    database: Database,
    held: str | None,
    waits: bool,  # noqa: FBT001 - a table's column
) -> None:
    """A stream must not pause before: the model may go on at once, and nobody would read it."""
    a_waiting_turn(house, held, "")
    async with reading(database) as connection:
        assert waits == await turn_waits(connection, "acme", "t", ["k"])
