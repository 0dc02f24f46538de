"""Settings that every service shares, read from the environment once and passed down.

Names begin with `PLACET_`; a service adds its own in `services/<name>/settings.py`. Secrets are secret types, so that
no log line shows them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Where things are, and how much of them."""

    model_config = SettingsConfigDict(env_prefix="PLACET_", extra="ignore", frozen=True)

    database_url: SecretStr = Field(
        default=SecretStr("postgresql://postgres@127.0.0.1:5432/placet"),
        description="PostgreSQL of this service's role, libpq URL form.",
    )
    database_pool_size: int = Field(default=10, ge=1, le=200, description="Connections kept; as many again under load.")
    rabbitmq_url: SecretStr = Field(
        default=SecretStr("amqp://guest:guest@127.0.0.1:5672/"),
        description="RabbitMQ of this service's user.",
    )
    declare_topology: bool = Field(
        default=True,
        description="Declare exchanges and queues at start; off where definitions.json made them.",
    )
    rulebook: Path = Field(default=Path("deploy/rulebook.yaml"), description="Rulebook file with the tool catalogue.")
    keys: Path = Field(
        default=Path(".data/keys"), description="Folder of signing keys: <issuer>.private.json, public.json."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info")
    log_format: Literal["json", "console"] = Field(default="json")
    health_host: str = Field(default="127.0.0.1", description="Address of /healthz, /readyz, /metrics of each service.")
    health_port: int = Field(default=0, ge=0, le=65535, description="Their port; 0 opens none.")
    drain_seconds: float = Field(default=20.0, gt=0, description="How long a stop waits for what is running.")
    relay_every_seconds: float = Field(default=1.0, gt=0, description="Pause between two sweeps of the outbox.")
