"""The dead-letter service on one database, and a queue to which letters go back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from placet.dead_letters.service import build
from placet.dead_letters.settings import DeadLettersSettings
from tests.support.house import Replica, a_replica, create_tables
from tests.support.postgres import Databases

_create = create_tables("dead_letters")


@pytest.fixture(scope="module")
def dead_letters_url(databases: Databases) -> Iterator[str]:
    """A database for the tests of one module; each finds it empty."""
    with databases.fresh(_create) as url:
        yield url


@pytest.fixture
async def replica(dead_letters_url: str) -> AsyncIterator[Replica]:
    """One process of the dead-letter service."""
    async with a_replica("dead_letters", dead_letters_url, partial(build, DeadLettersSettings())) as replica:
        await replica.empty_tables()
        yield replica
