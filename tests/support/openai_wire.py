"""OpenAI's side of the scripted model server: read a request, write an answer, whole or as events."""

import itertools
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.support.model_script import Answer, Call, Transcript, arguments_text, digest_of, words

FRAGMENT = 6


def read(body: dict[str, Any]) -> Transcript:
    """Reduce a valid Chat Completions body to what a rule may know."""
    messages = body["messages"]
    last_user = max((n for n, m in enumerate(messages) if m["role"] == "user"), default=-1)
    results = list(itertools.takewhile(lambda m: m["role"] == "tool", reversed(messages)))[::-1]
    names = {call["id"]: call["function"]["name"] for m in messages for call in m.get("tool_calls") or []}
    return Transcript(
        model=body["model"],
        user_text=_text(messages[last_user].get("content")) if last_user >= 0 else "",
        results_of=tuple(names[m["tool_call_id"]] for m in results),
        results=tuple(_text(m["content"]) for m in results),
        step=sum(m["role"] == "assistant" for m in messages[last_user + 1 :]),
        tool_choice=body.get("tool_choice", "auto") if body.get("tools") else "none",
        digest=digest_of([body["model"], messages]),
    )


def whole(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """Write the answer as one response body."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def events(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """Write the answer as server-sent events, one string each, `[DONE]` included."""
    head = _head(body, "chat.completion.chunk")

    def event(delta: dict[str, Any], finish: str | None = None) -> str:
        return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield event({"role": "assistant", "content": ""})
    for word in words(answer.text):
        yield event({"content": word})
    for piece in _pieces(answer):
        yield event({"tool_calls": [piece]})
    yield event({}, _finish(answer))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": _usage(answer)})
    yield "data: [DONE]\n\n"


def error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Write an error as OpenAI does."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_event() -> str:
    """Write the error that arrives in the middle of a stream."""
    return _event(error_body(500, "The server had an error while processing your request."))


def _pieces(answer: Answer) -> Iterator[dict[str, Any]]:
    series = [list(_call_pieces(place, call)) for place, call in enumerate(answer.calls)]
    if not answer.interleave:
        yield from itertools.chain.from_iterable(series)
        return
    for row in itertools.zip_longest(*series):
        yield from (piece for piece in row if piece)


def _call_pieces(place: int, call: Call) -> Iterator[dict[str, Any]]:
    index = place if call.index is None else call.index
    head = {"index": index, **_call(call)}
    yield {**head, "function": {"name": call.name, "arguments": ""}}
    text = arguments_text(call)
    for start in range(0, len(text), FRAGMENT):
        yield {"index": index, "function": {"arguments": text[start : start + FRAGMENT]}}


def _call(call: Call) -> dict[str, Any]:
    call_id = f"call_{uuid4().hex[:24]}" if call.id is None else call.id
    function = {"name": call.name, "arguments": arguments_text(call)}
    return {**({"id": call_id} if call_id else {}), "type": "function", "function": function}


def _finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.calls else "stop")


def _usage(answer: Answer) -> dict[str, int]:
    spent = {"prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens}
    return {**spent, "total_tokens": sum(spent.values())}


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": 1_700_000_000, "model": body["model"]}


def _event(payload: dict[str, Any]) -> str:
    return f"data: {json.dumps(payload)}\n\n"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or ())
