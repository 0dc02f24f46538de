"""Calls are staged: nothing happens, what waits is seen by the conversation's reads, and a commit makes it all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.contracts.messages import DiscardWorkspace, EntriesDiscarded, WorkspaceExpired
from placet.contracts.messages.stage import StagePlan
from placet.executor import workspace_store
from placet.executor.plans import LEFT_TEXT
from placet.executor.rules import NOT_STAGED_TEXT
from placet.executor.staging import Stager
from placet.executor.store import Attempt
from placet.executor.workspace_store import ConversationWorkspace, Placed
from placet.runtime.queries import query
from placet.runtime.work import Work
from placet.tools import Described
from placet.tools.files.pack import Files
from tests.builders import an_event
from tests.support.executor_house import Premises, open_house
from tests.support.workspaces import Scene, file_rulebook, outcomes


@pytest.fixture
async def scene(place: Premises, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """An executor whose files are in a folder of the test."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    async with open_house(place) as house:
        yield Scene(house)


async def test_a_staged_write_changes_nothing_and_is_read_by_its_conversation_alone(scene: Scene) -> None:
    """The file stays as it is; the conversation that staged it reads what will be, another one what is."""
    (scene.root / "a.txt").write_text("one\n")
    staged = await scene.stage("write_file", path="a.txt", content="two\n")
    assert ("change", 1, ["files:a.txt"]) == (staged.kind, staged.position, staged.keys)
    assert "Change a.txt (+1 -1)" == staged.summary
    assert {"a.txt": "one\n"} == scene.files()
    assert "two\n" == (await scene.run("read_file", path="a.txt")).data["text"]
    other = Scene(scene.house, conversation_id="conversation-2")
    assert "one\n" == (await other.run("read_file", path="a.txt")).data["text"]
    foreign = Scene(scene.house, tenant="umbrella")
    assert "one\n" == (await foreign.run("read_file", path="a.txt")).data["text"]


async def test_what_is_staged_is_given_to_its_tenant_alone(scene: Scene) -> None:
    """Who knows the workspace and the digest of another tenant gets no content by them."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    (blob,) = scene.place.sql("SELECT workspace_id, digest FROM executor.workspace_blobs")
    asked = {"workspace_id": blob.workspace_id, "digest": blob.digest}
    content = workspace_store.QUERIES.content.source
    found = [scene.place.sql(content, tenant=tenant, **asked) for tenant in (scene.tenant, "umbrella")]
    assert [1, 0] == [len(rows) for rows in found]


async def test_what_waits_is_listed_and_found(scene: Scene) -> None:
    """A created file is there, a deleted one is not, an edit builds on the write before it."""
    (scene.root / "old.txt").write_text("needle\n")
    await scene.stage("create_file", path="src/new.txt", content="hay\n")
    await scene.stage("edit_file", path="src/new.txt", old="hay", new="needle")
    await scene.stage("delete_file", path="old.txt")
    listed = (await scene.run("list_files", depth=3)).data["files"]
    assert [{"path": "src/new.txt", "size": 7, "mode": "644", "waiting": True}] == listed
    hits = (await scene.run("search_files", text="needle")).data["hits"]
    assert [{"path": "src/new.txt", "line": 1, "text": "needle"}] == hits
    assert {"old.txt": "needle\n"} == scene.files()


async def test_a_commit_makes_all_changes_and_keeps_modes(scene: Scene) -> None:
    """Create, edit, move and delete are made together; a mode stays with its file; nothing else is left behind."""
    (scene.root / "run.sh").write_text("echo one\n")
    (scene.root / "run.sh").chmod(0o750)
    (scene.root / "from.txt").write_text("moved\n")
    (scene.root / "gone.txt").write_text("gone\n")
    await scene.stage("edit_file", path="run.sh", old="one", new="two")
    await scene.stage("create_file", path="deep/er/new.txt", content="new\n")
    await scene.stage("move_file", path="from.txt", to="deep/to.txt")
    await scene.stage("delete_file", path="gone.txt")
    kind, result, error = await scene.committed(scene.commit())
    assert ("succeeded", "") == (kind, error)
    assert ["committed"] * 4 == outcomes(result)
    assert {"deep/er/new.txt": "new\n", "deep/to.txt": "moved\n", "run.sh": "echo two\n"} == scene.files()
    assert 0o750 == (scene.root / "run.sh").stat().st_mode & 0o777
    assert "committed" == scene.state()
    assert 0 == scene.place.sql("SELECT count(*) FROM executor.workspace_blobs")[0][0]


async def test_a_binary_file_goes_through_unharmed(scene: Scene) -> None:
    """Bytes that are no text are staged, told by their size and written as they are."""
    staged = await scene.stage("write_file", path="a.bin", content="AP/+gA==", encoding="base64")
    assert "Create a.bin (4 bytes)" == staged.summary
    assert "AP/+gA==" == (await scene.run("read_file", path="a.bin", encoding="base64")).data["base64"]
    await scene.committed(scene.commit())
    assert b"\x00\xff\xfe\x80" == (scene.root / "a.bin").read_bytes()


async def test_a_file_that_others_changed_is_a_conflict_and_nothing_is_applied(scene: Scene) -> None:
    """The entry is named, its neighbours are refused, and the folder is as the others left it."""
    (scene.root / "a.txt").write_text("one\n")
    await scene.stage("edit_file", path="a.txt", old="one", new="two")
    await scene.stage("create_file", path="b.txt", content="b\n")
    (scene.root / "a.txt").write_text("three\n")
    kind, result, error = await scene.committed(scene.commit())
    assert ("failed", "conflicted") == (kind, result and result.state)
    assert ["conflicted", "refused"] == outcomes(result)
    assert error.startswith("Nothing of the workspace was applied: ")
    assert {"a.txt": "three\n"} == scene.files()
    assert "conflicted" == scene.state()


async def test_a_changed_mode_is_a_conflict_too(scene: Scene) -> None:
    """Somebody took a right away meanwhile: it does not come back by an edit of the text."""
    (scene.root / "a.txt").write_text("one\n")
    (scene.root / "a.txt").chmod(0o644)
    await scene.stage("edit_file", path="a.txt", old="one", new="two")
    (scene.root / "a.txt").chmod(0o600)
    _, result, _ = await scene.committed(scene.commit())
    assert ["conflicted"] == outcomes(result)


async def test_left_out_entries_are_not_made(scene: Scene) -> None:
    """People kept one of two: the other is told as left out, and the workspace has ended."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.stage("create_file", path="b.txt", content="b\n")
    kind, result, _ = await scene.committed(scene.commit(1, edited=True))
    assert "succeeded" == kind
    assert ["left_out", "committed"] == outcomes(result)
    assert {"b.txt": "b\n"} == scene.files()
    assert "committed" == scene.state()


async def test_changes_of_one_file_stand_and_fall_together(scene: Scene) -> None:
    """A commit that leaves out one of two edits of a file is no tree that could be: nothing is applied."""
    await scene.stage("create_file", path="a.txt", content="one\n")
    await scene.stage("edit_file", path="a.txt", old="one", new="two")
    kind, result, error = await scene.committed(scene.commit(0, edited=True))
    assert ("failed", None) == (kind, result)
    assert "stand and fall together" in error
    assert ({}, "open") == (scene.files(), scene.state())


async def test_another_tree_than_was_shown_is_not_applied(scene: Scene) -> None:
    """A digest that is not that of the named entries stops the commit; the workspace still waits."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    kind, _, error = await scene.committed(scene.commit(digest="0" * 64))
    assert ("failed", "open", {}) == (kind, scene.state(), scene.files())
    assert "its digest is not that of what people were shown" in error


async def test_what_came_after_the_card_waits_for_the_next_commit(scene: Scene) -> None:
    """An entry staged between card and vote is not part of what was let through, and is not lost either."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    shown = scene.commit()
    await scene.stage("create_file", path="b.txt", content="b\n")
    _, result, _ = await scene.committed(shown)
    assert (["committed"], {"a.txt": "a\n"}, "open") == (outcomes(result), scene.files(), scene.state())
    _, result, _ = await scene.committed(scene.commit(1))
    assert (["committed"], "committed") == (outcomes(result), scene.state())


async def test_what_stood_on_an_entry_that_is_left_out_goes_with_it(scene: Scene) -> None:
    """A later edit of the file has no base any more: it is told with the commit, and what stands alone waits on."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.stage("create_file", path="b.txt", content="b\n")
    shown = scene.commit(1, edited=True)
    for old, new in (("a", "c"), ("c", "d")):
        await scene.stage("edit_file", path="a.txt", old=old, new=new)
    await scene.stage("edit_file", path="b.txt", old="b", new="e")
    _, result, error = await scene.committed(shown)
    assert (["left_out", "committed", "left_out", "left_out"], "") == (outcomes(result), error)
    assert ["", "", LEFT_TEXT, LEFT_TEXT] == [entry.error for entry in result.entries] if result else []
    assert ({"b.txt": "b\n"}, "open") == (scene.files(), scene.state())
    await scene.stage("create_file", path="a.txt", content="anew\n")
    _, result, _ = await scene.committed(scene.commit(4, 5))
    assert (["committed"] * 2, {"a.txt": "anew\n", "b.txt": "e\n"}) == (outcomes(result), scene.files())


async def test_what_stood_on_a_conflict_is_not_asked_about(scene: Scene) -> None:
    """Others changed the file that a commit changes: a later edit of it is told with the commit, and others wait on."""
    (scene.root / "a.txt").write_text("one\n")
    await scene.stage("edit_file", path="a.txt", old="one", new="two")
    shown = scene.commit()
    await scene.stage("edit_file", path="a.txt", old="two", new="three")
    await scene.stage("create_file", path="b.txt", content="b\n")
    (scene.root / "a.txt").write_text("four\n")
    _, result, _ = await scene.committed(shown)
    assert (["conflicted", "refused"], "open") == (outcomes(result), scene.state())
    _, result, _ = await scene.committed(scene.commit(2))
    assert (["committed"], {"a.txt": "four\n", "b.txt": "b\n"}) == (outcomes(result), scene.files())


async def test_a_workspace_of_another_tenant_or_conversation_is_out_of_reach(scene: Scene) -> None:
    """Its id is no secret, and yet nobody else commits it, or learns more than that there is none."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    arguments = scene.arguments(scene.entries, None)
    strangers: list[dict[str, Any]] = [{"tenant": "umbrella"}, {"conversation_id": "conversation-2"}]
    for stranger in strangers:
        kind, _, error = await scene.committed(scene.commit(arguments=arguments, **stranger))
        assert ("failed", "Nothing of the workspace was applied: there is no such workspace.") == (kind, error)
    assert ({}, "open") == (scene.files(), scene.state())


@pytest.mark.parametrize(("mode", "tool"), [("run", "commit"), ("stage", "commit"), ("commit", "write")])
async def test_a_permit_is_good_for_its_own_kind_of_call_alone(scene: Scene, mode: str, tool: str) -> None:
    """A permit to stage or to run commits nothing, and one to commit runs nothing: the message is buried."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    call = scene.commit() if tool == "commit" else scene.call("write_file", path="b.txt", content="b\n")
    await scene.house.deliver(scene.place.permitted(call, mode=mode))
    assert "another kind of call" in await scene.house.buried()
    assert {} == scene.files()


async def test_calls_staged_at_once_get_gapless_places(scene: Scene) -> None:
    """Ten calls of one conversation come together: ten places, and each of two edits of a file sees the other."""
    (scene.root / "a.txt").write_text("one two\n")
    wanted = [scene.call("create_file", path=f"{number}.txt", content="x") for number in range(8)]
    wanted += [scene.call("edit_file", path="a.txt", old=old, new=old.upper()) for old in ("one", "two")]
    permits = [scene.place.permitted(call, mode="stage", plan=StagePlan()) for call in wanted]
    await asyncio.gather(*(scene.house.deliver(permit) for permit in permits))
    answers = [await scene.finished() for _ in wanted]
    assert list(range(1, 11)) == sorted(answer.staged.position for answer in answers if answer.staged)
    by_id = {call.call_id: call for call in wanted}
    placed = [(answer.staged.position, by_id[answer.call_id], answer.staged) for answer in answers if answer.staged]
    scene.entries = [(call, staged) for _, call, staged in sorted(placed, key=lambda each: each[0])]
    await scene.committed(scene.commit())
    assert "ONE TWO\n" == scene.files()["a.txt"]


async def test_calls_are_staged_in_the_order_of_the_model_however_their_permits_come(scene: Scene) -> None:
    """Three edits of one answer come in reverse; one before the last was not staged, and nobody waits for it."""
    first = scene.call("create_file", path="a.txt", content="one\n")
    second = scene.call("edit_file", path="a.txt", old="one", new="two")
    allowed = scene.call("read_file", path="a.txt")
    last = scene.call("edit_file", path="a.txt", old="two", new="three")
    order = [first, second, allowed, last]
    house, place = scene.house, scene.place
    place.sql("INSERT INTO read.verdicts VALUES (:call, 'require_approval')", call=allowed.call_id)
    waiting = []
    for at in (3, 1):
        after = [each.call_id for each in order[:at]]
        permitted = place.permitted(order[at], mode="stage", plan=StagePlan(), after=after)
        waiting.append(asyncio.create_task(house.deliver(permitted)))
    await house.bus.retried.wait()
    assert [] == place.sql("SELECT call_id FROM executor.executions")
    await house.deliver(place.permitted(first, mode="stage", plan=StagePlan()))
    for _ in range(3):
        await scene.finished()
    await asyncio.gather(*waiting)
    rows = place.sql("SELECT call_id FROM executor.workspace_entries ORDER BY position")
    assert [each.call_id for each in (first, second, last)] == [row.call_id for row in rows]
    assert "three\n" == (await scene.run("read_file", path="a.txt")).data["text"]


async def test_a_permit_that_comes_twice_stages_once(scene: Scene) -> None:
    """The same event again finds its call taken."""
    call = scene.call("create_file", path="a.txt", content="a\n")
    event = an_event(scene.place.permitted(call, mode="stage"))
    await scene.house.deliver_event(event)
    await scene.finished()
    await scene.house.deliver_event(event)
    await scene.house.idle()
    assert (0, 1) == (
        scene.house.answers.qsize(),
        scene.place.sql("SELECT count(*) FROM executor.workspace_entries")[0][0],
    )


async def test_what_cannot_be_staged_says_so(scene: Scene) -> None:
    """A pack's own no is the call's failure, word for word."""
    answer = await scene.try_to_stage("edit_file", path="none.txt", old="a", new="b")
    assert ("failed", "There is no file 'none.txt'.", "") == (answer.kind, answer.error, scene.state())


@pytest.mark.parametrize("tool", ["write_file", "read_file", "list_files", "search_files"])
async def test_a_path_that_no_database_keeps_is_refused_with_the_reason(scene: Scene, tool: str) -> None:
    """U+0000 is in no path: the model reads that, staged or not, and not that the tool broke off."""
    more: dict[str, Any] = {"write_file": {"content": "a"}, "search_files": {"text": "a"}}.get(tool, {})
    path: dict[str, Any] = {"path" if tool.startswith(("write", "read")) else "folder": "a\x00b"}
    answer = await (scene.try_to_stage if tool == "write_file" else scene.run)(tool, **path, **more)
    problem = "'a\\x00b' is no path of a file: it has characters that nobody can see."
    assert ("failed", problem) == (answer.kind, answer.error)


async def test_nothing_waits_under_a_key_that_no_database_keeps(scene: Scene) -> None:
    """Every pack may look for what the model named, before it knows whether there can be such a key."""
    database = scene.house.service.runtime.database
    workspace = ConversationWorkspace(database, tenant="acme", conversation_id="conversation-1")
    assert (None, {}) == (await workspace.find("prices", "a\x00"), await workspace.under("prices", "a\x00"))


async def test_a_discarded_workspace_leaves_nothing(scene: Scene) -> None:
    """Its files are read as they are, a later commit finds it ended, and the next call opens another."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    ids = {"tenant": "acme", "conversation_id": scene.conversation_id, "workspace_id": scene.workspace_id}
    await scene.command(DiscardWorkspace(**ids, by="person:ada", reason="not today"))
    assert "discarded" == scene.state()
    assert [] == (await scene.run("list_files")).data["files"]
    _, _, error = await scene.committed(scene.commit())
    assert "Nothing of the workspace was applied: it was discarded before." == error
    staged = await scene.stage("create_file", path="b.txt", content="b\n")
    assert (1, scene.state(2)) == (staged.position, "open")


async def test_entries_that_are_named_are_discarded_and_what_stands_on_them(scene: Scene) -> None:
    """Nobody could name what was staged meanwhile: the agent hears of it; all else waits on and can be committed."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.stage("create_file", path="b.txt", content="b\n")
    await scene.stage("edit_file", path="a.txt", old="a", new="c")
    await scene.discard(0)
    await scene.house.idle()
    fell = scene.house.answers.get_nowait().message
    place = {"tenant": "acme", "conversation_id": scene.conversation_id, "workspace_id": scene.workspace_id}
    assert EntriesDiscarded(**place, call_ids=[scene.entries[2][0].call_id]) == fell
    assert "open" == scene.state()
    assert ["discarded", "waiting", "discarded"] == entry_states(scene)
    assert ["b.txt"] == [each["path"] for each in (await scene.run("list_files")).data["files"]]
    _, result, _ = await scene.committed(scene.commit(1))
    assert (["committed"], {"b.txt": "b\n"}, "committed") == (outcomes(result), scene.files(), scene.state())


async def test_the_last_named_entry_ends_the_workspace(scene: Scene) -> None:
    """Where nothing else waits it is discarded; the same word again, or one of an entry that ran, changes nothing."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.stage("create_file", path="b.txt", content="b\n")
    await scene.committed(scene.commit(0))
    await scene.discard(0)
    assert (["committed", "waiting"], "open") == (entry_states(scene), scene.state())
    await scene.discard(1)
    await scene.discard(1)
    assert (["committed", "discarded"], "discarded") == (entry_states(scene), scene.state())


async def test_a_change_that_was_planned_on_what_went_meanwhile_is_planned_anew(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its base never came: it is made from what stands, or the model hears that there is nothing to change."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.stage("create_file", path="b.txt", content="b\n")
    planned = asyncio.Event()
    gone = asyncio.Event()
    describe = Stager._describe

    async def pause(self: Stager, *given: Any) -> Any:
        planned.set()
        await gone.wait()
        return await describe(self, *given)

    monkeypatch.setattr(Stager, "_describe", pause)
    editing = asyncio.create_task(scene.try_to_stage("edit_file", path="a.txt", old="a", new="c"))
    await planned.wait()
    await scene.discard(0)
    gone.set()
    answer = await editing
    assert ("failed", "There is no file 'a.txt'.") == (answer.kind, answer.error)
    assert ["discarded", "waiting"] == entry_states(scene)


async def test_what_a_pack_says_of_a_change_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is, whatever stands in it and however many lines it counts: it is kept as far as people read."""
    told = Described("a\x00" * 10_000, "\ud800b\x00" * 100_000, added=10**30, removed=-1)
    monkeypatch.setattr(Files, "describe", lambda *_: told)
    staged = await scene.stage("create_file", path="a.txt", content="a\n")
    (kept,) = scene.place.sql(
        "SELECT length(summary), length(diff), cut, added, removed FROM executor.workspace_changes"
    )
    assert (4_000, (4_000, 64_000, True, 2**31 - 1, 0)) == (len(staged.summary), tuple(kept))


async def test_a_pack_that_cannot_say_what_changes_stages_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could be shown what waits: the call has failed."""
    monkeypatch.setattr(Files, "describe", lambda *_: None)
    answer = await scene.try_to_stage("create_file", path="a.txt", content="a\n")
    assert ("failed", f"{NOT_STAGED_TEXT} The tool broke off with an internal error.", []) == (
        answer.kind,
        answer.error,
        entry_states(scene),
    )


async def test_a_database_that_is_away_fails_no_staging(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session ends behind the entry that was put: it is put again, and the call is staged."""
    put = workspace_store.put
    tries: list[str] = []

    async def hang_up(work: Work, attempt: Attempt, *given: Any) -> Placed:
        placed = await put(work, attempt, *given)
        tries.append(placed.staged.digest)
        if len(tries) == 1:
            await work.run(query("q", "SELECT pg_terminate_backend(pg_backend_pid())"))
        return placed

    monkeypatch.setattr(workspace_store, "put", hang_up)
    staged = await scene.stage("create_file", path="a.txt", content="a\n")
    assert ([staged.digest] * 2, ["waiting"]) == (tries, entry_states(scene))


def entry_states(scene: Scene) -> list[str]:
    """Return what became of each entry of the conversation, in order."""
    return [row.state for row in scene.place.sql("SELECT state FROM executor.workspace_entries ORDER BY position")]


async def test_a_workspace_whose_time_is_over_is_discarded(scene: Scene) -> None:
    """Its rule gave it a minute: then no commit takes it, and the clock ends it."""
    await scene.stage("create_file", path="a.txt", content="a\n", plan=StagePlan(expires_after_seconds=60))
    assert 0 == await scene.house.sweep("expire-workspaces")
    scene.place.sql("UPDATE executor.workspaces SET expires_at = now() - interval '1 second'")
    _, _, error = await scene.committed(scene.commit())
    assert "Nothing of the workspace was applied: nobody decided in time." == error
    assert 1 == await scene.house.sweep("expire-workspaces")
    assert ({}, "discarded") == (scene.files(), scene.state())
    await scene.house.idle()
    told = (await scene.house.answers.get()).message
    expected = WorkspaceExpired(
        tenant=scene.tenant,
        conversation_id=scene.conversation_id,
        workspace_id=scene.workspace_id,
    )
    assert (expected, 0) == (told, await scene.house.sweep("expire-workspaces"))


async def test_an_ended_workspace_is_deleted_in_the_end(scene: Scene) -> None:
    """Thirty days after its end nothing of it is left; before that its diffs are."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.committed(scene.commit())
    assert (0, 1) == (await scene.house.sweep("purge-workspaces"), len(diffs(scene)))
    scene.place.sql("UPDATE executor.workspaces SET ended_at = now() - interval '31 days'")
    assert (1, 0) == (await scene.house.sweep("purge-workspaces"), len(diffs(scene)))


def diffs(scene: Scene) -> list[str]:
    """Return the diffs that are kept."""
    return [row.diff for row in scene.place.sql("SELECT diff FROM executor.workspace_changes ORDER BY position")]


async def test_the_diff_is_kept_as_it_was_staged(scene: Scene) -> None:
    """A unified diff of what stood there with what waited, for people who decide later."""
    (scene.root / "a.txt").write_text("one\ntwo\n")
    await scene.stage("edit_file", path="a.txt", old="two", new="three")
    assert ["--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three"] == diffs(scene)


async def test_a_full_workspace_takes_no_more(place: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries and bytes are bounded, and the call that is too much says what to do."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    bounds: dict[str, Any] = {"executor_workspace_entries_max": 2, "executor_workspace_bytes_max": 10}
    async with open_house(place, **bounds) as house:
        scene = Scene(house)
        large = await scene.try_to_stage("create_file", path="a.txt", content="x" * 11)
        await scene.stage("create_file", path="b.txt", content="b")
        await scene.stage("create_file", path="c.txt", content="c")
        many = await scene.try_to_stage("create_file", path="d.txt", content="d")
    assert "not more than 2 may wait" in many.error
    assert "more than 10 bytes" in large.error
    assert ["failed", "failed"] == [large.kind, many.kind]


async def test_two_commits_at_once_touch_one_root_in_turn(scene: Scene) -> None:
    """Two conversations changed the same file from the same text: one is made, the other conflicts."""
    (scene.root / "a.txt").write_text("one\n")
    scenes = [scene, Scene(scene.house, conversation_id="conversation-2")]
    for number, each in enumerate(scenes):
        await each.stage("edit_file", path="a.txt", old="one", new=f"by {number}")
    commits = [each.commit() for each in scenes]
    await scene.house.deliver(*(scene.place.permitted(commit, mode="commit", issuer="approval") for commit in commits))
    answers = {answer.call_id: answer for answer in [await scene.finished(), await scene.finished()]}
    kinds = [answers[commit.call_id].kind for commit in commits]
    assert ["failed", "succeeded"] == sorted(kinds)
    assert {"a.txt": f"by {kinds.index('succeeded')}\n"} == scene.files()


async def test_a_link_swapped_in_before_the_commit_leads_nowhere(scene: Scene) -> None:
    """The folder of a staged file becomes a link out of the root: a conflict, and nothing is written there."""
    outside = scene.place.folder / "outside"
    outside.mkdir()
    (scene.root / "docs").mkdir()
    (scene.root / "docs" / "a.txt").write_text("one\n")
    await scene.stage("edit_file", path="docs/a.txt", old="one", new="two")
    await scene.stage("create_file", path="docs/b.txt", content="b\n")
    (outside / "a.txt").write_text("one\n")
    (scene.root / "docs").rename(scene.root / "real")
    (scene.root / "docs").symlink_to(outside)
    _, result, _ = await scene.committed(scene.commit())
    assert ["conflicted", "conflicted"] == outcomes(result)
    assert ["a.txt"] == [path.name for path in outside.iterdir()]
    assert "one\n" == (outside / "a.txt").read_text()
