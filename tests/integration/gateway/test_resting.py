"""What the agent shows of its turns, read for whether a conversation rests: people are asked, and nothing goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from services.gateway.live import Topic
from services.gateway.resting import waits_behind
from services.gateway.store import reading
from services.gateway.store.turns import UNHEARD_MAX, Rest, load_rest, load_waiting_step
from shared.database import Database
from tests.support.gateway import House, insert

ASKED = Rest("t", over=False, step=1)
BEHIND = Rest("t", over=False, step=1, queued=True)
TOPIC = Topic("acme", "c")


@pytest.fixture
async def database(house: House) -> AsyncIterator[Database]:
    """Reach the house's database as its gateway does."""
    database = Database(house.url, service="gateway")
    yield database
    await database.close()


def a_waiting_turn(house: House, how: str, written: str, asked_ago: timedelta = timedelta()) -> None:
    """Let a turn wait for a call that people are asked about, held in one of the agent's ways or, empty, unheard.

    `written`: whose messages wait behind it, the first one's first.
    """
    now = datetime.now(UTC) - asked_ago
    place = {"tenant": "acme", "conversation_id": "c", "turn_id": "t"}
    behind = {"spoken": written.startswith("its") if written else None, "written": "its" in written}
    insert(house.url, "turns", **place, **behind, state="waiting", step=1, started_at=now)
    held = {"held": how} if how in {"at_once", "on_message"} else {"next_message": how} if how else {}
    insert(house.url, "tool_calls", **place, **held, call_id="k", state="open", proposed_at=now)
    asked = {"approval_id": "a", "state": "pending", "revision": 1, "created_at": now}
    insert(house.url, "approvals", **place, **asked, call_id="k")
    insert(house.url, "messages", **place, message_id="m", queued=False)
    for author in written.split():
        insert(house.url, "messages", **(place | {"turn_id": None}), message_id=author, queued=True)


@pytest.mark.parametrize(
    ("how", "written", "rest"),
    [
        ("", "", None),
        ("", "its", None),
        ("at_once", "", None),
        ("on_message", "", ASKED),
        ("on_message", "its", None),
        ("on_message", "another's", BEHIND),
        ("on_message", "another's its", BEHIND),
        ("wait", "", ASKED),
        ("wait", "its", BEHIND),
        ("supersede", "", ASKED),
        ("supersede", "its", None),
        ("supersede", "another's", BEHIND),
        ("supersede", "another's its", None),
    ],
)
async def test_a_turn_rests_when_the_agent_knows_that_people_are_asked(
    house: House, database: Database, how: str, written: str, rest: Rest | None
) -> None:
    """Until the agent has heard of an approval nobody knows what it does next, whatever waits behind the call."""
    a_waiting_turn(house, how, written)
    async with reading(database) as connection:
        assert rest == await load_rest(connection, "acme", "c", ["k"])


@pytest.mark.parametrize("how", ["on_message", "supersede"])
async def test_what_waits_for_people_who_hold_a_conversation_keeps_nothing_going(
    house: House, database: Database, how: str
) -> None:
    """A message that an operator will answer neither makes the turn go on nor takes a call's place."""
    a_waiting_turn(house, how, "its")
    async with reading(database) as connection:
        assert await load_rest(connection, "acme", "c", ["k"], held=True) == ASKED


@pytest.mark.parametrize(("how", "step"), [("", None), ("on_message", 1), ("wait", 1), ("supersede", 1)])
async def test_a_turn_waits_for_people_once_the_agent_has_heard(
    house: House, database: Database, how: str, step: int | None
) -> None:
    """A stream must not pause before: the model may go on at once, and nobody would read it."""
    a_waiting_turn(house, how, "")
    async with reading(database) as connection:
        assert step == await load_waiting_step(connection, "acme", "t", ["k"])


@pytest.mark.parametrize(
    ("how", "message_id", "behind"),
    [
        ("wait", "its", True),
        ("supersede", "another's", False),
        ("on_message", "its", False),
        ("", "its", False),
        ("wait", "m", False),
        ("wait", "unknown", False),
    ],
)
async def test_a_message_waits_behind_a_call_that_people_are_asked_about(
    house: House,
    database: Database,
    how: str,
    message_id: str,
    behind: bool,  # noqa: FBT001 - a table's column
) -> None:
    """Not while anything may still go on, nor one that was heard, nor one that the agent does not know of."""
    a_waiting_turn(house, how, "its another's")
    assert behind == await waits_behind(database, TOPIC, message_id)


async def test_an_agent_that_never_hears_keeps_no_stream_open(house: House, database: Database) -> None:
    """Its word may be a dead letter: after a minute people are asked all the same, and messages wait."""
    a_waiting_turn(house, "", "its", asked_ago=UNHEARD_MAX)
    async with reading(database) as connection:
        assert await load_rest(connection, "acme", "c", ["k"]) == BEHIND
        assert await load_waiting_step(connection, "acme", "t", ["k"]) == 1
