"""What the shop's tools hold while the executor runs: the database and the payment provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx

from services.executor.tools.contract import ToolContext
from services.executor.tools.resources import PackSettings
from services.executor.tools.shop.catalogue import seed_tenant
from services.executor.tools.shop.payments import PaymentClient
from services.executor.tools.shop.settings import ShopSettings
from services.executor.tools.shop.store import ShopDatabase

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
    shop = ShopSettings(**settings.overrides.get(NAME, {}))
    own_database = shop.database_url.get_secret_value() if shop.database_url else settings.database_url
    async with AsyncExitStack() as stack:
        database = ShopDatabase(own_database, connections_max=shop.database_connections_max)
        stack.push_async_callback(database.close)
        # The environment's proxies are for the outside world, the provider is named by its own setting.
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=str(shop.payment_url), trust_env=False))
        yield {NAME: ShopResources(database=database, payments=PaymentClient(http), settings=shop)}
