"""Fetch the browser libraries with npm and put the few files the pages need where the gateway serves them.

Owns `services/gateway/web/static/vendor/`. npm checks each download against `package-lock.json`, which names
no address, so any mirror will do. Node.js comes from the machine or, where there is none, from a hash-pinned
wheel: a newcomer needs Python only.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from placet.deploy.install import SetupError, install_packages, say

HERE = Path(__file__).resolve().parent
VENDOR = HERE.parents[1] / "services" / "gateway" / "web" / "static" / "vendor"

CLIENTS = HERE.parents[1] / "tests" / "clients"
"""Where real client libraries are that tests drive; nothing of them is ever served."""

FILES: Mapping[str, str] = {
    "htmx.org/dist/htmx.min.js": "htmx.min.js",
    "htmx.org/LICENSE": "htmx.LICENSE.txt",
    "marked/lib/marked.esm.js": "marked.js",
    "marked/LICENSE": "marked.LICENSE.txt",
}
"""File inside `node_modules` -> name in the vendor folder."""

NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
"""Scripts of packages are never run: nothing here needs them, and they are how npm packages attack."""


def find_npm() -> Path | None:
    """Find an npm that runs: the environment's own, then the machine's; None where there is neither."""
    candidates = (shutil.which("npm", path=str(Path(sys.executable).parent)), shutil.which("npm"))
    return next((Path(found) for found in candidates if found and _runs(found)), None)


def _runs(npm: str) -> bool:
    return subprocess.run([npm, "--version"], capture_output=True, check=False).returncode == 0  # noqa: S603  # found on PATH


def npm_or_install_one() -> Path:
    """Find npm; where there is none, install Node.js into the environment first."""
    npm = find_npm()
    if npm is None:
        say("No npm on this machine: taking Node.js from the Python package index")
        install_packages(HERE / "node.lock")
        npm = find_npm()
    if npm is None:
        raise SetupError("npm does not run on this machine; install Node.js 20 or newer with npm")
    return npm


def run_npm(npm: Path, *arguments: str, folder: Path = HERE) -> None:
    """Run npm in `folder`; its own error lines go into the one line of the failure."""
    command = [str(npm), *arguments, *NPM_OPTIONS]
    done = subprocess.run(  # noqa: S603  # npm, with arguments written in this file
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetupError(f"npm could not fetch the libraries: {explain(done.stderr)}")


def explain(errors: str) -> str:
    """Say in one line what went wrong, from npm's error output."""
    lines = [line.removeprefix("npm error ").strip() for line in errors.splitlines() if line.startswith("npm error")]
    for code, sentence in (
        ("EINTEGRITY", "a download differs from its pinned integrity"),
        ("ENOTFOUND", "no network"),
        ("EAI_AGAIN", "no network"),
        ("ECONNREFUSED", "no network"),
        ("ETIMEDOUT", "no network"),
    ):
        if any(code in line for line in lines):
            return sentence
    return next((line for line in lines if not line.startswith("code ")), "npm said nothing")


def copy_files(modules: Path, vendor: Path, files: Mapping[str, str] = FILES) -> None:
    """Replace `vendor` by exactly `files`; one that a new version no longer has is a failure, not a gap."""
    missing = [source for source in files if not (modules / source).is_file()]
    if missing:
        raise SetupError(f"the browser libraries lack {', '.join(missing)}")
    shutil.rmtree(vendor, ignore_errors=True)
    vendor.mkdir(parents=True)
    for source, name in files.items():
        shutil.copyfile(modules / source, vendor / name)


def main(arguments: Sequence[str]) -> int:
    """Install what the lock pins, or with `--lock` pin `package.json` again; returns the exit code."""
    parser = argparse.ArgumentParser(description="Fetch the browser libraries of Placet's pages.")
    parser.add_argument("--lock", action="store_true", help="write package-lock.json again from package.json")
    parser.add_argument("--clients", action="store_true", help="instead: the client libraries that tests drive")
    options = parser.parse_args(arguments)
    try:
        folder = CLIENTS if options.clients else HERE
        if options.lock:
            lock = ("install", "--package-lock-only", "--omit-lockfile-registry-resolved")
            run_npm(npm_or_install_one(), *lock, folder=folder)
        elif options.clients:
            say("Fetching the client libraries that tests drive")
            run_npm(npm_or_install_one(), "ci", folder=folder)
        else:
            say("Fetching the browser libraries")
            run_npm(npm_or_install_one(), "ci")
            copy_files(HERE / "node_modules", VENDOR)
    except SetupError as failure:
        sys.stderr.write(f"placet: {failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
