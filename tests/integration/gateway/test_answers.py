"""Answers to approval requests that come with a chat: every dialect has them decided by the same rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from placet.contracts.canonical import canonical_text
from placet.contracts.messages.tool_calls import CALLS_PER_STEP_MAX
from tests.builders import a_call
from tests.support.gateway import RESTORED, House, a_conversation, an_approval_row, insert, turn
from tests.support.inbox_scene import proposed
from tests.support.staged_scene import CONVERSATION, a_busy_turn, commit_arguments, propose, stage
from tests.support.system import until

#: An approval's row, and whether it is approved.
Said = tuple[dict[str, Any], bool]
Post = Callable[[str, Sequence[Said]], tuple[str, dict[str, Any]]]


def by_ag_ui(conversation: str, answers: Sequence[Said]) -> tuple[str, dict[str, Any]]:
    """Return path and body with which AG-UI's client answers."""
    resume = [
        {"interruptId": f"{row['approval_id']}.{row['digest']}", "status": "resolved", "payload": {"approved": yes}}
        for row, yes in answers
    ]
    run = {"threadId": conversation, "runId": "r", "protocolVersion": "1.0", "messages": [], "resume": resume}
    return "/agui", run


def by_ai_sdk(conversation: str, answers: Sequence[Said]) -> tuple[str, dict[str, Any]]:
    """Return path and body with which the AI SDK's client answers."""
    parts = [
        {
            "type": "dynamic-tool",
            "toolCallId": row["call_id"],
            "state": "approval-responded",
            "approval": {"id": row["approval_id"], "approved": yes, "descriptor": {"digest": row["digest"]}},
        }
        for row, yes in answers
    ]
    return "/api/chat", {"id": conversation, "message": {"id": "t", "role": "assistant", "parts": parts}}


def by_openai(conversation: str, answers: Sequence[Said]) -> tuple[str, dict[str, Any]]:
    """Return path and body with which OpenAI's client answers."""
    items = [
        {
            "type": "mcp_approval_response",
            "approval_request_id": f"mcpr_{row['approval_id']}_{row['digest']}",
            "approve": yes,
        }
        for row, yes in answers
    ]
    return "/v1/responses", {"conversation": conversation, "input": items, "stream": True}


DIALECTS = pytest.mark.parametrize("post", [by_ag_ui, by_ai_sdk, by_openai])


def waits(house: House, conversation: str, **changes: Any) -> dict[str, Any]:
    """Put an approval that waits into a conversation and return its row; `unsafe_exec` is a risky category."""
    row = an_approval_row(a_call(), conversation_id=conversation, **changes)
    insert(house.url, "approvals", **row)
    return row


async def answer(client: httpx.AsyncClient, post: Post, conversation: str, *answers: Said) -> int:
    """Post answers; return the status. What happens in the conversation then is not waited for."""
    return await status_of(client, *post(conversation, answers))


async def status_of(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> int:
    """Post a body; return the status, and read nothing: a stream may have no end."""
    async with client.stream("POST", path, json=body) as response:
        return response.status_code


def decided(house: House) -> set[tuple[str, str]]:
    """Return what approval was asked to decide: approval ids and verbs."""
    return {(claims.approval_id, claims.verb) for claims in house.approvers.claims}


@DIALECTS
async def test_what_is_risky_is_not_approved_among_others(house: House, post: Post) -> None:
    """Of two calls that are approved at once, the one that executes still waits; the other is approved."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        plain, risky = waits(house, conversation), waits(house, conversation, category="unsafe_exec")
        await answer(client, post, conversation, (plain, True), (risky, True))
    assert {(plain["approval_id"], "approve")} == decided(house)


@DIALECTS
async def test_what_is_risky_is_approved_by_itself(house: House, post: Post) -> None:
    """Denials beside it approve nothing in passing, and what is over is not approved again."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        risky, denied = waits(house, conversation, category="unsafe_exec"), waits(house, conversation)
        over = waits(house, conversation, state="approved")
        await answer(client, post, conversation, (risky, True), (denied, False), (over, True))
    assert {(risky["approval_id"], "approve"), (denied["approval_id"], "deny")} <= decided(house)


@pytest.mark.parametrize(("category", "approved"), [("unsafe_exec", ["again"]), ("config_change", ["beside"])])
async def test_a_yes_to_a_call_that_is_asked_about_again_stands_by_itself(
    house: House, category: str, approved: list[str]
) -> None:
    """A history has both yeses of the post before it: the risky one approves nothing, any other counts beside it."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        again = waits(house, conversation, category="unsafe_exec")
        beside = waits(house, conversation, category=category)
        path, body = by_openai(conversation, [(again, True), (beside, True), (again, True)])
        body["input"][-1]["approval_request_id"] += "_13"
        await status_of(client, path, body)
    rows = {again["approval_id"]: "again", beside["approval_id"]: "beside"}
    assert [(each, "approve") for each in approved] == [(rows[each], verb) for each, verb in decided(house)]


@DIALECTS
async def test_a_yes_to_a_card_from_before_a_restore_lets_nothing_run(house: House, post: Post) -> None:
    """The conversation's card does not say that the call may have run, and the yes may be older too; a no counts."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        asked, denied = waits(house, conversation), waits(house, conversation)
        house.query(RESTORED)
        await answer(client, post, conversation, (denied, False), (asked, True))
        shown = (await client.get(f"/v1/approvals/{asked['approval_id']}")).json()
        assert {(denied["approval_id"], "deny")} == decided(house)
        body = {"decision": "approve", "digest": asked["digest"], "restored_at": shown["restored_at"]}
        told = await client.post(f"/v1/approvals/{asked['approval_id']}/decisions", json=body)
    assert 200 == told.status_code


@DIALECTS
async def test_calls_of_one_answer_are_approved_in_its_order(house: House, post: Post) -> None:
    """Whatever the order in which the client says so: an approved call waits for those before it."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        rows = proposed(house, 1, 4, conversation_id=conversation)
        await answer(client, post, conversation, *[(row, True) for row in rows[::-1]])
    assert [row["approval_id"] for row in rows] == [claims.approval_id for claims in house.approvers.claims]


@DIALECTS
@pytest.mark.parametrize("answered", [0, 1, 3])
async def test_a_client_that_vanishes_stops_none_of_its_answers(house: House, post: Post, answered: int) -> None:
    """Its connection is lost while they are decided one after the other, `answered` of four at that moment."""
    key, server, approvers = house.key("chat", "decide"), house.gateways[0]._servers[0], house.approvers
    async with house.client(key) as client:
        conversation, _ = await a_conversation(client)
    rows = proposed(house, 1, 4, conversation_id=conversation)
    path, body = post(conversation, [(row, True) for row in rows])

    async def heard(number: int) -> bool:
        return len(approvers.claims) > number

    async def alone() -> bool:
        return not server.server_state.connections

    async def all_approved() -> bool:
        return house.query("SELECT DISTINCT state FROM read.approvals") == [("approved",)]

    await until(alone, "nobody else is connected")
    async with approvers.answering:
        writer = await sent(house.gateways[0].url, key, path, body)
        for number in range(answered):
            await until(partial(heard, number), "a decision is sent")
            # Whoever has waited for longer gets a lock first: the one that was heard, which is answered then.
            approvers.answering.release()
            await approvers.answering.acquire()
        await until(partial(heard, answered), "the next decision is sent")
        writer.transport.abort()
        await until(alone, "the gateway has lost the connection")
    await until(all_approved, "all are decided")
    assert [row["approval_id"] for row in rows] == [claims.approval_id for claims in approvers.claims]


async def sent(url: str, key: str, path: str, body: dict[str, Any]) -> asyncio.StreamWriter:
    """Send a whole request over a connection of its own; return what closes that."""
    place, content = urlsplit(url), json.dumps(body).encode()
    _, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
    return writer


@DIALECTS
async def test_another_conversations_approval_is_not_answered_here(house: House, post: Post) -> None:
    """A page shows one chat: what is posted to it decides nothing elsewhere, whoever asks."""
    async with house.client(house.key("chat", "decide")) as client:
        here, _ = await a_conversation(client)
        elsewhere, _ = await a_conversation(client)
        await answer(client, post, here, (waits(house, elsewhere), True))
    assert set() == decided(house)


@DIALECTS
async def test_all_calls_that_a_model_may_make_at_once_are_answered_at_once(house: House, post: Post) -> None:
    """Clients post the answers to all calls of a message together; one more is a 400 before anything is decided."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        rows = [waits(house, conversation) for _ in range(CALLS_PER_STEP_MAX + 1)]
        status = await answer(client, post, conversation, *((row, False) for row in rows))
        assert (400, set()) == (status, decided(house))
        await answer(client, post, conversation, *((row, False) for row in rows[1:]))
    assert {(row["approval_id"], "deny") for row in rows[1:]} == decided(house)


def leaving(post: Post, conversation: str, said: Said, *entries: str) -> tuple[str, dict[str, Any]]:
    """Return path and body of an answer that leaves entries of a commit out, as each client says that."""
    path, body = post(conversation, [said])
    if post is by_ag_ui:
        body["resume"][0]["payload"]["leave_out"] = entries
    elif post is by_ai_sdk:
        body["leave_out"] = {said[0]["approval_id"]: entries}
    else:
        body["metadata"] = {"placet_leave_out": ", ".join(entries)}
    return path, body


async def told(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> tuple[int, str]:
    """Post a body; return the status and what is told up to the end of the stream, or its first words."""
    async with client.stream("POST", path, json=body) as response:
        async for chunk in response.aiter_text():
            if response.status_code != 200 or "data:" in chunk:
                return response.status_code, chunk
        return response.status_code, ""


@DIALECTS
async def test_entries_of_a_commit_are_left_out(house: House, post: Post) -> None:
    """One edit without them, and without what touches the same: the very arguments that every other surface makes."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    await house.append(CONVERSATION, turn("started"))
    async with house.client(house.key("chat", "decide")) as client:
        status, _ = await told(client, *leaving(post, CONVERSATION, (row, True), calls[1], calls[-1]))
    kept = [calls[0], *calls[3:-1]]
    assert (200, [("edit", row["digest"], canonical_text(commit_arguments(kept)))]) == (
        status,
        [(claims.verb, claims.digest, claims.arguments) for claims in house.approvers.claims],
    )


@DIALECTS
@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_nothing_to_leave_out_is_as_if_it_were_not_said(house: House, post: Post, verb: str) -> None:
    """A form with no box checked sends an empty list: the answer counts for what it is."""
    row = propose(house, stage(house, a_busy_turn(0)))
    await house.append(CONVERSATION, turn("started"))
    async with house.client(house.key("chat", "decide")) as client:
        await told(client, *leaving(post, CONVERSATION, (row, verb == "approve")))
    assert [(verb, "")] == [(claims.verb, claims.arguments) for claims in house.approvers.claims]


@DIALECTS
async def test_what_cannot_be_left_out_decides_nothing(house: House, post: Post) -> None:
    """An unknown entry, all of them, and no id at all."""
    calls = stage(house, a_busy_turn(0))
    row = propose(house, calls)
    await house.append(CONVERSATION, turn("started"))
    async with house.client(house.key("chat", "decide")) as client:
        for entries in (["nothing"], calls, ["no id"]):
            await told(client, *leaving(post, CONVERSATION, (row, True), *entries))
    assert [] == house.approvers.claims


@DIALECTS
async def test_entries_are_left_out_of_a_commit_alone(house: House, post: Post) -> None:
    """A call of another kind has no entries, so that it is not approved either."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        await told(client, *leaving(post, conversation, (waits(house, conversation), True), "call-1"))
    assert [] == house.approvers.claims


@DIALECTS
async def test_an_answer_that_left_entries_out_may_be_repeated(house: House, post: Post) -> None:
    """Clients tell their history again: an answer about the card before the edit approves nothing of the new one."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    await house.append(CONVERSATION, turn("started"))
    edited = canonical_text(commit_arguments(calls[1:]))
    house.query("UPDATE read.approvals SET arguments = %s, digest = %s", edited, "0" * 64)
    async with house.client(house.key("chat", "decide")) as client:
        await told(client, *leaving(post, CONVERSATION, (row, True), calls[0]))
    assert [("edit", row["digest"], "")] == [
        (claims.verb, claims.digest, claims.arguments) for claims in house.approvers.claims
    ]


async def test_each_post_of_an_ai_sdk_page_may_say_what_is_left_out(house: House) -> None:
    """Its transport sends all that is chosen: it counts in the post that approves, and stops neither text nor no."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    await house.append(CONVERSATION, turn("started"))
    other = waits(house, CONVERSATION)
    chosen = {"leave_out": {row["approval_id"]: calls[:1]}}
    path, text = by_ai_sdk(CONVERSATION, [])
    text["message"] = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    posted = [text, *(by_ai_sdk(CONVERSATION, [said])[1] for said in ((other, True), (row, True), (row, False)))]
    async with house.client(house.key("chat", "decide")) as client:
        assert [200] * 4 == [await status_of(client, path, body | chosen) for body in posted]
    edited = canonical_text(commit_arguments(calls[1:]))
    assert [("approve", ""), ("edit", edited), ("deny", "")] == [
        (claims.verb, claims.arguments) for claims in house.approvers.claims
    ]


async def test_entries_are_left_out_where_each_client_may_say_so(house: House) -> None:
    """Said elsewhere, or of nothing that is approved, it is a 400 and nothing is decided: it would not be heeded."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    await house.append(CONVERSATION, turn("started"))
    path, openai = by_openai(CONVERSATION, [(row, True)])
    openai["input"][0]["leave_out"] = calls[:1]
    _, denied = by_openai(CONVERSATION, [(row, False)])
    said = {"role": "user", "content": "yes"}
    metadata = {"placet_leave_out": calls[0]}
    bodies = [
        (path, openai),
        (path, {"conversation": CONVERSATION, "input": "yes", "metadata": metadata}),
        ("/v1/chat/completions", {"model": "default", "messages": [said], "metadata": metadata}),
        (path, denied | {"metadata": metadata}),
        ("/agui", by_ag_ui(CONVERSATION, [])[1] | {"resume": [an_interrupt(row, {"leave_out": calls[:1]})]}),
    ]
    async with house.client(house.key("chat", "decide")) as client:
        answers = [await client.post(*at, json=body) for *at, body in bodies]
    assert [400, 400, 400, 400] == [answer.status_code for answer in answers[:4]]
    assert answers[4].status_code in {400, 422}
    assert [] == house.approvers.claims


def an_interrupt(row: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """Return an answer to an interrupt of AG-UI."""
    return {"interruptId": f"{row['approval_id']}.{row['digest']}", "status": "resolved", "payload": payload}
