"""Finds the steps of the services in their code: what is done there can be lost, or come twice, when a process dies.

A step is a transaction, a publish, or an act on the world outside: found by the name of its method, on whatever it is
called, for a name that is left out is a step that nobody sees. Where a name means something else too, STEPS says on
what. A name that a module imports is what it was imported as, whatever it is called there; our own functions have
their steps in themselves.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

Names = Mapping[str, frozenset[str]]

#: Steps of the database and the broker by their methods' names, and on what else a method is called so.
STORING: Names = {
    **dict.fromkeys(("transaction", "single", "publish", "basic_publish", "dead_letter"), frozenset()),
    **dict.fromkeys(("_acquired", "commit", "copy_records_to_table", "copy_to_table", "executemany"), frozenset()),
    **dict.fromkeys(("queue_purge", "queue_delete", "exchange_delete", "rpc", "publisher"), frozenset()),
    # A unit of work has its points in itself.
    "begin": frozenset({"units", "parser", "state", "provider", "sessions", "course"}),
    "acquire": frozenset({"lock"}),
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
    **dict.fromkeys(("patch", "request", "stream", "urlopen", "api_call", "execute_command"), frozenset()),
    **dict.fromkeys(("execute_data_command", "push_to_gateway", "pushadd_to_gateway"), frozenset()),
    **dict.fromkeys(("connect", "create_pool", "create_engine", "create_async_engine"), frozenset()),
    **dict.fromkeys(("open_connection", "create_connection", "open_unix_connection"), frozenset()),
    **dict.fromkeys(("create_unix_connection", "create_datagram_endpoint", "sendto"), frozenset()),
    **dict.fromkeys(("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec"), frozenset()),
    **dict.fromkeys(("subprocess_shell", "Popen", "check_call", "check_output", "system", "popen"), frozenset()),
    **dict.fromkeys(("import_module", "write_text", "write_bytes"), frozenset()),
    # Files, as a path has it; its `replace` is told from a text's by what it is given.
    **dict.fromkeys(("unlink", "rename", "rmdir", "symlink_to", "hardlink_to"), frozenset()),
    **dict.fromkeys(("mkdir", "touch", "chmod"), frozenset()),
}
STEPS: Names = {**STORING, **ACTS}
#: How names of Slack's methods begin.
ACTS_BEGIN = ("chat_", "views_", "files_", "conversations_", "reactions_", "pins_", "bookmarks_")
#: How acts of Python's own modules are called in full whose names alone say nothing.
ACTS_IN_FULL = (
    *("os.posix_spawn", "os.spawn", "os.exec", "os.fork", "os.rename", "os.replace", "os.unlink", "os.remove"),
    *("os.link", "os.symlink", "os.truncate", "os.rmdir", "os.makedirs", "os.write", "os.kill"),
    *("tempfile.mk", "tempfile.NamedTemporary", "tempfile.Temporary", "tempfile.Spooled"),
    *("shutil.", "runpy.", "pathlib.Path.replace", "logging.handlers.", "logging.FileHandler", "zipfile.ZipFile"),
    *("tarfile.", "shelve.", "dbm.", "ctypes.", "webbrowser.", "concurrent.futures.Process"),
)
#: What takes something's name for the thing: a name of a step is one, wherever it stands among what is given.
BY_NAME = frozenset({"getattr", "methodcaller", "attrgetter", "__getattribute__", "__getattr__"})
#: What a library hands in as a function, and a parameter is called.
HANDED_IN = frozenset({"say", "respond"})
#: Names of fields too: of these only a call is a step. Any other is one wherever it stands, for it may be handed on.
CALLED = frozenset({"plan", "stream", "put", "patch", "request", "delete", "connect", "begin", "commit", "acquire"})
#: How a point is reached; a commit has a way of its own.
POINTS = frozenset({"points.reached", "self._reached", "reached"})


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

#: Modules of Python itself by which something goes out.
OUTWARD = frozenset({"ftplib", "http.client", "imaplib", "multiprocessing", "poplib", "pty", "smtplib", "socket"})
OUTWARD |= {"placet.client", "socketserver", "subprocess", "telnetlib", "urllib.request", "xmlrpc.client"}


@dataclass
class Function:
    """A function, and what stands in it itself: not in one that is in it."""

    name: str
    steps: int = 0
    points: int = 0
    #: Steps, points (with an @) and whatever is waited for, in their order.
    does: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Module:
    """What is known of a file before its functions are read."""

    names: Names
    #: What is called, by its identity; all else is handed on.
    called: frozenset[int]
    #: What the names that it imports were imported as, in full.
    imports: Mapping[str, str]

    def in_full(self, node: ast.AST) -> str:
        """Return an imported name, or an attribute of one, as it is called where it comes from; empty for any other."""
        match node:
            case ast.Name(name):
                return self.imports.get(name, "")
            case ast.Attribute(value, name):
                return f"{module}.{name}" if (module := self.in_full(value)) else ""
        return ""

    def is_named(self, name: str) -> bool:
        """Tell whether steps are called so."""
        return name in self.names or (self.names is STEPS and name.startswith(ACTS_BEGIN))

    def by_name(self, call: ast.Call) -> list[str]:
        """Return the steps that are taken by their names there."""
        by = (self.in_full(call.func) or ast.unparse(call.func)).rpartition(".")[2]
        texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        names = [text.rpartition(".")[2] for text in texts] if by in BY_NAME else []
        return [name for name in names if self.is_named(name)]

    def is_step(self, node: ast.AST) -> bool:
        """Tell whether a step is called there, or handed on under another name."""
        full = self.in_full(node)
        if self.names is STEPS and full.startswith(ACTS_IN_FULL):
            return True
        match node:
            case ast.Attribute(attr=name):
                pass
            case ast.Name() if full and not full.startswith("placet."):
                name = full.rpartition(".")[2]
            case ast.Name(name) if not full and name in HANDED_IN:
                return self.names is STEPS and id(node) in self.called
            case _:
                return False
        if not self.is_named(name) or (name in CALLED and id(node) not in self.called):
            return False
        on = ast.unparse(node.value) if isinstance(node, ast.Attribute) else full.rpartition(".")[0]
        return on.rpartition(".")[2].lstrip("_") not in self.names.get(name, frozenset())


def ways_out(source: str, harmless: Collection[str]) -> list[str]:
    """Return by which libraries a file reaches what is outside of its process, in the order of their names.

    Any library does that is not known to be harmless, and our own client.
    """
    modules = {*imports_of(ast.parse(source)).values()} | {
        each.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for each in node.names
    }
    whole = {module[: end.start()] for module in modules for end in re.finditer(r"\.|$", module)}
    foreign = {each for each in whole if "." not in each} - sys.stdlib_module_names - {*harmless}
    return sorted(foreign | whole & OUTWARD)


def imports_of(tree: ast.AST) -> dict[str, str]:
    """Return the names that a file imports anywhere, and what they are in full."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                found |= {
                    each.asname or each.name.partition(".")[0]: each.name
                    if each.asname
                    else each.name.partition(".")[0]
                    for each in names
                }
            case ast.ImportFrom(str(module), names, 0):
                found |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
    return found


def functions(source: str | ast.Module, names: Names = STEPS) -> Iterator[Function]:
    """Yield each function that has a step of these names; `<module>` is what is in none."""
    tree = ast.parse(source) if isinstance(source, str) else source
    called = frozenset(id(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call))
    module = _Module(names, called, imports_of(tree))
    yield from (each for each in _functions(tree, "", module) if each.steps)


def _functions(scope: ast.AST, name: str, module: _Module) -> Iterator[Function]:
    found = Function(name or "<module>")
    for node in _within(scope):
        if isinstance(node, _SCOPES):
            yield from _functions(node, f"{name}.{node.name}".lstrip("."), module)
        else:
            _note(found, node, module)
    yield found


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a scope, in its order, and functions and classes in it as one, before what makes them."""
    waiting = list(reversed(scope.body if isinstance(scope, _SCOPES | ast.Module) else [scope]))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(_made_of(node) if isinstance(node, _SCOPES) else list(ast.iter_child_nodes(node))))


def _made_of(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.AST]:
    """Return what is done where a function or class stands: its decorators, but for routes, defaults and bases."""
    decorators = [each for each in scope.decorator_list if not _is_route(each)]
    if isinstance(scope, ast.ClassDef):
        return [*decorators, *scope.bases, *scope.keywords]
    return [*decorators, *scope.args.defaults, *(each for each in scope.args.kw_defaults if each)]


def _is_route(node: ast.AST) -> bool:
    match node:
        case ast.Call(ast.Attribute(attr="post" | "put" | "patch" | "delete"), [ast.Constant(str(path)), *_]):
            return path == "" or path.startswith("/")
    return False


def _note(found: Function, node: ast.AST, module: _Module) -> None:
    """Add what a node does to its function."""
    match node:
        case ast.Call(func=ast.Name() | ast.Attribute(), args=[point]) if ast.unparse(node.func) in POINTS:
            found.points += 1
            found.does.append(f"@{ast.unparse(point)}".replace("'", ""))
        case ast.Call() if named := module.by_name(node):
            found.steps += len(named)
            found.does += [f"getattr({name})" for name in named]
        case ast.Call(func=ast.Name("open") | ast.Attribute(attr="open")) if module.names is STEPS and _writes(node):
            found.steps += 1
            found.does.append("open(to write)")
        case ast.Call(func=ast.Attribute(attr="replace") as moves, args=[_], keywords=[]) if (
            module.names is STEPS and not module.in_full(moves)
        ):
            found.steps += 1
            found.does.append(_short(moves))
        case ast.Attribute(ast.Name(on) | ast.Attribute(attr=on), "write" | "writelines") if (
            module.names is STEPS and on.lstrip("_") == "writer"
        ):
            found.steps += 1
            found.does.append(_short(node))
        case ast.Name() | ast.Attribute() if module.is_step(node):
            found.steps += 1
            found.does.append(_short(node))
        case ast.Await(value=ast.Call(func=waited)) | ast.Await(value=waited) | ast.AsyncFor(iter=waited):
            if not module.is_step(waited):
                found.does.append(_short(waited))


def _writes(call: ast.Call) -> bool:
    """Tell whether a file is opened there to write, or in a mode that is not said there."""
    given = [*call.args[:2], *(each.value for each in call.keywords if each.arg == "mode")]
    texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    modes = [*(call.args[1:2] if isinstance(call.func, ast.Name) else ()), *given[len(call.args[:2]) :]]
    if not all(isinstance(each, ast.Constant) for each in modes):
        return True
    return any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)


def _short(node: ast.AST) -> str:
    """Return what a function is called by, without what it belongs to at length."""
    text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return ".".join(text.split(".")[-2:])
