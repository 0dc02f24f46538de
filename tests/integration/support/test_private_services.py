"""The services that `make test` starts where a machine has none."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator

import aio_pika
import psutil
import psycopg
import pytest

from tests.support import postgres, rabbitmq
from tests.support.postgres import Databases
from tests.support.rabbitmq import CommandLine, ManagementApi, VirtualHosts
from tests.support.rabbitmq_node import PrivateNode, private_node


@pytest.fixture(scope="module")
def node() -> Iterator[PrivateNode]:
    """Start one private node for this module, since that takes seconds."""
    with private_node(management=True) as started:
        yield started


def make_notes(url: str) -> None:
    """Migrate to the schema of these tests: one table."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")


def test_a_private_server_ends_with_its_block() -> None:
    """A private PostgreSQL answers while its block runs, with room for a whole run, and not afterwards."""
    with postgres.private_server() as url:
        during = (postgres.answers(url), postgres.has_room(url))
    assert (True, True) == during
    assert not postgres.answers(url)


@pytest.mark.parametrize(("durable", "fsync"), [(False, "off"), (True, "on")])
def test_only_a_durable_server_waits_for_the_disk(*, durable: bool, fsync: str) -> None:
    """Tests need not outlive their machine; what is measured beside others must keep what they keep."""
    with postgres.private_server(durable=durable) as url, psycopg.connect(url) as connection:
        assert (fsync,) == connection.execute("SHOW fsync").fetchone()


def test_a_lent_database_is_empty_and_counts_anew(databases: Databases) -> None:
    """Whatever its last user left in it is gone, and is not there to be waited for either."""
    with databases.lent(make_notes) as first, psycopg.connect(first) as left_open:
        left_open.execute("INSERT INTO notes VALUES ('mine')")
        left_open.commit()
        left_open.execute("LOCK TABLE notes")
    with databases.lent(make_notes) as second, psycopg.connect(second) as connection:
        assert (first, []) == (second, connection.execute("SELECT * FROM notes").fetchall())


def test_a_database_whose_schema_was_changed_is_lent_to_nobody(databases: Databases) -> None:
    """A test that breaks a schema breaks nobody else's."""
    with databases.lent(make_notes) as first, psycopg.connect(first) as connection:
        connection.execute("GRANT SELECT ON notes TO public")
    with databases.lent(make_notes) as second:
        assert first != second


def test_fresh_databases_share_the_schema_and_no_rows(databases: Databases) -> None:
    """What one test writes into its database, the next one's does not have."""
    with databases.fresh(make_notes) as first, databases.fresh(make_notes) as second:
        with psycopg.connect(first) as connection:
            connection.execute("INSERT INTO notes VALUES ('mine')")
        with psycopg.connect(second) as connection:
            rows = connection.execute("SELECT * FROM notes").fetchall()
    assert not rows


def test_a_dropped_database_is_gone(databases: Databases) -> None:
    """A fresh database does not outlive its block, even while somebody is connected."""
    with databases.fresh(make_notes) as url:
        guest = psycopg.connect(url)
    with pytest.raises(psycopg.OperationalError):
        guest.execute("SELECT 1")
    guest.close()
    assert not postgres.answers(url)


async def test_a_killed_node_keeps_confirmed_messages(node: PrivateNode) -> None:
    """A message confirmed by a durable queue is there after kill -9 and a new start."""
    async with await aio_pika.connect(node.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("kept", durable=True)
        message = aio_pika.Message(b"kept", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, queue.name)
    # The queue itself is written to disk a moment after it is declared; the message was confirmed.
    await asyncio.to_thread(subprocess.run, [node.control, "eval", "mnesia:sync_log()."], check=True)
    node.kill()
    node.start()
    async with await aio_pika.connect(node.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("kept", passive=True)
        received = await queue.get(timeout=10)
        await received.ack()
    assert message.body == received.body


def administrations(node: PrivateNode) -> dict[str, rabbitmq.Administration | None]:
    """Return both ways to administer the private node."""
    return {
        "rabbitmqctl": CommandLine.usable(node.control),
        "management": ManagementApi.usable(node.management_url, "guest", "guest"),
    }


@pytest.mark.parametrize("way", ["rabbitmqctl", "management"])
async def test_fresh_virtual_hosts_share_no_queues(node: PrivateNode, way: str) -> None:
    """A queue declared in one fresh virtual host is unknown in the next, whoever made them."""
    administration = administrations(node)[way]
    assert administration is not None
    hosts = VirtualHosts(node.url, administration)
    async with (
        await aio_pika.connect(hosts.fresh()) as first,
        await aio_pika.connect(hosts.fresh()) as second,
    ):
        await (await first.channel()).declare_queue("mine", durable=True)
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await (await second.channel()).declare_queue("mine", passive=True)
    hosts.close()


@pytest.mark.parametrize("way", ["rabbitmqctl", "management"])
def test_closed_virtual_hosts_are_gone(node: PrivateNode, way: str) -> None:
    """Closing the source deletes what it made, so that a broker in use is left as it was found."""
    administration = administrations(node)[way]
    assert administration is not None
    hosts = VirtualHosts(node.url, administration)
    url = hosts.fresh()
    during = rabbitmq.answers(url)
    hosts.close()
    assert during
    assert not rabbitmq.answers(url)


def test_strangers_cannot_administer(node: PrivateNode) -> None:
    """Wrong credentials and a missing rabbitmqctl give no administration instead of a late surprise."""
    assert ManagementApi.usable(node.management_url, "guest", "wrong") is None
    assert CommandLine.usable("/nonexistent/rabbitmqctl") is None


def test_a_stopped_node_leaves_no_process() -> None:
    """Stopping a private node ends its port mapper and helpers too."""
    with private_node() as started:
        folder = started.control.rpartition("/")[0]
        running = processes_of(folder)
    _, left = psutil.wait_procs(running, timeout=10)
    assert running
    assert not left


def processes_of(folder: str) -> list[psutil.Process]:
    """Return the processes that were started with `folder` in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if folder in process.environ().values():
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            continue
    return found
