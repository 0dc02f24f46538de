"""The agent with a model that answers at once: `python -m bench.stub_agent`. Everything else is the real service.

PLACET_BENCH_CALLS_PER_TURN calls of PLACET_BENCH_TOOL that it proposes in a turn, one after the other; `sleep` is told
to take PLACET_BENCH_MILLISECONDS. It thinks for PLACET_BENCH_MODEL_MILLISECONDS each time. In `asked` in
PLACET_BENCH_FOLDER it writes down of which conversation it was asked, with how many results in hand, and when.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from bench.floor import ARGUMENTS
from bench.tools import append
from placet.agent.model_answer import ModelAnswer, ProposedCall
from placet.agent.service import build_with
from placet.agent.settings import AgentSettings
from placet.contracts.ids import new_id
from placet.domain.catalog import load_catalog
from placet.runtime.service import Runtime, Service, main

CALLS_PER_TURN = int(os.environ.get("PLACET_BENCH_CALLS_PER_TURN", "1"))
TOOL = os.environ.get("PLACET_BENCH_TOOL", "touch")
SLEEP = {"milliseconds": int(os.environ.get("PLACET_BENCH_MILLISECONDS", "0"))}
THINKING_SECONDS = int(os.environ.get("PLACET_BENCH_MODEL_MILLISECONDS", "0")) / 1000
ASKED = Path(os.environ["PLACET_BENCH_FOLDER"]) / "asked"


async def ask(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], **_: Any) -> ModelAnswer:
    """Propose the one tool as often as a turn has calls, and say done after the last one's result."""
    conversation = next(each["content"] for each in messages if each["role"] == "user").split()[-1]
    results = sum(each["role"] == "tool" for each in messages)
    append(ASKED, f"{conversation} {results} {time.perf_counter()}")
    if THINKING_SECONDS:
        await asyncio.sleep(THINKING_SECONDS)
    if _results_since_a_person_wrote(messages) >= CALLS_PER_TURN:
        return _answer("done")
    name = next(tool["function"]["name"] for tool in tools if tool["function"]["name"].endswith(TOOL))
    return _answer("", ProposedCall(new_id(), name, json.dumps(SLEEP if TOOL == "sleep" else ARGUMENTS)))


def _results_since_a_person_wrote(messages: Sequence[Mapping[str, Any]]) -> int:
    since = takewhile(lambda each: each["role"] != "user", reversed(messages))
    return sum(each["role"] == "tool" for each in since)


def _answer(text: str, *calls: ProposedCall) -> ModelAnswer:
    spoken = [{"id": call.provider_call_id, "type": "function", "function": _function(call)} for call in calls]
    raw: dict[str, Any] = {"role": "assistant", "content": text} | ({"tool_calls": spoken} if spoken else {})
    finish = "tool_calls" if calls else "stop"
    return ModelAnswer(
        text=text, calls=calls, finish_reason=finish, input_tokens=0, output_tokens=0, model="stub", raw=raw
    )


def _function(call: ProposedCall) -> dict[str, str]:
    return {"name": call.name, "arguments": call.arguments_text}


def build(settings: AgentSettings, runtime: Runtime) -> Service:
    """Return the agent with the stub model."""
    return build_with(settings, runtime, ask, load_catalog(settings.rulebook))


if __name__ == "__main__":
    main("agent", AgentSettings, build)
