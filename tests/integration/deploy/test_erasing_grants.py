"""The permit of a call that somebody's grant let through names them, and goes with their name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from placet.contracts.messages import ApprovalRule
from placet.domain.directory import Directory
from placet.policy.rules import CallFacts, Rulebook, grants, judge
from tests.integration.deploy.test_erasing import ada_erased, put
from tests.support.policy_builders import a_proposal
from tests.unit.policy.test_grants import a_grant, rulebook

__all__ = ["rulebook"]


@pytest.mark.parametrize(("owner", "permit"), [("person:ada", ""), ("person:adam", "signed")])
async def test_permits_by_a_grant_go_with_its_owner(
    database_url: str,
    rulebook: Rulebook,
    owner: str,
    permit: str,
) -> None:
    """Whether or not the grant is there still; of somebody whose name begins alike it stays."""
    now = datetime.now(UTC)
    call = CallFacts.of(a_proposal(rulebook, "ship").call)
    grant = a_grant(owner=owner)
    consent = grants.standing_behind(grant, call, ApprovalRule(approvers=[owner]), Directory())
    allowed = grants.allowed_by(grant, judge(call, rulebook), consent)
    ran = {"call_id": "c", "state": "succeeded", "permit": "signed", "begun_at": now, "finished_at": now}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("policy.verdicts", {"call_id": "c", "effect": "allow", "rule": allowed.rule, "reason": allowed.reason}),
        ("executor.executions", ran),
    ]
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, rows)
        await ada_erased(database_url)
        assert [(permit,)] == connection.execute("SELECT permit FROM executor.executions").fetchall()
