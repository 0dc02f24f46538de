"""How the agent starts and stops around the model library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from placet.agent.service import build, build_with
from placet.agent.settings import AgentSettings
from placet.contracts.errors import PlacetError
from placet.runtime.in_process import InProcessBus
from placet.runtime.service import Service, runtime_on
from tests.support.agents import RULEBOOK, SHOP, ScriptedModel


def the_settings(**more: Any) -> AgentSettings:
    """Return settings of an agent that is never started; building it connects to nothing."""
    return AgentSettings(database_url=SecretStr("postgresql://nowhere.invalid/none"), rulebook=RULEBOOK, **more)


def a_service(prepare: Callable[[], Awaitable[None]]) -> Service:
    """Return an agent that was never started."""
    settings = the_settings()
    runtime = runtime_on(settings, "agent", InProcessBus())
    return build_with(settings, runtime, ScriptedModel([]), SHOP, prepare=prepare)


async def test_start_does_not_wait_for_the_model_library() -> None:
    """The library loads beside the start; a stop does not wait for it either."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def never() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    (resource,) = a_service(never).resources
    async with resource:
        assert not began.is_set()
        await asyncio.wait_for(began.wait(), 10)
    assert ended.is_set()


async def test_library_that_cannot_load_stops_no_agent() -> None:
    """Whoever asks first tries again; until then the agent takes messages."""
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise ImportError("broken")

    (resource,) = a_service(fail).resources
    async with resource:
        await asyncio.wait_for(failed.wait(), 10)


async def test_imports_in_each_other_s_way_are_tried_again_without_a_word() -> None:
    """The library is there for the first person, and a start that fails for another reason is told in one line."""
    tries: list[int] = []
    loaded = asyncio.Event()

    async def fail_once() -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise RuntimeError("deadlock detected by _ModuleLock('litellm')")
        loaded.set()

    with capture_logs() as said:
        (resource,) = a_service(fail_once).resources
        async with resource:
            await asyncio.wait_for(loaded.wait(), 10)
    assert ([0, 1], []) == (tries, said)


@pytest.mark.parametrize(
    "named", [{"model": "python/nowhere:reply"}, {"model_fallbacks": [{"model": "python/nowhere:reply"}]}]
)
def test_model_of_own_code_that_is_not_there_stops_the_start(named: dict[str, Any]) -> None:
    """Whoever mounts tools of their own and forgets the model reads so at the start, not in every failed turn."""
    settings = the_settings(**named)
    runtime = runtime_on(settings, "agent", InProcessBus())
    with pytest.raises(PlacetError, match=r"^no model is at python/nowhere:reply: .*PLACET_MODEL"):
        build(settings, runtime)
