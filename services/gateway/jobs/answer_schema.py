"""What a schema of answers may be: one of a tool's parameters that costs little to check. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from placet.contracts.canonical import NotStrictJson, canonical_text
from placet.contracts.errors import Refused
from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import ToolSpec
from placet.domain.patterns import NoPattern, read

#: Bytes of its canonical form. The catalogue of a rulebook has no such bound: administrators write it.
SCHEMA_BYTES_MAX = 20_000
#: References: for each of them the whole schema may be gone through.
REFERENCES_MAX = 50
#: Objects and booleans in it, wherever they stand: any may be a schema, and to check one takes 0.2 ms or so.
SUBSCHEMAS_MAX = 500
#: Characters of all its patterns together: reading them may take a third of a second.
PATTERNS_MAX = 5_000
#: Steps of all its patterns together, a microsecond or so each; a repetition has those of what it repeats, each time.
STEPS_MAX = 65_536
#: What compiling one pattern may take, in bytes: room for as many steps.
_PATTERN_MEMORY = 2**20


def check_answer_schema(schema: dict[str, Any]) -> None:
    """Raise Refused (422) where a schema cannot be that of an answer, or costs too much to check."""
    if problem := _cost_problem(schema):
        raise _not_valid(problem)
    try:
        ToolSpec(name="final_answer", description="-", parameters=schema, category=Category.SAFE_COMPUTE)
    except ValidationError as error:
        raise _not_valid(error.errors()[0]["msg"]) from error


def _cost_problem(schema: dict[str, Any]) -> str | None:
    try:
        size = len(canonical_text(schema).encode())
    except NotStrictJson as error:
        return f"the schema has no canonical JSON form: {error}"
    if size > SCHEMA_BYTES_MAX:
        return f"larger than {SCHEMA_BYTES_MAX} bytes"
    if sum(_subschemas(schema)) > SUBSCHEMAS_MAX:
        return f"more than {SUBSCHEMAS_MAX} subschemas"
    references, patterns = 0, list[str]()
    for keyword, value in _entries(schema):
        references += keyword == "$ref"
        if keyword == "pattern" and isinstance(value, str):
            patterns.append(value)
        elif keyword == "patternProperties" and isinstance(value, dict):
            patterns += value
    if references > REFERENCES_MAX:
        return f"more than {REFERENCES_MAX} references"
    return _pattern_problem(patterns)


def _subschemas(value: Any) -> Iterator[int]:
    """Yield a 1 for whatever may be a schema."""
    if isinstance(value, dict | bool):
        yield 1
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _subschemas(each)


def _entries(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield every name with its value, wherever it stands: which are keywords does not matter for a bound."""
    if isinstance(schema, dict):
        yield from schema.items()
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _entries(each)


def _pattern_problem(patterns: list[str]) -> str | None:
    steps = 0
    if sum(map(len, patterns)) > PATTERNS_MAX:
        return f"patterns of more than {PATTERNS_MAX} characters in all"
    for pattern in patterns:
        try:
            steps += read(pattern, _PATTERN_MEMORY).programsize
        except NoPattern as error:
            return f"pattern {pattern!r:.200} cannot be matched in linear time: {error}"
        if steps > STEPS_MAX:
            return "the patterns are too large together: repeat fewer things, or less often"
    return None


def _not_valid(detail: str) -> Refused:
    fault = {"detail": detail, "pointer": "#/answer_schema"}
    return Refused("The schema of answers is not valid.", status=422, kind="invalid-schema", errors=[fault])
