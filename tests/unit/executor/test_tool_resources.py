"""Tool packs open their resources once, at executor start, by a convention and not by registration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from placet.tools.registry import load_tools, modules_of
from placet.tools.resources import PackSettings, ToolLoadError, open_tool_resources
from tests.support.tool_builders import Entry, a_context, a_module, a_schema

Opener = Callable[[PackSettings], AbstractAsyncContextManager[dict[str, object]]]
SETTINGS = PackSettings(database_url="postgresql://nowhere/none")


def _f() -> None:
    """Do nothing."""


def _entries(*modules: str) -> list[Entry]:
    return [Entry(f"{module}_{n}", a_schema(), f"{module}:f") for module in modules for n in (1, 2)]


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
