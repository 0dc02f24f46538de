"""A model that is a Python function: for tests, demos and rules of thumb that need no key and no network.

`python/module:function` names it. The function takes what a model takes, `(messages, tools, tool_choice)` in OpenAI's
shape, and returns an assistant message: `{"content": …, "tool_calls": […]}`. The same transcript should always get the
same answer. Words stand in for tokens. One that is `async` runs on the event loop, any other in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from placet.agent.model_answer import ANSWER_MAX
from placet.contracts.errors import PlacetError
from placet.runtime.watchdog import at_leisure

PROVIDER = "python"
#: Letters of the longest word that counts as one.
_WORD = 50
#: Characters of argument text per stream piece, and pieces of the words of an answer and of its calls at most: a long
#: one comes in longer pieces, so that nothing else waits for thousands of them.
_FRAGMENT, _PIECES_MAX = 12, 1_000
_READ_MAX = ANSWER_MAX + 1

Message = Mapping[str, Any]
#: Where functions are asked that are not `async`: one after another, as their authors expect, and nobody else waits.
_THREAD = ThreadPoolExecutor(1, "python-model")

Reply = Callable[[Sequence[Message], Sequence[Message], str], Message | Awaitable[Message]]


@cache
def function_of(name: str) -> Reply:
    """Return the function that `module:function` names; PlacetError where there is none."""
    module, _, function = name.partition(":")
    try:
        found: Reply = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        named = "PLACET_MODEL names the model, such as openai/gpt-4o with its key in PLACET_MODEL_API_KEY"
        where = f"{named}; PLACET_TOOLS is the folder of own code"
        raise PlacetError(f"no model is at python/{name}: {error} ({where})") from error
    return found


def check(model: str) -> None:
    """Raise PlacetError where a model is to be a function that is not there; models of providers pass."""
    provider, _, name = model.partition("/")
    if provider == PROVIDER:
        function_of(name)


@dataclass(frozen=True)
class PythonAnswer:
    """One answer of such a function, whole or in pieces."""

    content: str
    calls: Sequence[Mapping[str, Any]]
    words_read: int

    @classmethod
    async def of(cls, name: str, messages: Sequence[Message], tools: Sequence[Any], choice: str) -> PythonAnswer:
        """Ask the function that `name` names, which may be `async`; any other is asked in a thread, one at a time."""
        function, asked = function_of(name), (messages, tools, choice)
        at_once: bool = iscoroutinefunction(function)
        loop = asyncio.get_running_loop()
        with at_leisure():
            said = function(*asked) if at_once else await loop.run_in_executor(_THREAD, function, *asked)
            message = await said if isawaitable(said) else said
        words_read = sum(_words(_text_of(each.get("content"))) for each in messages)
        # No more is looked at than shows that an answer is too long.
        content, calls = (message.get("content") or "")[:_READ_MAX], message.get("tool_calls") or ()
        return cls(content, [{**each, "function": _bounded(each["function"])} for each in calls], words_read)

    @property
    def finish_reason(self) -> str:
        """OpenAI's word for how the answer ended."""
        return "tool_calls" if self.calls else "stop"

    def message(self) -> dict[str, Any]:
        """Return the whole answer."""
        calls = {"tool_calls": [dict(call) for call in self.calls]} if self.calls else {}
        return {"role": "assistant", "content": self.content or None, **calls}

    def deltas(self) -> Iterator[dict[str, Any]]:
        """Yield the answer as stream deltas: words first, then each call in fragments."""
        yield {"role": "assistant", "content": ""}
        words = self.content.split(" ") if self.content else []
        step = 1 + len(words) // _PIECES_MAX
        for start in range(0, len(words), step):
            piece = " ".join(words[start : start + step])
            yield {"content": f" {piece}" if start else piece}
        written = sum(len(call["function"]["arguments"]) for call in self.calls)
        size = max(_FRAGMENT, written // _PIECES_MAX)
        for index, call in enumerate(self.calls):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            head = {"index": index, "id": call["id"], "type": "function", "function": {"name": name, "arguments": ""}}
            yield {"tool_calls": [head]}
            for start in range(0, len(arguments), size):
                piece = arguments[start : start + size]
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def usage(self) -> dict[str, int]:
        """Count words, for want of tokens."""
        written = _words(self.content) + sum(_words(each["function"]["arguments"]) for each in self.calls)
        spent = {"prompt_tokens": self.words_read, "completion_tokens": written}
        return {**spent, "total_tokens": sum(spent.values())}


def _bounded(function: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**function, "arguments": function["arguments"][:_READ_MAX]}


def _words(text: str) -> int:
    """Count the words of a text; a longer one than people write counts as several, so that none is free."""
    return sum(-(-len(word) // _WORD) for word in text.split())


def _text_of(content: Any) -> str:
    """Return the text of a message's content, which may come in parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return str(content or "")
