"""Turns that are nothing but a question to people about what is staged: no model is asked. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placet.agent import attempts, items, rules, staging
from placet.agent.conversation_state import Turn
from placet.agent.rules import Queued, storable
from placet.agent.staging import StagedEntry
from placet.agent.states import MACHINE, Event, State
from placet.agent.turns import Turns
from placet.contracts import messages as m
from placet.contracts.ids import new_id
from placet.contracts.messages.jobs import JOB_LABEL
from placet.runtime.work import Cause


class Asking(Turns):
    """A conversation in which people are asked."""

    __slots__ = ()

    def propose_job(self, asked: m.ProposeJob, labels: Mapping[str, str]) -> None:
        """Ask people about the workspace of a job, in a conversation that is nothing but this question."""
        if asked.message_id in self.stored:
            return
        attempt = attempts.deciding(asked)
        if self.ended or self.agent:
            # Withdrawn before it was asked; or it is another conversation, whose id somebody chose like this.
            self._emit(attempts.committed(attempt, self.place, None))
            return
        self.stored.add(asked.message_id)
        self.agent, self.language = asked.agent, asked.language
        # By this label it is found again.
        self.labels = storable({**labels, **asked.labels, JOB_LABEL: asked.job_id})
        self._keep(attempt)
        author, text = storable(asked.author.model_dump()), storable(asked.text)
        self._append("message", items.posted(asked))
        turn = self._begin_asking(asked.message_id, author, "jobs")
        queued = Queued(asked.message_id, asked.message_id, author, self.cause.as_json())
        self._say_instead(turn, queued, text, storable(asked.said))
        self._move(turn, Event.CALLS_PROPOSED, {"step": turn.step, "fence": turn.fence, "by": "jobs"})
        named = [(each.call_id, each.digest) for each in asked.entries]
        commit = staging.commit_call(self.of(turn), asked.workspace_id, named, position=0)
        self._ask_people(self.of(turn), commit, asked.said)

    def finish(self) -> None:
        """Begin what follows, as `Turns.finish`: also the question about what a turn had staged that has failed."""
        failed = next((turn for turn in self.changed_turns.values() if turn.state is State.FAILED), None)
        if failed is not None and (entries := self._left_by(failed)):
            self.cause = Cause(**failed.cause)
            self._begin_commit(entries, "agent", *map(storable, staging.failed_texts(failed.reason)))
        super().finish()

    def _left_by(self, failed: Turn) -> list[StagedEntry]:
        """Return what to ask people about after a failure: nothing where another turn begins, which asks at its end.

        Nor where a restore broke the turn off: then what it had staged may have happened since the backup.
        """
        if self.turn is not None or self.queue or self.held or failed.reason == rules.RESTORED:
            return []
        return staging.due(self._proposable(), "turn", "each")

    def _begin_commit(self, entries: Sequence[StagedEntry], by: str, text: str, said: str = "") -> None:
        """Begin a turn that is nothing but the question about entries: `text` for the model, `said` for people."""
        newest = entries[-1]
        turn = self._begin_asking(newest.message_id, newest.author, by)
        # No client can choose this id: identifiers have no colon.
        queued = Queued(f"proposed:{turn.turn_id}", turn.message_id, turn.author, turn.cause)
        self._say_instead(turn, queued, text, said)
        self._move(turn, Event.CALLS_PROPOSED, {"step": turn.step, "fence": turn.fence, "by": by})
        self._propose_commit(turn, entries, said)

    def _begin_asking(self, message_id: str, author: dict[str, str], by: str) -> Turn:
        """Begin a turn that no model is asked for."""
        turn = Turn(new_id(), MACHINE.initial, 1, 1, 0, message_id, author, self.cause.as_json())
        self.turns[turn.turn_id] = turn
        self.turn_id = turn.turn_id
        self._record_turn(turn, "started", None, {"by": by})
        self._append("turn", {"state": "started", "turn_id": turn.turn_id})
        return turn

    def _say_instead(self, turn: Turn, queued: Queued, text: str, said: str = "") -> None:
        """Store the step of a turn that no model was asked for: what led to it, and what is said instead."""
        self._store(queued.message_id, text, queued, number=self.log_seq)
        self._give([queued], turn)
        self._append("message", items.assistant(self.of(turn), said, heard_meanwhile=False, while_waiting=False))
        self._note_step(self.of(turn), {"role": "assistant", "content": said})
