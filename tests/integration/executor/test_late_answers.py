"""The database's answer comes late: what it says may be over, and is asked again before anything begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from placet.contracts.ids import new_id
from placet.contracts.messages import ToolCall, ToolCallRefused
from placet.contracts.permit import Consent
from placet.executor.states import State
from tests.integration.executor.test_commit_crashes import BEFORE, errors, stage_all, without_drafts, worker_of
from tests.integration.executor.test_sweeper import a_lost_call
from tests.support.cut_commits import CutLine
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import Gate, a_gate
from tests.support.workspaces import Scene, file_rulebook, outcomes, told

CLAIM, ATTEMPT = "INSERT INTO executor.executions", "UPDATE executor.executions"
STOP = "INSERT INTO read.stops VALUES ('stop-1', NULL, NULL, NULL, 'enough')"
ASKED = "SELECT FROM read.stops"
REVOKED = "UPDATE read.api_keys SET revoked_at = now()"


@dataclass
class Clock:
    """A monotonic clock that stands still unless a test moves it."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The executor's clock."""
    return Clock()


@pytest.fixture
async def house(place: Premises, line: CutLine, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """An executor that reaches the database by that line alone."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    place.sql("INSERT INTO read.api_keys (key_id, tenant) VALUES ('key-1', 'acme')")
    async with open_house(place, monotonic=clock, database_url=SecretStr(line.url(place.url))) as house:
        yield house


@dataclass
class Held:
    """A call whose claim's answer is held."""

    call: ToolCall
    gate: Gate
    delivering: asyncio.Task[None]


@pytest.fixture
async def held(house: House, place: Premises, line: CutLine) -> Held:
    """A call that was claimed, which its executor has not heard."""
    line.hold_at(CLAIM)
    name = new_id()
    call, gate = place.call("wait", gate=name), a_gate(name)
    gate.opened.set()
    permitted = place.permitted(call, issuer="approval", by=["person:ada"], said_with=["key-1"])
    delivering = asyncio.create_task(house.deliver(permitted))
    await line.was_cut.wait()
    return Held(call, gate, delivering)


@pytest.mark.parametrize("change", [STOP, REVOKED], ids=["stopped", "revoked"])
async def test_what_is_void_when_the_answer_comes_does_not_begin(
    house: House, line: CutLine, clock: Clock, held: Held, change: str
) -> None:
    """The claim's answer took seconds, and meanwhile there was a stop: the call is refused, and answered once."""
    house.premises.sql(change)
    clock.now += 8
    line.let_go()
    await held.delivering
    answer = await house.answer()
    await house.idle()
    assert isinstance(answer, ToolCallRefused)
    row = house.premises.execution(held.call)
    assert ("refused", State.REFUSED, None, []) == (answer.kind, row.state, row.begun_at, held.gate.attempts)
    assert (["claimed", "refused"], 0) == (house.premises.history(held.call), house.answers.qsize())


async def test_what_was_given_up_when_the_answer_comes_does_not_begin(
    house: House, line: CutLine, clock: Clock, held: Held
) -> None:
    """The lease was over, and the conversation has its answer that nobody knows: that stays the only one, and true."""
    house.premises.end_lease(held.call)
    assert 1 == await house.sweep("give-up-lost")
    clock.now += 8
    line.let_go()
    await held.delivering
    answer = await house.answer()
    await house.idle()
    assert ("unknown", 0, []) == (getattr(answer, "kind", ""), house.answers.qsize(), held.gate.attempts)
    assert ["claimed", "gave_up"] == house.premises.history(held.call)


async def test_what_nothing_has_made_void_begins_however_late_the_answer(
    house: House, line: CutLine, clock: Clock, held: Held
) -> None:
    """Its lease is over and nobody has taken it over: it is kept, and the call runs once."""
    house.premises.end_lease(held.call)
    clock.now += 8
    line.let_go()
    await held.delivering
    await house.answer()
    await house.idle()
    assert (["claimed", "succeeded"], 1) == (house.premises.history(held.call), len(held.gate.attempts))
    assert 0 == await house.sweep("give-up-lost")


async def test_an_answer_within_the_bound_is_believed(house: House, line: CutLine, clock: Clock, held: Held) -> None:
    """A call that was claimed before the stop begins within half a second, and nothing more is asked for it."""
    house.premises.sql(STOP)
    clock.now += 0.4
    line.let_go()
    await held.delivering
    await house.answer()
    await house.idle()
    assert ["claimed", "succeeded"] == house.premises.history(held.call)


async def test_what_is_asked_again_may_be_late_too(house: House, line: CutLine, clock: Clock, held: Held) -> None:
    """The second answer took seconds as well, and the stop came in these: it is asked once more."""
    clock.now += 8
    line.let_go()
    line.hold_at(ASKED)
    await line.was_cut.wait()
    house.premises.sql(STOP)
    clock.now += 8
    line.let_go()
    await held.delivering
    await house.idle()
    assert (State.REFUSED, []) == (house.premises.execution(held.call).state, held.gate.attempts)


async def test_a_lost_attempt_whose_answer_comes_late_waits_again(
    place: Premises, house: House, line: CutLine, clock: Clock
) -> None:
    """It was taken up before the stop, and heard of it after: nothing is said of it, for it may have run before."""
    call, gate = await a_lost_call(place, "wait_repeatable")
    line.hold_at(ATTEMPT)
    sweeping = asyncio.create_task(house.sweep("repeat-lost"))
    await line.was_cut.wait()
    place.sql(STOP)
    clock.now += 8
    line.let_go()
    await sweeping
    await slots_free(house)
    assert (["claimed", "reclaimed", "let_go"], 1) == (place.history(call), len(gate.attempts))
    assert 0 == await house.sweep("repeat-lost")
    place.sql("DELETE FROM read.stops")
    assert 1 == await house.sweep("repeat-lost")
    await house.answer()
    assert 2 == len(gate.attempts)


async def test_a_staged_call_whose_answer_comes_late_is_refused(
    place: Premises, house: House, line: CutLine, clock: Clock
) -> None:
    """Its turn was before the key was revoked, and it heard of it after: it ends its plan as any refused call does."""
    scene, name = Scene(house), new_id()
    await scene.stage("wait", gate=name)
    commit = scene.commit()
    await house.deliver(*scene.released(commit, 0, consent=Consent(keys=["key-1"])))
    line.hold_at("INSERT INTO executor.inbox", ATTEMPT)
    await house.deliver(place.permitted(commit, mode="commit", issuer="approval"))
    await line.was_cut.wait()
    place.sql(REVOKED)
    clock.now += 8
    line.let_go()
    kind, result, _ = told(await scene.finished())
    await house.idle()
    assert ("failed", ["refused"], []) == (kind, outcomes(result), a_gate(name).attempts)
    assert ["claimed", "staged", "released", "failed"] == place.history(scene.entries[0][0])


async def held_commit(scene: Scene, line: CutLine) -> ToolCall:
    """Let a commit write down that it makes its changes, and hold the answer to that."""
    await stage_all(scene)
    commit = scene.commit()

    def reached(step: str) -> None:
        if step == "compared":
            line.hold_at("UPDATE executor.workspaces")

    worker_of(scene.house).committing._reached = reached
    await scene.house.deliver(scene.place.permitted(commit, mode="commit", issuer="approval", said_with=["key-1"]))
    await line.was_cut.wait()
    return commit


@pytest.mark.parametrize("change", [STOP, REVOKED], ids=["stopped", "revoked"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
async def test_a_commit_whose_answer_comes_late_makes_nothing(
    place: Premises, house: House, line: CutLine, clock: Clock, change: str, times: int
) -> None:
    """It had written down that it makes its changes and had made none: it takes that back, and says why."""
    scene = Scene(house)
    commit = await held_commit(scene, line)
    for _ in range(1, times):
        clock.now += 8
        line.let_go()
        line.hold_at(ASKED)
        await line.was_cut.wait()
    place.sql(change)
    clock.now += 8
    line.let_go()
    kind, result, _ = told(await scene.finished())
    await house.idle()
    assert ("failed", ["failed"] * 3, 1) == (kind, outcomes(result), len(errors(result)))
    assert (BEFORE, ["claimed", "failed"]) == (without_drafts(scene), place.history(commit))


async def test_a_commit_that_somebody_has_taken_over_is_left_to_them(
    place: Premises, house: House, line: CutLine, clock: Clock
) -> None:
    """Its lease was over when it heard that it may make its changes: whoever goes on with it makes them."""
    scene = Scene(house)
    commit = await held_commit(scene, line)
    place.sql("UPDATE executor.executions SET fence = 2, worker = 'next' WHERE call_id = :id", id=commit.call_id)
    clock.now += 8
    line.let_go()
    await slots_free(house)
    assert BEFORE == without_drafts(scene)
    place.end_lease(commit)
    assert 1 == await house.sweep("recover-commits")
    kind, result, _ = told(await scene.finished())
    assert ("succeeded", ["committed"] * 3) == (kind, outcomes(result))


async def slots_free(house: House) -> None:
    """Return when nothing runs in a slot."""
    slots = house.service.slots
    assert slots is not None
    while slots.busy:
        await slots.wait_freed(30)
