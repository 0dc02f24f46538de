"""YAML read with the place of every value kept, so that a wrong rulebook is told by file, line and column.

PyYAML composes the nodes, but its constructors are not used: they let the second of two equal keys win, read
`no` as false and forget where a value stood. Plain scalars follow the YAML 1.2 core schema.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from placet.contracts.errors import PlacetError

#: Largest file read, in bytes.
SOURCE_BYTES_MAX = 1024 * 1024
#: Deepest nesting of mappings and sequences.
DEPTH_MAX = 48
#: Most nodes a document may have once its aliases are written out: an alias bomb ends here.
NODES_MAX = 50_000
#: Most characters of texts and keys a document may have once its aliases are written out.
CHARACTERS_MAX = 2 * SOURCE_BYTES_MAX

#: Keys and indexes that lead from the top of a document to a value.
Steps = tuple[str | int, ...]

_LINE_END = re.compile(r"\r\n|\r|\n")
_PYDANTIC_SUBJECT = re.compile(r"^[A-Z]\w+ should")
_PYDANTIC_MAPPING = re.compile(r"valid dictionary( or instance of \w+)?")
_TAG = "tag:yaml.org,2002:"
_SCALARS: dict[str, Callable[[str], Any]] = {
    f"{_TAG}str": str,
    f"{_TAG}int": int,
    f"{_TAG}float": float,
    f"{_TAG}bool": {"true": True, "false": False}.__getitem__,
    f"{_TAG}null": lambda _: None,
}


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong in a file. Lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int
    problem: str

    def __str__(self) -> str:
        """Return `FILE:LINE:COLUMN: problem`."""
        return f"{self.file}:{self.line}:{self.column}: {self.problem}"

    def as_json(self) -> dict[str, str | int]:
        """Return {file, line, column, problem}."""
        return asdict(self)


class RulebookInvalid(PlacetError):
    """The rulebook is not used. One line per problem, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        #: Everything that was found wrong, at least one, sorted by place.
        self.problems = sorted(set(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class WrittenEntry(BaseModel):
    """A part of a file that people write; what it does not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Loader(yaml.SafeLoader):
    """Composes nodes with the YAML 1.2 core schema and bounded depth."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012  # PyYAML reads the class attribute
    depth = 0
    nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Compose one node; refuse the one that is nested too deeply before recursion becomes a risk."""
        self.nodes += 1
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.refuse(f"nested deeper than {DEPTH_MAX} levels")
        if self.nodes > NODES_MAX:
            self.refuse(f"more than {NODES_MAX} values")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def refuse(self, problem: str) -> NoReturn:
        """Raise PyYAML's error for a problem at the node that comes next."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        raise yaml.composer.ComposerError(None, None, problem, mark)


for _name, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"[-+]?[0-9]{1,18}", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"^(?:{_pattern})$"), _first)


@dataclass(slots=True)
class YamlSource:
    """A parsed file: its data, where each value stands, and the problems found in it so far."""

    #: Name of the file as problems show it.
    file: str
    #: SHA-256 of the file's bytes, 64 hexadecimal digits.
    digest: str
    text: str
    #: The document as plain dicts, lists and scalars.
    data: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: Problems that come and go with people and groups, whatever is written here.
    about_people: set[Problem] = field(default_factory=set)
    values: dict[Steps, Node] = field(default_factory=dict)
    keys: dict[Steps, Node] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    nodes: int = 0
    characters: int = 0

    def report(self, steps: Steps, problem: str, *, at_key: bool = False, inside: int | None = None) -> None:
        """Note a problem at the value of `steps`, or at its key, or at character `inside` of a text value.

        Steps that lead nowhere (a missing key) are noted at the key of the nearest value that exists.
        """
        if inside is not None and isinstance(node := self.values.get(steps), ScalarNode):
            self._note(_index_inside(self.text, node, inside), problem)
            return
        at_key = at_key or steps not in self.values
        while steps and steps not in self.values:
            steps = steps[:-1]
        nodes = self.keys if at_key and steps in self.keys else self.values
        self._note(nodes[steps].start_mark.index, problem)

    def report_people(self, steps: Steps, problem: str) -> None:
        """Note a problem that comes and goes with people and groups at the value of `steps`."""
        before = len(self.problems)
        self.report(steps, problem)
        self.about_people.update(self.problems[before:])

    def forgive_people(self) -> None:
        """Count problems that come and go with people and groups no more as problems of this file."""
        self.problems = [problem for problem in self.problems if problem not in self.about_people]

    def report_validation(self, error: ValidationError, base: Steps) -> None:
        """Note each problem pydantic found in the value at `base`, at the place of the wrong part."""
        for steps, text, at_key in validation_problems(error, base):
            self.report(steps, text, at_key=at_key)

    def line_of(self, steps: Steps) -> int:
        """Return the line, from 1, where the value of `steps` begins."""
        return self.values[steps].start_mark.line + 1

    def note_at(self, steps: Steps, text: str, *, at_key: bool = True) -> Problem:
        """Return `text` with its place, at the value of `steps` or its key, as no problem of this file."""
        noted = len(self.problems)
        self.report(steps, text, at_key=at_key)
        found = self.problems[noted]
        del self.problems[noted:]
        return found

    def place_of(self, steps: Steps) -> str:
        """Return `FILE:LINE:COLUMN: ` as a problem at the value of `steps` has it."""
        return str(self.note_at(steps, "", at_key=False))

    def check(self) -> None:
        """Raise RulebookInvalid if any problem was noted."""
        if self.problems:
            raise RulebookInvalid(self.problems)

    def _note(self, index: int, problem: str) -> None:
        line = bisect_right(self.lines, index)
        self.problems.append(Problem(self.file, line, index - self.lines[line - 1] + 1, problem))

    def stop(self, index: int, problem: str) -> NoReturn:
        """Raise RulebookInvalid with this problem at character `index` of the text and all noted before."""
        self._note(index, problem)
        raise RulebookInvalid(self.problems)

    def read(self, node: Node, steps: Steps) -> Any:
        """Return the plain value of `node` and remember where it and everything below it stands."""
        self.nodes += 1
        self._count(node)
        if len(steps) > DEPTH_MAX:
            self.stop(node.start_mark.index, "aliases make the document too large")
        self.values[steps] = node
        if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
            return self._read_mapping(node, steps)
        if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.read(child, (*steps, index)) for index, child in enumerate(node.value)]
        return self._read_scalar(node)

    def _count(self, node: Node) -> None:
        """Count what a value or a key writes; stop where aliases make it too much."""
        self.characters += len(node.value) if isinstance(node, ScalarNode) else 0
        if self.nodes > NODES_MAX or self.characters > CHARACTERS_MAX:
            self.stop(node.start_mark.index, "aliases make the document too large")

    def _read_mapping(self, node: MappingNode, steps: Steps) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in node.value:
            self._count(key)
            if not isinstance(key, ScalarNode) or key.tag != f"{_TAG}str":
                self._note(key.start_mark.index, "a key must be text: put it in quotes")
            elif key.value in result:
                self._note(key.start_mark.index, f"duplicate key {key.value!r}")
            else:
                self.keys[*steps, key.value] = key
                result[key.value] = self.read(value, (*steps, key.value))
        return result

    def _read_scalar(self, node: Node) -> Any:
        convert = _SCALARS.get(node.tag) if isinstance(node, ScalarNode) else None
        if convert is None:
            self.stop(node.start_mark.index, f"tag {node.tag.removeprefix(_TAG)!r} is not supported")
        try:
            return convert(node.value)
        except (ValueError, KeyError):
            self.stop(node.start_mark.index, f"not a value of tag {node.tag.removeprefix(_TAG)!r}")


def read_yaml(path: Path | str) -> YamlSource:
    """Return the parsed file at `path`; raise RulebookInvalid where it cannot be read or is no YAML."""
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(SOURCE_BYTES_MAX + 1)
    except OSError as error:
        raise RulebookInvalid([Problem(str(path), 1, 1, f"cannot be read: {error.strerror}")]) from error
    return parse_yaml(str(path), content)


def parse_yaml(file: str, content: bytes) -> YamlSource:
    """Return the document `content`, called `file` in problems; raise RulebookInvalid where it is no YAML.

    Duplicate keys are noted in `problems` and do not stop the reading.
    """
    text = content.decode("utf-8-sig", "replace")
    source = YamlSource(file, hashlib.sha256(content).hexdigest(), text)
    source.lines = [0, *(match.end() for match in _LINE_END.finditer(text))]
    if len(content) > SOURCE_BYTES_MAX:
        source.stop(0, f"larger than {SOURCE_BYTES_MAX} bytes")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        source.stop(len(before), "not UTF-8 text")
    node = _compose(source)
    data = source.read(node, ())
    if not isinstance(data, dict):
        source.stop(0, "the top of the file must be a mapping")
    source.data = data
    return source


def validation_problems(error: ValidationError, base: Steps = ()) -> Iterator[tuple[Steps, str, bool]]:
    """Yield each problem pydantic found in the value at `base`: the steps, its text, and whether it is about a key."""
    for item in error.errors(include_url=False):
        steps = (*base, *(step for step in item["loc"] if step != "[key]"))
        match item["type"]:
            case "extra_forbidden":
                yield steps, f"unknown key {steps[-1]!r}", True
            case "missing":
                yield steps, f"key {steps[-1]!r} is missing", False
            case "placed":
                for below, text in item["ctx"]["problems"]:
                    yield (*steps, *below), text, False
            case _:
                yield steps, _plain(item["msg"], steps), "[key]" in item["loc"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'X'?` with the known name that is most like `name`; empty where none is."""
    close = get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def _compose(source: YamlSource) -> Node:
    try:
        node = _Loader(source.text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        text = ": ".join(part for part in (error.context, error.problem) if part)
        source.stop(mark.index if mark else 0, text)
    except yaml.reader.ReaderError as error:
        source.stop(error.position, f"character U+{error.character:04X} is not allowed")
    return node if node is not None else source.stop(0, "the file is empty")


def _index_inside(text: str, node: ScalarNode, inside: int) -> int:
    """Return where character `inside` of a scalar's value stands in `text`.

    The visible characters of a value stand in the file in the same order in every style (plain, quoted,
    block, folded), so walking both side by side finds the place without knowing the style's folding rules.
    """
    end = node.end_mark.index
    at = node.start_mark.index + (1 if node.style in {"'", '"'} else 0)
    if node.style in {"|", ">"}:
        at = text.find("\n", at, end) + 1
    for char in node.value[:inside]:
        found = -1 if char.isspace() else text.find(char, at, end)
        at = at if found < 0 else found + 1
    target = node.value[inside : inside + 1].strip()
    return max(at, text.find(target, at, end)) if target else at


def _plain(message: str, steps: Steps) -> str:
    """Return pydantic's message in the words of the file: the key's name, and mapping for dictionary."""
    *_, before, last = ("", "", *steps)
    name = f"item {last + 1} of {before!r}" if isinstance(last, int) else repr(last)
    return _PYDANTIC_MAPPING.sub("mapping", _PYDANTIC_SUBJECT.sub(f"{name} should", message))
