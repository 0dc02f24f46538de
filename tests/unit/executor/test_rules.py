"""What may run, how an attempt counts, and what the model reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.contracts.messages import ToolCall
from placet.contracts.permit import MAY_HAVE_RUN, Permit
from placet.domain.catalog import ToolSpec
from placet.executor import rules
from placet.executor.rules import Outcome
from placet.executor.states import Event, State
from tests.builders import NOON, a_call

SPEC = ToolSpec.model_validate(
    {
        "name": "pay",
        "description": "Pay.",
        "category": "unsafe_api",
        "function": "shop:pay",
        "parameters": {"type": "object", "properties": {"amount": {"type": "number"}, "note": {"type": "string"}}},
        "redact": ["/note"],
    }
)
BEGUN = Outcome(Event.SUCCEEDED, {"id": 1})


def a_paying_call(**changes: Any) -> ToolCall:
    """Return a call that fits SPEC."""
    return a_call(**({"tool": "pay", "schema_digest": SPEC.schema_digest, "arguments": {"amount": 1}} | changes))


def a_permit(call: ToolCall, *, expires_at: datetime) -> Permit:
    """Return the claims of a permit for `call`."""
    return Permit(
        iss="policy",
        jti="permit-1",
        sub=call.call_id,
        aud="default",
        iat=0,
        exp=int(expires_at.timestamp()),
        tenant=call.tenant,
        requester=call.requester,
        agent=call.agent,
        message_id=call.message_id,
        digest=call.digest,
        reference="verdict-1",
    )


def test_no_permit_counts_from_before_a_restore() -> None:
    """Whether its call ran after the backup nobody knows; one that was issued since is good."""
    call = a_paying_call()
    permit = a_permit(call, expires_at=NOON + timedelta(hours=1))
    at = datetime.fromtimestamp(permit.iat, UTC)
    admissions = [
        rules.admit(call, permit, SPEC, now=NOON, restored=at + timedelta(seconds=seconds)) for seconds in (0, -1)
    ]
    assert [Event.REFUSED, Event.CLAIMED] == [each.event for each in admissions]
    assert MAY_HAVE_RUN in admissions[0].reason


@pytest.mark.parametrize(
    ("seconds", "event"), [(-1, Event.CLAIMED), (0, Event.EXPIRED), (1, Event.EXPIRED), (3600, Event.EXPIRED)]
)
def test_a_permit_is_good_until_its_second_of_expiry(seconds: int, event: Event) -> None:
    """At the very moment of its expiry a permit is expired already: tolerance is zero."""
    call = a_paying_call()
    permit = a_permit(call, expires_at=NOON)
    assert event is rules.admit(call, permit, SPEC, now=NOON + timedelta(seconds=seconds)).event


def test_a_call_that_fits_is_claimed_without_words() -> None:
    """A claimed call is running, and nothing needs to be said about it."""
    call = a_paying_call()
    admission = rules.admit(call, a_permit(call, expires_at=NOON), SPEC, now=NOON - timedelta(seconds=1))
    assert (State.RUNNING, "") == (admission.state, admission.reason)


def test_a_call_that_does_not_fit_is_refused_even_when_its_permit_is_old() -> None:
    """That a call can never run here is the more useful thing to say."""
    call = a_paying_call(arguments={"amount": "much"})
    admission = rules.admit(call, a_permit(call, expires_at=NOON), SPEC, now=NOON)
    assert State.REFUSED is admission.state


def test_a_refusal_names_few_problems_and_no_redacted_value() -> None:
    """The reason reaches the model and the history: it stays short and quotes nothing that is redacted."""
    call = a_paying_call(arguments={"note": 4242} | {f"extra-{n}": n for n in range(9)})
    reason = rules.misfit(call, SPEC)
    assert "/note: does not satisfy type" in reason
    assert "4242" not in reason
    assert len(reason) < 1000


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("fence", [1, 2, 3, 4])
@pytest.mark.parametrize("event", [Event.SUCCEEDED, Event.FAILED])
def test_what_is_known_ends_the_call(*, idempotent: bool, fence: int, event: Event) -> None:
    """A tool that said how it ended is believed, at any attempt."""
    for verifiable in (True, False):
        assert event is rules.what_follows(
            Outcome(event), idempotent=idempotent, fence=fence, attempts_max=3, verifiable=verifiable
        )


@pytest.mark.parametrize(
    ("idempotent", "fence", "verifiable", "event"),
    [
        (True, 1, False, Event.LET_GO),
        (True, 2, True, Event.LET_GO),
        (True, 3, False, Event.GAVE_UP),
        (True, 3, True, Event.PROBED),
        (True, 4, False, Event.GAVE_UP),
        (False, 1, False, Event.GAVE_UP),
        (False, 1, True, Event.PROBED),
    ],
)
def test_doubt_is_repeated_only_where_that_is_safe(
    *, idempotent: bool, fence: int, verifiable: bool, event: Event
) -> None:
    """Doubt lets go of the call while attempts are left and the tool is safe to repeat; else its probe is asked.

    Where there is none, nobody knows.
    """
    follows = rules.what_follows(
        rules.overdue(1), idempotent=idempotent, fence=fence, attempts_max=3, verifiable=verifiable
    )
    assert event is follows


@pytest.mark.parametrize("outcome", [rules.overdue(30), rules.in_doubt("The provider is silent."), rules.in_doubt("")])
def test_doubt_tells_the_model_not_to_repeat(outcome: Outcome) -> None:
    """Whoever is in doubt says that it may have run; the text begins with what happened."""
    assert outcome.error.endswith(MAY_HAVE_RUN)
    assert outcome.error == outcome.error.strip()
    assert "unknown" == rules.kind_of(outcome)


def test_an_answer_carries_the_call_and_the_attempt() -> None:
    """What the agent needs to find its call, and which attempt ended it."""
    call, end = a_paying_call(), datetime(2026, 11, 22, 12, 0, 5, tzinfo=UTC)
    answer = rules.finished(call, BEGUN, fence=2, started_at=NOON, finished_at=end, held=True)
    assert answer.held
    assert (call.tenant, call.call_id, call.conversation_id, "pay") == (
        answer.tenant,
        answer.call_id,
        answer.conversation_id,
        answer.tool,
    )
    assert ("succeeded", {"id": 1}, "", 2, NOON, end) == (
        answer.kind,
        answer.data,
        answer.error,
        answer.attempt,
        answer.started_at,
        answer.finished_at,
    )


@pytest.mark.parametrize(("idempotent", "warned"), [(True, False), (False, True)])
def test_a_crash_is_a_failure_that_may_have_had_effects(*, idempotent: bool, warned: bool) -> None:
    """The model is warned off repeating what is not safe to repeat: nobody knows how far the tool came."""
    outcome = rules.crashed("It broke.", None, "tool_crashed", idempotent=idempotent)
    assert (Event.FAILED, warned) == (outcome.event, MAY_HAVE_RUN in outcome.error)
