"""Checks by JSON Schema draft 2020-12 that cost no more than a bound, whatever the schema and whatever is checked.

Others write both: requesters send schemas, and models what they check. The draft's own checks may take for ever with a
few hundred characters of either, so each step is counted, and what takes too many ends in TooCostlyError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend

from placet.contracts.canonical import NotStrictJson, canonical_text
from placet.domain.patterns import cost, matches, pattern_problem

#: Subschemas that one check goes through, and names that it matches with patterns, 40 µs each at most. Without a bound,
#: references and parts that stand in one another double it with each level.
STEPS_MAX = 25_000
#: Values of an `enum` beyond which it is looked up, and not gone through for each value.
_FEW = 32
#: Names or values that one step goes through where each costs little, and characters.
_PER_STEP, _CHARACTERS_PER_STEP = 64, 1_000
#: What one step matches of a pattern, by its `cost`; steps of reading one, and bytes that it may take.
_COST_PER_STEP, _REGEX_STEPS, _REGEX_MEMORY = 3_000, 150, 2**20

#: Formats that are checked.
FORMATS = FormatChecker(["date", "ipv4", "ipv6", "uuid"])
_EMAIL = re.compile(r"[^@\s<>\",;]{1,64}@[^@\s<>\",;.]+(\.[^@\s<>\",;.]+)+")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    if validator.is_type(instance, "string") and not _found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _found(pattern: str, text: str) -> bool:
    _spend(1 + cost(pattern, text) // _COST_PER_STEP)
    return matches(pattern, text)


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    for pattern, subschema in patterns.items() if validator.is_type(instance, "object") else ():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties", {})
    if not patterns or not validator.is_type(instance, "object"):
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, wanted, instance, schema)
        return
    named = schema.get("properties", {})
    for name, value in instance.items():
        _spend()
        if name in named or any(_found(pattern, name) for pattern in patterns):
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


def _formatted(format_: Any, instance: Any) -> int:
    if not isinstance(instance, str):
        return 0
    return len(instance) // _CHARACTERS_PER_STEP + (_REGEX_STEPS if format_ == "regex" else 0)


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
    size = len(_form(instance) if isinstance(instance, list | dict) else instance if isinstance(instance, str) else "")
    return 1 + size // _CHARACTERS_PER_STEP


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


class TooCostlyError(Exception):
    """A check has gone through STEPS_MAX subschemas."""


@dataclass(slots=True)
class _Check:
    """What the check that runs here has left, and long lists of values that it has read."""

    steps: int = STEPS_MAX
    #: By identity: schema and arguments outlive the check.
    listed: dict[int, frozenset[str]] = field(default_factory=dict)
    forms: dict[int, str] = field(default_factory=dict)


_check: ContextVar[_Check] = ContextVar("check")


@contextmanager
def bounded(steps: int = STEPS_MAX) -> Iterator[None]:
    """Let the checks that are made within go through so many steps; raise TooCostlyError where they need more."""
    began = _check.set(_Check(steps))
    try:
        yield
    finally:
        _check.reset(began)


def _spend(steps: int = 1) -> None:
    check = _check.get()
    check.steps -= steps
    if check.steps < 0:
        raise TooCostlyError


def _entering(validator: Any, **changes: Any) -> Any:
    """Return a validator for a subschema: always ours, also where it names a dialect, whose own has other patterns."""
    _spend()
    kept = {"schema": validator.schema, "format_checker": validator.format_checker, "_resolver": validator._resolver}  # noqa: SLF001 - as attrs would
    return BoundedValidator(**kept | changes)


_OWN: dict[str, Any] = {
    "enum": _enum,
    "const": _const,
    "required": _spending("required", _names),
    "dependentRequired": _spending("dependentRequired", _names),
    "format": _spending("format", _formatted),
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "unevaluatedItems": _spending("unevaluatedItems", _left_over),
    "unevaluatedProperties": _spending("unevaluatedProperties", _left_over),
}
#: The draft's validator, but for what takes Python's own longer than its input does.
BoundedValidator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {name: _telling(check) for name, check in {**Draft202012Validator.VALIDATORS, **_OWN}.items()},
)
BoundedValidator.evolve = _entering
_descend = BoundedValidator.descend


def _descending(self: Any, instance: Any, schema: Any, *more: Any, **named: Any) -> Iterator[ValidationError]:
    if schema is False:
        # Its fault is no keyword's, and writes out the whole value too.
        _spend(_told(instance))
    yield from _descend(self, instance, schema, *more, **named)


BoundedValidator.descend = _descending


@FORMATS.checks("regex")
def _is_regex(value: object) -> bool:
    return not isinstance(value, str) or pattern_problem(value, _REGEX_MEMORY) is None


@FORMATS.checks("email")
def _is_email(value: object) -> bool:
    return not isinstance(value, str) or _EMAIL.fullmatch(value) is not None


@FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return _DATE_TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value.upper()))


@FORMATS.checks("uri", raises=ValueError)
def _is_uri(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return bool(urlsplit(value).scheme) and re.fullmatch(r"[!-~]+", value) is not None
