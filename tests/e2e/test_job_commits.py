"""What the winners of a job left staged is committed with people's consent, and what the others did vanishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.conftest import migrate
from tests.support.jobs import begin, ended
from tests.support.people import Caller
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, running, until
from tests.support.workspaces import FILE_TOOLS

pytestmark = pytest.mark.timeout(300)

REPLICAS: Mapping[str, int] = {
    **dict.fromkeys(("gateway", "agent", "policy", "approval", "executor", "jobs", "dead_letters"), 1)
}
#: One task in three thousand is won by the nonsense.
SURE: dict[str, Any] = {"k": 5, "attempts_max": 60}


@pytest.fixture(scope="module")
def house(
    databases: Databases, virtual_hosts: VirtualHosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """A system whose agents write files below a folder of its own."""
    folder = tmp_path_factory.mktemp("job-commits")
    rules = folder / "rulebook.yaml"
    rules.write_text(yaml.safe_dump({"version": 1, "tools": FILE_TOOLS}))
    environment = {
        "PLACET_MODEL": "python/tests.support.job_writer:reply",
        "PLACET_EXECUTOR_POOLS": "*",
        "FILES_ROOT": str(folder / "files"),
    }
    (folder / "files").mkdir()
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(folder, database_url, rabbitmq_url, rules, environment)
        with running(made, REPLICAS):
            yield made


@pytest.fixture(scope="module")
def ada(house: System) -> Caller:
    """A person with a key for chatting."""
    return Caller(house.url, house.key("chat", person="ada"))


@pytest.fixture(scope="module")
def grace(house: System) -> Caller:
    """A person who decides."""
    return Caller(house.url, house.key("decide", person="grace"))


def files(house: System) -> dict[str, str]:
    """Return the files that are there."""
    root = house.folder / "files"
    return {path.name: path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


async def card(grace: Caller, count: int = 1) -> list[dict[str, Any]]:
    """Return the approvals that wait, when there are so many."""
    found: list[dict[str, Any]] = []

    async def are_there() -> bool:
        found[:] = (await grace.get("/v1/approvals?state=pending"))["items"]
        return len(found) >= count

    await until(are_there, "somebody is asked")
    return found


async def decide(grace: Caller, asked: Mapping[str, Any], verb: str, reason: str = "") -> None:
    """Decide an approval as it is listed."""
    body = {"decision": verb, "digest": asked["digest"], "revision": asked["revision"], "reason": reason}
    answer = await grace.request("POST", f"/v1/approvals/{asked['id']}/decisions", json=body)
    assert answer.is_success, answer.text


async def test_each_winner_commits_before_what_needs_it_begins(ada: Caller, grace: Caller, house: System) -> None:
    """People are asked once per task; the next task reads what was committed; what lost is nowhere."""
    tasks = [
        {"id": "first", "task": "Add the line one to list.txt."},
        {"id": "second", "task": "Add the line two to list.txt.", "needs": ["first"]},
    ]
    job_id = await begin(ada, task="Write a list.", tasks=tasks, **SURE)
    (asked,) = await card(grace)
    assert ("commit_changes", {}) == (asked["tool"], files(house))
    job = await ada.get(f"/v1/jobs/{job_id}")
    assert ["committing", "blocked"] == [task["state"] for task in job["tasks"]]
    for process in ("jobs-1", "agent-1"):
        house.processes[process].kill()
        await house.start_again(process)
    await decide(grace, asked, "approve")

    async def is_next() -> bool:
        return bool((await card(grace))[0]["id"] != asked["id"])

    await until(is_next, "the second task asks")
    assert {"list.txt": "one\n"} == files(house)
    (asked,) = await card(grace)
    await decide(grace, asked, "approve")
    job = await ended(ada, job_id)
    assert ("done", {"list.txt": "one\ntwo\n"}) == (job["state"], files(house))
    assert 0 == house.count("SELECT count(*) FROM executor.workspaces WHERE state = 'open'")


async def test_a_denied_commit_ends_its_job_and_leaves_nothing(ada: Caller, grace: Caller, house: System) -> None:
    """The job says what was denied and why; no file is there."""
    tasks = [{"id": "only", "task": "Add the line one to denied.txt."}]
    job_id = await begin(ada, task="Write a file.", tasks=tasks, **SURE)
    (asked,) = await card(grace)
    await decide(grace, asked, "deny", "Not this one.")
    job = await ended(ada, job_id)
    said = 'The call did not run: a person denied it and said: "Not this one.".'
    assert ("failed", f"Task only failed. Its changes were not committed. {said}") == (job["state"], job["reason"])
    assert "denied.txt" not in files(house)


async def test_a_winner_that_conflicts_is_tried_anew_on_what_is_there(
    ada: Caller, grace: Caller, house: System
) -> None:
    """The file changed while people thought: nothing is overwritten, the task is tried again and asks again."""
    tasks = [{"id": "only", "task": "Add the line two to shared.txt."}]
    job_id = await begin(ada, task="Write a file.", tasks=tasks, **SURE)
    (asked,) = await card(grace)
    path = house.folder / "files" / "shared.txt"
    path.write_text("one\n")
    await decide(grace, asked, "approve")

    async def asks_again() -> bool:
        found = await card(grace)
        return bool(found[0]["id"] != asked["id"])

    await until(asks_again, "the task asks again")
    (asked,) = await card(grace)
    await decide(grace, asked, "approve")
    job = await ended(ada, job_id)
    assert ("done", "one\ntwo\n") == (job["state"], path.read_text())


async def test_a_cancelled_job_withdraws_the_question(ada: Caller, grace: Caller, house: System) -> None:
    """Nobody is asked any more, and nothing happened."""
    tasks = [{"id": "only", "task": "Add the line one to cancelled.txt."}]
    job_id = await begin(ada, task="Write a file.", tasks=tasks, **SURE)
    await card(grace)
    await ada.post(f"/v1/jobs/{job_id}/cancel")
    assert "cancelled" == (await ended(ada, job_id))["state"]

    async def is_quiet() -> bool:
        return not (await grace.get("/v1/approvals?state=pending"))["items"]

    await until(is_quiet, "nobody is asked any more")
    assert "cancelled.txt" not in files(house)
