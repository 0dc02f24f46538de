"""Several agents in one system: their models, tools and budgets, and what is refused at both doors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import aio_pika
import httpx
import psycopg

from placet.contracts.ids import new_id
from placet.contracts.messages import Author, MessagePosted
from tests.builders import an_envelope, an_event
from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor, is_turn_end
from tests.support.system import System, until


async def test_two_agents_of_different_models_answer_side_by_side(frontend: Caller, stage: Stage) -> None:
    """Each conversation is answered by the model of its agent, told and offered what that agent has."""
    names = [agent["name"] for agent in (await frontend.get("/v1/agents"))["items"]]
    answers = []
    for name in ("clerk", "default"):
        visitor = await a_visitor(frontend, agent=name)
        await visitor.say("who are you?")
        answers.append(await visitor.see_answer())
    assert ["I am the clerk.", "I am the assistant."] == answers
    assert (True, False) == ("clerk" in names, "theirs" in names)
    (asked,) = _asked(stage, "clerk", "who are you?")
    assert ["read_status", "read_inbox"] == [tool["name"] for tool in asked["tools"]]
    assert "You are a clerk." in str(asked["system"])


async def test_a_tool_outside_the_agents_list_never_runs(frontend: Caller, stage: Stage) -> None:
    """The clerk's call of another agent's tool is invalid and asks nobody; its own tool runs beside it."""
    visitor = await a_visitor(frontend, agent="clerk")
    await visitor.say("deploy it, clerk")
    assert "I have no tool for that." == await visitor.see_answer()
    shown = await visitor.get(visitor.path)
    assert {("deploy", "invalid"), ("read_status", "succeeded")} == {
        (call["tool"], call["kind"]) for call in shown["calls"]
    }
    assert ([], []) == (shown["approvals"], stage.begun("deploy", visitor.conversation))


async def test_an_unknown_agent_is_refused_over_http(frontend: Caller, system: System) -> None:
    """A problem names the tenant's own agents, also where another tenant has one of that name."""
    for name in ("nobody", "theirs"):
        answer = await frontend.request("POST", "/v1/conversations", json={"agent": name})
        assert (422, "urn:placet:problem:unknown-agent") == (answer.status_code, answer.json()["type"])
        assert ["default", "help-desk", "clerk", "frugal", "daily"] == answer.json()["agents"]
    globex = Caller(system.url, system.key("chat", tenant="globex"))
    assert 201 == (await globex.request("POST", "/v1/conversations", json={"agent": "theirs"})).status_code


async def test_the_command_line_talks_to_the_agent_that_it_names(system: System) -> None:
    """`placet chat --agent`: who is asked answers; a name that nobody has is one line with those that there are."""
    key = system.key("chat", person="terminal")

    def chat(agent: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "placet.cli", "chat", "--agent", agent, "-m", "who are you?"]
        environment = os.environ | {"PLACET_URL": system.url, "PLACET_KEY": key}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    clerk, nobody = [await asyncio.to_thread(chat, name) for name in ("clerk", "nobody")]
    assert (0, True) == (clerk.returncode, "I am the clerk." in clerk.stdout)
    told = "422 There is no such agent; there are: default, help-desk, clerk, frugal, daily"
    assert (1, 1, True) == (nobody.returncode, len(nobody.stderr.splitlines()), told in nobody.stderr)


async def test_an_unknown_agent_is_a_dead_letter_over_amqp(system: System) -> None:
    """What a frontend publishes for an agent that the tenant has not is buried with the reason; no model is asked."""
    conversation = new_id()
    message = MessagePosted(
        tenant="acme",
        conversation_id=conversation,
        message_id=new_id(),
        text="who are you?",
        author=Author(kind="visitor", id="somebody"),
        agent="theirs",
    )
    connection = await aio_pika.connect(system.rabbitmq_url)
    async with connection:
        exchange = await (await connection.channel()).get_exchange("messages")
        await exchange.publish(aio_pika.Message(an_envelope(an_event(message, time=datetime.now(UTC)))), "acme")

    async def buried() -> bool:
        query = (
            "SELECT count(*) FROM read.dead_letters WHERE queue = 'agent.messages'"  # noqa: S608 - an id of ours
            f" AND reason LIKE '%tenant acme has no agent theirs%' AND body LIKE '%{conversation}%'"
        )
        return system.count(query) == 1

    await until(buried, "the message is a dead letter")
    assert 0 == system.count(f"SELECT count(*) FROM agent.turns WHERE conversation_id = '{conversation}'")  # noqa: S608


async def test_a_used_up_budget_ends_the_turn_truthfully_and_another_conversation_goes_on(frontend: Caller) -> None:
    """The person reads why nobody answers; what they began elsewhere is answered."""
    visitor = await a_visitor(frontend, agent="frugal")
    for _ in range(2):
        await visitor.say("hello")
        assert "Hello, how can I help you today?" == await visitor.see_answer()
    end = await _end_after(visitor)
    assert "failed" == end["state"]
    assert "This conversation has used up its budget" in end["reason"]
    other = await a_visitor(frontend, agent="frugal")
    await other.say("hello")
    assert "Hello, how can I help you today?" == await other.see_answer()


async def test_the_next_day_an_agent_goes_on(system: System) -> None:
    """An agent's day is over for one tenant, in every conversation, until the next one begins."""
    frontend = Caller(system.url, system.key("chat", tenant="thrifty"))
    ends = []
    for _ in range(3):
        visitor = await a_visitor(frontend, agent="daily")
        ends.append(await _end_after(visitor))
    assert ["finished", "finished", "failed"] == [end["state"] for end in ends]
    assert "used up its budget for today" in ends[2]["reason"]
    with psycopg.connect(system.database_url) as connection:
        connection.execute("UPDATE agent.steps SET said_at = said_at - interval '1 day' WHERE tenant = 'thrifty'")
    assert "finished" == (await _end_after(visitor))["state"]


async def test_who_writes_too_fast_is_told_when_to_come_back(frontend: Caller) -> None:
    """More than the 120 messages a minute of a conversation's token are 429 with Retry-After."""
    visitor = await a_visitor(frontend)
    body, headers = {"text": "hello", "message_id": "mine"}, {"authorization": f"Bearer {visitor.token}"}
    async with httpx.AsyncClient(base_url=visitor.url, headers=headers, timeout=60) as client:
        posts = (client.post(f"{visitor.path}/messages", json=body) for _ in range(240))
        answers = await asyncio.gather(*posts)
    late = [answer for answer in answers if answer.status_code != 202]
    assert late
    assert {(429, "urn:placet:problem:rate-limited")} == {(each.status_code, each.json()["type"]) for each in late}
    assert all(int(each.headers["retry-after"]) >= 1 for each in late)


async def _end_after(visitor: Visitor) -> dict[str, Any]:
    """Say hello, and return how the turn ended."""
    await visitor.say("hello")
    data: dict[str, Any] = (await visitor.see(is_turn_end))["data"]
    return data


def _asked(stage: Stage, model: str, text: str) -> list[dict[str, Any]]:
    """Return the requests to a model whose last message has a text."""
    found = [request["body"] for request in stage.model_log()["requests"]]
    return [body for body in found if body["model"] == model and text in str(body["messages"][-1]["content"])]
