"""Mission F: messages between services, frontends on AMQP, and executors that scale."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import aio_pika

from placet.cli.invariants import invariants
from placet.contracts.frontends import frontend_key
from placet.contracts.ids import new_id, own_id
from placet.contracts.messages import Author, MessagePosted
from tests.builders import an_envelope, an_event
from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.system import ROOT, System, until


async def test_a_gated_call_travels_through_the_exchanges(frontend: Caller, operator: Caller, system: System) -> None:
    """F1: proposed, held, opened, decided, permitted, finished: each on its exchange; the notifier shows the card."""
    connection = await aio_pika.connect(system.rabbitmq_url)
    async with connection:
        channel = await connection.channel()
        tap = await channel.declare_queue(exclusive=True)
        for exchange in ("messages", "tool-calls", "approvals", "decisions", "executions", "tool-results"):
            await tap.bind(exchange, "#")
        visitor = await a_visitor(frontend)
        await visitor.say("a payment link please")
        card = await visitor.see_card()
        await operator.decide(card, "approve")
        await visitor.see_answer()
        seen: list[str] = []
        while (message := await tap.get(fail=False)) is not None:
            await message.ack()
            seen += [event["type"].split(".", 1)[1] for event in json.loads(message.body) if _is_of(event, visitor)]
    assert [name for name in _ORDER if name in seen] == _ORDER

    async def shown() -> bool:
        return [("pending", None), ("approved", None), (None, "succeeded")] == _cards_in_log(system, card)

    await until(shown, "the notifier's log shows the card's way to its end")


def _cards_in_log(system: System, card: dict[str, Any]) -> list[tuple[str | None, str | None]]:
    """Return how the approval stood, or how its call ended, in each line that the notifier's log has of it, sorted."""
    lines = (json.loads(line) for line in (system.folder / "notifier-1.log").read_text().splitlines())
    ours = {card["approval_id"], card["call_id"]}
    told = [each for each in lines if each["event"] == "approval.card" and not ours.isdisjoint(each.values())]
    order = ("pending", "approved", None)
    states = [(each.get("approval_state"), each.get("ended")) for each in told]
    return sorted(states, key=lambda state: order.index(state[0]))


_ORDER = [
    "message.posted.v1",
    "tool-call.proposed.v1",
    "approval.requested.v1",
    "approval.opened.v1",
    "approval.decide.v1",
    "approval.closed.v1",
    "tool-call.permitted.v1",
    "tool-call.finished.v1",
]


def _is_of(event: dict[str, dict[str, object]], visitor: Visitor) -> bool:
    return visitor.conversation in json.dumps(event["data"]) or "decision" in event["data"]


async def test_a_frontend_may_publish_messages_itself(system: System, operator: Caller) -> None:
    """F3: a conversation that exists only on RabbitMQ is answered and can be read over HTTP."""
    conversation = own_id("acme", new_id())
    message = MessagePosted(
        tenant="acme",
        conversation_id=conversation,
        message_id=new_id(),
        text="hello from a queue",
        author=Author(kind="visitor", id="somebody"),
    )
    connection = await aio_pika.connect(system.rabbitmq_url)
    async with connection:
        channel = await connection.channel()
        messages = await channel.get_exchange("messages")
        event = an_event(message, time=datetime.now(UTC))
        for _ in range(3):  # a nervous frontend
            await messages.publish(aio_pika.Message(an_envelope(event)), frontend_key("acme"))
    reader = Visitor(system.url, system.key("chat"), conversation=conversation)

    async def known() -> bool:
        return (await reader.request("GET", reader.path)).status_code == 200

    await until(known, "the gateway knows the conversation")
    assert await reader.see_answer() == "Hello, how can I help you today?"
    assert [item["data"]["role"] for item in reader.items if item["type"] == "message"] == ["user", "assistant"]


async def test_executors_drain_without_losing_a_call(
    frontend: Caller, operator: Caller, stage: Stage, system: System
) -> None:
    """F3: an executor that is told to stop finishes what it runs; the others take the rest; nothing runs twice."""
    visitors = [await a_visitor(frontend) for _ in range(12)]
    await asyncio.gather(*(visitor.say("set the flag") for visitor in visitors))
    cards = await asyncio.gather(*(visitor.see_card() for visitor in visitors))
    deciding = [asyncio.create_task(operator.decide(card, "approve")) for card in cards]
    await asyncio.to_thread(system.processes["executor-1"].stop)
    await asyncio.gather(*deciding)
    answers = await asyncio.gather(*(visitor.see_answer() for visitor in visitors))
    assert answers == ["The flag is set."] * 12
    assert [len(stage.begun("set_flag", visitor.conversation)) for visitor in visitors] == [1] * 12
    await system.start_again("executor-1")


async def test_the_history_of_a_call_is_whole(frontend: Caller, operator: Caller) -> None:
    """One address tells everything about a call: proposal, verdict, approval, execution, result, and when."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    await operator.decide(card, "approve", "go ahead")
    await visitor.see(is_result("deploy"))
    told = await visitor.get(f"/v1/tool-calls/{card['call_id']}")
    assert (told["verdict"]["effect"], told["approval"]["state"], told["execution"]["state"]) == (
        "require_approval",
        "approved",
        "succeeded",
    )
    assert told["approval"]["decision_reason"] == "go ahead"
    moments = [row["at"] for row in told["history"]]
    assert moments == sorted(moments)


def test_the_shape_withstands_its_own_attacks(system: System) -> None:
    """`placet verify` finds nothing broken among a dozen processes, by a key and beside their database."""
    environment = {"PLACET_URL": system.url, "PLACET_KEY": system.key("chat", "decide", "admin", person="grace")}
    command = [sys.executable, "-m", "placet.cli", "verify", "--json", "--say", "a payment link please"]
    ended = subprocess.run(
        [*command, "--database", system.database_url],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(ended.stdout)
    assert [] == [row for row in report["rows"] if row["outcome"] != "held"]
    assert (0, True) == (ended.returncode, report["held"] > len(invariants()))
