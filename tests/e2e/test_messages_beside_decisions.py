"""A message that is posted in the moment of an approval: its own stream has its answer, in every dialect."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from placet.contracts.ids import new_id
from tests.support.http import http_client
from tests.support.people import PATIENCE_SECONDS, Caller, Visitor
from tests.support.system import System

HELLO = "Hello, how can I help you today?"


@contextmanager
def agents_asleep(system: System) -> Iterator[Callable[[], None]]:
    """Let every agent sleep, until the yielded function is called: it hears what happens in the order of that."""
    processes = [each.running for name, each in system.processes.items() if name.startswith("agent") and each.running]

    def wake() -> None:
        for each in processes:
            each.send_signal(signal.SIGCONT)

    for each in processes:
        each.send_signal(signal.SIGSTOP)
    try:
        yield wake
    finally:
        wake()


def posted(dialect: str, conversation: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return the request that says hello in a conversation: path, body and headers."""
    said = {"id": new_id(), "role": "user", "content": "hello"}
    match dialect:
        case "ai-sdk":
            message = {"id": said["id"], "role": "user", "parts": [{"type": "text", "text": "hello"}]}
            return "/api/chat", {"id": conversation, "messages": [message]}, {}
        case "ag-ui":
            return "/agui", {"threadId": conversation, "runId": "run", "messages": [said]}, {}
        case "completions":
            body: dict[str, Any] = {"model": "default", "stream": True, "messages": [said]}
            return "/v1/chat/completions", body, {"Placet-Conversation": conversation}
    body = {"model": "default", "stream": True, "input": "hello", "conversation": conversation}
    return "/v1/responses", body, {}


@pytest.mark.parametrize("dialect", ["ai-sdk", "ag-ui", "completions", "responses"])
async def test_a_message_in_the_moment_of_an_approval_is_answered_in_its_own_stream(
    system: System, dialect: str
) -> None:
    """The agent reads it before it hears of the decision, so its log says that it waits: not for people any more."""
    grace, hopper = (Caller(system.url, system.key("chat", "decide", person=each)) for each in ("grace", "hopper"))
    body = {"model": "default", "input": "deploy the shop"}
    asked = (await grace.request("POST", "/v1/responses", json=body)).json()
    conversation = asked["conversation"]["id"]
    seen = Visitor(system.url, hopper.token, conversation)
    card = await seen.see_card()
    path, said, headers = posted(dialect, conversation)
    headers |= {"authorization": f"Bearer {hopper.token}"}
    with agents_asleep(system) as wake:
        # The stream begins when the message is taken.
        async with (
            http_client(system.url, timeout=PATIENCE_SECONDS) as client,
            client.stream("POST", path, json=said, headers=headers) as answer,
        ):
            approved = await grace.decide(card, "approve")
            wake()
            told = (await answer.aread()).decode()
    assert (200, 200, True) == (approved.status_code, answer.status_code, HELLO in "".join(texts(told)))


def texts(told: str) -> Iterator[str]:
    """Yield the pieces of text of an answer in any dialect."""
    for line in told.splitlines():
        found = line.removeprefix("data: ")
        if found.startswith("{"):
            yield from pieces(json.loads(found))


def pieces(told: Any) -> Iterator[str]:
    """Yield what stands as text in something that was told."""
    for name, value in told.items() if isinstance(told, dict) else ((None, each) for each in told):
        if name in {"delta", "content", "text"} and isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield from pieces(value)
