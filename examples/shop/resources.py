"""What the shop's tools hold while the executor runs: the database and the payment provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx

from placet.tools import PackSettings, ToolContext
from shop.catalogue import seed_tenant
from shop.payments import PaymentClient
from shop.provider.server import provider_beside_placet
from shop.settings import ShopSettings
from shop.store import ShopDatabase

NAME = "shop"
"""Under this name the tools find their resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopResources:
    """One executor's shop: its database, the client of the payment provider, settings."""

    database: ShopDatabase
    payments: PaymentClient
    settings: ShopSettings
    stocked: set[str] = field(default_factory=set)
    """Tenants known to sell something; saves asking the database again."""

    async def ensure_stocked(self, tenant: str) -> None:
        """Give the tenant the demo catalogue if it sells nothing yet and the settings allow it."""
        if self.settings.demo_catalogue and tenant not in self.stocked:
            await seed_tenant(self.database, tenant)
            self.stocked.add(tenant)


def shop_of(context: ToolContext) -> ShopResources:
    """Return the shop the context carries."""
    return context.resource(NAME, ShopResources)


@asynccontextmanager
async def open_resources(settings: PackSettings) -> AsyncIterator[dict[str, object]]:
    """Open the shop for one executor; neither the database nor the provider has to be up yet."""
    async with open_shop(ShopSettings(), settings.database_url) as shop:
        yield {NAME: shop}


@asynccontextmanager
async def open_shop(settings: ShopSettings, database_url: str) -> AsyncIterator[ShopResources]:
    """Open a shop with these settings, by default in this database."""
    own_database = settings.database_url.get_secret_value() if settings.database_url else database_url
    async with AsyncExitStack() as stack:
        database = ShopDatabase(own_database, connections_max=settings.database_connections_max)
        stack.push_async_callback(database.close)
        named = settings.payment_url
        url = str(named) if named else await stack.enter_async_context(provider_beside_placet())
        # The environment's proxies are for the outside world, the provider is named by its own setting.
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False))
        yield ShopResources(database=database, payments=PaymentClient(http), settings=settings)
