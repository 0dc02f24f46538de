"""Checks by JSON Schema draft 2020-12 that end in time, whatever the schema and whatever is checked.

Others write both: requesters send schemas, and models what they check. The draft's own checks may take for ever with
a few hundred characters of either. So each keyword first looks how much CPU the check has taken, and no single one of
them may take long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter, thread_time
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend

from placet.domain.patterns import cost, matches, pattern_problem

#: What one check may take, in seconds of CPU: a hundred times of what large arguments need.
CPU_SECONDS_MAX = 1.0
#: Largest `cost` of one text matched by one pattern: half a second where RE2 follows all ways at once.
_COST_MAX = 40_000_000
#: Bytes that RE2 may take for a regular expression among arguments.
_REGEX_MEMORY = 2**20
#: Values of an `enum` that a fault lists.
_FEW = 32

#: Formats that are checked.
FORMATS = FormatChecker(["date", "ipv4", "ipv6", "uuid"])
_EMAIL = re.compile(r"[^@\s<>\",;]{1,64}@[^@\s<>\",;.]+(\.[^@\s<>\",;.]+)+")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


class TooCostlyError(Exception):
    """A check takes too long."""


@dataclass(frozen=True, slots=True)
class _Check:
    """What the check that runs here knows."""

    #: When it must have ended, by the CPU of its thread; and before when it cannot have taken that much.
    ends: float
    surely_until: float
    #: Forms of lists of values, by identity: schemas outlive the check.
    forms: dict[int, frozenset[Any]] = field(default_factory=dict)


_check: ContextVar[_Check] = ContextVar("check")


@contextmanager
def bounded(seconds: float = CPU_SECONDS_MAX) -> Iterator[None]:
    """Let the checks that are made within take so long; raise TooCostlyError where they need more."""
    began = _check.set(_Check(thread_time() + seconds, perf_counter() + seconds))
    try:
        yield
    finally:
        _check.reset(began)


def _look() -> None:
    # The second clock is a system call, at which the kernel likes to let others go first.
    if perf_counter() > (check := _check.get()).surely_until and thread_time() > check.ends:
        raise TooCostlyError


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del validator, schema
    if not _found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _found(pattern: str, text: str) -> bool:
    _look()
    if cost(pattern, text) > _COST_MAX:
        raise TooCostlyError
    return matches(pattern, text)


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    for pattern, subschema in patterns.items():
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
        if name in named or any(_found(pattern, name) for pattern in patterns):
            continue
        if wanted is False:
            yield ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")
        else:
            yield from validator.descend(value, wanted, path=name)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del validator, schema
    if wanted and len(set(map(_form, instance))) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _enum(validator: Any, listed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del validator, schema
    forms = _check.get().forms
    if id(listed) not in forms:
        forms[id(listed)] = frozenset(map(_form, listed))
    if _form(instance) not in forms[id(listed)]:
        told = repr(listed) if len(listed) <= _FEW else f"{len(listed)} values"
        yield ValidationError(f"{instance!r} is not one of {told}")


def _form(value: Any) -> Any:
    """Return what equal values of JSON share, and no others: 1 is 1.0, and not true."""
    _look()
    match value:
        case dict():
            return frozenset((name, _form(each)) for name, each in value.items())
        case list():
            return tuple(map(_form, value))
        case bool():
            return str(value), bool
        case _:
            return value


def _any_of(validator: Any, parts: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    # The draft's own keeps each part's fault, with the value written out in it.
    if not any(_is_valid(validator, instance, each) for each in parts):
        yield ValidationError(f"{instance!r} is not valid under any of the given schemas")


def _one_of(validator: Any, parts: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    number = sum(_is_valid(validator, instance, each) for each in parts)
    if number != 1:
        under = f"{number} of the given schemas, and not one" if number else "any of the given schemas"
        yield ValidationError(f"{instance!r} is {'' if number else 'not '}valid under {under}")


def _unevaluated(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    evaluated: set[Any] = set()
    _add_evaluated(evaluated, validator, instance, schema)
    left = [place for place in _places(instance) if place not in evaluated]
    left = [place for place in left if not _is_valid(validator, instance[place], wanted)]
    if left:
        what, said = (
            ("items", [instance[place] for place in left]) if isinstance(instance, list) else ("properties", left)
        )
        were = f"{', '.join(map(repr, said))} {'was' if len(said) == 1 else 'were'} unexpected"
        yield ValidationError(f"Unevaluated {what} are not allowed ({were})")


def _add_evaluated(found: set[Any], validator: Any, instance: Any, schema: Any) -> None:
    """Add the places in a list, or the names in an object, that a schema looks at, with what stands in it."""
    _look()
    if len(found) == len(instance) or not isinstance(schema, dict):
        return
    if isinstance(instance, list):
        looked = ("contains", "unevaluatedItems")
        found.update(
            range(len(instance) if "items" in schema else min(len(schema.get("prefixItems", ())), len(instance)))
        )
    else:
        looked = ("additionalProperties", "unevaluatedProperties")
        found |= schema.get("properties", {}).keys() & instance.keys()
    for keyword in looked:
        if keyword in schema:
            left = [each for each in _places(instance) if each not in found]
            found.update(each for each in left if _is_valid(validator, instance[each], schema[keyword]))
    for other, each in _applied(validator, instance, schema):
        _add_evaluated(found, other, instance, each)


def _applied(validator: Any, instance: Any, schema: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what of a schema holds for the same value, each with the validator of its place."""
    if "$ref" in schema:
        led = validator._resolver.lookup(schema["$ref"])  # noqa: SLF001 - as the draft's own checks do
        yield validator.evolve(schema=led.contents, _resolver=led.resolver), led.contents
    parts = (each for keyword in ("allOf", "anyOf", "oneOf") for each in schema.get(keyword, ()))
    yield from ((validator, each) for each in parts if _is_valid(validator, instance, each))
    if "if" in schema:
        fits = _is_valid(validator, instance, schema["if"])
        yield from (
            (validator, each) for each in ((schema["if"], schema.get("then")) if fits else (schema.get("else"),))
        )
    dependent = schema.get("dependentSchemas", {}) if isinstance(instance, dict) else {}
    yield from ((validator, each) for name, each in dependent.items() if name in instance)


def _places(instance: Any) -> Iterable[Any]:
    return range(len(instance)) if isinstance(instance, list) else instance


def _is_valid(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _of(kind: str, check: Any) -> Any:
    """Return the check of a keyword that says nothing of values of another kind."""

    def checking(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, kind):
            yield from check(validator, value, instance, schema)

    return checking


def _within(check: Any) -> Any:
    """Return a keyword's check that looks at the clock first, and at each fault: it writes out what is wrong."""

    def looking(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _look()
        for error in check(validator, value, instance, schema) or ():
            _look()
            yield error

    return looking


def _entering(validator: Any, **changes: Any) -> Any:
    """Return a validator for a subschema: always ours, also where it names a dialect, whose own has other patterns."""
    _look()
    kept = {"schema": validator.schema, "format_checker": validator.format_checker, "_resolver": validator._resolver}  # noqa: SLF001 - as attrs would
    return BoundedValidator(**kept | changes)


_OWN: dict[str, Any] = {
    "pattern": _of("string", _pattern),
    "patternProperties": _of("object", _pattern_properties),
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "uniqueItems": _of("array", _unique_items),
    "unevaluatedItems": _of("array", _unevaluated),
    "unevaluatedProperties": _of("object", _unevaluated),
    "enum": _enum,
}
#: The draft's validator, but for what takes Python's own longer than its input does.
BoundedValidator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {name: _within(check) for name, check in {**Draft202012Validator.VALIDATORS, **_OWN}.items()},
)
BoundedValidator.evolve = _entering
_descend = BoundedValidator.descend


def _descending(self: Any, instance: Any, schema: Any, *more: Any, **named: Any) -> Iterator[ValidationError]:
    if isinstance(schema, bool):
        # No keyword looks here, and the fault of `false` writes out the whole value.
        _look()
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
    # In this order: of other characters the library asks for a normal form, which may take long.
    return re.fullmatch(r"[!-~]+", value) is not None and bool(urlsplit(value).scheme)
