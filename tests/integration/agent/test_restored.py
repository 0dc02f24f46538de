"""After a restore no model is asked for what is from before it: what came of it after the backup would come again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from placet.agent.rules import RESTORED
from placet.contracts.messages import JOBS_POOL, Author, Message, ToolCallPermitted, ToolCallProposed
from placet.contracts.permit import issue_permit
from placet.contracts.signing import create_keys, load_signer
from tests.builders import a_call, a_posted_message, an_event
from tests.support.agents import Agent, ScriptedModel, an_agent, finished, opened, says

PAY = ("pay", '{"amount": 299}')
AT_ONCE = {"while_pending": "continue"}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
BROKEN_OFF = ("failed", RESTORED)


async def post_now(agent: Agent, message: Message) -> None:
    """Send a message as of the database's clock: one from before the restore would be void."""
    ((now,),) = agent.rows("SELECT clock_timestamp()")
    await agent.post_events(an_event(message, time=now))


async def waiting(url: str, *, queued: bool) -> ToolCallProposed:
    """Leave a call without a result: its turn waits, and a message behind it; or the turn has gone on without it."""
    async with an_agent(url, ScriptedModel([says("", PAY), says("I asked.")])) as agent:
        await agent.post(a_posted_message())
        (pay,) = await agent.came(ToolCallProposed)
        await agent.post(opened(pay, **({} if queued else AT_ONCE)))
        if queued:
            await agent.post(a_posted_message(author=Author(kind="visitor", id="visitor-2")))
        else:
            await agent.ended()
    return pay


def mark_restored(url: str) -> None:
    """Have the database restored from a backup just now."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA read")
        connection.execute("CREATE TABLE read.restores AS SELECT now() AS restored_at, now() AS backup_at")


@pytest.mark.parametrize(("queued", "broken_off"), [(True, 2), (False, 1)])
async def test_what_waited_for_a_turn_before_a_restore_asks_no_model(
    agent_url: str, *, queued: bool, broken_off: int
) -> None:
    """A message behind a turn, or the outcome of an earlier call: its turn ends with a word; a new one is answered."""
    pay = await waiting(agent_url, queued=queued)
    mark_restored(agent_url)
    model = ScriptedModel([says("Hello again.")])
    async with an_agent(agent_url, model) as agent:
        await post_now(agent, finished(pay))
        await agent.ended(broken_off)
        await post_now(agent, a_posted_message(text="again"))
        ends = [(end.data["state"], end.data["reason"]) for end in await agent.ended(broken_off + 1)]
    assert ([*[BROKEN_OFF] * broken_off, ("finished", "")], 1) == (ends, len(model.asked))


async def test_a_permit_from_before_a_restore_begins_no_job(agent_url: str, tmp_path: Path) -> None:
    """The job that it asks for may have done its work since, whatever envelope it comes in."""
    create_keys(tmp_path)
    call = a_call(tool="accomplish")
    permit = issue_permit(
        load_signer(tmp_path, "policy"), call, pool=JOBS_POOL, reference="verdict-1", now=LONG_AGO, lifetime_seconds=60
    )
    mark_restored(agent_url)
    async with an_agent(agent_url, ScriptedModel([]), keys=tmp_path) as agent:
        await post_now(agent, ToolCallPermitted(tenant=call.tenant, pool=JOBS_POOL, call=call, permit=permit))
        assert [True] == ["before the restore" in reason for reason in agent.dead]
