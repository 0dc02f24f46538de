"""A broker that takes less than a tool may answer: the call has its answer all the same, and people learn what it was.

Everything is a system of its own, as the limit is one of the whole broker.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.messages import ToolCallFinished
from placet.contracts.messages.tool_calls import LEFT_OUT
from tests.support import large_replies
from tests.support.ground import a_ground
from tests.support.people import Caller, a_visitor, is_result
from tests.support.system import ROOT, until

pytestmark = pytest.mark.timeout(300)

LIMIT_BYTES = large_replies.REPLY_BYTES // 2
SERVICES = dict.fromkeys(("gateway", "agent", "policy", "approval", "executor", "dead_letters"), 1)


async def test_a_call_ends_whose_reply_the_broker_refuses(tmp_path: Path) -> None:
    """The conversation goes on at once; the letter says what was refused and why, and only discarding is left of it."""
    rulebook = tmp_path / "rulebook.yaml"
    rulebook.write_text(large_replies.RULEBOOK)
    environment = {"PLACET_MODEL": f"python/{large_replies.__name__}:reply", "PLACET_TOOLS": str(ROOT)}
    async with a_ground(tmp_path, rulebook, SERVICES, environment) as ground:
        # Of channels that are opened from now on.
        await ground.control("eval", f"application:set_env(rabbit, max_message_size, {LIMIT_BYTES}).")
        system = ground.system
        await asyncio.to_thread(system.processes["executor-1"].stop)
        await system.start_again("executor-1")
        admin = Caller(system.url, system.key("admin", "decide", person="grace"))
        visitor = await a_visitor(Caller(system.url, system.key("chat")))
        await visitor.say("read all")
        result = (await visitor.see(is_result("read_all")))["data"]
        assert ("success", "succeeded", dict(LEFT_OUT)) == tuple(result[name] for name in ("status", "kind", "data"))
        assert "Done." == await visitor.see_answer()
        letters: list[dict[str, Any]] = []

        async def buried() -> bool:
            letters[:] = (await admin.get("/v1/dead-letters"))["items"]
            return bool(letters)

        await until(buried, "the letter has come")
        (letter,) = letters
        path = f"/v1/dead-letters/{letter['id']}"
        assert ("agent.tool-results", ToolCallFinished.type_name) == (letter["queue"], letter["message_type"])
        assert (409, letter["reason"]) == (
            (await admin.request("POST", f"{path}/replay")).status_code,
            (await admin.get(path))["reason"],
        )
        await admin.post(f"{path}/discard")

        async def discarded() -> bool:
            return bool((await admin.get(path))["state"] == "discarded")

        await until(discarded, "the letter is discarded")
        call = await admin.get(f"/v1/tool-calls/{result['call_id']}")
        assert ("succeeded", "succeeded") == (call["kind"], call["execution"]["state"])
        assert "too large: sent in brief" in letter["reason"]
        system.assert_invariants()
