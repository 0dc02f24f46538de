"""Staged calls run after the commit, one after the other, each under a permit of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
import yaml

from placet.cli.backup.settling import statement
from placet.contracts.messages import ToolCall
from placet.contracts.messages.stage import CommitResult, StagePlan
from placet.contracts.permit import Consent
from placet.executor.rules import RESTORED_TEXT
from placet.runtime.database import Restored
from tests.builders import an_event
from tests.support.executor_house import Premises, open_house
from tests.support.executor_tools import a_gate
from tests.support.workspaces import Scene, file_rulebook, outcomes, told

#: The rulebook of those who keep the example's shop.
PRICES = Path(__file__).parents[3] / "examples" / "shop" / "prices.yaml"


@pytest.fixture
async def scene(place: Premises, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """An executor of two pools, with files."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    async with open_house(place, executor_pools="default,payments") as house:
        yield Scene(house)


async def let_through(scene: Scene, *places: int, commit: ToolCall, **how: str) -> tuple[str, CommitResult | None, str]:
    """Deliver a commit and then the permits of its staged calls; return the answer."""
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await scene.house.deliver(*scene.released(commit, *places, **how))
    return told(await scene.finished())


async def test_a_staged_call_waits_and_then_runs_with_its_own_arguments(scene: Scene) -> None:
    """It is answered as staged, runs once after the commit, and its value stands in the commit's answer."""
    staged = await scene.stage("add", a=1, b=2)
    assert ("call", []) == (staged.kind, staged.keys)
    kind, result, error = await let_through(scene, 0, commit=scene.commit())
    assert ("succeeded", "", "committed") == (kind, error, result and result.state)
    assert [{"sum": 3}] == [entry.data for entry in result.entries] if result else None
    await scene.house.idle()
    assert 0 == scene.house.answers.qsize()
    assert ["claimed", "staged", "released", "succeeded"] == scene.place.history(scene.entries[0][0])


async def test_the_blocks_of_staged_calls_come_with_the_commit(scene: Scene) -> None:
    """What a tool shows to people is shown when it has run."""
    await scene.stage("add", a=1, b=2)
    commit = scene.commit()
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await scene.house.deliver(*scene.released(commit, 0))
    assert ["3"] == [block["text"] for block in (await scene.finished()).ui_blocks]


async def test_the_model_is_told_that_nothing_may_use_the_result(scene: Scene) -> None:
    """The answer says that nothing has happened, how full the workspace is, and that there is no result."""
    answer = await scene.try_to_stage("add", a=1, b=2)
    assert {"workspace_id": scene.workspace_id, "entries": 1, "bytes": 0} == answer.data["workspace"]
    assert "Nothing has happened yet" in answer.data["note"]
    assert "no other call may use anything that it would return" in answer.data["note"]


async def test_calls_run_in_their_order_whenever_their_permits_come(scene: Scene) -> None:
    """The permits come before the commit and backwards: the second call begins when the first has ended."""
    for gate in ("first", "second"):
        await scene.stage("wait", gate=f"{scene.place.url}-{gate}")
    commit = scene.commit()
    first, second = (a_gate(f"{scene.place.url}-{gate}") for gate in ("first", "second"))
    await scene.house.deliver(*reversed(scene.released(commit, 0, 1)))
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await first.has_begun()
    assert not second.begun.is_set()
    first.opened.set()
    await second.has_begun()
    second.opened.set()
    _, result, _ = told(await scene.finished())
    assert ["succeeded", "succeeded"] == outcomes(result)


async def test_calls_of_several_pools_make_one_plan(scene: Scene) -> None:
    """A call of another pool has its turn there, behind the changes of this one."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    call = scene.call("pay", gate=f"{scene.place.url}-pay")
    permit = scene.place.permitted(call, mode="stage", pool="payments", plan=StagePlan())
    await scene.house.deliver(permit, pool="payments")
    answer = await scene.finished()
    assert answer.staged
    scene.entries.append((call, answer.staged))
    gate, commit = a_gate(f"{scene.place.url}-pay"), scene.commit()
    gate.opened.set()
    await scene.house.deliver(*scene.released(commit, 1, pool="payments"), pool="payments")
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    _, result, _ = told(await scene.finished())
    assert (["committed", "succeeded"], {"a.txt": "a\n"}) == (outcomes(result), scene.files())


@pytest.mark.parametrize(
    ("on_failure", "expected"),
    [("stop", ["succeeded", "failed", "refused"]), ("go_on", ["succeeded", "failed", "succeeded"])],
)
async def test_what_follows_a_failure_is_as_the_rule_says(scene: Scene, on_failure: str, expected: list[str]) -> None:
    """With `stop` the rest is refused, with `go_on` it runs; the answer names what did not take effect."""
    await scene.stage("add", a=1, b=2)
    await scene.stage("say_no")
    await scene.stage("add", a=3, b=4)
    kind, result, error = await let_through(scene, 0, 1, 2, commit=scene.commit(), on_failure=on_failure)
    assert ("failed", expected, "partly_committed") == (kind, outcomes(result), scene.state())
    assert "say_no: failed" in error


async def test_a_call_of_unknown_outcome_makes_the_commit_unknown(scene: Scene) -> None:
    """Outcome unknown, so the commit does not say that it did, nor that it did not."""
    await scene.stage("doubt")
    await scene.stage("add", a=1, b=2)
    kind, result, _ = await let_through(scene, 0, 1, commit=scene.commit())
    assert ("unknown", ["unknown", "refused"]) == (kind, outcomes(result))


async def test_no_call_runs_where_the_changes_conflict(scene: Scene) -> None:
    """The permits are there, and good for nothing."""
    (scene.root / "a.txt").write_text("one\n")
    await scene.stage("edit_file", path="a.txt", old="one", new="two")
    await scene.stage("add", a=1, b=2)
    (scene.root / "a.txt").write_text("three\n")
    _, result, _ = await let_through(scene, 1, commit=scene.commit())
    await scene.house.idle()
    assert ["conflicted", "refused"] == outcomes(result)
    assert ["claimed", "staged"] == scene.place.history(scene.entries[1][0])


async def test_a_call_that_was_left_out_never_runs(scene: Scene) -> None:
    """A permit for it, from wherever it may come, begins nothing."""
    await scene.stage("add", a=1, b=2)
    await scene.stage("add", a=3, b=4)
    commit = scene.commit(1, edited=True)
    _, result, _ = await let_through(scene, 1, commit=commit)
    assert ["left_out", "succeeded"] == outcomes(result)
    await scene.house.deliver(*scene.released(commit, 0))
    await scene.house.idle()
    assert ["claimed", "staged"] == scene.place.history(scene.entries[0][0])


async def test_a_permit_for_a_staged_call_alone_runs_nothing(scene: Scene) -> None:
    """Without its commit, or under another one, a staged call waits."""
    await scene.stage("add", a=1, b=2)
    await scene.stage("add", a=3, b=4)
    other, commit = scene.commit(0), scene.commit(0, edited=True)
    await scene.house.deliver(*scene.released(other, 0))
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await scene.house.deliver(*scene.released(other, 0))
    await scene.house.idle()
    assert (["claimed", "staged"], "committing") == (scene.place.history(scene.entries[0][0]), scene.state())
    await scene.house.deliver(*scene.released(commit, 0))
    assert "succeeded" == (await scene.finished()).kind


async def test_a_permit_that_comes_twice_runs_its_call_once(scene: Scene) -> None:
    """The second one, a message of its own, finds the call begun."""
    gate = a_gate(f"{scene.place.url}-once")
    await scene.stage("wait", gate=f"{scene.place.url}-once")
    commit = scene.commit()
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    (permit,) = scene.released(commit, 0)
    await scene.house.deliver(permit, permit)
    await gate.has_begun()
    await scene.house.deliver(permit)
    gate.opened.set()
    await scene.finished()
    assert 1 == len(gate.attempts)


async def test_a_permit_that_has_expired_ends_the_plan_honestly(scene: Scene) -> None:
    """The call is refused, what stands behind it too, and what was committed stays."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.stage("add", a=1, b=2)
    commit = scene.commit()
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await scene.house.deliver(*scene.released(commit, 1, at=datetime(2020, 1, 1, tzinfo=UTC)))
    kind, result, _ = told(await scene.finished())
    assert ("failed", ["committed", "refused"]) == (kind, outcomes(result))
    assert "the permission had expired" in (result.entries[1].error if result else "")


async def test_a_permit_from_before_a_restore_runs_no_staged_call(scene: Scene) -> None:
    """In whatever envelope it comes: the call may have run since the backup, and nobody here knows."""
    await scene.stage("add", a=1, b=2)
    commit = scene.commit()
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await scene.house.idle()
    (permit,) = scene.released(commit, 0)
    restored_at = scene.house_now()
    scene.house.service.runtime.database.restored = Restored(restored_at, restored_at - timedelta(hours=1))
    await scene.house.deliver_event(an_event(permit, time=restored_at + timedelta(seconds=1)))
    _, result, _ = told(await scene.finished())
    assert (["refused"], ["claimed", "staged"]) == (outcomes(result), scene.place.history(scene.entries[0][0]))
    assert RESTORED_TEXT in (result.entries[0].error if result else "")


async def test_a_forged_permit_of_a_staged_call_is_buried(scene: Scene) -> None:
    """Signed for another call, it is no permit of this one."""
    await scene.stage("add", a=1, b=2)
    await scene.stage("add", a=3, b=4)
    commit = scene.commit()
    mine, other = scene.released(commit, 0, 1)
    await scene.house.deliver(mine.model_copy(update={"permit": other.permit}))
    assert "does not fit call" in await scene.house.buried()


async def test_a_staged_call_whose_worker_was_lost_is_unknown_and_ends_the_plan(
    place: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody saw its end: the sweeper says so, and answers the commit."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    name = f"{place.url}-lost"
    async with open_house(place, executor_worker="lost") as house:
        scene = Scene(house)
        await scene.stage("wait", gate=name)
        await scene.stage("add", a=1, b=2)
        commit = scene.commit()
        await house.deliver(place.permitted(commit, mode="commit", issuer="approval"))
        await house.deliver(*scene.released(commit, 0, 1))
        await a_gate(name).has_begun()
        (call, _), _ = scene.entries
        place.sql("UPDATE executor.executions SET fence = fence + 1 WHERE call_id = :id", id=call.call_id)
        a_gate(name).opened.set()
        await house.idle()
    place.end_lease(call)
    async with open_house(place, executor_worker="next") as house:
        scene.house = house
        assert 1 == await house.sweep("give-up-lost")
        kind, result, _ = told(await scene.finished())
    assert ("unknown", ["unknown", "refused"]) == (kind, outcomes(result))
    assert "partly_committed" == scene.state()


@pytest.mark.parametrize("begun", [1, 0])
async def test_what_was_to_run_with_a_commit_is_unknown_after_a_restore(
    place: Premises, monkeypatch: pytest.MonkeyPatch, begun: int
) -> None:
    """Whether a call ran at the backup or none did: whether those behind it ran since nobody here can know."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    name = f"{place.url}-restored"
    async with open_house(place, executor_worker="lost") as house:
        scene = Scene(house)
        for gate in (name, f"{name}-2", f"{name}-3"):
            await scene.stage("wait", gate=gate)
        commit = scene.commit()
        await house.deliver(place.permitted(commit, mode="commit", issuer="approval"))
        await house.idle()
        if begun:
            await house.deliver(*scene.released(commit, 0, 1))
            await a_gate(name).has_begun()
        backup = place.sql("SELECT workspace_id FROM executor.workspaces WHERE state = 'committing'")
        place.sql("UPDATE executor.executions SET fence = fence + 1 WHERE state = 'running'")
        a_gate(name).opened.set()
        await house.idle()
    with psycopg.connect(place.url) as connection:
        moments = {"restored_at": datetime.now(UTC)}
        for each in ("doubt_staged", "lose"):
            connection.execute(statement(each), moments)
    async with open_house(place, executor_worker="next") as house:
        scene.house = house
        assert (1, 3) == (len(backup), await house.sweep("give-up-lost"))
        kind, result, _ = told(await scene.finished())
    assert ("unknown", ["unknown"] * 3) == (kind, outcomes(result))
    # Of those that had not begun, no permit stands beside the id of another: a receipt would not hold.
    kept = [place.execution(scene.entries[number][0]).permit for number in range(3)]
    assert [*kept[:begun], *[""] * (3 - begun)] == kept


async def test_a_plan_whose_next_permit_never_comes_ends_after_a_day(scene: Scene) -> None:
    """Before that it is waited for; then the call is refused, and the commit says so."""
    await scene.stage("create_file", path="a.txt", content="a\n")
    await scene.stage("add", a=1, b=2)
    commit = scene.commit()
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await scene.house.idle()
    assert (0, "committing") == (await scene.house.sweep("end-stuck-plans"), scene.state())
    scene.place.sql("UPDATE executor.executions SET begun_at = begun_at - interval '25 hours'")
    scene.place.sql("UPDATE executor.workspace_entries SET ended_at = ended_at - interval '25 hours'")
    assert 1 == await scene.house.sweep("end-stuck-plans")
    _, result, _ = told(await scene.finished())
    assert (["committed", "refused"], "partly_committed") == (outcomes(result), scene.state())
    await scene.house.deliver(*scene.released(commit, 1))
    await scene.house.idle()
    assert ["claimed", "staged"] == scene.place.history(scene.entries[1][0])


async def test_changes_of_two_packs_are_made_together_or_not_at_all(
    place: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and prices in one workspace: a price that others changed keeps the file from being written, too."""
    prices = yaml.safe_load(PRICES.read_text())["tools"]
    file_rulebook(place, set_price=prices["set_price"])
    place.sql("CREATE SCHEMA tools")
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    monkeypatch.setenv("PLACET_DATA", str(place.folder))
    async with open_house(place) as house:
        for conversation, others in (("conversation-1", False), ("conversation-2", True)):
            scene = Scene(house, conversation_id=conversation)
            await scene.stage("create_file", path=f"{conversation}.txt", content="new prices\n")
            await scene.stage("set_price", product_id="tshirt-white", price=199 if not others else 189)
            if others:
                place.sql("UPDATE tools.products SET price = 150 WHERE id = 'tshirt-white'")
            _, result, _ = await scene.committed(scene.commit())
            expected = ["refused", "conflicted"] if others else ["committed", "committed"]
            assert expected == outcomes(result)
    assert {"conversation-1.txt": "new prices\n"} == scene.files()
    assert 150 == place.sql("SELECT price FROM tools.products WHERE id = 'tshirt-white'")[0][0]


async def test_a_yes_that_is_void_by_now_runs_nothing_more_of_its_plan(scene: Scene) -> None:
    """The key was revoked while the first call ran: the second one never begins, and is answered so."""
    for gate in ("before", "behind"):
        await scene.stage("wait", gate=f"{scene.place.url}-{gate}")
    commit = scene.commit()
    first, second = (a_gate(f"{scene.place.url}-{gate}") for gate in ("before", "behind"))
    scene.place.sql("INSERT INTO read.api_keys VALUES ('key-bob', 'acme', NULL)")
    await scene.house.deliver(*scene.released(commit, 0, 1, consent=Consent(keys=["key-bob"])))
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    await first.has_begun()
    scene.place.sql("UPDATE read.api_keys SET revoked_at = now()")
    first.opened.set()
    _, result, _ = told(await scene.finished())
    assert (["succeeded", "refused"], False) == (outcomes(result), second.begun.is_set())


@pytest.mark.parametrize(("named", "expected"), [((0, 1), "refused"), ((0,), "succeeded")])
async def test_a_commit_is_stopped_with_what_it_names(scene: Scene, named: tuple[int, ...], expected: str) -> None:
    """A stop of one staged tool stops the commit that runs it, and no commit that leaves it out."""
    await scene.stage("create_file", path="a.md", content="a")
    await scene.stage("add", a=1, b=2)
    commit = scene.commit(*named, edited=len(named) == 1)
    scene.place.sql("INSERT INTO read.stops VALUES ('stop-1', 'acme', 'add', NULL, 'an incident')")
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval"))
    answer = await scene.house.answer()
    assert expected == getattr(answer, "kind", "")
