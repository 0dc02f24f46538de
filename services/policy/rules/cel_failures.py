"""What in an expression of CEL can never be evaluated, whatever it looks at: `1/0`, a pattern that is none.

Such an expression has the right types, so the compiler lets it pass, and each call would be held by its error. Found in
the tree that the compiler made of it: every part without a variable in it is evaluated by itself, and so is what a
division or a pattern is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from placet.domain.cel import STRING, ConditionFailed, Environment, Expression
from placet.domain.cel_tree import Kind, Node, Tree

_DIVIDING = frozenset({"_/_", "_%_"})
_MATCHING = "matches"


def failures(expression: Expression) -> list[tuple[int, str]]:
    """Return what always fails in a compiled expression, each with its character offset, in the order of the text."""
    tree = Tree.of(expression.checked)
    found = _failing(tree.root, _Parts(expression, tree))
    return sorted((tree.places.get(number, 0), f"this always fails: {why}") for number, why in found)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Evaluates single nodes of one expression."""

    expression: Expression
    tree: Tree

    def value(self, node: Node) -> object:
        """Return the value of a constant node; raise ConditionFailed where it has none."""
        return self.expression.part(self.tree.part(node)).value({})


def _failing(node: Node, parts: _Parts) -> Iterator[tuple[int, str]]:
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


def _refused_argument(node: Node, parts: _Parts) -> str:
    """Return why a call can do nothing with its last argument, a constant; empty where it can, and for other nodes."""
    last = node.below[-1] if node.below else None
    if last is None or not last.is_constant or _function(node) not in {*_DIVIDING, _MATCHING}:
        return ""
    try:
        value = parts.value(last)
        if node.name == _MATCHING:
            _pattern().value({"pattern": value})
    except ConditionFailed as error:
        # A constant that fails itself is told where it stands.
        return str(error) if node.name == _MATCHING else ""
    is_zero = isinstance(value, int) and value == 0
    return "divide by zero" if node.name in _DIVIDING and is_zero else ""


@cache
def _pattern() -> Expression:
    return Environment({"pattern": STRING}).compile('"".matches(pattern)')


def _function(node: Node) -> str:
    return node.name if node.kind is Kind.CALL else ""
