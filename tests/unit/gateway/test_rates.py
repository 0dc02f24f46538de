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
    rates = Rates(0, 60, clock)
    assert 60 == admitted(rates, TOKEN, 100)
    clock.now = 30
    assert 30 == admitted(rates, TOKEN, 100)
    clock.now = 3000
    assert 60 == admitted(rates, TOKEN, 100)


def test_a_refusal_says_when_to_come_back() -> None:
    """Whoever waits as long as it says is admitted."""
    clock = Clock()
    rates = Rates(0, 6, clock)
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
    rates = Rates(3, 2, Clock())
    callers = [KEY, replace(KEY, key_id="k2"), TOKEN, replace(TOKEN, conversation_id="c2"), SESSION]
    assert [3, 3, 2, 2, 2] == [admitted(rates, caller, 9) for caller in callers]


def test_zero_is_no_limit() -> None:
    """Nothing is counted where there is no limit."""
    assert 500 == admitted(Rates(0, 0, Clock()), KEY, 500)
