"""What OpenAI's clients are told of a decision that was made before, of a vote, and of a turn that failed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import (
    Agent,
    HostedMCPTool,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    Runner,
    set_tracing_disabled,
)
from agents.models.openai_responses import OpenAIResponsesModel
from openai import AsyncOpenAI
from openai.types.responses import Response

from placet.contracts.ids import new_id
from tests.support.people import PATIENCE_SECONDS, Caller, Visitor
from tests.support.system import System

set_tracing_disabled(disabled=True)


async def a_client(system: System, person: str) -> AsyncIterator[AsyncOpenAI]:
    """Yield the client of a person who may also decide."""
    key = system.key("chat", "decide", person=person)
    async with AsyncOpenAI(base_url=f"{system.url}/v1", api_key=key, timeout=PATIENCE_SECONDS) as made:
        yield made


@pytest.fixture
async def grace(system: System) -> AsyncIterator[AsyncOpenAI]:
    """One of the releases group."""
    async for made in a_client(system, "grace"):
        yield made


@pytest.fixture
async def hopper(system: System) -> AsyncIterator[AsyncOpenAI]:
    """The other one."""
    async for made in a_client(system, "hopper"):
        yield made


#: Placet's tools as a client declares them that knows approval requests.
DECLARED: list[Any] = [{"type": "mcp", "server_label": "placet", "require_approval": "always"}]


def answers(asked: Response, *, approve: bool = True) -> list[Any]:
    """Return the input that answers everything that a response asks."""
    answer = {"type": "mcp_approval_response", "approve": approve}
    requests = [item.id for item in asked.output if item.type == "mcp_approval_request"]
    return [answer | {"approval_request_id": each} for each in requests]


def kinds(response: Response) -> list[str]:
    """Return the types of a response's items."""
    return [item.type for item in response.output]


def placet(response: Response) -> dict[str, Any]:
    """Return what Placet tells beside OpenAI's members."""
    found: dict[str, Any] = (response.model_extra or {})["placet"]
    return found


# --- answers that come again --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("named", [True, False])
async def test_a_repeated_answer_has_the_same_response(grace: AsyncOpenAI, *, named: bool, keyed: bool) -> None:
    """As the SDK repeats a request whose connection broke: the same response, with its items and its tokens."""
    asked = await grace.responses.create(model="default", input="deploy the shop")
    headers = {"Idempotency-Key": new_id()} if keyed else None
    body: dict[str, Any] = {"previous_response_id": asked.id} if named else {}
    told = [
        await grace.responses.create(model="default", input=answers(asked), extra_headers=headers, **body)
        for _ in range(3)
    ]
    assert "The shop is green." == told[0].output_text
    assert [(told[0].id, told[0].output, told[0].usage)] * 3 == [(each.id, each.output, each.usage) for each in told]


async def test_a_repeated_answer_tells_nothing_of_what_was_said_since(grace: AsyncOpenAI) -> None:
    """It ends where the user wrote again: those who asked for that have been told."""
    asked = await grace.responses.create(model="default", input="deploy the shop")
    done = await grace.responses.create(model="default", input=answers(asked))
    since = await grace.responses.create(model="default", previous_response_id=done.id, input="was it deployed?")
    again = await grace.responses.create(model="default", input=answers(asked))
    after = await grace.responses.create(model="default", previous_response_id=since.id, input="hello")
    assert (done.output, done.usage) == (again.output, again.usage)
    assert ["message"] == kinds(after)


async def test_a_yes_to_what_another_client_was_told_of_has_the_outcome(
    grace: AsyncOpenAI, hopper: AsyncOpenAI, operator: Caller
) -> None:
    """Somebody approved elsewhere, and somebody else's message brought what came of it; words may come behind that."""
    asked = await grace.responses.create(model="default", input="deploy the shop")
    (card,) = placet(asked)["approvals"]
    await operator.decide({"approval_id": card["id"], "digest": card["digest"]}, "approve")
    assert asked.conversation
    other = await hopper.responses.create(input="was it deployed?", conversation=asked.conversation.id)
    done = await grace.responses.create(model="default", previous_response_id=asked.id, input=answers(asked))
    (told, again) = ([item.output for item in each.output if item.type == "mcp_call"] for each in (other, done))
    assert (True, True) == ("https://shop.example.test" in str(told[0]), told[:1] == again[:1])


# --- votes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("Your vote counts. This waits for another person:", "(1 of 2 approvals)")),
        ("de", ("Ihre Stimme zählt. Das wartet auf eine andere Person:", "(1 von 2 Freigaben)")),
    ],
)
async def test_who_has_voted_is_told_so_and_not_asked_again(
    grace: AsyncOpenAI, language: str, words: tuple[str, str]
) -> None:
    """In the conversation's language, with how many votes there are; so it is when they say the same again."""
    asked = await grace.responses.create(model="default", input="deploy paired", metadata={"language": language})
    told = [await grace.responses.create(model="default", input=answers(asked)) for _ in range(2)]
    told.append(await grace.responses.retrieve(told[0].id))
    before = await grace.responses.retrieve(asked.id)
    assert ["message", "mcp_approval_request"] == kinds(before)[:2]
    shown = f"{words[0]}\n- `deploy(service: shop, version: paired)` {words[1]}"
    assert [(["message"], shown)] * 3 == [(kinds(each), each.output_text) for each in told]
    panels = [[(each["counted"], each["approvals"]) for each in placet(one)["approvals"][0]["panels"]] for one in told]
    assert [[(1, 2)]] * 3 == panels


async def test_the_other_person_is_still_asked(grace: AsyncOpenAI, hopper: AsyncOpenAI) -> None:
    """A vote hides the request from nobody else; the outcome comes with the first one's next message."""
    asked = await grace.responses.create(model="default", input="deploy paired")
    voted = await grace.responses.create(model="default", input=answers(asked))
    assert asked.conversation
    other = await hopper.responses.create(input="hello", conversation=asked.conversation.id)
    done = await hopper.responses.create(previous_response_id=other.id, input=answers(other))
    late = await grace.responses.create(previous_response_id=voted.id, input=answers(asked))
    assert (["mcp_approval_request", "message"], True) == (
        kinds(other),
        done.output_text.startswith("The shop is green."),
    )
    assert done.output == late.output


@pytest.mark.parametrize(
    ("verb", "words", "calls"), [("approve", "The shop is green.", 2), ("deny", "It was not deployed.", 1)]
)
async def test_who_has_voted_is_told_the_outcome_alone(
    grace: AsyncOpenAI, hopper: AsyncOpenAI, verb: str, words: str, calls: int
) -> None:
    """The Agents SDK takes a request for an interruption, and nothing waits any more; so it is when it is retrieved.

    The other one's response had the outcome already; each has it once.
    """
    asked = await grace.responses.create(model="default", input="deploy paired")
    voted = await grace.responses.create(model="default", input=answers(asked))
    await hopper.responses.create(input=answers(asked, approve=verb == "approve"))
    retrieved = await grace.responses.retrieve(voted.id)
    told = await grace.responses.create(model="default", previous_response_id=voted.id, input="was it deployed?")
    after = await grace.responses.create(model="default", previous_response_id=told.id, input="hello")
    assert (True, True) == (words in retrieved.output_text, words in told.output_text)
    assert [[], []] == [answers(each) for each in (retrieved, told)]
    assert [calls, 0] == [kinds(each).count("mcp_call") for each in (told, after)]


async def test_what_was_decided_before_a_client_was_told_is_no_question(grace: AsyncOpenAI, operator: Caller) -> None:
    """What was approved elsewhere led to a call that was denied there too: only what came of both is told, ever."""
    asked = await grace.responses.create(model="default", input="deploy and refund")
    assert asked.conversation
    seen = Visitor(operator.url, grace.api_key, asked.conversation.id)
    await operator.decide(await seen.see_card(), "approve")
    await operator.decide(await seen.see_card(), "deny")
    await seen.see(lambda item: item["data"].get("text") == "It is not refunded.")
    told = await grace.responses.create(input="was it deployed?", previous_response_id=asked.id)
    retrieved = await grace.responses.retrieve(told.id)
    assert ["mcp_call", "mcp_call", "message", "message"] == kinds(told)
    assert told.output == retrieved.output


@pytest.mark.parametrize("callback", [True, False])
async def test_a_run_of_the_agents_sdk_ends_with_the_words(grace: AsyncOpenAI, *, callback: bool) -> None:
    """Neither a callback nor a loop over interruptions posts the same yes until the turns are used up."""

    def asked(_: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
        return {"approve": True}

    tool = HostedMCPTool(
        tool_config={"type": "mcp", "server_label": "placet", "require_approval": "always"},
        on_approval_request=asked if callback else None,
    )
    agent = Agent(name="placet", model=OpenAIResponsesModel("default", grace), tools=[tool])
    run = await Runner.run(agent, "deploy paired")
    while run.interruptions:
        state = run.to_state()
        for each in run.interruptions:
            state.approve(each)
        run = await Runner.run(agent, state)
    assert str(run.final_output).endswith("(1 of 2 approvals)")


# --- texts that the model gave up ----------------------------------------------------------------------------------


async def test_an_answer_that_is_not_streamed_holds_the_last_text_only(grace: AsyncOpenAI) -> None:
    """The model broke off in the middle and was asked again: on both wires as in the conversation."""
    messages: list[Any] = [{"role": "user", "content": f"are you broken {new_id()}"}]
    completion = await grace.chat.completions.create(model="default", messages=messages)
    response = await grace.responses.create(model="default", input=f"are you broken {new_id()}")
    retrieved = await grace.responses.retrieve(response.id)
    texts = [completion.choices[0].message.content, response.output_text, retrieved.output_text]
    assert ["Not any more."] * 3 == texts


# --- turns that failed --------------------------------------------------------------------------------------------


async def test_a_run_whose_turn_failed_ends_with_the_reason(grace: AsyncOpenAI) -> None:
    """The Agents SDK looks at the output alone; over the budget there is no other word."""
    begun = await grace.responses.create(model="frugal", input="hello", metadata={"language": "de"})
    await grace.responses.create(previous_response_id=begun.id, input="hello")
    agent = Agent(name="placet", model=OpenAIResponsesModel("frugal", grace))
    run = await Runner.run(agent, "hello", previous_response_id=begun.id)
    reason = "Dieses Gespräch hat sein Budget aufgebraucht, deshalb wurde der Assistent nicht gefragt."
    assert str(run.final_output).startswith(reason)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_completion_that_failed_says_which_limit_is_why(grace: AsyncOpenAI, *, stream: bool) -> None:
    """Beside the error, as a response says it."""
    named = {"Placet-Conversation": new_id()}
    body: dict[str, Any] = {"model": "frugal", "messages": [{"role": "user", "content": "hello"}]}
    caller = Caller(str(grace.base_url).removesuffix("/v1/"), grace.api_key)
    for _ in range(2):
        await caller.request("POST", "/v1/chat/completions", json=body, headers=named)
    failed = await caller.request("POST", "/v1/chat/completions", json=body | {"stream": stream}, headers=named)
    told = json.loads(failed.text.strip().rpartition("data: ")[2])
    budget = ("This conversation has used up its budget", "conversation-tokens")
    assert (200 if stream else 424, "server_error", *budget) == (
        failed.status_code,
        told["error"]["type"],
        told["error"]["message"].partition(",")[0],
        told["placet"]["limit"],
    )


# --- several answers, as the AI SDK posts them --------------------------------------------------------------------


def of_ai_sdk(told: Response, *, stores: bool, approve: bool) -> list[Any]:
    """Return what the AI SDK's OpenAI provider adds to its history: what it was told, and answers to what was asked.

    `stores`: as it posts by default, by names, also of the request in front of each answer; else it posts only texts.
    """
    outputs = [item for item in told.output if item.type in {"message", *(("mcp_call",) if stores else ())}]
    known: list[Any] = [
        {"type": "item_reference", "id": item.id} if stores else {"role": "assistant", **item.model_dump()}
        for item in outputs
    ]
    found = answers(told, approve=approve)
    names: list[Any] = [{"type": "item_reference", "id": each["approval_request_id"]} for each in found]
    return known + ([item for pair in zip(names, found, strict=True) for item in pair] if stores else found)


@pytest.mark.parametrize("stores", [True, False])
async def test_all_answers_of_a_post_count(grace: AsyncOpenAI, *, stores: bool) -> None:
    """Whatever stands among them: neither call waits, and nothing is asked anew."""
    history: list[Any] = [{"role": "user", "content": "deploy two"}]
    asked = await grace.responses.create(model="default", input=history, tools=DECLARED)
    history += of_ai_sdk(asked, stores=stores, approve=False)
    done = await grace.responses.create(model="default", input=history, tools=DECLARED)
    assert (["mcp_call", "mcp_call", "message"], []) == (kinds(done), placet(done)["approvals"])


@pytest.mark.parametrize("stores", [True, False])
async def test_answers_that_decided_nothing_stand_in_no_later_ones_way(grace: AsyncOpenAI, *, stores: bool) -> None:
    """Two calls that are approved by themselves: what was posted for both is posted again with each one's own yes."""
    history: list[Any] = [{"role": "user", "content": "deploy two"}]
    told = [await grace.responses.create(model="default", input=history, tools=DECLARED)]
    while answers(told[-1]):
        history += of_ai_sdk(told[-1], stores=stores, approve=True)
        told.append(await grace.responses.create(model="default", input=history, tools=DECLARED))
    asked = [
        ["message", "mcp_approval_request", "mcp_approval_request"],
        ["mcp_approval_request"],
        ["mcp_call", "mcp_approval_request"],
    ]
    assert [*asked, ["mcp_call", "message"]] == [kinds(each) for each in told]


@pytest.mark.parametrize("stores", [True, False])
async def test_words_in_front_of_their_calls_answers_are_not_written_again(
    grace: AsyncOpenAI, system: System, *, stores: bool
) -> None:
    """The model said nothing beside the call, so nothing of ours stands between."""
    history: list[Any] = [{"role": "user", "content": "set the flag"}]
    asked = await grace.responses.create(model="default", input=history, tools=DECLARED)
    history += of_ai_sdk(asked, stores=stores, approve=True)
    done = await grace.responses.create(model="default", input=history, tools=DECLARED)
    assert done.conversation
    stored = await Caller(system.url, grace.api_key).get(f"/v1/conversations/{done.conversation.id}")
    assert ["set the flag", "The flag is set."] == [each["text"] for each in stored["messages"] if each["text"]]
