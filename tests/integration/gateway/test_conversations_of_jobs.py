"""The conversation of a job or of an attempt is nobody's to write in: every door refuses it, and reading goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from placet.contracts.ids import job_conversation_id, own_prefix
from placet.contracts.messages import HandoverRequested, MessagePosted
from tests.builders import a_call
from tests.integration.gateway.test_answers import by_ag_ui, by_ai_sdk, by_openai
from tests.integration.gateway.test_decisions import decide
from tests.support.gateway import House, a_conversation, an_approval_row, insert, open_house, prepare
from tests.support.postgres import Databases

pytestmark = pytest.mark.asyncio(loop_scope="module")

ATTEMPT = "acme_attempt"
NATIVE = f"/v1/conversations/{ATTEMPT}"
HELLO = {"role": "user", "content": "Hello"}
UI = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
#: What people are asked in the attempt.
ASKED = an_approval_row(a_call(), conversation_id=ATTEMPT, approval_rule={"by_message": True})
CALL = ("tool_call", {"call_id": ASKED["call_id"], "turn_id": "t", "tool": "pay", "arguments": {}})

#: Door -> path and body of what is written there.
DOORS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "message": (f"{NATIVE}/messages", {"text": "Hello"}),
    "yes": (f"{NATIVE}/messages", {"text": "yes", "author": "person"}),
    "operator": (f"{NATIVE}/messages", {"text": "Hello", "author": "operator"}),
    "stop": (f"{NATIVE}/stop", None),
    "end": (f"{NATIVE}/end", None),
    "takeover": (f"{NATIVE}/takeover", None),
    "release": (f"{NATIVE}/release", None),
    "propose": (f"{NATIVE}/workspace/propose", None),
    "discard": (f"{NATIVE}/workspace/discard", {}),
    "AI SDK": ("/api/chat", {"id": ATTEMPT, "messages": [UI]}),
    "AI SDK by the bare name": ("/api/chat", {"id": "attempt", "messages": [UI]}),
    "AI SDK stop": (f"/api/chat/{ATTEMPT}/stop", None),
    "AI SDK answer": by_ai_sdk(ATTEMPT, [(ASKED, True)]),
    "AG-UI": ("/agui", {"threadId": ATTEMPT, "runId": "r", "messages": [HELLO | {"id": "m1"}]}),
    "AG-UI answer": by_ag_ui(ATTEMPT, [(ASKED, True)]),
    "Responses": ("/v1/responses", {"model": "default", "conversation": ATTEMPT, "input": "Hello"}),
    "Responses answer": by_openai(ATTEMPT, [(ASKED, True)]),
    "Completions": (
        "/v1/chat/completions",
        {"model": "default", "messages": [HELLO], "metadata": {"conversation_id": ATTEMPT}},
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """One gateway, and an attempt whose call waits for people."""
    with databases.fresh(prepare) as url:
        async with open_house(url, tmp_path_factory.mktemp("house")) as made:
            insert(url, "conversations", conversation_id=ATTEMPT, tenant="acme", agent="default", language="en",
                   labels={"job": "job-1"}, turn_id="t", job_id="job-1")  # fmt: skip
            insert(url, "approvals", **ASKED)
            card = {"call_id": ASKED["call_id"], "approval_id": ASKED["approval_id"], "digest": ASKED["digest"]}
            await made.agent.append(
                ATTEMPT,
                ("turn", {"state": "started", "turn_id": "t"}),
                (CALL[0], CALL[1] | {"status": "proposed"}),
                ("approval", {**card, "state": "pending", "revision": 1, "tool": "pay"}),
                ("turn", {"state": "paused", "turn_id": "t"}),
            )
            yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody with every scope that writes or decides."""
    async with house.client(house.key("chat", "decide", "operate")) as made:
        yield made


async def is_next(house: House, client: httpx.AsyncClient) -> bool:
    """Tell whether what is written now elsewhere is the next thing that reaches the agent."""
    elsewhere, _ = await a_conversation(client)
    await client.post(f"/v1/conversations/{elsewhere}/messages", json={"text": "Hello"})
    came = await asyncio.wait_for(house.posted.get(), 20)
    return isinstance(came, MessagePosted) and came.conversation_id == elsewhere


@pytest.mark.parametrize("door", DOORS)
async def test_nobody_writes_in_an_attempt(house: House, client: httpx.AsyncClient, door: str) -> None:
    """Every door answers with the same problem document, and nothing leaves the gateway."""
    path, body = DOORS[door]
    answer = await client.post(path, json=body)
    told = answer.json()
    assert (403, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
    assert ("urn:placet:problem:conversation-of-job", "job-1") == (told["type"], told["job_id"])
    assert ([], True) == (house.approvers.claims, await is_next(house, client))


async def test_openai_s_clients_read_why(client: httpx.AsyncClient) -> None:
    """Beside the problem document they get the error that their SDK knows."""
    path, body = DOORS["Responses"]
    error = (await client.post(path, json=body)).json()["error"]
    assert ("permission_error", "conversation_of_job") == (error["type"], error["code"])


async def test_a_tool_hands_no_attempt_over(house: House, client: httpx.AsyncClient) -> None:
    """An operator could neither answer there nor give it back, so the agent goes on."""
    await house.deliver(HandoverRequested(tenant="acme", conversation_id=ATTEMPT, call_id="call-1", reason="Help."))
    assert "agent" == (await client.get(NATIVE)).json()["holder"]


async def test_an_attempt_that_was_opened_before_it_began_takes_nothing_more(
    house: House, client: httpx.AsyncClient
) -> None:
    """Whoever guessed its id and wrote there before is refused from the moment on that it is an attempt."""
    guessed, _ = await a_conversation(client)
    insert(house.url, "conversations", conversation_id=guessed, tenant="acme")
    path = f"/v1/conversations/{guessed}/messages"
    before = await client.post(path, json={"text": "Hello"})
    await asyncio.wait_for(house.posted.get(), 20)
    house.query("UPDATE read.conversations SET job_id = 'job-1' WHERE conversation_id = %s", guessed)
    after = await client.post(path, json={"text": "Hello again"})
    assert (202, 403, True) == (before.status_code, after.status_code, await is_next(house, client))


async def test_an_attempt_is_read_and_its_calls_are_decided(
    house: House, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    """Its page, its log and every dialect show it; what its call waits for is decided by the approval."""
    run = {"threadId": ATTEMPT, "runId": "r", "messages": []}
    shown = [
        (await client.get(NATIVE)).status_code,
        (await client.get(f"{NATIVE}/feed")).status_code,
        (await client.get(f"/api/chat/{ATTEMPT}")).status_code,
        (await client.post("/agui", json=run)).status_code,
    ]
    decided = await decide(client, ASKED)
    assert ([200] * 4, 200, "approved") == (shown, decided.status_code, decided.json()["state"])


async def test_who_may_not_see_the_job_may_not_read_its_conversations(house: House) -> None:
    """Their ids can be computed from the job's: for a key that only chats they exist where it is their owner's job."""
    paths = (NATIVE, f"{NATIVE}/feed", f"{NATIVE}/events", f"{NATIVE}/workspace", f"/api/chat/{ATTEMPT}")
    statuses = []
    async with house.client(house.key("chat", person="bob")) as bob:
        statuses += [(await bob.get(path)).status_code for path in paths]
        statuses += [(await bob.post(f"{NATIVE}/token")).status_code, (await bob.post(f"{NATIVE}/stop")).status_code]
    insert(house.url, "jobs", tenant="acme", job_id="job-1", author="person:bob")
    async with (
        house.client(house.key("chat", person="bob")) as bob,
        house.client(house.key("chat", person="eve")) as eve,
    ):
        own, others = [(await each.get(NATIVE)).status_code for each in (bob, eve)]
    house.query("DELETE FROM read.jobs WHERE job_id = 'job-1'")
    assert ([404] * 7, 200, 404) == (statuses, own, others)


async def test_nobody_opens_what_a_job_will_begin(client: httpx.AsyncClient) -> None:
    """An id that an attempt will get is refused, whole or as chosen, so nobody can follow it before."""
    reserved = job_conversation_id("acme", "attempt-conversation", "attempt-9")
    chosen = reserved.removeprefix(own_prefix("acme"))
    said = [{"id": "m-1", "role": "user", "content": "Hello"}]
    runs = [{"threadId": each, "runId": "r", "messages": said} for each in (reserved, chosen)]
    opened = [await client.post("/agui", json=run) for run in runs]
    followed = await client.get(f"/v1/conversations/{reserved}/feed")
    assert ([403, 403], 404) == ([each.status_code for each in opened], followed.status_code)
