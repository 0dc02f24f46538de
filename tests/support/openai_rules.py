"""What OpenAI refuses in a Chat Completions request, as a pure check of the body.

The answer is the error text the provider would send, or None for a valid request. It lives apart from the
server because a transcript rule is worth a unit test of its own: a history that breaks one of them is refused
for ever, so the product must never write one.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
ID_LENGTH_MAX = 40
MESSAGE_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}


def openai_fault(body: Any) -> str | None:
    """Why OpenAI would answer 400 to this request, or None."""
    return next(_faults(body), None)


def _faults(body: Any) -> Iterator[str]:
    if not isinstance(body, dict):
        yield "We could not parse the JSON body of your request."
        return
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
        return
    yield from _options(body)
    yield from _tools(body)
    for place, message in enumerate(messages):
        yield from _message(place, message)
    yield from _order(messages)


def _options(body: dict[str, Any]) -> Iterator[str]:
    if "stream_options" in body and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    if "tools" in body and body["tools"] == []:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1."
    for option in ("tool_choice", "parallel_tool_calls"):
        if option in body and not body.get("tools"):
            yield f"'{option}' is only allowed when 'tools' are specified."
    choice = body.get("tool_choice", "auto")
    if not isinstance(choice, dict) and choice not in {"none", "auto", "required"}:
        yield f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'."


def _tools(body: dict[str, Any]) -> Iterator[str]:
    seen: set[str] = set()
    for place, tool in enumerate(body.get("tools") or []):
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict):
            yield f"Missing required parameter: 'tools[{place}].function'."
            continue
        name = function.get("name")
        if not isinstance(name, str) or not TOOL_NAME.match(name):
            yield f"Invalid 'tools[{place}].function.name': string does not match pattern."
        elif name in seen:
            yield f"Invalid 'tools[{place}].function.name': duplicate name '{name}'."
        seen.add(str(name))
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            yield f"Invalid schema for function '{name}': schema must be of type 'object'."


def _message(place: int, message: Any) -> Iterator[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in MESSAGE_KEYS:
        yield f"Invalid value: '{role}' at messages[{place}].role."
        return
    for key in message.keys() - MESSAGE_KEYS[role]:
        yield f"Additional properties are not allowed ('{key}' was unexpected) - 'messages.{place}'"
    calls = message.get("tool_calls")
    if calls is not None:
        yield from _calls(place, calls)
    content = message.get("content")
    if role == "assistant" and content is None and not calls and not message.get("refusal"):
        yield f"Invalid value for 'content' of messages[{place}]: expected a string, got null."
    if role != "assistant" and not isinstance(content, str | list):
        yield f"Invalid value for 'content' of messages[{place}]: expected a string."
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield f"Missing required parameter: 'messages[{place}].tool_call_id'."


def _calls(place: int, calls: Any) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        yield f"Invalid 'messages[{place}].tool_calls': empty array. Expected minimum length 1."
        return
    seen: set[str] = set()
    for number, call in enumerate(calls):
        where = f"messages[{place}].tool_calls[{number}]"
        yield from _call(where, call)
        call_id = str(call.get("id"))
        if call_id in seen:
            yield f"Duplicate value for 'tool_call_id' of '{call_id}' in {where}."
        seen.add(call_id)


def _call(where: str, call: dict[str, Any]) -> Iterator[str]:
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id:
        yield f"Missing required parameter: '{where}.id'."
    elif len(call_id) > ID_LENGTH_MAX:
        yield f"Invalid '{where}.id': string too long. Expected a string with maximum length 40."
    for key in call.keys() - {"id", "type", "function"}:
        yield f"Unknown parameter: '{where}.{key}'."
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict):
        yield f"Missing required parameter: '{where}.function'."
        return
    if not TOOL_NAME.match(str(function.get("name"))):
        yield f"Invalid '{where}.function.name': string does not match pattern."
    if not isinstance(function.get("arguments"), str):
        yield f"Invalid type for '{where}.function.arguments': expected a string."


def _order(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    open_ids: dict[str, bool] = {}
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id"))
            if call_id not in open_ids:
                yield (
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                    f" (messages[{place}])"
                )
            elif open_ids[call_id]:
                yield f"Duplicate value for 'tool_call_id' of '{call_id}' in messages[{place}]."
            open_ids[call_id] = True
            continue
        yield from _missing(open_ids)
        open_ids = {str(call.get("id")): False for call in message.get("tool_calls") or []}
    yield from _missing(open_ids)


def _missing(open_ids: dict[str, bool]) -> Iterator[str]:
    missing = [call_id for call_id, answered in open_ids.items() if not answered]
    if missing:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            " 'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(missing)
        )
