"""Break one defence at a time in a copy of the house, and see that its tests fail: `make test-mutants`.

A mutant that no test catches is a test that is missing. Ends with 1 where one survives or cannot be tried.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
#: What a copy does without.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "node_modules", "__pycache__", ".*_cache", "docs", ".hypothesis")
#: pytest: all passed, some failed.
PASSED, FAILED = 0, 1


@contextmanager
def planted(root: Path, mutant: Mutant) -> Iterator[None]:
    """Break one defence in the copy at `root` while the block runs."""
    path = root / mutant.path
    whole = path.read_text()
    path.write_text(whole.replace(mutant.before, mutant.after))
    try:
        yield
    finally:
        path.write_text(whole)


def tried(root: Path, mutant: Mutant) -> tuple[int, str]:
    """Return how the tests of a mutant end, and which one caught it, or what kept them from running."""
    with planted(root, mutant):
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *mutant.tests]
        environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'examples'}", "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    caught = next((line.split(" - ")[0] for line in lines if line.startswith(("FAILED", "ERROR"))), "")
    return ended.returncode, caught.removeprefix("FAILED ") or "\n".join(lines[-5:])


def main() -> int:
    """Try every mutant, or those that are named; print a table; return the status of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="Only these.")
    parser.add_argument("--at-once", type=int, default=2)
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - {each.name for each in MUTANTS}):
        parser.error(f"no planted bug is called {', '.join(unknown)}")
    chosen = [each for each in MUTANTS if not asked.names or each.name in asked.names]
    began, bad = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.at_once) as workers:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(asked.at_once):
            shutil.copytree(ROOT, Path(folder) / str(number), ignore=LEFT_OUT, symlinks=True)
            copies.put(Path(folder) / str(number))

        def run(mutant: Mutant) -> tuple[Mutant, int, str]:
            root = copies.get()
            try:
                return mutant, *tried(root, mutant)
            finally:
                copies.put(root)

        for mutant, status, what in workers.map(run, chosen):
            word = {PASSED: "SURVIVED", FAILED: "caught"}.get(status, "NOT TRIED")
            bad += status != FAILED
            sys.stdout.write(f"{word:9}  {mutant.name:34}  {what if status != PASSED else mutant.says}\n")
            sys.stdout.flush()
    seconds = time.monotonic() - began
    sys.stdout.write(f"{len(chosen) - bad} of {len(chosen)} planted bugs were caught in {seconds:.0f} s\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
