"""The OpenAI Agents SDK, unchanged, against a whole Placet: its hosted MCP tool is how it asks people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import takewhile
from typing import Any

import httpx
import openai
import pytest
from agents import (
    Agent,
    Handoff,
    HostedMCPTool,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    Model,
    ModelResponse,
    ModelSettings,
    Runner,
    RunResult,
    RunState,
    SQLiteSession,
    Usage,
    set_tracing_disabled,
)
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.models.openai_responses import OpenAIResponsesModel
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from placet.contracts.ids import new_id, own_id
from tests.support.people import PATIENCE_SECONDS, Caller, Visitor
from tests.support.system import System

set_tracing_disabled(disabled=True)


@pytest.fixture
async def client(system: System) -> AsyncIterator[AsyncOpenAI]:
    """A product's backend whose person may also decide."""
    key = system.key("chat", "decide", person="grace")
    async with AsyncOpenAI(base_url=f"{system.url}/v1", api_key=key, timeout=PATIENCE_SECONDS) as made:
        yield made


@pytest.fixture
def posted(client: AsyncOpenAI) -> list[list[Any]]:
    """What the SDK posts as `input`, in order."""
    found: list[list[Any]] = []

    async def note(request: httpx.Request) -> None:
        given = json.loads(request.content)["input"]
        found.append(given if isinstance(given, list) else [])

    client._client.event_hooks["request"].append(note)
    return found


def answered(items: list[Any]) -> list[str]:
    """Return the requests that a post answers: only what stands at its end counts."""
    found = takewhile(lambda item: item.get("type") == "mcp_approval_response", reversed(items))
    return [item["approval_request_id"] for item in found][::-1]


def _approved(run: RunResult) -> RunState[Any]:
    """Return the state of an interrupted run in which everything that it asks about is approved."""
    state = run.to_state()
    for each in run.interruptions:
        state.approve(each)
    return state


async def _decided_elsewhere(
    agent: Agent[Any], operator: Caller, verb: str, session: SQLiteSession | None = None
) -> RunResult:
    """Return an interrupted run whose call somebody else has decided."""
    run = await Runner.run(agent, "deploy the shop", session=session)
    (interruption,) = run.interruptions
    _, approval_id, digest = str(interruption.raw_item.id).split("_")  # type: ignore[union-attr]
    await operator.decide({"approval_id": approval_id, "digest": digest}, verb)
    return run


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


async def test_calls_that_are_approved_by_themselves_are_asked_about_one_by_one(
    client: AsyncOpenAI, posted: list[list[Any]]
) -> None:
    """The SDK answers both together, which approves neither; each is then approved by a request of its own."""
    agent = an_agent(client)
    run = await Runner.run(agent, "deploy two")
    while run.interruptions:
        run = await Runner.run(agent, _approved(run))
    answers = [found for each in posted if (found := answered(each))]
    assert ("Both are there.", [2, 1, 1]) == (run.final_output, [len(each) for each in answers])
    assert answers[0] == [each.rpartition("_")[0] for each in (*answers[1], *answers[2])]


async def test_a_callback_is_asked_about_such_calls_again(client: AsyncOpenAI, posted: list[list[Any]]) -> None:
    """Nobody has to do anything for it."""
    done = await Runner.run(an_agent(client, answer=True), "deploy two")
    answers = [found for each in posted if (found := answered(each))]
    assert ("Both are there.", [2, 1, 1]) == (done.final_output, [len(each) for each in answers])


async def test_what_was_approved_elsewhere_meanwhile_goes_on(client: AsyncOpenAI, operator: Caller) -> None:
    """The run that says the same is told what came of it."""
    agent = an_agent(client)
    run = await _decided_elsewhere(agent, operator, "approve")
    done = await Runner.run(agent, _approved(run))
    assert "The shop is green." == done.final_output


async def test_what_was_denied_elsewhere_meanwhile_goes_on_with_the_next_words(
    client: AsyncOpenAI, operator: Caller
) -> None:
    """The run that says otherwise is refused; the next one behind its last response tells what was decided."""
    agent = an_agent(client)
    run = await _decided_elsewhere(agent, operator, "deny")
    with pytest.raises(openai.ConflictError) as refused:
        await Runner.run(agent, _approved(run))
    done = await Runner.run(agent, "was it deployed?", previous_response_id=run.last_response_id)
    told = [item.type for response in done.raw_responses for item in response.output]
    assert ("already_decided", "mcp_call", "Let me see.") == (refused.value.code, told[0], done.final_output)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # OpenAI's SDK before 3: an error was a string
@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_session_goes_on_after_an_answer_that_did_not_count(
    client: AsyncOpenAI, operator: Caller, verb: str
) -> None:
    """The SDK keeps it and posts it again in front of the next words, which tell what was decided elsewhere."""
    agent, session = an_agent(client), SQLiteSession(new_id())
    run = await _decided_elsewhere(agent, operator, verb, session)
    seen = Visitor(operator.url, client.api_key, str(run.last_response_id).split("_", 3)[3])
    await seen.see(lambda item: item["type"] == "turn" and item["data"]["state"] == "finished")
    state = run.to_state()
    for each in run.interruptions:
        state.approve(each) if verb == "deny" else state.reject(each)
    with pytest.raises(openai.ConflictError):
        await Runner.run(agent, state, session=session)
    done = [await Runner.run(agent, text, session=session) for text in ("was it deployed?", "hello")]
    told = [[item.type for response in each.raw_responses for item in response.output] for each in done]
    assert ("mcp_call", "Let me see.", ["message"]) == (told[0][0], done[0].final_output, told[1])


async def test_an_approval_that_never_arrived_is_not_given_by_the_next_words(
    client: AsyncOpenAI, system: System, posted: list[list[Any]]
) -> None:
    """The session has it in front of the words that take it back; the call still waits."""

    async def fail(_: httpx.Request) -> None:
        raise httpx.ConnectError("The network is gone.")

    agent, session, hooks = an_agent(client), SQLiteSession(new_id()), client._client.event_hooks["request"]
    run = await Runner.run(agent, "deploy the shop", session=session)
    client.max_retries = 0
    hooks.append(fail)
    with pytest.raises(openai.APIConnectionError):
        await Runner.run(agent, _approved(run), session=session)
    hooks.remove(fail)
    await Runner.run(agent, "hello", session=session)
    conversation = str(run.raw_responses[0].response_id).split("_", 3)[3]
    stored = await Caller(system.url, client.api_key).get(f"/v1/conversations/{conversation}")
    assert ("mcp_approval_response", ["pending"]) == (
        posted[-1][-2]["type"],
        [each["state"] for each in stored["approvals"]],
    )


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


class Triage(Model):
    """A model elsewhere that says something and hands off to the one agent that it may."""

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        """Return its answer."""
        (handoff,) = next(each for each in (*args, *more.values()) if isinstance(each, list) and _are_handoffs(each))
        call = {"type": "function_call", "name": handoff.tool_name, "arguments": "{}", "call_id": "f", "id": "fc_68ab"}
        text = {"type": "output_text", "text": "One moment.", "annotations": []}
        words = {"type": "message", "role": "assistant", "status": "completed", "id": "msg_68ab", "content": [text]}
        said, called = ResponseOutputMessage.model_validate(words), ResponseFunctionToolCall.model_validate(call)
        return ModelResponse(output=[said, called], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Refuse."""
        raise NotImplementedError


def _are_handoffs(given: list[Any]) -> bool:
    return bool(given) and all(isinstance(each, Handoff) for each in given)


async def test_an_agent_elsewhere_hands_off_to_placets(client: AsyncOpenAI) -> None:
    """With all that it said and called; the approval is given as in any other run."""
    triage = Agent(name="triage", model=Triage(), handoffs=[an_agent(client, answer=True)])
    done = await Runner.run(triage, "deploy the shop")
    assert "The shop is green." == done.final_output


async def test_a_hand_off_late_in_a_chat_goes_to_the_conversation_that_its_agent_names(client: AsyncOpenAI) -> None:
    """What the other agent has answered before says nothing of it."""
    opened = await client.conversations.create()
    agent = an_agent(client, answer=True)
    agent.model_settings = ModelSettings(extra_body={"conversation": opened.id})
    history: list[Any] = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "What can I do?"}]
    triage = Agent(name="triage", model=Triage(), handoffs=[agent])
    done = await Runner.run(triage, [*history, {"role": "user", "content": "deploy the shop"}])
    named = [str(each.response_id).split("_", 3)[3] for each in done.raw_responses if each.response_id]
    assert ("The shop is green.", {opened.id}) == (done.final_output, set(named))


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


async def chatted(frontend: Caller, chat: str, *messages: str) -> str:
    """Post a chat's history, what the user and the agent said by turns; return the conversation that took its end."""
    return (await posted_chat(frontend, chat, *messages)).headers["placet-conversation"]


async def posted_chat(frontend: Caller, chat: str, *messages: str, model: str = "default") -> httpx.Response:
    """Post a chat's history, what the user and the agent said by turns."""
    said = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(messages)]
    body = {"model": model, "messages": [{"role": "system", "content": "You are helpful."}, *said]}
    return await frontend.request("POST", "/v1/chat/completions", json=body, headers={"X-OpenWebUI-Chat-Id": chat})


async def written(frontend: Caller, conversation: str) -> list[str]:
    """Return what users wrote in a conversation."""
    stored = await frontend.get(f"/v1/conversations/{conversation}")
    return [message["text"] for message in stored["messages"] if message["role"] == "user"]


TITLE = "### Task:\nWrite a title."


async def test_what_open_webui_asks_beside_a_chat_is_no_message_of_it(frontend: Caller) -> None:
    """Titles and tags come with the chat's id: each text has a conversation, and the chat goes on."""
    chat = new_id()
    named = [
        await chatted(frontend, chat, *messages)
        for messages in (["deploy the shop"], [TITLE], [TITLE], ["deploy the shop", "Deploying.", TITLE])
    ]
    own = own_id("acme", chat)
    assert ([own, named[1], named[1], own], False) == (named, own == named[1])
    assert ["deploy the shop", TITLE] == await written(frontend, own)


@pytest.mark.parametrize("before", [TITLE, "hello"], ids=["asked for a search", "edited"])
async def test_what_open_webui_asks_before_a_chat_begins_leaves_it_whole(frontend: Caller, before: str) -> None:
    """Another text comes first, by the frontend or as it was before an edit: all of the chat is in one conversation."""
    chat = new_id()
    beside = await chatted(frontend, chat, before)
    named = [
        await chatted(frontend, chat, "deploy the shop", *more)
        for more in ([], ["Deploying.", "was it deployed?"], ["Deploying.", "was it deployed?", "Let me see.", "hello"])
    ]
    assert ([named[0]] * 3, False) == (named, beside in named)
    assert ["deploy the shop", "was it deployed?", "hello"] == await written(frontend, named[0])


async def test_a_chat_whose_beginning_is_cut_off_stays_in_its_conversation(frontend: Caller) -> None:
    """A frontend posts only the end of a long chat."""
    chat = new_id()
    await chatted(frontend, chat, "hello")
    await chatted(frontend, chat, "hello", "Hello.", "was it deployed?")
    named = await chatted(frontend, chat, "was it deployed?", "Let me see.", "hello again")
    assert own_id("acme", chat) == named


async def test_a_chat_with_a_file_stays_in_its_conversation(frontend: Caller) -> None:
    """Open WebUI puts what it found above the user's words, and posts them bare with the next message."""
    chat = new_id()
    found = "### Task:\nAnswer from this context.\n<context>The shop is green.</context>\n"
    named = [
        await chatted(frontend, chat, *messages)
        for messages in ([f"{found}hello"], ["hello", "Hello.", f"{found}was it deployed?"])
    ]
    assert [own_id("acme", chat)] * 2 == named


@pytest.mark.parametrize("header", ["X-OpenWebUI-Chat-Id", "Placet-Conversation"])
async def test_a_header_that_can_name_no_conversation_is_named(frontend: Caller, header: str) -> None:
    """A client that sent no metadata would look for it in vain."""
    body = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
    refused = await frontend.request("POST", "/v1/chat/completions", json=body, headers={header: "a/b"})
    problem = refused.json()
    assert (400, [header], header) == (
        refused.status_code,
        [fault.get("parameter") for fault in problem["errors"]],
        problem["error"]["param"],
    )


async def asks(frontend: Caller, chat: str) -> tuple[int, int]:
    """Return how many messages users have written in a chat, and how many calls wait for people in it."""
    stored = await frontend.get(f"/v1/conversations/{own_id('acme', chat)}")
    written = [message for message in stored["messages"] if message["role"] == "user"]
    return len(written), sum(each["state"] == "pending" for each in stored["approvals"])


async def test_another_answer_that_open_webui_asks_for_proposes_no_second_payment(
    frontend: Caller, operator: Caller
) -> None:
    """While the call waits, the same history shows what waits, also several times at once; denied, it asks anew."""
    chat, wish, found = new_id(), "a payment link please", []
    for number in (1, 1, 3):
        await asyncio.gather(*(chatted(frontend, chat, wish) for _ in range(number)))
        found.append(await asks(frontend, chat))
    assert "This waits for approval" in (await posted_chat(frontend, chat, wish)).text
    seen = Visitor(frontend.url, frontend.token, own_id("acme", chat))
    await operator.decide(await seen.see_card(), "deny")
    await seen.see(lambda item: item["type"] == "turn" and item["data"]["state"] == "finished")
    for _ in range(2):
        await chatted(frontend, chat, wish)
        found.append(await asks(frontend, chat))
    assert [(1, 1)] * 3 + [(2, 1)] * 2 == found


async def test_the_same_words_later_in_a_chat_are_a_wish_of_their_own(frontend: Caller) -> None:
    """The history that they end is another one; and asked for again, each shows what waits."""
    chat, wish = new_id(), "a payment link please"
    first = (await posted_chat(frontend, chat, wish)).json()["choices"][0]["message"]["content"]
    for _ in range(2):
        await chatted(frontend, chat, wish, first, wish)
    assert (2, 2) == await asks(frontend, chat)


@pytest.fixture
def colleague(system: System) -> Caller:
    """Another person of the same frontend."""
    return Caller(system.url, system.key("chat", person="colleague"))


@pytest.mark.parametrize("wish", ["a payment link please", "yes, a payment link please"])
async def test_whoever_asks_for_another_answer_proposes_no_second_payment(
    frontend: Caller, operator: Caller, colleague: Caller, wish: str
) -> None:
    """Another person of the chat is shown what waits, also at the same moment; denied, they ask anew together."""
    chat, found = new_id(), []
    for people in ([frontend], [colleague], [colleague, frontend, colleague]):
        told = await asyncio.gather(*(posted_chat(each, chat, wish) for each in people))
        found.append((*await asks(frontend, chat), all("This waits for approval" in each.text for each in told)))
    seen = Visitor(frontend.url, frontend.token, own_id("acme", chat))
    await operator.decide(await seen.see_card(), "deny")
    await seen.see(lambda item: item["type"] == "turn" and item["data"]["state"] == "finished")
    await asyncio.gather(*(posted_chat(each, chat, wish) for each in (colleague, frontend)))
    assert ([(1, 1, True)] * 3, (2, 1)) == (found, await asks(frontend, chat))


async def test_first_requests_of_a_chat_that_name_two_agents_at_once_are_not_both_answered(
    frontend: Caller, colleague: Caller
) -> None:
    """Whoever comes second is refused, as a moment later."""
    chat = new_id()
    both = await asyncio.gather(
        posted_chat(frontend, chat, "hello"), posted_chat(colleague, chat, "hello", model="clerk")
    )
    told = sorted((answer.status_code, answer.json().get("error", {}).get("code")) for answer in both)
    assert [(200, None), (400, "model_mismatch")] == told


async def test_other_first_texts_of_a_chat_at_once_have_conversations_of_their_own(
    frontend: Caller, colleague: Caller
) -> None:
    """A title, and what a colleague writes, are kept apart from what came first, as a moment later."""
    chat = new_id()
    posts = [(frontend, "hello"), (colleague, "hello again"), (frontend, TITLE)]
    named = await asyncio.gather(*(chatted(person, chat, text) for person, text in posts))
    found = [await written(frontend, each) for each in named]
    assert [[text] for _, text in posts] == found
