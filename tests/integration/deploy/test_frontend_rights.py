"""A chat frontend's own broker user on a real RabbitMQ: what it may do works, everything else is refused."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import pytest
from aiormq.exceptions import ChannelAccessRefused

from placet.contracts.topology import DEAD_LETTERS, QUEUES, RETRY_DELAYS_SECONDS, ROUTES, executor_queue, retry_name
from placet.deploy.rabbitmq.definitions import RULEBOOK, definitions, pools_of
from placet.deploy.rabbitmq.frontends import Frontend, definitions_of
from tests.support.broker_users import channel_of, comes_in, consumes, forget, load, login_url, publishes
from tests.support.rabbitmq import VirtualHosts

POOLS = pools_of(RULEBOOK)


class _Acme:
    """Stands for a message of acme in a route's key."""

    tenant, pool, answer_to, queue = "acme", "default", "replica-7", "agent.messages"


#: Every place that any message of acme goes to, other tenants' frontends, and the broker's own ways around.
FORBIDDEN = [
    *{(route.exchange, route.key(_Acme)) for route in ROUTES.values()},
    ("messages", "frontend.acme"),
    ("messages", "globex"),
    ("messages", "agent.messages"),
    *((retry_name(delay), "agent.messages") for delay in RETRY_DELAYS_SECONDS),
    (DEAD_LETTERS, "agent.messages"),
    ("", "agent.messages"),
    ("amq.topic", "frontend.acme"),
]


@dataclass(frozen=True)
class Login:
    """A frontend of acme that can log in."""

    url: str
    user: str
    #: The broker as somebody who may do everything sees it.
    everything: str

    @property
    def password(self) -> str:
        """What it logs in with."""
        return urlsplit(self.url).password or ""

    def queue(self, name: str) -> str:
        """Return the name of one of its queues."""
        return f"{self.user}.{name}"


@pytest.fixture(scope="module")
def login(virtual_hosts: VirtualHosts) -> Iterator[Login]:
    """Load the topology and a user for a frontend of this module's own: users belong to the whole broker."""
    password = secrets.token_hex(16)
    frontend = Frontend.parse(f"acme:widget-{secrets.token_hex(4)}")
    with virtual_hosts.lent() as url:
        vhost = urlsplit(url).path.removeprefix("/")
        topology = {**definitions(POOLS, vhost=vhost), "users": [], "permissions": [], "topic_permissions": []}
        load(virtual_hosts._administration, topology)
        load(virtual_hosts._administration, definitions_of(frontend, password, vhost=vhost))
        yield Login(login_url(url, frontend.user, password), frontend.user, url)
    forget(virtual_hosts._administration, [frontend.user])


async def test_a_frontend_writes_and_listens(login: Login) -> None:
    """It publishes with its tenant's key, and hears its tenant's conversations on queues of its own."""
    async with channel_of(login.url) as open_channel:
        assert await publishes(open_channel, login.user, "frontend.acme")
        channel = await open_channel()
        for options in ({"exclusive": True}, {"durable": True}):
            queue = await channel.declare_queue(login.queue(next(iter(options))), **options)
            for key in ("items.acme", "delta.acme"):
                await queue.bind("conversations", routing_key=key)
            await queue.delete(if_unused=False, if_empty=False)


@pytest.mark.parametrize(("exchange", "key"), sorted(FORBIDDEN))
async def test_a_frontend_publishes_nothing_else(login: Login, exchange: str, key: str) -> None:
    """No decision, permit, result or event, nothing in its gateway's or another tenant's name, and no way around."""
    async with channel_of(login.url) as open_channel:
        assert not await publishes(open_channel, exchange, key)


@pytest.mark.parametrize("key", ["acme", "globex", "frontend.globex", "frontend.acme.more", "agent.messages", "#"])
async def test_a_frontend_publishes_with_no_other_key(login: Login, key: str) -> None:
    """To its own exchange too."""
    async with channel_of(login.url) as open_channel:
        assert not await publishes(open_channel, login.user, key)


async def _bound(channel: Any, name: str, login: Login, key: str) -> None:
    await channel.declare_exchange(name, aio_pika.ExchangeType.FANOUT, auto_delete=True)
    await (await channel.get_exchange(login.user, ensure=False)).bind(name, routing_key=key)


async def _alternate(channel: Any, name: str, login: Login, _key: str) -> None:
    await channel.declare_exchange(name, aio_pika.ExchangeType.DIRECT, arguments={"alternate-exchange": login.user})


async def _buried(channel: Any, name: str, login: Login, key: str) -> None:
    await channel.declare_exchange(name, aio_pika.ExchangeType.FANOUT)
    buries = {"x-message-ttl": 0, "x-dead-letter-exchange": login.user, "x-dead-letter-routing-key": key}
    await (await channel.declare_queue(f"{name}-dying", exclusive=True, arguments=buries)).bind(name)


@pytest.mark.parametrize("detour", [_bound, _alternate, _buried])
async def test_no_detour_of_a_frontend_brings_another_key(
    login: Login, detour: Callable[[Any, str, Login, str], Awaitable[None]]
) -> None:
    """Exchanges and queues of its own pass any key on, and the exchange in which they end only one."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        heard.put_nowait(message.routing_key or "")

    async with channel_of(login.url) as open_channel, await aio_pika.connect(login.everything) as house:
        ours = await (await house.channel()).declare_queue("", exclusive=True)
        await ours.bind("messages", routing_key="#")
        await ours.consume(hear, no_ack=True)
        channel = await open_channel()
        for number, key in enumerate(("globex", "acme", "frontend.acme")):
            name = login.queue(f"{detour.__name__}{number}")
            await detour(channel, name, login, key)
            await (await channel.get_exchange(name, ensure=False)).publish(aio_pika.Message(b"[]"), key)
        async with asyncio.timeout(30):
            assert "frontend.acme" == await heard.get()
    assert heard.empty()


@pytest.mark.parametrize("way", ["bind", "alternate", "bury"])
async def test_a_frontend_leads_nothing_to_our_exchanges(login: Login, way: str) -> None:
    """Neither by a binding nor as an alternate nor for the dead: the way into `messages` is its exchange."""
    async with channel_of(login.url) as open_channel:
        channel = await open_channel()

        async def bind() -> None:
            own = await channel.declare_exchange(login.queue("own"), auto_delete=True)
            await (await channel.get_exchange("messages", ensure=False)).bind(own, routing_key="globex")

        async def alternate() -> None:
            await channel.declare_exchange(login.queue("another"), arguments={"alternate-exchange": "messages"})

        async def bury() -> None:
            await channel.declare_queue(login.queue("grave"), arguments={"x-dead-letter-exchange": "messages"})

        with pytest.raises(ChannelAccessRefused):
            await {"bind": bind, "alternate": alternate, "bury": bury}[way]()


async def test_a_frontend_reads_no_queue_of_ours(login: Login) -> None:
    """Each durable queue, tried as the frontend."""
    names = [*(spec.name for spec in QUEUES), *(executor_queue(pool).name for pool in POOLS), "retry.1s"]
    async with channel_of(login.url) as open_channel:
        assert [] == [name for name in names if await consumes(open_channel, name)]


@pytest.mark.parametrize(
    ("exchange", "key"),
    [
        ("conversations", "items.globex"),
        ("conversations", "items.#"),
        ("conversations", "*.acme"),
        ("conversations", "#"),
        ("conversations", "progress.acme"),
        ("messages", "#"),
        ("messages", "frontend.acme"),
        ("approvals", "#"),
        ("decisions", "decide"),
        ("executions", "#"),
        ("tool-results", "#"),
        ("tool-calls", "#"),
        ("dead-letters", "#"),
    ],
)
async def test_a_frontend_hears_nothing_else(login: Login, exchange: str, key: str) -> None:
    """Neither another tenant's conversations, nor any by a wildcard, nor anything that is no conversation's."""
    async with channel_of(login.url) as open_channel:
        queue = await (await open_channel()).declare_queue(login.queue("listens"), exclusive=True)
        with pytest.raises(ChannelAccessRefused):
            await queue.bind(exchange, routing_key=key)


async def test_a_frontend_declares_and_rewires_nothing_of_others(login: Login) -> None:
    """A queue of another prefix, an exchange, somebody's queue bound, emptied or deleted: all refused."""

    async def bind_ours(channel: Any) -> None:
        await (await channel.get_queue("agent.messages")).bind("conversations", routing_key="event.acme")

    async def purge_ours(channel: Any) -> None:
        await (await channel.get_queue("agent.messages")).purge()

    async def bury_elsewhere(channel: Any) -> None:
        arguments = {"x-dead-letter-exchange": "decisions", "x-dead-letter-routing-key": "decide"}
        await channel.declare_queue(login.queue("buries"), arguments=arguments)

    attempts: list[Callable[[Any], Awaitable[Any]]] = [
        lambda channel: channel.declare_queue("frontend.acme.another.q", exclusive=True),
        lambda channel: channel.declare_queue("frontend.globex.widget.q", exclusive=True),
        lambda channel: channel.declare_queue(login.user, exclusive=True),
        lambda channel: channel.declare_queue(login.queue("a.b"), exclusive=True),
        lambda channel: channel.declare_queue("gateway.live.thief", exclusive=True),
        lambda channel: channel.declare_queue(""),
        lambda channel: channel.declare_exchange("own", durable=False, auto_delete=True),
        lambda channel: channel.queue_delete("agent.messages"),
        lambda channel: channel.exchange_delete("messages"),
        lambda channel: channel.exchange_delete(login.user),
        bind_ours,
        purge_ours,
        bury_elsewhere,
    ]
    async with channel_of(login.url) as open_channel:
        for attempt in attempts:
            with pytest.raises(ChannelAccessRefused):
                await attempt(await open_channel())


async def test_a_new_password_of_a_frontend_takes_the_place_of_the_old_one(
    login: Login, virtual_hosts: VirtualHosts
) -> None:
    """Imported while the broker runs: from then on only the new one comes in."""
    frontend = Frontend.parse(login.user.removeprefix("frontend.").replace(".", ":"))
    vhost = urlsplit(login.url).path.removeprefix("/")
    renewed = login_url(login.url, login.user, "renewed")
    assert (True, False) == (await comes_in(login.url), await comes_in(renewed))
    load(virtual_hosts._administration, definitions_of(frontend, "renewed", vhost=vhost))
    try:
        assert (False, True) == (await comes_in(login.url), await comes_in(renewed))
    finally:
        load(virtual_hosts._administration, definitions_of(frontend, login.password, vhost=vhost))
