"""A chat frontend's own broker user on a real RabbitMQ: what it may do works, everything else is refused."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

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
    ("messages", "globex"),
    ("messages", "frontend.globex"),
    ("messages", "frontend.acme.more"),
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
        yield Login(login_url(url, frontend.user, password), frontend.user)
    forget(virtual_hosts._administration, [frontend.user])


async def test_a_frontend_writes_and_listens(login: Login) -> None:
    """It publishes with its tenant's key, and hears its tenant's conversations on queues of its own."""
    async with channel_of(login.url) as open_channel:
        assert await publishes(open_channel, "messages", "frontend.acme")
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
