"""The one table that says where messages travel."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from placet.contracts import messages
from placet.contracts.messages import DecisionAnswered, Message
from placet.contracts.topology import (
    EXCHANGES,
    QUEUES,
    RETRY_DELAYS_SECONDS,
    ROUTES,
    Destination,
    key_matches,
    queue,
    reader_of,
    retry_delay,
)


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("#", "", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "b", False),
        ("a.*", "a", False),
        ("a.*", "a.b", True),
        ("*.b", "a.b", True),
        ("#.b", "b", True),
        ("a", "a.b", False),
    ],
)
def test_topic_patterns_match_as_amqp_says(pattern: str, key: str, *, matches: bool) -> None:
    """`*` stands for exactly one word and `#` for any number, none included."""
    assert matches == key_matches(pattern, key)


def test_every_message_has_a_route() -> None:
    """No message class is without an exchange and a key."""
    offered = {each for name in messages.__all__ if isinstance(each := getattr(messages, name), type)}
    sent = {cls for cls in offered if issubclass(cls, Message) and hasattr(cls, "type_name")}
    assert sent == set(ROUTES)


def test_every_binding_names_a_known_exchange() -> None:
    """Queues are bound to exchanges that are declared."""
    assert {binding.exchange for spec in QUEUES for binding in spec.bindings} <= set(EXCHANGES)


def key_of(cls: type[Message]) -> str:
    """Return the key of some message of a class."""
    return ROUTES[cls].key(SimpleNamespace(tenant="acme", pool="default", answer_to="g", queue="policy.tool-calls"))


def test_every_stored_message_reaches_a_queue() -> None:
    """A message that must arrive has a consumer, so `mandatory` never fails on a healthy system."""
    bound = [binding for spec in (*QUEUES, queue("executor.default")) for binding in spec.bindings]
    lost = [
        cls.__name__
        for cls, route in ROUTES.items()
        if route.mandatory
        and not any(binding.exchange == route.exchange and key_matches(binding.key, key_of(cls)) for binding in bound)
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("exchange", "key", "name"),
    [
        ("tool-results", "tool-call.finished", "agent.tool-results"),
        ("tool-calls", "tool-call.proposed", "policy.tool-calls"),
        ("approvals", "approval.requested", "approval.requests"),
        ("approvals", "call.approved", "policy.approved-calls"),
        ("executions", "payments", "executor.payments"),
        ("executions", "placet-jobs", "agent.permits"),
        ("", "agent.messages", "agent.messages"),
        ("decisions", "answered.gateway-1", ""),
    ],
)
def test_who_acts_on_a_message_is_the_first_that_reads_it(exchange: str, key: str, name: str) -> None:
    """So a letter of what never left its sender says who waits for it."""
    assert name == reader_of(Destination(exchange, key))


def test_answers_may_find_nobody() -> None:
    """A gateway that asked and died must not block the sender of the answer."""
    assert ROUTES[DecisionAnswered].mandatory is False


def test_retries_wait_longer_and_longer() -> None:
    """Each retry takes the next delay, and later ones the last."""
    assert [retry_delay(n) for n in range(1, 7)] == [
        *RETRY_DELAYS_SECONDS,
        RETRY_DELAYS_SECONDS[-1],
        RETRY_DELAYS_SECONDS[-1],
    ]
