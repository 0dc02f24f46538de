"""A chat frontend on RabbitMQ with its own user: the example that the docs show, and what it cannot pretend."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import aio_pika
import pytest

from placet.contracts.frontends import frontend_key
from placet.contracts.ids import new_id, own_id
from placet.contracts.messages import Author, MessagePosted
from placet.deploy.rabbitmq.frontends import Frontend, definitions_of
from tests.builders import a_posted_message, an_envelope, an_event
from tests.support.broker_users import disconnect, forget, load, login_url
from tests.support.people import Caller, Visitor
from tests.support.rabbitmq import Administration, VirtualHosts
from tests.support.system import ROOT, System, until


@dataclass(frozen=True)
class Login:
    """A frontend of acme that can log in."""

    frontend: Frontend
    url: str
    administration: Administration

    def disconnect(self) -> None:
        """Have the broker close its connections."""
        disconnect(self.administration, self.frontend.user)


@pytest.fixture(scope="module")
def login(system: System, virtual_hosts: VirtualHosts) -> Iterator[Login]:
    """Give the running system's broker one more user."""
    password, administration = secrets.token_hex(16), virtual_hosts._administration
    frontend = Frontend.parse(f"acme:widget-{secrets.token_hex(4)}")
    vhost = urlsplit(system.rabbitmq_url).path.removeprefix("/")
    load(administration, definitions_of(frontend, password, vhost=vhost))
    yield Login(frontend, login_url(system.rabbitmq_url, frontend.user, password), administration)
    forget(administration, [frontend.user])


@asynccontextmanager
async def example(login: Login, text: str, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the example as the docs say."""
    names = (login.frontend.tenant, login.frontend.name)
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "examples" / "amqp_frontend.py"),
        *names,
        text,
        "--seconds=120",
        *options,
        env={**os.environ, "FRONTEND_RABBITMQ_URL": login.url},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def read(running: asyncio.subprocess.Process) -> tuple[str, int]:
    """Return what a program still says, and its exit code."""
    assert running.stdout is not None
    said = await running.stdout.read()
    return said.decode(), await running.wait()


async def test_a_frontend_talks_over_rabbitmq(login: Login) -> None:
    """The example writes a message and prints the answer once, whether by pieces or whole."""
    async with example(login, "hello") as running:
        said, code = await read(running)
    assert ["-- the agent thinks", "Hello, how can I help you today?", "-- the turn has finished"] == said.splitlines()
    assert 0 == code


async def test_a_frontend_that_lost_its_connection_misses_nothing(
    login: Login, operator: Caller, system: System
) -> None:
    """Cut off while people think, it comes back by itself, and prints how the turn ended."""
    conversation = new_id()
    async with example(login, "deploy the shop", f"--conversation={conversation}", "--visitor=v-1") as running:
        assert running.stdout is not None
        assert b"-- the agent thinks\n" == await running.stdout.readline()
        reader = Visitor(system.url, system.key("chat"), conversation=own_id("acme", conversation))
        card = await reader.see_card()
        await asyncio.to_thread(login.disconnect)
        assert (await operator.decide(card, "approve")).status_code == 200
        said, code = await read(running)
    assert 0 == code
    assert ["The shop is green.", "-- the turn has finished"] == [
        line for line in said.splitlines() if "green" in line or "has finished" in line
    ]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (a_posted_message(author=Author(kind="person", id="person:ada")), "for visitors only"),
        (a_posted_message(author=Author(kind="visitor", id="person:ada")), "none that a visitor"),
        (a_posted_message(tenant="globex"), "another tenant"),
    ],
    ids=["a person", "a visitor named like a person", "another tenant"],
)
async def test_a_frontend_cannot_write_as_anybody_else(
    login: Login, system: System, message: MessagePosted, why: str
) -> None:
    """The broker passes what has the right key; the agent buries it, in the sender's tenant, and does nothing."""
    forged = message.model_copy(update={"conversation_id": own_id("acme", new_id())})
    event = an_event(forged)
    async with await aio_pika.connect(login.url) as connection:
        own = await (await connection.channel()).get_exchange(login.frontend.user)
        await own.publish(aio_pika.Message(an_envelope(event)), frontend_key("acme"))

    async def buried() -> bool:
        letters = "SELECT count(*) FROM read.dead_letters WHERE tenant = 'acme'"
        return 1 == system.count(f"{letters} AND message_id = '{event.id}' AND reason LIKE 'security:%{why}%'")

    await until(buried, "the agent has buried it")
    for table in ("agent.messages", "agent.log"):
        assert 0 == system.count(f"SELECT count(*) FROM {table} WHERE conversation_id = '{forged.conversation_id}'")  # noqa: S608
