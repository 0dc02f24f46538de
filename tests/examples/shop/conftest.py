"""A real shop for tests: a private PostgreSQL database, the payment provider on a socket, one tenant per test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from placet.runtime.database import async_url
from placet.tools import ToolContext
from shop.provider.app import Faults
from shop.provider.server import PaymentServer
from shop.resources import ShopResources, open_shop
from shop.settings import ShopSettings
from shop.tables import SCHEMA
from tests.support.postgres import Databases
from tests.support.tool_builders import a_context

Call = Callable[..., ToolContext]


@pytest.fixture(scope="session")
def shop_database_url(databases: Databases) -> Iterator[str]:
    """A database that the shop may use; tests keep apart by their tenants."""
    with databases.fresh(_create_schema) as url:
        yield url


def _create_schema(url: str) -> None:
    engine = sa.create_engine(async_url(url))
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema(SCHEMA))
    engine.dispose()


@pytest.fixture
def faults() -> Faults:
    """Return what the provider does wrong; a test changes it before it calls."""
    return Faults()


@pytest.fixture
async def provider(tmp_path: Path, faults: Faults) -> AsyncIterator[PaymentServer]:
    """Run the payment provider."""
    server = PaymentServer("127.0.0.1", 0, tmp_path / "provider", faults=faults)
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    yield server
    server.should_exit = True
    await serving


@pytest.fixture
def shop_settings() -> dict[str, Any]:
    """Return settings of the shop that differ from its defaults; no payment provider is there. Tests override it."""
    return {"payment_url": "http://127.0.0.1:9"}


@pytest.fixture
async def shop(shop_database_url: str, shop_settings: dict[str, Any]) -> AsyncIterator[ShopResources]:
    """Open the shop's resources as an executor opens them."""
    async with open_shop(ShopSettings(**shop_settings), shop_database_url) as opened:
        yield opened


@pytest.fixture
def tenant() -> str:
    """Return a tenant nobody has used."""
    return f"tenant-{uuid4().hex[:12]}"


@pytest.fixture
def call(shop: ShopResources, tenant: str) -> Call:
    """Make the context of a new call of the test's tenant; keywords replace single fields."""

    def make(**given: Any) -> ToolContext:
        return a_context(**{"tenant": tenant, "resources": {"shop": shop}, **given})

    return make
