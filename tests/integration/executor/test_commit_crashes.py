"""A commit is broken off at each of its steps; whoever goes on with it ends in all or nothing, and says so once."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.messages import CommitResult, ToolCall
from placet.executor.plans import NOT_APPLIED
from placet.executor.rules import Outcome
from placet.executor.staging import Stager
from placet.executor.store import Attempt
from placet.executor.worker import Worker
from placet.runtime.work import Cause
from placet.tools import DecidedChange, ToolContext, ToolError
from placet.tools.files.pack import Files, files_of
from placet.tools.files.paths import parts_of
from placet.tools.files.tree import Draft
from tests.builders import an_envelope, an_event
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import BEGUN
from tests.support.workspaces import Scene, file_rulebook, outcomes, told

ROOT = Path(__file__).parents[3]


class Killed(BaseException):
    """Stands for the end of the process."""


class BreaksInTheMiddle(Files):
    """Makes one of several changes and then is no more."""

    async def apply(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Let the first new content take its place."""
        draft = Draft(files_of(context).tree(context), f"{context.idempotency_key}-{context.fence}")
        number, change = next((n, each) for n, each in enumerate(changes) if each.after)
        draft.place(number, parts_of(change.key), change.after or "", change.wanted)
        raise Killed


class Refuses(Files):
    """Says at one of its steps that it did nothing, or breaks off."""

    def __init__(self, step: str, error: Exception) -> None:
        self.step, self.error = step, error

    def scope(self, context: ToolContext) -> str:
        """Break off here, or name the folder."""
        if self.step == "scope":
            raise self.error
        return super().scope(context)

    async def apply(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Break off here, or make the changes."""
        if self.step == "apply":
            raise self.error
        await super().apply(changes, context)


@pytest.fixture
def files(place: Premises, monkeypatch: pytest.MonkeyPatch) -> Premises:
    """A place whose executors have the tools for files."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    return place


def errors(result: CommitResult | None) -> set[str]:
    """Return what is told of the entries of a commit."""
    assert result is not None
    return {each.error for each in result.entries}


def break_off(house: House, point: str) -> asyncio.Event:
    """Let the executor's commits end at a point as by kill -9; return what tells that one did."""
    broken = asyncio.Event()

    def reached(step: str) -> None:
        if step == point:
            broken.set()
            raise Killed

    worker = worker_of(house)
    worker.committing._reached = reached
    return broken


def worker_of(house: House) -> Worker:
    """Return the worker behind the executor's duties."""
    duty = next(each for each in house.service.duties if each.name == "recover-commits")
    worker: Worker = duty.run_once.__self__._worker  # type: ignore[attr-defined]
    return worker


async def stage_all(scene: Scene) -> None:
    """Stage a change of each kind."""
    (scene.root / "a.txt").write_text("one\n")
    (scene.root / "b.txt").write_text("b\n")
    await scene.stage("edit_file", path="a.txt", old="one", new="two")
    await scene.stage("create_file", path="new/c.txt", content="c\n")
    await scene.stage("move_file", path="b.txt", to="new/b.txt")


BEFORE = {"a.txt": "one\n", "b.txt": "b\n"}
AFTER = {"a.txt": "two\n", "new/b.txt": "b\n", "new/c.txt": "c\n"}


async def broken_off(files: Premises, point: str, **changed: Any) -> tuple[Scene, ToolCall]:
    """Stage changes, and break their commit off at a point; return the scene and the commit."""
    async with open_house(files, executor_worker="broken") as house:
        scene = Scene(house)
        await stage_all(scene)
        commit = scene.commit()
        broken = break_off(house, point)
        if pack := changed.get("pack"):
            worker_of(house).committing.packs = {"files": pack}
        await house.deliver(files.permitted(commit, mode="commit", issuer="approval", said_with=["key-ada"]))
        await house.idle()
        assert broken.is_set() or pack
        assert 0 == house.answers.qsize()
    files.end_lease(commit)
    return scene, commit


async def gone_on(files: Premises, scene: Scene) -> tuple[str, list[str]]:
    """Let another worker go on; return kind and outcomes of the one answer."""
    async with open_house(files, executor_worker="next") as house:
        scene.house = house
        assert 1 == await house.sweep("recover-commits")
        kind, result, _ = told(await scene.finished())
        assert 0 == await house.sweep("recover-commits")
        await house.idle()
        assert 0 == house.answers.qsize()
    return kind, outcomes(result) if result else []


@pytest.mark.parametrize("point", ["decided", "prepared", "compared", "applying", "made"])
async def test_a_commit_that_breaks_off_is_gone_on_with(files: Premises, point: str) -> None:
    """Whatever the step, the next worker makes all changes, leaves nothing else behind and answers once."""
    scene, commit = await broken_off(files, point)
    assert (BEFORE if point != "made" else AFTER) == without_drafts(scene)
    assert ("succeeded", ["committed"] * 3) == await gone_on(files, scene)
    assert (AFTER, "committed") == (scene.files(), scene.state())
    assert ["claimed", "reclaimed", "succeeded"] == files.history(commit)


async def test_a_commit_that_breaks_off_once_it_is_written_down_has_ended(files: Premises) -> None:
    """It is answered once, and nobody goes on with it, also where its permit comes again."""
    async with open_house(files, executor_worker="broken") as house:
        scene = Scene(house)
        await stage_all(scene)
        commit = scene.commit()
        permit = files.permitted(commit, mode="commit", issuer="approval", said_with=["key-ada"])
        broken = break_off(house, "applied")
        await house.deliver(permit)
        kind, result, _ = told(await scene.finished())
        await house.idle()
    assert result is not None
    assert (True, "succeeded", ["committed"] * 3) == (broken.is_set(), kind, outcomes(result))
    async with open_house(files, executor_worker="next") as house:
        assert 0 == await house.sweep("recover-commits")
        await house.deliver(permit)
        await house.idle()
        assert 0 == house.answers.qsize()
    assert (AFTER, "committed", ["claimed", "succeeded"]) == (scene.files(), scene.state(), files.history(commit))


STOP = "INSERT INTO read.stops VALUES ('stop-1', NULL, {}, {}, 'an incident')"
VOIDS = {
    "all is stopped": STOP.format("NULL", "NULL"),
    "an entry is stopped": STOP.format("'edit_file'", "NULL"),
    "commits are stopped": STOP.format("'commit_changes'", "NULL"),
    "the agent is stopped": STOP.format("NULL", "'default'"),
    "the key is revoked": "INSERT INTO read.api_keys VALUES ('key-ada', 'acme', now())",
}
IN_VAIN = {
    "another tool is stopped": STOP.format("'delete_file'", "NULL"),
    "another agent is stopped": STOP.format("NULL", "'treasury'"),
    "another key is revoked": "INSERT INTO read.api_keys VALUES ('key-bob', 'acme', now())",
}


@pytest.mark.parametrize("void", VOIDS)
@pytest.mark.parametrize("point", ["decided", "compared"])
async def test_a_lost_commit_that_made_nothing_makes_nothing_where_its_yes_is_void(
    files: Premises, point: str, void: str
) -> None:
    """Stopped or revoked since it was claimed: it ends, says why, and every file stays as it was."""
    scene, _ = await broken_off(files, point)
    files.sql(VOIDS[void])
    assert ("failed", ["failed"] * 3) == await gone_on(files, scene)
    assert BEFORE == scene.files()
    (said,) = {row.error for row in files.sql("SELECT error FROM executor.workspace_entries")}
    why = "may decide nothing any more" if "key" in void else "has stopped such calls; try again only"
    assert said.startswith(NOT_APPLIED)
    assert why in said


@pytest.mark.parametrize("void", VOIDS)
async def test_a_commit_that_was_lost_before_it_was_decided_leaves_its_workspace(files: Premises, void: str) -> None:
    """It ends as if it had been refused at the claim: what is staged still waits."""
    scene, commit = await broken_off(files, "decided")
    files.sql("UPDATE executor.workspaces SET state = 'open', commit_call_id = NULL")
    files.sql("UPDATE executor.workspace_entries SET state = 'waiting', commit_call_id = NULL")
    files.sql(VOIDS[void])
    assert ("failed", []) == await gone_on(files, scene)
    assert (BEFORE, "open") == (scene.files(), scene.state())
    assert ["claimed", "reclaimed", "failed"] == files.history(commit)


@pytest.mark.parametrize(
    ("point", "void"), [*(("applying", each) for each in VOIDS), *(("compared", each) for each in IN_VAIN)]
)
async def test_a_lost_commit_is_gone_on_with_all_the_same(files: Premises, point: str, void: str) -> None:
    """Half of its changes may be there, which only the rest makes whole; and what concerns others voids nothing."""
    scene, _ = await broken_off(files, point)
    files.sql((VOIDS | IN_VAIN)[void])
    assert ("succeeded", ["committed"] * 3) == await gone_on(files, scene)
    assert AFTER == scene.files()


async def test_a_commit_that_breaks_off_between_two_changes_is_rolled_forward(files: Premises) -> None:
    """One file was replaced when the process ended: the others follow."""
    scene, _ = await broken_off(files, "never", pack=BreaksInTheMiddle())
    assert AFTER["a.txt"] == scene.files()["a.txt"]
    assert BEFORE["b.txt"] == scene.files()["b.txt"]
    assert ("succeeded", ["committed"] * 3) == await gone_on(files, scene)
    assert AFTER == scene.files()


async def test_another_commit_waits_for_one_that_is_half_made(files: Premises) -> None:
    """Its worker died between two files: until somebody has gone on with it, nobody else changes that folder."""
    scene, _ = await broken_off(files, "never", pack=BreaksInTheMiddle())
    async with open_house(files, executor_worker="next") as house:
        other, scene.house = Scene(house, "other"), house
        await other.stage("create_file", path="new/c.txt", content="theirs\n")
        waits = asyncio.Event()
        worker_of(house).committing._reached = lambda step: waits.set() if step == "half made" else None
        await house.deliver(files.permitted(other.commit(), mode="commit", issuer="approval"))
        await waits.wait()
        assert "new/c.txt" not in without_drafts(scene)
        assert 1 == await house.sweep("recover-commits")
        answers = [told(await scene.finished()), told(await scene.finished())]
    ends = {tuple(outcomes(result)) for _, result, _ in answers}
    assert {("committed", "committed", "committed"), ("conflicted",)} == ends
    assert AFTER == scene.files()


@pytest.mark.parametrize(
    "void", ["all is stopped", "an entry is stopped", "commits are stopped", "the agent is stopped"]
)
async def test_a_commit_that_is_stopped_while_it_waits_for_another_makes_nothing(files: Premises, void: str) -> None:
    """It had been claimed before the stop, and begun to change nothing: it ends with the reason."""
    scene, _ = await broken_off(files, "never", pack=BreaksInTheMiddle())
    async with open_house(files, executor_worker="next") as house:
        other, scene.house, waits = Scene(house, "other"), house, asyncio.Event()
        await other.stage("create_file", path="theirs.txt", content="theirs\n")
        worker_of(house).committing._reached = lambda step: waits.set() if step == "half made" else None
        await house.deliver(files.permitted(other.commit(), mode="commit", issuer="approval"))
        await waits.wait()
        files.sql(VOIDS[void].replace("edit_file", "create_file"))
        assert 1 == await house.sweep("recover-commits")
        answers = [told(await scene.finished()), told(await scene.finished())]
    ends = {tuple(outcomes(result)): errors(result) for _, result, _ in answers}
    assert {("committed", "committed", "committed"), ("failed",)} == ends.keys()
    assert "has stopped such calls" in ends[("failed",)].pop()
    assert AFTER == scene.files()


async def test_a_half_made_commit_is_gone_on_with_where_every_slot_waits_for_it(files: Premises) -> None:
    """The only slot is taken by a commit that waits: the one that is half made goes on beside it."""
    scene, _ = await broken_off(files, "never", pack=BreaksInTheMiddle())
    async with open_house(files, executor_worker="next", executor_slots=1, executor_patience_seconds=0.05) as house:
        other, scene.house, waits = Scene(house, "other"), house, asyncio.Event()
        await other.stage("create_file", path="theirs.txt", content="theirs\n")
        worker_of(house).committing._reached = lambda step: waits.set() if step == "half made" else None
        await house.deliver(files.permitted(other.commit(), mode="commit", issuer="approval"))
        await waits.wait()
        assert 1 == await house.sweep("recover-commits")
        answers = [told(await scene.finished()), told(await scene.finished())]
    assert ["succeeded", "succeeded"] == [kind for kind, _, _ in answers]
    assert AFTER | {"theirs.txt": "theirs\n"} == scene.files()


async def test_a_commit_that_waits_in_vain_says_so(files: Premises) -> None:
    """Nobody goes on with the one that is half made: what waits for it ends, and nothing of it is made."""
    scene, _ = await broken_off(files, "never", pack=BreaksInTheMiddle())
    async with open_house(files, executor_worker="next") as house:
        other = Scene(house, "other")
        await other.stage("create_file", path="theirs.txt", content="theirs\n")
        worker_of(house).committing._patience = 0
        kind, result, _ = await other.committed(other.commit())
    assert ("failed", ["failed"]) == (kind, outcomes(result))
    assert "theirs.txt" not in scene.files()


async def test_what_others_changed_since_a_commit_broke_off_is_left(files: Premises) -> None:
    """Whoever goes on with it finds another file in its place: that stays, and the entry says it was not made."""
    scene, _ = await broken_off(files, "applying")
    (scene.root / "a.txt").write_text("by hand\n")
    assert ("failed", ["failed", "committed", "failed"]) == await gone_on(files, scene)
    assert {"a.txt": "by hand\n", "b.txt": "b\n", "new/b.txt": "b\n", "new/c.txt": "c\n"} == scene.files()


async def test_what_others_changed_after_it_was_made_counts_as_made(files: Premises) -> None:
    """A file took its place before the crash, and others have gone on with it since: nothing of it failed."""
    scene, _ = await broken_off(files, "never", pack=BreaksInTheMiddle())
    (scene.root / "a.txt").write_text("by hand\n")
    assert ("succeeded", ["committed"] * 3) == await gone_on(files, scene)
    assert AFTER | {"a.txt": "by hand\n"} == scene.files()


async def test_a_commit_that_broke_off_before_it_was_written_down_finds_a_conflict(files: Premises) -> None:
    """Nothing was made yet, and others changed the file: nothing is made, and nothing is left behind."""
    scene, _ = await broken_off(files, "compared")
    (scene.root / "a.txt").write_text("three\n")
    assert ("failed", ["conflicted", "refused", "refused"]) == await gone_on(files, scene)
    assert BEFORE | {"a.txt": "three\n"} == scene.files()
    assert "conflicted" == scene.state()


async def test_a_commit_whose_permit_has_expired_is_finished_all_the_same(files: Premises) -> None:
    """Half of it may be there: a permit lets a commit begin, and begun it must end."""
    scene, commit = await broken_off(files, "never", pack=BreaksInTheMiddle())
    files.sql("UPDATE executor.executions SET permit_expires_at = now() WHERE call_id = :id", id=commit.call_id)
    assert ("succeeded", ["committed"] * 3) == await gone_on(files, scene)
    assert AFTER == scene.files()


async def test_what_cannot_be_made_any_more_is_said(files: Premises) -> None:
    """After the first change a folder was put in the way of the second: each entry tells what became of it."""
    scene, _ = await broken_off(files, "never", pack=BreaksInTheMiddle())
    (scene.root / "new").mkdir()
    (scene.root / "new" / "c.txt").mkdir()
    assert ("failed", ["committed", "failed", "failed"]) == await gone_on(files, scene)
    assert {"a.txt": "two\n", "b.txt": "b\n", "new/b.txt": "b\n"} == scene.files()
    assert "partly_committed" == scene.state()


async def test_a_worker_that_was_thought_dead_writes_nothing_any_more(files: Premises) -> None:
    """It comes back behind another attempt of its commit: its journal is refused, and it changes no file."""
    scene, commit = await broken_off(files, "decided")
    files.sql("UPDATE executor.executions SET fence = fence + 1 WHERE call_id = :id", id=commit.call_id)
    async with open_house(files) as house:
        worker = worker_of(house)
        (row,) = files.sql("SELECT cause, begun_at FROM executor.executions WHERE call_id = :id", id=commit.call_id)
        late = Attempt(commit, "", "default", 1, row.begun_at, Cause(**row.cause), mode="commit")
        await worker.committing.run(late, worker._context(late))
    assert BEFORE == scene.files()


def without_drafts(scene: Scene) -> Mapping[str, str]:
    """Return what tools see of the folder."""
    return {path: text for path, text in scene.files().items() if not path.startswith(".placet-")}


@pytest.mark.parametrize("step", ["applying", "middle"])
async def test_a_killed_process_leaves_all_or_nothing(files: Premises, step: str) -> None:
    """Kill -9 of a real process with the journal written, and between two files: the next one makes the rest."""
    async with open_house(files) as house:
        scene = Scene(house)
        await stage_all(scene)
    commit = scene.commit()
    event = files.folder / "event.json"
    event.write_bytes(an_envelope(an_event(files.permitted(commit, mode="commit", issuer="approval"))))
    arguments = ["-m", "tests.support.commit_process", files.url, str(files.folder), str(event), step]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE)
    assert process.stdout is not None
    async for line in process.stdout:
        if BEGUN in line.decode():
            process.kill()
    assert -9 == await process.wait()
    made = {"a.txt"} if step == "middle" else set()
    assert {**BEFORE, **{path: AFTER[path] for path in made}} == without_drafts(scene)
    files.end_lease(commit)
    assert ("succeeded", ["committed"] * 3) == await gone_on(files, scene)
    assert AFTER == scene.files()


@pytest.mark.parametrize(
    ("step", "said"), [("scope", f"{NOT_APPLIED}There is no folder."), ("apply", "There is no folder")]
)
async def test_a_commit_whose_pack_says_no_ends_at_once_with_its_reason(files: Premises, step: str, said: str) -> None:
    """It did nothing, and would do nothing again: nobody waits for another attempt, or reads of lost workers."""
    async with open_house(files) as house:
        scene = Scene(house)
        await stage_all(scene)
        worker_of(house).committing.packs = {"files": Refuses(step, ToolError("There is no folder.", code="no_root"))}
        kind, result, _ = await scene.committed(scene.commit())
    assert ("failed", {said}) == (kind, errors(result))
    assert BEFORE == without_drafts(scene)


async def test_a_commit_whose_pack_breaks_off_again_and_again_ends(files: Premises) -> None:
    """Before its folders are known, too: a bug of a pack keeps no commit open for ever."""
    async with open_house(files, executor_attempts_max=1) as house:
        scene = Scene(house)
        await stage_all(scene)
        worker_of(house).committing.packs = {"files": Refuses("scope", RuntimeError("a bug"))}
        commit = scene.commit()
        await house.deliver(files.permitted(commit, mode="commit", issuer="approval"))
        await house.idle()
        files.end_lease(commit)
        assert 1 == await house.sweep("recover-commits")
        kind, result, _ = told(await scene.finished())
    assert ("failed", {f"{NOT_APPLIED}its worker was lost or broke off several times."}) == (
        kind,
        errors(result),
    )


@pytest.mark.parametrize(
    "late",
    [
        "UPDATE executor.executions SET permit_expires_at = now() - interval '1 s'",
        "UPDATE executor.executions SET fence = 3",
        "UPDATE executor.executions SET idempotent = false",
    ],
)
async def test_a_call_whose_worker_died_behind_its_staging_is_staged(
    files: Premises, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """However late it is looked at: it stands in its workspace, so nobody is told that nothing has happened."""

    async def staged_and_killed(stager: Stager, attempt: Attempt, context: ToolContext) -> Outcome:
        await stage(stager, attempt, context)
        raise Killed

    stage = Stager.stage
    async with open_house(files, executor_worker="broken") as house:
        scene = Scene(house)
        call = scene.call("create_file", path="a.txt", content="a\n")
        with monkeypatch.context() as patched:
            patched.setattr(Stager, "stage", staged_and_killed)
            await house.deliver(files.permitted(call, mode="stage"))
            await house.idle()
    files.end_lease(call)
    files.sql(late)
    async with open_house(files, executor_worker="next") as house:
        scene.house = house
        swept = [await house.sweep(duty) for duty in ("give-up-lost", "repeat-lost")]
        answer = await scene.finished()
    entries = files.sql("SELECT call_id FROM executor.workspace_entries")
    assert ([0, 1], "staged", [(call.call_id,)]) == (swept, answer.kind, [tuple(row) for row in entries])
