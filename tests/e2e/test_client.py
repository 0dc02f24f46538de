"""The typed client drives a conversation from its first word to the result of a decided call."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from placet.client import (
    ApiError,
    ApprovalItem,
    AsyncClient,
    AsyncConversation,
    Client,
    Conversation,
    Delta,
    MessageItem,
    ToolCallItem,
    TurnItem,
)
from tests.support.people import Caller


def _talk(url: str, key: str, decider: str) -> list[str]:
    """Ask for a payment link, approve it, and return what was seen, in words."""
    seen: list[str] = []
    with Client(url, key) as placet, Client(url, decider) as desk:
        conversation = placet.open_conversation(visitor="ada", labels={"plan": "gold"})
        conversation.post("a payment link please")
        for item in conversation.follow():
            match item:
                case ApprovalItem(data=card) if card.waits:
                    seen.append(f"waits {conversation.show().state}")
                    (waiting,) = desk.approvals(conversation=conversation.id)
                    assert card.digest == waiting.digest
                    seen.append(desk.decide(waiting, "approve", reason="fine").state)
                case ToolCallItem(data=call) if call.status == "success":
                    seen.append(f"{call.tool} {desk.tool_call(call.call_id).kind}")
                case TurnItem(data=turn) if turn.is_over and "create_pay_link succeeded" in seen:
                    break
        with pytest.raises(ApiError, match=r"^409 "):
            desk.decide(waiting, "deny")
        conversation.end()
    return seen


async def test_a_program_opens_writes_follows_and_decides(frontend: Caller, operator: Caller) -> None:
    """Each step is one method, and each answer has its type."""
    seen = await asyncio.to_thread(_talk, frontend.url, frontend.token, operator.token)
    assert ["waits waiting", "approved", "create_pay_link succeeded"] == seen


async def test_following_goes_on_where_it_was_left(frontend: Caller) -> None:
    """After an item come those behind it, each once, also over a second stream; the same message is posted once."""
    async with AsyncClient(frontend.url, frontend.token) as placet:
        conversation = await placet.open_conversation()
        first = await conversation.post("hello", message_id="m-1")
        again = await conversation.post("hello", message_id="m-1")
        ids: list[int] = []
        texts: list[str] = []
        while True:
            item = await anext(each async for each in conversation.follow(ids[-1] if ids else 0) if _stays(each))
            assert not isinstance(item, Delta)
            ids.append(item.id)
            if isinstance(item, MessageItem):
                texts.append(item.data.role)
            if isinstance(item, TurnItem) and item.data.is_over:
                break
    assert (first.message_id, list(range(1, len(ids) + 1))) == (again.message_id, ids)
    assert ["user", "assistant"] == texts


def _stays(item: object) -> bool:
    return not isinstance(item, Delta)


async def test_what_is_refused_says_why(frontend: Caller) -> None:
    """The problem document is at hand, and its text says what is wrong where."""
    async with AsyncClient(frontend.url, "no-key") as nobody:
        with pytest.raises(ApiError) as refused:
            await nobody.open_conversation()
    assert (401, 401) == (refused.value.status, refused.value.problem["status"])
    async with AsyncClient(frontend.url, frontend.token) as placet:
        with pytest.raises(ApiError, match=r"^400 The request is not valid\.: #/language: "):
            await placet.open_conversation(language="\u00fc" * 99)


async def test_an_id_leads_to_no_other_path(operator: Caller) -> None:
    """Whatever somebody takes for one."""
    async with AsyncClient(operator.url, operator.token) as placet:
        with pytest.raises(ApiError) as refused:
            await placet.approval("x/../../approvals")
    assert 404 == refused.value.status


@pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Conversation, AsyncConversation)])
def test_both_clients_have_the_same_methods(one: type, other: type) -> None:
    """Whoever knows one knows the other."""

    def shape(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in found if not name.startswith("_")}

    assert shape(one) == shape(other)
