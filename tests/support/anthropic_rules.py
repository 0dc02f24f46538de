"""What Anthropic refuses in a Messages request, as a pure check of the body.

The answer is the error text the provider would send, or None for a valid request. Consecutive messages of one
role count as one, because that is how the provider reads them before it applies its order rules.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
TOOL_USE_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
BLOCK_TYPES = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}
#: Ids of calls that were made after thinking: the server keeps no memory, so the id remembers it.
THINKING_ID_PREFIX = "toolu_thk_"

Turn = tuple[str, list[dict[str, Any]]]


def anthropic_fault(body: Any) -> str | None:
    """Why Anthropic would answer 400 to this request, or None."""
    return next(_faults(body), None)


def thinking_signature(thinking: str) -> str:
    """Sign a thinking block the way the scripted server does; it asks the block back unchanged."""
    return "sig_" + sha256(thinking.encode()).hexdigest()


def _faults(body: Any) -> Iterator[str]:
    if not isinstance(body, dict):
        yield "The request body is not valid JSON"
        return
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: Field required"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    yield from _tools(body)
    for place, message in enumerate(messages):
        yield from _message(place, message)
    turns = _merged(messages)
    yield from _order(turns)
    yield from _thinking(body, turns)


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools") or []
    names = [str(tool.get("name")) for tool in tools]
    for place, tool in enumerate(tools):
        if not TOOL_NAME.match(names[place]):
            yield f"tools.{place}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        if (tool.get("input_schema") or {}).get("type") != "object":
            yield f"tools.{place}.custom.input_schema.type: Field required"
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    if body.get("tool_choice") and not tools:
        yield "tool_choice may only be specified while providing tools."
    elif body.get("tool_choice", {"type": "auto"}).get("type") not in {"auto", "any", "tool", "none"}:
        yield "tool_choice: Input tag does not match any of the expected tags"
    blocks = [block for message in body["messages"] for block in _blocks(message)]
    if not tools and any(block.get("type") in {"tool_use", "tool_result"} for block in blocks):
        yield "Requests which have `tool_use` or `tool_result` blocks in `messages` must define `tools`."


def _message(place: int, message: Any) -> Iterator[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in BLOCK_TYPES:
        yield f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant".'
        return
    for key in message.keys() - {"role", "content"}:
        yield f"messages.{place}.{key}: Extra inputs are not permitted"
    blocks = _blocks(message)
    if not blocks:
        yield f"messages.{place}: all messages must have non-empty content"
    for number, block in enumerate(blocks):
        where = f"messages.{place}.content.{number}"
        if block.get("type") not in BLOCK_TYPES[role]:
            yield f"{where}: Input tag '{block.get('type')}' does not match any of the expected tags"
        if block.get("type") == "text" and not str(block.get("text", "")).strip():
            yield f"{where}: text content blocks must be non-empty"
        if block.get("type") == "tool_use":
            yield from _tool_use(where, block)
        if block.get("type") == "thinking" and block.get("signature") != thinking_signature(block["thinking"]):
            yield f"{where}: Invalid `signature` in `thinking` block"


def _tool_use(where: str, block: dict[str, Any]) -> Iterator[str]:
    if not TOOL_USE_ID.match(str(block.get("id"))):
        yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not TOOL_NAME.match(str(block.get("name"))):
        yield f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.tool_use.input: Input should be a valid dictionary"


def _order(turns: list[Turn]) -> Iterator[str]:
    if turns[0][0] != "user":
        yield 'messages: first message must use the "user" role'
    used = [block["id"] for _, blocks in turns for block in blocks if block.get("type") == "tool_use"]
    if len(set(used)) < len(used):
        yield "messages: `tool_use` ids must be unique"
    for (_, before), (_, after) in pairwise([("", []), *turns, ("", [])]):
        yield from _pair(before, after)
    if turns[-1][0] == "assistant":
        yield ("This model does not support assistant message prefill. The conversation must end with a user message.")


def _pair(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[str]:
    """Every `tool_use` of one message is answered in the next one, first and once."""
    asked = [block["id"] for block in before if block.get("type") == "tool_use"]
    results = [block.get("tool_use_id") for block in after if block.get("type") == "tool_result"]
    leading = [block.get("type") for block in after[: len(results)]]
    missing = [call_id for call_id in asked if call_id not in results]
    if missing or set(leading) - {"tool_result"}:
        yield (
            "messages: `tool_use` ids were found without `tool_result` blocks immediately after: "
            + ", ".join(missing or asked)
        )
    for call_id in results:
        if call_id not in asked:
            yield f"messages: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}."
        elif results.count(call_id) > 1:
            yield f"messages: each tool_use must have a single result. Found multiple for id: {call_id}"


def _thinking(body: dict[str, Any], turns: list[Turn]) -> Iterator[str]:
    """While a tool loop is open its assistant message must come back with its thinking blocks first."""
    if len(turns) < 2 or not any(block.get("type") == "tool_result" for block in turns[-1][1]):
        return
    loop = turns[-2][1]
    asked = any(str(block.get("id", "")).startswith(THINKING_ID_PREFIX) for block in loop)
    thinking = asked or (body.get("thinking") or {}).get("type") == "enabled"
    if thinking and (not loop or loop[0].get("type") not in {"thinking", "redacted_thinking"}):
        found = loop[0].get("type") if loop else "nothing"
        yield f"messages: Expected `thinking` or `redacted_thinking`, but found `{found}`."


def _merged(messages: Sequence[dict[str, Any]]) -> list[Turn]:
    """Consecutive messages of one role are one message to Anthropic."""
    turns: list[Turn] = []
    for message in messages:
        role = str(message.get("role"))
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(_blocks(message))
        else:
            turns.append((role, list(_blocks(message))))
    return turns


def _blocks(message: Any) -> list[dict[str, Any]]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in content or [] if isinstance(block, dict)]
