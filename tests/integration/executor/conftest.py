"""What executor tests share: premises of their own, and one running executor on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.cut_commits import CutLine
from tests.support.executor_house import House, Premises, make_schema, open_house, premises
from tests.support.executor_processes import Processes
from tests.support.line import to_postgres
from tests.support.postgres import Migrate


@pytest.fixture
def place(fresh_database: Callable[[Migrate], str], tmp_path: Path) -> Premises:
    """A database with the executor's tables, keys and a rulebook."""
    return premises(fresh_database(make_schema), tmp_path)


@pytest.fixture
async def line(place: Premises) -> AsyncIterator[CutLine]:
    """A line to the database that can be cut and held."""
    line = CutLine(to_postgres(lambda: place.url))
    await line.open()
    yield line
    await line.close()


@pytest.fixture
async def house(place: Premises) -> AsyncIterator[House]:
    """One running executor of the pool `default`."""
    async with open_house(place) as opened:
        yield opened


@pytest.fixture
async def processes(place: Premises, rabbitmq_url: str) -> AsyncIterator[Processes]:
    """Nothing running yet, on a broker of its own."""
    opened = Processes(place, rabbitmq_url)
    await opened.bus.start()
    await opened.declare()
    yield opened
    await opened.close()
