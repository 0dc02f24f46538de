"""An emergency stop from outside: at the next claim nothing of it begins, and what waits goes on once it is lifted."""

from __future__ import annotations

from tests.e2e.conftest import Stage
from tests.support.people import Caller, a_visitor
from tests.support.system import System


async def test_a_stop_holds_everywhere_and_what_waits_stays(
    frontend: Caller, operator: Caller, system: System, stage: Stage
) -> None:
    """A call that needs nobody is refused without the reason, one that waits cannot be approved, until it is lifted."""
    admin = Caller(system.url, system.key("admin", person="grace"))
    waits = await a_visitor(frontend)
    await waits.say("deploy reviewed")
    card = await waits.see_card()
    stops = [
        await admin.post("/v1/stops", {"tool": tool, "reason": "an incident"}) for tool in ("deploy", "read_status")
    ]
    try:
        refused = await operator.decide(card, "approve")
        reads = await a_visitor(frontend)
        await reads.say("never stop")
        item = await reads.see(lambda each: each["type"] == "tool_call" and each["data"]["status"] != "proposed")
    finally:
        for each in stops:
            await admin.post(f"/v1/stops/{each['id']}/resume", {"reason": "over"})
    assert (409, "urn:placet:problem:stopped") == (refused.status_code, refused.json()["type"])
    told = str(item["data"])
    assert (True, False) == ("has stopped such calls" in told, "an incident" in told)
    assert "read_status" == item["data"]["tool"]
    assert [] == stage.begun("read_status", reads.conversation) + stage.begun("deploy", waits.conversation)
    again = await operator.get(f"/v1/approvals/{card['approval_id']}")
    assert ("pending", None) == (again["state"], again["stopped"])
