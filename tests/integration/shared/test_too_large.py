"""What becomes of an event of which the broker takes neither a retry nor the whole dead letter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from placet.contracts.dead_letters import REFUSED_TYPE, Unsent, unsent_in
from placet.contracts.errors import Poison, Transient
from placet.contracts.frontends import frontend_key
from placet.contracts.messages import MessagePosted, ToolCallFinished
from placet.contracts.topology import queue
from placet.runtime.bus import Delivery, PublishRefused
from placet.runtime.consumer import Consumer, one_by_one
from placet.runtime.rabbit import RabbitBus
from placet.runtime.work import Work
from tests.builders import a_call, a_posted_message, a_result, an_envelope, an_event
from tests.integration.shared.test_delivery import QUEUE, House, open_house
from tests.integration.shared.test_rabbit import Taken, send

LARGE = an_event(a_posted_message(text="x" * 30_000))


@dataclass
class Narrow:
    """A house whose bus takes retries and letters of up to `limit` bytes; letters that it took, and their reasons."""

    house: House
    limit: int = 2_000
    letters: list[tuple[bytes, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        retry, dead_letter = self.house.bus.retry, self.house.bus.dead_letter

        async def retried(delivery: Delivery, body: bytes, *, attempt: int) -> None:
            self.weigh(body)
            await retry(delivery, body, attempt=attempt)

        async def buried(delivery: Delivery, body: bytes, *, reason: str, message_id: str) -> None:
            self.weigh(body)
            self.letters.append((body, reason))
            await dead_letter(delivery, body, reason=reason, message_id=message_id)

        self.house.bus.retry, self.house.bus.dead_letter = retried, buried  # type: ignore[method-assign]

    def weigh(self, body: bytes) -> None:
        """Refuse what is too large."""
        if len(body) > self.limit:
            raise PublishRefused("larger than configured max size")

    async def take(self, *deliveries: Delivery, error: Exception | None = None) -> None:
        """Handle deliveries at once; the handlers raise `error` of what is large."""

        async def handle(message: Any, work: Work) -> None:
            del work
            if error is not None and len(message.model_dump_json()) > self.limit:
                raise error

        handlers: Any = dict.fromkeys((MessagePosted, ToolCallFinished), one_by_one(handle))
        consumer = Consumer(QUEUE, handlers, units=self.house.units, bus=self.house.bus)
        await asyncio.wait_for(asyncio.gather(*map(consumer, deliveries)), 30)


@pytest.fixture(params=["rabbit", "in_process"])
async def narrow(request: pytest.FixtureRequest, fresh_database: Any, rabbitmq_url: str) -> AsyncIterator[Narrow]:
    """A narrow house on each bus."""
    async with open_house(request.param, fresh_database(lambda _: None), rabbitmq_url) as house:
        yield Narrow(house)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Transient("not now"), "too large: no retry, larger than configured max size: not now"),
        (Poison("never"), "too large: poison: never"),
    ],
)
async def test_what_is_refused_is_told_of_in_a_cut_letter(narrow: Narrow, error: Exception, why: str) -> None:
    """Tried again for ever it would be acknowledged never, and hold up what comes behind it."""
    await narrow.take(Delivery(QUEUE, an_envelope(LARGE)), error=error)
    assert (why, LARGE.id) == await narrow.house.dead.get()
    ((body, _),) = narrow.letters
    (told,) = json.loads(body)
    assert Unsent(MessagePosted.type_name, QUEUE, {}) == unsent_in(told)
    assert (LARGE.id, LARGE.message.tenant) == (told["id"], told["data"]["tenant"])


async def test_a_cut_letter_tells_which_call_waits_for_it(narrow: Narrow) -> None:
    """So that a person can end it."""
    result = a_result(a_call()).model_copy(update={"data": "x" * 30_000})
    await narrow.take(Delivery(QUEUE, an_envelope(an_event(result))), error=Poison("never"))
    ((body, _),) = narrow.letters
    refused = unsent_in(json.loads(body)[0])
    assert refused is not None
    assert (result.call_id, ToolCallFinished.type_name) == (refused.call["call_id"], refused.type)


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
async def test_a_frontend_s_bytes_hold_nobody_up(narrow: Narrow, byte: bytes) -> None:
    """As many as a queue gives out ahead, whose letters would be six times as long as what came."""
    key = frontend_key("acme")
    await narrow.take(*(Delivery(QUEUE, byte * 30_000 + b"%d" % each, key=key) for each in range(64)))
    told = [json.loads(body)[0]["data"] for body, _ in narrow.letters]
    assert [("acme", REFUSED_TYPE)] * 64 == [(each["tenant"], each["type"]) for each in told]


async def test_what_is_no_event_is_told_of_too(narrow: Narrow) -> None:
    """Whatever it says of itself, and however long that is."""
    items = [{"id": "i" * 9_000, "type": "t" * 9_000, "data": {"call_id": "c" * 9_000, "tenant": 5}}]
    await narrow.take(Delivery(QUEUE, json.dumps(items).encode()), Delivery(QUEUE, b"x" * 9_000))
    assert [("t" * 512, "i" * 512), ("", "")] == [
        (told["data"]["type"], told["id"]) for body, _ in narrow.letters for told in json.loads(body)
    ]


async def test_a_delivery_of_which_no_letter_is_taken_stays_where_it_is(narrow: Narrow) -> None:
    """It is given back, and becomes a dead letter without us once it has come as often as the broker allows."""
    narrow.limit = 10
    with pytest.raises(PublishRefused):
        await narrow.take(Delivery(QUEUE, b"x" * 30_000))


async def test_a_bus_that_stopped_consuming_waits_for_nothing_twice(rabbitmq_url: str) -> None:
    """A delivery that does not end costs a stop its time once."""
    taken = Taken()
    taken.gate.clear()
    bus = RabbitBus(rabbitmq_url, service="test", declare=True, graceful_seconds=0.1)
    bus.subscribe(queue(QUEUE), taken)
    await bus.start()
    await send(bus, b"[]")
    await taken.has(1)
    await bus.stop_consuming()
    bus._graceful_seconds = 3600
    await asyncio.wait_for(bus.stop(), 30)
    assert not await bus.connected()
