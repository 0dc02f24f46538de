"""What goes to a model without personal data, and what comes back with it.

The whole history is hidden before it becomes a transcript, so that JSON, marks and cuts are made of what the model may
read. Of an answer, everything that is checked, stored and shown is restored; a sealed thought stays as its author
wrote it, since only its author reads it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from placet.agent.model_answer import ModelAnswer
from placet.agent.pseudonyms import Pseudonyms
from placet.agent.transcript import Call, History

Change = Callable[[str], str]

#: Strings and whole numbers of JSON text; what stands inside a string is never taken for a number.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.+-])[1-9][0-9]{6,}(?![\w.+-])', re.DOTALL)
_INTEGER = re.compile(r"[1-9][0-9]*")


def hidden(history: History, pseudonyms: Pseudonyms) -> History:
    """Return a history that a model may read."""
    hide = pseudonyms.hide
    return History(
        tuple(replace(each, text=hide(each.text)) for each in history.messages),
        tuple(replace(each, raw=_content(each.raw, hide)) for each in history.steps),
        tuple(_hidden_call(each, hide) for each in history.calls),
        tuple(replace(each, text=hide(each.text)) for each in history.facts),
        tuple(replace(each, operator=hide(each.operator), text=hide(each.text)) for each in history.spoken),
    )


def restored(answer: ModelAnswer, pseudonyms: Pseudonyms) -> ModelAnswer:
    """Return an answer as people, rules and tools are to see it."""
    restore = pseudonyms.restore
    calls = tuple(replace(call, arguments_text=in_json(call.arguments_text, restore)) for call in answer.calls)
    raw = _content(answer.raw, restore)
    if "tool_calls" in raw:
        raw["tool_calls"] = [
            written | {"function": written["function"] | {"arguments": call.arguments_text}}
            for written, call in zip(raw["tool_calls"], calls, strict=True)
        ]
    return replace(answer, text=restore(answer.text), calls=calls, raw=raw)


def texts(history: History) -> str:
    """Return everything that stands in a history, to keep pseudonyms away from it."""
    told = [each.text for each in history.messages]
    told += [each.text for each in history.facts]
    told += [each.text for each in history.spoken]
    said = [str(each.raw.get("content") or "") for each in history.steps]
    results = [json.dumps(call.result, ensure_ascii=False) for call in history.calls]
    return "\n".join([*told, *said, *(call.arguments for call in history.calls), *results])


def in_json(text: str, change: Change) -> str:
    """Change the strings and large whole numbers of JSON text; all else, mistakes too, stays to the letter."""
    return _TOKENS.sub(lambda token: _changed_token(token[0], change), text)


def _changed_token(token: str, change: Change) -> str:
    if not token.startswith('"'):
        changed = change(token)
        return changed if changed == token or _INTEGER.fullmatch(changed) else _string(changed)
    try:
        value = json.loads(token, strict=False)
    except ValueError:
        return token
    changed = change(value)
    return token if changed == value else _string(changed)


def _string(value: str) -> str:
    """Write a JSON string; half a character, which no encoding has, is written as its escape."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


def _content(raw: Any, change: Change) -> dict[str, Any]:
    content = raw.get("content")
    return {**raw, "content": change(content)} if isinstance(content, str) else dict(raw)


def _hidden_call(call: Call, hide: Change) -> Call:
    arguments = in_json(call.arguments, hide) if call.sound else hide(call.arguments)
    result = call.result and json.loads(in_json(json.dumps(call.result, ensure_ascii=False), hide))
    return replace(call, arguments=arguments, result=result)


class RestoredText:
    """Passes a model's text on with the data put back; begins anew when the text so far is void."""

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        on_text: Callable[[str], Awaitable[None]],
        on_reset: Callable[[], Awaitable[None]],
    ) -> None:
        self._pseudonyms = pseudonyms
        self._on_text = on_text
        self._on_reset = on_reset
        self._restorer = pseudonyms.restorer()

    async def add(self, text: str) -> None:
        """Take a piece of the model's text."""
        await self._pass_on(self._restorer.add(text))

    async def start_over(self) -> None:
        """Forget the text so far: its attempt failed."""
        self._restorer = self._pseudonyms.restorer()
        await self._on_reset()

    async def close(self) -> None:
        """Pass on what was held back."""
        await self._pass_on(self._restorer.close())

    async def _pass_on(self, text: str) -> None:
        if text:
            await self._on_text(text)
