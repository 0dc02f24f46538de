"""The one workspace of a job: its winners' entries are moved into it, and people are asked about it once. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from placet.contracts import messages as m
from placet.contracts.canonical import readable_text
from placet.contracts.messages.jobs import DEPTH_LABEL, JOB_LABEL
from placet.contracts.transitions import ExpectedRace
from placet.jobs.job_state import Attempt, JobCourse, counted
from placet.jobs.states import Changes, JobEvent, JobState

#: Characters of a job's result that stand beside the question.
SAID_MAX = 2_000
_EVENTS = {
    "committed": JobEvent.COMMITTED,
    "partly_committed": JobEvent.PARTLY_COMMITTED,
    "unknown": JobEvent.PARTLY_COMMITTED,
}
_CHANGES = {
    "committed": Changes.COMMITTED,
    "partly_committed": Changes.PARTLY_COMMITTED,
    "conflicted": Changes.CONFLICTED,
    "not_committed": Changes.DISCARDED,
    "unknown": Changes.UNKNOWN,
}
_WORDS = {
    "partly_committed": "Its changes were committed in part only.",
    "conflicted": "Others have changed the same meanwhile: none of its changes was made.",
    "not_committed": "Its changes were not committed.",
    "unknown": "Whether its changes were committed is not known.",
}


class WorkspaceCourse(JobCourse):
    """What happens to a job's workspace."""

    __slots__ = ()

    def take_committed(self, committed: m.JobCommitted) -> None:
        """Take what became of the workspace, and end the job with it."""
        job = self.job
        if job.state not in {JobState.WAITING, JobState.WITHDRAWING}:
            return
        end = committed.state
        withdrawn, job.changes = job.state is JobState.WITHDRAWING, _CHANGES[end]
        self._move_job(_EVENTS.get(end, JobEvent.NOT_COMMITTED), {"changes": job.changes})
        counted = f"{committed.done} committed" + (f", {committed.left_out} left out" if committed.left_out else "")
        self._leave(job.conversation_id)
        if committed.state == "committed":
            early = "It was committed before it could be cancelled. " if withdrawn else ""
            job.reason = f"{early}{committed.reason}".rstrip()
            job.entries = committed.done
            self._note_done(f", changes: {counted}")
            return
        nothing = end in {"conflicted", "not_committed"}
        if nothing:
            self._discard()
        if not withdrawn or not nothing:
            job.reason = f"{_WORDS[end]} {committed.reason}".rstrip()
        told = {"state": job.state, "reason": job.reason, "changes": job.changes, "result": job.result}
        what = f"failed, {counted}" if committed.done else str(job.state)
        self._note("job", told, f"{what}: {job.reason}")

    def cancel(self, by: str) -> None:
        """Leave a job undone that nobody wants any more; what is asked about it is withdrawn first."""
        try:
            self._move_job(JobEvent.CANCELLED, {"by": by}, actor=by)
        except ExpectedRace:
            self._record_job(JobEvent.CANCELLED, self.job.state, self.job.state, actor=by)
            return
        self.job.reason = f"Cancelled by {by}."
        told = {"state": self.job.state, "reason": self.job.reason}
        if self.job.state is JobState.WITHDRAWING:
            self._leave(self.job.conversation_id, by=by)
            self._note("job", told, f"{self.job.reason} What is not decided about its changes is withdrawn.")
            return
        self._throw_away()
        self._note("job", told, self.job.reason)

    def _ask(self, entries: Sequence[m.MergedEntry]) -> None:
        """Ask people about all that the winners left staged."""
        job, spec = self.job, self.job.spec
        assert job.workspace is not None  # noqa: S101 - its entries are in it
        job.changes = Changes.WAITING
        self._move_job(JobEvent.PROPOSED, {"entries": len(entries)})
        told = {"state": job.state, "result": job.result, "changes": job.changes, "entries": len(entries)}
        self._note("job", told, f"asks for a decision about {_entries(len(entries))}")
        self.emitted.append(
            m.ProposeJob(
                tenant=spec.tenant,
                conversation_id=job.conversation_id,
                message_id=job.job_id,
                job_id=job.job_id,
                agent=spec.agent,
                author=spec.author,
                text=spec.task,
                said=readable_text(job.result)[:SAID_MAX],
                language=spec.language,
                labels={**spec.labels, JOB_LABEL: job.job_id, DEPTH_LABEL: str(spec.depth)},
                workspace_id=job.workspace,
                entries=list(entries),
                caller=spec.caller,
            )
        )

    def _note_done(self, more: str = "") -> None:
        job = self.job
        told: dict[str, object] = {"state": job.state, "result": job.result}
        told |= {"changes": job.changes} if job.changes else {}
        tried = f"{counted(job.attempts, 'attempt', 'attempts')}, {job.flagged} thrown out, {job.tokens} tokens"
        self._note("job", told, f"done: {counted(job.decided, 'task', 'tasks')}, {tried}{more}")

    def _merge(self, winner: Attempt) -> None:
        """Have a winner's entries moved into the workspace."""
        place = {"tenant": self.job.spec.tenant, "conversation_id": winner.conversation_id}
        ids = {"job_id": self.job.job_id, "attempt_id": winner.attempt_id}
        self.emitted.append(m.MergeWorkspace(**place, **ids, into=self.job.conversation_id))

    def _throw_away(self) -> None:
        """Discard what earlier winners left staged, of a job that is not done."""
        if self.job.changes is Changes.STAGED:
            self.job.changes = Changes.DISCARDED
            self._note("changes", {}, f"{_entries(self.job.entries)} thrown away: nothing of it happened")
            self._discard()

    def _discard(self) -> None:
        """Throw away what is in the workspace; who saves it tells which calls these are."""
        if self.job.workspace is not None:
            self.threw_away = True
            self._discard_it(self.job.workspace)

    def _discard_it(self, workspace: str) -> None:
        place = {"tenant": self.job.spec.tenant, "conversation_id": self.job.conversation_id}
        self.emitted.append(m.DiscardWorkspace(**place, workspace_id=workspace, reason=self.job.reason))

    def drop(self, entries: Sequence[m.MergedEntry]) -> None:
        """Tell that staged calls never take effect."""
        if entries:
            place = {"tenant": self.job.spec.tenant, "conversation_id": self.job.conversation_id}
            calls = [each.call_id for each in entries]
            self.emitted.append(m.StagedCallsDropped(**place, call_ids=calls, outcome="discarded"))

    def _leave(self, conversation_id: str, *, merged: bool = False, by: str = m.JOBS) -> None:
        place = {"tenant": self.job.spec.tenant, "conversation_id": conversation_id}
        self.emitted.append(m.AttemptWithdrawn(**place, by=by, merged=merged))


def _entries(number: int) -> str:
    return counted(number, "staged entry", "staged entries")
