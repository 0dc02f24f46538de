"""How turns go: they begin, take the model's answers, wait, go on, and end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from placet.agent import accomplish, attempts, items, rules, staging
from placet.agent.conversation_state import Call, ConversationState, Turn, goes_on, result_detail
from placet.agent.items import Data
from placet.agent.model_answer import ModelAnswer
from placet.agent.origins import Before, beside
from placet.agent.rules import Behaviour, CheckedCall, Claim, Interruption, Settlement, storable
from placet.agent.staging import StagedEntry
from placet.agent.states import MACHINE, CallEvent, CallState, Event, State
from placet.contracts import messages as m
from placet.contracts.canonical import parse_arguments, shown_digest
from placet.contracts.ids import new_id
from placet.contracts.messages import ACCOMPLISH_TOOL, COMMIT_TOOL, PROPOSE_TOOL, ToolCall
from placet.domain.catalog import Catalog
from placet.runtime.work import Cause


@dataclass(frozen=True, slots=True)
class Said:
    """An answer of the model, and what was known when it was asked."""

    answer: ModelAnswer
    #: Whether a person wrote while the turn went on, and the model had heard them.
    heard_meanwhile: bool
    #: Whether a call waited, and nobody had written since.
    while_waiting: bool
    #: What the model was offered, and how the agent behaves.
    tools: Catalog
    behaviour: Behaviour
    #: What it cost in US dollars, where somebody counts; None: nobody knows.
    cost: float | None = None
    #: What stood in the conversation when it was asked; None: nobody looks where values come from.
    before: Before | None = None


class Turns(ConversationState):
    """A conversation whose turns go."""

    __slots__ = ()

    def settle(self, claim: Claim, said: Said | Settlement) -> None:
        """Take the model's answer to a step, or the end of a turn that has none.

        A claim that is no longer good changes nothing; that it came is kept in the history.
        """
        interrupted: Interruption | None = None
        turn, attempt = self.turns[claim.turn_id], self.attempt
        if isinstance(said, Said):
            interrupted = self._interruption(claim, said.behaviour) if said.answer.calls else None
            settlement = rules.settle(said.answer, claim, said.tools, said.behaviour, interrupted=interrupted)
            if attempt is not None:
                attempt = attempt.with_lost(turn.takeovers, said.answer, said.cost)
                settlement = attempts.judged(attempt, said.answer, settlement)
            settlement = self._with_house(settlement, claim, said)
        else:
            settlement = said
        detail: dict[str, Any] = {"step": claim.step, "fence": claim.fence}
        if turn is not self.turn or (turn.fence, turn.step, turn.state) != (claim.fence, claim.step, State.THINKING):
            detail |= {"refused": str(settlement.event), "fence_now": turn.fence}
            self._record_turn(turn, "late_settle", turn.state, detail)
            return
        self._move(turn, settlement.event, detail | ({"limit": settlement.limit} if settlement.limit else {}))
        if isinstance(said, Said):
            if attempt is not None:
                self._keep(attempt.after(said.answer, said.cost))
            self._say(claim, said, settlement.calls)
        elif attempt is not None and turn.takeovers:
            self._keep(attempt.given_up())
        turn.takeovers = 0
        turn.step += turn.state is State.THINKING
        turn.reason, turn.final_answer = settlement.reason, storable(settlement.final_answer)
        if turn.state in MACHINE.final:
            self._close(turn, settlement.limit)
        elif turn.state is State.THINKING:
            if interrupted == "spoken":
                self._join(turn)
            self.begun.append(self.of(turn))

    def _with_house(self, settlement: Settlement, claim: Claim, said: Said) -> Settlement:
        """Return what an answer means where calls are staged, or where jobs may be begun."""
        if self.staged or PROPOSE_TOOL in said.tools:
            settlement = staging.with_commit(settlement, claim, self._proposable())
        offer = said.behaviour.accomplish
        return settlement if offer is None else accomplish.bounded(settlement, offer, self.labels)

    def _proposable(self) -> list[StagedEntry]:
        """Return the staged entries that the agent proposes itself: none of an attempt at a job, or after the end."""
        return [] if self.ended or self.attempt is not None else self.staged

    def _propose_commit(self, turn: Turn, entries: Sequence[StagedEntry], said: str = "") -> None:
        """Let the house ask people about entries, beside the calls of the turn's present step."""
        position = sum(call.step == turn.step for call in self._of_turn(turn))
        self._ask_people(self.of(turn), staging.commit_of(self.of(turn), entries, position=position), said)

    def _ask_people(self, claim: Claim, commit: CheckedCall, said: str = "") -> None:
        """Propose the house's call."""
        self._append("tool_call", items.proposed(claim, commit))
        self._propose(claim, commit, said)

    def _interruption(self, claim: Claim, behaviour: Behaviour) -> Interruption | None:
        if self.ended:
            return "ended"
        run = rules.leading_run(self._queued(), claim.author) if behaviour.pending == "supersede" else []
        return "spoken" if any(not each.is_outcome for each in run) else None

    def _say(self, claim: Claim, said: Said, calls: Sequence[CheckedCall]) -> None:
        text, answer = storable(said.answer.text), said.answer
        heard, aside = said.heard_meanwhile, said.while_waiting
        self._append("message", items.assistant(claim, text, heard_meanwhile=heard, while_waiting=aside))
        raw = {name: value for name, value in answer.raw.items() if name != "tool_calls"}
        used = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
        self._note_step(claim, storable(raw | {"content": answer.text}), model=answer.model, **used)
        for call in calls:
            self._append("tool_call", items.proposed(claim, call))
        earlier: list[int] = []
        for call in calls:
            self._propose(claim, call, text, said.before, earlier)
            earlier += [call.position] if call.result is None else []

    def _propose(
        self, claim: Claim, call: CheckedCall, said: str, before: Before | None = None, earlier: Sequence[int] = ()
    ) -> None:
        result = call.result
        result_json = result and storable(result.as_json())
        state = CallState.OPEN if result is None else CallState.ANSWERED
        stored = Call(call.call_id, claim.turn_id, claim.step, call.tool, claim.message_id, state)
        stored.result_kind = result.kind if result else None
        stored.author, stored.cause = claim.author, claim.cause
        self.calls[call.call_id] = stored
        self.new_calls.append(
            {
                "call_id": call.call_id,
                "turn_id": claim.turn_id,
                "message_id": claim.message_id,
                "step": claim.step,
                "position": call.position,
                "provider_call_id": call.provider_call_id,
                "tool": call.tool,
                "arguments": call.arguments,
                "shown_arguments": call.shown_arguments,
                "digest": call.digest or None,
                "state": state,
                "result_kind": stored.result_kind,
                "result": result_json,
            }
        )
        if call.tool == COMMIT_TOOL and result is None:
            self._ask_about(call)
        # What is no valid call has no digest: what is shown of it is what there is.
        shown = shown_digest(call.shown_arguments, call.arguments if call.digest else None)
        told = {"turn_id": claim.turn_id, "tool": call.tool, "digest": call.digest, "shown": shown}
        detail = {name: value for name, value in told.items() if value}
        ended = {} if result is None else result_detail(result.kind, result_json)
        self._record_call(stored, "proposed", None, detail | ended)
        if result is not None:
            self._append("tool_call", items.answered(stored.names, result))
            return
        proposed = ToolCall(
            call_id=call.call_id,
            **claim.ids,
            message_id=claim.message_id,
            agent=self.agent,
            requester=claim.author["id"],
            language=self.language,
            labels=self.labels,
            tool=call.tool,
            schema_digest=call.schema_digest,
            arguments=call.arguments,
            shown_arguments=call.shown_arguments,
            step=claim.step,
            position=call.position,
            digest=call.digest,
            quote=rules.quote(said, call),
            base=self.attempt and self.attempt.workspace_base,
            **beside(call, before),
        )
        self._emit(m.ToolCallProposed(tenant=claim.tenant, call=proposed, earlier=list(earlier)))

    def _ask_about(self, commit: CheckedCall) -> None:
        """Note which entries people are asked about with a commit."""
        asked = set(parse_arguments(commit.arguments)["entries"])
        for each in self.staged:
            if each.call_id in asked:
                each.commit_id = commit.call_id
                self.changed_staged[each.call_id] = each

    def take_over(self, turn_id: str) -> bool:
        """Claim a turn again whose worker never came back; False where worker after worker died on it."""
        turn = self.turn
        if turn is None or turn.turn_id != turn_id or turn.state is not State.THINKING or not turn.lost:
            return True
        self.cause = Cause(**turn.cause)
        turn.fence, turn.takeovers = turn.fence + 1, turn.takeovers + 1
        if self.attempt is not None:
            self._keep(replace(self.attempt, asked_again=self.attempt.asked_again + 1))
        if turn.takeovers > rules.TAKEOVERS_MAX:
            if self.attempt is not None:
                self._keep(self.attempt.given_up())
            self._move(turn, Event.GIVEN_UP, {"step": turn.step, "fence": turn.fence})
            turn.reason = rules.NO_MODEL
            self._close(turn)
            return False
        detail = {"step": turn.step, "fence": turn.fence, "takeovers": turn.takeovers}
        self._move(turn, Event.TAKEN_OVER, detail)
        self.begun.append(self.of(turn))
        return True

    def finish(self) -> None:
        """Begin the turn of what waits where the conversation idles; to be called when all has happened."""
        if self.turn_id is None and not self.held and self.queue:
            self._begin()
        for _, data in self.items:
            if "idle" in data:
                data["idle"] = self.turn is None or self.turn.paused  # for people: then it waits on

    def _begin(self) -> None:
        """Begin a turn for what waits first."""
        run = rules.leading_run(self.queue)
        newest = run[-1]
        turn = Turn(new_id(), MACHINE.initial, 1, 1, 0, newest.answers, newest.author, newest.cause)
        self.turns[turn.turn_id] = self.changed_turns[turn.turn_id] = turn
        self.turn_id = turn.turn_id
        self._give(run, turn)
        detail = {"message_id": turn.message_id}
        self.cause = Cause(**turn.cause)
        self._record_turn(turn, "started", None, detail)
        self._append("turn", {"state": "started", "turn_id": turn.turn_id, **detail})
        self.begun.append(self.of(turn))

    def _close(self, turn: Turn, limit: str = "") -> None:
        """Tell that a turn is over, and free the conversation."""
        end: Data = {"state": turn.state, "turn_id": turn.turn_id, "reason": turn.reason}
        end |= {"final_answer": turn.final_answer} if turn.final_answer is not None else {}
        end |= {"limit": limit} if limit else {}
        unanswered = [call.call_id for call in self._of_turn(turn) if call.state is not CallState.ANSWERED]
        self.turn_id = None
        self._append("turn", end | {"idle": True, "open": unanswered})
        if self.attempt is not None and not self.attempt.over:
            told: dict[str, Any] = {"answer": turn.final_answer, "reason": turn.reason, "limit": limit}
            ended = attempts.ended(self.attempt, self.place, turn.state, self.staged, **told)
            refused = sum(call.result_kind == "refused" for call in self._of_turn(turn))
            self._emit(ended.model_copy(update={"refused": refused}))
            self._keep(replace(self.attempt, over=True))

    def _keep(self, attempt: attempts.Attempt) -> None:
        self.attempt, self.attempt_changed = attempt, True

    def _answered(
        self, turn: Turn, call: Call, result: rules.Result, ended_by: str, behaviour: Behaviour | None
    ) -> None:
        """Go on with the turn of a call that has its result, or end it where whoever denied the call wants that."""
        turn.cause = turn.cause | {"id": self.cause.id, "traceparent": self.cause.traceparent}
        self.cause = Cause(**turn.cause)
        self.changed_turns[turn.turn_id] = turn
        if ended_by:
            self._end_turn(turn, ended_by)
        elif self.attempt is not None and call.tool == COMMIT_TOOL:
            # Nobody is asked what to say about it: the job has said all.
            self._move(turn, Event.COMMITTED, {"kind": result.kind})
            self._close(turn)
        else:
            self._go_on_after(turn, call, behaviour)

    def _go_on_after(self, turn: Turn, call: Call, behaviour: Behaviour | None) -> None:
        """Ask the model again after the last result of a step, and show it the message that took a call's place."""
        if self._open_calls(turn):
            self._look_again(call)
            return
        # What people did not decide just now is asked about again when the turn ends.
        if self.staged and call.tool != COMMIT_TOOL and (entries := staging.due(self._proposable(), "each")):
            self._propose_commit(turn, entries)
            return
        of_step = [call for call in self._of_turn(turn) if call.step == turn.step]
        self._continue(turn, Event.RESULTS_COMPLETE)
        if (behaviour and behaviour.pending == "supersede") or any(
            call.result_kind == "superseded" for call in of_step
        ):
            self._join(turn)
        self.begun.append(self.of(turn))

    def _look_again(self, call: Call) -> None:
        """Go on, or pause again, after something was told of a call of the turn that goes on."""
        turn = self.turn
        if turn is not None and turn.turn_id == call.turn_id and turn.state is State.WAITING:
            turn.paused = False
            self.changed_turns[turn.turn_id] = turn
            if not self._go_on_if_due():
                self._pause_if_due()

    def _pause_if_due(self) -> None:
        """Tell that a turn waits for people alone, unless that was the last thing told; jobs that ask may go on."""
        turn = self.turn
        if turn is None or turn.state is not State.WAITING or turn.paused:
            return
        calls = self._open_calls(turn)
        in_jobs = {call_id: approval_id for call in calls for call_id, approval_id in call.asked.items()}
        if all(call.undecided or (in_jobs and call.tool == ACCOMPLISH_TOOL) for call in calls):
            turn.paused = True
            self.changed_turns[turn.turn_id] = turn
            asked = {call.call_id: call.approval_id for call in calls if call.undecided} | in_jobs
            waiting = [{"call_id": call_id, "approval_id": approval_id} for call_id, approval_id in asked.items()]
            self._append("turn", {"state": "paused", "turn_id": turn.turn_id, "waiting": waiting})

    def _go_on_if_due(self) -> bool:
        """Let the turn go on without its open calls where it need not wait for them.

        A turn has one barrier, so it goes on only when it could for each open call. What its requester wrote meanwhile
        joins the next step, and so does what came late of their earlier calls.
        """
        turn = self.turn
        if turn is None or turn.state is not State.WAITING:
            return False
        calls = self._open_calls(turn)
        spoken = bool(rules.leading_run(self._queued(), turn.author))
        if not goes_on([call.held for call in calls], spoken=spoken):
            return False
        for call in calls:
            self._move_call(call, CallEvent.WENT_ON, {"turn_id": turn.turn_id})
        self._continue(turn, Event.WENT_ON)
        if not self._join(turn):
            self._append("turn", {"state": "continued", "turn_id": turn.turn_id, "step": turn.step})
        self.begun.append(self.of(turn))
        return True

    def _continue(self, turn: Turn, event: Event) -> None:
        turn.step, turn.fence, turn.paused = turn.step + 1, turn.fence + 1, False
        self._move(turn, event, {"step": turn.step, "fence": turn.fence})

    def _join(self, turn: Turn) -> bool:
        """Let what the same person wrote meanwhile join the turn at its step."""
        run = rules.leading_run(self._queued(), turn.author)
        if not run:
            return False
        turn.message_id, turn.cause = run[-1].answers, run[-1].cause
        self.changed_turns[turn.turn_id] = turn
        self._give(run, turn)
        told = {"turn_id": turn.turn_id, "step": turn.step, "message_id": turn.message_id}
        self._append("turn", {"state": "continued", **told})
        return True

    def _heard_again(self, author: dict[str, str], behaviour: Behaviour | None) -> None:
        """Go on with the turn of a person who writes again, or withdraw its calls; nobody withdraws another's."""
        turn = self.turn
        if turn is not None and turn.author == author and not self._go_on_if_due():
            self._withdraw_again(turn, behaviour)

    def _withdraw_again(self, turn: Turn, behaviour: Behaviour | None) -> None:
        """Withdraw the open calls of a turn; whether one is given up then, its rule may say, which approval knows."""
        calls = [call.call_id for call in self._open_calls(turn)]
        reason = "Not run: the user wrote again before it was decided."
        supersede = behaviour is not None and behaviour.pending == "supersede"
        self._withdraw(calls, "superseded", reason, "supersede" if supersede else "wait")

    def _end_turn(self, turn: Turn, by: str) -> None:
        """Stop a turn that is not over."""
        detail = {"step": turn.step, "fence": turn.fence}
        asked = self.attempt is not None and turn.state is State.THINKING
        self._move(turn, Event.STOPPED, detail)
        calls = [call for call in self._of_turn(turn) if call.state in {CallState.OPEN, CallState.CONTINUED}]
        for call in calls:
            self._move_call(call, CallEvent.TURN_STOPPED, {"turn_id": turn.turn_id})
        turn.fence += 1
        who = "its job" if by == m.JOBS else by
        turn.reason = storable(rules.stopped_by(who)) + (f" {attempts.UNCOUNTED}" if asked else "")
        turn.reason += f" {attempts.COUNTED_WHOLE}" if self.attempt is not None and self.attempt.jobs else ""
        self._close(turn)
        turn.stopped_number = self.log_seq
        of_job = self.attempt is not None and by != m.JOBS
        self._withdraw([call.call_id for call in calls], "cancelled", rules.withdrawn_by(who, job=of_job))

    def _withdraw(
        self,
        call_ids: Sequence[str],
        kind: Literal["cancelled", "superseded"],
        reason: str,
        by_default: Literal["wait", "supersede"] = "supersede",
    ) -> None:
        if by_default == "supersede":
            self._cancel_jobs(call_ids)
        if call_ids:
            how: dict[str, Any] = {"kind": kind, "reason": reason, "by_default": by_default}
            self._emit(m.CallsWithdrawn(**self.place, call_ids=list(call_ids), **how))
