"""What policy counts of what was committed."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from placet.policy.records import count
from placet.runtime.work import Change


def judged(rule: str) -> Change:
    """Return the change of a call that was allowed."""
    return Change("acme", "verdict", "v-1", "given", None, "allow", "policy", "k-1", about={"rule": rule})


def value(rule: str) -> float | None:
    """Return what a scrape would say."""
    return REGISTRY.get_sample_value("placet_verdicts_total", {"rule": rule, "effect": "allow"})


@pytest.mark.parametrize(("rule", "label"), [("counted-reads", "counted-reads"), ("grant:3f96", "(grant)")])
def test_a_verdict_is_counted_by_its_rule(rule: str, label: str) -> None:
    """All grants are one: a series for each would stay for ever."""
    before = value(label) or 0
    count(judged(rule))
    assert value(label) == before + 1


def test_a_grant_has_no_series_of_its_own() -> None:
    """Its id is nothing that a rulebook names."""
    count(judged("grant:5e01"))
    assert value("grant:5e01") is None
