"""One approval rule that asks at least what each of several asks: who decides about a workspace of many entries.

Pure. Where the rules differ, the stricter word stands: every panel must say yes, one denial by anybody is enough if it
was for one of them, everybody who was excluded stays excluded, and the shortest deadline counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, get_args

from placet.contracts.messages import ApprovalRule, Demand, Escalation, Panel
from placet.contracts.messages.approvals import Strength

_STRENGTHS: tuple[str, ...] = get_args(Strength)
_REASONS = ("never", "deny", "always")
_WITHIN = ("conversation", "requester", "tenant")

T = TypeVar("T")


def strictest(rules: Sequence[ApprovalRule]) -> ApprovalRule:
    """Return the rule that is met only where every rule of `rules` is met; raise ValueError for none.

    Nobody can allow from now on what several rules ask for: `grants` stays only where all give the same. People whom an
    escalation of some rules alone would ask do not get a place in the others' panels; it reminds people instead.
    """
    rules = _distinct(rules)
    if not rules:
        raise ValueError("no rule says who decides")
    if len(rules) == 1:
        return rules[0]
    expires = min(rule.expires_after_seconds for rule in rules)
    same_condition = len({rule.condition for rule in rules}) == 1
    # With several conditions none may bar whom another rule lets decide, so each stays with the places of its own rule.
    demands = _distinct(each for rule in rules for each in _demands(rule, "" if same_condition else rule.condition))
    first, escalations = rules[0], _shared_escalations(rules, expires)
    values: dict[str, Any] = {
        "approvers": first.approvers,
        "approvals": first.approvals,
        "alternatives": first.alternatives,
        "also": demands[1:] if same_condition else demands,
        "denials": min(rule.denials for rule in rules),
        "veto": _distinct(each for rule in rules for each in rule.veto),
        "exclude": _distinct(each for rule in rules for each in rule.exclude),
        "condition": first.condition if same_condition else "",
        "reason_required": max((rule.reason_required for rule in rules), key=_REASONS.index),
        "min_strength": max((rule.min_strength for rule in rules), key=_STRENGTHS.index),
        "edits": all(rule.edits for rule in rules),
        "expires_after_seconds": expires,
        "reminders_after_seconds": _reminders(rules, escalations, expires),
        "escalations": escalations,
        "channels": _distinct(each for rule in rules for each in rule.channels),
        "independent": all(rule.independent for rule in rules),
        "by_message": all(rule.by_message for rule in rules),
        "veto_window_seconds": max(rule.veto_window_seconds for rule in rules),
        "veto_on": "tool" if any(rule.veto_on == "tool" for rule in rules) else "arguments",
        "veto_within": max((rule.veto_within for rule in rules), key=_WITHIN.index),
    }
    agreed = ("grants", "on_message_while_pending", "while_pending")
    values |= {name: getattr(first, name) for name in agreed if _agree(getattr(rule, name) for rule in rules)}
    return ApprovalRule(**values)


def covers(asked: ApprovalRule, other: ApprovalRule) -> bool:
    """Tell whether who meets `asked` has met `other` too: nobody is missing, and nothing is easier."""
    own = _demands(asked, asked.condition)
    return (
        all(any(_covers(mine, demand) for mine in own) for demand in _demands(other, other.condition))
        and asked.denials <= other.denials
        and all(each in asked.veto for each in other.veto)
        and all(each in asked.exclude for each in other.exclude)
        and all(each in other.escalations for each in asked.escalations)
        and _REASONS.index(asked.reason_required) >= _REASONS.index(other.reason_required)
        and _STRENGTHS.index(asked.min_strength) >= _STRENGTHS.index(other.min_strength)
        and other.by_message >= asked.by_message
    )


def _covers(mine: Demand, other: Demand) -> bool:
    return mine.panels == other.panels and other.condition in {"", mine.condition}


def _demands(rule: ApprovalRule, condition: str) -> list[Demand]:
    """Return everything that must be said yes to under one rule, its own panels first."""
    own = Panel(approvers=rule.approvers, approvals=rule.approvals)
    first = Demand(panels=[own, *(Panel(**each.model_dump()) for each in rule.alternatives)], condition=condition)
    return [first, *(each.model_copy(update={"condition": _both(condition, each.condition)}) for each in rule.also)]


def _both(one: str, other: str) -> str:
    return f"({one}) && ({other})" if one and other else one or other


def _shared_escalations(rules: Sequence[ApprovalRule], expires: int) -> list[Escalation]:
    first, *others = rules
    return [
        each
        for each in first.escalations
        if each.after_seconds < expires and all(each in rule.escalations for rule in others)
    ]


def _reminders(rules: Sequence[ApprovalRule], kept: Sequence[Escalation], expires: int) -> list[int]:
    seconds = {each for rule in rules for each in rule.reminders_after_seconds}
    seconds |= {each.after_seconds for rule in rules for each in rule.escalations if each not in kept}
    return sorted(each for each in seconds if each < expires)


def _agree(values: Iterable[object]) -> bool:
    return len(_distinct(values)) == 1


def _distinct(values: Iterable[T]) -> list[T]:
    """Return each value once, in order; what they are made of may not be hashable."""
    found: list[T] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
