"""What of a transcript may be sent to which provider.

A provider refuses a history for ever once it holds one message that breaks its rules, and some of what a
model writes does: names with blanks, arguments that are no JSON, ids longer than 40 characters. The
transcript keeps what was said; this module writes the copy for the wire. It changes no order and invents no
result.

Pure: messages in, messages out.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

KEYS = {
    "system": ("role", "content"),
    "user": ("role", "content", "name"),
    "assistant": ("role", "content", "tool_calls"),
    "tool": ("role", "content", "tool_call_id"),
}
#: What only its author may get back, by provider; anybody else refuses it or its signature.
RETURNED_TO_AUTHOR = {
    "anthropic": ("thinking_blocks",),
    "deepseek": ("reasoning_content",),
    "moonshot": ("reasoning_content",),
}
CLAUDE_HOSTS = {"anthropic", "azure_ai", "bedrock", "vertex_ai"}
#: These hide a signature in their call ids and need each id back whole.
KEEPS_LONG_IDS = {"gemini", "vertex_ai"}
PLAIN_ID = re.compile(r"^[a-zA-Z0-9_-]{1,40}$")
NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
NAME_LENGTH_MAX = 64


def speaks_anthropic(provider: str, model: str) -> bool:
    """Whether answers come in Anthropic's protocol, where a call without argument text means `{}`."""
    return provider == "anthropic" or (provider in CLAUDE_HOSTS and "claude" in model)


def provider_messages(messages: Iterable[Mapping[str, Any]], *, provider: str, model: str) -> list[dict[str, Any]]:
    """Write the copy of a transcript for one provider; `model` is the name its settings use."""
    return [_message(message, provider, model) for message in messages]


def bound_to(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Name the only model that may continue this transcript, or None when any may.

    In an open tool loop the thinking blocks of its assistant message must go back to their author; another
    model could not continue the loop, so a fallback has to wait for the next turn of the user.
    """
    if not messages or messages[-1].get("role") != "tool":
        return None
    loop = next((message for message in reversed(messages) if message.get("role") == "assistant"), None)
    return loop.get("origin") if loop and loop.get("thinking_blocks") else None


def call_ids(messages: Iterable[Mapping[str, Any]]) -> set[str]:
    """Collect the ids of every call in a transcript."""
    return {str(call.get("id")) for message in messages for call in message.get("tool_calls") or ()}


def _message(message: Mapping[str, Any], provider: str, model: str) -> dict[str, Any]:
    kept = {key: message[key] for key in _keys(message, provider, model) if message.get(key) is not None}
    if message.get("role") == "assistant":
        kept.setdefault("content", None if kept.get("tool_calls") else "")
    if kept.get("tool_calls"):
        kept["tool_calls"] = [_call(call, provider) for call in kept["tool_calls"]]
    if "tool_call_id" in kept:
        kept["tool_call_id"] = _call_id(kept["tool_call_id"], provider)
    return kept


def _keys(message: Mapping[str, Any], provider: str, model: str) -> tuple[str, ...]:
    keys = KEYS[message["role"]]
    if message["role"] != "assistant" or message.get("origin") != model:
        return keys
    author = "anthropic" if speaks_anthropic(provider, model) else provider
    return keys + RETURNED_TO_AUTHOR.get(author, ())


def _call(call: Mapping[str, Any], provider: str) -> dict[str, Any]:
    function = call["function"]
    return {
        "id": _call_id(call["id"], provider),
        "type": "function",
        "function": {"name": _name(function["name"]), "arguments": _arguments(function["arguments"])},
    }


def _call_id(call_id: str, provider: str) -> str:
    if provider in KEEPS_LONG_IDS or PLAIN_ID.match(call_id):
        return call_id
    return "call_" + sha256(call_id.encode()).hexdigest()[:32]


def _name(name: str) -> str:
    return NOT_IN_A_NAME.sub("_", name)[:NAME_LENGTH_MAX] or "unnamed"


def _arguments(text: str) -> str:
    """Keep an object as it was written; wrap anything else, so that the model can read what it wrote."""
    try:
        whole = isinstance(json.loads(text), dict)
    except ValueError:
        whole = False
    return text if whole else json.dumps({"unreadable_arguments": text}, ensure_ascii=False)
