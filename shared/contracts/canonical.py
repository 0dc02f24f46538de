"""One byte string per call: parsed strictly once at the door, then stored, hashed, shown and executed as it is.

RFC 8785 makes the order of keys irrelevant, and the strict parser refuses what two JSON readers could read
differently (duplicate keys, NaN, integers beyond 2^53, lone surrogates), so equal digests mean equal executed values.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NoReturn

import rfc8785
from pydantic_core import to_json

from placet.contracts.errors import PlacetError

#: Deepest nesting of arrays and objects that arguments may have.
DEPTH_MAX = 32
#: Largest argument text accepted, in bytes of UTF-8.
ARGUMENTS_BYTES_MAX = 64 * 1024
#: What is said of a number that not every reader holds exactly.
_INTEGER_TOO_LARGE = "an integer is beyond 2^53"
#: Largest integer that every reader holds exactly, and what has as many digits.
INTEGER_MAX = 2**53 - 1
_MANY_DIGITS = re.compile("[0-9]{16}")
_DIGEST_PREFIX = b"placet.call.v1\n"


class NotStrictJson(PlacetError):
    """The text is not JSON that every reader reads the same way."""


def parse_strictly(text: str | bytes) -> Any:
    """Return the JSON value of `text`; raise NotStrictJson with one line saying what is wrong."""
    try:
        # Bytes are UTF-8; the library would guess UTF-16 and UTF-32 too.
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise NotStrictJson(f"nested deeper than {DEPTH_MAX} levels") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise NotStrictJson(str(error)) from error
    except ValueError as error:
        # Python's own text is advice to programmers about numbers of thousands of digits.
        raise NotStrictJson(_INTEGER_TOO_LARGE) from error
    check_depth(value, DEPTH_MAX)
    return value


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the JSON object that a model wrote as a call's arguments; raise NotStrictJson for anything else.

    An empty text is refused too: a call that was cut off before its first argument must never become `{}`.
    """
    if len(text.encode("utf-8", "surrogatepass")) > ARGUMENTS_BYTES_MAX:
        raise NotStrictJson(f"larger than {ARGUMENTS_BYTES_MAX} bytes")
    value = parse_strictly(text)
    if not isinstance(value, dict):
        raise NotStrictJson("arguments must be a JSON object")
    return value


def canonical_text(value: Any) -> str:
    """Return the RFC 8785 form of a JSON value; raise NotStrictJson where it has none."""
    try:
        text = rfc8785.dumps(value).decode()
        if _MANY_DIGITS.search(text):
            # 1e20 is written as an integer, which nobody who reads it back could make canonical again.
            json.loads(text, parse_int=_exact)
    except rfc8785.IntegerDomainError as error:
        # The library's own text quotes the number, which may be one that nobody must see.
        raise NotStrictJson(_INTEGER_TOO_LARGE) from error
    except (ValueError, UnicodeEncodeError) as error:
        raise NotStrictJson(str(error)) from error
    return text


def readable_text(value: Any) -> str:
    """Return a JSON value as a text for people: the RFC 8785 form, and plain JSON where it has none.

    What a model proposed in vain and what a tool answered may have none, nor has 1e22 as `jsonb` gives it back.
    """
    try:
        return canonical_text(value)
    except NotStrictJson:
        return json.dumps(value, separators=(",", ":"), sort_keys=True)


def sha256_hex(value: Any) -> str:
    """Return the SHA-256 of the canonical form of a JSON value, 64 hexadecimal digits."""
    return hashlib.sha256(canonical_text(value).encode()).hexdigest()


def data_digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value as a database gives it back, 64 hexadecimal digits.

    Written fast and with all integers, where RFC 8785 has none beyond 2^53: sorted keys, no spaces, whole floats as
    integers, because `jsonb` keeps no exponents.
    """
    text = json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        # By its text, which `jsonb` writes out, and not by its bits: 1e23 is 10^23 there.
        return int(Decimal(repr(value)))
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    return [_whole(each) for each in value] if isinstance(value, list) else value


def shown_digest(shown: str, arguments: str | None) -> str:
    """Return the digest of what people see of arguments; empty where that is all of them, and these have a digest."""
    return "" if shown == arguments else hashlib.sha256(shown.encode()).hexdigest()


def call_digest(*, tenant: str, conversation_id: str, tool: str, schema_digest: str, arguments: str) -> str:
    """Return the digest that approvals and permits bind: exactly the executable fields, 64 hexadecimal digits.

    `arguments` is the canonical text itself, hashed as a string: what is stored is what is hashed. Of an object of
    texts in the order of their names any writer of JSON without spaces makes the RFC 8785 form, so the fastest does.
    Raises ValueError for text that is no UTF-8.
    """
    fields = {
        "arguments": arguments,
        "conversation_id": conversation_id,
        "schema_digest": schema_digest,
        "tenant": tenant,
        "tool": tool,
    }
    return hashlib.sha256(_DIGEST_PREFIX + to_json(fields)).hexdigest()


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        last = {name: place for place, (name, _) in enumerate(pairs)}
        twice = next(name for place, (name, _) in enumerate(pairs) if last[name] != place)
        raise NotStrictJson(f"duplicate key {twice!r}")
    return result


def _exact(digits: str) -> int:
    if abs(number := int(digits)) > INTEGER_MAX:
        raise NotStrictJson(_INTEGER_TOO_LARGE)
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise NotStrictJson(f"{name} is not JSON")


def check_depth(value: Any, levels: int) -> None:
    """Raise NotStrictJson where arrays and objects stand more than so many levels deep in one another."""
    inside = [value]
    for _ in range(levels):
        inside = [child for each in inside for child in _children(each)]
        if not inside:
            return
    raise NotStrictJson(f"nested deeper than {levels} levels")


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def entry_digest(call_digest: str, changes: list[dict[str, object]]) -> str:
    """Return the digest of an entry: of its call, and of what it changes, in order.

    A change is `{"pack", "key", "base", "after", "mode"}`: SHA-256 of the content before and after, null where there is
    none; `mode` is null where the pack has none.
    """
    return sha256_hex({"call": call_digest, "changes": changes})


def tree_digest(entries: list[tuple[str, str]]) -> str:
    """Return the digest of a workspace, or of a part of it: of (call id, entry digest) in order."""
    return sha256_hex([{"id": call_id, "digest": digest} for call_id, digest in entries])
