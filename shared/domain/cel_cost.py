"""What evaluating an expression of CEL may come to at most: an upper bound of its time and of the memory it fills.

The library bounds the rounds of its loops, but not the values that functions make: eight calls of `replace` one inside
the other fill the memory of any machine. So the bound is worked out from the tree, for variables of a given size. An
unknown function has none, and what has no bound is not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isinf
from time import thread_time_ns
from typing import Any

from placet.domain.cel_tree import Kind, Node
from placet.domain.cel_zones import IN_ZONE
from placet.domain.patterns import NoPattern, read

#: Longest time of one evaluation, in nanoseconds, and the most memory that its values may fill, in bytes.
TIME_MAX, MADE_MAX = 500e6, 128 * 2**20
#: Rounds of all loops of one evaluation; the library ends it beyond.
ROUNDS_MAX = 10_000.0
#: How deep loops may stand in the bodies of loops: each body is bounded twice, so every further one doubles that work.
LOOPS_MAX = 4
#: Bytes of a number, of a list's place for an element, and nanoseconds of one step, as measured.
_NUMBER, _PLACE = 16.0, 32.0
_STEP_TIME, _BYTE_TIME, _ELEMENT_TIME, _FIND_TIME, _PATTERN_TIME = 300.0, 5.0, 150.0, 0.1, 15.0
#: Nanoseconds of reading a byte of a text as a number or a time.
_PARSE_TIME = 20.0
#: Bytes of a tool's name, and nanoseconds of calling a function of ours.
_NAME, _CALLED_TIME = 80.0, 5_000.0
#: Most that one clause of `format` makes of a number.
_CLAUSE = 1_100.0
#: Nanoseconds of compiling a pattern that nobody knows before, for each of its bytes; how much longer evaluating takes
#: for it than was measured; and patterns of which that is kept.
_READ_TIME, _COMPILED_AGAIN, _PATTERNS_KEPT = 80e3, 4.0, 256
#: What compiling a pattern may take, in bytes.
_PATTERN_MEMORY = 8 * 2**20


class TooCostly(Exception):
    """An expression may take longer, or fill more memory, than it may; `number` is the node where it begins to."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


@dataclass(frozen=True, slots=True)
class Extent:
    """How large values are: bytes in all, and elements of the longest list or map among them."""

    size: float
    items: float = 0.0

    def beside(self, other: Extent) -> Extent:
        """Return how large both are together."""
        return Extent(self.size + other.size, max(self.items, other.items))


@dataclass(frozen=True, slots=True)
class _Bound:
    """The value of a node, and what came together up to it: nanoseconds, and bytes that were made."""

    value: Extent
    time: float = 0.0
    made: float = 0.0

    def and_after(self, rounds: float, empty: _Bound, full: _Bound) -> _Bound:
        """Return this with a loop's rounds: values that the rounds share are counted once, in `full`."""
        return _Bound(
            Extent(
                self.value.size + rounds * empty.value.size + full.value.size,
                max(
                    self.value.items + (rounds if full.value.items or empty.value.items else 0.0),
                    empty.value.items,
                    full.value.items,
                ),
            ),
            self.time + rounds * empty.time + full.time,
            self.made + rounds * empty.made + full.made,
        )


@dataclass(frozen=True, slots=True)
class _Scope:
    #: Of every variable that is no loop's.
    outside: Extent
    #: Variables of loops by name.
    names: Mapping[str, Extent]
    #: How often the node is evaluated at most.
    runs: float = 1.0
    #: How many loops it stands in the body of.
    loops: int = 0


def extent_of(value: Any) -> Extent:
    """Return how large JSON values are; an upper bound of what CEL makes of them."""
    size, items, waiting = 0.0, 0.0, [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                size += _NUMBER + 4 * len(text) if not text.isascii() else _NUMBER + len(text)
            case Mapping() as entries:
                size, items = size + _NUMBER + _PLACE * len(entries), max(items, float(len(entries)))
                waiting += [*entries.keys(), *entries.values()]
            case list() | tuple() as elements:
                size, items = size + _NUMBER + _PLACE * len(elements), max(items, float(len(elements)))
                waiting += elements
            case _:
                size += _NUMBER
    return Extent(size, items)


def check_cost(root: Node, outside: Extent) -> None:
    """Raise TooCostly where evaluating `root` may cost too much, each of its variables being as large as `outside`."""
    try:
        _bound(root, _Scope(outside, {}))
    except OverflowError:
        raise TooCostly(root.number, "its cost has no bound") from None


def _bound(node: Node, scope: _Scope) -> _Bound:
    found = _loop(node, scope) if node.kind is Kind.LOOP else _plain(node, scope)
    if not found.made <= MADE_MAX:
        raise TooCostly(node.number, "it may make values that are too large")
    if not found.time <= TIME_MAX:
        raise TooCostly(node.number, "it may take too long")
    return found


def _plain(node: Node, scope: _Scope) -> _Bound:
    below = [_bound(each, scope) for each in node.below]
    time = _STEP_TIME + sum(each.time for each in below)
    made = sum(each.made for each in below)
    values = [each.value for each in below]
    match node.kind:
        case Kind.CONSTANT:
            return _Bound(_of_text(node.text), time)
        case Kind.NAME:
            return _Bound(scope.names.get(node.name, scope.outside), time)
        case Kind.SELECT:
            return _Bound(values[0], time, made)
        case Kind.STRUCT if node.name:
            # A message is read from bytes, of which a few make a value: `google.protobuf.Any` of lists of nothing.
            raise TooCostly(node.number, f"what a {node.name} costs is not known")
        case Kind.LIST | Kind.STRUCT:
            size = sum(each.size + _PLACE for each in values)
            items = max([float(len(values)), *(each.items for each in values)])
            return _Bound(Extent(size, items), time, made + _PLACE * len(values))
        case _:
            cost = _FUNCTIONS.get(node.name)
            if cost is None:
                raise TooCostly(node.number, f"what {node.name} costs is not known")
            own = cost(values, node)
            return _Bound(own.value, time + own.time, made + own.made)


def _loop(node: Node, scope: _Scope) -> _Bound:
    """Bound a comprehension: rounds at most as many as its range has elements, which are that range together."""
    if scope.loops >= LOOPS_MAX:
        raise TooCostly(node.number, f"loops stand more than {LOOPS_MAX} deep in one another")
    goes_through, first, condition, step, result = node.below
    elements, begin = _bound(goes_through, scope), _bound(first, scope)
    whole = elements.value
    rounds = min(whole.items, ROUNDS_MAX)
    shared = min(rounds, max(1.0, ROUNDS_MAX / scope.runs))
    gathers = first.kind in {Kind.LIST, Kind.STRUCT}

    def one_round(element: Extent) -> _Bound:
        names = {**scope.names, node.name: element, node.accumulator: Extent(0.0)}
        inside = _Scope(scope.outside, names, scope.runs * max(1.0, shared), scope.loops + 1)
        asked, done = _bound(condition, inside), _bound(step, inside)
        return _Bound(done.value, asked.time + done.time, asked.made + done.made)

    begun = _Bound(begin.value, elements.time + begin.time, elements.made + begin.made)
    whole_element = Extent(whole.size, min(whole.size / 2, rounds * whole.items))
    found = begun.and_after(shared, one_round(Extent(0.0)), one_round(whole_element))
    # What is gathered is copied in each round.
    copies = rounds * rounds / 2 if gathers else 0.0
    value = Extent(found.value.size, max(rounds, found.value.items) if gathers else found.value.items)
    found = _Bound(value, found.time + _ELEMENT_TIME * copies, found.made + _PLACE * copies)
    end = _bound(result, _Scope(scope.outside, {**scope.names, node.accumulator: value}, scope.runs, scope.loops))
    return _Bound(end.value, found.time + end.time, found.made + end.made)


def _of_text(text: str | None) -> Extent:
    return Extent(_NUMBER if text is None else float(len(text.encode())))


_Values = Sequence[Extent]
_NOTHING = Extent(0.0)


def _answer(_values: _Values, _node: Node) -> _Bound:
    """Bound a number, a truth or a time made of things of any size, which are not gone through."""
    return _Bound(Extent(_NUMBER))


def _counted(values: _Values, _node: Node) -> _Bound:
    """Bound `size`: the characters of a text are counted."""
    return _Bound(Extent(_NUMBER), _BYTE_TIME * values[0].size)


def _read(values: _Values, _node: Node) -> _Bound:
    """Bound a number, a truth or a time read from a text."""
    return _Bound(Extent(_NUMBER), _PARSE_TIME * sum(each.size for each in values))


def _same(values: _Values, _node: Node) -> _Bound:
    """Bound a comparison: no more is looked at than the smaller of two values has."""
    smaller = min(values, key=lambda each: each.size, default=_NOTHING)
    return _Bound(Extent(_NUMBER), _BYTE_TIME * smaller.size)


def _looked_up(values: _Values, _node: Node) -> _Bound:
    """Bound `origin`: a text is looked up, and what is found has the length of a name."""
    return _Bound(Extent(_NAME), _CALLED_TIME + _BYTE_TIME * values[0].size, _NAME)


def _within(values: _Values, _node: Node) -> _Bound:
    return _Bound(Extent(_NUMBER), _BYTE_TIME * values[-1].size)


def _one_of(values: _Values, _node: Node) -> _Bound:
    """Bound `a ? b : c`, `a[b]`, and what hands on a value."""
    return _Bound(Extent(max(each.size for each in values), max(each.items for each in values)))


def _walked(values: _Values, _node: Node) -> _Bound:
    """Bound a text made of another by going through it: `trim`, `reverse`, `substring`, `string`."""
    size = sum(each.size for each in values) + _NUMBER
    return _Bound(Extent(size, max((each.items for each in values), default=0.0)), _BYTE_TIME * size, size)


def _quoted(values: _Values, _node: Node) -> _Bound:
    size = 2 * values[-1].size + _NUMBER
    return _Bound(Extent(size), _BYTE_TIME * size, size)


def _added(values: _Values, _node: Node) -> _Bound:
    size, items = sum(each.size for each in values), sum(each.items for each in values)
    return _Bound(Extent(size, items), _BYTE_TIME * size + _ELEMENT_TIME * items, size + _PLACE * items)


def _found(values: _Values, _node: Node) -> _Bound:
    """Bound looking for the second value in the first."""
    text, looked_for = values[0].size, values[1].size
    return _Bound(Extent(_NUMBER), _BYTE_TIME * text + _FIND_TIME * text * looked_for)


def _split(values: _Values, node: Node) -> _Bound:
    text = values[0].size
    made = text + _PLACE * (text + 1)
    return _Bound(Extent(made, text + 1), _found(values, node).time + _ELEMENT_TIME * (text + 1), made)


def _joined(values: _Values, _node: Node) -> _Bound:
    between = values[1].size if len(values) > 1 else 0.0
    size = values[0].size + values[0].items * between
    return _Bound(Extent(size), _BYTE_TIME * size + _ELEMENT_TIME * values[0].items, size)


def _replaced(values: _Values, node: Node) -> _Bound:
    """Bound `replace`: an empty text is found before each character and at the end."""
    text, new = values[0].size, values[2].size
    old = node.below[1].text
    places = text / len(old.encode()) if old else text + 1
    size = text + places * new
    return _Bound(Extent(size), _found(values, node).time + _BYTE_TIME * size, size)


def _formatted(values: _Values, node: Node) -> _Bound:
    text = node.below[0].text
    clauses = values[0].size / 2 if text is None else float(text.count("%"))
    size = values[0].size + 2 * values[1].size + values[1].items * _PLACE + clauses * _CLAUSE
    return _Bound(Extent(size), _BYTE_TIME * size, size)


def _matched(values: _Values, node: Node) -> _Bound:
    """Bound `matches`: the library compiles the pattern anew each time."""
    pattern = node.below[-1].text
    if pattern is None:
        # A pattern may say that its parts are repeated up to a thousand times.
        steps, time = 1_000 * values[-1].size, _READ_TIME * values[-1].size
    else:
        steps, time = _compiling(pattern)
        if isinf(steps):
            raise TooCostly(node.number, "its pattern is too large")
    return _Bound(Extent(_NUMBER), time + _PATTERN_TIME * (values[0].size + 1) * steps)


@lru_cache(_PATTERNS_KEPT)
def _compiling(pattern: str) -> tuple[float, float]:
    """Return how many steps a pattern has, and several times the nanoseconds that compiling it took here.

    One that is too large has infinitely many.

    No property of its text tells that: a class of letters is a few characters, and ranges of thousands. What is no
    pattern has no steps, and is read up to where it ends to be one.
    """
    spent: list[int] = []
    steps = 0.0
    for times in (1, 2):
        # Each is another text: what is compiled already would take no time.
        other = pattern + "(?:)" * times
        begun = thread_time_ns()
        try:
            steps = float(read(other, _PATTERN_MEMORY).programsize)
        except NoPattern as error:
            steps = float("inf") if "too large" in str(error) else 0.0
        spent.append(thread_time_ns() - begun)
    return steps, _COMPILED_AGAIN * min(spent)


_Cost = Callable[[_Values, Node], _Bound]
_FUNCTIONS: dict[str, _Cost] = {
    **dict.fromkeys(("_&&_", "_||_", "!_", "@not_strictly_false", "-_", "_-_", "_*_", "_/_", "_%_", "type"), _answer),
    "size": _counted,
    **dict.fromkeys(("int", "uint", "double", "bool", "timestamp", "duration"), _read),
    **dict.fromkeys(IN_ZONE, _read),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith"), _same),
    "origin": _looked_up,
    "@in": _within,
    **dict.fromkeys(("_?_:_", "_[_]", "dyn"), _one_of),
    **dict.fromkeys(("string", "bytes", "trim", "lowerAscii", "upperAscii"), _walked),
    **dict.fromkeys(("reverse", "substring", "charAt"), _walked),
    "strings.quote": _quoted,
    "_+_": _added,
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), _found),
    "split": _split,
    "join": _joined,
    "replace": _replaced,
    "format": _formatted,
    "matches": _matched,
}
