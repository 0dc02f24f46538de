"""import-linter on houses that tests build, without starting Python anew for each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

#: Checks the named contracts of a house, or all; returns the exit code and what was printed.
Lint = Callable[..., tuple[int, str]]


@contextmanager
def linting() -> Iterator[Lint]:
    """Lend a linter that checks each house in a process forked for it, where nobody has imported another `services`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["importlinter.cli"])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as forks:
        yield lambda house, *contracts: forks.submit(_lint, house, contracts).result()


def _lint(house: Path, contracts: tuple[str, ...]) -> tuple[int, str]:
    from importlinter.cli import lint_imports  # noqa: PLC0415  # only the forks need it

    os.chdir(house)
    with redirect_stdout(StringIO()) as printed:
        code = lint_imports(limit_to_contracts=contracts, no_cache=True)
    return code, printed.getvalue()
