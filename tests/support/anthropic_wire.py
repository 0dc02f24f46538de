"""Anthropic's side of the scripted model server: read a request, write an answer, whole or as events."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.support.anthropic_rules import THINKING_ID_PREFIX, thinking_signature
from tests.support.model_script import Answer, Call, Transcript, arguments_text, digest_of, words

FRAGMENT = 6
STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def read(body: dict[str, Any]) -> Transcript:
    """Reduce a valid Messages body to what a rule may know."""
    messages = [(m["role"], _blocks(m)) for m in body["messages"]]
    spoken = [n for n, (role, blocks) in enumerate(messages) if role == "user" and _text(blocks)]
    last_user = max(spoken, default=-1)
    names = {b["id"]: b["name"] for _, blocks in messages for b in blocks if b["type"] == "tool_use"}
    ending = messages[-1][1]
    results = [] if _text(ending) else [b for b in ending if b["type"] == "tool_result"]
    choice = (body.get("tool_choice") or {"type": "auto"})["type"]
    return Transcript(
        model=body["model"],
        user_text=_text(messages[last_user][1]) if last_user >= 0 else "",
        results_of=tuple(names[b["tool_use_id"]] for b in results),
        results=tuple(_result_text(b) for b in results),
        step=sum(role == "assistant" for role, _ in messages[last_user + 1 :]),
        tool_choice=choice if body.get("tools") else "none",
        digest=digest_of([body["model"], body["messages"]]),
    )


def whole(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """Write the answer as one response body; argument text that is no JSON goes out as a bare string."""
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append(_thinking(answer))
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    blocks += [{**_tool_use(call, answer), "input": _input(call)} for call in answer.calls]
    return {**_head(body, answer), "content": blocks, "stop_reason": _stop(answer), "usage": _usage(answer)}


def events(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """Write the answer as server-sent events, one string each."""
    yield _event("message_start", message=_head(body, answer))
    yield _event("ping")
    for index, (start, deltas) in enumerate(_streamed(answer)):
        yield _event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": _stop(answer), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": answer.output_tokens})
    yield _event("message_stop")


def error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Write an error as Anthropic does, which has no codes."""
    del code
    kinds = {429: "rate_limit_error", 401: "authentication_error", 529: "overloaded_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def error_event() -> str:
    """Write the error that arrives in the middle of a stream."""
    return _event("error", error={"type": "overloaded_error", "message": "Overloaded"})


def _streamed(answer: Answer) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each content block as its start and its deltas."""
    if answer.thinking:
        thinking = {"type": "thinking_delta", "thinking": answer.thinking}
        signature = {"type": "signature_delta", "signature": thinking_signature(answer.thinking)}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [thinking, signature]
    if answer.text:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": word} for word in words(answer.text)],
        )
    for call in answer.calls:
        text = arguments_text(call)
        cuts = range(0, len(text), FRAGMENT)
        fragments = [{"type": "input_json_delta", "partial_json": text[at : at + FRAGMENT]} for at in cuts]
        yield {**_tool_use(call, answer), "input": {}}, fragments


def _tool_use(call: Call, answer: Answer) -> dict[str, Any]:
    prefix = THINKING_ID_PREFIX if answer.thinking else "toolu_"
    call_id = f"{prefix}{uuid4().hex[:24]}" if call.id is None else call.id
    return {"type": "tool_use", "id": call_id, "name": call.name}


def _input(call: Call) -> Any:
    try:
        return json.loads(arguments_text(call) or "{}")
    except ValueError:
        return call.arguments


def _thinking(answer: Answer) -> dict[str, Any]:
    signature = thinking_signature(answer.thinking)
    return {"type": "thinking", "thinking": answer.thinking, "signature": signature}


def _stop(answer: Answer) -> str:
    return STOP_REASONS[answer.finish or ("tool_calls" if answer.calls else "stop")]


def _usage(answer: Answer) -> dict[str, int]:
    return {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}


def _head(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    head = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "model": body["model"]}
    usage = {"input_tokens": answer.input_tokens, "output_tokens": 1}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}


def _event(kind: str, **payload: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **payload})}\n\n"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def _result_text(block: dict[str, Any]) -> str:
    content = block.get("content", "")
    return content if isinstance(content, str) else _text(content)
