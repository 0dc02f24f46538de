"""Insights from a database: over HTTP and as a page, for administrators, with a rule change that is only shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from placet.contracts.canonical import canonical_text
from placet.contracts.dead_letters import HOUSE_TENANT
from tests.integration.gateway.test_administration_browser import DESK, PHONE
from tests.integration.gateway.test_inbox_browser import AXE, faults_of, signed_in
from tests.support.gateway import House, an_approval_row, insert, open_house

RULEBOOK = """\
rules:
  - name: payments
    match: {tool: pay}
    effect: require_approval
    reason: Money moves.
    approval: {approvers: [operators]}
"""
LONG_AGO = timedelta(days=40)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that reads a rulebook."""
    path = tmp_path / "rulebook.yaml"
    path.write_text(RULEBOOK)
    async with open_house(gateway_database_url, tmp_path, rulebook=path) as made:
        yield made


def asked(house: House, number: int, state: str = "approved", tenant: str = HOUSE_TENANT, **more: Any) -> None:
    """Let a call have been held half an hour ago and more, and decided by ada a minute later."""
    at = more.pop("at", datetime.now(UTC) - timedelta(minutes=30, seconds=2 * number))
    row = an_approval_row(approval_id=f"{tenant}-{number}", tenant=tenant, tool="pay", state=state, created_at=at)
    closed = None if state == "pending" else at + timedelta(minutes=1)
    insert(house.url, "approvals", **{**row, "closed_at": closed, **more})
    if state in {"approved", "denied"}:
        vote = {"verb": "approve" if state == "approved" else "deny", "counted_revision": 1, "arguments_revision": 1}
        insert(
            house.url, "decisions", decision_id=row["approval_id"], tenant=tenant, approval_id=row["approval_id"],
            person="ada", decided_at=closed, **vote,
        )  # fmt: skip


async def test_the_numbers_are_those_of_the_tenant_and_the_window(house: House) -> None:
    """Another tenant's approvals and what was asked before are not counted; people are not named."""
    asked(house, 1)
    asked(house, 2, edited={"by": "ada"})
    asked(house, 3, "denied")
    asked(house, 4, "pending")
    asked(house, 5, at=datetime.now(UTC) - LONG_AGO)
    asked(house, 6, tenant="acme")
    async with house.client(house.key("admin", tenant=HOUSE_TENANT)) as client:
        found = (await client.get("/v1/insights?days=7")).json()
    rule = {"rule": "payments", "held": 4, "pending": 1, "approved": 1, "edited": 1, "denied": 1, "answered": 0}
    rule |= {"expired": 0, "overtaken": 0, "p50": 60.0, "p90": 60.0, "histogram": [0, 3, 0, 0, 0, 0, 0, 0]}
    assert [rule] == found["rules"]
    assert (4, True, False, 4) == (found["held"], found["complete"], found["named"], found["waiting"][-1]["waiting"])
    assert [("person 1", 3, 2)] == [(each["person"], each["decisions"], each["approvals"]) for each in found["people"]]
    assert (3, []) == (sum(found["hours"]), found["always_approved"])


async def test_a_vote_that_was_replaced_is_no_decision(house: House) -> None:
    """Whoever says yes five times while another yes is awaited has decided once; what an edit voided counts no more."""
    at = datetime.now(UTC) - timedelta(minutes=30)
    asked(house, 1, "pending", at=at, arguments_revision=2)
    same = {"tenant": HOUSE_TENANT, "approval_id": f"{HOUSE_TENANT}-1", "verb": "approve"}
    votes = [("bob", 1, 1), *(("ada", 2, number) for number in range(2, 7))]
    for person, arguments, number in votes:
        more = {"arguments_revision": arguments, "counted_revision": number, "decision_id": f"d{number}"}
        insert(house.url, "decisions", person=person, decided_at=at + timedelta(seconds=number), **same, **more)
    async with house.client(house.key("admin", tenant=HOUSE_TENANT)) as client:
        found = (await client.get("/v1/insights?days=7")).json()
    numbers = [(each["decisions"], each["approvals"], each["busiest_hour"]) for each in found["people"]]
    assert ([(1, 1, 1)], 1) == (numbers, sum(found["hours"]))


async def test_only_administrators_see_insights_and_only_the_house_s_a_rule(house: House) -> None:
    """The rulebook is the house's: an administrator of a tenant gets numbers and no change to it."""
    statuses = []
    for scope, tenant in (("decide", HOUSE_TENANT), ("admin", "acme")):
        async with house.client(house.key(scope, tenant=tenant)) as client:
            paths = ("/v1/insights", "/v1/insights/suggestion?rule=payments&tool=pay")
            statuses += [(await client.get(path)).status_code for path in paths]
    assert [403, 403, 200, 403] == statuses


async def test_a_rule_change_is_replayed_and_not_made(house: House, tmp_path: Path) -> None:
    """Policy is asked to replay the file with the rule; the file stays as it is."""
    for number in range(20):
        asked(house, number)
    async with house.client(house.key("admin", tenant=HOUSE_TENANT)) as client:
        always = (await client.get("/v1/insights")).json()["always_approved"]
        answer = await client.get("/v1/insights/suggestion?rule=payments&tool=pay")
        other = await client.get("/v1/insights/suggestion?rule=payments&tool=refund")
    found, (trial,) = answer.json(), house.policy.asked
    counted = {"approved": 20, "decisions": 20, "people": 1, "arguments": 1}
    assert [{"rule": "payments", "tool": "pay"} | counted] == always
    assert (200, 404) == (answer.status_code, other.status_code)
    assert ("simulate", "payments-pay", 0, 0) == (trial.kind, found["rule"], found["denied"], found["edited"])
    assert counted | {"unread": 0} == {"approved": 20} | {
        name: found[name] for name in (*counted, "unread") if name != "approved"
    }
    assert '+  - name: "payments-pay"' in found["diff"]
    assert (
        "+  # Suggested for 20 calls with 1 different arguments, approved as they were by 1 person in 20"
        in found["diff"]
    )
    assert "+  # Approved faster than the card can be read: 0." in found["diff"]
    assert trial.rulebook is not None
    assert '  - name: "payments-pay"' in trial.rulebook
    assert RULEBOOK == (tmp_path / "rulebook.yaml").read_text()


async def test_a_rule_change_says_which_numbers_pass_and_of_how_many_its_counts_are(house: House) -> None:
    """Over HTTP and above the rule, where whoever decides about it reads: calls that still wait are told apart."""
    for number in range(20):
        arguments = canonical_text({"amount": 5 + number, "note": "shoes"})
        asked(house, number, arguments=arguments)
    for number in range(20, 23):
        asked(house, number, "pending", arguments=canonical_text({"amount": 900}))
    async with house.client(house.key("admin", tenant=HOUSE_TENANT)) as client:
        found = (await client.get("/v1/insights/suggestion?rule=payments&tool=pay")).json()
    assert (0, 23, 3) == tuple(found[name] for name in ("would_pass", "held", "undecided"))
    assert ["amount: 5 – 24"] == found["ranges"]
    assert "+  # Any number passes within amount: 5 – 24." in found["diff"]
    told = "Such calls held in all: 23; of these denied 0, edited or answered 0, decided by nobody 3."
    assert f"+  # Replayed over 30 days: 0 would have run without asking. {told}" in found["diff"]


async def test_a_change_is_proposed_only_where_an_agent_for_it_is_named(house: House) -> None:
    """Elsewhere it is a 409, and no page offers it; only the house's administrators propose anything."""
    for number in range(20):
        asked(house, number)
    body, path = {"rule": "payments", "tool": "pay"}, "/v1/insights/suggestion"
    async with (
        house.client(house.key("admin", tenant=HOUSE_TENANT)) as admin,
        house.client(house.key("admin", tenant="acme")) as other,
    ):
        answers = [await client.post(path, json=body) for client in (admin, other)]
        nothing = await admin.post(path, json=body | {"tool": "refund"})
    assert [409, 403, 404] == [each.status_code for each in (*answers, nothing)]
    assert "urn:placet:problem:no-rulebook-agent" == answers[0].json()["type"]


async def test_a_change_is_proposed_once_for_each_form(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """The page's button posts the edit to the agent and says where it waits; the same id again is the same message."""
    path = tmp_path / "rulebook.yaml"
    path.write_text(RULEBOOK)
    async with open_house(gateway_database_url, tmp_path, rulebook=path, gateway_rulebook_agent="default") as house:
        for number in range(20):
            asked(house, number)
        body = {"rule": "payments", "tool": "pay", "id": "once"}
        async with house.client(house.key("admin", tenant=HOUSE_TENANT)) as admin:
            first, second = [await admin.post("/v1/insights/suggestion", json=body) for _ in range(2)]
        page = await signed_in(house, browser, "decide", "admin", viewport=PHONE, tenant=HOUSE_TENANT)
        await page.goto(f"{house.gateways[0].url}/admin/insights/suggestion?rule=payments&tool=pay")
        waiting = page.get_by_text("waits for approval already")
        await expect(waiting).to_have_count(0)
        asked(house, 20, "pending", agent="default")
        await page.reload()
        await expect(waiting).to_have_count(1)
        await page.get_by_role("button", name="Propose this change").click()
        await expect(page.get_by_role("status").filter(has_text="The change is proposed.")).to_be_visible()
        assert PHONE["width"] == await page.evaluate("document.documentElement.scrollWidth")
        opened = house.query("SELECT conversation_id, agent, created_by FROM gateway.conversations")
    assert (202, 202, first.json()) == (first.status_code, second.status_code, second.json())
    assert [("default", "person:ada")] * 2 == [tuple(row[1:]) for row in opened]


async def test_one_batch_is_no_reason_for_a_rule(house: House) -> None:
    """Sixty calls that one person approved in one click are one decision."""
    at = datetime.now(UTC) - timedelta(minutes=30)
    for number in range(60):
        asked(house, number, at=at)
    async with house.client(house.key("admin", tenant=HOUSE_TENANT)) as client:
        always = (await client.get("/v1/insights")).json()["always_approved"]
        answer = await client.get("/v1/insights/suggestion?rule=payments&tool=pay")
    assert ([], 404) == (always, answer.status_code)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_the_page_shows_a_change_in_two_clicks(house: House, browser: Browser, size: Any) -> None:
    """From insights to the difference; nothing on it scrolls the page sideways."""
    for number in range(24):
        asked(house, number)
    page = await signed_in(house, browser, "decide", "admin", viewport=size, tenant=HOUSE_TENANT)
    await page.goto(f"{house.gateways[0].url}/admin/insights")
    await expect(page.locator("section").filter(has_text="Always approved as proposed")).to_contain_text("24")
    assert size["width"] == await page.evaluate("document.documentElement.scrollWidth")
    await page.get_by_role("link", name="Suggest a rule change").click()
    await expect(page.locator("pre")).to_contain_text('+  - name: "payments-pay"')
    if AXE.is_file():
        assert [] == await faults_of(page)
    assert size["width"] == await page.evaluate("document.documentElement.scrollWidth")
