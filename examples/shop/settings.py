"""Settings of the shop, read from `SHOP_…`; names that begin with `PLACET_` are Placet's own."""

from __future__ import annotations

from pydantic import AnyHttpUrl, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class ShopSettings(BaseSettings):
    """Where the shop's data and its payment provider are."""

    model_config = SettingsConfigDict(env_prefix="SHOP_", extra="forbid", frozen=True)

    database_url: SecretStr | None = None
    """Database with the schema `tools`; the executor's own when unset."""
    database_connections_max: int = Field(default=5, ge=1, le=100)
    """Connections this executor holds to it at most."""
    payment_url: AnyHttpUrl | None = None
    """Base URL of the payment provider; unset: one runs beside the tools, in the same process."""
    payment_timeout_seconds: float = Field(default=10.0, gt=0, le=120)
    """How long to wait for the provider; a call whose deadline is nearer waits less."""
    demo_catalogue: bool = True
    """Give a tenant without a single product the demo catalogue when its first call comes."""
