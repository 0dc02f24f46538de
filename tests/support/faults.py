"""Faults of the catalogue that one machine can make: each breaks something, waits, and puts it back.

What happens then is for others to look at: `Ground.healed`, the invariants, the ledger of the tools.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import psycopg

from tests.support.ground import LEASE_SECONDS, Ground
from tests.support.line import Line
from tests.support.system import until

Fault = Callable[[Ground, random.Random], Awaitable[None]]

#: How long a fault that goes by itself lasts, in seconds.
SHORT, LONG = 0.3, 3.0
#: How long a delivery may be held where that is short, and how often the broker looks, in milliseconds.
DELIVERY_MS, TICK_MS = 1_000, 500


async def kill_service(ground: Ground, dice: random.Random) -> None:
    """SIGKILL one process, and start it again."""
    with ground.victim(dice) as victim:
        await asyncio.to_thread(victim.kill)
        await asyncio.sleep(dice.uniform(0.0, 0.5))
        victim.start()


async def stop_service(ground: Ground, dice: random.Random) -> None:
    """Stop one process in an orderly way, and start it again, as a rollout does."""
    with ground.victim(dice) as victim:
        await asyncio.to_thread(victim.stop)
        victim.start()


async def pause_service(ground: Ground, dice: random.Random, *services: str) -> None:
    """SIGSTOP one process for longer than its lease: it wakes up late and believes that it holds what others took."""
    with ground.victim(dice, *(services or ("executor", "agent"))) as victim:
        assert victim.running is not None
        victim.running.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(LEASE_SECONDS + 1)
        finally:
            victim.running.send_signal(signal.SIGCONT)


async def kill_broker(ground: Ground, _: random.Random) -> None:
    """SIGKILL the broker, and start it again."""
    await asyncio.to_thread(ground.node.kill)
    await asyncio.to_thread(ground.node.start)


async def restart_broker(ground: Ground, _: random.Random) -> None:
    """Stop the broker's application in an orderly way, and start it again."""
    await ground.control("stop_app")
    await ground.control("start_app")


async def memory_alarm(ground: Ground, _: random.Random) -> None:
    """Have the broker think that it has no memory left: it blocks whoever publishes."""
    await ground.control("set_vm_memory_high_watermark", "0.00001")
    await asyncio.sleep(LONG)
    await ground.control("set_vm_memory_high_watermark", "0.4")


async def disk_alarm(ground: Ground, _: random.Random) -> None:
    """Have the broker think that its disk is full: the same, for another reason."""
    await ground.control("set_disk_free_limit", "9000GB")
    await asyncio.sleep(LONG)
    await ground.control("set_disk_free_limit", "50MB")


async def overdue_delivery(ground: Ground, dice: random.Random) -> None:
    """Have the broker allow a second for a delivery, and one process hold its own for longer: its channel is closed."""
    said = len(ground.node.log())
    await ground.control("eval", _allowed(DELIVERY_MS, TICK_MS))
    try:
        await close_connections(ground, dice)
        await ground.healed()
        await pause_service(ground, dice, "agent")
        assert "timed out" in ground.node.log()[said:], "no delivery was held for too long"
    finally:
        await ground.control("eval", _allowed(1_800_000, 60_000))
        await close_connections(ground, dice)


def _allowed(delivery_ms: int, tick_ms: int) -> str:
    """Return what tells the broker how long deliveries may be held on channels that open from now on."""
    setting = "application:set_env(rabbit, {}, {})"
    return f"{setting.format('consumer_timeout', delivery_ms)}, {setting.format('channel_tick_interval', tick_ms)}."


async def close_connections(ground: Ground, _: random.Random) -> None:
    """Have the broker close every connection."""
    await ground.control("close_all_connections", "chaos")


async def kill_database(ground: Ground, _: random.Random) -> None:
    """SIGKILL the database's first process, and start it again."""
    await ground.end_postgres(signal.SIGKILL)


async def restart_database(ground: Ground, _: random.Random) -> None:
    """Shut the database down at once but in an orderly way, and start it again."""
    await ground.end_postgres(signal.SIGINT)


async def read_only_database(ground: Ground, _: random.Random) -> None:
    """Refuse every write, as a standby does or a server whose disk is full."""
    await _set_read_only(ground, "SET default_transaction_read_only = on", "on")
    try:
        await asyncio.sleep(LONG)
    finally:
        await _set_read_only(ground, "RESET default_transaction_read_only", "off")


async def _set_read_only(ground: Ground, change: str, wanted: str) -> None:
    """Change what a server takes for granted, and return when its sessions know; again where it was not reached."""

    async def known() -> bool:
        with suppress(psycopg.OperationalError):
            await asyncio.to_thread(ground.execute, f"ALTER SYSTEM {change}", "SELECT pg_reload_conf()")
        with suppress(psycopg.OperationalError):
            async with await psycopg.AsyncConnection.connect(ground.system.database_url) as connection:
                row = await (await connection.execute("SHOW default_transaction_read_only")).fetchone()
                return row == (wanted,)
        return False

    await until(known, f"default_transaction_read_only = {wanted}")


async def no_connections(ground: Ground, _: random.Random) -> None:
    """Take every connection that the database has left, and hang up those of the services."""
    taken: list[psycopg.AsyncConnection] = []
    try:
        await asyncio.to_thread(ground.execute, _HANG_UP)
        # Somebody may have to come in to see what is wrong: the last ones stay free.
        with suppress(psycopg.OperationalError):
            while True:
                taken.append(await psycopg.AsyncConnection.connect(ground.system.database_url))
        await asyncio.sleep(LONG)
    finally:
        for each in taken:
            await each.close()


async def hang_up(ground: Ground, _: random.Random) -> None:
    """Have the database end every session, in the middle of whatever it does."""
    await asyncio.to_thread(ground.execute, _HANG_UP)


async def cut_broker(ground: Ground, dice: random.Random) -> None:
    """Cut one process off from the broker for a while."""
    await _dead(ground, dice, "broker")


async def cut_database(ground: Ground, dice: random.Random) -> None:
    """Cut one process off from the database for a while."""
    await _dead(ground, dice, "database")


async def slow_network(ground: Ground, dice: random.Random) -> None:
    """Make every line of one process slow."""
    with ground.victim(dice) as victim:
        lines = ground.lines[victim.name].values()
        for line in lines:
            line.delay_seconds = dice.uniform(0.02, 0.2)
        await asyncio.sleep(LONG)
        for line in lines:
            line.delay_seconds = 0.0


async def silent_network(ground: Ground, dice: random.Random) -> None:
    """Swallow what goes over a line of one process, which stays open; cut it in the end."""
    with ground.victim(dice) as victim:
        line = ground.lines[victim.name][dice.choice(["broker", "database"])]
        line.silent = True
        await asyncio.sleep(LONG)
        line.cut()
        line.silent = False


async def _dead(ground: Ground, dice: random.Random, to: str) -> None:
    with ground.victim(dice) as victim:
        await cut(ground.lines[victim.name][to], dice.uniform(SHORT, LONG))


async def cut(line: Line, seconds: float) -> None:
    """Cut a line, and let nobody through for a while."""
    line.dead = True
    line.cut()
    await asyncio.sleep(seconds)
    line.dead = False


_HANG_UP = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)

#: Each kind, and how often it comes beside the others. Of those to one process several come at once, of the others one:
#: the broker and the database are one each.
OF_PROCESSES: Mapping[Fault, int] = {
    kill_service: 12,
    stop_service: 2,
    pause_service: 2,
    cut_broker: 6,
    cut_database: 6,
    slow_network: 2,
    silent_network: 2,
}
OF_THE_HOUSE: Mapping[Fault, int] = {
    kill_broker: 1,
    restart_broker: 1,
    memory_alarm: 1,
    disk_alarm: 1,
    close_connections: 2,
    kill_database: 3,
    restart_database: 1,
    read_only_database: 1,
    no_connections: 1,
    hang_up: 4,
}
FAULTS: Mapping[Fault, int] = {**OF_PROCESSES, **OF_THE_HOUSE}
#: Those that change how the house is set for a while: not for a storm, in which others do so, too.
ALONE = (overdue_delivery,)


def name_of(fault: Fault) -> str:
    """Return what a fault is called in a report."""
    return str(getattr(fault, "__name__", fault)).replace("_", " ")
