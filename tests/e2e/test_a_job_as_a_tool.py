"""A job as a tool of another agent: it answers the call, its questions surface there, its end follows the turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from placet.cli import invariants
from tests.conftest import migrate
from tests.e2e.test_embedded import Embedded
from tests.e2e.test_job_commits import REPLICAS, files
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.ports import free_port
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, running, until
from tests.support.workspaces import FILE_TOOLS

pytestmark = pytest.mark.timeout(300)


RULES = [
    {
        "name": "no-payroll",
        "match": {"tool": "accomplish"},
        "when": 'arguments.task.contains("payroll")',
        "effect": "deny",
        "reason": "Nobody has the payroll done.",
        "model_reason": "jobs about the payroll are not allowed.",
    },
    {
        "name": "ask-first",
        "match": {"tool": "accomplish"},
        "when": 'arguments.task.startsWith("ask first")',
        "effect": "require_approval",
        "reason": "It costs money.",
        "approval": {"approvers": ["operators"]},
    },
]


def written(folder: Path) -> dict[str, str]:
    """Write what a system reads; return its environment."""
    (folder / "files").mkdir()
    (folder / "rulebook.yaml").write_text(yaml.safe_dump({"version": 1, "tools": FILE_TOOLS, "rules": RULES}))
    (folder / "agents.yaml").write_text(
        yaml.safe_dump({"version": 1, "agents": {"default": {"accomplish": {"k": 2, "tokens": 1_000_000}}}})
    )
    return {
        "PLACET_MODEL": "python/tests.support.job_caller:reply",
        "PLACET_AGENTS": str(folder / "agents.yaml"),
        "PLACET_AGENT_LEASE_SECONDS": "2",
        "FILES_ROOT": str(folder / "files"),
    }


@pytest.fixture(scope="module")
def house(
    databases: Databases, virtual_hosts: VirtualHosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """A system whose agent may have jobs done."""
    folder = tmp_path_factory.mktemp("job-tool")
    environment = written(folder) | {"PLACET_EXECUTOR_POOLS": "*"}
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(folder, database_url, rabbitmq_url, folder / "rulebook.yaml", environment)
        with running(made, REPLICAS):
            yield made


@pytest.fixture
async def ada(house: System) -> Visitor:
    """A person who chats."""
    return await a_visitor(Caller(house.url, house.key("chat", person="ada")))


@pytest.fixture(scope="module")
def grace(house: System) -> Caller:
    """A person who decides."""
    return Caller(house.url, house.key("decide", person="grace"))


async def jobs(caller: Caller) -> int:
    """Return how many jobs there are."""
    return len((await caller.get("/v1/jobs"))["items"])


async def test_a_job_answers_a_call_across_kills(ada: Visitor, grace: Caller, house: System) -> None:
    """D8: what is asked in the job is decided where it was called; its end is the result, also after kills."""
    await ada.say("Have it done: Add the line one to list.txt.")
    card = await ada.see_card()
    assert ("commit_changes", {}) == (card["tool"], files(house.folder))
    whole = await grace.get(f"/v1/approvals/{card['approval_id']}")
    places = [ada.conversation, whole["conversation_id"], "elsewhere"]
    lists = [(await grace.get("/v1/approvals", params={"conversation": each}))["items"] for each in places]
    assert [[whole["id"]], [whole["id"]], []] == [[each["id"] for each in found] for found in lists]
    for process in ("jobs-1", "agent-1", "executor-1"):
        house.processes[process].kill()
        await house.start_again(process)
    assert (await grace.decide(card, "approve")).is_success
    result = (await ada.see(is_result("accomplish")))["data"]
    assert ("succeeded", "done") == (result["kind"], result["data"]["state"])
    assert '{"only": {"answer": "done"}}' == await ada.see_answer()
    assert {"list.txt": "one\n"} == files(house.folder)


async def test_a_call_waits_for_its_job_while_people_are_asked(ada: Visitor, grace: Caller, house: System) -> None:
    """Inv. 2: however long they take, `placet verify` knows what the call waits for."""
    await ada.say("Have it done: Add the line late to late.txt.")
    card = await ada.see_card()
    with psycopg.connect(house.database_url) as connection:
        calls = "SELECT call_id FROM agent.tool_calls WHERE conversation_id = %s AND state <> 'answered'"
        [(call_id,)] = connection.execute(calls, [ada.conversation]).fetchall()
    found = invariants.check(house.database_url, settled_after_seconds=0)
    [broken] = [rows for each, rows in found.items() if each.name == "calls_wait_for_a_reason"]
    assert (await grace.decide(card, "deny")).is_success
    await ada.see(is_result("accomplish"))
    assert call_id not in {each.subject for each in broken or ()}


async def test_a_job_within_a_job_is_refused(ada: Visitor, grace: Caller) -> None:
    """D8: an attempt that wants a job done is told that it may not, and goes on; nothing is begun."""
    before = await jobs(grace)
    await ada.say("Have it done: go deeper")
    assert '{"only": {"answer": "refused"}}' == await ada.see_answer()
    assert before + 1 == await jobs(grace)


async def test_a_rule_refuses_to_begin_a_job(ada: Visitor, grace: Caller) -> None:
    """Beginning a job passes policy: what a rule denies never begins, and the model is told why."""
    before = await jobs(grace)
    await ada.say("Have it done: the payroll")
    result = (await ada.see(is_result("accomplish")))["data"]
    assert ("refused", "The call did not run: jobs about the payroll are not allowed.") == (
        result["kind"],
        result["error"],
    )
    await ada.see_answer()
    assert before == await jobs(grace)


@pytest.mark.parametrize("target", [{"tool": "accomplish"}, {"agent": "default"}])
async def test_a_stop_lets_no_job_begin(ada: Visitor, grace: Caller, house: System, target: dict[str, Any]) -> None:
    """What a rule lets through is answered without the administrator's reason, as where an executor would claim it."""
    admin, before = Caller(house.url, house.key("admin", person="root")), await jobs(grace)
    stop = await admin.post("/v1/stops", {**target, "reason": "too dear"})
    try:
        await ada.say("Have it done: Add the line two to list.txt.")
        result = (await ada.see(is_result("accomplish")))["data"]
    finally:
        await admin.post(f"/v1/stops/{stop['id']}/resume", {"reason": "over"})
    told = "Nothing was run: an administrator has stopped such calls; try again only when"
    assert ("refused", True, before) == (result["kind"], result["error"].startswith(told), await jobs(grace))


@pytest.mark.parametrize("process", ["policy-1", "approval-1", "agent-1", "jobs-1"])
async def test_a_held_job_begins_once_when_people_say_yes(
    ada: Visitor, grace: Caller, house: System, process: str
) -> None:
    """Nothing begins before; whoever is killed around the yes, there is one job and one result."""
    before = await jobs(grace)
    await ada.say("Have it done: ask first, then go deeper")
    card = await ada.see_card()
    assert ("accomplish", {"task": "ask first, then go deeper"}, before) == (
        card["tool"],
        card["arguments"],
        await jobs(grace),
    )
    house.processes[process].kill()
    await house.start_again(process)
    assert (await grace.decide(card, "approve")).is_success
    house.processes[process].kill()
    await house.start_again(process)
    assert '{"only": {"answer": "refused"}}' == await ada.see_answer()
    ended = [item for item in ada.items if is_result("accomplish")(item)]
    assert (before + 1, 1) == (await jobs(grace), len(ended))


@pytest.mark.parametrize("end", ["deny", "stop"])
async def test_a_held_job_that_nobody_wants_never_begins(ada: Visitor, grace: Caller, end: str) -> None:
    """Denied, or its turn is stopped while people look: one result, no job, and no card is left."""
    before = await jobs(grace)
    await ada.say("Have it done: ask first, then go deeper")
    card = await ada.see_card()
    if end == "deny":
        assert (await grace.decide(card, "deny", "too dear")).is_success
    else:
        await ada.post(f"{ada.path}/stop")
    result = (await ada.see(is_result("accomplish")))["data"]
    assert ({"deny": "denied", "stop": "cancelled"}[end], before) == (result["kind"], await jobs(grace))
    assert [] == (await grace.get(f"/v1/approvals?state=pending&conversation={ada.conversation}"))["items"]


async def test_a_stopped_turn_cancels_its_job(ada: Visitor, grace: Caller, house: System) -> None:
    """D8: the job is cancelled, the question withdrawn, and nothing was written."""
    await ada.say("Have it done: Add the line one to stopped.txt.")
    await ada.see_card()
    await ada.post(f"{ada.path}/stop")
    result = (await ada.see(is_result("accomplish")))["data"]
    assert ("failed", "cancelled") == (result["kind"], result["data"]["state"])

    async def is_quiet() -> bool:
        return not (await grace.get("/v1/approvals?state=pending"))["items"]

    await until(is_quiet, "nobody is asked any more")
    assert "stopped.txt" not in files(house.folder)


async def test_the_ai_sdks_stop_is_answered_when_its_job_asks_nobody(ada: Visitor, grace: Caller) -> None:
    """Who asks for another answer next has no question of the first one beside it."""
    await ada.say("Have it done: Add the line one to stopped.txt.")
    await ada.see_card()
    await ada.post(f"/api/chat/{ada.conversation}/stop")
    assert [] == (await grace.get("/v1/approvals?state=pending"))["items"]


async def test_an_embedded_job_answers_a_call_after_a_power_cut(tmp_path: Path) -> None:
    """D8: everything goes at once while people are asked; started again, the decision ends job, call and turn."""
    arguments = ("--rulebook", str(tmp_path / "rulebook.yaml"))
    embedded = Embedded(tmp_path / "data", free_port(), written(tmp_path), arguments)
    embedded.data.mkdir()
    embedded.start()
    try:
        admin = embedded.caller()
        visitor = await a_visitor(admin)
        await visitor.say("Have it done: Add the line one to list.txt.")
        card = await visitor.see_card()
        embedded.kill()
        embedded.start()
        assert (await admin.decide(card, "approve")).is_success
        assert '{"only": {"answer": "done"}}' == await visitor.see_answer()
        assert "one\n" == (tmp_path / "files" / "list.txt").read_text()
    finally:
        assert 0 == embedded.stop()
