"""After a restore: what was signed before it is void, whatever envelope it comes in; nobody knows what it led to."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from placet.contracts.messages import Message, ToolCall
from placet.contracts.signed import signed
from placet.contracts.signing import Signer
from placet.policy.rules import Rulebook
from tests.builders import NOON
from tests.integration.policy.test_judging_again import an_approved
from tests.support.house import Replica
from tests.support.policy_builders import a_grant_request, a_proposal, an_edit, an_end

VOID = "poison: sent before the restore of 2026-11-22T12:00:00+00:00, so what it asks for may have been done: ask again"

Sent = Callable[[ToolCall, Signer, datetime], Message]


def a_grant(call: ToolCall, approver: Signer, at: datetime) -> Message:
    """Return somebody's wish to have such calls allowed from now on."""
    return a_grant_request(call, approver, at)


def a_wish_to_edit(call: ToolCall, approver: Signer, at: datetime) -> Message:
    """Return somebody's wish to have the call approved with another amount."""
    return an_edit(call, 7, approver, at=at)


def a_denial(call: ToolCall, approver: Signer, at: datetime) -> Message:
    """Return the news that people denied the call."""
    return signed(an_end(call), approver, at)


@pytest.mark.parametrize("made", [a_grant, a_wish_to_edit, a_denial, an_approved])
async def test_what_approval_signed_before_a_restore_counts_no_more(
    replica: Replica, rulebook: Rulebook, approver: Signer, made: Sent
) -> None:
    """A grant that was taken back since would be there again, and a call that ran would run again."""
    message = made(a_proposal(rulebook, "pay").call, approver, NOON)
    assert ([], [VOID]) == (await replica.send_anew(message, restored_at=NOON), replica.dead)
    assert [] == await replica.rows("SELECT * FROM policy.history")


@pytest.mark.parametrize("made", [a_grant, a_wish_to_edit, a_denial, an_approved])
async def test_what_approval_signed_since_then_counts(
    replica: Replica, rulebook: Rulebook, approver: Signer, made: Sent
) -> None:
    """It is taken like before there was a restore."""
    message = made(a_proposal(rulebook, "pay").call, approver, NOON + timedelta(seconds=1))
    await replica.send_anew(message, restored_at=NOON)
    assert [] == replica.dead
