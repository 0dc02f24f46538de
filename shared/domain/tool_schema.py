"""A tool's parameter schema: is it one we can keep, and do these arguments fit it.

JSON Schema draft 2020-12, checked more strictly than the draft asks: what an author writes down must be
enforced, so a format nobody checks and a reference that leads out of the schema are errors, and arguments the
schema does not name are refused unless it says otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import unquote, urlsplit

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from placet.contracts.canonical import NotStrictJson, canonical_text
from placet.domain.patterns import matches, pattern_problem

#: Most errors reported for one call's arguments.
ERRORS_MAX = 20
#: Longest text of one error, in characters.
DETAIL_MAX = 300
#: Subschemas that one check goes through, and names that it matches with patterns, 40 µs each at most. Without a bound,
#: references and parts that stand in one another double it with each level.
STEPS_MAX = 25_000
#: Values of an `enum` beyond which it is looked up, and not gone through for each value.
_FEW = 32
#: Names or values that one step goes through where each costs little, and characters.
_PER_STEP, _CHARACTERS_PER_STEP = 64, 1_000

_FORMATS = FormatChecker(["date", "ipv4", "ipv6", "uuid"])
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
_NAMING_VALIDATORS = {"additionalProperties", "dependentRequired", "required", "unevaluatedProperties"}
_EMAIL = re.compile(r"[^@\s<>\",;]{1,64}@[^@\s<>\",;.]+(\.[^@\s<>\",;.]+)+")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    _spend(_characters(pattern, instance))
    if validator.is_type(instance, "string") and not matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    for pattern, subschema in patterns.items() if validator.is_type(instance, "object") else ():
        for name, value in instance.items():
            _spend()
            if matches(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties", {})
    if not patterns or not validator.is_type(instance, "object"):
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, wanted, instance, schema)
        return
    named = schema.get("properties", {})
    for name, value in instance.items():
        _spend(len(patterns))
        if name in named or any(matches(pattern, name) for pattern in patterns):
            continue
        if wanted is False:
            yield ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")
        else:
            yield from validator.descend(value, wanted, path=name)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    if wanted and validator.is_type(instance, "array"):
        _spend(len(instance) // _PER_STEP)
        if len(set(map(_form, instance))) < len(instance):
            yield ValidationError(f"{instance!r} has non-unique elements")


def _enum(validator: Any, listed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if len(listed) <= _FEW and not isinstance(instance, list | dict):
        yield from Draft202012Validator.VALIDATORS["enum"](validator, listed, instance, schema)
        return
    forms = _check.get().listed
    if id(listed) not in forms:
        forms[id(listed)] = frozenset(map(_form, listed))
    if _form(instance) not in forms[id(listed)]:
        yield ValidationError(f"{instance!r} is not one of {len(listed)} values")


def _const(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del validator, schema
    if _form(wanted) != _form(instance):
        yield ValidationError(f"{wanted!r} was expected")


def _spending(keyword: str, steps: Callable[[Any, Any], int]) -> Any:
    """Return the draft's check of a keyword that costs more than one step, by its value and what is checked."""
    check = Draft202012Validator.VALIDATORS[keyword]

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _spend(steps(value, instance))
        yield from check(validator, value, instance, schema)

    return counted


def _names(names: Any, _instance: Any) -> int:
    return len(names) // _PER_STEP


def _characters(_value: Any, instance: Any) -> int:
    return len(instance) // _CHARACTERS_PER_STEP if isinstance(instance, str) else 0


def _left_over(_wanted: Any, instance: Any) -> int:
    """Return the steps of looking for what no other part has looked at, which goes through these parts again."""
    return len(instance) // 4 if isinstance(instance, list | dict) else 0


def _telling(check: Any) -> Any:
    """Return a keyword's check whose faults are steps: each of them writes out what is wrong, the whole of it."""

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        for error in check(validator, value, instance, schema) or ():
            _spend(_told(instance))
            yield error

    return counted


def _told(instance: Any) -> int:
    """Return the steps of writing out a value in a fault."""
    return 1 + len(_form(instance)) // _CHARACTERS_PER_STEP


def _form(value: Any) -> str:
    """Return what equal values of JSON share, of what has no canonical form its own text; of each list once."""
    if not isinstance(value, list | dict):
        return _form_of(value)
    forms = _check.get().forms
    if id(value) not in forms:
        forms[id(value)] = _form_of(value)
    return forms[id(value)]


def _form_of(value: Any) -> str:
    try:
        return canonical_text(value)
    except NotStrictJson:
        return json.dumps(value, sort_keys=True)


class _TooCostlyError(Exception):
    """A check has gone through STEPS_MAX subschemas."""


@dataclass(slots=True)
class _Check:
    """What the check that runs here has left, and long lists of values that it has read."""

    steps: int = STEPS_MAX
    #: By identity: schema and arguments outlive the check.
    listed: dict[int, frozenset[str]] = field(default_factory=dict)
    forms: dict[int, str] = field(default_factory=dict)


_check: ContextVar[_Check] = ContextVar("check")


def _spend(steps: int = 1) -> None:
    check = _check.get()
    check.steps -= steps
    if check.steps < 0:
        raise _TooCostlyError


def _entering(validator: Any, **changes: Any) -> Any:
    """Return a validator for a subschema: always ours, also where it names a dialect, whose own has other patterns."""
    _spend()
    kept = {"schema": validator.schema, "format_checker": _FORMATS, "_resolver": validator._resolver}  # noqa: SLF001 - as attrs would
    return _Validator(**kept | changes)


_OWN: dict[str, Any] = {
    "enum": _enum,
    "const": _const,
    "required": _spending("required", _names),
    "dependentRequired": _spending("dependentRequired", _names),
    "format": _spending("format", _characters),
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "unevaluatedItems": _spending("unevaluatedItems", _left_over),
    "unevaluatedProperties": _spending("unevaluatedProperties", _left_over),
}
#: The draft's validator, but for what takes Python's own longer than its input does.
_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {name: _telling(check) for name, check in {**Draft202012Validator.VALIDATORS, **_OWN}.items()},
)
_Validator.evolve = _entering
_descend = _Validator.descend


def _descending(self: Any, instance: Any, schema: Any, *more: Any, **named: Any) -> Iterator[ValidationError]:
    if schema is False:
        # Its fault is no keyword's, and writes out the whole value too.
        _spend(_told(instance))
    yield from _descend(self, instance, schema, *more, **named)


_Validator.descend = _descending


@dataclass(frozen=True, slots=True)
class ArgumentError:
    """One way in which arguments do not fit their schema."""

    #: JSON pointer to the wrong value; empty for the arguments as a whole.
    pointer: str
    #: What is wrong, one line for the model; at most DETAIL_MAX characters.
    detail: str


@_FORMATS.checks("regex")
def _is_regex(value: object) -> bool:
    return not isinstance(value, str) or pattern_problem(value) is None


@_FORMATS.checks("email")
def _is_email(value: object) -> bool:
    return not isinstance(value, str) or _EMAIL.fullmatch(value) is not None


@_FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return _DATE_TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value.upper()))


@_FORMATS.checks("uri", raises=ValueError)
def _is_uri(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return bool(urlsplit(value).scheme) and re.fullmatch(r"[!-~]+", value) is not None


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


def schema_problems(parameters: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Return what is wrong with a parameter schema, each with the steps to it; empty if enforceable."""
    checker = Draft202012Validator(Draft202012Validator.META_SCHEMA, format_checker=_SCHEMA_FORMATS)
    problems = [(tuple(error.absolute_path), _schema_detail(error)) for error in checker.iter_errors(parameters)]
    if problems:
        return problems
    if parameters.get("type") != "object":
        problems.append((("type",), "the parameters of a tool must be of type 'object'"))
    if _mentions(parameters, "patternProperties") and _mentions(closed(parameters), "unevaluatedProperties"):
        problems.append(((), "patternProperties and unevaluatedProperties cannot be enforced together"))
    return problems + list(_unenforceable(parameters))


def compiled(parameters: dict[str, Any]) -> Draft202012Validator:
    """Return a validator for the schema that checks formats and never fetches anything."""
    made: Draft202012Validator = _Validator(parameters, registry=Registry(), format_checker=_FORMATS)
    return made


def argument_errors(
    validator: Draft202012Validator, arguments: dict[str, Any], redact: list[str]
) -> list[ArgumentError]:
    """Return at most ERRORS_MAX errors, sorted by pointer; values below `redact` are never quoted."""
    began = _check.set(_Check())
    try:
        found = list(islice(validator.iter_errors(arguments), ERRORS_MAX))
    except _TooCostlyError:
        return [ArgumentError("", "too costly to check: write less, or give the tool a plainer schema")]
    except OverflowError:
        return [ArgumentError("", "a number is too large")]
    except BaseException as fault:
        # The registry of references is written in Rust, which panics where Python's stack ends inside of it.
        if not isinstance(fault, RecursionError) and type(fault).__name__ != "PanicException":
            raise
        return [ArgumentError("", "nested too deeply")]
    finally:
        _check.reset(began)
    errors = []
    for error in found:
        where = pointer(error.absolute_path)
        secret = any(f"{where}/".startswith(f"{prefix}/") for prefix in redact)
        errors.append(ArgumentError(where, _rule_text(error) if secret else _detail(error)))
    return sorted(errors, key=lambda error: (error.pointer, error.detail))


def pointer(steps: Any) -> str:
    """Return the RFC 6901 JSON pointer of a path of keys and indexes."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _unenforceable(parameters: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield what the draft allows and we do not: unchecked formats, other dialects, references to no schema in it."""
    subschemas = dict(_subschemas(parameters, ()))
    places = {f"#{pointer(steps)}" for steps in subschemas}
    for steps, schema in subschemas.items():
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


def _mentions(schema: dict[str, Any], keyword: str) -> bool:
    """Tell whether a keyword stands anywhere in a schema."""
    return any(keyword in each for _, each in _subschemas(schema, ()))


def _keyword_problem(keyword: str, value: str, places: Collection[str]) -> str | None:
    match keyword:
        case "format" if value not in _FORMATS.checkers:
            return f"format {value!r} is not checked; known formats: {', '.join(sorted(_FORMATS.checkers))}"
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
