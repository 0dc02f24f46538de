"""A job begins as any call does: what is stopped or revoked while its permit waits for a lock begins nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import yaml

from placet.contracts.messages import JOBS_POOL, ToolCallPermitted, ToolCallProposed
from placet.contracts.permit import Consent, issue_permit
from placet.contracts.signing import create_keys, load_signer
from tests.builders import a_posted_message
from tests.support.agents import ScriptedModel, an_agent, says, wait_for_a_blocked_statement

ASKS = ("accomplish", '{"task": "do it"}')
STOPPED = "INSERT INTO read.stops VALUES ('s', 'acme', 'accomplish', NULL, 'incident')"
REVOKED = "UPDATE read.api_keys SET revoked_at = now()"


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
    agent_url: str, tmp_path: Path, meanwhile: str, lifetime_seconds: int, follows: str
) -> None:
    """Stops, keys and the permit's end are looked at once the conversation is locked, whoever had it before."""
    create_keys(tmp_path)
    agents = tmp_path / "agents.yaml"
    agents.write_text(yaml.safe_dump({"version": 1, "agents": {"default": {"accomplish": {}}}}))
    with psycopg.connect(agent_url) as connection:
        connection.execute("CREATE SCHEMA read")
        connection.execute("CREATE TABLE read.stops (stop_id text, tenant text, tool text, agent text, reason text)")
        connection.execute("CREATE TABLE read.api_keys (key_id text, revoked_at timestamptz)")
        connection.execute("INSERT INTO read.api_keys VALUES ('key-1', NULL)")
    async with an_agent(
        agent_url, ScriptedModel([says("", ASKS), says("over")]), keys=tmp_path, agents=agents
    ) as agent:
        await agent.post(a_posted_message())
        (proposed,) = await agent.came(ToolCallProposed)
        call, now = proposed.call, datetime.now(UTC)
        permit = issue_permit(
            load_signer(tmp_path, "policy"),
            call,
            pool=JOBS_POOL,
            reference="verdict-1",
            now=now,
            lifetime_seconds=lifetime_seconds,
            consent=Consent(keys=["key-1"]),
        )
        with psycopg.connect(agent_url) as other:
            other.execute("SELECT FROM agent.conversations FOR UPDATE")
            permitted = ToolCallPermitted(tenant=call.tenant, pool=JOBS_POOL, call=call, permit=permit)
            sending = asyncio.create_task(agent.post(permitted))
            await asyncio.to_thread(wait_for_a_blocked_statement, agent_url)
            with psycopg.connect(agent_url) as administrator:
                administrator.execute(meanwhile)
            other.rollback()
        await sending
        found = "SELECT event FROM agent.history WHERE machine = 'tool_call' ORDER BY id"
        assert (["proposed", follows], []) == ([event for (event,) in agent.rows(found)][:2], agent.dead)
