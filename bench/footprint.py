"""What Placet takes of a machine: memory of each service after some calls, and how long each takes to be ready.

Services start one after the other here, so that each has the machine for itself; memory is PSS, in which what several
processes share is divided among them. `placet up` is measured as a person has it, on its second start.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.load import a_load
from bench.placet_system import PLACET, a_placet, pids_of
from tests.support.ports import free_port
from tests.support.system import ROOT, System

#: Calls that are made before memory is measured, so many at a time.
CALLS_AT_ONCE = 16
#: Between two looks whether a service is ready, and how long that may take.
LOOK_SECONDS, PATIENCE_SECONDS = 0.01, 60.0
EMBEDDED, ITS_POSTGRES = "placet up", "its PostgreSQL"


@dataclass
class Footprint:
    """What was seen, by service."""

    ready_seconds: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)


async def measure() -> Footprint:
    """Start each service, run some calls, and look; then the same with everything in one process."""
    found = Footprint()

    def one_by_one(system: System) -> None:
        system.prepare()
        for label, process in system.processes.items():
            began = time.perf_counter()
            process.start()
            _wait_ready(process.health_port)
            found.ready_seconds[label.rpartition("-")[0]] = time.perf_counter() - began

    async with a_placet(PLACET, one_by_one) as system, a_load(system, PLACET) as load:
        await load.open(CALLS_AT_ONCE)
        await load.run(CALLS_AT_ONCE)
        for name, pids in pids_of(system).items():
            found.memory_mb[name] = sum(map(_pss_mb, pids))
    await asyncio.to_thread(_embedded, found)
    return found


def _embedded(found: Footprint) -> None:
    with tempfile.TemporaryDirectory(prefix="placet-up-") as folder:
        for _ in range(2):
            port = free_port()
            began = time.perf_counter()
            arguments = ["-m", "placet.cli", "up", "--port", str(port), "--data", f"{folder}/data"]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            with (Path(folder) / "log").open("ab") as log:
                process = subprocess.Popen(  # noqa: S603  # the project's own program
                    [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log
                )
            try:
                _wait_ready(port)
                found.ready_seconds[EMBEDDED] = time.perf_counter() - began
                server = psutil.Process(int((Path(folder) / "data/postgres/postmaster.pid").read_text().split()[0]))
                found.memory_mb[EMBEDDED] = _pss_mb(process.pid)
                found.memory_mb[ITS_POSTGRES] = sum(_pss_mb(each.pid) for each in (server, *server.children()))
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()


def _wait_ready(port: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                if answer.status == 200:  # noqa: PLR2004  # HTTP's word for yes
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(LOOK_SECONDS)
    raise TimeoutError(f"nothing was ready on port {port}")


def _pss_mb(pid: int) -> float:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended, as connections of PostgreSQL do
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    return int(found.group(1)) / 1024 if found else 0.0


def table(found: Footprint) -> str:
    """Lay the figures out for a terminal."""
    lines = [f"{'':<16}{'PSS MB':>8}{'ready s':>9}"]
    for name, memory in found.memory_mb.items():
        ready = found.ready_seconds.get(name)
        lines.append(f"{name:<16}{memory:>8.0f}{f'{ready:.2f}' if ready else '':>9}")
    return "\n".join(lines)
