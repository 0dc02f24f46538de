"""What in an expression of CEL can never be evaluated, whatever it looks at: `1/0`, a pattern that is none.

Such an expression has the right types, so the compiler lets it pass, and each call would be held by its error. Found in
what the compiler made of it (`cel.expr.CheckedExpr`, a public form of Protocol Buffers): every part without a variable
in it is evaluated by itself, and so is what a division or a pattern is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from placet.domain.cel import STRING, ConditionFailed, Environment, Expression

#: Numbers of fields: of `Any`, `CheckedExpr`, `SourceInfo` with the entries of its map, and `Expr` with what it holds.
_VALUE, _EXPR, _SOURCE, _POSITIONS, _KEY, _ENTRY = 2, 4, 5, 4, 1, 2
_ID, _CONST, _CALL, _LIST, _STRUCT = 2, 3, 6, 7, 8
_TARGET, _FUNCTION, _ARGUMENTS = 1, 2, 3
#: Fields of `Expr` with other expressions in them; a comprehension has its own under numbers of their own.
_SELECT, _COMPREHENSION = 5, 9
#: Where expressions stand inside those; in a map they stand in its entries.
_BELOW = {_SELECT: (1,), _CALL: (_TARGET, _ARGUMENTS), _LIST: (1,), _COMPREHENSION: (2, 4, 5, 6, 7)}
_STRUCT_ENTRY, _MAP_KEY, _MAP_VALUE = 2, 3, 4
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_DIVIDING = frozenset({"_/_", "_%_"})
_MATCHING = "matches"


@dataclass(frozen=True, slots=True)
class _Node:
    """One expression of the tree."""

    number: int
    wire: bytes
    #: Name of the function where it is a call, else empty.
    function: str
    #: True: there is no variable in it.
    is_constant: bool
    below: list[_Node] = field(default_factory=list)


def failures(expression: Expression) -> list[tuple[int, str]]:
    """Return what always fails in a compiled expression, each with its character offset, in the order of the text."""
    ((_, checked),) = _messages(expression.checked, _VALUE)
    ((_, root),) = _messages(checked, _EXPR)
    rest = b"".join(_as_field(number, value) for number, value in _messages(checked) if number != _EXPR)
    places = dict(_positions(checked))
    found = _failing(_node(root), _Parts(expression, rest))
    return sorted((places.get(number, 0), f"this always fails: {why}") for number, why in found)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Evaluates single nodes of one expression."""

    expression: Expression
    #: Its types and references, which are those of its parts too.
    rest: bytes

    def value(self, node: _Node) -> object:
        """Return the value of a constant node; raise ConditionFailed where it has none."""
        return self.expression.part(_as_any(self.rest + _as_field(_EXPR, node.wire))).value({})


def _failing(node: _Node, parts: _Parts) -> Iterator[tuple[int, str]]:
    """Yield the innermost nodes that always fail, with why."""
    if not node.is_constant:
        for below in node.below:
            yield from _failing(below, parts)
        if why := _refused_argument(node, parts):
            yield node.number, why
        return
    try:
        parts.value(node)
    except ConditionFailed as error:
        deeper = [each for below in node.below for each in _failing(below, parts)]
        yield from deeper or [(node.number, str(error))]


def _refused_argument(node: _Node, parts: _Parts) -> str:
    """Return why a call can do nothing with its last argument, a constant; empty where it can, and for other nodes."""
    last = node.below[-1] if node.below else None
    if last is None or not last.is_constant or node.function not in {*_DIVIDING, _MATCHING}:
        return ""
    try:
        value = parts.value(last)
        if node.function == _MATCHING:
            _pattern().value({"pattern": value})
    except ConditionFailed as error:
        # A constant that fails itself is told where it stands.
        return str(error) if node.function == _MATCHING else ""
    is_zero = isinstance(value, int) and value == 0
    return "divide by zero" if node.function in _DIVIDING and is_zero else ""


@cache
def _pattern() -> Expression:
    return Environment({"pattern": STRING}).compile('"".matches(pattern)')


def _node(wire: bytes) -> _Node:
    function, below, constant = "", list[_Node](), False
    for kind, value in _messages(wire):
        below = [_node(each) for each in _expressions(kind, value)]
        constant = kind == _CONST or (kind in {_CALL, _LIST, _STRUCT} and all(each.is_constant for each in below))
        function = next((name.decode() for _, name in _messages(value, _FUNCTION)), "") if kind == _CALL else ""
    return _Node(_number(wire, _ID), wire, function, constant, below)


def _expressions(kind: int, wire: bytes) -> Iterator[bytes]:
    """Yield the expressions that stand in one of this kind."""
    if kind == _STRUCT:
        for _, entry in _messages(wire, _STRUCT_ENTRY):
            yield from (each for _, each in _messages(entry, _MAP_KEY, _MAP_VALUE))
    elif kind in _BELOW:
        yield from (each for _, each in _messages(wire, *_BELOW[kind]))


def _positions(checked: bytes) -> Iterator[tuple[int, int]]:
    """Yield the number of each node with its character offset."""
    for _, source in _messages(checked, _SOURCE):
        for _, entry in _messages(source, _POSITIONS):
            yield _number(entry, _KEY), _number(entry, _ENTRY)


def _messages(wire: bytes, *numbers: int) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that are texts or messages themselves, all of them or those with these numbers."""
    for number, value in _fields(wire):
        if isinstance(value, bytes) and (not numbers or number in numbers):
            yield number, value


def _number(wire: bytes, wanted: int) -> int:
    """Return a field that is a number; 0, which is not written, where there is none."""
    return next((value for number, value in _fields(wire) if number == wanted and isinstance(value, int)), 0)


def _fields(wire: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: its number, and a number or bytes."""
    at = 0
    while at < len(wire):
        tag, at = _varint(wire, at)
        number, form = tag >> 3, tag & 7
        if form == _VARINT:
            value, at = _varint(wire, at)
            yield number, value
            continue
        if form == _BYTES:
            size, at = _varint(wire, at)
        else:
            size = {_FIXED_64: 8, _FIXED_32: 4}[form]
        yield number, wire[at : at + size]
        at += size


def _varint(wire: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at `at`, and where it ends."""
    value = shift = 0
    while True:
        byte = wire[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follows
            return value, at


def _as_field(number: int, value: bytes) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(value)) + value


def _as_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - what one byte can say
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _as_any(checked: bytes) -> bytes:
    return _as_field(1, b"type.googleapis.com/cel.expr.CheckedExpr") + _as_field(_VALUE, checked)
