"""What the winners of a job left staged is one workspace, committed with people's consent once; what lost vanishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from placet.contracts.canonical import tree_digest
from tests.conftest import migrate
from tests.e2e.test_embedded import Embedded
from tests.e2e.test_stage import InOneProcess, OnRabbitMQ, _start
from tests.support.jobs import begin, ended
from tests.support.people import Caller
from tests.support.ports import free_port
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
Footing = OnRabbitMQ | InOneProcess


@pytest.fixture(scope="module", params=["embedded", "rabbitmq"])
def kind(request: pytest.FixtureRequest) -> str:
    """What Placet stands on."""
    made: str = request.param
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, kind: str) -> Path:
    """Where the rulebook and the files of one footing are."""
    made = tmp_path_factory.mktemp(f"job-commits-{kind}")
    (made / "files").mkdir()
    (made / "rulebook.yaml").write_text(yaml.safe_dump({"version": 1, "tools": FILE_TOOLS}))
    return made


@pytest.fixture(scope="module")
def footing(
    kind: str,
    folder: Path,
    databases: Databases,
    virtual_hosts: VirtualHosts,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Footing]:
    """A running Placet on either footing, whose agents write files."""
    environment = {
        "PLACET_MODEL": "python/tests.support.job_writer:reply",
        "PLACET_AGENT_LEASE_SECONDS": "2",
        "PLACET_EXECUTOR_POOLS": "*",
        "PLACET_EXECUTOR_LEASE_SECONDS": "3",
        "PLACET_EXECUTOR_SWEEP_SECONDS": "0.5",
        "FILES_ROOT": str(folder / "files"),
    }
    rules, here = folder / "rulebook.yaml", tmp_path_factory.mktemp(kind)
    if kind == "embedded":
        embedded = Embedded(here / "data", free_port(), environment, ("--rulebook", str(rules)))
        embedded.data.mkdir()
        _start(embedded)
        yield InOneProcess(embedded)
        assert 0 == embedded.stop()
        return
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(here, database_url, rabbitmq_url, rules, environment)
        with running(made, REPLICAS):
            yield OnRabbitMQ(made)


@pytest.fixture
def ada(footing: Footing) -> Caller:
    """A person who has jobs done."""
    return footing.frontend()


@pytest.fixture
def grace(footing: Footing) -> Caller:
    """A person who decides."""
    return footing.operator()


def files(folder: Path) -> dict[str, str]:
    """Return the files that are there."""
    return {path.name: path.read_text() for path in sorted((folder / "files").rglob("*")) if path.is_file()}


def line(word: str, path: str, *needs: str) -> dict[str, Any]:
    """Return the task that adds a line to a file."""
    return {"id": word, "task": f"Add the line {word} to {path}.", "needs": list(needs)}


async def card(grace: Caller) -> dict[str, Any]:
    """Return the one approval that waits, when there is one."""
    found: list[dict[str, Any]] = []

    async def is_there() -> bool:
        found[:] = (await grace.get("/v1/approvals?state=pending"))["items"]
        return bool(found)

    await until(is_there, "people are asked")
    (asked,) = found
    assert "commit_changes" == asked["tool"]
    return asked


async def decide(grace: Caller, asked: Mapping[str, Any], verb: str, reason: str = "", **more: Any) -> None:
    """Decide an approval as it is listed."""
    body = {"decision": verb, "digest": asked["digest"], "revision": asked["revision"], "reason": reason, **more}
    answer = await grace.request("POST", f"/v1/approvals/{asked['id']}/decisions", json=body)
    assert answer.is_success, answer.text


async def is_quiet(grace: Caller, footing: Footing) -> None:
    """Return when people are asked nothing, and no workspace is open."""

    async def nothing_waits() -> bool:
        open_ones = footing.rows("SELECT count(*) FROM executor.workspaces WHERE state IN ('open', 'committing')")
        return not (await grace.get("/v1/approvals?state=pending"))["items"] and [(0,)] == open_ones

    await until(nothing_waits, "nothing waits any more")


async def lines(ada: Caller, job_id: str) -> list[str]:
    """Return a job's log."""
    return [item["data"]["line"] for item in (await ada.get(f"/v1/jobs/{job_id}/log?limit=1000"))["items"]]


async def test_people_are_asked_once_at_the_end_whatever_is_killed_before(
    ada: Caller, grace: Caller, footing: Footing, folder: Path
) -> None:
    """D5, D6: a task reads what the one before it staged; all is killed twice, and nothing is there too often."""
    tasks = [line("one", "list.txt"), line("two", "list.txt", "one"), line("three", "list.txt", "two")]
    job_id = await begin(ada, task="Write a list.", tasks=tasks, **SURE)

    async def one_is_decided() -> bool:
        return int((await ada.get(f"/v1/jobs/{job_id}"))["tasks_decided"]) >= 1

    await until(one_is_decided, "the first task is decided")
    await footing.power_cut()
    asked = await card(grace)
    job = await ada.get(f"/v1/jobs/{job_id}")
    assert ("waiting", "waiting", 3, {}) == (job["state"], job["changes"], job["tasks_decided"], files(folder))
    await footing.power_cut()
    await decide(grace, await card(grace), "approve")
    job = await ended(ada, job_id)
    assert ("done", "committed", {"list.txt": "one\ntwo\nthree\n"}) == (job["state"], job["changes"], files(folder))
    assert [(1,)] == footing.rows(f"SELECT count(*) FROM read.approvals WHERE approval_id = '{asked['id']}'")  # noqa: S608
    await is_quiet(grace, footing)
    (folder / "files" / "list.txt").unlink()


async def test_the_same_contents_by_another_way_agree(ada: Caller, grace: Caller, folder: Path) -> None:
    """D5: every other attempt writes a draft first; those that voted alike have made different calls."""
    job_id = await begin(ada, task="Write a file.", tasks=[line("one", "ways.txt")], **SURE)
    await decide(grace, await card(grace), "approve")
    job = await ended(ada, job_id)
    (task,) = job["tasks"]
    winner = max(task["votes"], key=task["votes"].__getitem__)
    assert {3, 4} == {each["calls"] for each in task["attempts"] if each["vote"] == winner}
    assert ("done", "one\n") == (job["state"], (folder / "files" / "ways.txt").read_text())


async def test_parallel_winners_that_change_the_same_are_tried_anew(ada: Caller, grace: Caller, folder: Path) -> None:
    """D6: the later one is thrown out with the reason, and made again on what the other left; one card."""
    tasks = [line("left", "both.txt"), line("right", "both.txt")]
    job_id = await begin(ada, task="Write a file.", tasks=tasks, **SURE)
    asked = await card(grace)
    job = await ada.get(f"/v1/jobs/{job_id}")
    thrown_out = [each for task in job["tasks"] for each in task["attempts"] if each["state"] == "conflicted"]
    assert ["The winner of another task has changed the same meanwhile: files:both.txt."] == [
        each["reason"] for each in thrown_out
    ]
    assert 1 == sum("is tried again on what is there now" in each for each in await lines(ada, job_id))
    await decide(grace, asked, "approve")
    job = await ended(ada, job_id)
    written = (folder / "files" / "both.txt").read_text()
    assert ("done", ["left", "right"]) == (job["state"], sorted(written.split()))


async def test_people_leave_out_what_they_do_not_want(
    ada: Caller, grace: Caller, footing: Footing, folder: Path
) -> None:
    """D6: the rest is committed, and the job says so."""
    tasks = [line("one", "wanted.txt"), line("one", "unwanted.txt") | {"id": "other"}]
    job_id = await begin(ada, task="Write two files.", tasks=tasks, **SURE)
    asked = await card(grace)
    waiting = footing.rows(
        "SELECT workspace_id, call_id, digest, 'files:unwanted.txt' = ANY (keys) FROM read.workspace_entries "
        "WHERE state = 'waiting' ORDER BY position"
    )
    kept = [(str(call_id), str(digest)) for _, call_id, digest, unwanted in waiting if not unwanted]
    entries = [call_id for call_id, _ in kept]
    arguments = {"workspace_id": waiting[0][0], "entries": entries, "tree_digest": tree_digest(kept)}
    await decide(grace, asked, "edit", arguments=arguments)
    job = await ended(ada, job_id)
    assert ("done", "committed", "one\n") == (job["state"], job["changes"], files(folder).get("wanted.txt"))
    assert "unwanted.txt" not in files(folder)
    assert " left out" in (await lines(ada, job_id))[-1]


async def test_a_denied_job_fails_and_leaves_nothing(
    ada: Caller, grace: Caller, footing: Footing, folder: Path
) -> None:
    """D6: it says what was denied and why; its answers stand."""
    job_id = await begin(ada, task="Write a file.", tasks=[line("one", "denied.txt")], **SURE)
    await decide(grace, await card(grace), "deny", "Not this one.")
    job = await ended(ada, job_id)
    said = 'The call did not run: a person denied it and said: "Not this one.".'
    assert ("failed", f"Its changes were not committed. {said}", "discarded", {"one": {"answer": "done"}}) == (
        job["state"],
        job["reason"],
        job["changes"],
        job["result"],
    )
    assert "denied.txt" not in files(folder)
    await is_quiet(grace, footing)


async def test_what_others_changed_meanwhile_is_not_overwritten(ada: Caller, grace: Caller, folder: Path) -> None:
    """D6: the file appeared while people thought: nothing of the job is made, and it says so."""
    job_id = await begin(ada, task="Write a file.", tasks=[line("two", "shared.txt"), line("one", "free.txt")], **SURE)
    asked = await card(grace)
    (folder / "files" / "shared.txt").write_text("theirs\n")
    await decide(grace, asked, "approve")
    job = await ended(ada, job_id)
    assert ("failed", "conflicted", "theirs\n") == (job["state"], job["changes"], files(folder)["shared.txt"])
    assert job["reason"].startswith("Others have changed the same meanwhile: none of its changes was made.")
    assert "free.txt" not in files(folder)


async def test_a_cancelled_job_withdraws_its_question(
    ada: Caller, grace: Caller, footing: Footing, folder: Path
) -> None:
    """D7: people are asked nothing any more, nothing happened, and nothing is left staged."""
    job_id = await begin(ada, task="Write a file.", tasks=[line("one", "cancelled.txt")], **SURE)
    await card(grace)
    await ada.post(f"/v1/jobs/{job_id}/cancel")
    job = await ended(ada, job_id)
    assert ("cancelled", "discarded") == (job["state"], job["changes"])
    await is_quiet(grace, footing)
    assert "cancelled.txt" not in files(folder)


async def test_a_job_that_is_cancelled_midway_throws_its_work_away(
    ada: Caller, grace: Caller, footing: Footing, folder: Path
) -> None:
    """D7: what its first winner left is discarded with it, and people were never asked."""
    tasks = [line("one", "midway.txt"), line("never", "midway.txt", "one") | {"task": "No such task."}]
    job_id = await begin(ada, task="Write a file.", tasks=tasks, k=5, attempts_max=60, attempt_seconds=60)

    async def one_is_decided() -> bool:
        return int((await ada.get(f"/v1/jobs/{job_id}"))["tasks_decided"]) >= 1

    await until(one_is_decided, "the first task is decided")
    await ada.post(f"/v1/jobs/{job_id}/cancel")
    job = await ended(ada, job_id)
    assert ("discarded", False) == (job["changes"], "midway.txt" in files(folder))
    assert 1 == sum("thrown away: nothing of it happened" in each for each in await lines(ada, job_id))
    await is_quiet(grace, footing)
