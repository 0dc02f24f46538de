"""A stream asks whether its client may still listen, however much there is to tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from services.gateway.drafts import Drafts
from services.gateway.live import Following, Hub, Topic, Transient
from services.gateway.stream import DOUBT_SECONDS, Stream
from shared.database import Database
from shared.driver import Outage

HERE = Topic("acme", "c")
PIECE = Transient("delta", {})


class Teller(Hub):
    """Tells whoever follows something at once."""

    @contextmanager
    def follow(self, topics: Iterable[Topic]) -> Iterator[Following]:
        """Follow `topics`, with the first piece waiting."""
        with super().follow(topics) as following:
            following.push(PIECE)
            yield following


async def heard(
    answers: Iterable[bool | None], heartbeat_seconds: float, pieces_max: int = 10, doubt_seconds: float = DOUBT_SECONDS
) -> list[Any]:
    """Return what a client hears for whom the next piece always waits, and whose right gets these answers.

    None is the answer of a database that is away.
    """
    hub, allowed, told = Teller(10), iter(answers), []

    async def still_allowed() -> bool:
        answer = next(allowed)
        if answer is None:
            raise Outage("the server hung up")
        return answer

    database = Mock(spec=Database)
    stream = Stream(hub, Drafts(), database, (HERE,), None, 0, heartbeat_seconds, still_allowed, doubt_seconds)
    async with aclosing(stream.signals()) as signals:
        async for signal in signals:
            told.append(signal)
            if len(told) == pieces_max:
                break
            hub.tell(HERE, PIECE)
    return told


@pytest.mark.parametrize("yeses", [0, 1, 4])
async def test_a_stream_that_is_never_silent_ends_when_its_right_does(yeses: int) -> None:
    """A model that writes on and on tells nothing more to who was revoked: they are looked up once a heartbeat."""
    assert [PIECE] * yeses == await heard([True] * yeses + [False], heartbeat_seconds=0)


async def test_a_right_is_not_looked_up_for_every_piece() -> None:
    """Between two heartbeats nobody is asked."""
    assert [PIECE] * 10 == await heard([], heartbeat_seconds=3600)


async def test_a_stream_goes_on_while_nobody_can_say_whether_it_may() -> None:
    """The database is away for a moment: who listens is not sent away for it."""
    assert [PIECE] * 3 == await heard([None, None, True, False], heartbeat_seconds=0)


async def test_a_stream_ends_when_nobody_could_say_for_too_long() -> None:
    """A right that cannot be looked up does not hold for ever: the client comes again and is asked as everybody is."""
    assert [PIECE] == await heard([True, *[None] * 10], heartbeat_seconds=0, doubt_seconds=0)
