"""What operators see of policy. Labels are names out of the rulebook, never anything that a call carried."""

from __future__ import annotations

from prometheus_client import Counter

from placet.runtime.work import Change

VERDICTS = Counter(
    "placet_verdicts_total", "Calls judged, by the rule that decided and its effect.", ["rule", "effect"]
)


def count(change: Change) -> None:
    """Count a committed verdict."""
    if change.machine == "verdict":
        VERDICTS.labels(change.about["rule"], change.to_state).inc()
