"""The agent with a model that answers at once: `python -m bench.stub_agent`. Everything else is the real service.

PLACET_BENCH_CALLS_PER_TURN calls that it proposes in a turn, one after the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from bench.floor import ARGUMENTS
from services.agent.assembly import ModelAnswer, ProposedCall
from services.agent.service import build_with
from services.agent.settings import AgentSettings
from shared.catalog import load_catalog
from shared.ids import new_id
from shared.service import Runtime, Service, main

CALLS_PER_TURN = int(os.environ.get("PLACET_BENCH_CALLS_PER_TURN", "1"))


async def ask(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], **_: Any) -> ModelAnswer:
    """Propose the one tool as often as a turn has calls, and say done after the last one's result."""
    if _results_since_a_person_wrote(messages) >= CALLS_PER_TURN:
        return _answer("done")
    call = ProposedCall(new_id(), tools[0]["function"]["name"], json.dumps(ARGUMENTS))
    return _answer("", call)


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
