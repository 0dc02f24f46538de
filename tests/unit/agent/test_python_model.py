"""A model that is a Python function answers whole and in pieces alike."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from placet.agent.model_answer import ANSWER_MAX, Draft, ModelAnswerCut
from placet.agent.python_model import PythonAnswer, function_of
from placet.contracts.errors import PlacetError
from placet.testing import ScriptedModel, call
from tests.support.tool_builders import a_module

TOOLS = [{"type": "function", "function": {"name": "pay"}}]
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "pay it please"}]}]


async def test_the_pieces_join_to_exactly_the_message() -> None:
    """Words first, then each call in fragments."""
    model = ScriptedModel(call("pay", text="one two  three", amount=299, currency="TRY"))
    with a_module("own_model_of_a_test", model=model) as name:
        answer = await PythonAnswer.of(f"{name}:model", MESSAGES, TOOLS, "auto")
    deltas = list(answer.deltas())
    text = "".join(delta.get("content", "") for delta in deltas)
    pieces = [piece["function"]["arguments"] for delta in deltas for piece in delta.get("tool_calls", ())]
    whole = answer.message()
    (made,) = whole["tool_calls"]
    assert (whole["content"], made["function"]["arguments"]) == (text, "".join(pieces))
    assert {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10} == answer.usage()


MANY = {**call("pay"), "tool_calls": [each for _ in range(24) for each in call("pay", note="x" * 58_000)["tool_calls"]]}


@pytest.mark.parametrize("message", [{"content": "word " * 50_000}, call("pay", note="x" * 500_000), MANY])
async def test_a_long_answer_comes_in_few_pieces(message: Any) -> None:
    """All of it, and nothing else waits until hundreds of thousands of them are taken."""
    with a_module("long_model_of_a_test", model=ScriptedModel(message)) as name:
        answer = await PythonAnswer.of(f"{name}:model", MESSAGES, TOOLS, "auto")
    draft, deltas, whole = Draft(), list(answer.deltas()), Draft()
    for delta in deltas:
        draft.take(delta)
    whole.take_message(answer.message())
    told = [(each.text, [call.fragments for call in each.calls]) for each in (draft, whole)]
    joined = [(text, ["".join(fragments) for fragments in calls]) for text, calls in told]
    assert (joined[1], True) == (joined[0], len(deltas) < 1_100)


@pytest.mark.parametrize("message", [{"content": "word " * 4_000_000}, call("pay", note="x" * 20_000_000)])
async def test_of_an_answer_that_is_too_long_only_a_part_is_read(message: Any) -> None:
    """Enough to say that it is; the rest would keep the process busy for nothing."""
    with a_module("endless_model_of_a_test", model=ScriptedModel(message)) as name:
        answer = await PythonAnswer.of(f"{name}:model", MESSAGES, TOOLS, "auto")
    written = len(answer.content) + sum(len(each["function"]["arguments"]) for each in answer.calls)
    draft = Draft()
    with pytest.raises(ModelAnswerCut):
        draft.take_message(answer.message())
    assert ANSWER_MAX + 1 == written


async def test_a_long_word_counts_as_several() -> None:
    """An answer without a space is as long as it is: limits of tokens hold for it."""
    with a_module("wordy_model_of_a_test", model=ScriptedModel({"content": "x" * 1_000})) as name:
        answer = await PythonAnswer.of(f"{name}:model", MESSAGES, TOOLS, "auto")
    assert 20 == answer.usage()["completion_tokens"]


async def test_a_function_that_thinks_long_keeps_nothing_else_waiting() -> None:
    """It is asked in a thread; two are asked one after another."""
    asked, answered, others = threading.Event(), threading.Event(), []

    def slow(*_: Any) -> dict[str, Any]:
        others.append(asked.is_set() and not answered.is_set())
        asked.set()
        answered.wait()
        return {"content": "At last."}

    with a_module("thinking_model_of_a_test", model=slow) as name:
        waiting = [asyncio.create_task(PythonAnswer.of(f"{name}:model", MESSAGES, TOOLS, "auto")) for _ in range(2)]
        await asyncio.to_thread(asked.wait)
        answered.set()
        found = await asyncio.gather(*waiting)
    assert (["At last."] * 2, [False, False]) == ([each.content for each in found], others)


async def test_an_async_function_keeps_nothing_else_waiting() -> None:
    """What it waits for happens meanwhile."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any) -> dict[str, Any]:
        asked.set()
        await answered.wait()
        return {"content": "At last."}

    with a_module("slow_model_of_a_test", model=slow) as name:
        answering = asyncio.ensure_future(PythonAnswer.of(f"{name}:model", MESSAGES, TOOLS, "auto"))
        await asked.wait()
        answered.set()
        assert "At last." == (await answering).content


@pytest.mark.parametrize("name", ["nowhere_at_all:model", "json:nothing", "json"])
def test_a_model_that_is_not_there_is_one_line(name: str) -> None:
    """It says how a model is named, one of a provider too, and where own code is looked for."""
    told = r"PLACET_MODEL names the model, such as openai/gpt-4o with its key in PLACET_MODEL_API_KEY; PLACET_TOOLS "
    with pytest.raises(PlacetError, match=rf"^no model is at python/{name}: .*{told}"):
        function_of(name)
