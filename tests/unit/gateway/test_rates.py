"""How fast callers may post."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from placet.contracts.errors import Refused
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.rates import Rates

KEY = Caller("acme", "person:ada", "api_key", frozenset({"chat"}), key_id="k1")
TOKEN = Caller("acme", "visitor:v", "conversation_token", frozenset({"chat"}), conversation_id="c1")
SESSION = Caller("acme", "person:ada", "web_session", frozenset({"chat"}), key_id="k1", session_id="s1")


@dataclass
class Clock:
    """A clock that a test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def admitted(rates: Rates, caller: Caller, times: int) -> int:
    """Return how many of so many messages are admitted."""
    count = 0
    for _ in range(times):
        try:
            rates.admit(caller)
        except Refused:
            continue
        count += 1
    return count


def test_a_minutes_messages_may_come_at_once_and_fill_up_again() -> None:
    """A bucket is a minute's worth; half a minute gives half of it back, and it never holds more than all."""
    clock = Clock()
    rates = Rates(0, 60, clock=clock)
    assert 60 == admitted(rates, TOKEN, 100)
    clock.now = 30
    assert 30 == admitted(rates, TOKEN, 100)
    clock.now = 3000
    assert 60 == admitted(rates, TOKEN, 100)


def test_a_refusal_says_when_to_come_back() -> None:
    """Whoever waits as long as it says is admitted."""
    clock = Clock()
    rates = Rates(0, 6, clock=clock)
    admitted(rates, TOKEN, 6)
    with pytest.raises(Refused) as caught:
        rates.admit(TOKEN)
    assert (429, "rate-limited", 10) == (
        caught.value.status,
        caught.value.kind,
        caught.value.facts["retry_after_seconds"],
    )
    clock.now = 10
    rates.admit(TOKEN)


def test_each_caller_has_a_bucket_of_their_own() -> None:
    """One key, one conversation and one signed-in person do not use up another's; a key has its own limit."""
    rates = Rates(3, 2, clock=Clock())
    callers = [KEY, replace(KEY, key_id="k2"), TOKEN, replace(TOKEN, conversation_id="c2"), SESSION]
    assert [3, 3, 2, 2, 2] == [admitted(rates, caller, 9) for caller in callers]


def test_zero_is_no_limit() -> None:
    """Nothing is counted where there is no limit."""
    assert 500 == admitted(Rates(0, 0, clock=Clock()), KEY, 500)


def test_a_tenant_has_a_bucket_beside_those_of_its_callers() -> None:
    """Together its callers post so much; another tenant's go on, and a caller's own refusal uses nothing of it up."""
    rates = Rates(3, 2, by_tenant=4, clock=Clock())
    callers = [KEY, TOKEN, replace(KEY, key_id="k2"), replace(KEY, tenant="rival", key_id="k3")]
    assert [3, 1, 0, 3] == [admitted(rates, caller, 9) for caller in callers]


def test_a_refusal_says_that_it_is_the_tenants() -> None:
    """Whoever asks for less than their own share learns why they are refused."""
    rates = Rates(0, 0, by_tenant=1, clock=Clock())
    rates.admit(KEY)
    with pytest.raises(Refused) as caught:
        rates.admit(TOKEN)
    assert "At most 1 messages a minute of all callers of this tenant." == caught.value.facts["detail"]
