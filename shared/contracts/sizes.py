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
from itertools import chain
from pathlib import PurePath
from typing import Any

from pydantic import PlainSerializer, ValidationError, WrapSerializer

_SERIALIZERS = (PlainSerializer, WrapSerializer)


def is_longer(value: Any, limit: int) -> bool:
    """Tell whether a value has certainly more than `limit` bytes as JSON; takes no more steps than that.

    What the own code of a model makes of its fields is not counted, nor what cannot be JSON.
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


def _characters(part: Any) -> int:
    """Return how many characters more than one a value writes itself, at least."""
    match part:
        case str() | bytes() | bytearray():
            return len(part) + 1
        case int():
            return part.bit_length() // 4
        case Decimal() | PurePath():
            return len(str(part))
        case Enum():
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
            found = chain.from_iterable(part.items())
        case list() | tuple() | set() | frozenset() | deque():
            found = part
        case Enum():
            found = (part.value,)
        case ValidationError():
            found = (*part.errors(include_url=False), part.__cause__, part.__context__)
        case BaseException():
            found = (*part.args, *vars(part).values(), part.__cause__, part.__context__)
        case _ if hasattr(type(part), "__pydantic_fields__"):
            found = _fields(part)
        case _ if is_dataclass(type(part)):
            found = (getattr(part, each.name, None) for each in fields(part))
    return found


def _fields(model: Any) -> Iterator[Any]:
    """Yield what a model writes of its fields, but for those that its own code writes."""
    kind = type(model)
    own = kind.__pydantic_decorators__
    if own.model_serializers:
        return
    written = {name for each in own.field_serializers.values() for name in each.info.fields}
    for name, field in kind.__pydantic_fields__.items():
        if not (
            field.exclude or written & {name, "*"} or any(isinstance(each, _SERIALIZERS) for each in field.metadata)
        ):
            yield getattr(model, name, None)
    yield from chain.from_iterable((getattr(model, "__pydantic_extra__", None) or {}).items())
