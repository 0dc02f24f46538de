"""RabbitMQ for tests: a private node where the machine has none, and a fresh virtual host per test in either.

A fresh virtual host is the only cheap way to start from no queues at all. They are made in batches, because
each call of rabbitmqctl costs most of a second however much it does. What a test leaves in one is deleted at once:
each quorum queue keeps some of the broker's file handles, and a broker may have a thousand.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

import aio_pika

from placet.contracts.topology import QUEUES, RETRY_DELAYS_SECONDS, executor_queue, retry_name

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
"""Where a developer's own node usually is."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
PREFIX = "placet-test-"
"""Begins the names of virtual hosts that tests make."""
BATCH = 16
"""Virtual hosts made at once."""
POOLS = ("default", "payments")
"""Executor pools of the tests that meet a broker."""


def answers(url: str) -> bool:
    """Whether a broker lets us in at `url`."""

    async def connect() -> None:
        connection = await aio_pika.connect(url, timeout=3)
        await connection.close()

    try:
        asyncio.run(connect())
    except (aio_pika.exceptions.AMQPError, OSError, TimeoutError):
        return False
    return True


def has_room(administration: Administration | None) -> bool:
    """Whether no other run of tests is on that broker, or died there: what it left keeps file handles, and is busy."""
    return administration is not None and not any(name.startswith(PREFIX) for name in administration.vhosts())


async def delete_queues(url: str) -> None:
    """Delete every queue that the topology has, those of the tests' pools too."""
    names = [*(spec.name for spec in QUEUES), *map(retry_name, RETRY_DELAYS_SECONDS)]
    names += [executor_queue(pool).name for pool in POOLS]
    async with await aio_pika.connect(url, timeout=10) as connection:
        channel = await connection.channel()
        for name in names:
            await channel.queue_delete(name)


class Administration(Protocol):
    """Whoever may make and delete virtual hosts on one broker."""

    def create(self, vhosts: Sequence[str], user: str) -> None:
        """Make `vhosts` and give `user` every right in them."""

    def delete(self, vhosts: Sequence[str]) -> None:
        """Delete `vhosts` and all that is in them."""

    def vhosts(self) -> list[str]:
        """Return the names of all virtual hosts."""

    def consumers(self, vhost: str) -> list[tuple[str, str, int]]:
        """Return queue, channel and prefetch of each consumer in a virtual host."""


class CommandLine:
    """Administration by rabbitmqctl; one call for a whole batch."""

    def __init__(self, control: str) -> None:
        self._control = control

    @classmethod
    def usable(cls, control: str) -> CommandLine | None:
        """Return the administration, if this user may command that node."""
        command = [control, "--quiet", "list_vhosts"]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError:
            return None
        return None if done.returncode else cls(control)

    def create(self, vhosts: Sequence[str], user: str) -> None:
        """Make `vhosts` and give `user` every right in them."""
        everything = '<<".*">>, <<".*">>, <<".*">>, <<"tests">>'
        self._for_each(
            vhosts,
            'rabbit_vhost:add(Vhost, <<"tests">>), '
            f'rabbit_auth_backend_internal:set_permissions(<<"{user}">>, Vhost, {everything})',
        )

    def delete(self, vhosts: Sequence[str]) -> None:
        """Delete `vhosts` and all that is in them."""
        self._for_each(vhosts, 'rabbit_vhost:delete(Vhost, <<"tests">>)')

    def vhosts(self) -> list[str]:
        """Return the names of all virtual hosts."""
        command = [self._control, "--quiet", "--formatter", "json", "list_vhosts"]
        found = subprocess.run(command, capture_output=True, check=True).stdout
        return [row["name"] for row in json.loads(found)]

    def consumers(self, vhost: str) -> list[tuple[str, str, int]]:
        """Return queue, channel and prefetch of each consumer in a virtual host."""
        command = [self._control, "--quiet", "--formatter", "json", "list_consumers", "-p", vhost]
        found = subprocess.run(command, capture_output=True, check=True).stdout
        return [(row["queue_name"], str(row["channel_pid"]), row["prefetch_count"]) for row in json.loads(found)]

    def _for_each(self, vhosts: Sequence[str], expression: str) -> None:
        names = ", ".join(f'<<"{vhost}">>' for vhost in vhosts)
        erlang = f"[begin {expression} end || Vhost <- [{names}]], ok."
        command = [self._control, "--quiet", "eval", erlang]
        subprocess.run(command, capture_output=True, check=True)


class ManagementApi:
    """Administration by the management plugin's HTTP API."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url = url.rstrip("/")
        self._credentials = base64.b64encode(f"{user}:{password}".encode()).decode()

    @classmethod
    def usable(cls, url: str, user: str, password: str) -> ManagementApi | None:
        """Return the administration, if the API answers and knows this user."""
        api = cls(url, user, password)
        try:
            api.call("GET", "/api/whoami")
        except (urllib.error.URLError, OSError):
            return None
        return api

    def create(self, vhosts: Sequence[str], user: str) -> None:
        """Make `vhosts` and give `user` every right in them."""
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        for vhost in vhosts:
            self.call("PUT", f"/api/vhosts/{quote(vhost, safe='')}", {})
            self.call("PUT", f"/api/permissions/{quote(vhost, safe='')}/{quote(user, safe='')}", everything)

    def delete(self, vhosts: Sequence[str]) -> None:
        """Delete `vhosts` and all that is in them."""
        for vhost in vhosts:
            self.call("DELETE", f"/api/vhosts/{quote(vhost, safe='')}")

    def vhosts(self) -> list[str]:
        """Return the names of all virtual hosts."""
        return [row["name"] for row in json.loads(self.call("GET", "/api/vhosts"))]

    def consumers(self, vhost: str) -> list[tuple[str, str, int]]:
        """Return queue, channel and prefetch of each consumer in a virtual host."""
        rows = json.loads(self.call("GET", f"/api/consumers/{quote(vhost, safe='')}"))
        return [(row["queue"]["name"], row["channel_details"]["name"], row["prefetch_count"]) for row in rows]

    def call(self, method: str, path: str, body: dict[str, str] | None = None) -> bytes:
        """Send one request and return the answer; any that is no success raises."""
        headers = {"Authorization": f"Basic {self._credentials}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310  # a broker's own address
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  # see above
            body_of: bytes = answer.read()
            return body_of


def administration(url: str, control: str | None = None, management: str | None = None) -> Administration | None:
    """Find a way to administer the broker at `url`: the given rabbitmqctl, the HTTP API, the local one."""
    if control:
        return CommandLine.usable(control)
    parts = urlsplit(url)
    host, user, password = parts.hostname or "", unquote(parts.username or ""), unquote(parts.password or "")
    api = ManagementApi.usable(management or f"http://{host}:15672", user, password)
    # Another broker's command line would make the virtual hosts there.
    is_local = management is None and host in LOCAL_HOSTS and parts.port in {None, 5672}
    if api is None and is_local and (found := shutil.which("rabbitmqctl")):
        return CommandLine.usable(found)
    return api


class VirtualHosts:
    """Fresh virtual hosts on one broker; names are never used twice."""

    def __init__(self, url: str, administration: Administration) -> None:
        self._url = urlsplit(url)
        self._administration = administration
        self._prefix = f"{PREFIX}{secrets.token_hex(4)}"
        self._made = 0
        self._unused: list[str] = []

    def fresh(self) -> str:
        """Return the URL of a virtual host that nobody has used."""
        if not self._unused:
            self._unused = self._make_batch()
        return self._url._replace(path=f"/{self._unused.pop()}").geturl()

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Lend the URL of a virtual host that nobody has used; its queues are deleted after the block."""
        url = self.fresh()
        try:
            yield url
        finally:
            asyncio.run(delete_queues(url))

    def close(self) -> None:
        """Delete every virtual host that was made."""
        names = [self._name(number) for number in range(self._made)]
        self._made, self._unused = 0, []
        if names:
            self._administration.delete(names)

    def _make_batch(self) -> list[str]:
        names = [self._name(number) for number in range(self._made, self._made + BATCH)]
        self._made += BATCH
        self._administration.create(names, unquote(self._url.username or "guest"))
        return names

    def _name(self, number: int) -> str:
        return f"{self._prefix}-{number}"


def control_beside(server: Path) -> str:
    """Return the rabbitmqctl that belongs to this rabbitmq-server."""
    return str(server.with_name("rabbitmqctl"))
