"""The agent with a model that writes at a steady pace: `python -m bench.soak_agent`. Everything else is the real one.

PLACET_BENCH_WORDS words per answer, PLACET_BENCH_PACE words a second.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from bench.soak_reader import word
from placet.agent.model_answer import ModelAnswer
from placet.agent.service import build_with
from placet.agent.settings import AgentSettings
from placet.domain.catalog import load_catalog
from placet.runtime.service import Runtime, Service, main

WORDS = int(os.environ.get("PLACET_BENCH_WORDS", "100"))
PACE = float(os.environ.get("PLACET_BENCH_PACE", "20"))


async def ask(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    *,
    on_text: Callable[[str], Awaitable[None]],
    **_: Any,
) -> ModelAnswer:
    """Say one word after the other; one that is late is sent at once, and says when it was."""
    del messages, tools
    loop, said = asyncio.get_running_loop(), []
    began = loop.time()
    for number in range(WORDS):
        await asyncio.sleep(max(0.0, began + number / PACE - loop.time()))
        said.append(word(number, time.monotonic()))
        await on_text(said[-1])
    text = "".join(said)
    raw = {"role": "assistant", "content": text}
    return ModelAnswer(
        text=text, calls=(), finish_reason="stop", input_tokens=0, output_tokens=0, model="stub", raw=raw
    )


def build(settings: AgentSettings, runtime: Runtime) -> Service:
    """Return the agent with the stub model."""
    return build_with(settings, runtime, ask, load_catalog(settings.rulebook))


if __name__ == "__main__":
    main("agent", AgentSettings, build)
