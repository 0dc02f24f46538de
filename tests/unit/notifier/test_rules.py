"""Whom the notifier tells, and how often it tries."""

from __future__ import annotations

from datetime import timedelta

from services.notifier.rules import RETRY_SECONDS, card_of, channels_for, delivery_id, later_channels_for, retry_after
from shared.messages import ApprovalOpened
from tests.builders import NOON, a_call, an_approval_rule


def opened(*channels: str, later: list[list[str]] | None = None) -> ApprovalOpened:
    """Return an approval that was just opened."""
    call = a_call()
    steps = [{"after_seconds": 60, "approvers": ["operators"], "channels": each} for each in later or []]
    return ApprovalOpened(
        tenant=call.tenant,
        approval_id="approval-1",
        revision=1,
        call=call,
        summary="Create a payment link over 299 TRY?",
        rule="pay-links",
        reason="Money moves.",
        approval=an_approval_rule(channels=list(channels), escalations=steps),
        expires_at=NOON + timedelta(hours=1),
    )


def test_a_rule_without_channels_tells_the_log() -> None:
    """Nobody is left untold because a rule names no channel."""
    assert ["log"] == channels_for(opened())


def test_an_escalation_adds_the_channels_that_were_not_told() -> None:
    """Once each, however many escalations name them; the log stands for a rule without channels here too."""
    assert ["pager", "mail"] == later_channels_for(opened("slack", later=[["slack", "pager"], ["pager", "mail"]]))
    assert ["pager"] == later_channels_for(opened(later=[["log", "pager"]]))


def test_a_channel_named_twice_gets_one_card() -> None:
    """Channels are told once each, in the rule's order."""
    assert ["slack", "log"] == channels_for(opened("slack", "log", "slack"))


def test_a_card_carries_no_arguments() -> None:
    """Cards show the summary and the digest's beginning; the arguments stay in the database."""
    card = card_of(opened())
    assert ("pending", 12, False) == (card.state, len(card.digest_prefix), hasattr(card, "arguments"))


def test_one_delivery_per_approval_and_channel() -> None:
    """The id of a delivery follows from what it is for."""
    assert delivery_id("a", "log") == delivery_id("a", "log") != delivery_id("a", "slack")


def test_tries_wait_longer_and_then_end() -> None:
    """A channel that keeps failing is given up."""
    assert [*RETRY_SECONDS, None] == [retry_after(attempt) for attempt in range(1, len(RETRY_SECONDS) + 2)]
