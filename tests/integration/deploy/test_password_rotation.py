"""Passwords of database and broker change as docs/security.md says: the new one works, the old one does no more."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aio_pika
import psycopg
import pytest
from psycopg import sql

from placet.contracts.topology import SERVICES
from placet.deploy.postgres import prepare
from placet.deploy.rabbitmq import definitions
from tests.support.broker_users import comes_in, login_url
from tests.support.postgres import answers, private_server
from tests.support.rabbitmq_node import PrivateNode, private_node
from tests.support.system import ROOT

ADMIN = "admin"
#: Inside its container nobody needs a password, as in the image of PostgreSQL; from outside everybody does.
WHO_COMES_IN = "local postgres postgres trust\nlocal placet all scram-sha-256\n"


@dataclass
class Environment:
    """The file `.env`, which `make compose-env` completes."""

    file: Path

    @property
    def values(self) -> dict[str, str]:
        """What stands in it."""
        lines = self.file.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    def complete(self) -> None:
        """Write what is missing, as `make compose-env` does."""
        subprocess.run([ROOT / "deploy" / "env.sh", self.file], check=True, capture_output=True)

    def renew(self, *parts: str) -> None:
        """Delete the lines whose names have these parts, and have new ones written."""
        lines = self.file.read_text().splitlines(keepends=True)
        self.file.write_text("".join(line for line in lines if not any(part in line for part in parts)))
        self.complete()


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """Passwords of a new installation."""
    made = Environment(tmp_path / "env")
    made.complete()
    return made


@dataclass
class Server:
    """PostgreSQL in its container."""

    inside: str
    environment: Environment
    monkeypatch: pytest.MonkeyPatch

    def url_of(self, who: str) -> str:
        """Return the URL of the database with the password of the moment."""
        role = "postgres" if who == ADMIN else f"placet_{who}"
        password = self.environment.values[f"PLACET_DATABASE_PASSWORD_{who.upper()}"]
        return urlsplit(self.inside)._replace(netloc=f"{role}:{password}@", path="/placet").geturl()

    def prepare(self) -> int:
        """Run what compose runs at each start before the services; return its exit code."""
        for name, value in self.environment.values.items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.setenv(prepare.ADMIN_URL, self.url_of(ADMIN))
        return prepare.main()

    def set_admin_password(self) -> None:
        """Give the administrator the password that stands in the file, from inside the container."""
        password = self.environment.values["PLACET_DATABASE_PASSWORD_ADMIN"]
        with psycopg.connect(self.inside, autocommit=True) as connection:
            connection.execute(sql.SQL("ALTER ROLE postgres PASSWORD {}").format(sql.Literal(password)))


@pytest.fixture
def server(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this test's own that was prepared once."""
    with private_server() as inside:
        made = Server(inside, environment, monkeypatch)
        made.set_admin_password()
        with psycopg.connect(inside, autocommit=True) as connection:
            connection.execute("CREATE DATABASE placet")
            (file,) = connection.execute("SHOW hba_file").fetchone() or ("",)
            Path(file).write_text(WHO_COMES_IN)
            connection.execute("SELECT pg_reload_conf()")
        assert 0 == made.prepare()
        yield made


def test_a_new_database_password_takes_the_place_of_the_old_one(server: Server) -> None:
    """Each service and the owner come in with the new one alone, and find what was there."""
    everybody = (prepare.OWNER, *SERVICES)
    before = {who: server.url_of(who) for who in everybody}
    with psycopg.connect(before["gateway"]) as connection:
        connection.execute("INSERT INTO gateway.restores (restored_at, backup_at) VALUES (now(), now())")
    assert dict.fromkeys(everybody, True) == {who: answers(url) for who, url in before.items()}
    server.environment.renew(*(f"DATABASE_PASSWORD_{who.upper()}" for who in everybody))
    assert 0 == server.prepare()
    assert dict.fromkeys(everybody, False) == {who: answers(url) for who, url in before.items()}
    assert dict.fromkeys(everybody, True) == {who: answers(server.url_of(who)) for who in everybody}
    with psycopg.connect(server.url_of("gateway")) as connection:
        assert (1,) == connection.execute("SELECT count(*) FROM gateway.restores").fetchone()


def test_the_administrator_s_new_password_is_set_inside_the_container_first(server: Server) -> None:
    """Nobody else could set it: without that the next start is refused; with it, only the new one comes in."""
    before = server.url_of(ADMIN)
    server.environment.renew("DATABASE_PASSWORD_ADMIN")
    assert (1, True) == (server.prepare(), answers(before))
    server.set_admin_password()
    assert (0, False, True) == (server.prepare(), answers(before), answers(server.url_of(ADMIN)))


@dataclass
class Broker:
    """RabbitMQ in its container, which loads its definitions at each start."""

    node: PrivateNode
    definitions: Path
    environment: Environment
    monkeypatch: pytest.MonkeyPatch

    def url_of(self, service: str) -> str:
        """Return the URL of a service's user with the password of the moment."""
        password = self.environment.values[f"PLACET_RABBITMQ_PASSWORD_{service.upper()}"]
        url = login_url(self.node.url, definitions.user_name(service), password)
        return urlsplit(url)._replace(path=f"/{definitions.VHOST}").geturl()

    def start(self) -> None:
        """Do what `init` does, then start."""
        for name, value in self.environment.values.items():
            self.monkeypatch.setenv(name, value)
        assert 0 == definitions.main(["--output", str(self.definitions)])
        self.node.start()


@pytest.fixture
def broker(environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker of this test's own."""
    file = tmp_path / "definitions.json"
    with private_node(definitions=file) as node:
        made = Broker(node, file, environment, monkeypatch)
        made.start()
        yield made


async def test_a_new_broker_password_takes_the_place_of_the_old_one(broker: Broker) -> None:
    """Each service comes in with the new one alone, and what waited in a queue is there."""
    before = {service: broker.url_of(service) for service in SERVICES}
    async with await aio_pika.connect(before["gateway"]) as connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange("messages")
        waits = aio_pika.Message(b"waits", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await exchange.publish(waits, routing_key="acme", mandatory=True)
    assert dict.fromkeys(SERVICES, True) == {service: await comes_in(url) for service, url in before.items()}
    broker.environment.renew("RABBITMQ_PASSWORD")
    broker.node.kill()
    broker.start()
    assert dict.fromkeys(SERVICES, False) == {service: await comes_in(url) for service, url in before.items()}
    assert dict.fromkeys(SERVICES, True) == {service: await comes_in(broker.url_of(service)) for service in SERVICES}
    async with await aio_pika.connect(broker.url_of("agent")) as connection:
        queue = await (await connection.channel()).get_queue("agent.messages")
        message = await queue.get(timeout=30)
        assert b"waits" == message.body
