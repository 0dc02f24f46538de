"""The one workspace of a job: winners are moved into it, conflicts are tried anew, people are asked once."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from placet.contracts.messages import (
    AttemptRequested,
    AttemptWithdrawn,
    CancelJob,
    DiscardWorkspace,
    JobCaller,
    JobCommitted,
    JobPlan,
    JobTask,
    MergedEntry,
    MergeWorkspace,
    ProposeJob,
    StagedCallsDropped,
    ToolCallFinished,
    WorkspaceMerged,
)
from placet.jobs.handlers import sweep
from tests.integration.jobs.test_jobs import a_job, an_end, asked_of, state
from tests.support.house import Replica

TREE = "a" * 64
#: One vote decides.
QUICK = JobPlan(k=1, attempts_max=8)
A, B = JobTask(id="a", task="Do a."), JobTask(id="b", task="Do b.")


async def won(replica: Replica, task: str, *, tree: str | None = TREE) -> MergeWorkspace | None:
    """Let the newest attempt at a task win that left something staged; return what executors are asked then."""
    before = len(replica.all_sent(MergeWorkspace))
    await replica.send(an_end(asked_of(replica, task)[-1], tree_digest=tree, staged=1))
    found = replica.all_sent(MergeWorkspace)[before:]
    return found[0] if found else None


def told(wanted: MergeWorkspace | None, total: int = 1, **changes: Any) -> WorkspaceMerged:
    """Return what became of moving one entry: it is the `total`th."""
    assert wanted is not None
    ids = wanted.model_dump(include={"tenant", "conversation_id", "job_id", "attempt_id"})
    entry = MergedEntry(call_id=f"call-{total}", digest=f"{total % 10}" * 64)
    fields = {"state": "merged", "workspace_id": "w1", "entries": [entry], "total": total}
    return WorkspaceMerged(**ids | fields | changes)


def in_conflict(wanted: MergeWorkspace | None) -> WorkspaceMerged:
    """Return that nothing was moved, because another winner changed the same."""
    return told(wanted, state="conflicted", keys=["files:list.txt"], workspace_id=None, entries=[], total=0)


def committed(end: str = "committed", **changes: Any) -> JobCommitted:
    """Return what became of the workspace."""
    return JobCommitted(tenant="acme", conversation_id="c", job_id="job-1", state=end, **changes)


async def changes(replica: Replica) -> str:
    """Return what became of what the job changes."""
    return str((await replica.rows("SELECT changes FROM jobs.jobs"))[0]["changes"])


async def lines(replica: Replica) -> list[str]:
    """Return the job's log."""
    return [row["line"] for row in await replica.rows("SELECT data ->> 'line' AS line FROM jobs.log ORDER BY seq")]


def dropped(replica: Replica) -> list[list[str]]:
    """Return the calls that never take effect, as policy hears of them."""
    return [each.call_ids for each in replica.all_sent(StagedCallsDropped)]


def left(replica: Replica) -> list[tuple[str, bool]]:
    """Return the conversations that were withdrawn, and whether what they staged waits on."""
    return [(each.conversation_id, each.merged) for each in replica.all_sent(AttemptWithdrawn)]


async def test_winners_are_moved_in_turn_and_people_are_asked_once_at_the_end(replica: Replica) -> None:
    """What needs a task reads what it left; all of it is proposed in its order, and its end is the job's."""
    later = JobTask(id="b", task="Do b.", needs=["a"])
    caller = JobCaller(conversation_id="c1", call_id="call")
    await replica.send(a_job(A, later, plan=JobPlan(k=2, attempts_max=6), caller=caller))
    first, second = asked_of(replica, "a")
    assert [0, 0] == [each.base.entries for each in (first, second)]
    await replica.send(an_end(first, tree_digest=TREE, staged=1))
    wanted = await won(replica, "a")
    assert wanted is not None
    assert (second.attempt_id, second.base.conversation_id) == (wanted.attempt_id, wanted.into)
    assert ([(first.conversation_id, False)], []) == (left(replica), asked_of(replica, "b"))
    await replica.send(told(wanted))
    assert (second.conversation_id, True) in left(replica)
    assert [1, 1] == [each.base.entries for each in asked_of(replica, "b")]
    await replica.send(an_end(asked_of(replica, "b")[0], tree_digest=TREE, staged=1))
    await replica.send(told(await won(replica, "b"), 2))
    (asked,) = replica.all_sent(ProposeJob)
    assert (["call-1", "call-2"], "w1") == ([each.call_id for each in asked.entries], asked.workspace_id)
    assert (("waiting", ""), "waiting") == (await state(replica), await changes(replica))
    await replica.send(committed(done=1, left_out=1, reason="People left out b."))
    assert (("done", "People left out b."), "committed") == (await state(replica), await changes(replica))
    assert (await lines(replica))[-1].endswith("changes: 1 committed, 1 left out")
    (answer,) = replica.all_sent(ToolCallFinished)
    assert ("succeeded", "People left out b.") == (answer.kind, answer.data["reason"])
    assert [{"entries": 1}] == [dict(row) for row in await replica.rows("SELECT entries FROM jobs.jobs")]
    assert [] == replica.all_sent(DiscardWorkspace)
    assert (asked.conversation_id, False) == left(replica)[-1]


async def test_each_line_of_a_job_leads_to_its_conversations_and_to_the_call_it_answers(replica: Replica) -> None:
    """An attempt's line names the conversation of its calls; the job's the one in which people decide."""
    with capture_logs() as told_lines:
        await replica.send(a_job(A, plan=QUICK, caller=JobCaller(conversation_id="c1", call_id="call")))
        await replica.send(told(await won(replica, "a")))
    (attempt,), (asked,) = asked_of(replica, "a"), replica.all_sent(ProposeJob)
    found: dict[str, tuple[Any, ...]] = {}
    for line in told_lines:
        if "job_id" in line:
            found.setdefault(line["event"], (line["job_id"], line.get("conversation_id"), line.get("call_id")))
    assert ("job-1", attempt.conversation_id, None) == found["attempt.begun"]
    of_job = ("job-1", asked.conversation_id, "call")
    assert [of_job] * 3 == [found[event] for event in ("job.asked", "task.merged", "job.proposed")]


async def test_a_job_that_changes_nothing_asks_nobody(replica: Replica) -> None:
    """Also where its attempts staged what comes to nothing: that is thrown away with their conversations."""
    await replica.send(a_job(A, plan=QUICK))
    assert await won(replica, "a", tree=None) is None
    assert (("done", ""), "") == (await state(replica), await changes(replica))
    assert ([], [(asked_of(replica, "a")[0].conversation_id, False)]) == (replica.all_sent(ProposeJob), left(replica))


async def test_a_winner_that_conflicts_is_thrown_out_and_its_task_tried_anew(replica: Replica) -> None:
    """On what is there by then, and it is said why; the other task is not touched."""
    await replica.send(a_job(A, B, plan=QUICK))
    one, two = await won(replica, "a"), await won(replica, "b")
    await replica.send(told(one))
    await replica.send(in_conflict(two))
    assert ([0, 1], 1) == ([each.base.entries for each in asked_of(replica, "b")], len(asked_of(replica, "a")))
    (row,) = await replica.rows("SELECT state, reason FROM jobs.attempts WHERE state = 'conflicted'")
    assert "The winner of another task has changed the same meanwhile: files:list.txt." == row["reason"]
    assert [
        f"task b, attempt 1 thrown out: {row['reason']} (0 calls, 15 tokens)",
        "task b is tried again on what is there now",
        "task b, attempt 2 begun",
    ] == (await lines(replica))[-3:]
    await replica.send(told(await won(replica, "b"), 2))
    assert 1 == len(replica.all_sent(ProposeJob))


async def test_others_begin_while_people_are_asked_in_a_task_that_is_tried_anew(replica: Replica) -> None:
    """It is tried alone until its attempt waits for people: that may take hours, and the others need nothing of it."""
    others = [JobTask(id=name, task=f"Do {name}.") for name in "cd"]
    await replica.send(a_job(A, B, *others, plan=QUICK.model_copy(update={"parallel_max": 2})))
    wanted = await won(replica, "b")
    await replica.send(told(await won(replica, "a")))
    await replica.send(in_conflict(wanted))
    await replica.send(told(await won(replica, "c"), 2))
    held = "INSERT INTO read.card_times VALUES ('acme', :conversation, {})"
    retried = asked_of(replica, "b")[-1]
    await replica.execute(held.format("now()"), conversation=retried.conversation_id)
    assert (0, 2, []) == (
        await sweep(replica.units, lambda _: None),
        len(asked_of(replica, "b")),
        asked_of(replica, "d"),
    )
    await replica.execute(held.format("NULL"), conversation=retried.conversation_id)
    assert [1, 0] == [await sweep(replica.units, lambda _: None) for _ in range(2)]
    await replica.settle()
    await replica.send(told(await won(replica, "d"), 3))
    await replica.send(told(await won(replica, "b"), 4))
    assert ["call-1", "call-2", "call-3", "call-4"] == [
        each.call_id for each in replica.all_sent(ProposeJob)[0].entries
    ]


async def test_a_task_that_conflicts_with_nothing_new_ends_its_job_and_throws_the_rest_away(replica: Replica) -> None:
    """Three times it is tried anew on the same; then the job fails, and says what is thrown away."""
    await replica.send(a_job(A, B, plan=QUICK))
    await replica.send(told(await won(replica, "a")))
    for _ in range(5):
        await replica.send(in_conflict(await won(replica, "b")))
    why = "The changes of its winner could not be kept. They conflict again and again with those of other tasks."
    assert (("failed", f"Task b failed. {why}"), "discarded") == (await state(replica), await changes(replica))
    assert "1 staged entry thrown away: nothing of it happened" in await lines(replica)
    assert "task b is tried again on what is there now (3 of 3)" in await lines(replica)
    assert ["w1"] == [each.workspace_id for each in replica.all_sent(DiscardWorkspace)]
    assert (5, []) == (len(asked_of(replica, "b")), replica.all_sent(ProposeJob))


async def test_many_tasks_that_change_the_same_are_all_kept(replica: Replica) -> None:
    """Twelve change one file, four at a time: a round that keeps one winner never fails the job, and few are wasted."""
    tasks = [JobTask(id=f"t{number}", task="Add a line.") for number in range(12)]
    await replica.send(a_job(*tasks, plan=JobPlan(k=1)))
    ended, total = set[str](), 0
    while not replica.all_sent(ProposeJob):
        running = [each for each in replica.all_sent(AttemptRequested) if each.attempt_id not in ended]
        before = len(replica.all_sent(MergeWorkspace))
        for each in running:
            ended.add(each.attempt_id)
            await replica.send(an_end(each, tree_digest=TREE, staged=1))
        bases = {each.attempt_id: each.base.entries for each in running}
        for wanted in replica.all_sent(MergeWorkspace)[before:]:
            clean = bases[wanted.attempt_id] == total
            total += clean
            await replica.send(told(wanted, total) if clean else in_conflict(wanted))
    assert (12, "waiting") == (total, (await state(replica))[0])
    assert 12 + 6 >= len(replica.all_sent(AttemptRequested))


@pytest.mark.parametrize(
    ("end", "reason", "expected"),
    [
        ("not_committed", "A person denied it.", ("failed", "Its changes were not committed. A person denied it.")),
        ("partly_committed", "b failed.", ("failed", "Its changes were committed in part only. b failed.")),
        ("unknown", "", ("failed", "Whether its changes were committed is not known.")),
        ("conflicted", "", ("failed", "Others have changed the same meanwhile: none of its changes was made.")),
    ],
)
async def test_the_end_says_what_became_of_the_changes(
    replica: Replica, end: str, reason: str, expected: tuple[str, str]
) -> None:
    """The answers stand all the same; only what took effect is left, and a second end changes nothing."""
    caller = JobCaller(conversation_id="c1", call_id="call")
    await replica.send(a_job(A, plan=QUICK, caller=caller))
    await replica.send(told(await won(replica, "a")))
    await replica.send(committed(end, reason=reason, done=int(end == "partly_committed")))
    await replica.send(committed())
    assert expected == await state(replica)
    word = "discarded" if end == "not_committed" else end
    assert word == await changes(replica)
    thrown_away = 0 if word in {"partly_committed", "unknown"} else 1
    assert thrown_away == len(replica.all_sent(DiscardWorkspace)) == len(dropped(replica))
    (answer,) = replica.all_sent(ToolCallFinished)
    told_data = {"job_id": "job-1", "state": "failed", "result": {"a": {"answer": "A"}}, "changes": word}
    assert ("failed", {**told_data, "tokens": 15, "cost": None}) == (answer.kind, answer.data)


@pytest.mark.parametrize(
    ("end", "expected", "discarded"),
    [
        ("not_committed", ("cancelled", "Cancelled by person:ada."), 1),
        ("committed", ("done", "It was committed before it could be cancelled."), 0),
    ],
)
async def test_a_job_whose_changes_wait_ends_when_its_question_is_withdrawn(
    replica: Replica, end: str, expected: tuple[str, str], discarded: int
) -> None:
    """Only then is it known whether anything happened; a second cancel changes nothing."""
    await replica.send(a_job(A, plan=QUICK))
    await replica.send(told(await won(replica, "a")))
    for _ in range(2):
        await replica.send(CancelJob(tenant="acme", job_id="job-1", by="person:ada"))
    (asked,) = replica.all_sent(ProposeJob)
    assert ("withdrawing", 1) == ((await state(replica))[0], left(replica).count((asked.conversation_id, False)))
    await replica.send(committed(end))
    assert (expected, discarded) == (await state(replica), len(replica.all_sent(DiscardWorkspace)))


async def test_a_cancelled_job_throws_away_what_its_winners_left_and_what_comes_later(replica: Replica) -> None:
    """Also what was moved while the cancel was on its way: no workspace is left open."""
    later = JobTask(id="c", task="Do c.", needs=["a", "b"])
    await replica.send(a_job(A, B, later, plan=QUICK))
    one, two = await won(replica, "a"), await won(replica, "b")
    await replica.send(told(one))
    await replica.send(CancelJob(tenant="acme", job_id="job-1", by="person:ada"))
    assert (("cancelled", "Cancelled by person:ada."), "discarded") == (await state(replica), await changes(replica))
    await replica.send(told(two, 1, workspace_id="w2"))
    assert ["w1", "w2"] == [each.workspace_id for each in replica.all_sent(DiscardWorkspace)]
    assert [["call-1"], ["call-1"]] == dropped(replica)
    assert [] == [each for each in replica.all_sent(AttemptRequested) if each.labels["task"] == "c"]


async def test_another_tenant_ends_nothing(replica: Replica) -> None:
    """Its words about the job are dead letters."""
    await replica.send(a_job(A, plan=QUICK))
    wanted = await won(replica, "a")
    await replica.send(told(wanted, tenant="umbrella"))
    assert [] == replica.all_sent(ProposeJob)
    await replica.send(told(wanted))
    await replica.send(committed().model_copy(update={"tenant": "umbrella"}))
    assert ("waiting", "") == await state(replica)
