"""The registry loads tools that fit the catalogue and refuses the others with one line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet.domain.catalog import ToolSpec
from placet.tools import ToolContext
from placet.tools.registry import load_tools
from placet.tools.resources import ToolLoadError
from tests.support.tool_builders import a_module, a_schema, a_spec, a_tool


def _refusal(entry: ToolSpec) -> str:
    with pytest.raises(ToolLoadError) as caught:
        load_tools([entry])
    return str(caught.value)


def test_entry_without_function_is_left_out() -> None:
    """A tool that no executor runs is not loaded."""
    assert {} == load_tools([a_spec("final_answer", a_schema(), None)])


def test_entry_with_function_is_loaded_under_its_name() -> None:
    """A tool is found by the name the model calls."""

    def greet(*, who: str) -> str:
        return who

    with a_module(greet=greet) as module:
        tools = load_tools([a_spec("say_hello", a_schema("who", required=("who",)), f"{module}:greet")])

    assert ["say_hello"] == list(tools)
    assert greet is tools["say_hello"].function


@pytest.mark.parametrize("path", ["nothing", ":function", "module:", "module:a.b", "module:a:b"])
def test_path_not_written_as_module_and_function_is_refused(path: str) -> None:
    """A path that does not name one module and one function stops the start."""
    assert f"tool 'x': function {path!r} is not written as module:function" == _refusal(a_spec("x", a_schema(), path))


def test_missing_module_is_refused() -> None:
    """A module that cannot be imported is named with the reason."""
    text = _refusal(a_spec("x", a_schema(), "no_such_pack.at_all:f"))
    assert "tool 'x': module 'no_such_pack.at_all' cannot be imported: No module named 'no_such_pack'" == text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("raise SystemExit('no config')", "SystemExit: no config"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise RuntimeError('two\\nlines')", "two lines"),
        ("raise BaseExceptionGroup('all', [SystemExit(0)])", "BaseExceptionGroup: all (1 sub-exception)"),
    ],
)
def test_module_that_would_end_the_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, reason: str
) -> None:
    """Whatever its import raises: the start ends with a line that names tool and module, not silently."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_pack_that_ends.py").write_text(f"{line}\n")
    refusal = _refusal(a_spec("x", a_schema(), "a_pack_that_ends:f"))
    assert f"tool 'x': module 'a_pack_that_ends' cannot be imported: {reason}" == refusal


@pytest.mark.parametrize("member", [None, 7, dict])
def test_member_that_is_no_function_is_refused(member: object) -> None:
    """A constant or a class is no tool."""
    with a_module(f=member) as module:
        text = _refusal(a_spec("x", a_schema(), f"{module}:f"))
    assert f"tool 'x': module {module!r} has no function 'f'" == text


def test_name_listed_twice_is_refused() -> None:
    """Two entries of one name leave open which one was approved."""

    def f() -> None: ...

    with a_module(f=f) as module, pytest.raises(ToolLoadError, match=r"^tool 'x' is listed twice$"):
        load_tools([a_spec("x", a_schema(), f"{module}:f")] * 2)


def _lacks(a: int) -> None: ...
def _has_more(a: int, b: int, c: int = 1) -> None: ...
def _demands(a: int, b: int) -> None: ...
def _positional(a: int, /, b: int = 1) -> None: ...
def _star(a: int, *b: int) -> None: ...
def _double_star(a: int, **b: int) -> None: ...
def _untyped(a: int, b=1) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # the fault under test
def _unresolved(a: int, b: Nowhere = None) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # as above
def _not_json(a: int, b: Callable[[], _Strange] | None = None, *, c: _Strange | None = None) -> None: ...
def _two_contexts(a: int, b: int = 1, *, one: ToolContext, two: ToolContext) -> None: ...
def _context_is_argument(a: int, b: ToolContext) -> None: ...
async def _generator(a: int, b: int = 1) -> AsyncIterator[int]:
    yield a + b


class _Strange:
    """A type that no JSON can be converted to."""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_lacks, "lacks the parameter 'b' of the schema"),
        (_has_more, "has the parameter 'c', which the schema does not have"),
        (_demands, "demands 'b', which the schema does not require (give it a default)"),
        (_positional, "parameter 'a' cannot be given by name (positional-only)"),
        (_star, "parameter 'b' cannot be given by name (variadic positional)"),
        (_double_star, "parameter 'b' cannot be given by name (variadic keyword)"),
        (_untyped, "parameter 'b' has no type"),
        (_unresolved, "has a type that cannot be resolved: name 'Nowhere' is not defined"),
        (_two_contexts, "takes the context twice: 'one' and 'two'"),
        (_context_is_argument, "parameter 'b' takes the context, but the schema gives that name to the model"),
        (_generator, "is a generator; a tool returns one value"),
    ],
)
def test_function_that_does_not_fit_its_schema_is_refused(function: Callable[..., Any], text: str) -> None:
    """Each way not to fit the schema (a required, b optional) stops the start with its own line."""
    with a_module(f=function) as module:
        refusal = _refusal(a_spec("x", a_schema("a", "b", required=("a",)), f"{module}:f"))
    assert f"tool 'x': function '{module}:f' {text}" == refusal


class _Called:
    def __call__(self, a: int) -> int:
        return a


@pytest.mark.parametrize("member", [_Called(), partial(_lacks, a=1)])
def test_object_that_can_be_called_is_refused(member: object) -> None:
    """The line says what is wanted instead, and shows no address of the object."""
    with a_module(f=member) as module:
        refusal = _refusal(a_spec("x", a_schema("a", required=("a",)), f"{module}:f"))
    told = "is an object that can be called; a tool is a function, made with def or async def"
    assert f"tool 'x': function '{module}:f' {told}" == refusal


def test_type_that_json_cannot_fill_is_refused_in_one_line() -> None:
    """A parameter of a class unknown to JSON stops the start, and the text stays one line."""
    with a_module(f=_not_json) as module:
        refusal = _refusal(a_spec("x", a_schema("a", "b", "c", required=("a",)), f"{module}:f"))
    assert "has a type that JSON cannot be converted to" in refusal
    assert 1 == len(refusal.splitlines())


def test_schema_may_require_what_the_function_does_not() -> None:
    """A schema stricter than its function is fine: every call it lets through can be made."""

    def f(*, a: int = 1) -> int:
        return a

    assert a_tool(f, "a", required=("a",))
