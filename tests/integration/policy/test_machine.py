"""Limits and grants against a plain model of them: whatever happens in whatever order, both say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import uvloop
from hypothesis import HealthCheck
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from placet.contracts.messages import Message, ToolCall, ToolCallPermitted
from placet.contracts.signing import load_signer
from placet.policy.rulebook import load_rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from tests.support.house import Replica, a_replica
from tests.support.policy_builders import a_grant_request, a_proposal, a_refusal, a_revocation

T = TypeVar("T")
conversations = st.sampled_from(["conversation-1", "conversation-2"])
DID_NOT_RUN, MAY_HAVE_RUN = ("denied", "expired", "failed"), ("unknown", "staged")
kinds = st.sampled_from([*DID_NOT_RUN, *MAY_HAVE_RUN])
picks = st.integers(min_value=0, max_value=99)
amounts = st.sampled_from(["0.1", "33.3", "49", "120", "250.05"]).map(Decimal)


@dataclass
class Paid:
    """A payment that the rule let through."""

    call: ToolCall
    amount: Decimal
    age: timedelta = timedelta()
    counted: bool = True


@dataclass
class Given:
    """A grant and the calls that it let through."""

    grant_id: str
    conversation: str | None
    most: Decimal
    left: int
    expires_at: datetime
    over: bool = False
    used_by: list[ToolCall] = field(default_factory=list)

    def covers(self, call: ToolCall, amount: Decimal) -> bool:
        """Tell whether it lets a shipment through."""
        here = self.conversation in {None, call.conversation_id}
        return here and not self.over and self.left > 0 and amount <= self.most


class Machine(RuleBasedStateMachine):
    """Proposals, refusals, grants, revocations and time, on one replica with a real database."""

    def __init__(self, url: str, settings: PolicySettings) -> None:
        super().__init__()
        self.loop = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.stack = AsyncExitStack()
        self.rulebook, self.signer = load_rulebook(settings.rulebook), load_signer(settings.keys, "approval")
        opening = a_replica("policy", url, partial(build, settings), keys=settings.keys)
        self.replica: Replica = self.run(self.stack.enter_async_context(opening))
        self.run(self.replica.empty_tables())
        self.paid: list[Paid] = []
        self.given: list[Given] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do asynchronous work."""
        return self.loop.run(work)

    def teardown(self) -> None:
        """Stop the replica."""
        self.run(self.stack.aclose())
        self.loop.close()

    def send(self, *messages: Message) -> list[bool]:
        """Send messages in one envelope; return for each answer whether the call may run."""
        sent = self.run(self.replica.send(*messages))
        assert [] == self.replica.dead
        return [isinstance(message, ToolCallPermitted) for message in sent]

    def has_room(self, call: ToolCall, amount: Decimal) -> bool:
        """Tell whether the model lets a payment through."""
        counted = [paid for paid in self.paid if paid.counted]
        today = sum(paid.amount for paid in counted if paid.age < timedelta(days=1))
        lately = [paid for paid in counted if paid.age < timedelta(hours=1)]
        here = sum(paid.call.conversation_id == call.conversation_id for paid in lately)
        return today + amount <= 500 and here < 20

    @rule(conversation=conversations, amount=amounts, number=st.integers(min_value=1, max_value=8))
    def pay(self, conversation: str, amount: Decimal, number: int) -> None:
        """Several payments in one envelope."""
        arguments = {"amount": float(amount), "to": "bob"}
        proposals = [
            a_proposal(self.rulebook, "pay", arguments=arguments, conversation_id=conversation) for _ in range(number)
        ]
        expected = []
        for proposed in proposals:
            expected.append(self.has_room(proposed.call, amount))
            self.paid += [Paid(proposed.call, amount)] if expected[-1] else []
        assert expected == self.send(*proposals)

    @precondition(lambda self: self.paid)
    @rule(pick=picks, kind=kinds)
    def end_payment(self, pick: int, kind: str) -> None:
        """A payment turns out not to have run, or may have."""
        paid = self.paid[pick % len(self.paid)]
        self.send(a_refusal(paid.call, kind))
        paid.counted = paid.counted and kind not in DID_NOT_RUN

    @rule(narrow=st.booleans(), conversation=conversations, most=amounts, uses=st.integers(min_value=1, max_value=3))
    def give(self, *, narrow: bool, conversation: str, most: Decimal, uses: int) -> None:
        """Somebody allows shipments up to an amount for half an hour."""
        arguments = {"amount": float(most), "to": "bob"}
        call = a_proposal(self.rulebook, "ship", arguments=arguments, conversation_id=conversation).call
        expires_at = datetime.now(UTC) + timedelta(minutes=30)
        scope = "conversation" if narrow else "agent"
        asked = a_grant_request(call, self.signer, scope=scope, uses=uses, expires_at=expires_at)
        self.send(asked)
        self.given.append(Given(asked.grant_id, conversation if narrow else None, most, uses, expires_at))

    @rule(conversation=conversations, amount=amounts)
    def ship(self, conversation: str, amount: Decimal) -> None:
        """A shipment: the grant that ends first is used first."""
        arguments = {"amount": float(amount), "to": "bob"}
        proposed = a_proposal(self.rulebook, "ship", arguments=arguments, conversation_id=conversation)
        covering = sorted(
            (grant for grant in self.given if grant.covers(proposed.call, amount)), key=lambda each: each.expires_at
        )
        for grant in covering[:1]:
            grant.left -= 1
            grant.used_by.append(proposed.call)
        assert [bool(covering)] == self.send(proposed)

    @precondition(lambda self: any(grant.used_by for grant in self.given))
    @rule(pick=picks, kind=kinds)
    def end_shipment(self, pick: int, kind: str) -> None:
        """A shipment that a grant let through turns out not to have run, or may have."""
        grant, call = [(grant, call) for grant in self.given for call in grant.used_by][pick % self._uses()]
        self.send(a_refusal(call, kind))
        if kind in DID_NOT_RUN:
            grant.left += 1
            grant.used_by.remove(call)

    def _uses(self) -> int:
        return sum(len(grant.used_by) for grant in self.given)

    @precondition(lambda self: self.given)
    @rule(pick=picks)
    def revoke(self, pick: int) -> None:
        """Somebody takes a grant back, perhaps again."""
        grant = self.given[pick % len(self.given)]
        self.send(a_revocation(grant.grant_id))
        grant.over = True

    @rule(span=st.sampled_from([timedelta(minutes=12), timedelta(hours=5)]))
    def wait(self, span: timedelta) -> None:
        """Time passes: everything stored becomes older."""
        older = "{0} = {0} - CAST(:span AS interval)".format
        grants = f"UPDATE policy.grants SET {older('given_at')}, {older('expires_at')}"  # noqa: S608
        for statement in (f"UPDATE policy.reservations SET {older('reserved_at')}", grants):  # noqa: S608
            self.run(self.replica.execute(statement, span=span))
        for paid in self.paid:
            paid.age += span
        for grant in self.given:
            grant.expires_at -= span
            grant.over = grant.over or grant.expires_at <= datetime.now(UTC)

    @invariant()
    def uses_agree(self) -> None:
        """Each grant has left what the model says."""
        rows = self.run(self.replica.rows("SELECT grant_id, uses_left FROM policy.grants"))
        assert {grant.grant_id: grant.left for grant in self.given} == {
            row["grant_id"]: row["uses_left"] for row in rows
        }

    @invariant()
    def amounts_agree(self) -> None:
        """What is reserved is what the model counts, to the cent."""
        statement = (
            "SELECT coalesce(sum(amount), 0) AS amount FROM policy.reservations JOIN policy.counters"
            " USING (counter_id) WHERE measure <> 'count' AND released_at IS NULL"
        )
        counted = sum((paid.amount for paid in self.paid if paid.counted), Decimal(0))
        assert [{"amount": counted}] == self.run(self.replica.rows(statement))


def test_limits_and_grants_do_what_a_plain_model_does(policy_url: str, limited_settings: PolicySettings) -> None:
    """Any order of payments, shipments, ends, grants, revocations and waiting."""

    class OnThisDatabase(Machine):
        def __init__(self) -> None:
            super().__init__(policy_url, limited_settings)

    run_state_machine_as_test(
        OnThisDatabase,
        settings=profile(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
