"""Attempts at the tasks of a job: they are drawn, their agents asked, and what they used is settled. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from placet.contracts import messages as m
from placet.contracts.ids import derived_id, job_conversation_id
from placet.contracts.messages.jobs import ATTEMPT_LABEL, DEPTH_LABEL, JOB_LABEL, TASK_LABEL
from placet.jobs.job_state import Attempt, Task
from placet.jobs.rules import budget, division, prompts
from placet.jobs.workspace import WorkspaceCourse

#: Number of the task that divides a job; the others count from 1.
DIVISION = 0
#: Flag of an attempt that no model answered.
UNANSWERED = "no_model"
#: After so many seconds in which no agent has taken an attempt people are told.
UNTAKEN_SECONDS = 30


class DrawingCourse(WorkspaceCourse):
    """What happens to a job's attempts."""

    __slots__ = ()

    def ask(self, task: Task, attempt: Attempt) -> None:
        """Have the agent asked of an attempt that was to wait until now."""
        if attempt.begins_at is None:
            return
        attempt.begins_at = None
        self.attempts[attempt.attempt_id] = attempt
        self._note_attempt(task, attempt, "begun")
        self._emit_request(task, attempt, budget.money_of_each(0, self.job.spec.budget, self.job.spent))

    def note_untaken(self, task: Task, attempt: Attempt) -> None:
        """Say of an attempt that no agent has taken it: none runs, or none keeps up with its messages."""
        attempt.reason = f"No agent service had taken it after {UNTAKEN_SECONDS} s."
        self.attempts[attempt.attempt_id] = attempt
        self._note_attempt(task, attempt, f"waits: no agent service has taken it for {UNTAKEN_SECONDS} s")

    def _draw(self, task: Task, wanted: int) -> None:
        spec = self.job.spec
        number = budget.affordable(wanted, spec.budget, self.job.spent)
        self.job.starved |= number < wanted
        money = budget.money_of_each(number, spec.budget, self.job.spent)
        for _ in range(number):
            task.drawn += 1
            task.running += 1
            self.job.attempts += 1
            self.job.running += 1
            attempt_id = derived_id("attempt", self.job.job_id, str(task.number), str(task.drawn))
            attempt = Attempt(attempt_id, task.number, task.drawn, self._conversation_of(attempt_id))
            attempt.begins_at = self.begins_at
            self.new_attempts.append(attempt)
            self._record_attempt(attempt, "begun", None, attempt.state)
            if attempt.begins_at is None:
                self._note_attempt(task, attempt, "begun")
                self._emit_request(task, attempt, money)

    def _conversation_of(self, attempt_id: str) -> str:
        return job_conversation_id(self.job.spec.tenant, "attempt-conversation", attempt_id)

    def _emit_request(self, task: Task, attempt: Attempt, money: float | None) -> None:
        spec = self.job.spec
        divides = task.number == DIVISION
        text = task.text if divides else prompts.to_try(spec, task.text, task.inputs)
        schema = division.schema_of(spec.plan.tasks_max) if divides else spec.answer_schema or prompts.PLAIN_ANSWER
        own = {JOB_LABEL: self.job.job_id, TASK_LABEL: task.task_id or "division", ATTEMPT_LABEL: str(attempt.attempt)}
        own[DEPTH_LABEL] = str(spec.depth)
        self.emitted.append(
            m.AttemptRequested(
                tenant=spec.tenant,
                conversation_id=attempt.conversation_id,
                message_id=attempt.attempt_id,
                job_id=self.job.job_id,
                attempt_id=attempt.attempt_id,
                agent=spec.agent,
                author=spec.author,
                text=text,
                language=spec.language,
                labels={**spec.labels, **own},
                variant=attempt.attempt - 1,
                answer_schema=dict(schema),
                tokens_max=spec.budget.tokens_per_attempt,
                cost_max=money,
                answer_tokens_max=None if divides else spec.plan.answer_tokens_max,
                caller=spec.caller,
                base=m.WorkspaceBase(conversation_id=self.job.conversation_id, entries=task.base),
            )
        )

    def _settle(self, attempt: Attempt, ended: m.AttemptEnded) -> None:
        """Count what an attempt used; of a lost one its share is counted already."""
        known, known_cost = attempt.input_tokens + attempt.output_tokens, attempt.cost or 0.0
        attempt.input_tokens, attempt.output_tokens = ended.input_tokens, ended.output_tokens
        attempt.cost, attempt.calls, attempt.asked_again = ended.cost, ended.calls, ended.asked_again
        self.job.tokens += ended.input_tokens + ended.output_tokens - known
        self.job.cost += (ended.cost or 0.0) - known_cost
        self.job.cost_most = max(self.job.cost_most, ended.cost or 0.0)
        self.job.unpriced |= ended.cost is None and ended.input_tokens + ended.output_tokens > 0
        self.attempts[attempt.attempt_id] = attempt

    def _listen(self, *, answered: bool, now: datetime) -> timedelta | None:
        """Note whether a model answered; where none did, return how long what is drawn now waits, None to give up."""
        job = self.job
        job.silent_since = None if answered else job.silent_since or now
        pause = timedelta(0) if job.silent_since is None else budget.pause_after(job.silent_since, now)
        self.begins_at = now + pause if pause else None
        return pause

    def _withdraw(self, attempt: Attempt) -> None:
        """Have the conversation of an attempt ended, where its agent was asked."""
        if attempt.begins_at is None:
            self._leave(attempt.conversation_id)
