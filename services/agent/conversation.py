"""What each message and each result does to a conversation. Pure.

The caller locks the conversation's row, hands over what is stored, lets things happen, and stores what they came to:
the log items in their one order, the rows, the history, the messages to send, and the claims to work on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from placet.agent import accomplish, attempts, items, rules
from placet.agent.conversation_state import Call, Held, held_as, result_detail
from placet.agent.items import Data
from placet.agent.rules import Behaviour, Queued, Result, storable
from placet.agent.staged_work import StagedWork
from placet.agent.staging import StagedEntry
from placet.agent.states import CallEvent, CallState, Event
from placet.contracts import messages as m
from placet.contracts.errors import Poison, Refused, Transient
from placet.contracts.messages import ACCOMPLISH_TOOL, COMMIT_TOOL


@dataclass(frozen=True, slots=True)
class Answer:
    """A result that comes for a call, and what its item says beside it."""

    call_id: str
    result: Result
    error: str | None = None
    ui_blocks: Sequence[Data] = ()
    handover: str = ""
    #: Of a staged call: its place in the workspace.
    staged: m.Staged | None = None
    #: Who ends the turn of the call with it; empty: nobody.
    ended_by: str = ""


class Conversation(StagedWork):
    """A conversation to which things happen."""

    __slots__ = ()

    # What people do.

    def take_message(self, posted: m.MessagePosted, behaviour: Behaviour | None, labels: Mapping[str, str]) -> None:
        """Begin a turn where the conversation idles, else keep the message for later; a job's takes none."""
        if self.attempt is not None:
            raise Poison(f"conversation {self.conversation_id} is a job's: nobody writes there")
        self._take_posted(posted, behaviour, labels)

    def _take_posted(self, posted: m.MessagePosted, behaviour: Behaviour | None, labels: Mapping[str, str]) -> None:
        if self.ended:
            raise Refused(f"conversation {self.conversation_id} has ended: nobody answers there")
        if behaviour is None:
            raise Poison(f"tenant {posted.tenant} has no agent {self.agent or posted.agent}")
        text = storable(posted.text)
        if self.known.setdefault(posted.message_id, text) != text:
            raise Poison(f"message id {posted.message_id} was used before for another text")
        if posted.message_id in self.stored:
            return
        self.stored.add(posted.message_id)
        if not self.agent:
            self.agent, self.language = posted.agent, posted.language
            self.labels = storable({**labels, **posted.labels})
        self.held = self.held or posted.held_revision > self.holder_revision
        self.holder_revision = max(self.holder_revision, posted.held_revision)
        item = self._append("message", items.posted(posted))
        if posted.taken_as:
            return
        author = storable(posted.author.model_dump())
        queued = Queued(posted.message_id, posted.message_id, author, self.cause.as_json(), number=self.log_seq)
        self._store(posted.message_id, text, queued, number=self.log_seq)
        if self.turn is None and not self.held and len(self.queue) == 1:
            self._begin()
        elif not self.held:
            self._heard_again(author, behaviour)
        if self._waits_for_people(author):
            item["waits"] = True

    def take_attempt(self, asked: m.AttemptRequested, behaviour: Behaviour | None, labels: Mapping[str, str]) -> None:
        """Begin an attempt of a job in a conversation of its own."""
        attempt, posted = attempts.requested(asked)
        if behaviour is None:
            self._emit(attempts.without_agent(asked))
            return
        if asked.message_id not in self.stored:
            self._keep(attempt)
        self._take_posted(posted, behaviour, labels)

    def take_withdrawn(self, withdrawn: m.AttemptWithdrawn) -> None:
        """Leave alone what nobody waits for any more, also what never began."""
        if self.turn_id is not None:
            self.stop(m.StopTurn(**self.place, by=withdrawn.by, turn_id=self.turn_id))
        if withdrawn.merged:
            # It waits on, in the workspace of the job.
            self._end_staged(self.staged)
        self.end(m.ConversationEnded(**self.place, by=withdrawn.by), ())

    def _waits_for_people(self, author: dict[str, str]) -> bool:
        """Tell whether nobody answers what an author has just written until people act."""
        turn = self.turn
        if self.held or turn is None or not turn.paused:
            return self.held
        return turn.author != author or not any(call.next_message == "supersede" for call in self._open_calls(turn))

    def take_spoken(self, spoke: m.OperatorSpoke) -> None:
        """Keep what an operator said, for the model to read when it answers here again."""
        if spoke.message_id in self.stored:
            return
        self.stored.add(spoke.message_id)
        self._append("message", items.operator_spoke(spoke))
        author = storable({"kind": "operator", "id": spoke.operator})
        queued = Queued(spoke.message_id, spoke.message_id, author, self.cause.as_json())
        self._store(spoke.message_id, storable(spoke.text), queued, number=self.log_seq)
        seen = self.log_seq if spoke.seen is None else spoke.seen
        answered = [each for each in self.queue if each.number <= seen or each.message_id == spoke.message_id]
        for each in [each for each in answered if not each.is_outcome]:
            self.queue.remove(each)
            self._change_message(each.message_id, by_operator=True)

    def take_holder(self, changed: m.HolderChanged, behaviour: Behaviour | None) -> None:
        """Ask no model while people hold the conversation; when they give it back, answer what they did not."""
        if changed.revision > self.holder_told:
            self.holder_told = changed.revision
            given_back = changed.holder == "agent"
            self._append("holder", items.holder(changed) | ({"idle": True} if given_back else {}))
        if changed.revision <= self.holder_revision:
            return
        self.holder_revision, self.held = changed.revision, changed.holder != "agent"
        if self.held:
            return
        # The model reads what operators said before what they left to it.
        for each in self.queue:
            self._change_message(each.message_id, number=self.log_seq)
        author = next((each.author for each in self.queue if not each.is_outcome), None)
        if author is not None:
            self._heard_again(author, behaviour)

    def take_decision(self, answered: m.ConsentAnswered) -> None:
        """Tell what became of a message that was taken for a decision."""
        self._append("decision", items.decision(answered))

    def end(self, ended: m.ConversationEnded, unanswered: Sequence[str]) -> None:
        """Withdraw every call that waits, whoever asked for it; no other is proposed from now on."""
        if self.ended:
            return
        self.ended = True
        self._append("conversation", {"state": "ended", "by": ended.by})
        self._withdraw(unanswered, "cancelled", rules.ENDED)
        self._discard([each for each in self.staged if each.commit_id is None])

    def stop(self, asked: m.StopTurn) -> None:
        """End a turn that a person does not want to wait for; one that is over stays as it ended.

        Calls that people think about are withdrawn. Those that run go on, and what became of them is read with the next
        message: a stop is true of the turn and claims nothing about a call.
        """
        turn = self.turns.get(asked.turn_id)
        if turn is None:
            raise Poison(f"conversation {self.conversation_id} has no turn {asked.turn_id}")
        self.left.append(turn.turn_id)
        if turn is not self.turn:
            detail = {"refused": str(Event.STOPPED), "by": asked.by, "fence_now": turn.fence}
            self._record_turn(turn, "late_stop", turn.state, detail)
            return
        self._end_turn(turn, asked.by)

    # What becomes of calls.

    def take_result(self, answer: Answer, behaviour: Behaviour | None) -> None:
        """Give a call its result, and go on with its turn where it was the last one missing."""
        call = self._call(answer.call_id)
        before, turn = call.state, self.turns.get(call.turn_id)
        result_json = storable(answer.result.as_json())
        kind = result_detail(answer.result.kind, result_json)
        if before is CallState.ANSWERED:
            # The first one stands.
            self._record_call(call, CallEvent.RESULT_CAME, before, kind)
            return
        ended_by = answer.ended_by
        if ended_by and before is CallState.CONTINUED and turn is not None and turn is self.turn:
            # The turn has gone on without it: it is read with the next message, as all that is open when a turn ends.
            self._end_turn(turn, ended_by)
            before = call.state
        self._move_call(call, CallEvent.RESULT_CAME, kind)
        call.result_kind, call.result, call.undecided = answer.result.kind, result_json, False
        if answer.staged is not None:
            self._keep_staged(call, answer.staged)
        self._count_job(call, answer.result)
        result = items.answered(call.names, answer.result, error=answer.error, ui_blocks=answer.ui_blocks)
        # Where its turn is over: whether another one begins is known at the end.
        self._append("tool_call", result | ({} if turn and turn is self.turn else {"idle": True}))
        self._surface_end(call, result)
        if answer.staged is not None and self.ended:
            self._discard([each for each in self.staged if each.call_id == call.call_id])
        if call.tool == COMMIT_TOOL:
            self._end_commit(call, answer.result, stopped=before is CallState.STOPPED)
        if answer.handover:
            self._emit(m.HandoverRequested(**self.place, call_id=call.call_id, reason=answer.handover))
        if before is CallState.CONTINUED:
            # The model has its interim answer: the outcome is something that it has not heard of yet.
            cause = call.cause | {"id": self.cause.id, "traceparent": self.cause.traceparent}
            outcome = Queued(f"outcome:{call.call_id}", call.message_id, call.author, cause, is_outcome=True)
            # No client can choose this id: identifiers have no colon.
            self._store(outcome.message_id, "", outcome, number=self.log_seq, call_id=call.call_id)
            self._look_again(call)
            self._go_on_if_due()
        elif before is CallState.STOPPED:
            call.told_number = self.log_seq
        elif turn is not None:
            self._answered(turn, call, answer.result, ended_by if turn is self.turn else "", behaviour)

    def take_surfaced(self, surfaced: m.CallSurfaced) -> None:
        """Tell what people are asked in an attempt of the job that a call of this conversation waits for.

        Cards pause the turn, as its own would, until the last one is over: who reads them here may decide them here.
        """
        call = self._call(surfaced.call_id)
        data = surfaced.data | {"turn_id": call.turn_id}
        if data.get("status") == "pending_confirmation":
            self._append("tool_call", {**data, "step": call.step, "status": "proposed", "caller": call.call_id})
        self._tell(surfaced.kind, data)
        cards, told = call.cards or {}, data["state"] if surfaced.kind == "approval" else data["status"]
        asked = data["approval_id"] if told == "pending" else ""
        if told == "pending_confirmation" or (data["call_id"] in cards and (asked or not cards[data["call_id"]])):
            # Of no card yet; or a vote or an edit, or what comes behind its end.
            return
        call.cards = {**cards, data["call_id"]: asked}
        self.changed_calls[call.call_id] = call
        self._look_again(call)

    def take_permitted(
        self, permitted: m.ToolCallPermitted, behaviour: Behaviour | None, *, refused: str, expired: bool
    ) -> None:
        """Begin the job that a call asks for, now that it may; one that nobody wants any more is cancelled at once.

        `refused` says why it may not after all; empty where it may.
        """
        call = self._call(permitted.call.call_id)
        if call.tool != ACCOMPLISH_TOOL:
            raise Poison(f"call {call.call_id} of {call.tool} has no permit of the agent's")
        if call.state is CallState.ANSWERED:
            return
        offer = behaviour.accomplish if behaviour else None
        if refused or expired or offer is None:
            late = Result("expired", reason=accomplish.TOO_LATE) if expired and not refused else None
            result = late or Result("refused", reason=refused or accomplish.NOT_OFFERED)
            self.take_result(Answer(call.call_id, result), behaviour)
            return
        money = self.attempt.cost_per_token if self.attempt else None
        budget = accomplish.budget_of(offer, self._left_for_job(call), money)
        if budget is None:
            self.take_result(Answer(call.call_id, Result("refused", reason=accomplish.NOTHING_LEFT)), behaviour)
            return
        if self.attempt is not None:
            self._keep(self.attempt.begins_job(call.call_id, budget.tokens or 0))
        self._emit(accomplish.job_of(permitted.call, call.author, offer, budget))
        call.undecided = False
        self.changed_calls[call.call_id] = call
        self._record_call(call, "permitted", call.state, {"job_id": accomplish.job_id(self.tenant, call.call_id)})
        if self.ended or call.state is CallState.STOPPED:
            self._cancel_job(call.call_id)

    def _left_for_job(self, call: Call) -> int | None:
        """Return the tokens that the job of a call may use up of its attempt's share; None where this is no attempt."""
        if self.attempt is None:
            return None
        known, turn = self.attempt.jobs, self.turn
        if call.call_id in known:
            return known[call.call_id]
        opened = self._open_calls(turn) if turn else []
        return self.attempt.tokens_for_job(
            sum(each.tool == ACCOMPLISH_TOOL and each.call_id not in known for each in opened)
        )

    def _count_job(self, call: Call, result: Result) -> None:
        """Count what the job of a call used as what its attempt used."""
        if self.attempt is not None and call.tool == ACCOMPLISH_TOOL:
            self._keep(self.attempt.after_job(call.call_id, result.data))

    def _keep_staged(self, call: Call, staged: m.Staged) -> None:
        """Remember an entry until its end, in its place."""
        place = (staged.workspace_id, staged.position, staged.digest, staged.decide, None)
        of_call = (call.turn_id, call.tool, call.message_id, call.author, call.cause)
        entry = StagedEntry(call.call_id, *place, *of_call, staged.keys)
        self.staged.append(entry)
        self.changed_staged[call.call_id] = entry
        if self.attempt is not None:
            self._keep(self.attempt.staging(call.call_id, staged))

    def take_opened(self, opened: m.ApprovalOpened, behaviour: Behaviour | None) -> None:
        """Tell that people are asked about a call, and let its turn go on where it need not wait for them.

        What was written before anybody knew that it takes the call's place withdraws it now.
        """
        call = self.calls.get(opened.call.call_id)
        if call is None or call.state is CallState.ANSWERED or call.approval_revision >= opened.revision:
            return
        call.approval_id, call.approval_revision = opened.approval_id, opened.revision
        call.undecided = True
        self.changed_calls[call.call_id] = call
        waiting, card = items.held(opened)
        if self.attempt is not None and self.attempt.entries and call.tool == m.COMMIT_TOOL:
            waiting["entries"] = self.attempt.entries
        self._tell("tool_call", waiting)
        self._tell("approval", card)
        turn = self.turn
        if call.state is not CallState.OPEN or turn is None:
            return
        # An attempt has all its results before it goes on: nobody writes there, and votes must mean the same.
        held = "wait" if self.attempt is not None else held_as(opened.approval, behaviour)
        call.held = held if held in get_args(Held) else None  # type: ignore[assignment]
        call.next_message = None if call.held else held  # type: ignore[assignment]
        if self._go_on_if_due():
            return
        written = any(each.author == turn.author and not each.is_outcome for each in self.queue)
        if held == "supersede" and written and not self.held:
            self._withdraw_again(turn, behaviour)
        self._pause_if_due()

    def take_progressed(self, progressed: m.ApprovalProgressed) -> None:
        """Tell that an approval changed without being decided."""
        call = self.calls.get(progressed.call_id)
        if call is None or call.state is CallState.ANSWERED or call.approval_revision >= progressed.revision:
            return
        self._after_its_card(call)
        call.approval_revision = progressed.revision
        self.changed_calls[call.call_id] = call
        self._tell("approval", items.approval_progressed(progressed, call.turn_id))

    def take_closed(self, closed: m.ApprovalClosed) -> None:
        """Tell that an approval is over."""
        call = self.calls.get(closed.call_id)
        if call is None or call.approval_revision > closed.revision:
            return
        self._after_its_card(call)
        if closed.edited is not None:
            # What was edited and decided at once: the news of the edit may be on its way still, and are dropped then.
            self.take_progressed(closed.edited)
        # Its end has the revision of what it ended; nothing comes after it.
        call.approval_id, call.approval_revision, call.undecided = closed.approval_id, closed.revision + 1, False
        self.changed_calls[call.call_id] = call
        self._tell("approval", items.approval_closed(closed, call.turn_id))
        if call.state is not CallState.ANSWERED:
            self._look_again(call)

    def _after_its_card(self, call: Call) -> None:
        """Raise Transient where the card of a call that has no result is still on its way."""
        if call.approval_id is None and call.state is not CallState.ANSWERED:
            raise Transient(f"the approval of call {call.call_id} is not known yet")

    def take_progress(self, progressed: m.ToolCallProgressed) -> None:
        """Tell how far a running call is."""
        call = self.calls.get(progressed.call_id)
        if call is None or call.state is CallState.ANSWERED:
            return
        self._append("progress", items.progressed(progressed, call.turn_id))
        if call.undecided:
            call.undecided = False
            self.changed_calls[call.call_id] = call
        self._look_again(call)

    def take_resolved(self, resolved: m.CallResolved) -> None:
        """Keep what a person found out about a call: its result stands, the model reads of it with the next message.

        It begins no turn: nobody asked for one, and what the model then proposed would be in nobody's name.
        """
        call = self._call(resolved.call_id)
        if call.known:
            return
        call.known = True
        self._append("resolution", items.resolved(resolved))
        text = storable(rules.fact_text(resolved))
        self.new_facts.append({"call_id": call.call_id, "number": self.log_seq, "text": text})
