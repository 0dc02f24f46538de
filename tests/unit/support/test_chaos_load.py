"""Those who talk in a storm: what fails of them is heard at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.chaos.load import Load
from tests.support.ports import free_port


class _Dumb(Load):
    async def _talk(self) -> None:
        raise AssertionError("refused")


async def test_who_fails_ends_the_block() -> None:
    """Nobody waits for conversations that can no longer end."""
    load = _Dumb(f"http://127.0.0.1:{free_port()}", "postgresql://127.0.0.1/?connect_timeout=1", "", "")
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="refused")):
        async with load.going_on(1):
            await asyncio.Event().wait()
