"""Checking a condition before it counts: what CEL says about it, with the types that the tools' schemas give arguments.

Arguments are dynamic where a condition is evaluated, because a rule may serve several tools. So types are checked in
another environment, in which each argument is a dotted variable of its schema's type.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placet.domain.catalog import ToolSpec
from placet.domain.cel import BOOL, DOUBLE, DYN, INT, STRING, VALUES, ConditionInvalid, Environment, Kind, list_of
from placet.domain.tool_schema import argument_names, closed
from placet.policy.rules.asking_origins import NAME, origin_of

#: JSON Schema types that CEL can check.
_CEL_TYPES = {
    "string": STRING,
    "boolean": BOOL,
    "integer": INT,
    "number": DOUBLE,
    "array": list_of(DYN),
    "object": VALUES,
}
_ARRAY_OF = "array of "
_NUMERIC = re.compile(r"\b(?:integer|number)\b")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OVERLOAD = re.compile(r"found no matching overload for '(?P<name>[^']+)' applied to '\((?P<types>.*)\)'")
#: CEL compares numbers of different types with each other, although its checker does not say so.
_COMPARING = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_?_:_"})
_ANY_NUMBER = re.compile(r"\b(?:double|uint|int)\b")


def checked_type(
    text: str,
    variables: Mapping[str, Kind],
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


def _type_name(text: str, variables: Mapping[str, Kind], kinds: Mapping[str, str]) -> str:
    typed = {name: _cel_type(kind) for name, kind in kinds.items()}
    return Environment({**variables, **typed}, {NAME: origin_of}).compile(text).type_name


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


def _cel_type(kind: str) -> Kind:
    if kind.startswith(_ARRAY_OF):
        return list_of(_cel_type(kind.removeprefix(_ARRAY_OF)))
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


def _without_has(text: str, under: str) -> str:
    """Replace `has(arguments.x)` by a bool of the same length: dotted variables are no fields to ask for."""
    asked = rf"\bhas\s*\(\s*{re.escape(under)}(?:\s*\.\s*\w+)+\s*\)"
    return re.sub(asked, lambda match: "true".ljust(len(match[0])), text)
