"""What operators see of policy. Labels are names out of the rulebook, never anything that a call carried."""

from __future__ import annotations

from prometheus_client import Counter

from placet.policy.rules.grants import GRANTED
from placet.runtime.work import Change

VERDICTS = Counter(
    "placet_verdicts_total", "Calls judged, by the rule that decided and its effect.", ["rule", "effect"]
)

#: Label of all grants: there is no end of them. No rule can have the name.
GRANT = "(grant)"


def count(change: Change) -> None:
    """Count a committed verdict."""
    if change.machine == "verdict":
        rule: str = change.about["rule"]
        VERDICTS.labels(GRANT if rule.startswith(GRANTED) else rule, change.to_state).inc()
