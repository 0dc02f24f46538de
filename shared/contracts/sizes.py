"""How long a value would be as JSON or as text, found out before any of it is copied or written.

A value may hold one part many times over, as the aliases of a YAML file make it: a few hundred bytes then stand for
gigabytes. So a part counts as often as it would be written, and counting ends at the limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel, RootModel, ValidationError

#: Kinds of pydantic's schemas whose values are written as they are, if what stands in them is.
_PLAIN = frozenset({"any", "none", "bool", "int", "float", "str", "bytes"})
_HOLDING = frozenset({"list", "set", "frozenset", "dict", "nullable", "default"})
#: What one fault of a validation takes at least: where it is, what it is called, and what should be there.
_FAULT_CHARACTERS = 50


def is_longer(value: Any, limit: int) -> bool:
    """Tell whether a value has certainly more than `limit` bytes as JSON; takes no more steps than that.

    Of a model only what is written as it is counts, and nothing that cannot be JSON.
    """
    left = limit + 1
    ahead: list[Iterator[Any]] = [iter((value,))]
    while ahead:
        for part in ahead[-1]:
            # A character and what parts it from the next one, at least.
            left -= 2 + _characters(part)
            if left < 0:
                return True
            if (parts := _parts(part)) is not None:
                ahead.append(iter(parts))
                break
        else:
            ahead.pop()
    return False


def text_of(value: Any, longest: int) -> str:
    """Return the beginning of what was given for a text; what would take long to write is told by its kind."""
    if isinstance(value, str):
        return value[:longest]
    return (type(value).__name__ if is_longer(value, 4 * longest) else str(value))[:longest]


class _Length(int):
    """How long something is that is written."""


def _characters(part: Any) -> int:
    """Return how many characters more than one a value writes itself, at least."""
    match part:
        case str() | bytes() | bytearray():
            return len(part) + 1
        case int():
            return part if isinstance(part, _Length) else max(part.bit_length() - 1, 0) * 3 // 10
        case Decimal() | PurePath():
            return len(str(part))
        case ValidationError():
            # Before all of them are made: there may be millions.
            return part.error_count() * _FAULT_CHARACTERS
        case Enum() | RootModel():
            return -2
        case _:
            return 0


def _parts(part: Any) -> Iterable[Any] | None:
    """Return what is written of a value one by one; None where it is written itself."""
    found: Iterable[Any] | None = None
    match part:
        case str() | int() | float() | None:
            pass
        case dict():
            found = _pairs(part)
        case list() | tuple() | set() | frozenset() | deque():
            found = part
        case Enum():
            found = (part.value,)
        case ValidationError():
            found = (*part.errors(include_url=False), _origin(part))
        case BaseException():
            found = (*part.args, *vars(part).values(), _origin(part))
        case RootModel():
            found = (part.root if "root" in _written(type(part)) else None,)
        case BaseModel():
            found = _fields(part)
        case _ if is_dataclass(type(part)) and not hasattr(type(part), "__pydantic_serializer__"):
            found = (getattr(part, each.name, None) for each in fields(part))
    return found


def _origin(error: BaseException) -> BaseException | None:
    """Return the error that is told before this one, as tracebacks choose it."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _pairs(part: dict[Any, Any]) -> Iterator[Any]:
    """Yield the values, and keys that are as long as they are written.

    Also values of keys that are the same once they are written, of which one is left: all of them are made.
    """
    for key, value in part.items():
        match key:
            case Enum():
                yield key.value
            case tuple():
                yield _Length(_joined(key))
            case str() | bytes() | int():
                yield key
        yield value


def _joined(key: tuple[Any, ...]) -> int:
    """Return how many characters a key has at least that is written with commas between its parts."""
    size, ahead = 0, [*key]
    while ahead:
        match part := ahead.pop():
            case tuple():
                ahead += part
            case str():
                size += len(part)
    return size + max(len(key) - 1, 0)


def _fields(model: BaseModel) -> Iterator[Any]:
    """Yield what is written as it is of what a model holds."""
    held, written = vars(model), _written(type(model))
    yield from (held[name] for name in written if name in held)
    if "*" in written:
        yield from _pairs(model.__pydantic_extra__ or {})


@lru_cache(maxsize=1024)
def _written(kind: type[BaseModel]) -> frozenset[str]:
    """Return the fields of a model that are written as they are, * for those that it does not name.

    Others may be written as less than they hold: by own code, as the class they are declared to be, or not at all.
    """
    outer: Any = kind.__pydantic_core_schema__
    inner = outer.get("schema", {})
    if outer["type"] != "model" or "serialization" in outer or "serialization" in inner:
        return frozenset()
    if outer.get("root_model"):
        return frozenset({"root"} if _is_plain(inner) else ())
    if inner["type"] != "model-fields":
        return frozenset()
    written = {
        name
        for name, field in inner["fields"].items()
        if _is_plain(field["schema"]) and not (field.keys() & {"serialization_exclude", "serialization_exclude_if"})
    }
    return frozenset(written if "extras_schema" in inner else {*written, "*"})


def _is_plain(schema: Any) -> bool:
    """Tell whether all of a value is written, whatever is given for it."""
    if "serialization" in schema:
        return False
    inner = [schema[each] for each in ("schema", "items_schema", "keys_schema", "values_schema") if each in schema]
    return schema["type"] in _PLAIN or (schema["type"] in _HOLDING and all(_is_plain(each) for each in inner))
