"""What happens to a job: its tasks begin, its attempts end, votes decide, and it is over. Pure.

The caller locks the job's row, hands over what is stored of it and of the task in question, lets things happen, and
stores what they came to: rows, lines of the log, history, and the messages to send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from placet.contracts import messages as m
from placet.contracts.canonical import NotStrictJson
from placet.contracts.permit import STOPPED_CALL
from placet.domain.division import Unsound, checked, groups_of
from placet.domain.reliability import Record, votes_needed
from placet.jobs.drawing import DIVISION, UNANSWERED, DrawingCourse
from placet.jobs.job_state import LOST, SHOWN_KEY, Attempt, Task, counted, worded
from placet.jobs.rules import budget, division, prompts, voting
from placet.jobs.states import (
    JOB_MACHINE,
    TASK_MACHINE,
    AttemptEvent,
    AttemptState,
    Changes,
    JobEvent,
    JobState,
    TaskEvent,
    TaskState,
)

#: Divisions that are refused before a job is given up.
DIVISIONS_MAX = 3
#: Flag of an attempt whose division is no use.
UNSOUND = "unsound_division"
#: Times that a task is tried anew because its winner conflicted, where no other winner explains it.
CONFLICTS_MAX = 3
#: Characters of a job's task in its log.
SHOWN_TASK = 100


class Course(DrawingCourse):
    """A job to which things happen."""

    __slots__ = ()

    def begin(self, *, stopped: bool = False) -> None:
        """Take a new job: divide its task, or take the division that came with it; one that is stopped ends at once."""
        spec = self.job.spec
        self._record_job("asked", None, self.job.state, actor=spec.author.id)
        self._note("job", {"state": self.job.state}, f"asked by {spec.author.id}: {_short(spec.task)}")
        if stopped:
            self.stopped = True
            self.give_up(STOPPED_CALL)
            return
        if not spec.tasks:
            self._add(Task(DIVISION, "", prompts.to_divide(spec), k=1, state=TaskState.READY))
            return
        try:
            self._divide(checked(spec.tasks, spec.outputs, tasks_max=spec.plan.tasks_max))
        except Unsound as error:
            self.give_up(f"The division that was given cannot be used: {error}.")

    def has_place(self, task: Task) -> bool:
        """Tell whether a ready task may begin: one whose winner conflicted alone and first, new ones side by side."""
        job = self.job
        if task.drawn_before:
            return job.places > 0
        new = job.active - self.tried_anew
        return job.places > 0 and new < budget.width(job.spec.plan.parallel_max, job.decided, job.conflicted)

    def let_others_begin(self, task: Task, attempt: Attempt) -> None:
        """Let other tasks begin beside one that is tried anew, since people are asked in it: that may take hours."""
        del attempt
        if self.job.retried == task.number:
            self.job.retried, self.opened = None, True

    def start(self, task: Task) -> None:
        """Begin a ready task where the budget has room for an attempt, or draw what one that runs still lacks."""
        self.tasks[task.number] = task
        if task.state is TaskState.READY:
            spec, job = self.job.spec, self.job
            plan = spec.plan
            if task.number != DIVISION:
                record = Record(job.agreed, job.cast)
                needed = votes_needed(plan.k, plan.p, record, tasks=job.tasks, epsilon=plan.epsilon)
                task.k = needed.k
                if needed.misses(plan.epsilon):
                    self._note_task(task, f"{task.name}: {needed.said(plan.epsilon)}")
            if not budget.affordable(1, spec.budget, job.spent):
                job.starved = True
                return
            job.active += 1
            job.retried = task.number if task.drawn_before else job.retried
            task.base = job.entries
            self._move_task(task, TaskEvent.BEGUN, {"k": task.k})
        self._go_on(task)

    def take(self, task: Task, attempt: Attempt, ended: m.AttemptEnded, now: datetime) -> None:
        """Take the end of an attempt: what it used is settled, and its vote counts unless it is thrown out."""
        if attempt.state is not AttemptState.RUNNING:
            self._take_late(task, attempt, ended)
            return
        self._settle(attempt, ended)
        attempt.reason = ""
        flags: list[str] = list(ended.flags)
        key = ""
        if not flags:
            try:
                key = voting.vote_key(ended.answer, ended.tree_digest)
            except NotStrictJson:
                flags = ["malformed_call"]
        tasks: Sequence[m.JobTask] = ()
        if not flags and task.number == DIVISION:
            try:
                tasks = self._divided(ended.answer or {})
            except Unsound as error:
                flags, attempt.reason = [UNSOUND], f"Its division cannot be used: {error}."
        event = AttemptEvent.THROWN_OUT if flags else AttemptEvent.ANSWERED
        self._move_attempt(attempt, event, {"flags": flags} if flags else {"key": key})
        self.job.running -= 1
        self.tasks[task.number] = task
        task.running -= 1
        attempt.flags, attempt.answer, attempt.tree_digest = flags, ended.answer, ended.tree_digest
        attempt.staged = ended.staged
        self.job.staged |= ended.staged > 0
        attempt.reason = attempt.reason or ended.reason
        pause = self._listen(answered=UNANSWERED not in flags, now=now)
        if flags:
            self.job.flagged += 1
            task.count_thrown_out(flags[0])
            why = attempt.reason or worded(flags[0])
            waits = (
                f"{'' if why.endswith('.') else '.'} The next one waits {pause.total_seconds():.0f} s." if pause else ""
            )
            self._note_attempt(task, attempt, f"thrown out: {why}{waits}")
        else:
            attempt.vote_key = key
            task.votes = {**task.votes, key: task.votes.get(key, 0) + 1}
            refused = f", {counted(ended.refused, 'call', 'calls')} refused" if ended.refused else ""
            self._note_attempt(task, attempt, f"voted {key[:SHOWN_KEY]}{refused}")
        if pause is None:
            minutes = int(budget.SILENCE_MAX.total_seconds()) // 60
            self.give_up(f"No model answered for {minutes} minutes. The last reason: {attempt.reason}")
            return
        if tasks:
            self._divide(tasks)
        self._go_on(task, attempt)

    def lose(self, task: Task, attempt: Attempt) -> None:
        """Give up an attempt of which nothing was heard in its time; it may cost its whole share."""
        self._move_attempt(attempt, AttemptEvent.TIME_OVER, {})
        share = self.job.spec.budget.tokens_per_attempt
        attempt.input_tokens, attempt.reason = share, "Nothing was heard of it in its time."
        # Of the first one of a job nobody knows what it may have cost.
        self.job.unpriced |= not self.job.tokens
        attempt.cost = self.job.cost_most or None
        self.job.cost += self.job.cost_most
        self.job.tokens += share
        self.job.running -= 1
        self.tasks[task.number] = task
        task.running -= 1
        task.count_thrown_out(LOST)
        self._withdraw(attempt)
        self._note_attempt(task, attempt, f"lost: {share} tokens are counted")
        self._go_on(task)

    def give_up(self, reason: str) -> None:
        """Leave a job undone that cannot be done; people are told `reason`."""
        self._move_job(JobEvent.GAVE_UP, {"reason": reason})
        self.job.reason = reason
        self._throw_away()
        self._note("job", {"state": self.job.state, "reason": reason}, f"failed: {reason}")

    def close(self, tasks: Sequence[Task], attempts: Sequence[Attempt]) -> None:
        """End what is still open of a job that is over."""
        for task in tasks:
            self.tasks[task.number] = task
            task.running = 0
            if task.winner is not None:
                self._leave(self._conversation_of(task.winner))
            self._move_task(task, TaskEvent.JOB_OVER, {})
        self.unsettled += sum(each.begins_at is None for each in attempts)
        for attempt in attempts:
            self._move_attempt(attempt, AttemptEvent.TASK_OVER, {})
            self._withdraw(attempt)
            attempt.begins_at = None
            self.job.running -= 1
        self.job.active = 0

    def finish(
        self, tasks: Sequence[m.JobTask], answers: Mapping[str, Any], entries: Sequence[m.MergedEntry] = ()
    ) -> None:
        """End a job whose every task is decided, or ask people about `entries`: what its winners left staged."""
        job = self.job
        job.result = division.result_of(job.spec.outputs, tasks, answers)
        if entries:
            self._ask(entries)
            return
        self._move_job(JobEvent.FINISHED, {"attempts": job.attempts, "tokens": job.tokens})
        self._note_done()

    def note_ready(self, number: int, task_id: str) -> None:
        """Note that everything is decided that a task needs, which its row says already."""
        task = Task(number, task_id, "", state=TaskState.BLOCKED)
        after = TASK_MACHINE.next_state(task.state, TaskEvent.NEEDS_DECIDED)
        self._record_task(task, TaskEvent.NEEDS_DECIDED, task.state, after)

    @property
    def complete(self) -> bool:
        """Whether the last task was decided just now."""
        return self.job.state is JobState.RUNNING and self.job.decided == self.job.tasks

    # Inside.

    def _take_late(self, task: Task, attempt: Attempt, ended: m.AttemptEnded) -> None:
        """Take the end of an attempt that counted as over: it is paid for all the same, and somebody should know."""
        unknown = attempt.state is AttemptState.LOST and "stopped" in ended.flags
        if not unknown:
            self._settle(attempt, ended)
        late = AttemptEvent.THROWN_OUT if ended.flags else AttemptEvent.ANSWERED
        self._record_attempt(attempt, late, attempt.state, attempt.state)
        attempt.reason = attempt.reason or ended.reason
        what = "ended too late" if attempt.state is AttemptState.LOST else "was withdrawn"
        why = "What it used is not known: its share stays counted." if unknown else ended.reason
        self._note_attempt(task, attempt, f"{what}: it has no vote. {why}".rstrip())

    def _divided(self, answer: Mapping[str, Any]) -> Sequence[m.JobTask]:
        spec = self.job.spec
        limits = {"tasks_max": spec.plan.tasks_max, "easier": spec.plan.min_complexity}
        return division.divided(answer, spec.task, spec.outputs, **limits)

    def _divide(self, tasks: Sequence[m.JobTask]) -> None:
        groups = groups_of(tasks)
        self._move_job(JobEvent.DIVIDED, {"tasks": len(tasks)})
        self.job.tasks = len(tasks)
        number = max(groups.values()) + 1
        shown = {"tasks": len(tasks), "groups": number}
        sizes = counted(len(tasks), "task", "tasks"), counted(number, "group", "groups")
        self._note("division", shown, f"divided into {sizes[0]} in {sizes[1]}")
        for place, each in enumerate(tasks, 1):
            needs = list(dict.fromkeys(each.needs))
            task = Task(place, each.id, each.task, needs=needs, produces=each.produces, group=groups[each.id])
            task.open_needs, task.state = len(needs), TaskState.BLOCKED if needs else TaskState.READY
            self._add(task)

    def _add(self, task: Task) -> None:
        self.new_tasks.append(task)
        self.opened = True
        self._record_task(task, "made", None, task.state)

    def _go_on(self, task: Task, last: Attempt | None = None) -> None:
        """Decide a task, give it up, or draw what its leader still lacks."""
        plan = self.job.spec.plan
        most = DIVISIONS_MAX if task.number == DIVISION else plan.attempts_max
        after = voting.next_step(
            task.votes,
            task.k,
            running=task.running,
            drawn=task.drawn - task.drawn_before - task.thrown_out.get(UNANSWERED, 0),
            attempts_max=most,
        )
        if after.step == "decided":
            self._decide(task, after.winner, last)
        elif after.step == "failed":
            self._fail(task)
        else:
            self._draw(task, after.draw)

    def _decide(self, task: Task, winner: str, last: Attempt | None) -> None:
        task.answer = last.answer if last is not None else None
        if self.job.staged:
            self.settled.append(task.number)
        if last is None or last.tree_digest is None:
            self._win(task, TaskEvent.WON, winner)
            return
        task.winner = last.attempt_id
        self._move_task(task, TaskEvent.WON_STAGED, {"votes": task.votes, "k": task.k})
        self._merge(last)
        self._note_task(task, f"{task.name} won by attempt {last.attempt}: what it left staged goes to the job")

    def take_merged(self, task: Task, attempt: Attempt, merged: m.WorkspaceMerged) -> None:
        """Take what became of moving a winner's entries: its task is decided, or tried anew on what is there now."""
        if task.state is not TaskState.MERGING or task.winner != attempt.attempt_id:
            if merged.workspace_id is not None and self.job.state in JOB_MACHINE.final:
                self.job.changes = Changes.DISCARDED
                self._discard_it(merged.workspace_id)
                self.drop(merged.entries)
            return
        self.tasks[task.number] = task
        if merged.state == "merged":
            job, job.changes = self.job, Changes.STAGED
            job.workspace, job.entries = merged.workspace_id, merged.total
            task.entries = [each.model_dump() for each in merged.entries]
            task.behind = merged.total - len(task.entries)
            self._leave(attempt.conversation_id, merged=True)
            self._win(task, TaskEvent.MERGED, voting.leader(task.votes)[0])
            return
        self._leave(attempt.conversation_id)
        if merged.state == "conflicted":
            keys = ", ".join(merged.keys)
            attempt.reason = f"The winner of another task has changed the same meanwhile: {keys}."
            self._move_attempt(attempt, AttemptEvent.CONFLICTED, {"keys": merged.keys})
            self.job.flagged += 1
            self._note_attempt(task, attempt, f"thrown out: {attempt.reason}")
            if task.conflicts < CONFLICTS_MAX or self.job.entries > task.base:
                self._try_anew(task)
                return
        why = merged.reason or "They conflict again and again with those of other tasks."
        task.reason = f"The changes of its winner could not be kept. {why}"
        self.job.active -= 1
        self._move_task(task, TaskEvent.NOT_MERGED, {"state": merged.state})
        self._note_task(task, f"{task.name} failed: {task.reason}")
        self.give_up(f"Task {task.task_id} failed. {task.reason}")

    def _try_anew(self, task: Task) -> None:
        """Have a task tried again whose winner conflicts: no vote counts that was cast on what was there before.

        Where another winner came first the job has got on: such conflicts have no bound, and need none.
        """
        self.job.conflicted += not task.drawn_before
        task.conflicts = 0 if self.job.entries > task.base else task.conflicts + 1
        task.drawn_before, task.votes, task.thrown_out = task.drawn, {}, {}
        task.winner = task.answer = None
        self._free_place(task)
        self._move_task(task, TaskEvent.CONFLICTED, {"conflicts": task.conflicts})
        again = f" ({task.conflicts} of {CONFLICTS_MAX})" if task.conflicts else ""
        self._note_task(task, f"{task.name} is tried again on what is there now{again}")

    def _free_place(self, task: Task) -> None:
        self.job.active -= 1
        self.job.retried = None if self.job.retried == task.number else self.job.retried
        self.opened = True

    def _win(self, task: Task, event: TaskEvent, winner: str) -> None:
        self._free_place(task)
        self._move_task(task, event, {"votes": task.votes, "k": task.k})
        if task.number == DIVISION:
            return
        agreed, cast = task.votes[winner], sum(task.votes.values())
        self.job.decided += 1
        self.job.agreed += agreed
        self.job.cast += cast
        self.decided.append(task)
        against = f" against {cast - agreed}" if cast > agreed else ""
        line = f"{task.name} decided: {winner[:SHOWN_KEY]} with {agreed}{against} of {task.drawn} attempts, k {task.k}"
        self._note_task(task, line)

    def _note_task(self, task: Task, line: str) -> None:
        told = {"task": task.task_id, "number": task.number, "state": task.state, "votes": task.votes, "k": task.k}
        self._note("task", told, line)

    def _fail(self, task: Task) -> None:
        most = self.job.spec.plan.attempts_max
        why = task.tried
        if task.k > most:
            why = f"it must be ahead by {task.k} votes, and attempts_max is {most}"
        task.reason = f"No answer can win: {why}."
        task.running, self.job.active = 0, self.job.active - 1
        self._move_task(task, TaskEvent.NO_MAJORITY, {"votes": task.votes, "k": task.k})
        self._note_task(task, f"{task.name} failed: {task.reason}")
        what = f"Task {task.task_id} failed"
        if task.number == DIVISION:
            what = "No division was sound" if set(task.thrown_out) == {UNSOUND} else "The task was not divided"
        self.give_up(f"{what}. {task.reason}")

    def leave(self, conversation_ids: Sequence[str]) -> None:
        """Throw away what attempts left staged that did not win."""
        for each in conversation_ids:
            self._leave(each)


def _short(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= SHOWN_TASK else f"{first[: SHOWN_TASK - 1]}…"
