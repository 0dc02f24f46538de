"""Trying rulebooks over HTTP: who may, what policy is asked, and what the answers look like."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.dead_letters import HOUSE_TENANT
from placet.contracts.messages.rulebook import TRIAL_TEXT_MAX
from placet.gateway.admin.trials import TENANT_TRIALS_MAX, TRIALS_MAX
from tests.support.gateway import REPORTS, House, a_conversation, insert, open_house, prepare
from tests.support.postgres import Migrate

BODIES: dict[str, dict[str, Any]] = {
    "check": {"rulebook": "tools: {}"},
    "explain": {"call": {"tool": "pay"}},
    "test": {"cases": "cases: []", "rulebook": "tools: {}"},
    "simulate": {"rulebook": "tools: {}", "since_seconds": 60},
}


@pytest.mark.parametrize("kind", BODIES)
async def test_policy_is_asked_and_its_report_is_the_answer(house: House, kind: str) -> None:
    """What was sent reaches policy with the administrator's tenant, and the report comes back as it is."""
    async with house.client(house.key("admin")) as client:
        answer = await client.post(f"/v1/rulebook/{kind}", json=BODIES[kind])
    (asked,) = house.policy.asked
    assert (200, REPORTS[kind].as_json()) == (answer.status_code, answer.json())
    expected = {**BODIES[kind], "tenant": "acme", "kind": kind}
    assert expected == asked.model_dump(include=set(expected))


@pytest.mark.parametrize("kind", BODIES)
async def test_only_administrators_try_rulebooks(house: House, kind: str) -> None:
    """Who decides or chats learns nothing about rules; nobody learns that there is anything."""
    async with house.client(house.key("chat", "decide")) as client:
        foreign = await client.post(f"/v1/rulebook/{kind}", json=BODIES[kind])
        _, token = await a_conversation(client)
    async with house.client(token) as client:
        visitor = await client.post(f"/v1/rulebook/{kind}", json=BODIES[kind])
    async with house.client() as client:
        nobody = await client.post(f"/v1/rulebook/{kind}", json=BODIES[kind])
    assert ([403, 403, 401], []) == (
        [each.status_code for each in (foreign, visitor, nobody)],
        house.policy.asked,
    )


async def test_what_cannot_be_used_is_told_by_line_and_column(house: House) -> None:
    """Policy's problems are members of the problem document."""
    problem = {"file": "rulebook", "line": 3, "column": 7, "problem": "unknown tool 'pey'"}
    house.policy.problems = [problem]
    async with house.client(house.key("admin")) as client:
        answer = await client.post("/v1/rulebook/simulate", json=BODIES["simulate"])
    told = answer.json()
    assert (400, "urn:placet:problem:rulebook-invalid", [problem]) == (
        answer.status_code,
        told["type"],
        told["problems"],
    )


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("check", {}, 400),
        ("check", {"rulebook": ""}, 400),
        ("check", {"rulebook": "x" * (TRIAL_TEXT_MAX + 1)}, 413),
        ("check", {"rulebook": "x", "file": "/etc/passwd"}, 400),
        ("explain", {"call": "pay"}, 400),
        ("simulate", {"rulebook": "x", "since_seconds": 0}, 400),
    ],
)
async def test_a_body_that_is_wrong_never_reaches_policy(
    house: House, kind: str, body: dict[str, Any], status: int
) -> None:
    """Sizes and fields are checked at the door."""
    async with house.client(house.key("admin")) as client:
        answer = await client.post(f"/v1/rulebook/{kind}", json=body)
    assert (status, []) == (answer.status_code, house.policy.asked)


async def test_a_policy_that_does_not_answer_is_504(fresh_database: Callable[[Migrate], str], tmp_path: Path) -> None:
    """A trial changes nothing, so there is nothing to look for afterwards."""
    async with open_house(fresh_database(prepare), tmp_path, gateway_trial_seconds=0.05) as house:
        house.policy.silent = True
        async with house.client(house.key("admin")) as client:
            answer = await client.post("/v1/rulebook/check", json=BODIES["check"])
    assert (504, "urn:placet:problem:unanswered") == (answer.status_code, answer.json()["type"])


@pytest.mark.parametrize(
    ("taken", "mine", "others"),
    [
        (["acme"] * (TENANT_TRIALS_MAX - 1), 200, 200),
        (["acme"] * TENANT_TRIALS_MAX, 429, 200),
        ([f"tenant-{number}" for number in range(TRIALS_MAX)], 429, 429),
    ],
)
async def test_trials_at_once_are_bounded(house: House, taken: list[str], mine: int, others: int) -> None:
    """Each may keep policy busy for seconds: one too many is asked to come again, and no tenant has all places."""
    answers = []
    with ExitStack() as places:
        for tenant in taken:
            places.enter_context(house.gateways[0].trials._place(tenant))
        for key in (house.key("admin"), house.key("admin", tenant="other")):
            async with house.client(key) as client:
                answers.append((await client.post("/v1/rulebook/check", json=BODIES["check"])).status_code)
    assert [mine, others] == answers


async def test_policy_is_told_until_when_somebody_waits(house: House) -> None:
    """By the database clock: what comes too late is not tried."""
    async with house.client(house.key("admin")) as client:
        before = datetime.now(UTC)
        await client.post("/v1/rulebook/check", json=BODIES["check"])
    (asked,) = house.policy.asked
    assert asked.until is not None
    assert timedelta(seconds=20) < asked.until - before < timedelta(seconds=40)


async def test_activations_are_listed_newest_first(house: House) -> None:
    """When, by whom, which digest, and what changed; it is the house's, so another tenant's administrator sees none."""
    now = datetime(2026, 11, 22, tzinfo=UTC)
    for number in range(3):
        row = {"activation_id": f"a{number}", "digest": str(number) * 64, "activated_by": "file", "diff": f"+{number}"}
        insert(house.url, "activations", **row, activated_at=now + timedelta(hours=number))
    async with house.client(house.key("admin", tenant=HOUSE_TENANT)) as client:
        first = (await client.get("/v1/rulebook/activations?limit=2")).json()
        rest = (await client.get("/v1/rulebook/activations", params={"cursor": first["next"]})).json()
    others = []
    for key in (house.key("decide", tenant=HOUSE_TENANT), house.key("admin")):
        async with house.client(key) as client:
            others.append((await client.get("/v1/rulebook/activations")).status_code)
    shown = [(row["id"], row["diff"]) for page in (first, rest) for row in page["items"]]
    assert ([("a2", "+2"), ("a1", "+1"), ("a0", "+0")], [403, 403]) == (shown, others)
