"""An edit that decides is told of, whichever of its news comes first, and every frontend shows its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from placet.agent.conversation import Answer, Conversation
from placet.agent.rules import Behaviour, Result
from placet.agent.turns import Said
from placet.contracts.messages import ApprovalClosed, ApprovalProgressed, ToolCallProposed
from placet.gateway.conversations.items import Item
from placet.gateway.dialects.ag_ui import AgUiState
from placet.gateway.dialects.ag_ui import Goal as Run
from placet.gateway.dialects.ai_sdk import Goal, begin
from placet.gateway.dialects.ai_sdk_history import history
from placet.gateway.dialects.conversation_state import fold
from tests.builders import NOON, a_call, a_posted_message
from tests.support.ag_ui_client import Client
from tests.support.agents import SHOP, opened, says
from tests.support.ai_sdk_page import Page
from tests.support.conversation_logs import AT
from tests.support.log_rules import LogRules

BEHAVIOUR = Behaviour("", steps_max=4, final_answer=False)
PLACE = {"tenant": "acme", "conversation_id": "conversation-1"}
PAY = ("pay", '{"amount": 10}')
#: Nobody wrote, and no call waited.
NOTHING_MEANWHILE = (False, False)
LESS = a_call(arguments={"amount": 7})
#: What comes of a call whose arguments somebody edited, and that was decided by it.
NEWS = ("edited", "closed", "answered")


def asked() -> tuple[Conversation, ToolCallProposed]:
    """Return a conversation in which people are asked about a call, and the call."""
    here = Conversation("conversation-1", "acme")
    here.take_message(a_posted_message(**PLACE, message_id="m0"), BEHAVIOUR, {})
    here.finish()
    here.settle(here.begun[-1], Said(says("Paying.", PAY), *NOTHING_MEANWHILE, SHOP, BEHAVIOUR))
    here.finish()
    (proposed,) = [each for each, _ in here.emitted if isinstance(each, ToolCallProposed)]
    here.take_opened(opened(proposed), BEHAVIOUR)
    return here, proposed


def log_of(order: Sequence[str]) -> list[Item]:
    """Return the log of a call of which the news come in this order."""
    here, proposed = asked()
    call = proposed.call
    approval = {**PLACE, "call_id": call.call_id, "approval_id": f"approval-{call.call_id[:8]}", "revision": 2}
    edited = ApprovalProgressed(
        **approval, kind="edited", note="Ada changed it.", person="person:ada", call=LESS, summary="Pay 7?"
    )
    closed = ApprovalClosed(**approval, state="approved", closed_at=NOON, edited=edited)
    answer = Answer(call.call_id, Result("succeeded", data="paid 7"))
    news = {
        "edited": lambda: here.take_progressed(edited),
        "closed": lambda: here.take_closed(closed),
        "answered": lambda: here.take_result(answer, BEHAVIOUR),
    }
    for name in order:
        news[name]()
    here.finish()
    return [Item(number, kind, AT, data) for number, (kind, data) in enumerate(here.items, 1)]


@pytest.mark.parametrize("order", [each for each in permutations(NEWS) if each[-1] == "answered"])
def test_the_log_tells_of_an_edit_before_the_end_that_it_made(order: Sequence[str]) -> None:
    """Once, with the new arguments, whichever of the two messages of one transaction comes first."""
    cards = [each.data for each in log_of(order) if each.type == "approval"]
    assert [("pending", 10), ("pending", 7), ("approved", 7)] == [
        (each["state"], each["arguments"]["amount"]) for each in cards
    ]
    assert [("edited", "Ada changed it.", "Pay 7?", LESS.digest)] == [
        (each["kind"], each["note"], each["summary"], each["digest"]) for each in cards if "kind" in each
    ]


@pytest.mark.parametrize("order", list(permutations(NEWS)))
def test_every_frontend_shows_what_was_edited(order: Sequence[str]) -> None:
    """Live and loaded, also where the result came before any news of the edit; the log keeps its promises."""
    items, rules = log_of(order), LogRules()
    for item in items:
        rules.take(item.type, item.data)
    (message,) = [each for each in history(items) if each["role"] == "assistant"]
    goal: dict[str, Any] = {
        "message_id": "m0",
        "decided": frozenset(each.data["approval_id"] for each in items if each.type == "approval"),
    }
    stream, run = begin(Goal("7", **goal)), AgUiState(Run("thread", "run", **goal))
    page, client = Page("7"), Client()
    for item in items:
        stream, chunks = fold(stream, item)
        run, events = fold(run, item)
        page.read(chunks)
        client.read(events)
    shown = [next(iter(each.calls.values())) for each in (page, Page("7", message))]
    assert ([], [({"amount": 7}, "paid 7")] * 2) == (rules.faults, [(each["input"], each["output"]) for each in shown])
    (call,) = [call for each in client.messages for call in each.get("toolCalls", ())]
    (card,) = [each["content"] for each in client.messages if each["role"] == "activity"]
    assert ('{"amount":7}', "approved", "Pay 7?") == (call["function"]["arguments"], card["state"], card["summary"])
    (stands,) = client.state["placet"]["calls"].values()
    assert ("success", "succeeded") == (stands["status"], stands["result"])
