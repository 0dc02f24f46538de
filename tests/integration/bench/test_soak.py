"""The soak against a real broker, a real database and two real gateways."""

from __future__ import annotations

import pytest

from bench.soak import Plan, measure


@pytest.mark.usefixtures("postgres_url", "virtual_hosts")
async def test_a_few_chats_lose_nothing_on_bad_lines() -> None:
    """E3, E4: clients that drop out at random get every event and every word once, in order."""
    found = await measure(Plan(conversations=4, turns=2, words=30))
    # Written, turn started, answered, turn ended; in each of eight turns.
    assert (4, 240, 32) == (found.conversations, found.words, found.events)
    assert found.reconnects >= 4
    assert 0 == found.gaps
    assert 0 < found.delta_p50_ms <= found.delta_p99_ms
