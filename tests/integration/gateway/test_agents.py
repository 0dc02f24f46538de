"""Agents and rates at the door: which conversations can be opened, and how fast one may write in them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from placet.contracts.messages import MessagePosted
from tests.builders import a_call
from tests.support.gateway import House, a_conversation, an_approval_row, insert, open_house

FILE = """\
version: 1
agents:
  default: {description: Helps.}
  clerk: {description: Knows where things are., labels: {desk: front, shop: all}}
  theirs: {tenants: [globex]}
"""


@pytest.fixture
def agents_file(tmp_path: Path) -> Path:
    """The file of agents."""
    path = tmp_path / "agents.yaml"
    path.write_text(FILE)
    return path


def leave_default_alone(path: Path) -> None:
    """Take every other agent out of the file."""
    path.write_text("version: 1\nagents: {default: {}}\n")


async def test_a_tenants_agents_are_listed_to_whoever_may_open_conversations(
    gateway_database_url: str, tmp_path: Path, agents_file: Path
) -> None:
    """Names and descriptions of one's own, none of another tenant's; a conversation's token opens none."""
    async with open_house(gateway_database_url, tmp_path, agents=agents_file) as house:
        async with house.client(house.key("chat")) as client:
            listed = (await client.get("/v1/agents")).json()
            _, token = await a_conversation(client)
        statuses = []
        for secret in (token, house.key("decide"), ""):
            async with house.client(secret) as client:
                statuses.append((await client.get("/v1/agents")).status_code)
    assert [("default", "Helps."), ("clerk", "Knows where things are.")] == [
        (each["name"], each["description"]) for each in listed["items"]
    ]
    assert [403, 403, 401] == statuses


async def test_without_a_file_there_is_one_agent_under_any_name(house: House) -> None:
    """The list knows `default`, and any name opens a conversation, as before."""
    async with house.client(house.key("chat")) as client:
        listed = (await client.get("/v1/agents")).json()
        opened = await client.post("/v1/conversations", json={"agent": "whoever"})
    assert ([{"name": "default", "description": ""}], 201) == (listed["items"], opened.status_code)


@pytest.mark.parametrize("name", ["nobody", "theirs"])
async def test_an_unknown_agent_opens_no_conversation_and_begins_no_job(
    gateway_database_url: str, tmp_path: Path, agents_file: Path, name: str
) -> None:
    """The problem names the agents that there are, and another tenant's is as unknown as one that nobody has."""
    async with open_house(gateway_database_url, tmp_path, agents=agents_file) as house:
        async with house.client(house.key("chat")) as client:
            answer = await client.post("/v1/conversations", json={"agent": name})
            chat = {"id": "chat-1", "agent": name, "messages": [_said("hi")], "trigger": "submit-message"}
            doors = [await client.post("/api/chat", json=chat)]
            doors.append(await client.post("/v1/jobs", json={"agent": name, "task": "T"}))
        rows = house.query("SELECT count(*) FROM gateway.conversations")
    problem = answer.json()
    assert (422, "urn:placet:problem:unknown-agent") == (answer.status_code, problem["type"])
    assert (["default", "clerk"], [(0,)]) == (problem["agents"], rows)
    assert [problem["type"]] * 2 == [each.json()["type"] for each in doors]


async def test_labels_of_an_agent_stand_on_its_conversations(
    gateway_database_url: str, tmp_path: Path, agents_file: Path
) -> None:
    """What the opener says of the same name goes first; what is shown is what rules will see."""
    async with (
        open_house(gateway_database_url, tmp_path, agents=agents_file) as house,
        house.client(house.key("chat")) as client,
    ):
        opened = (await client.post("/v1/conversations", json={"agent": "clerk", "labels": {"shop": "one"}})).json()
        shown = (await client.get(f"/v1/conversations/{opened['id']}")).json()
    assert [{"desk": "front", "shop": "one"}] * 2 == [opened["labels"], shown["labels"]]


async def test_nobody_writes_to_an_agent_that_is_gone(
    gateway_database_url: str, tmp_path: Path, agents_file: Path
) -> None:
    """After a restart without it a message is refused at the door, and nothing of it is kept."""
    async with (
        open_house(gateway_database_url, tmp_path, agents=agents_file) as house,
        house.client(house.key("chat")) as client,
    ):
        conversation, _ = await a_conversation(client, agent="clerk")
    leave_default_alone(agents_file)
    async with (
        open_house(gateway_database_url, tmp_path / "again", agents=agents_file) as house,
        house.client(house.key("chat")) as client,
    ):
        answer = await client.post(f"/v1/conversations/{conversation}/messages", json={"text": "hi"})
        assert [(0,)] == house.query("SELECT count(*) FROM read.log")
    assert (422, ["default"]) == (answer.status_code, answer.json()["agents"])


async def test_who_writes_too_fast_is_told_when_to_come_back(gateway_database_url: str, tmp_path: Path) -> None:
    """The third message of a token in a minute is 429 with Retry-After; the key and other conversations go on."""
    async with open_house(gateway_database_url, tmp_path, gateway_person_messages_per_minute=2) as house:
        async with house.client(house.key("chat")) as client:
            conversation, token = await a_conversation(client)
            path = f"/v1/conversations/{conversation}/messages"
            async with house.client(token) as visitor:
                answers = [await visitor.post(path, json={"text": "hi"}) for _ in range(3)]
            by_key = await client.post(path, json={"text": "hi"})
        posted = [await asyncio.wait_for(house.posted.get(), 20) for _ in range(3)]
    assert [202, 202, 429] == [answer.status_code for answer in answers]
    problem = answers[2].json()
    assert ("urn:placet:problem:rate-limited", "application/problem+json") == (
        problem["type"],
        answers[2].headers["content-type"],
    )
    assert (str(problem["retry_after_seconds"]), True) == (
        answers[2].headers["retry-after"],
        1 <= problem["retry_after_seconds"] <= 30,
    )
    assert (202, 3) == (
        by_key.status_code,
        len({each.message_id for each in posted if isinstance(each, MessagePosted)}),
    )


async def test_who_decides_too_fast_is_told_when_to_come_back(gateway_database_url: str, tmp_path: Path) -> None:
    """The decisions of a conversation's token count as its messages do, for each is kept; those of a key do not."""
    async with open_house(gateway_database_url, tmp_path, gateway_person_messages_per_minute=2) as house:
        async with house.client(house.key("chat")) as client:
            conversation, token = await a_conversation(client)
        row = an_approval_row(a_call(conversation_id=conversation))
        insert(house.url, "approvals", **row)
        path, said = f"/v1/approvals/{row['approval_id']}/decisions", {"decision": "approve", "digest": row["digest"]}
        async with house.client(token) as visitor, house.client(house.key("decide", person="dora")) as dora:
            answers = [await visitor.post(path, json=said) for _ in range(3)]
            by_key = await dora.post(path, json=said)
    assert ([200, 409, 429], 409) == ([answer.status_code for answer in answers], by_key.status_code)
    assert ("urn:placet:problem:rate-limited", 3) == (answers[2].json()["type"], len(house.approvers.claims))
    assert 0 < int(answers[2].headers["retry-after"]) <= 30


def _said(text: str) -> dict[str, object]:
    return {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
