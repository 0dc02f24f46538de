"""A tool's parameter schema: is it one we can keep, and do these arguments fit it.

JSON Schema draft 2020-12, checked more strictly than the draft asks: what an author writes down must be
enforced, so a format nobody checks and a reference that leads out of the schema are errors, and arguments the
schema does not name are refused unless it says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from referencing import Registry

from placet.domain.bounded_schema import FORMATS, BoundedValidator, TooCostlyError, bounded
from placet.domain.json_pointer import pointer
from placet.domain.patterns import pattern_problem

#: Most errors reported for one call's arguments.
ERRORS_MAX = 20
#: Longest text of one error, in characters.
DETAIL_MAX = 300
#: What checking a schema itself may take, in seconds of CPU; those of administrators are large.
_SCHEMA_SECONDS_MAX = 20.0
#: Of schemas themselves; without `regex`, for RE2 reads patterns, and Python takes seconds for some of few characters.
_SCHEMA_FORMATS = FormatChecker(set(Draft202012Validator.FORMAT_CHECKER.checkers) - {"regex"})
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Keywords that have a schema, a list of them, and one for each name.
_SCHEMA_KEYWORDS = {
    *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
}
_LISTING_KEYWORDS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_NAMED_KEYWORDS = {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
_COMBINING_KEYWORDS = {"$ref", "$dynamicRef", "allOf", "anyOf", "dependentSchemas", "if", "oneOf"}
_OPENING_KEYWORDS = {"additionalProperties", "patternProperties", "unevaluatedProperties"}
_KINDS = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NAMING_VALIDATORS = {"additionalProperties", "dependentRequired", "required", "unevaluatedProperties"}


@dataclass(frozen=True, slots=True)
class ArgumentError:
    """One way in which arguments do not fit their schema."""

    #: JSON pointer to the wrong value; empty for the arguments as a whole.
    pointer: str
    #: What is wrong, one line for the model; at most DETAIL_MAX characters.
    detail: str


def closed(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that is enforced: it refuses arguments it does not name unless it speaks about them.

    Only the top level is closed; nested objects stay as their author wrote them.
    """
    if _OPENING_KEYWORDS & parameters.keys():
        return parameters
    keyword = "unevaluatedProperties" if _COMBINING_KEYWORDS & parameters.keys() else "additionalProperties"
    return {**parameters, keyword: False}


def argument_names(parameters: dict[str, Any]) -> frozenset[str] | None:
    """Return the names of all arguments the schema admits; None where it admits names it does not list."""
    is_closed = parameters.get("additionalProperties") is False and "patternProperties" not in parameters
    return frozenset(parameters.get("properties", {})) if is_closed else None


def said_at(parameters: dict[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    """Return what a schema says plainly of the argument at a path, or of what it refers to; empty for nothing."""
    places = _by_place(parameters)
    schema = _at(parameters, path, places)
    said = places.get(unquote(schema["$ref"])) if isinstance(schema, dict) and "$ref" in schema else schema
    return said if isinstance(said, dict) else {}


def kinds_at(parameters: dict[str, Any], path: Sequence[str]) -> frozenset[str]:
    """Return the kinds of values that the argument at a path may have: all where nothing is said of it.

    None where the path leads into what is no object: elements of lists have no names.
    """
    places = _by_place(parameters)
    schema = _at(parameters, path, places)
    return frozenset() if schema is None else _kinds(schema, places, {})


def _at(parameters: dict[str, Any], path: Sequence[str], places: Mapping[str, Any]) -> Any:
    """Return the schema of the argument at a path; None where that leads into what is no object."""
    schema: Any = parameters
    for name in path:
        if "object" not in _kinds(schema, places, {}):
            return None
        schema = schema.get("properties", {}).get(name, {}) if isinstance(schema, dict) else {}
    return schema


def schema_problems(parameters: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Return what is wrong with a parameter schema, each with the steps to it; empty if enforceable."""
    checker = BoundedValidator(Draft202012Validator.META_SCHEMA, format_checker=_SCHEMA_FORMATS)
    try:
        with bounded(_SCHEMA_SECONDS_MAX):
            errors = list(islice(checker.iter_errors(parameters), ERRORS_MAX))
    except TooCostlyError:
        return [((), "too costly to check: write a plainer schema")]
    problems = [(tuple(error.absolute_path), _schema_detail(error)) for error in errors]
    if problems:
        return problems
    if parameters.get("type") != "object":
        problems.append((("type",), "the parameters of a tool must be of type 'object'"))
    if _mentions(parameters, "patternProperties") and _mentions(closed(parameters), "unevaluatedProperties"):
        problems.append(((), "patternProperties and unevaluatedProperties cannot be enforced together"))
    return problems + list(_unenforceable(parameters))


def compiled(parameters: dict[str, Any]) -> Draft202012Validator:
    """Return a validator for the schema that checks formats and never fetches anything."""
    made: Draft202012Validator = BoundedValidator(parameters, registry=Registry(), format_checker=FORMATS)
    return made


def argument_errors(
    validator: Draft202012Validator, arguments: dict[str, Any], redact: list[str]
) -> list[ArgumentError]:
    """Return at most ERRORS_MAX errors, sorted by pointer; values below `redact` are never quoted."""
    try:
        with bounded():
            found = list(islice(validator.iter_errors(arguments), ERRORS_MAX))
    except TooCostlyError:
        return [ArgumentError("", "too costly to check: write less, or give the tool a plainer schema")]
    except OverflowError:
        return [ArgumentError("", "a number is too large")]
    except BaseException as fault:
        # The registry of references is written in Rust, which panics where Python's stack ends inside of it.
        if not isinstance(fault, RecursionError) and type(fault).__name__ != "PanicException":
            raise
        return [ArgumentError("", "nested too deeply")]
    errors = []
    for error in found:
        where = pointer(error.absolute_path)
        secret = any(f"{where}/".startswith(f"{prefix}/") for prefix in redact)
        errors.append(ArgumentError(where, _rule_text(error) if secret else _detail(error)))
    return sorted(errors, key=lambda error: (error.pointer, error.detail))


def _unenforceable(parameters: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield what the draft allows and we do not: unchecked formats, other dialects, references to no schema in it."""
    places = _by_place(parameters)
    for steps, schema in _subschemas(parameters, ()):
        for keyword, value in schema.items():
            problem = _keyword_problem(keyword, value, places) if isinstance(value, str) else None
            if problem:
                yield (*steps, keyword), problem
            elif keyword == "patternProperties":
                yield from (((*steps, keyword), problem) for each in value if (problem := pattern_problem(each)))


def _subschemas(schema: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Yield a schema and all that stand in it, each with the steps to it; `true` and `false` as empty ones."""
    yield steps, schema if isinstance(schema, dict) else {}
    for keyword, value in schema.items() if isinstance(schema, dict) else ():
        at = (*steps, keyword)
        if keyword in _SCHEMA_KEYWORDS:
            yield from _subschemas(value, at)
        elif keyword in _LISTING_KEYWORDS:
            for index, each in enumerate(value):
                yield from _subschemas(each, (*at, index))
        elif keyword in _NAMED_KEYWORDS:
            for name, each in value.items():
                yield from _subschemas(each, (*at, name))


def _by_place(schema: Any) -> dict[str, dict[str, Any]]:
    """Return a schema and all that stand in it by what a reference to each is."""
    return {f"#{pointer(steps)}": each for steps, each in _subschemas(schema, ())}


def _kinds(schema: Any, places: Mapping[str, Any], seen: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the kinds of values that a schema lets through; `seen` has what each reference was found to be."""
    if not isinstance(schema, dict):
        return _KINDS
    found = _KINDS
    if named := schema.get("type"):
        kinds = {named} if isinstance(named, str) else set(named)
        found &= kinds | ({"integer"} if "number" in kinds else set())
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        found &= {kind for value in values for kind in _kinds_of_value(value)}
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            found &= frozenset().union(*(_kinds(each, places, seen) for each in schema[keyword]))
    for each in schema.get("allOf", ()):
        found &= _kinds(each, places, seen)
    if "$ref" in schema:
        place = unquote(schema["$ref"])
        if place not in seen:
            # Each is followed once, however many lead there, also in a circle.
            seen[place] = _KINDS
            seen[place] = _kinds(places.get(place), places, seen)
        found &= seen[place]
    return found


def _kinds_of_value(value: Any) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"}
    return {"string"} if isinstance(value, str) else {"object", "array", "null"}


def _mentions(schema: dict[str, Any], keyword: str) -> bool:
    """Tell whether a keyword stands anywhere in a schema."""
    return any(keyword in each for _, each in _subschemas(schema, ()))


def _keyword_problem(keyword: str, value: str, places: Collection[str]) -> str | None:
    match keyword:
        case "format" if value not in FORMATS.checkers:
            return f"format {value!r} is not checked; known formats: {', '.join(sorted(FORMATS.checkers))}"
        case "pattern":
            return pattern_problem(value)
        case "$schema" if value.rstrip("#") != _DIALECT:
            return "only JSON Schema draft 2020-12 is understood"
        case "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor":
            return f"keyword {keyword!r} is not supported"
        case "$ref" if unquote(value) not in places:
            return f"reference {value!r} leads to no schema inside this one"
        case _:
            return None


def _schema_detail(error: ValidationError) -> str:
    if error.validator == "anyOf" and error.path and error.path[-1] == "type":
        return f"{error.instance!r} is not a type of JSON Schema"[:DETAIL_MAX]
    return _detail(error)


def _detail(error: ValidationError) -> str:
    """Say what is wrong. Messages that would quote a whole object or list name the broken rule instead."""
    whole = isinstance(error.instance, dict | list) and error.validator not in _NAMING_VALIDATORS
    return (_rule_text(error) if whole else error.message)[:DETAIL_MAX]


def _rule_text(error: ValidationError) -> str:
    limit = json.dumps(error.validator_value, ensure_ascii=False, default=str)
    return f"does not satisfy {error.validator}: {limit}"[:DETAIL_MAX]
