"""What a dead letter says about itself."""

from __future__ import annotations

import pytest

from services.audit.rules import OPERATORS_TENANT, events_of, letter_from
from shared.bus import Delivery
from tests.builders import a_posted_message, an_envelope, an_event

OURS = {"x-placet-reason": "poison: bad", "x-placet-message-id": "m1"}


def test_our_own_burial_tells_queue_reason_and_message() -> None:
    """Headers that the consumer shell set are believed."""
    letter = letter_from(Delivery("dead-letters", an_envelope(an_event(a_posted_message())), OURS, "agent.messages"))
    assert ("agent.messages", "agent", "poison: bad", "m1", "acme") == (
        letter.queue,
        letter.service,
        letter.reason,
        letter.message_id,
        letter.tenant,
    )


def test_the_brokers_burial_is_told_by_x_death() -> None:
    """Where the broker buried, its first death names queue and reason."""
    headers = {"x-death": [{"queue": "policy.tool-calls", "reason": "delivery_limit"}]}
    letter = letter_from(Delivery("dead-letters", b"[]", headers, "policy.tool-calls"))
    assert ("policy.tool-calls", "broker: delivery_limit") == (letter.queue, letter.reason)


@pytest.mark.parametrize("body", [b"", b"\x00\xff", b"[1]", b'{"data": 7}', b"[" * 100_000])
def test_any_bytes_make_a_letter_for_the_operators(body: bytes) -> None:
    """Unreadable bytes are kept, without a NUL that PostgreSQL could not store."""
    letter = letter_from(Delivery("dead-letters", body, OURS))
    assert (OPERATORS_TENANT, False) == (letter.tenant, "\x00" in letter.body)


def test_the_same_burial_has_the_same_id_and_another_one_has_not() -> None:
    """A letter that the broker delivers twice is one letter."""
    first, again = (letter_from(Delivery("dead-letters", b"x", OURS)).dead_letter_id for _ in range(2))
    other = letter_from(Delivery("dead-letters", b"y", OURS)).dead_letter_id
    assert (True, False) == (first == again, first == other)


def test_a_replayed_event_keeps_its_id() -> None:
    """What goes back is the event as it was."""
    event = an_event(a_posted_message())
    (text,) = events_of(an_envelope(event).decode())
    assert event.id in text


@pytest.mark.parametrize("body", ["", "[]", "[1]", "7"])
def test_a_body_without_events_cannot_be_replayed(body: str) -> None:
    """Bytes that never were an event are refused with a reason."""
    with pytest.raises(ValueError, match=r"."):
        events_of(body)


def test_a_header_cannot_claim_another_queue() -> None:
    """Where a letter goes back to is the key that the broker checked, not what its sender wrote beside it."""
    headers = {**OURS, "x-placet-queue": "approval.requests", "x-placet-service": "approval"}
    letter = letter_from(Delivery("dead-letters", b"[]", headers, "agent.messages"))
    assert ("agent.messages", "agent") == (letter.queue, letter.service)
