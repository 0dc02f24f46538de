"""The floor against a real broker and database."""

from __future__ import annotations

import pytest

from bench.floor import measure


@pytest.mark.usefixtures("postgres_url", "virtual_hosts")
async def test_a_short_run_counts_every_call() -> None:
    """A few calls go all the way, each exactly once, and yield positive figures."""
    seen = await measure(in_flight=4, count=20)
    assert seen.in_flight == 4
    assert 0 < seen.decision_to_result_p50_ms <= seen.p99_ms
    assert min(seen.calls_per_second, seen.cpu_ms_per_call) > 0
