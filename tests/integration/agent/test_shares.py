"""Model calls of one agent among tenants: who floods waits, and who is quiet is answered at once."""

from __future__ import annotations

from tests.builders import a_posted_message
from tests.support.agents import Pause, ScriptedModel, an_agent, says


async def test_a_tenant_that_floods_leaves_model_calls_for_others(agent_url: str) -> None:
    """Of ten messages three are asked about at once, with four slots; another tenant's is answered meanwhile."""
    paused = [Pause(says("Slow")) for _ in range(3)]
    model = ScriptedModel([says("Hello"), *paused, says("Quick"), *(says("At last") for _ in range(7))])
    async with an_agent(agent_url, model, agent_slots=4) as agent:
        await agent.post(a_posted_message(tenant="quiet", conversation_id="first"))
        await agent.ended(1)
        await agent.post(*[a_posted_message(tenant="loud", conversation_id=f"c{number}") for number in range(10)])
        for each in paused:
            await each.reached()
        await agent.post(a_posted_message(tenant="quiet", conversation_id="second"))
        await agent.ended(2)
        assert 5 == len(model.asked)
        for each in paused:
            each.release()
        assert {"finished"} == {each.end["state"] for each in await agent.ended(12)}
    assert 12 == len(model.asked)
