"""`make house`: how heavy the house is. Lines, modules, functions, what one gated call walks through, and its words.

The way of a call is seen from inside: everything in one process, and a tracer between the message's POST and the end of
its turn, for several calls; what ran in each of them counts, so that neither a first call nor a chore that happened to
be due does.
"""

from __future__ import annotations

import ast
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import psutil

from bench.load import a_load, until
from bench.measurement import percentile
from bench.placet_system import Variant, a_placet, pids_of

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ("services", "shared")
#: Calls that are traced, after some that are not.
TRACED, WARM = 5, 3
ALONE = Variant("house", embedded=True, calls=1, calls_per_turn=1)


@dataclass(frozen=True)
class House:
    """What was counted."""

    lines: int
    modules: int
    functions: int
    functions_per_file_median: float
    functions_per_file_p90: float
    functions_per_file_max: int
    files_per_call: int
    functions_per_call: int
    classes_in_several_packages: dict[str, list[str]]
    names_against_glossary: dict[str, list[str]]
    """Word that the glossary says not to use -> public names with it."""
    files_of_a_call: list[str]


def count(root: Path, way: Iterable[tuple[str, str]]) -> House:
    """Count a house; `way` are the (file, function) of one call, relative to `root`."""
    sources = {
        str(path.relative_to(root)): path.read_text()
        for folder in HOUSE
        for path in sorted((root / folder).rglob("*.py"))
    }
    trees = {name: ast.parse(text) for name, text in sources.items()}
    functions = [sum(map(_is_function, ast.walk(tree))) for tree in trees.values()]
    way = set(way)
    return House(
        lines=sum(text.count("\n") for text in sources.values()),
        modules=len(sources),
        functions=sum(functions),
        functions_per_file_median=percentile(functions, 0.5),
        functions_per_file_p90=percentile(functions, 0.9),
        functions_per_file_max=max(functions),
        files_per_call=len({file for file, _ in way}),
        functions_per_call=len(way),
        classes_in_several_packages=twice(trees),
        names_against_glossary=against(unwanted((root / "docs" / "glossary.md").read_text()), trees),
        files_of_a_call=sorted({file for file, _ in way}),
    )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def twice(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the public classes that several packages define, with these."""
    packages = defaultdict(set)
    for file, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                packages[node.name].add("/".join(file.split("/")[:2]))
    return {name: sorted(found) for name, found in sorted(packages.items()) if len(found) > 1}


def unwanted(glossary: str) -> dict[str, str]:
    """Return the words that the glossary says not to use, with the word that it wants; none that is itself wanted."""
    rows = [line.strip("| ").split("|") for line in glossary.splitlines() if line.startswith("| **")]
    wanted = {word.casefold() for row in rows for word in re.findall(r"\*\*(.+?)\*\*", row[0])}
    found = {}
    for row in rows:
        term = re.findall(r"\*\*(.+?)\*\*", row[0])[0]
        for word in re.sub(r"\(.*?\)", "", row[-1] if len(row) > 2 else "").split(","):  # noqa: PLR2004  # three columns
            if word.strip() and word.strip().casefold() not in wanted:
                found[word.strip().casefold()] = term
    return found


def against(words: Mapping[str, str], trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the public names at the top of modules that use an unwanted word, by the word and the wanted one."""
    found = defaultdict(list)
    for file, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
                "_"
            ):
                parts = f" {' '.join(_parts(node.name))} "
                for word, wanted in words.items():
                    if f" {word} " in parts:
                        found[f"{word} (the glossary has {wanted})"].append(f"{file}: {node.name}")
    return {word: sorted(names) for word, names in sorted(found.items())}


def _parts(name: str) -> list[str]:
    return [part.casefold() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


class Tracer:
    """Remembers which functions of the house ran, while it is told to."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: set[CodeType] = set()

    def start(self) -> None:
        """Forget, and watch this thread from now on."""
        self._seen = set()
        sys.setprofile(self._profile)

    def stop(self) -> set[tuple[str, str]]:
        """Watch no more; returns file and name of each function that ran."""
        sys.setprofile(None)
        found = set()
        for code in self._seen:
            if code.co_name == "<module>":
                continue
            path = Path(code.co_filename).resolve()
            # Comprehensions and lambdas belong to the function that they stand in.
            if path.is_relative_to(self._root) and path.relative_to(self._root).parts[0] in HOUSE:
                found.add((str(path.relative_to(self._root)), re.sub(r"\.<.*", "", code.co_qualname)))
        return found

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._seen.add(frame.f_code)


def traced(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what starts tracing, and what ends it and writes what was seen to `path`."""
    tracer = Tracer(ROOT)

    def end() -> None:
        draft = path.with_suffix(".draft")
        draft.write_text("".join(f"{file}\t{function}\n" for file, function in sorted(tracer.stop())))
        draft.replace(path)

    return tracer.start, end


async def way_of_a_call() -> set[tuple[str, str]]:
    """Return file and name of the functions that run in every one of some gated calls."""
    ways = []
    async with a_placet(ALONE) as system, a_load(system, ALONE) as load:
        host = psutil.Process(pids_of(system)["host"][0])
        seen = system.folder / "traced"
        for number in range(WARM + TRACED):
            await load.open(1)
            if number < WARM:
                await load.run(1)
                continue
            host.send_signal(signal.SIGUSR1)
            await load.run(1)
            host.send_signal(signal.SIGUSR2)
            await until(seen.exists)
            ways.append({(file, name) for file, name in (line.split("\t") for line in seen.read_text().splitlines())})
            seen.unlink()
    return set.intersection(*ways)


def table(house: House) -> str:
    """Lay the counts out for a terminal."""
    lines = [
        f"{house.lines:>8,} lines of Python in {' and '.join(HOUSE)}",
        f"{house.modules:>8,} modules, {house.functions:,} functions",
        f"{house.functions_per_file_median:>8.0f} functions in a file (median)",
        f"{house.functions_per_file_p90:>8.0f} in one of ten, {house.functions_per_file_max} at most",
        f"{house.files_per_call:>8} files and {house.functions_per_call} functions on the way of one gated call",
        f"{len(house.classes_in_several_packages):>8} public classes that several packages define:",
        *(f"{'':>10}{name}: {', '.join(found)}" for name, found in house.classes_in_several_packages.items()),
        f"{sum(map(len, house.names_against_glossary.values())):>8} public names with a word that the glossary avoids:",
        *(f"{'':>10}{word}: {_some(names)}" for word, names in house.names_against_glossary.items()),
    ]
    return "\n".join(lines)


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


async def weigh() -> House:
    """Count the house, with the way of some calls of today."""
    return count(ROOT, await way_of_a_call())
