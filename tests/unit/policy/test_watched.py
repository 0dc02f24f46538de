"""Veto windows: what an earlier call that waits or was denied does to the verdict on the same call."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from placet.contracts.messages.approvals import ApprovalRule, Demand, GrantTerms, Panel
from placet.contracts.messages.stage import StagePlan
from placet.policy.rules import Effect, Verdict
from placet.policy.rules.verdicts import VETO_WINDOW
from placet.policy.rules.watched import NOT_STAGED, Watched, arguments_digest, held_again, is_watched

DENIED_AT = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
TERMS = ApprovalRule(
    approvers=["group:finance"], veto_window_seconds=600, grants=GrantTerms(), judged_again=False, independent=True
)
OTHERS = ApprovalRule(approvers=["requester"])


def a_verdict(effect: Effect, approval: ApprovalRule | None = None) -> Verdict:
    """Return what the rules say of a call."""
    return Verdict(effect, "rule", "As the rule says.", "", "0" * 64, approval=approval)


def denied(**changes: Any) -> list[Watched]:
    """Return what stands in the way: a call that people denied."""
    fields: dict[str, Any] = {
        "call_id": "c1",
        "approval": TERMS,
        "denied_at": DENIED_AT,
        "denied_by": "person:bob",
        "reason": "Too much.",
    }
    return [Watched(**(fields | changes))]


def test_a_denied_call_that_would_run_is_held() -> None:
    """The people of the denied call decide again and can grant nothing; how it runs is not what their rule says."""
    verdict = held_again(a_verdict(Effect.ALLOW), denied())
    assert (Effect.REQUIRE_APPROVAL, VETO_WINDOW) == (verdict.effect, verdict.rule)
    own = {"grants": None, "judged_again": True, "independent": False}
    assert TERMS.model_copy(update=own) == verdict.approval
    assert 'Asked again: person:bob denied it at 2026-03-04 05:06 UTC: "Too much.".' == verdict.reason


def test_a_denied_call_that_is_held_anyway_stays_with_its_people() -> None:
    """They are told of the denial behind the rule's own reason."""
    verdict = held_again(a_verdict(Effect.REQUIRE_APPROVAL, OTHERS), denied(reason=""))
    assert ("rule", OTHERS) == (verdict.rule, verdict.approval)
    assert "As the rule says. Asked again: person:bob denied it at 2026-03-04 05:06 UTC." == verdict.reason


def test_a_denied_call_that_would_be_staged_is_refused() -> None:
    """Its commit asks others: who denied it must not say yes in their place, and nobody else may without them."""
    verdict = held_again(replace(a_verdict(Effect.STAGE, OTHERS), plan=StagePlan()), denied())
    assert (Effect.DENY, VETO_WINDOW, None, None) == (verdict.effect, verdict.rule, verdict.approval, verdict.plan)
    assert (NOT_STAGED, True) == (verdict.model_reason, verdict.reason.startswith("Asked again: person:bob denied it"))


def test_what_does_not_run_stays_as_it_is() -> None:
    """A veto window lets nothing be decided that a rule refuses."""
    verdict = a_verdict(Effect.DENY)
    assert verdict == held_again(verdict, denied())


def test_a_call_that_still_waits_holds_the_same_call() -> None:
    """Policy may not have heard of the denial yet; what is held anyway is not said to be denied."""
    waiting, held = [Watched("c1", TERMS)], a_verdict(Effect.REQUIRE_APPROVAL, OTHERS)
    assert "Asked again while the same waits for people." == held_again(a_verdict(Effect.ALLOW), waiting).reason
    assert held == held_again(held, waiting)


def test_the_people_of_each_call_in_the_way_decide() -> None:
    """Also of one that waits; of several denials the first are told."""
    waiting = Watched("c2", OTHERS)
    verdict = held_again(a_verdict(Effect.ALLOW), [*denied(), *denied(call_id="c3", reason="No."), waiting])
    assert verdict.approval == ApprovalRule(
        approvers=TERMS.approvers, also=[Demand(panels=[Panel(approvers=["requester"])])], veto_window_seconds=600
    )
    told = "Asked again: person:bob denied it at 2026-03-04 05:06 UTC"
    assert f'{told}: "Too much.". {told}: "No.".' == verdict.reason


def test_nobody_hides_anything_in_a_denial() -> None:
    """Invisible characters of who denied are shown as what they are."""
    assert "a[U+202E]b" in held_again(a_verdict(Effect.ALLOW), denied(reason="a\u202eb")).reason


def test_a_call_is_watched_where_its_rule_has_a_window() -> None:
    """Also one that a veto window holds: its terms have the window still."""
    again = held_again(a_verdict(Effect.ALLOW), denied())
    verdicts = [a_verdict(Effect.ALLOW), a_verdict(Effect.REQUIRE_APPROVAL, OTHERS), again]
    assert [False, False, True] == [is_watched(verdict) for verdict in verdicts]


def test_the_same_arguments_in_another_order_are_the_same_call() -> None:
    """Neither the order of keys nor the way a number is written makes it another one."""
    assert arguments_digest({"a": 1, "b": 2.0}) == arguments_digest({"b": 2, "a": 1.0})
    assert arguments_digest({"a": 1}) != arguments_digest({"a": 2})
