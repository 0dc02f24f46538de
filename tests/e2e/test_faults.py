"""Faults of docs/reliability.md one at a time: calls go on through each, the system heals, and every promise holds.

Everything is a system of its own, on a broker and a database of its own. Whoever wants all of them at once, for as long
as it takes: `make chaos`.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import psutil
import pytest
import pytest_asyncio

from tests.chaos.load import CALLS_PER_MESSAGE, Load
from tests.chaos.report import judged, still_open
from tests.support import faults
from tests.support.faults import Fault, name_of
from tests.support.ground import Ground, a_ground
from tests.support.programs import FAKETIME, MissingProgramError, apt, ensure
from tests.support.standby import a_standby, take_over
from tests.support.system import ROOT, until

#: What hangs is told of within its own patience; this one ends the run without a word.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

REPLICAS = dict.fromkeys(("gateway", "agent", "policy", "approval", "executor", "dead_letters"), 1) | {"executor": 2}
EVERYBODY = REPLICAS | dict.fromkeys(("notifier", "jobs"), 1)
CHAOS = ROOT / "tests" / "chaos"
#: Conversations that go on meanwhile.
TALKING = 3
#: How long a fault, and all that follows of it, may take, in seconds: then it is said what does not come to rest.
TALK_SECONDS = 200.0
ALONE = (
    faults.pause_service,
    faults.memory_alarm,
    faults.disk_alarm,
    faults.close_connections,
    faults.overdue_delivery,
    faults.restart_database,
    faults.read_only_database,
    faults.no_connections,
    faults.cut_broker,
    faults.cut_database,
    faults.slow_network,
    faults.silent_network,
)
DISK_BYTES = 256 * 1024 * 1024


@asynccontextmanager
async def a_house(
    folder: Path,
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    replicas: Mapping[str, int] = REPLICAS,
    disk: Path | None = None,
) -> AsyncIterator[Ground]:
    """Run a small system in which everything can be broken."""
    environment = {
        "PLACET_MODEL": "python/tests.chaos.model:reply",
        "PLACET_TEST_LEDGER": str(folder / "ledger.jsonl"),
        "PLACET_TOOLS": str(ROOT),
        **settings,
    }
    async with a_ground(folder, CHAOS / "rulebook.yaml", replicas, environment, disk=disk) as ground:
        yield ground


@asynccontextmanager
async def talk(ground: Ground) -> AsyncIterator[Load]:
    """Have calls proposed, decided and run while the block runs; afterwards each has ended, as it should.

    Yields those who talk.
    """
    system = ground.system
    keys = system.key("chat", person="storm"), system.key("decide", person="grace")
    load = Load(system.url, system.database_url, *keys)

    async def heard() -> bool:
        return len(load.accepted) >= TALKING

    async with load.going_on(TALKING):
        try:
            async with asyncio.timeout(TALK_SECONDS):
                await until(heard, "everybody has said something")
                yield load
                await ground.healed()
                await load.end(TALK_SECONDS)
        except TimeoutError:
            unrest = await ground.unrest(system.processes)
            raise AssertionError(f"open: {still_open(load.database_url)}, {[*load.open]}\n{unrest}") from None
    ledger = Path(system.environment["PLACET_TEST_LEDGER"])
    verdict = await asyncio.to_thread(judged, system.database_url, ledger, load.accepted)
    assert ({}, 0, 0, 0, 0) == (
        verdict.broken,
        verdict.lost,
        verdict.doubled,
        verdict.unauthorised,
        verdict.unanswered,
    )
    assert verdict.calls >= CALLS_PER_MESSAGE * TALKING


async def test_each_service_is_cut_off_from_broker_and_database(tmp_path: Path) -> None:
    """One line after the other, also of those that only tell people or do jobs: the others go on, and it comes back."""
    async with a_house(tmp_path, replicas=EVERYBODY) as ground, talk(ground):
        for line in [line for lines in ground.lines.values() for line in lines.values()]:
            await faults.cut(line, 1.0)
            await ground.healed()


async def test_clocks_of_services_that_jump_decide_nothing(tmp_path: Path) -> None:
    """Ten minutes on, and twenty back: what begins and ends goes by the database's clock alone."""
    try:
        program = await asyncio.to_thread(ensure, FAKETIME, apt())
    except MissingProgramError as error:
        pytest.skip(str(error))
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    asked = [str(program), "-f", "+0", "env"]
    told = await asyncio.to_thread(lambda: subprocess.check_output(asked, text=True))
    preload = next(line.partition("=")[2] for line in told.splitlines() if line.startswith("LD_PRELOAD="))
    jumping = {
        "LD_PRELOAD": preload,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        # With a look at the clock's file at each call, and with the "fix", which ends each wait of a thread at once, a
        # service whose threads share an interpreter works twenty times as long.
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    async with a_house(tmp_path, jumping) as ground, talk(ground):
        for jump in ("+10m", "-10m", "+0"):
            clock.write_text(f"{jump}\n")
            await asyncio.sleep(faults.LONG)


@contextmanager
def a_small_disk(folder: Path) -> Iterator[Path]:
    """Lend a disk of its own, or skip the test where none can be had."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk that can be filled takes root, and the right to mount one")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_a_full_disk_of_the_database_loses_nothing(tmp_path: Path) -> None:
    """The database stops where it cannot write; with room again it goes on, and so does everything."""
    with a_small_disk(tmp_path) as disk:
        async with a_house(tmp_path, disk=disk) as ground, talk(ground):
            filler = disk / "filler"
            await asyncio.to_thread(_fill, filler)
            await asyncio.sleep(faults.LONG)
            await asyncio.to_thread(filler.unlink)
            # It may have given up: its log could not be written.
            await asyncio.to_thread(ground.postgres.start)


async def test_a_disk_that_does_not_take_what_is_flushed_confirms_nothing(tmp_path: Path) -> None:
    """The database ends itself where its log cannot reach the disk, and comes back with what it had confirmed."""
    strace = shutil.which("strace")
    if strace is None or os.geteuid():
        pytest.skip("what a disk answers is changed by strace, as root")
    async with a_house(tmp_path) as ground, talk(ground):
        failing = ["--quiet=all", "--output", str(tmp_path / "strace"), "--trace=fsync,fdatasync"]
        failing += ["--inject=fsync,fdatasync:error=EIO", "--follow-forks"]
        processes = [ground.postmaster(), *(each.pid for each in psutil.Process(ground.postmaster()).children())]
        tracer = await asyncio.create_subprocess_exec(strace, *failing, *(f"--attach={each}" for each in processes))
        await until(lambda: _said(ground, "could not fdatasync"), "the disk has failed")
        tracer.send_signal(signal.SIGINT)
        await tracer.wait()
        await asyncio.to_thread(ground.postgres.start)


async def _said(ground: Ground, words: str) -> bool:
    return words in (ground.disk / "log").read_text(errors="replace")


async def test_a_standby_that_takes_over_has_all_that_was_confirmed(tmp_path: Path) -> None:
    """The database is gone for good in the middle of it; its synchronous standby goes on where it stopped."""
    async with a_house(tmp_path) as ground, a_standby(ground) as standby, talk(ground) as load:
        load.database_url = await take_over(ground, standby)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 65_536)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ground]:
    """One system for all faults that leave it whole; begun last, so that it takes nothing from those of the others."""
    async with a_house(tmp_path_factory.mktemp("faults")) as ground:
        yield ground


@pytest.mark.parametrize("fault", ALONE, ids=name_of)
async def test_a_fault_is_healed_and_breaks_no_promise(house: Ground, fault: Fault) -> None:
    """Calls that go on meanwhile end, each once and by right."""
    async with talk(house):
        await fault(house, random.Random(7))  # noqa: S311 - a fault that can be repeated
