"""Settings of the executor, `PLACET_EXECUTOR_…`.

An executor is scaled by starting more of them, so what one of them takes at a time stays small by default.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from placet.contracts.messages.stage import ENTRIES_MAX
from placet.runtime.settings import INTERNAL, Settings

#: As the only name it stands for every pool of the catalogue.
EVERY_POOL = "*"

PoolName = Annotated[str, Field(pattern=r"^(\*|[a-z][a-z0-9-]{0,31})$")]


def _own_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


class ExecutorSettings(Settings):
    """How much one executor does at a time, and how long it may be silent."""

    executor_pools: Annotated[tuple[PoolName, ...], NoDecode] = Field(
        default=("default",),
        description="Pools served, with commas between them; `*` alone serves every pool of the catalogue.",
    )
    executor_slots: int = Field(default=16, ge=1, le=1_000, description="Calls that run at the same time.")
    executor_lease_seconds: float = Field(
        json_schema_extra=INTERNAL,
        default=30.0,
        ge=1,
        le=3_600,
        description="How long a worker may be silent before its calls count as lost.",
    )
    executor_sweep_seconds: float = Field(
        json_schema_extra=INTERNAL, default=2.0, gt=0, description="Pause between two looks for lost calls."
    )
    executor_attempts_max: int = Field(
        default=3, ge=1, le=100, description="Attempts of one call whose tool is safe to repeat; others get one."
    )
    executor_patience_seconds: float = Field(
        default=60.0,
        gt=0,
        le=600,
        description="How long a delivery waits for a slot before it goes back to its queue, for others to take.",
    )
    executor_prefetch: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="Permits that RabbitMQ hands over at a time, for each pool. More are claimed together, which suits "
        "pools of fast tools; of slow ones they would wait at a busy worker while another is idle.",
    )
    executor_workspace_entries_max: int = Field(
        default=ENTRIES_MAX,
        ge=1,
        le=ENTRIES_MAX,
        description="Staged calls that the workspace of one conversation holds at most.",
    )
    executor_workspace_bytes_max: int = Field(
        default=200_000_000,
        ge=1,
        le=10_000_000_000,
        description="Bytes of all contents that one workspace holds at most, in the database.",
    )
    executor_workspace_days_max: int = Field(
        default=14, ge=1, le=90, description="Days that a workspace may wait for a decision, whatever its rules say."
    )
    executor_workspace_keep_days: int = Field(
        default=30,
        ge=0,
        le=3_650,
        description="Days that the lines and diffs of an ended workspace are kept; its contents go when it ends.",
    )
    executor_worker: str = Field(
        json_schema_extra=INTERNAL,
        default_factory=_own_name,
        min_length=1,
        max_length=200,
        description="Name of this worker in histories; host and process id where nothing is set.",
    )

    @field_validator("executor_pools", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Take `a,b` for two names; an empty text names none and is refused with the empty tuple."""
        return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value

    @field_validator("executor_pools")
    @classmethod
    def _check_pools(cls, pools: tuple[str, ...]) -> tuple[str, ...]:
        if not pools or len(set(pools)) < len(pools):
            raise ValueError("name at least one pool, and each only once")
        if EVERY_POOL in pools and len(pools) > 1:
            raise ValueError(f"{EVERY_POOL} already means every pool")
        return pools

    @model_validator(mode="after")
    def _check_sweep(self) -> Self:
        if self.executor_sweep_seconds > self.executor_lease_seconds / 4:
            raise ValueError("PLACET_EXECUTOR_SWEEP_SECONDS must be at most a quarter of PLACET_EXECUTOR_LEASE_SECONDS")
        return self
