"""The tree that the compiler makes of an expression of CEL: `cel.expr.CheckedExpr`, in the form of Protocol Buffers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum

#: Numbers of fields: of `Any`, `CheckedExpr`, `SourceInfo` with the entries of its map, and `Expr`.
_VALUE, _EXPR, _SOURCE, _POSITIONS, _KEY, _ENTRY = 2, 4, 5, 4, 1, 2
_ID = 2
_TARGET, _FUNCTION, _ARGUMENTS = 1, 2, 3
_OPERAND, _FIELD = 1, 2
_STRUCT_ENTRY, _MAP_KEY, _MAP_VALUE = 2, 3, 4
_ITERATED, _ACCUMULATOR = 1, 3
#: In the order of a comprehension's fields: what is gone through, the first value, condition, step, and result.
_PARTS = (2, 4, 5, 6, 7)
_TEXT, _BINARY = 6, 7
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class Kind(IntEnum):
    """What an expression is: the numbers of the fields of `Expr`."""

    CONSTANT = 3
    NAME = 4
    SELECT = 5
    CALL = 6
    LIST = 7
    STRUCT = 8
    LOOP = 9


_KINDS = frozenset(Kind)
#: The field that names it, of each kind that has a name.
_NAMED = {Kind.CALL: _FUNCTION, Kind.NAME: 1, Kind.SELECT: _FIELD, Kind.STRUCT: 1, Kind.LOOP: _ITERATED}


@dataclass(frozen=True, slots=True)
class Node:
    """One expression of the tree."""

    number: int
    wire: bytes
    kind: Kind
    #: The function of a call, the variable of a name, the field of a selection, the type of a message that is made (a
    #: map has none), and of a loop the variable that goes through the elements.
    name: str
    #: What a loop gathers its result in; empty elsewhere.
    accumulator: str
    #: The text of a constant; None for constants of other types and for everything else.
    text: str | None
    #: Of a call the target first where it has one; of a loop: range, first value, condition, step, result.
    below: tuple[Node, ...]

    @property
    def is_constant(self) -> bool:
        """True: there is no variable in it."""
        if self.kind in {Kind.CALL, Kind.LIST, Kind.STRUCT}:
            return all(each.is_constant for each in self.below)
        return self.kind is Kind.CONSTANT


@dataclass(frozen=True, slots=True)
class Tree:
    """A checked expression."""

    root: Node
    #: Character offset of each node, by its number.
    places: dict[int, int]
    #: Types and references, in the form of Protocol Buffers; those of the parts too.
    rest: bytes

    @classmethod
    def of(cls, compiled: bytes) -> Tree:
        """Return the tree of what `Expression.checked` returns."""
        ((_, checked),) = _messages(compiled, _VALUE)
        ((_, root),) = _messages(checked, _EXPR)
        rest = b"".join(_as_field(number, value) for number, value in _messages(checked) if number != _EXPR)
        return cls(_node(root), dict(_positions(checked)), rest)

    def part(self, node: Node) -> bytes:
        """Return one node as a checked expression of its own."""
        return _as_any(self.rest + _as_field(_EXPR, node.wire))

    def calls(self, functions: Collection[str]) -> Iterator[Node]:
        """Yield every call of one of these functions."""
        return (node for node in self._nodes() if node.kind is Kind.CALL and node.name in functions)

    def names(self) -> Iterator[str]:
        """Yield the variables that it looks at, dots included, and what its loops call their own."""
        return (node.name for node in self._nodes() if node.kind is Kind.NAME)

    def fields_of(self, variable: str) -> frozenset[str] | None:
        """Return the fields of a variable that it looks at; None where it may look at all of them."""
        uses = sum(node.kind is Kind.NAME and node.name == variable for node in self._nodes())
        found = [field for node in self._nodes() if (field := _field_of(node, variable)) is not None]
        return frozenset(found) if len(found) == uses else None

    def _nodes(self) -> Iterator[Node]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            waiting += node.below
            yield node


def _field_of(node: Node, variable: str) -> str | None:
    """Return the field of a variable that a node is, as in `of.field` and `of["field"]`; None for any other node."""
    if not node.below or (node.below[0].kind, node.below[0].name) != (Kind.NAME, variable):
        return None
    if node.kind is Kind.SELECT:
        return node.name
    return node.below[1].text if node.kind is Kind.CALL and node.name == "_[_]" else None


def _node(wire: bytes) -> Node:
    number, kind, value = _number(wire, _ID), Kind.CONSTANT, b""
    for field, content in _messages(wire):
        if field in _KINDS:
            kind, value = Kind(field), content
    return Node(
        number=number,
        wire=wire,
        kind=kind,
        name=_text(value, _NAMED.get(kind)),
        accumulator=_text(value, _ACCUMULATOR if kind is Kind.LOOP else None),
        text=_constant_text(value) if kind is Kind.CONSTANT else None,
        below=tuple(_node(each) for each in _expressions(kind, value)),
    )


def _expressions(kind: Kind, wire: bytes) -> Iterator[bytes]:
    """Yield the expressions that stand in one of this kind."""
    match kind:
        case Kind.STRUCT:
            for _, entry in _messages(wire, _STRUCT_ENTRY):
                yield from (each for _, each in _messages(entry, _MAP_KEY, _MAP_VALUE))
        case Kind.CALL:
            yield from (each for _, each in _messages(wire, _TARGET, _ARGUMENTS))
        case Kind.LOOP:
            found = dict(_messages(wire, *_PARTS))
            yield from (found[part] for part in _PARTS)
        case Kind.SELECT | Kind.LIST:
            yield from (each for _, each in _messages(wire, _OPERAND))


def _text(wire: bytes, number: int | None) -> str:
    return "" if number is None else next((name.decode() for _, name in _messages(wire, number)), "")


def _constant_text(wire: bytes) -> str | None:
    return next((value.decode(errors="replace") for _, value in _messages(wire, _TEXT, _BINARY)), None)


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
