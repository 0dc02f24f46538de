"""Resuming an AI SDK chat, `GET /api/chat/{id}/stream`: which answer is told."""

from __future__ import annotations

import asyncio

from tests.builders import a_call
from tests.support.gateway import House, a_conversation, said, tool_call, turn

CALL = a_call(call_id="k1", turn_id="t1")
CARD = {"call_id": "k1", "turn_id": "t1", "approval_id": "a1", "revision": 1}
DENIED = {"call_id": "k1", "turn_id": "t1", "tool": CALL.tool, "status": "error", "kind": "denied", "error": "No."}
#: A question whose call was denied, beside a message that waited for that: it is answered next.
DECIDED = [
    ("message", {"role": "user", "message_id": "u1", "text": "a payment link"}),
    turn("started", "t1", message_id="u1"),
    said("m1", "Here it is.", "t1"),
    tool_call(CALL),
    ("approval", CARD | {"state": "pending"}),
    turn("paused", "t1"),
    ("message", {"role": "user", "message_id": "u2", "text": "and shoes", "waits": True}),
    ("approval", CARD | {"state": "denied"}),
    ("tool_call", DENIED | {"data": None}),
    said("m2", "It was denied.", "t1"),
    turn("finished", "t1", idle=False),
]


async def test_a_message_that_waited_is_told_its_answer_before_that_begins(house: House) -> None:
    """Resumed as soon as the answer before it is over, the stream stays, and tells the one that comes."""
    async with house.client(house.key("chat")) as client:
        conversation, _ = await a_conversation(client)
        await house.append(conversation, *DECIDED)
        async with asyncio.timeout(20), client.stream("GET", f"/api/chat/{conversation}/stream?version=7") as told:
            lines = told.aiter_lines()
            first = await anext(lines)
            answer = [turn("started", "t2", message_id="u2"), said("m3", "Red ones.", "t2")]
            await house.append(conversation, *answer, turn("finished", "t2", idle=True))
            rest = "".join([line async for line in lines])
    assert (200, ": stream-open") == (told.status_code, first)
    assert (True, True, False) == tuple(each in rest for each in ('"messageId":"t2"', "Red ones.", "It was denied."))
