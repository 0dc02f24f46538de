"""A model that follows a script: for tests of agents, rules and frontends, without a key or a network.

# shop_model.py, in the folder that PLACET_TOOLS names; PLACET_MODEL=python/shop_model:model
model = ScriptedModel(call("create_pay_link", amount=299, currency="TRY"), say("Here it is."))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Message = dict[str, Any]


def say(text: str) -> Message:
    """Return an answer of words alone."""
    return {"content": text}


def call(tool: str, /, *, text: str = "", **arguments: Any) -> Message:
    """Return an answer that proposes one call; `text` goes before it."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"content": text or None, "tool_calls": [{"id": "call_0", "type": "function", "function": function}]}


class ScriptedModel:
    """Gives its answers one after the other in each conversation, and the last one from then on.

    It remembers nothing: how many answers a transcript has says which one comes next, in any process.
    """

    def __init__(self, *answers: Message) -> None:
        if not answers:
            raise ValueError("a scripted model needs an answer")
        self._answers = answers

    def __call__(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], tool_choice: str = "auto"
    ) -> Message:
        """Answer a transcript."""
        given = sum(message.get("role") == "assistant" for message in messages)
        answer = self._answers[min(given, len(self._answers) - 1)]
        calls = answer.get("tool_calls", [])
        # An id is used once in a conversation.
        named = [{**each, "id": f"call_{given}_{place}"} for place, each in enumerate(calls)]
        offered = {tool["function"]["name"] for tool in tools}
        if tool_choice == "none" or any(each["function"]["name"] not in offered for each in named):
            return {"content": answer.get("content") or "I have no tool for this."}
        return {**answer, **({"tool_calls": named} if named else {})}
