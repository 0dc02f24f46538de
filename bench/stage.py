"""A thousand staged files and a hundred megabytes: what each entry costs as its workspace grows, and its commit.

One executor on a migrated database in this process, and real files; no broker. Each file is edited, so that it is read,
compared, kept, written and compared again.
"""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from bench.measurement import percentile
from bench.processor import POSTGRES_URL
from bench.report import say
from placet.contracts.messages import ToolCall
from placet.contracts.messages.stage import StagePlan
from placet.deploy.migrations import migrate
from placet.runtime.logging import set_up_logging
from tests.builders import a_call
from tests.support.executor_house import open_house, premises
from tests.support.postgres import Databases
from tests.support.workspaces import Scene, file_rulebook

#: Entries at each end of a workspace whose times are compared.
SAMPLE = 100
LINE = "A line of some sixty characters, as there are many in a file. {}\n"


@dataclass(frozen=True)
class Staged:
    """What one workspace cost."""

    entries: int
    megabytes: float
    #: Median of one entry, of the first ones and of the last ones.
    stage_first_ms: float
    stage_last_ms: float
    #: Reading all diffs, as a card does.
    diffs_ms: float
    commit_ms: float
    #: How much more memory the process had at its peak than before.
    stage_more_mb: float
    commit_more_mb: float

    @property
    def commit_ms_per_entry(self) -> float:
        """Of the commit."""
        return self.commit_ms / self.entries


async def measure(sizes: Sequence[int], file_bytes: int) -> list[Staged]:
    """Measure workspaces of so many edited files of so many bytes each, the smallest first."""
    set_up_logging("error")
    return [await _one(size, file_bytes) for size in sorted(sizes)]


async def _one(size: int, file_bytes: int) -> Staged:
    say(f"{size} files")
    databases = Databases(POSTGRES_URL)
    with ExitStack() as stack:
        stack.callback(databases.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-bench-")))
        place = premises(stack.enter_context(databases.fresh(_migrate)), folder)
        file_rulebook(place)
        os.environ["FILES_ROOT"] = str(folder / "files")
        text = "".join(LINE.format(number) for number in range(file_bytes // len(LINE.format(1000))))
        for number in range(size):
            (folder / "files" / f"{number}.txt").write_text(f"file {number}\n{text}")
        calls = _calls(place.catalog["edit_file"].schema_digest, size)
        async with open_house(place) as house:
            scene = Scene(house)
            before = _peak_mb()
            times = []
            for call in calls:
                permitted = place.permitted(call, mode="stage", plan=StagePlan())
                began = perf_counter()
                await house.deliver(permitted)
                answer = await scene.finished()
                times.append((perf_counter() - began) * 1000)
                if answer.staged is None:
                    raise RuntimeError(answer.error)
                scene.entries.append((call, answer.staged))
            staged = _peak_mb()
            began = perf_counter()
            diffs = place.sql("SELECT diff FROM executor.workspace_changes ORDER BY position")
            diffs_ms = (perf_counter() - began) * 1000
            began = perf_counter()
            kind, _, error = await scene.committed(scene.commit())
            commit_ms = (perf_counter() - began) * 1000
            committed = _peak_mb()
        done = sum((folder / "files" / f"{number}.txt").read_text().startswith("edited") for number in range(size))
        if (kind, len(diffs), done) != ("succeeded", size, size):
            raise RuntimeError(f"{done} of {size} files were written: {error}")
    sample = min(SAMPLE, size // 2)
    return Staged(
        size,
        size * len(text) / 1e6,
        percentile(times[:sample], 0.5),
        percentile(times[-sample:], 0.5),
        diffs_ms,
        commit_ms,
        staged - before,
        committed - staged,
    )


def _calls(schema_digest: str, size: int) -> list[ToolCall]:
    """Return an edit of each file."""
    made = ((f"{number}.txt", f"file {number}\n", f"edited {number}\n") for number in range(size))
    what = {"tool": "edit_file", "schema_digest": schema_digest}
    return [a_call(**what, arguments={"path": path, "old": old, "new": new}) for path, old, new in made]


def ratios(found: Sequence[Staged]) -> dict[str, float]:
    """Return how what an entry costs grows with its workspace, and what the largest took."""
    least, most = found[0], found[-1]
    return {
        "stage_last_vs_first": round(most.stage_last_ms / most.stage_first_ms, 2),
        "commit_per_entry_vs_few": round(most.commit_ms_per_entry / least.commit_ms_per_entry, 2),
        "commit_s": round(most.commit_ms / 1000, 2),
        "stage_memory_mb": round(most.stage_more_mb, 1),
        "commit_memory_mb": round(most.commit_more_mb, 1),
    }


def everything(found: Sequence[Staged]) -> dict[str, dict[str, float]]:
    """Return all figures."""
    return {str(each.entries): {name: round(value, 3) for name, value in asdict(each).items()} for each in found}


def table(found: Sequence[Staged]) -> str:
    """Lay the figures out for a terminal."""
    rows = {
        "MB": [each.megabytes for each in found],
        "stage, first entries, ms": [each.stage_first_ms for each in found],
        "stage, last entries, ms": [each.stage_last_ms for each in found],
        "all diffs, ms": [each.diffs_ms for each in found],
        "commit, ms": [each.commit_ms for each in found],
        "commit, ms an entry": [each.commit_ms_per_entry for each in found],
        "more memory to stage, MB": [each.stage_more_mb for each in found],
        "more memory to commit, MB": [each.commit_more_mb for each in found],
    }
    head = f"{'entries':<28}" + "".join(f"{each.entries:>12}" for each in found)
    return "\n".join([head, *(f"{name:<28}" + "".join(f"{x:>12.2f}" for x in row) for name, row in rows.items())])


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _migrate(url: str) -> None:
    migrate(url)
