"""A job begins as any call does: what is stopped or revoked while its permit waits for a lock begins nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from placet.contracts.messages import JOBS_POOL, ToolCall, ToolCallPermitted, ToolCallProposed
from placet.contracts.permit import Consent, issue_permit
from placet.contracts.signing import create_keys, load_signer
from placet.runtime.consumer import EVENTS
from tests.builders import a_posted_message
from tests.support.agents import ScriptedModel, an_agent, finished, says, wait_for_a_blocked_statement
from tests.support.system import until

ASKS = ("accomplish", '{"task": "do it"}')
STOPPED = "INSERT INTO read.stops VALUES ('s', 'acme', 'accomplish', NULL, 'incident')"
REVOKED = "UPDATE read.api_keys SET revoked_at = now()"


@pytest.fixture
def folder(agent_url: str, tmp_path: Path) -> Path:
    """Where keys and an agent that may have jobs done are; the database has what others show of keys and stops."""
    create_keys(tmp_path)
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump({"version": 1, "agents": {"default": {"accomplish": {}}}}))
    with psycopg.connect(agent_url) as connection:
        connection.execute("CREATE SCHEMA read")
        connection.execute("CREATE TABLE read.stops (stop_id text, tenant text, tool text, agent text, reason text)")
        connection.execute("CREATE TABLE read.api_keys (key_id text, revoked_at timestamptz)")
        connection.execute("INSERT INTO read.api_keys VALUES ('key-1', NULL)")
    return tmp_path


def permitted(folder: Path, call: ToolCall, consent: Consent, lifetime_seconds: int = 600) -> ToolCallPermitted:
    """Return what policy sends of a call that begins a job."""
    now, signer = datetime.now(UTC), load_signer(folder, "policy")
    about: dict[str, Any] = {
        "pool": JOBS_POOL,
        "reference": "verdict-1",
        "now": now,
        "lifetime_seconds": lifetime_seconds,
    }
    permit = issue_permit(signer, call, **about, consent=consent)
    return ToolCallPermitted(tenant=call.tenant, pool=JOBS_POOL, call=call, permit=permit)


@pytest.mark.parametrize(
    ("meanwhile", "lifetime_seconds", "follows"),
    [
        ("SELECT 1", 600, "permitted"),
        (STOPPED, 600, "result_came"),
        (REVOKED, 600, "result_came"),
        ("SELECT pg_sleep(1.1)", 1, "result_came"),
    ],
)
async def test_what_is_taken_back_during_a_wait_begins_no_job(
    agent_url: str, folder: Path, meanwhile: str, lifetime_seconds: int, follows: str
) -> None:
    """Stops, keys and the permit's end are looked at once the conversation is locked, whoever had it before."""
    model = ScriptedModel([says("", ASKS), says("over")])
    async with an_agent(agent_url, model, keys=folder, agents=folder / "agents.yaml") as agent:
        await agent.post(a_posted_message())
        (proposed,) = await agent.came(ToolCallProposed)
        with psycopg.connect(agent_url) as other:
            other.execute("SELECT FROM agent.conversations FOR UPDATE")
            permit = permitted(folder, proposed.call, Consent(keys=["key-1"]), lifetime_seconds)
            sending = asyncio.create_task(agent.post(permit))
            await asyncio.to_thread(wait_for_a_blocked_statement, agent_url)
            with psycopg.connect(agent_url) as administrator:
                administrator.execute(meanwhile)
            other.rollback()
        await sending
        found = "SELECT event FROM agent.history WHERE machine = 'tool_call' ORDER BY id"
        assert (["proposed", follows], []) == ([event for (event,) in agent.rows(found)][:2], agent.dead)


def retries() -> float:
    """Return how often permits came again so far."""
    found: float = EVENTS.labels("agent.permits", "retried")._value.get()
    return found


async def test_a_job_begins_when_the_calls_before_it_have_ended(agent_url: str, folder: Path) -> None:
    """Its permit comes again for as long as they run, and is no dead letter."""
    model = ScriptedModel([says("", ("search", '{"text": "a"}'), ASKS), says("over")])
    async with an_agent(agent_url, model, keys=folder, agents=folder / "agents.yaml") as agent:
        await agent.post(a_posted_message())
        first, second = await agent.came(ToolCallProposed, 2)
        before = retries()
        sending = asyncio.create_task(agent.post(permitted(folder, second.call, Consent(after=[first.call.call_id]))))

        async def was_tried() -> bool:
            return retries() > before

        await until(was_tried, "the permit has come")
        await agent.post(finished(first))
        await sending
        found = "SELECT event FROM agent.history WHERE machine = 'tool_call' ORDER BY id"
        told = [event for (event,) in agent.rows(found)]
        assert (["proposed", "proposed", "result_came", "permitted"], []) == (told[:4], agent.dead)
