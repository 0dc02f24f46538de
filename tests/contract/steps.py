"""Finds the steps of the services in their code: what is done there can be lost, or come twice, when a process dies.

A step is a transaction, a publish, or an act on the world outside: found by the name of its method, on whatever it is
called, for a name that is left out is a step that nobody sees. Where a name means something else too, STEPS says on
what.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

Names = Mapping[str, frozenset[str]]

#: Steps of the database and the broker by their methods' names, and on what else a method is called so.
STORING: Names = {
    **dict.fromkeys(("transaction", "single", "publish", "basic_publish", "dead_letter"), frozenset()),
    "retry": frozenset({"handlers"}),
}
#: Acts, likewise. What is called so here is a statement of the store, or a function that has steps of its own.
ACTS: Names = {
    # Tools, their packs, and models.
    "run": frozenset({"connection", "work", "once", "own", "handlers", "context", "uvloop"}),
    "apply": frozenset({"limits"}),
    "plan": frozenset({"body"}),
    "prepare": frozenset(),
    "abandon": frozenset({"store", "QUERIES"}),
    "ask": frozenset({"wish", "trials"}),
    **dict.fromkeys(("acompletion", "aresponses"), frozenset()),
    # Cards, mails, messages.
    "send": frozenset({"outbox", "decisions"}),
    **dict.fromkeys(("send_joint", "say", "notify", "async_notify", "sendmail", "send_message"), frozenset()),
    # Requests, connections, programs.
    "post": frozenset({"posts"}),
    "put": frozenset({"workspace_store", "share"}),
    "delete": frozenset({"sa"}),
    **dict.fromkeys(("patch", "request", "stream", "urlopen", "api_call"), frozenset()),
    **dict.fromkeys(("connect", "create_pool", "create_engine", "create_async_engine"), frozenset()),
    **dict.fromkeys(("open_connection", "create_connection"), frozenset()),
    **dict.fromkeys(
        ("create_subprocess_exec", "create_subprocess_shell", "Popen", "check_call", "system"), frozenset()
    ),
}
STEPS: Names = {**STORING, **ACTS}
#: How names of Slack's methods begin.
ACTS_BEGIN = ("chat_", "views_", "files_", "conversations_", "reactions_")
#: Names of fields too: of these only a call is a step. Any other is one wherever it stands, for it may be handed on.
CALLED = frozenset({"plan", "stream", "put", "patch", "request", "delete", "connect"})
#: How a point is reached; a commit has a way of its own.
POINTS = frozenset({"points.reached", "self._reached", "reached"})


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

#: Modules of Python itself by which something goes out.
OUTWARD = frozenset({"ftplib", "http.client", "imaplib", "multiprocessing", "poplib", "pty", "smtplib", "socket"})
OUTWARD |= {"socketserver", "subprocess", "telnetlib", "urllib.request", "xmlrpc.client"}


@dataclass
class Function:
    """A function, and what stands in it itself: not in one that is in it."""

    name: str
    steps: int = 0
    points: int = 0
    #: Steps, points (with an @) and whatever is waited for, in their order.
    does: list[str] = field(default_factory=list)


def ways_out(source: str, harmless: Collection[str]) -> list[str]:
    """Return by which libraries a file reaches what is outside of its process, in the order of their names.

    Any library does that is not known to be harmless.
    """
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                modules |= {each.name for each in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                modules |= {module, *(f"{module}.{each.name}" for each in names)}
    foreign = {each.partition(".")[0] for each in modules} - sys.stdlib_module_names - {*harmless}
    return sorted(foreign | modules & OUTWARD)


def functions(source: str | ast.Module, names: Names = STEPS) -> Iterator[Function]:
    """Yield each function that has a step of these names; `<module>` is what is in none."""
    tree = ast.parse(source) if isinstance(source, str) else source
    called = {id(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call)}
    yield from (each for each in _functions(tree, "", called, names) if each.steps)


def _functions(scope: ast.AST, name: str, called: set[int], names: Names) -> Iterator[Function]:
    found = Function(name or "<module>")
    for node in _within(scope):
        if isinstance(node, _SCOPES):
            yield from _functions(node, f"{name}.{node.name}".lstrip("."), called, names)
        else:
            _note(found, node, called, names)
    yield found


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a scope, in its order, and functions and classes in it as one; decorators do nothing."""
    waiting = list(reversed(scope.body if isinstance(scope, _SCOPES | ast.Module) else [scope]))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _note(found: Function, node: ast.AST, called: set[int], names: Names) -> None:
    """Add what a node does to its function."""
    match node:
        case ast.Call(func=ast.Name() | ast.Attribute(), args=[point]) if ast.unparse(node.func) in POINTS:
            found.points += 1
            found.does.append(f"@{ast.unparse(point)}".replace("'", ""))
        case ast.Call(func=ast.Name("getattr" | "methodcaller"), args=[*_, ast.Constant(str(name))]) if _is_named(
            name, names
        ):
            found.steps += 1
            found.does.append(f"getattr({name})")
        case ast.Attribute() if _is_step(node, names, is_called=id(node) in called):
            found.steps += 1
            found.does.append(_short(node))
        case ast.Await(value=ast.Call(func=waited)) | ast.Await(value=waited) | ast.AsyncFor(iter=waited):
            if not (isinstance(waited, ast.Attribute) and _is_step(waited, names, is_called=True)):
                found.does.append(_short(waited))


def _is_named(name: str, names: Names) -> bool:
    return name in names or (names is STEPS and name.startswith(ACTS_BEGIN))


def _is_step(node: ast.Attribute, names: Names, *, is_called: bool) -> bool:
    """Tell whether a step is called there, or handed on under another name."""
    if not _is_named(node.attr, names) or (node.attr in CALLED and not is_called):
        return False
    return ast.unparse(node.value).rpartition(".")[2].lstrip("_") not in names.get(node.attr, frozenset())


def _short(node: ast.AST) -> str:
    """Return what a function is called by, without what it belongs to at length."""
    text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return ".".join(text.split(".")[-2:])
