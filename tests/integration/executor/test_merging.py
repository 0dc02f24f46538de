"""Attempts at a job stage on top of the job's workspace; winners are moved into it, and one commit makes it all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from placet.contracts.ids import workspace_id
from placet.contracts.messages import DiscardWorkspace, WorkspaceBase
from placet.contracts.messages.stage import StagePlan
from tests.support.executor_house import Premises, open_house
from tests.support.system import until
from tests.support.workspaces import Scene, file_rulebook, outcomes, told


@pytest.fixture
async def job(place: Premises, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """The conversation in which people decide about a job, on an executor whose files are in a folder of the test."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    async with open_house(place) as house:
        yield Scene(house, conversation_id="job")


def attempt(job: Scene, name: str, entries: int = 0) -> Scene:
    """Return an attempt that reads so many entries of the job's workspace."""
    return Scene(job.house, name, job.tenant, WorkspaceBase(conversation_id="job", entries=entries))


async def win(job: Scene, winner: Scene) -> int:
    """Move an attempt's entries; return how many are in the job's workspace by now."""
    told = await winner.merged()
    assert ("merged", job.workspace_id) == (told.state, told.workspace_id)
    assert [call.call_id for call, _ in winner.entries] == [each.call_id for each in told.entries]
    job.entries += winner.entries
    return told.total


async def test_an_attempt_reads_what_earlier_winners_left_and_is_committed_with_them(job: Scene) -> None:
    """Nothing is in the folder until one commit makes all of it."""
    first = attempt(job, "first")
    await first.stage("create_file", path="list.txt", content="one\n")
    assert 1 == await win(job, first)
    second = attempt(job, "second", 1)
    assert "one\n" == (await second.run("read_file", path="list.txt")).data["text"]
    listed = (await second.run("list_files")).data["files"]
    assert ["list.txt"] == [each["path"] for each in listed]
    await second.stage("edit_file", path="list.txt", old="one\n", new="one\ntwo\n")
    await second.stage("create_file", path="other.txt", content="other\n")
    assert "one\ntwo\n" == (await second.run("read_file", path="list.txt")).data["text"]
    assert 3 == await win(job, second)
    assert ({}, "merged", "merged", "open") == (job.files(), first.state(), second.state(), job.state())
    kind, result, _ = await job.committed(job.commit())
    assert ("succeeded", ["committed"] * 3) == (kind, outcomes(result))
    assert {"list.txt": "one\ntwo\n", "other.txt": "other\n"} == job.files()
    assert 0 == job.place.sql("SELECT count(*) FROM executor.workspace_blobs")[0][0]


async def test_each_line_of_a_workspace_says_whose_it_is_and_who_moved_it(job: Scene) -> None:
    """Conversation, approval and job are found by each other; a person is named where one threw it away."""
    with capture_logs() as lines:
        winner, other = attempt(job, "winner"), attempt(job, "other")
        await winner.stage("create_file", path="a.txt", content="a")
        await win(job, winner)
        await job.committed(job.commit())
        await other.stage("create_file", path="b.txt", content="b")
        await other.discard(by="person:ada")

        async def thrown_away() -> bool:
            return any(line["event"] == "workspace.discarded" for line in lines)

        await until(thrown_away, "it was thrown away")
    of_job = {"job_id": "job-1", "attempt_id": "winner"}
    asked = {"approval_id": "verdict-1"}
    told = [line for line in lines if line["event"].startswith("workspace.")]
    assert [
        ("workspace.opened", "winner", "executor", {}),
        ("workspace.opened", "job", "executor", of_job),
        ("workspace.merged", "winner", "executor", of_job),
        ("workspace.decided", "job", "executor", asked),
        ("workspace.committed", "job", "executor", asked),
        ("workspace.opened", "other", "executor", {}),
        ("workspace.discarded", "other", "person:ada", {}),
    ] == [(line["event"], line["conversation_id"], line["actor"], _ids(line)) for line in told]


def _ids(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("approval_id", "job_id", "attempt_id") if name in line}


async def test_all_attempts_at_a_task_read_the_same(job: Scene) -> None:
    """What is moved while they work is not there for them; nor is what another conversation of no job reads."""
    slow = attempt(job, "slow", 0)
    quick = attempt(job, "quick", 0)
    await quick.stage("create_file", path="a.txt", content="a\n")
    await win(job, quick)
    alone = Scene(job.house, "alone")
    foreign = Scene(job.house, "foreign", "umbrella", WorkspaceBase(conversation_id="job", entries=1))
    for reader in (slow, alone, foreign):
        assert [] == (await reader.run("list_files")).data["files"]


@pytest.mark.parametrize(("first", "second"), [("p", "p/q"), ("p/q", "p"), ("Twin.md", "twin.md"), ("a/B/c", "a/b/d")])
async def test_winners_whose_files_cannot_stand_together_conflict(job: Scene, first: str, second: str) -> None:
    """One file where another one's folder is, or two that differ in case alone: the later winner is tried again."""
    one, two = attempt(job, "one"), attempt(job, "two")
    await one.stage("create_file", path=first, content="one\n")
    await two.stage("create_file", path=second, content="two\n")
    await win(job, one)
    told = await two.merged()
    assert ("conflicted", sorted(f"files:{each}" for each in (first, second))) == (told.state, sorted(told.keys))


async def test_a_winner_that_changed_the_same_is_told_and_nothing_of_it_is_moved(job: Scene) -> None:
    """The later one conflicts, also with a file that both create; made anew on what is there it fits."""
    (job.root / "shared.txt").write_text("zero\n")
    one, two = attempt(job, "one"), attempt(job, "two")
    await one.stage("edit_file", path="shared.txt", old="zero\n", new="zero\none\n")
    await two.stage("create_file", path="free.txt", content="free\n")
    await two.stage("edit_file", path="shared.txt", old="zero\n", new="zero\ntwo\n")
    await win(job, one)
    told = await two.merged()
    assert ("conflicted", ["files:shared.txt"], []) == (told.state, told.keys, told.entries)
    assert ("open", 1) == (two.state(), entries(job))
    anew = attempt(job, "anew", 1)
    await anew.stage("edit_file", path="shared.txt", old="one\n", new="one\ntwo\n")
    await win(job, anew)
    await job.committed(job.commit())
    assert {"shared.txt": "zero\none\ntwo\n"} == job.files()


async def test_a_winner_that_leaves_another_mode_conflicts(job: Scene) -> None:
    """The contents are those that the later one began with, and who may run the file is not."""
    (path := job.root / "run.sh").write_text("zero\n")
    path.chmod(0o644)
    one, two = attempt(job, "one"), attempt(job, "two")
    await one.stage("edit_file", path="run.sh", old="zero\n", new="one\n")
    await one.stage("edit_file", path="run.sh", old="one\n", new="zero\n")
    path.chmod(0o755)
    await two.stage("edit_file", path="run.sh", old="zero\n", new="two\n")
    await win(job, one)
    told = await two.merged()
    assert ("conflicted", ["files:run.sh"]) == (told.state, told.keys)


async def test_a_moved_call_runs_after_the_commit_of_its_job(job: Scene) -> None:
    """Under its own permit, behind the changes, in the order in which winners were moved."""
    first, second = attempt(job, "first"), attempt(job, "second", 1)
    await first.stage("add", a=1, b=2)
    await win(job, first)
    await second.stage("create_file", path="a.txt", content="a\n")
    await second.stage("add", a=3, b=4)
    await win(job, second)
    commit = job.commit()
    await job.house.deliver(job.place.permitted(commit, mode="commit", issuer="approval"))
    await job.house.deliver(*job.released(commit, 0, 2))
    kind, result, error = told(await job.finished())
    assert ("succeeded", "", ["succeeded", "committed", "succeeded"]) == (kind, error, outcomes(result))
    assert [{"sum": 3}, None, {"sum": 7}] == [entry.data for entry in result.entries] if result else None


async def test_what_an_attempt_stages_does_not_expire_by_its_rule(job: Scene) -> None:
    """A minute is for people who decide; the job asks them in the end, however long its attempts take."""
    winner = attempt(job, "winner")
    await winner.stage("create_file", path="a.txt", content="a\n", plan=StagePlan(expires_after_seconds=60))
    await win(job, winner)
    rows = job.place.sql("SELECT expires_at > now() + interval '13 days' AS long FROM executor.workspaces")
    assert [True, True] == [row.long for row in rows]


async def test_what_was_moved_is_moved_once(job: Scene) -> None:
    """The same word again changes nothing and is answered by nothing; what came of one entry is told for the vote."""
    winner = attempt(job, "winner")
    staged = await winner.stage("create_file", path="a.txt", content="a\n")
    assert [("files:a.txt", None)] == [(each.key, each.base) for each in staged.effects]
    await win(job, winner)
    (call, _), ids = winner.entries[0], {"tenant": "acme", "conversation_id": "winner"}
    await winner.command(DiscardWorkspace(**ids, workspace_id=winner.workspace_id))
    loser = attempt(job, "nothing")
    assert "refused" == (await loser.merged()).state
    assert (1, "open", "merged") == (entries(job), job.state(), winner.state())
    assert [call.call_id] == [row.call_id for row in rows(job)]


async def test_effects_are_the_same_by_another_way_and_calls_count_by_their_arguments(job: Scene) -> None:
    """Contents and modes in the one case, tool and arguments in the other; no conversation of no job has any."""
    one, other = attempt(job, "one"), attempt(job, "other")
    short = await one.stage("create_file", path="a.txt", content="ab\n")
    await other.stage("create_file", path="a.txt", content="a\n")
    long = await other.stage("edit_file", path="a.txt", old="a\n", new="ab\n")
    assert short.effects[0].after == long.effects[0].after
    calls = [await each.stage("add", a=1, b=2) for each in (one, other)]
    assert calls[0].effects == calls[1].effects
    assert calls[0].digest != calls[1].digest
    assert [] == (await Scene(job.house, "alone").stage("create_file", path="a.txt", content="a\n")).effects


async def test_another_tenant_moves_nothing(job: Scene) -> None:
    """Its word finds no workspace, whatever conversation it names."""
    winner = attempt(job, "winner")
    await winner.stage("create_file", path="a.txt", content="a\n")
    told = await winner.merged(tenant="umbrella")
    assert ("refused", "open", 0) == (told.state, winner.state(), entries(job))


async def test_a_full_workspace_takes_no_more(place: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    """The winner's entries stay where they are, and jobs reads why."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    async with open_house(place, executor_workspace_entries_max=1) as house:
        job = Scene(house, conversation_id="job")
        for name in ("one", "two"):
            await attempt(job, name).stage("create_file", path=name, content=name)
        assert "merged" == (await attempt(job, "one").merged()).state
        told = await attempt(job, "two").merged()
        assert ("refused", "The job's workspace would have more than 1 entries.") == (told.state, told.reason)


def entries(job: Scene) -> int:
    """Return how many entries are in the job's workspace."""
    return len(rows(job))


def rows(job: Scene) -> list[Any]:
    """Return the entries of the job's workspace."""
    found = workspace_id(job.tenant, job.conversation_id)
    return job.place.sql("SELECT * FROM executor.workspace_entries WHERE workspace_id = :id", id=found)
