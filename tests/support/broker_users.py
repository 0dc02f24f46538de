"""Users of a real RabbitMQ with the rights of their definitions, and what the broker lets them do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import aio_pika
from aiormq.exceptions import AMQPConnectionError, ChannelAccessRefused

from tests.support.rabbitmq import Administration, CommandLine, ManagementApi

EMPTY = b"[]"
"""What is published only to see whether it may be."""


def load(administration: Administration, made: dict[str, Any]) -> None:
    """Have the broker import definitions, as it does at boot."""
    if isinstance(administration, CommandLine):
        # By standard input: rabbitmqctl may run as another user, who cannot read our files.
        command = [administration._control, "--quiet", "import_definitions"]
        subprocess.run(command, input=json.dumps(made).encode(), capture_output=True, check=True)
    elif isinstance(administration, ManagementApi):
        administration.call("POST", "/api/definitions", made)


def forget(administration: Administration, users: list[str]) -> None:
    """Delete users; the virtual host goes by itself."""
    if isinstance(administration, CommandLine):
        names = ", ".join(f'<<"{user}">>' for user in users)
        erlang = f'[rabbit_auth_backend_internal:delete_user(User, <<"tests">>) || User <- [{names}]], ok.'
        subprocess.run([administration._control, "--quiet", "eval", erlang], capture_output=True, check=True)
    elif isinstance(administration, ManagementApi):
        for user in users:
            administration.call("DELETE", f"/api/users/{quote(user, safe='')}")


def disconnect(administration: Administration, user: str) -> None:
    """Have the broker close every connection of a user."""
    if isinstance(administration, CommandLine):
        command = [administration._control, "--quiet", "close_all_user_connections", user, "tests"]
        subprocess.run(command, capture_output=True, check=True)
    elif isinstance(administration, ManagementApi):
        administration.call("DELETE", f"/api/connections/username/{quote(user, safe='')}")


def login_url(url: str, user: str, password: str) -> str:
    """Return a broker's URL for another user."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{user}:{password}@{parts.hostname}:{parts.port or 5672}").geturl()


async def comes_in(url: str) -> bool:
    """Tell whether the broker lets somebody in."""
    try:
        await (await aio_pika.connect(url)).close()
    except AMQPConnectionError:
        return False
    return True


@asynccontextmanager
async def channel_of(url: str) -> AsyncIterator[Callable[[], Any]]:
    """Lend a function to fresh channels of one connection: a refusal closes its channel."""
    async with await aio_pika.connect(url) as connection:
        yield connection.channel


async def publishes(open_channel: Callable[[], Any], exchange: str, key: str) -> bool:
    """Tell whether the broker takes a message; it need not reach any queue."""
    channel = await open_channel()
    target = await channel.get_exchange(exchange) if exchange else channel.default_exchange
    try:
        await target.publish(aio_pika.Message(EMPTY), routing_key=key, mandatory=False)
    except ChannelAccessRefused:
        return False
    await channel.close()
    return True


async def _give_back(message: aio_pika.abc.AbstractIncomingMessage) -> None:
    await message.nack()


async def consumes(open_channel: Callable[[], Any], name: str) -> bool:
    """Tell whether the broker hands out what is in a queue."""
    channel = await open_channel()
    queue = await channel.get_queue(name)
    try:
        tag = await queue.consume(_give_back)
    except ChannelAccessRefused:
        return False
    await queue.cancel(tag)
    await channel.close()
    return True
