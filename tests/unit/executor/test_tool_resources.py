"""Tool packs open their resources once, at executor start, by a convention and not by registration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from placet.domain.catalog import ToolSpec
from placet.tools.registry import load_tools, modules_of
from placet.tools.resources import PackSettings, ToolLoadError, open_tool_resources
from tests.support.tool_builders import a_context, a_module, a_schema, a_spec

Opener = Callable[[PackSettings], AbstractAsyncContextManager[dict[str, object]]]
SETTINGS = PackSettings(database_url="postgresql://nowhere/none")


def _f() -> None:
    """Do nothing."""


def _entries(*modules: str) -> list[ToolSpec]:
    return [a_spec(f"{module}_{n}", a_schema(), f"{module}:f") for module in modules for n in (1, 2)]


def _opener(name: str, journal: list[str]) -> Opener:
    @asynccontextmanager
    async def open_resources(settings: PackSettings) -> AsyncIterator[dict[str, object]]:
        journal.append(f"open {name} for {settings.database_url}")
        try:
            yield {name: name.upper()}
        finally:
            journal.append(f"close {name}")

    return open_resources


async def test_packs_are_opened_once_and_closed_in_reverse() -> None:
    """Two tools of one module share what it opens; a module without the function opens nothing."""
    journal: list[str] = []
    with (
        a_module("pack_a", f=_f, open_resources=_opener("a", journal)),
        a_module("pack_b", f=_f, open_resources=_opener("b", journal)),
        a_module("pack_c", f=_f),
    ):
        tools = load_tools(_entries("pack_a", "pack_b", "pack_c"))
        async with open_tool_resources(modules_of(tools.values()), SETTINGS) as resources:
            assert {"a": "A", "b": "B"} == resources

    where = "for postgresql://nowhere/none"
    assert [f"open a {where}", f"open b {where}", "close b", "close a"] == journal


async def test_opener_reexported_by_a_second_module_is_one_set_of_resources() -> None:
    """A package and the module inside it may both carry the opener."""
    journal: list[str] = []
    opener = _opener("a", journal)
    with a_module("pack_a", f=_f, open_resources=opener), a_module("pack_b", f=_f, open_resources=opener):
        async with open_tool_resources(modules_of(load_tools(_entries("pack_a", "pack_b")).values()), SETTINGS):
            pass

    assert ["open a for postgresql://nowhere/none", "close a"] == journal


async def test_two_packs_with_one_name_are_refused_and_what_was_opened_is_closed() -> None:
    """Otherwise one pack would silently work on the other's database."""
    journal: list[str] = []
    with (
        a_module("pack_a", f=_f, open_resources=_opener("same", journal)),
        a_module("pack_b", f=_f, open_resources=_opener("same", journal)),
    ):
        tools = load_tools(_entries("pack_a", "pack_b"))
        with pytest.raises(ToolLoadError, match=r"^module 'pack_b' opens the resource 'same'"):
            async with open_tool_resources(modules_of(tools.values()), SETTINGS):
                raise AssertionError

    assert ["close same", "close same"] == journal[2:]


def _takes_nothing() -> None: ...
async def _returns(settings: PackSettings) -> dict[str, object]:
    return {"settings": settings}


async def _yields(settings: PackSettings) -> AsyncIterator[dict[str, object]]:
    yield {"settings": settings}


@contextmanager
def _plain(settings: PackSettings) -> Iterator[dict[str, object]]:
    yield {"settings": settings}


_NO_MANAGER = "is no async context manager (@asynccontextmanager, async def, one yield)"


@pytest.mark.parametrize(
    ("opener", "problem"),
    [
        (3, "is no function"),
        (_takes_nothing, "must take one argument, the settings"),
        (asynccontextmanager(lambda: _yields(SETTINGS)), "must take one argument, the settings"),
        (_returns, _NO_MANAGER),
        (_yields, _NO_MANAGER),
        (_plain, _NO_MANAGER),
        (asynccontextmanager(_returns), _NO_MANAGER),  # type: ignore[arg-type]  # the fault under test
    ],
)
def test_an_opener_that_cannot_work_is_one_line_when_tools_are_loaded(opener: object, problem: str) -> None:
    """What can be seen without a call is told before anything is opened, with its module."""
    with a_module("pack_a", f=_f, open_resources=opener), pytest.raises(ToolLoadError) as refused:
        load_tools(_entries("pack_a"))
    assert f"module 'pack_a': open_resources {problem}" == str(refused.value)


class _Manager(AbstractAsyncContextManager[dict[str, object]]):
    def __init__(self, settings: PackSettings) -> None:
        self.settings = settings

    async def __aexit__(self, *error: object) -> None:
        """Close nothing."""


class _Opens:
    def __call__(self, settings: PackSettings, more: int = 1) -> AbstractAsyncContextManager[dict[str, object]]:
        return _opener("a", [f"{more}"])(settings)


@pytest.mark.parametrize(
    "opener", [_Manager, _Opens(), lambda *_: _opener("a", [])(SETTINGS), partial(_opener("a", []))]
)
def test_an_opener_is_not_refused_for_how_it_is_written(opener: object) -> None:
    """A class, an object, a lambda, a partial: what may work is left to the start."""
    with a_module("pack_a", f=_f, open_resources=opener):
        assert ["pack_a_1", "pack_a_2"] == list(load_tools(_entries("pack_a")))


@pytest.mark.parametrize(
    ("opener", "problem"),
    [
        (lambda _: {}, _NO_MANAGER),
        (asynccontextmanager(lambda _: _yields_nothing()), "yields no dict of resources by name"),
        (asynccontextmanager(lambda _: _ends()), "ends the process: no key"),
    ],
)
async def test_an_opener_that_turns_out_wrong_is_one_line_too(opener: object, problem: str) -> None:
    """What only a call shows is told at the start."""
    with a_module("pack_a", f=_f, open_resources=opener):
        modules = list(modules_of(load_tools(_entries("pack_a")).values()))
        with pytest.raises(ToolLoadError) as refused:
            async with open_tool_resources(modules, SETTINGS):
                raise AssertionError
    assert f"module 'pack_a': open_resources {problem}" == str(refused.value)


async def _ends() -> AsyncIterator[None]:
    raise SystemExit("no key")
    yield


async def _yields_nothing() -> AsyncIterator[None]:
    yield


def test_context_gives_a_resource_of_the_asked_kind_only() -> None:
    """A tool whose pack was not opened is told so, and never gets another pack's thing."""
    context = a_context(resources={"number": 7})

    assert 7 == context.resource("number", int)
    with pytest.raises(LookupError, match="no resource 'number' of kind str"):
        context.resource("number", str)
    with pytest.raises(LookupError, match="no resource 'shop' of kind int"):
        context.resource("shop", int)


def test_time_left_never_goes_below_zero() -> None:
    """A tool may pass what is left of its deadline on as a time-out."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    context = replace(a_context(), deadline=now + timedelta(seconds=5))

    assert 5.0 == context.seconds_left(now)
    assert 0.0 == context.seconds_left(now + timedelta(seconds=9))
