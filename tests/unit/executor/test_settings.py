"""Settings of the executor, and the pools that come of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from placet.contracts.errors import PlacetError
from placet.domain.catalog import Catalog, ToolSpec
from placet.executor.service import served_pools
from placet.executor.settings import ExecutorSettings
from placet.runtime.settings import what_is_wrong


def a_catalog(**pools: str | None) -> Catalog:
    """Return a catalogue of tools by name and pool; without a pool the tool has no function."""
    base: dict[str, Any] = {"description": "…", "category": "safe_read", "parameters": {"type": "object"}}
    return Catalog(
        ToolSpec.model_validate(base | {"name": name} | ({"pool": pool, "function": "a:b"} if pool else {}))
        for name, pool in pools.items()
    )


def test_pools_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stand with commas between them."""
    monkeypatch.setenv("PLACET_EXECUTOR_POOLS", "default, payments")
    assert ("default", "payments") == ExecutorSettings().executor_pools


@pytest.mark.parametrize("pools", ["", "a,,b", "a,a", "*,a", "Upper", "executor.a", "a b"])
def test_wrong_pools_are_refused(pools: str) -> None:
    """A pool that no permit could name stops the start."""
    with pytest.raises(ValidationError):
        ExecutorSettings.model_validate({"executor_pools": pools})


def test_a_sweep_slower_than_a_lease_is_refused() -> None:
    """Looks that are far apart would be taken for gaps; both settings are named."""
    with pytest.raises(ValidationError) as caught:
        ExecutorSettings(executor_lease_seconds=4, executor_sweep_seconds=2)
    told = "PLACET_EXECUTOR_SWEEP_SECONDS must be at most a quarter of PLACET_EXECUTOR_LEASE_SECONDS"
    assert told == what_is_wrong(caught.value)


def test_workers_of_one_machine_have_names_of_their_own() -> None:
    """The default name tells processes apart."""
    host, _, process = ExecutorSettings().executor_worker.rpartition(":")
    assert host
    assert process.isdecimal()


def test_a_star_serves_every_pool_that_has_a_tool() -> None:
    """Pools of tools without a function are none: nothing is ever sent there."""
    catalog = a_catalog(one="b", two="a", three="b", final_answer=None)
    settings = ExecutorSettings.model_validate({"executor_pools": "*"})
    assert ("a", "b") == served_pools(settings, catalog)


def test_a_pool_without_tools_is_refused() -> None:
    """A misspelt pool would wait for work that never comes."""
    settings = ExecutorSettings.model_validate({"executor_pools": "payment"})
    with pytest.raises(PlacetError, match="no tool of the rulebook belongs to pool 'payment'; its pools are payments"):
        served_pools(settings, a_catalog(pay="payments"))
