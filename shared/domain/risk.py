"""Which calls are approved by themselves and never among others. Pure: every surface asks here, so that all agree."""

from __future__ import annotations

from placet.contracts.messages import ApprovalRule
from placet.contracts.messages.tool_calls import Category


def acts(category: str) -> bool:
    """Tell whether a call acts on the world; one of no known category may."""
    return not category.startswith("safe_")


def why_alone(rule: ApprovalRule, category: str) -> str:
    """Return why a call is approved by itself, for people; empty where it may be approved with others."""
    if category == Category.UNSAFE_EXEC:
        return "it runs code"
    if rule.veto or rule.approvals > 1 or any(panel.approvals > 1 for panel in rule.alternatives) or rule.also:
        return "its rule asks several people"
    return "its rule needs a stronger sign-in" if rule.min_strength in {"slack", "web"} else ""
