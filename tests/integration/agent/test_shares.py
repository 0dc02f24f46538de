"""Model calls of one process among tenants and among their agents: who floods waits, who is quiet is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import a_posted_message
from tests.support.agents import Pause, ScriptedModel, an_agent, says


@pytest.mark.parametrize(
    ("quiet", "loud"),
    [({"tenant": "globex"}, {"tenant": "acme"}), ({"agent": "quick"}, {"agent": "slow"})],
    ids=["tenants", "agents"],
)
async def test_who_floods_leaves_model_calls_for_others(
    agent_url: str, tmp_path: Path, quiet: dict[str, str], loud: dict[str, str]
) -> None:
    """Of ten messages three are asked about at once, with four slots; what is quiet is answered meanwhile."""
    agents = tmp_path / "agents.yaml"
    agents.write_text("version: 1\nagents: {default: {}, quick: {}, slow: {}}\n")
    paused = [Pause(says("Slow")) for _ in range(3)]
    model = ScriptedModel([says("Hello"), *paused, says("Quick"), *(says("At last") for _ in range(7))])
    async with an_agent(agent_url, model, agent_slots=4, agents=agents) as agent:
        await agent.post(a_posted_message(conversation_id="first", **quiet))
        await agent.ended(1)
        await agent.post(*[a_posted_message(conversation_id=f"c{number}", **loud) for number in range(10)])
        for each in paused:
            await each.reached()
        await agent.post(a_posted_message(conversation_id="second", **quiet))
        await agent.ended(2)
        assert 5 == len(model.asked)
        for each in paused:
            each.release()
        assert {"finished"} == {each.end["state"] for each in await agent.ended(12)}
    assert 12 == len(model.asked)
