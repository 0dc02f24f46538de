"""Checking a rulebook file: the report that the command line prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.domain.yaml_source import Problem, RulebookInvalid, parse_yaml
from placet.policy.rulebook import rulebook_from
from placet.policy.rulebook.check import check

SHOP = Path(__file__).parents[3] / "deploy" / "rulebook.yaml"


def problems_of(content: bytes) -> list[Problem]:
    """Return what is wrong with a rulebook; any other error than RulebookInvalid fails the test."""
    try:
        rulebook_from(parse_yaml("f", content))
    except RulebookInvalid as error:
        return error.problems
    return []


def test_valid_file_is_counted() -> None:
    """A good file has no problems, a digest, and says how much is in it."""
    report = check(SHOP)

    assert (True, [], 5, 4) == (report.valid, report.problems, report.tools, report.rules)


def test_invalid_file_is_reported_as_json_with_places(tmp_path: Path) -> None:
    """Each problem is an object with file, line, column and text, so that editors can jump to it."""
    path = tmp_path / "rulebook.yaml"
    path.write_text("tools:\n  look: {}\nrules: []\n")

    report = json.loads(json.dumps(check(path).as_json()))

    missing = [f"key '{key}' is missing" for key in ("category", "description", "parameters")]
    assert [{"file": str(path), "line": 2, "column": 3, "problem": text} for text in missing] == report["problems"]
    assert (False, 1, 0) == (report["valid"], report["tools"], report["rules"])


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    """A folder in place of a file is a problem like any other."""
    report = check(tmp_path)

    assert (False, None, [f"{tmp_path}:1:1: cannot be read: Is a directory"]) == (
        report.valid,
        report.digest,
        [str(problem) for problem in report.problems],
    )


@settings(max_examples=60, deadline=None)
@given(data=st.data(), inserted=st.text(max_size=4) | st.sampled_from(["- 5", "{", "5", "[x]", "$ref: 5", "&a *a"]))
def test_mutilated_file_is_refused_or_read_and_never_crashes(data: st.DataObject, inserted: str) -> None:
    """Whatever an editor does to a rulebook, the answer is a rulebook or places in the file."""
    text = SHOP.read_text()
    start = data.draw(st.integers(0, len(text)))
    mutilated = text[:start] + inserted + text[start + data.draw(st.integers(0, 30)) :]

    lines = range(1, len(mutilated.splitlines()) + 2)
    places = problems_of(mutilated.encode("utf-8", "surrogatepass"))
    assert all(place.line in lines and place.column >= 1 for place in places)


#: What stands where something else should.
SHAPES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", "*", [], {}, ["x"], [[]], [{"name": "x"}], {"x": "x"}, {1: 2}, {"x": None}]
)
RULEBOOKS = [SHOP, *sorted((SHOP.parent / "examples").glob("*.yaml"))]


def _places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to everything in a parsed file."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inside:
        yield (*way, step)
        yield from _places(each, (*way, step))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), path=st.sampled_from([each for each in RULEBOOKS if ".cases." not in each.name]), shape=SHAPES)
def test_another_shape_anywhere_is_refused_or_read_and_never_crashes(
    data: st.DataObject, path: Path, shape: Any
) -> None:
    """A list where names are wanted, a number where a text is: the answer is a rulebook or places in the file."""
    content = yaml.safe_load(path.read_text())
    way = data.draw(st.sampled_from(list(_places(content))))
    inside = content
    for step in way[:-1]:
        inside = inside[step]
    inside[way[-1]] = shape
    for problem in problems_of(yaml.safe_dump(content).encode()):
        assert (True, True) == (problem.line > 0, bool(problem.problem))
