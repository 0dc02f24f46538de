"""A decision that waits for another transaction is judged by what is true after the wait."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from placet.contracts.messages import CallApproved, DecisionAnswered, ToolCallPermitted
from placet.contracts.signing import Signer
from tests.builders import an_approval_rule
from tests.integration.approval.test_handlers import opened_by
from tests.support.agents import wait_for_a_blocked_statement
from tests.support.approval_builders import RULEBOOK_DIGEST, a_decision, some_claims
from tests.support.approval_keys import add_keys, judge_by
from tests.support.house import Replica

OTHER_RULES = "f" * 64
#: Returns when whoever waits has done so for longer than a decision may.
LONG_ENOUGH = (
    "SELECT pg_sleep_until(max(query_start) + interval '0.3 seconds') FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize(
    ("changed", "followed"),
    [
        ("nothing", (["accepted"], [ToolCallPermitted])),
        ("rules", (["accepted"], [CallApproved])),
        ("key", (["not_allowed"], [])),
    ],
)
async def test_what_changes_during_a_wait_counts(
    replica: Replica,
    gateway: Signer,
    approval_url: str,
    changed: str,
    followed: tuple[list[str], list[type]],
) -> None:
    """The last yes waits for its approval's row: new rules are asked, and a key that was revoked decides nothing."""
    await judge_by(replica, RULEBOOK_DIGEST)
    await add_keys(replica, "key-ada")
    card = await opened_by(replica, approval=an_approval_rule(approvers=["person:ada"]))
    ada = some_claims(card, person="person:ada", roles=[], proof="api_key", key_id="key-ada")
    with psycopg.connect(approval_url) as other:
        other.execute("SELECT FROM approval.approvals FOR UPDATE")
        sending = asyncio.create_task(replica.send(a_decision(gateway, ada)))
        await asyncio.to_thread(wait_for_a_blocked_statement, approval_url)
        if changed == "rules":
            await judge_by(replica, OTHER_RULES)
        if changed == "key":
            await replica.execute('UPDATE "read".api_keys SET revoked_at = now()')
        await asyncio.to_thread(other.execute, LONG_ENOUGH)
        other.rollback()
    sent = await sending
    answers = [message.outcome for message in sent if isinstance(message, DecisionAnswered)]
    assert followed == (answers, [type(each) for each in sent if isinstance(each, ToolCallPermitted | CallApproved)])
