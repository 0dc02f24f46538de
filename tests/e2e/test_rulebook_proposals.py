"""A rule that asks less, from the page that suggests it to the rulebook that counts: people approve it on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from placet.gateway.insights.numbers import ALWAYS_MIN
from tests.e2e.test_embedded import Embedded
from tests.support.people import Caller, a_visitor, is_result
from tests.support.ports import free_port
from tests.support.system import ROOT, until

pytestmark = pytest.mark.timeout(300)

ASKED = "create a payment link over 299 TRY"
AGENTS = {
    "default": {},
    "rulebook": {"model": "python/placet.agent.proposed_edit:reply", "tools": ["edit_file"], "tenants": ["default"]},
}


@pytest.fixture
def house(tmp_path: Path) -> Embedded:
    """An embedded Placet whose rulebook stands where an agent's files are."""
    files = tmp_path / "files"
    files.mkdir()
    content = yaml.safe_load((ROOT / "deploy" / "rulebook.yaml").read_text())
    coder = yaml.safe_load((ROOT / "examples" / "coder" / "rulebook.yaml").read_text())
    content["tools"] |= {"edit_file": coder["tools"]["edit_file"]}
    rulebook, agents = files / "rulebook.yaml", tmp_path / "agents.yaml"
    rulebook.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    agents.write_text(yaml.safe_dump({"version": 1, "agents": AGENTS}, sort_keys=False))
    environment = {
        "PLACET_AGENTS": str(agents),
        "PLACET_GATEWAY_RULEBOOK_AGENT": "rulebook",
        "FILES_ROOT": str(files),
    }
    made = Embedded(tmp_path / "data", free_port(), environment, ("--rulebook", str(rulebook)))
    made.data.mkdir()
    return made


async def newest_of(admin: Caller) -> str:
    """Return the digest of the rulebook that took over last."""
    found = (await admin.get("/v1/rulebook/activations"))["items"]
    return next(str(each["digest"]) for each in found if each["kind"] == "rulebook")


async def test_a_suggested_rule_is_proposed_approved_and_counts(house: Embedded) -> None:
    """Two clicks propose it; it waits as a change with its diff; approved, it stands in the file and lets calls run."""
    assert house.start()
    try:
        admin = house.caller()
        for _ in range(ALWAYS_MIN):
            visitor = await a_visitor(admin)
            await visitor.say(ASKED)
            # Each in their own conversation: one person who decided so fast would have made one decision.
            answer = await visitor.decide(await visitor.see_card(), "approve")
            assert answer.status_code == 200, answer.text
            await visitor.see(is_result("create_pay_link"))
        (always,) = (await admin.get("/v1/insights"))["always_approved"]
        body = {"rule": always["rule"], "tool": always["tool"], "id": "once"}
        first, second = [await admin.post("/v1/insights/suggestion", body) for _ in range(2)]
        before = await newest_of(admin)

        async def waits() -> bool:
            found = await admin.get(f"/v1/approvals?conversation={first['conversation_id']}")
            return len(found["items"]) == 1

        await until(waits, "the change waits for people")
        (card,) = (await admin.get(f"/v1/approvals?conversation={first['conversation_id']}"))["items"]
        workspace = await admin.get(f"/v1/conversations/{first['conversation_id']}/workspace")
        (entry,) = workspace["entries"]
        path = f"/v1/conversations/{first['conversation_id']}/workspace/entries/{entry['id']}/diff"
        (change,) = (await admin.get(path))["changes"]
        answer = await admin.decide({"approval_id": card["id"], "digest": card["digest"]}, "approve")
        assert answer.status_code == 200, answer.text

        async def counts() -> bool:
            return await newest_of(admin) != before

        await until(counts, "the new rulebook counts")
        visitor = await a_visitor(admin)
        await visitor.say(ASKED)
        await visitor.see(is_result("create_pay_link"))
        shown = await admin.request("GET", "/v1/insights/suggestion?rule=payment-links&tool=create_pay_link")
        asked = [item for item in visitor.items if item["type"] == "approval"]
        # A rule above lets them through: there is nothing more to suggest.
        assert (first, "commit_changes", [], 409) == (second, card["tool"], asked, shown.status_code)
        assert '+- name: "payment-links-create-pay-link"\n' in change["diff"]
        # Whoever decides reads on its card what the past says of it.
        replayed = "20 would have run without asking. Such calls held in all: 20; of these denied 0"
        assert f"+# Replayed over 30 days: {replayed}" in change["diff"]
    finally:
        house.stop()
