"""Erasures that meet: each other, and votes on what names the person."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from tests.integration.deploy.test_erasing import ada_erased, put
from tests.support.agents import wait_for_a_blocked_statement

NAMED: tuple[str, dict[str, Any]] = ("agent.log", {"data": {"error": "It was person:ada."}})
DONE: tuple[str, dict[str, Any]] = (
    "approval.history",
    {"machine": "approval", "event": "approved", "subject_id": "a", "to_state": "approved", "actor": "person:ada"},
)


async def test_the_second_of_two_erasures_says_which_pseudonym_is_there(database_url: str) -> None:
    """It waits for the first one, finds nothing left to do, and makes up no name that nothing has."""
    with psycopg.connect(database_url) as connection:
        put(connection, [NAMED, DONE])
        connection.commit()
        # Both have seen her name when the first one waits here with its changes.
        connection.execute("SELECT FROM agent.log FOR UPDATE")
        both = [asyncio.create_task(ada_erased(database_url)) for _ in range(2)]
        await asyncio.to_thread(wait_for_a_blocked_statement, database_url, 2)
        connection.rollback()
        erased = await asyncio.gather(*both)
        left = connection.execute("SELECT data ->> 'error' FROM agent.log").fetchall()
        sealed = connection.execute("SELECT subject_id FROM gateway.history WHERE machine = 'erasure'").fetchall()
    (pseudonym,) = {each.pseudonym for each in erased}
    assert ([(f"It was person:{pseudonym}.",)], [(pseudonym,)], [0, 1]) == (
        left,
        sealed,
        sorted(each.history for each in erased),
    )


async def test_an_erasure_locks_approvals_in_the_order_in_which_votes_do(database_url: str) -> None:
    """Whoever votes on two that name the person, and holds the first one, gets the second one too."""
    soon = datetime.now(UTC) + timedelta(days=1)
    waits = {"state": "pending", "deciders": ["person:ada"], "expires_at": soon}
    rows = [("approval.approvals", waits | {"approval_id": each, "call_id": each}) for each in ("b", "a")]
    with psycopg.connect(database_url) as connection:
        put(connection, rows)
        connection.commit()
        connection.execute("SELECT FROM approval.approvals WHERE call_id = 'a' FOR UPDATE")
        erasing = asyncio.create_task(ada_erased(database_url))
        await asyncio.to_thread(wait_for_a_blocked_statement, database_url)
        connection.execute("SELECT FROM approval.approvals WHERE call_id = 'b' FOR UPDATE NOWAIT")
        connection.rollback()
        erased = await erasing
        found = connection.execute("SELECT DISTINCT deciders FROM approval.approvals").fetchall()
    assert [([f"person:{erased.pseudonym}"],)] == found
