"""A stream asks whether its client may still listen, however much there is to tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from services.gateway.drafts import Drafts
from services.gateway.live import Following, Hub, Topic, Transient
from services.gateway.stream import Stream
from shared.database import Database

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


async def heard(answers: Iterable[bool], heartbeat_seconds: float, pieces_max: int = 10) -> list[Any]:
    """Return what a client hears for whom the next piece always waits, and whose right gets these answers."""
    hub, allowed, told = Teller(10), iter(answers), []

    async def still_allowed() -> bool:
        return next(allowed)

    stream = Stream(hub, Drafts(), Mock(spec=Database), (HERE,), None, 0, heartbeat_seconds, still_allowed)
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
