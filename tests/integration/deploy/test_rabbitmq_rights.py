"""Each service's broker user on a real RabbitMQ that loaded the definitions: enough for its work, and nothing more."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

from placet.contracts.topology import QUEUES, SERVICES, Destination, answers_key, executor_queue, trials_key
from placet.deploy.rabbitmq.definitions import RULEBOOK, definitions, pools_of, user_name, with_passwords
from placet.gateway.service import LIVE
from placet.runtime.bus import Delivery, PublishFailed
from placet.runtime.declaring import declare_topology
from placet.runtime.rabbit import RabbitBus
from tests.support.broker_users import EMPTY, channel_of, consumes, forget, load, login_url, publishes
from tests.support.rabbitmq import VirtualHosts

POOLS = pools_of(RULEBOOK)
SPECS = (*QUEUES, *(executor_queue(pool) for pool in POOLS))

#: (exchange, key) -> who may publish it. Whoever is not named is refused.
MATRIX = {
    ("messages", "acme"): {"gateway"},
    ("tool-calls", "tool-call.proposed"): {"agent"},
    ("tool-calls", "tool-call.withdrawn"): {"agent"},
    ("tool-calls", "workspace.discard"): {"agent", "jobs"},
    ("tool-calls", "workspace.merge"): {"jobs"},
    ("tool-calls", "workspace.calls-dropped"): {"agent", "jobs"},
    ("jobs", "workspace.merged"): {"executor"},
    ("jobs", "job.run"): {"gateway", "agent"},
    ("jobs", "attempt.surfaced"): {"agent"},
    ("jobs", "attempt.requested"): {"jobs"},
    ("jobs", "attempt.ended"): {"agent"},
    ("approvals", "approval.requested"): {"policy"},
    ("approvals", "approval.opened"): {"approval"},
    ("approvals", "approval.closed"): {"approval"},
    ("approvals", "watched-call.closed"): {"approval"},
    ("decisions", "decide"): {"gateway"},
    ("decisions", "dead-letter"): {"gateway"},
    ("decisions", "answered.replica-7"): {"approval"},
    # An executor sends on what runs after a commit; it can sign no permit.
    ("executions", "default"): {"policy", "approval", "executor"},
    ("executions", "payments"): {"policy", "approval", "executor"},
    ("executions", "other"): set(),
    ("tool-results", "tool-call.finished"): {"executor", "jobs"},
    ("tool-results", "tool-call.refused"): {"policy", "approval", "executor", "jobs"},
    ("conversations", "items.acme"): {"agent"},
    ("conversations", "delta.acme"): {"agent"},
    ("dead-letters", "approval.requests"): {"approval"},
    ("retry.1s", "approval.requests"): {"approval"},
    ("retry.120s", "executor.payments"): {"executor"},
    ("", "approval.requests"): {"dead_letters"},
    ("amq.topic", "anything"): set(),
}


@dataclass
class Broker:
    """A virtual host that loaded the definitions, with users of its own: users belong to the whole broker."""

    url: str
    prefix: str
    passwords: dict[str, str] = field(default_factory=dict)

    def url_of(self, service: str) -> str:
        """Return the URL of a service's user."""
        return login_url(self.url, f"{self.prefix}{user_name(service)}", self.passwords[service])

    def bus(self, service: str) -> RabbitBus:
        """Return a bus that declares nothing, as services on the distributed footing have it."""
        return RabbitBus(self.url_of(service), service=service, declare=False)

    def loaded(self) -> dict[str, list[dict[str, Any]]]:
        """Return the definitions for this virtual host and its users."""
        vhost = urlsplit(self.url).path.removeprefix("/")
        made = with_passwords(definitions(POOLS, vhost=vhost), self.passwords)
        for user in made["users"]:
            user["name"] = self.prefix + user["name"]
        for permission in (*made["permissions"], *made["topic_permissions"]):
            permission["user"] = self.prefix + permission["user"]
        return made


@pytest.fixture(scope="module")
def broker(virtual_hosts: VirtualHosts) -> Iterator[Broker]:
    """Load the definitions into a virtual host of this module's own."""
    prefix = f"test-{secrets.token_hex(4)}-"
    passwords = {service: secrets.token_hex(16) for service in SERVICES}
    with virtual_hosts.lent() as url:
        made = Broker(url, prefix, passwords)
        load(virtual_hosts._administration, made.loaded())
        yield made
    forget(virtual_hosts._administration, [f"{prefix}{user_name(service)}" for service in SERVICES])


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_is_refused_whatever_its_work_does_not_need(broker: Broker, service: str) -> None:
    """The whole matrix: each exchange and key that any service may publish with, tried as this one."""
    async with channel_of(broker.url_of(service)) as open_channel:
        got = {(exchange, key): await publishes(open_channel, exchange, key) for exchange, key in MATRIX}
    assert {place: service in allowed for place, allowed in MATRIX.items()} == got


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_reads_its_own_queues_only(broker: Broker, service: str) -> None:
    """Each durable queue, tried as this service."""
    names = [*(spec.name for spec in SPECS), "retry.1s"]
    async with channel_of(broker.url_of(service)) as open_channel:
        got = {name for name in names if await consumes(open_channel, name)}
    assert {spec.name for spec in SPECS if spec.service == service} == got


@pytest.mark.parametrize("service", SERVICES)
async def test_nobody_declares_or_rewires(broker: Broker, service: str) -> None:
    """A new exchange, a new queue, a deleted queue, a foreign binding: all refused."""

    async def bind_away(channel: Any) -> None:
        await (await channel.get_queue("approval.decisions")).bind("messages", routing_key="#")

    attempts: list[Callable[[Any], Any]] = [
        lambda channel: channel.declare_exchange("own", durable=False, auto_delete=True),
        lambda channel: channel.declare_queue("own", exclusive=True),
        lambda channel: channel.declare_queue(""),
        lambda channel: channel.queue_delete("approval.decisions"),
        lambda channel: channel.queue_delete("agent.messages"),
        lambda channel: channel.exchange_delete("executions"),
        bind_away,
    ]
    async with channel_of(broker.url_of(service)) as open_channel:
        for attempt in attempts:
            with pytest.raises(ChannelAccessRefused):
                await attempt(await open_channel())


async def test_a_gateway_binds_its_private_queue_to_answers_only(broker: Broker) -> None:
    """A stolen gateway user cannot copy other people's decisions or permits to itself."""
    async with channel_of(broker.url_of("gateway")) as open_channel:
        for exchange, key in (("decisions", "decide"), ("decisions", "#"), ("executions", "#"), ("approvals", "#")):
            channel = await open_channel()
            queue = await channel.declare_queue("gateway.answers.thief", exclusive=True)
            with pytest.raises(ChannelAccessRefused):
                await queue.bind(exchange, routing_key=key)


async def test_a_private_queue_belongs_to_its_gateway(broker: Broker) -> None:
    """Another connection of the same user cannot read along."""
    async with channel_of(broker.url_of("gateway")) as first, channel_of(broker.url_of("gateway")) as second:
        await (await first()).declare_queue("gateway.live.replica-7", exclusive=True)
        with pytest.raises(ChannelLockedResource):
            await (await second()).get_queue("gateway.live.replica-7")


class Listener:
    """Notes what comes from a queue, but for the empty envelopes that other tests of this broker sent."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, delivery: Delivery) -> None:
        """Take one delivery."""
        if delivery.body != EMPTY:
            self.seen.put_nowait(delivery.body)


async def test_every_service_does_its_work_with_its_rights(broker: Broker) -> None:
    """On buses that declare nothing, each service consumes all its queues, retries, buries and sends."""
    listeners = {spec.name: Listener() for spec in SPECS}
    answers, live = Listener(), Listener()
    async with AsyncExitStack() as stack:
        buses = {service: broker.bus(service) for service in SERVICES}
        for spec in SPECS:
            buses[spec.service].subscribe(spec, listeners[spec.name])
        own, tried = (Destination("decisions", key("replica-7")) for key in (answers_key, trials_key))
        buses["gateway"].listen("gateway.answers.replica-7", (own, tried), answers)
        buses["gateway"].listen("gateway.live.replica-7", LIVE, live)
        for bus in buses.values():
            await bus.start()
            stack.push_async_callback(bus.stop)
        # Straight to each queue, so that every service is seen to consume it; as dead_letters replays a dead letter.
        for spec in SPECS:
            await buses["dead_letters"].publish(Destination("", spec.name), b"[1]", message_id="1", mandatory=True)
        assert [b"[1]"] * len(SPECS) == [await each.seen.get() for each in listeners.values()]
        await buses["approval"].publish(own, b"[2]", message_id="2", mandatory=True)
        await buses["agent"].publish(Destination("conversations", "delta.acme"), b"[3]", message_id="3", mandatory=True)
        assert (b"[2]", b"[3]") == (await answers.seen.get(), await live.seen.get())
        for spec in SPECS:
            bus = buses[spec.service]
            await bus.retry(Delivery(spec.name, b""), b"[4]", attempt=1)
            await bus.dead_letter(Delivery(spec.name, b""), b"[5]", reason="test", message_id="5")
        buried = [await listeners["dead-letters"].seen.get() for _ in range(len(SPECS) + 1)]
        assert [*[b"[4]"], *[b"[5]"] * len(SPECS)] == sorted(buried)
        others = [each for name, each in listeners.items() if name != "dead-letters"]
        assert [b"[4]"] * len(others) == [await each.seen.get() for each in others]


async def sends(bus: RabbitBus, destination: Destination) -> bool:
    """Tell whether one publish is confirmed."""
    with suppress(PublishFailed):
        await bus.publish(destination, EMPTY, message_id="2", mandatory=True)
        return True
    await asyncio.sleep(0)  # lets the channel open again
    return False


async def test_a_forbidden_publish_fails_and_the_next_allowed_one_works(broker: Broker) -> None:
    """A refusal closes the publishing channel; the bus gets over it."""
    bus = broker.bus("agent")
    await bus.start()
    try:
        with pytest.raises(PublishFailed, match="ACCESS_REFUSED"):
            await bus.publish(Destination("executions", "payments"), EMPTY, message_id="1", mandatory=True)
        async with asyncio.timeout(10):
            while not await sends(bus, Destination("tool-calls", "tool-call.proposed")):
                pass
    finally:
        await bus.stop()


async def test_what_a_service_declares_is_what_the_definitions_say(broker: Broker) -> None:
    """A bus that declares the topology over the loaded definitions finds every argument equal."""
    await declare_topology(broker.url, SPECS)
