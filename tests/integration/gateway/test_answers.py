"""Answers to approval requests that come with a chat: every dialect has them decided by the same rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from tests.builders import a_call
from tests.support.gateway import House, a_conversation, an_approval_row, insert

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
    path, body = post(conversation, answers)
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


@DIALECTS
async def test_another_conversations_approval_is_not_answered_here(house: House, post: Post) -> None:
    """A page shows one chat: what is posted to it decides nothing elsewhere, whoever asks."""
    async with house.client(house.key("chat", "decide")) as client:
        here, _ = await a_conversation(client)
        elsewhere, _ = await a_conversation(client)
        await answer(client, post, here, (waits(house, elsewhere), True))
    assert set() == decided(house)


@DIALECTS
async def test_more_than_fifty_answers_are_refused_before_any_counts(house: House, post: Post) -> None:
    """As many as a batch has; one more is a 400, and nothing is decided."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, _ = await a_conversation(client)
        rows = [waits(house, conversation) for _ in range(51)]
        status = await answer(client, post, conversation, *((row, False) for row in rows))
    assert (400, set()) == (status, decided(house))
