"""Programs that tests need and pip cannot bring: RabbitMQ and a browser.

As root on a Debian machine they are installed; elsewhere one line says what to install. Nothing is downloaded
by any other road, so a machine without a package mirror gets that line and no surprise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


class MissingProgramError(Exception):
    """A program is not there and cannot be installed; the message says how a person can."""


@dataclass(frozen=True)
class Program:
    """One program: what to call it, where it may lie, and the Debian packages that bring it."""

    name: str
    candidates: tuple[str, ...]
    """Absolute paths, or names to look up on PATH, best first."""
    packages: tuple[str, ...]

    def find(self) -> Path | None:
        """Return the first candidate that exists and may be executed."""
        found = (shutil.which(candidate) for candidate in self.candidates)
        return next((Path(path) for path in found if path), None)


RABBITMQ = Program(
    # Debian's wrapper in /usr/sbin insists on the system's own node; the script behind it does as told.
    "RabbitMQ",
    ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"),
    ("rabbitmq-server",),
)
CHROMIUM = Program("Chromium", ("/usr/bin/chromium", "chromium", "chromium-browser"), ("chromium", "chromium-driver"))
FAKETIME = Program("faketime", ("/usr/bin/faketime", "faketime"), ("faketime",))


Run = Callable[[Sequence[str]], bool]
"""Runs a command and tells whether it succeeded."""


def apt() -> Run | None:
    """Return the way to run apt-get, for root on a Debian machine; None elsewhere."""
    return _run if os.geteuid() == 0 and shutil.which("apt-get") else None


def ensure(program: Program, run: Run | None) -> Path:
    """Find `program`, or install it with apt-get by `run`, or say how a person can."""
    found = program.find()
    if found is None and run:
        _install(program, run)
        found = program.find()
    if found is None:
        packages = " ".join(program.packages)
        raise MissingProgramError(f"{program.name} is needed; install it (Debian: apt-get install {packages})")
    return found


def _install(program: Program, run: Run) -> None:
    print(f"Installing {program.name} (apt-get install {' '.join(program.packages)})", flush=True)  # noqa: T201  # progress
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *program.packages]
    if not run(install):
        run(["apt-get", "update"])
        run(install)


def _run(command: Sequence[str]) -> bool:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0
