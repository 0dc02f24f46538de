"""`origin(text)` in conditions: where a text among the arguments stood before the call, as the agent found. Pure.

It says `user`, `agent`, `quoted`, `tool:NAME` or `none`, and it fails, so that the call is held, where nobody looked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from placet.domain.cel import Expression
from placet.domain.cel_tree import Kind, Node, Tree
from placet.domain.origins import AGENT, NONE, QUOTED, TOOL, USER

#: What a condition may compare an origin with.
KNOWN = re.compile(rf"{USER}|{AGENT}|{QUOTED}|{NONE}|{TOOL}[a-zA-Z0-9_-]{{1,64}}")
NAME = "origin"

_COMPARING = frozenset({"_==_", "_!=_"})
#: Of the call that is judged in this moment, by text.
_known: ContextVar[Mapping[str, str] | None] = ContextVar("origins", default=None)


def origin_of(text: str) -> str:
    """Return where a text stood; raise LookupError where nobody looked."""
    known = _known.get()
    if known is None:
        raise LookupError("nobody looked where the values of this call come from")
    return known.get(text, NONE)


@contextmanager
def looking_at(origins: Mapping[str, str] | None) -> Iterator[None]:
    """Let conditions ask for these origins."""
    before = _known.set(origins)
    try:
        yield
    finally:
        _known.reset(before)


def never_said(expression: Expression) -> list[tuple[int, str]]:
    """Return what an origin is compared with and never is, each with its character offset."""
    tree = Tree.of(expression.checked)
    problems = [(tree.places.get(node.number, 0), _wrong(node.text or "")) for node in _compared(tree.root)]
    return sorted(problems)


def _compared(node: Node) -> Iterator[Node]:
    for below in node.below:
        yield from _compared(below)
    if node.kind is not Kind.CALL or not any(map(_asks, node.below)):
        return
    if node.name in _COMPARING:
        texts = list(node.below)
    elif node.name == "@in" and _asks(node.below[0]):
        texts = list(node.below[1].below)
    else:
        return
    yield from (each for each in texts if each.text is not None and not KNOWN.fullmatch(each.text))


def _asks(node: Node) -> bool:
    return node.kind is Kind.CALL and node.name == NAME


def _wrong(text: str) -> str:
    return f"no origin is {text!r}: they are 'user', 'agent', 'quoted', 'tool:NAME' and 'none'"
