"""The OpenAI Agents SDK, unchanged, against a whole Placet: its hosted MCP tool is how it asks people."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    HostedMCPTool,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    Runner,
    set_tracing_disabled,
)
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.models.openai_responses import OpenAIResponsesModel
from openai import AsyncOpenAI

from placet.contracts.ids import new_id, own_id
from tests.support.people import PATIENCE_SECONDS, Caller
from tests.support.system import System

set_tracing_disabled(disabled=True)


@pytest.fixture
async def client(system: System) -> AsyncIterator[AsyncOpenAI]:
    """A product's backend whose person may also decide."""
    key = system.key("chat", "decide", person="grace")
    async with AsyncOpenAI(base_url=f"{system.url}/v1", api_key=key, timeout=PATIENCE_SECONDS) as made:
        yield made


def an_agent(client: AsyncOpenAI, *, answer: bool | None = None) -> Agent[Any]:
    """Return Placet's agent as the SDK has it; `answer` is what its person says to requests at once, None: later."""

    def asked(_: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
        return {"approve": bool(answer), "reason": "" if answer else "Not today."}

    tool = HostedMCPTool(
        tool_config={"type": "mcp", "server_label": "placet", "require_approval": "always"},
        on_approval_request=None if answer is None else asked,
    )
    return Agent(name="placet", model=OpenAIResponsesModel("default", client), tools=[tool])


@pytest.mark.parametrize(("answer", "told"), [(True, "The shop is green."), (False, "It was not deployed.")])
async def test_an_approval_is_given_by_a_callback(client: AsyncOpenAI, answer: bool, told: str) -> None:  # noqa: FBT001 - a table's column
    """The SDK posts the whole history with the answer at its end; Placet goes on with the conversation that asked."""
    result = await Runner.run(an_agent(client, answer=answer), "deploy the shop")
    assert told == result.final_output


async def test_an_approval_is_given_by_the_run_that_was_interrupted(client: AsyncOpenAI) -> None:
    """Without a callback the run stops with an interruption, and is resumed when somebody has approved."""
    agent = an_agent(client)
    asked = await Runner.run(agent, "deploy the shop")
    (interruption,) = asked.interruptions
    state = asked.to_state()
    state.approve(interruption)
    done = await Runner.run(agent, state)
    assert ("deploy", "The shop is green.") == (interruption.name, done.final_output)


async def test_a_streamed_run_is_the_same(client: AsyncOpenAI) -> None:
    """Every event is one that the SDK knows."""
    result = Runner.run_streamed(an_agent(client, answer=True), "deploy the shop")
    kinds = [event.type async for event in result.stream_events()]
    assert ("The shop is green.", True) == (result.final_output, "run_item_stream_event" in kinds)


@pytest.mark.parametrize("first", ["hello", "deploy reviewed"])
async def test_a_second_turn_goes_on_by_the_ids_of_the_history(client: AsyncOpenAI, system: System, first: str) -> None:
    """The SDK posts what was said with the ids of its items, which name the conversation; nothing is said twice."""
    agent = an_agent(client)
    begun = await Runner.run(agent, first)
    history: list[Any] = [*begun.to_input_list(mode="preserve_all"), {"role": "user", "content": "was it deployed?"}]
    if begun.interruptions:
        history = [*_asked(begun), history[-1]]
    done = await Runner.run(agent, history)
    conversation = str(begun.raw_responses[0].response_id).split("_", 3)[3]
    stored = await Caller(system.url, client.api_key).get(f"/v1/conversations/{conversation}")
    said = [message["text"] for message in stored["messages"] if message["role"] == "user"]
    assert ("Let me see.", [first, "was it deployed?"]) == (done.final_output, said)


def _asked(run: Any) -> list[Any]:
    """Return a history as a client keeps it that does not wait for answers: what was said, and what was asked."""
    said = {"role": "user", "content": "deploy reviewed"}
    return [said, *(item.model_dump(exclude_unset=True) for response in run.raw_responses for item in response.output)]


async def test_a_second_turn_goes_on_by_the_previous_response(client: AsyncOpenAI) -> None:
    """That names the conversation by itself."""
    agent = an_agent(client)
    begun = await Runner.run(agent, "hello")
    done = await Runner.run(agent, "was it deployed?", previous_response_id=begun.last_response_id)
    assert "Let me see." == done.final_output


async def test_a_history_that_names_nothing_says_what_to_set(client: AsyncOpenAI) -> None:
    """With Chat Completions there are no ids: the error names the header and the member."""
    agent = Agent(name="placet", model=OpenAIChatCompletionsModel("default", client))
    begun = await Runner.run(agent, "hello")
    with pytest.raises(openai.BadRequestError) as refused:
        await Runner.run(agent, [*begun.to_input_list(), {"role": "user", "content": "was it deployed?"}])
    assert "conversation_required" == refused.value.code
    assert {"Placet-Conversation", "metadata.conversation_id"} <= set(refused.value.message.split("`"))


# --- Open WebUI ---------------------------------------------------------------------------------------------------


def open_webui(text: str, *, stream: bool) -> dict[str, Any]:
    """Return what Open WebUI posts: its built-in tools are in every request where native calls are on."""
    names = ("get_current_timestamp", "search_memories", "search_web", "fetch_url", "execute_code", "generate_image")
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tools = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}
        for name in names
    ]
    system = {"role": "system", "content": "You are helpful."}
    return {
        "model": "default",
        "stream": stream,
        "messages": [system, {"role": "user", "content": text}],
        "tools": tools,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("stream", [True, False])
async def test_open_webuis_own_tools_are_passed_over_and_named(frontend: Caller, *, stream: bool) -> None:
    """The agent answers with its own tools; the header says what did not count."""
    chat = {"X-OpenWebUI-Chat-Id": new_id(), "X-OpenWebUI-User-Name": "Grace"}
    body = open_webui("deploy the shop", stream=stream)
    answer = await frontend.request("POST", "/v1/chat/completions", json=body, headers=chat)
    assert (200, "tools", own_id("acme", chat["X-OpenWebUI-Chat-Id"])) == (
        answer.status_code,
        answer.headers.get("placet-ignored"),
        answer.headers["placet-conversation"],
    )
    assert ("Deploying." in answer.text, "tool_calls" in answer.text) == (True, False)
