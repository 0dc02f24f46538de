"""Checking a condition before it counts: what CEL says about it, with the types that the tools' schemas give arguments.

Arguments are dynamic where a condition is evaluated, because a rule may serve several tools. So types are checked in
another environment, in which each argument is a dotted variable of its schema's type.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from shared.catalog import ToolSpec
from shared.errors import PlacetError
from shared.tool_schema import argument_names, closed

_STRING, _DYN = cel.Type.STRING, cel.Type.DYN
#: JSON Schema types that CEL can check.
_CEL_TYPES = {
    "string": _STRING,
    "boolean": cel.Type.BOOL,
    "integer": cel.Type.INT,
    "number": cel.Type.DOUBLE,
    "array": cel.Type.List(_DYN),
    "object": cel.Type.Map(_STRING, _DYN),
}
_ARRAY_OF = "array of "
_NUMERIC = re.compile(r"\b(?:integer|number)\b")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_NOISE = re.compile(r"^[A-Z_]+: | \(in container ''\)| expecting \{.*\}| \[[A-Z_]+\]$")
_OVERLOAD = re.compile(r"found no matching overload for '(?P<name>[^']+)' applied to '\((?P<types>.*)\)'")
#: CEL compares numbers of different types with each other, although its checker does not say so.
_COMPARING = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_?_:_"})
_ANY_NUMBER = re.compile(r"\b(?:double|uint|int)\b")


class ConditionInvalid(PlacetError):
    """A condition does not compile. `problems` pairs a character offset in its text with what is wrong there."""

    def __init__(self, problems: list[tuple[int, str]]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


def compiled(environment: cel.Env, text: str) -> cel.Expression:
    """Return the compiled `text`; raise ConditionInvalid with everything that CEL says against it."""
    try:
        return environment.compile(text)
    except RuntimeError as error:
        found = _ERROR.findall(str(error))
        problems = [(_offset(text, int(line), int(column)), _hinted(plain(said))) for line, column, said in found]
        raise ConditionInvalid(problems or [(0, plain(str(error)))]) from error


def plain(said: str) -> str:
    """Return a message of CEL without what only its makers understand."""
    return _NOISE.sub("", said)


def environment_of(variables: Mapping[str, Any]) -> cel.Env:
    """Return an environment with these variables and the functions that every condition may use."""
    return cel.NewEnv(variables=dict(variables), extensions=[ext_strings.ExtStrings()])


def constant(text: str) -> bool | None:
    """Return the value of a condition that looks at nothing; None for any other, also for one that is wrong."""
    try:
        value = _nothing().compile(text).eval(data={}).value()
    except RuntimeError:
        return None
    return value if isinstance(value, bool) else None


@cache
def _nothing() -> cel.Env:
    return environment_of({})


def checked_type(
    text: str,
    variables: Mapping[str, Any],
    specs: Sequence[ToolSpec],
    *,
    under: str = "arguments",
    only_doubles: bool = False,
) -> str:
    """Return the type of a condition, such as `BOOL`; raise ConditionInvalid where types in it do not fit.

    Arguments of `specs` are found `under` that variable. With `only_doubles` integers are evaluated as doubles too.
    """
    kinds = {f"{under}.{path}": kind for path, kind in _agreed_kinds(specs).items()}
    if only_doubles:
        kinds = {name: kind.replace("integer", "number") for name, kind in kinds.items()}
    asked = _without_has(text, under)
    try:
        return _type_name(asked, variables, kinds)
    except ConditionInvalid as error:
        if problems := [(offset, said) for offset, said in error.problems if not _is_harmless(said)]:
            raise ConditionInvalid(problems) from error
    # Its numbers are only compared: the rest of its types says what it is.
    return _type_name(asked, variables, {name: kind for name, kind in kinds.items() if not _NUMERIC.search(kind)})


def _type_name(text: str, variables: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    typed = {name: _cel_type(kind) for name, kind in kinds.items()}
    return str(compiled(environment_of({**variables, **typed}), text).return_type().name())


def _agreed_kinds(specs: Sequence[ToolSpec]) -> dict[str, str]:
    """Return the kind of each argument, by its path, about which all tools agree that have it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    own = [dict(_kinds("", spec.parameters)) for spec in specs]
    for spec, kinds in zip(specs, own, strict=True):
        for path, kind in kinds.items():
            found[path].add(kind)
        if argument_names(closed(spec.parameters)) is None:
            # Such a tool may be given any argument that others have, and of any type.
            for path in {path for others in own for path in others} - kinds.keys():
                found[path].add("")
    return {path: kind for path, (kind, *others) in found.items() if kind and not others}


def _kinds(above: str, schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the path and the kind of each argument that a schema describes; empty where it names no single type."""
    for name, below in schema.get("properties", {}).items():
        if _IDENTIFIER.fullmatch(name):
            yield f"{above}{name}", _kind(below)
            if type_of(below) == "object":
                yield from _kinds(f"{above}{name}.", below)


def _kind(schema: Any) -> str:
    """Return a type of JSON Schema, or `array of` one; empty where there is none that CEL can check."""
    kind = type_of(schema) or ""
    if kind == "array" and (items := _kind(schema.get("items"))):
        return f"{_ARRAY_OF}{items}"
    return kind if kind in _CEL_TYPES else ""


def type_of(schema: Any) -> str | None:
    """Return the one type that a JSON Schema names; None where it names none or several."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else None


def _cel_type(kind: str) -> Any:
    if kind.startswith(_ARRAY_OF):
        return cel.Type.List(_cel_type(kind.removeprefix(_ARRAY_OF)))
    return _CEL_TYPES[kind]


def _is_harmless(said: str) -> bool:
    """Tell whether a problem is only that numbers of different types are compared, which does work."""
    found = _OVERLOAD.match(said)
    if found is None or found["name"] not in _COMPARING:
        return False
    *_, left, right = re.split(r", (?![^(]*\))", _ANY_NUMBER.sub("number", found["types"]))
    if found["name"] == "@in":
        return right == f"list({left})" or right.startswith(f"map({left},")
    return left == right


def _hinted(said: str) -> str:
    found = _OVERLOAD.match(said)
    mixed = found and {"double", "int"} <= set(found["types"].split(", "))
    return f"{said}: beside a number with decimals write 2.0 for 2" if mixed else said


def _without_has(text: str, under: str) -> str:
    """Replace `has(arguments.x)` by a bool of the same length: dotted variables are no fields to ask for."""
    asked = rf"\bhas\s*\(\s*{re.escape(under)}(?:\s*\.\s*\w+)+\s*\)"
    return re.sub(asked, lambda match: "true".ljust(len(match[0])), text)


def _offset(text: str, line: int, column: int) -> int:
    before = text.split("\n")[: line - 1]
    return sum(len(part) + 1 for part in before) + column - 1
