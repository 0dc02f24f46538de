"""What the house is weighed by."""

from __future__ import annotations

import ast
from pathlib import Path

from bench import house
from bench.house import Tracer, against, count, twice, unwanted
from placet.contracts.ids import new_id

GLOSSARY = """
| word | what it is | not |
|---|---|---|
| **turn** | all that one message causes | run, tool call (see there) |
| **tool call** (call) | a tool with its arguments | |
| **feed** | what frontends show | log stream |
"""


def test_the_glossary_tells_which_words_it_does_not_want() -> None:
    """Not those that are words of their own elsewhere in it."""
    assert {"run": "turn", "log stream": "feed"} == unwanted(GLOSSARY)


def test_names_are_read_word_by_word() -> None:
    """Public classes and functions of a module, by whole words and in either spelling; nothing that is private."""
    tree = ast.parse(
        "class RunRow: ...\nclass LogStream: ...\ndef log_stream_of(): ...\ndef _run(): ...\ndef runner(): ..."
    )
    found = against(unwanted(GLOSSARY), {"a.py": tree})
    assert {
        "log stream (the glossary has feed)": ["a.py: LogStream", "a.py: log_stream_of"],
        "run (the glossary has turn)": ["a.py: RunRow"],
    } == found


def test_a_class_of_two_packages_is_told() -> None:
    """Twice in one package is that package's own affair."""
    trees = {
        "services/one/a.py": ast.parse("class Card: ...\nclass Own: ..."),
        "services/one/b.py": ast.parse("class Own: ..."),
        "services/two/a.py": ast.parse("class Card: ..."),
    }
    assert {"Card": ["services/one", "services/two"]} == twice(trees)


def test_a_house_is_counted(tmp_path: Path) -> None:
    """Lines, modules, functions and methods, and the way of a call by files and functions."""
    for file, text in {
        "services/a/x.py": "def one(): ...\nclass C:\n    def two(self): ...\n",
        "shared/y.py": "x = 1\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text(GLOSSARY)
    found = count(tmp_path, {("services/a/x.py", "one"), ("services/a/x.py", "C.two")})
    assert (4, 2, 2, 1, 2) == (
        found.lines,
        found.modules,
        found.functions,
        found.files_per_call,
        found.functions_per_call,
    )
    assert (0, 2) == (found.functions_per_file_median, found.functions_per_file_max)


def test_the_tracer_sees_what_runs_while_it_watches() -> None:
    """By file and qualified name, without what only tests or libraries run."""
    tracer = Tracer(house.ROOT)
    tracer.start()
    new_id()
    seen = tracer.stop()
    new_id()
    assert ("shared/contracts/ids.py", "new_id") in seen
    assert all(file.startswith(("services/", "shared/")) for file, _ in seen)
