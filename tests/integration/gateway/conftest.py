"""A gateway with a database of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.gateway import House, open_house, prepare
from tests.support.postgres import Migrate


@pytest.fixture
def gateway_database_url(fresh_database: Callable[[Migrate], str]) -> str:
    """The URL of a database with the gateway's tables and stand-ins for everybody else's views."""
    return fresh_database(prepare)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway."""
    async with open_house(gateway_database_url, tmp_path) as made:
        yield made
