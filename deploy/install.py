"""Put the hash-pinned Python packages into a virtual environment; `make setup` calls this.

Owns `.venv` and nothing else. It runs before anything is installed, so it imports the standard library only.
Every failure fits into one line that says what is missing: that line is a newcomer's first impression.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

REPORT_EVERY = 20
"""A progress line each so many packages."""

# What pip's log says, and what a person should read instead; the first match wins.
EXPLANATIONS = (
    (r"Errno 28|No space left", "the disk is full"),
    (
        r"DO NOT MATCH THE HASHES",
        "a package differs from its pinned hash; nothing was installed",
    ),
    (
        r"connection broken|Max retries|NewConnectionError|NameResolution|ConnectTimeout|ReadTimeout",
        "the Python package index cannot be reached; the set-up needs a network (or a pip mirror)",
    ),
    (r"No matching distribution found for (\S+)", "there is no build of {0} for this Python and machine"),
    (r"Permission denied: '([^']+)'", "{0} may not be written"),
    (r"(?m)^ERROR: (.+)$", "{0}"),
)


class SetupError(Exception):
    """Set-up cannot go on; the message is the one line a person needs."""


def explain(log: str) -> str:
    """Say in one line what went wrong, from pip's output."""
    for pattern, sentence in EXPLANATIONS:
        found = re.search(pattern, log)
        if found:
            return sentence.format(*found.groups())
    return "pip failed"


def pinned(lock: str) -> list[str]:
    """List the names that a lock file pins, without those for Windows only."""
    lines = (line for line in lock.splitlines() if re.match(r"[A-Za-z0-9]", line))
    return [line.partition("==")[0] for line in lines if "sys_platform == 'win32'" not in line]


def progress(lines: Iterator[str], total: int, say: Callable[[str], None]) -> list[str]:
    """Read pip's lines to the end, say how far it is, and return them all."""
    seen: list[str] = []
    packages = 0
    for line in lines:
        seen.append(line)
        if line.startswith(("Collecting ", "Processing ", "Requirement already satisfied: ")):
            packages += 1
            if packages % REPORT_EVERY == 0:
                say(f"  {packages} of about {total} packages")
        elif line.startswith("Installing collected packages"):
            say("  unpacking …")
    return seen


def create_environment(folder: Path) -> None:
    """Make a virtual environment with pip in it, from the Python that runs this."""
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(
            f"{sys.executable} came without ensurepip; install it (Debian: apt-get install python3-venv) "
            "or name another Python: make PYTHON=/path/to/python"
        )
    say(f"Creating {folder} with Python {sys.version.split()[0]} ({sys.executable})")
    try:
        venv.create(folder, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError(f"{folder} could not be created: {error}") from error


def install_packages(lock: Path) -> None:
    """Install what `lock` pins: wheels only, each checked against its hash."""
    names = pinned(lock.read_text())
    say(f"Installing {len(names)} Python packages from {lock.name} (hash-checked; takes a minute or two)")
    _pip(["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement", str(lock)], len(names))


def install_project(folder: Path) -> None:
    """Make the checkout importable and give it its `placet` command; the pinned build tool does it."""
    say("Installing the placet command")
    _pip(["--no-deps", "--no-build-isolation", "--editable", str(folder)], 1)


def say(line: str) -> None:
    """Print a line at once, also when the output is a pipe."""
    print(line, flush=True)  # noqa: T201  # a command's own output


def _pip(arguments: Sequence[str], total: int) -> None:
    pip = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "install"]
    with subprocess.Popen(  # noqa: S603  # pip, with arguments written in this file
        [*pip, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        log = progress(iter(process.stdout or ()), total, say)
    if process.returncode:
        whole = Path(sys.prefix) / "setup.log"
        whole.write_text("".join(log))
        raise SetupError(f"{explain(''.join(log))} (pip's own words: {whole})")


def main(arguments: Sequence[str]) -> int:
    """`install.py venv|packages|project PATH`; the exit code says whether it worked."""
    steps = {"venv": create_environment, "packages": install_packages, "project": install_project}
    step, path = arguments
    try:
        steps[step](Path(path))
    except SetupError as failure:
        sys.stderr.write(f"placet: {failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
