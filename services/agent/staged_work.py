"""What becomes of what is staged: it is proposed, thrown away, or ends with its commit. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from placet.agent import attempts, items, staging
from placet.agent.asking import Asking
from placet.agent.conversation_state import Call
from placet.agent.rules import Result, storable
from placet.agent.staging import StagedEntry
from placet.agent.states import CallState
from placet.contracts import messages as m
from placet.contracts.errors import Transient
from placet.contracts.messages.stage import Dropped
from placet.domain.standing import standing_on


class StagedWork(Asking):
    """A conversation in which entries wait."""

    __slots__ = ()

    def propose_changes(self, asked: m.ProposeChanges) -> None:
        """Ask people now about what is staged: at once where the conversation idles, else when its turn ends."""
        entries = staging.due(self._proposable(), "turn", "on_request", "each")
        if not entries:
            return
        turn = self.turn
        if turn is not None:
            for each in entries:
                each.decide = "turn"
                self.changed_staged[each.call_id] = each
            self._record_turn(turn, "propose_asked", turn.state, {"by": asked.by})
            return
        self._begin_commit(entries, asked.by, staging.asked_text(asked.by))

    def discard_changes(self, asked: m.DiscardChanges) -> None:
        """Throw away what is staged; a commit that people are asked about is withdrawn first, and its end does so."""
        said = f": {json.dumps(asked.reason, ensure_ascii=False)}" if asked.reason else ""
        withdrawn = f"Not run: {asked.by} threw away what was staged{said}."
        told = storable(staging.discarded_text(asked.by, asked.reason))
        self._throw_away(self.staged, withdrawn, told, by=asked.by, reason=asked.reason)

    def take_expired(self, expired: m.WorkspaceExpired) -> None:
        """Forget what nobody decided in time; a commit that people are asked about is withdrawn, and its end does so.

        What an attempt at a job left staged is not forgotten: it can win nothing any more, and the job hears that.
        """
        if self.attempt is not None:
            turn = self.turn
            commits = [each.call_id for each in self._open_calls(turn) if each.tool == m.COMMIT_TOOL] if turn else []
            self._withdraw(commits, "cancelled", staging.EXPIRED)
            return
        gone = [each for each in self.staged if each.workspace_id == expired.workspace_id]
        self._throw_away(gone, staging.EXPIRED, staging.EXPIRED_TEXT, reason=staging.EXPIRED)

    def take_discarded(self, discarded: m.EntriesDiscarded) -> None:
        """Forget what fell; a commit that people are asked about with it is withdrawn, and its others wait again."""
        self._await_staged(discarded.call_ids)
        gone = [each for each in self.staged if each.call_id in set(discarded.call_ids)]
        commits = list(dict.fromkeys(each.commit_id for each in gone if each.commit_id))
        self._withdraw(commits, "cancelled", staging.ASKED_ANEW)
        self._ask_again(each for each in self.staged if each.commit_id in commits)
        self._tell_dropped("discarded", [each.call_id for each in gone])
        self._let_fall(gone)

    def _await_staged(self, call_ids: Iterable[str]) -> None:
        """Raise Transient where the word that one of these calls was staged is still on its way."""
        for call_id in call_ids:
            call = self.calls.get(call_id)
            if call is not None and call.state is not CallState.ANSWERED:
                raise Transient(f"it is not known yet that call {call_id} was staged")

    def _throw_away(
        self, entries: Sequence[StagedEntry], withdrawn: str, told: str, *, by: str = "", reason: str = ""
    ) -> None:
        """Withdraw commits, whose end discards their entries, and discard the others; the model hears of these."""
        commits = list(dict.fromkeys(each.commit_id for each in entries if each.commit_id))
        waiting = [each for each in entries if each.commit_id is None]
        self._withdraw(commits, "cancelled", withdrawn)
        if waiting:
            # By name: what is being staged meanwhile waits on, since nobody here could tell of its end.
            self._discard(waiting, by=by, reason=reason, named=[each.call_id for each in waiting])
            self.new_facts.append({"call_id": waiting[0].call_id, "number": self.log_seq, "text": told})

    def _turn_down(self, entries: Sequence[StagedEntry], *, by: str, reason: str) -> None:
        """Discard what a commit asked about, and what was staged since on that; all else waits on."""
        workspaces = {each.workspace_id for each in entries}
        waiting = [each for each in self.staged if each.workspace_id in workspaces]
        fallen = standing_on(waiting, {each.call_id for each in entries})
        self._tell_dropped("discarded", [each.call_id for each in fallen])
        self._discard(entries, by=by, reason=reason, named=[each.call_id for each in (*entries, *fallen)])
        self._let_fall(fallen)

    def _let_fall(self, entries: Sequence[StagedEntry]) -> None:
        """Forget entries that stood on what never came; the model reads of them before what is told next."""
        number = self.log_seq
        for each in entries:
            end = Result("cancelled", error=f"{staging.DISCARDED} {staging.FELL}")
            self._append("tool_call", items.staged_end(each.names, end, "discarded"))
        self._end_staged(entries)
        if entries:
            text = storable(staging.fell_text(entries))
            self.new_facts.append({"call_id": entries[0].call_id, "number": number, "text": text})

    def _discard(
        self, entries: Sequence[StagedEntry], *, by: str = "", reason: str = "", named: Sequence[str] = ()
    ) -> None:
        """Tell executors that nobody wants entries any more, and frontends that their calls never run.

        Nothing else of their workspaces is wanted either, unless it is said which entries are `named`.
        """
        self._tell_dropped("discarded", [each.call_id for each in entries])
        about: dict[str, Any] = {**self.place, "entries": list(named), "by": by, "reason": reason}
        for workspace_id in dict.fromkeys(each.workspace_id for each in entries):
            self._emit(m.DiscardWorkspace(**about, workspace_id=workspace_id))
        for each in entries:
            error = f"{staging.DISCARDED} {reason}".rstrip()
            self._append("tool_call", items.staged_end(each.names, Result("cancelled", error=error), "discarded"))
        self._end_staged(entries)

    def _tell_dropped(self, outcome: Dropped, call_ids: Sequence[str]) -> None:
        if call_ids:
            self._emit(m.StagedCallsDropped(**self.place, call_ids=list(call_ids), outcome=outcome))

    def _end_commit(self, call: Call, result: Result, *, stopped: bool) -> None:
        """Tell what became of each entry of a commit that has its result."""
        if self.attempt is not None:
            self._emit(attempts.committed(self.attempt, self.place, result))
        entries = {each.call_id: each for each in self.staged if each.commit_id == call.call_id}
        found = staging.outcomes(result, entries.values())
        if found is not None:
            told = {each.call_id for each in found}
            self._await_staged(told)
            entries |= {each.call_id: each for each in self.staged if each.call_id in told}
            for outcome in found:
                if (entry := entries.get(outcome.call_id)) is not None:
                    end = staging.outcome_result(outcome)
                    self._append("tool_call", items.staged_end(entry.names, end, outcome.outcome))
            for kind, dropped in staging.dropped(found).items():
                # What a job proposes is staged in other conversations.
                self._tell_dropped(kind, [each for each in dropped if each in entries or self.attempt is not None])
            self._end_staged(entries.values())
        elif staging.fate(result, stopped=stopped, ended=self.ended) == "discarded":
            said = {"by": result.decided_by, "reason": result.reason or result.error}
            if self.ended:
                self._discard(list(entries.values()), **said)
            else:
                refused = set(result.entries or entries)
                self._ask_again(each for each in entries.values() if each.call_id not in refused)
                self._turn_down([each for each in entries.values() if each.call_id in refused], **said)
        else:
            self._ask_again(entries.values())

    def _ask_again(self, entries: Iterable[StagedEntry]) -> None:
        """Let entries wait for another commit."""
        for each in entries:
            each.commit_id = None
            self.changed_staged[each.call_id] = each
