"""Attempts of jobs: conversations that end with one strict answer; the first wrong step throws one out. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, get_args

from pydantic_core import from_json

from placet.agent import rules
from placet.agent.model_answer import ModelAnswer
from placet.agent.rules import FINAL_ANSWER, CheckedCall, Result, Settlement
from placet.agent.staging import StagedEntry, listed, outcomes
from placet.agent.states import Event, State
from placet.contracts import messages as m
from placet.contracts.canonical import canonical_text, sha256_hex
from placet.contracts.messages.jobs import JOB_LABEL, CommitEnd, Flag
from placet.contracts.messages.stage import TOOK_EFFECT
from placet.domain.card_text import visible
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.tool_schema import closed

#: What the model reads before the last step of an attempt.
LAST_STEP = "This is your last step: call `final_answer` now, and nothing else."
#: Why an attempt has no vote, for people.
REASONS: Mapping[str, str] = {
    "malformed_call": "It made a call that is not valid.",
    "no_final_answer": "It ended without calling `final_answer`.",
    "step_limit": "It used all its steps without an answer.",
    "token_limit": "It used more tokens than its share.",
    "answer_too_long": "It wrote more in one step than it may.",
}
#: Characters of what is told of a call that is not valid.
WRONG_MAX = 500
#: What is said of a turn that a model did not end, in words about an attempt.
_ABOUT_ATTEMPTS: Mapping[str, str] = {
    rules.NO_MODEL: "Its model did not answer.",
    rules.TOO_LONG: "It became longer than its model reads.",
    rules.NO_AGENT: "Its agent is not available any more.",
}
NOT_ASKED = "People were not asked any more."
#: Told of an attempt that was stopped while its model was asked.
UNCOUNTED = "Its model was being asked: what that question used is not counted."
#: Told of one that was stopped while a job went on that it had begun.
COUNTED_WHOLE = "A job that it had begun went on: all that this job might use is counted."
_COMMIT_ENDS: frozenset[str] = frozenset(get_args(CommitEnd))
_FLAGS: frozenset[str] = frozenset(get_args(Flag))
#: Of `propose_changes`, which it is not offered; its model may know of it, and the attempt goes on.
PROPOSES_NOTHING = Result(
    "invalid",
    error="not done: an attempt at a job proposes nothing itself. What you staged waits; end with final_answer",
)
_THROWN_OUT = Result("cancelled", reason="Not run: the attempt was thrown out.")


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt, and what it has used; stored as it is."""

    job_id: str
    attempt_id: str
    variant: int
    answer_schema: dict[str, Any]
    tokens_max: int
    answer_tokens_max: int | None = None
    #: In US dollars, with the jobs that it has done; None: its job has no such bound.
    cost_max: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    #: In US dollars; None: nobody knows the price of a model that was asked.
    cost: float | None = 0.0
    steps: int = 0
    calls: int = 0
    asked_again: int = 0
    #: What each call comes to that it staged, by its id: key, what stood there, what will stand there.
    effects: dict[str, list[list[str | None]]] = field(default_factory=dict)
    #: Whether its end was told.
    over: bool = False
    #: The call that its job answers, by conversation_id and call_id.
    caller: dict[str, str] | None = None
    #: The workspace of its job that it reads beneath its own, by conversation_id and entries.
    base: dict[str, Any] | None = None
    #: Tokens that jobs of its calls may use, by call, while these jobs go on.
    jobs: dict[str, int] = field(default_factory=dict)
    #: Where people decide about the job: what its attempts staged, by call_id, tool and summary, for whoever is asked.
    entries: list[dict[str, str]] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """All that it has used."""
        return self.input_tokens + self.output_tokens

    @property
    def workspace_base(self) -> m.WorkspaceBase | None:
        """The workspace that its calls read beneath their own."""
        return None if self.base is None else m.WorkspaceBase(**self.base)

    def staging(self, call_id: str, staged: m.Staged) -> Attempt:
        """Return it with a call that was staged."""
        effects = [[each.key, each.base, each.after] for each in staged.effects]
        return replace(self, effects={**self.effects, call_id: effects})

    def tree(self, staged: Sequence[StagedEntry]) -> str | None:
        """Return the digest of what it left staged, whatever the way there; None where that comes to nothing.

        It is of what will stand under each key that changes, and of the staged calls in their order.
        """
        first: dict[str, str | None] = {}
        last: dict[str, str | None] = {}
        calls: list[str | None] = []
        for entry in sorted(staged, key=lambda each: (each.workspace_id, each.position)):
            for key, base, after in self.effects.get(entry.call_id, ()):
                if key:
                    first.setdefault(key, base)
                    last[key] = after
                else:
                    calls.append(after)
        changes = {key: after for key, after in last.items() if after != first[key]}
        return sha256_hex({"changes": changes, "calls": calls}) if changes or calls else None

    def after(self, answer: ModelAnswer, cost: float | None) -> Attempt:
        """Return it with an answer of the model counted."""
        used = self.with_lost(1, answer, cost)
        return replace(used, steps=self.steps + 1, calls=self.calls + len(answer.calls))

    def with_lost(self, questions: int, answer: ModelAnswer, cost: float | None) -> Attempt:
        """Return it with questions counted whose workers died: each as much as the one that has this answer."""
        return replace(
            self,
            input_tokens=self.input_tokens + questions * answer.input_tokens,
            output_tokens=self.output_tokens + questions * answer.output_tokens,
            cost=None if self.cost is None or cost is None else self.cost + questions * cost,
        )

    def tokens_for_job(self, waiting: int) -> int:
        """Return what a job may use up that one of so many calls begins: an equal part of what is left of its share."""
        return max(0, self.tokens_max - self.tokens - sum(self.jobs.values())) // max(1, waiting)

    @property
    def cost_per_token(self) -> float | None:
        """What a job may cost for each of its tokens that it is given: what is left of the money for what is left."""
        if self.cost_max is None:
            return None
        left = 0.0 if self.cost is None else max(0.0, self.cost_max - self.cost)
        return left / max(1, self.tokens_max - self.tokens)

    def begins_job(self, call_id: str, tokens: int) -> Attempt:
        """Return it with tokens reserved for the job of a call."""
        return replace(self, jobs={**self.jobs, call_id: tokens})

    def after_job(self, call_id: str, used: Any) -> Attempt:
        """Return it with the job of a call counted, by the answer's data; one that does not say takes all it might."""
        told = used if isinstance(used, Mapping) and isinstance(used.get("tokens"), int) else None
        others = {each: tokens for each, tokens in self.jobs.items() if each != call_id}
        if told is None and call_id not in self.jobs:
            return self
        tokens, cost = (self.jobs[call_id], None) if told is None else (told["tokens"], told.get("cost"))
        return replace(
            self,
            jobs=others,
            input_tokens=self.input_tokens + tokens,
            cost=None if self.cost is None or cost is None else self.cost + cost,
        )

    def given_up(self) -> Attempt:
        """Return it where no question was ever answered again: nobody knows what these took, so it takes its share."""
        return replace(self, input_tokens=max(self.input_tokens, self.tokens_max - self.output_tokens))


def requested(message: m.AttemptRequested) -> tuple[Attempt, m.MessagePosted]:
    """Return an attempt as it begins, and the one message of its conversation."""
    attempt = Attempt(
        message.job_id,
        message.attempt_id,
        message.variant,
        message.answer_schema,
        message.tokens_max,
        message.answer_tokens_max,
        message.cost_max,
        caller=message.caller.model_dump() if message.caller else None,
        base=message.base.model_dump(),
    )
    # Not validated again: with its answers of earlier tasks it may be longer than what a person may write.
    posted = m.MessagePosted.model_construct(
        tenant=message.tenant,
        conversation_id=message.conversation_id,
        message_id=message.message_id,
        text=message.text,
        author=message.author,
        agent=message.agent,
        language=message.language,
        # By this label it is found again.
        labels={JOB_LABEL: message.job_id, **message.labels},
        held_revision=0,
        taken_as=None,
    )
    return attempt, posted


def offered(tools: Catalog, attempt: Attempt) -> Catalog:
    """Return the tools that its model is offered: those of the agent, and the way to end with its answer.

    It proposes nothing itself: its job asks people once.
    """
    others = [tool for name, tool in tools.items() if name not in {FINAL_ANSWER.name, m.PROPOSE_TOOL}]
    return Catalog([*others, _final_answer(canonical_text(attempt.answer_schema))], redacts=tools.redacts)


@lru_cache(maxsize=256)
def _final_answer(schema: str) -> ToolSpec:
    """Return the tool that ends an attempt.

    Its schema was checked at the door: to check one takes up to a tenth of a second, in which nobody else is served.
    """
    return ToolSpec.model_construct(
        name=FINAL_ANSWER.name,
        description="End the task with its answer. Call it alone.",
        parameters=closed(from_json(schema)),
        category=FINAL_ANSWER.category,
    )


def judged(attempt: Attempt, answer: ModelAnswer, settlement: Settlement) -> Settlement:
    """Return what an answer of the model means: the first wrong step throws the attempt out, nothing is repaired."""
    settlement = replace(settlement, calls=tuple(_never_proposing(call) for call in settlement.calls))
    flag = _flag(attempt, answer, settlement)
    if flag is None:
        return settlement
    calls = tuple(_unrun(call) for call in settlement.calls)
    wrong = _wrong(calls) if flag == "malformed_call" else ""
    return Settlement(Event.THROWN_OUT, calls, reason=f"{REASONS[flag]}{wrong}", limit=flag)


def _flag(attempt: Attempt, answer: ModelAnswer, settlement: Settlement) -> Flag | None:
    if settlement.event is Event.STEPS_EXHAUSTED:
        return "step_limit"
    if any(map(_is_wrong, settlement.calls)):
        return "malformed_call"
    if settlement.event is Event.ANSWERED and settlement.final_answer is None:
        return "no_final_answer"
    if attempt.answer_tokens_max is not None and answer.output_tokens > attempt.answer_tokens_max:
        return "answer_too_long"
    if attempt.tokens + answer.input_tokens + answer.output_tokens > attempt.tokens_max:
        return "token_limit"
    return None


def _is_wrong(call: CheckedCall) -> bool:
    return call.result is not None and call.result is not PROPOSES_NOTHING and call.result.kind == "invalid"


def _wrong(calls: Sequence[CheckedCall]) -> str:
    """Return what is wrong with the first call that is; empty where none is."""
    errors = (f" {call.tool}: {call.result.error}" for call in calls if call.result and _is_wrong(call))
    return visible(next(errors, ""))[:WRONG_MAX]


def _never_proposing(call: CheckedCall) -> CheckedCall:
    return replace(call, result=PROPOSES_NOTHING) if call.tool == m.PROPOSE_TOOL else call


def _unrun(call: CheckedCall) -> CheckedCall:
    return call if call.result is not None and call.result.kind == "invalid" else replace(call, result=_THROWN_OUT)


def ended(
    attempt: Attempt,
    place: Mapping[str, str],
    state: State,
    staged: Sequence[StagedEntry],
    *,
    answer: dict[str, Any] | None,
    reason: str,
    limit: str,
) -> m.AttemptEnded:
    """Return what jobs is told of the end of an attempt; `place` has its tenant and conversation."""
    flags: list[Any] = []
    if state is not State.FINISHED or answer is None:
        others = {State.STOPPED: "stopped", State.FINISHED: "no_final_answer"}
        named = "token_limit" if reason == rules.TOO_LONG else {rules.STEPS: "step_limit"}.get(limit, limit)
        flags = [named if named in _FLAGS else others.get(state, "no_model")]
    return m.AttemptEnded(
        tenant=place["tenant"],
        conversation_id=place["conversation_id"],
        job_id=attempt.job_id,
        attempt_id=attempt.attempt_id,
        answer=None if flags else answer,
        tree_digest=attempt.tree(staged),
        staged=len(staged),
        flags=flags,
        reason=_ABOUT_ATTEMPTS.get(reason, reason) if flags else "",
        steps=attempt.steps,
        calls=attempt.calls,
        # Of a job that goes on while it is stopped nobody knows yet what it uses: all that it may.
        input_tokens=attempt.input_tokens + sum(attempt.jobs.values()),
        output_tokens=attempt.output_tokens,
        cost=None if attempt.jobs else attempt.cost,
        asked_again=attempt.asked_again,
    )


def without_agent(asked: m.AttemptRequested) -> m.AttemptEnded:
    """Return what jobs is told of an attempt whose agent this service does not know."""
    named = {name: getattr(asked, name) for name in ("tenant", "conversation_id", "job_id", "attempt_id")}
    return m.AttemptEnded(**named, flags=["no_model"], reason=f"The agent service knows no agent {asked.agent}.")


def deciding(asked: m.ProposeJob) -> Attempt:
    """Return what makes a conversation that in which people decide about a job: no model is asked there."""
    caller = asked.caller.model_dump() if asked.caller else None
    entries = [each.model_dump(include={"call_id", "tool", "summary"}) for each in asked.entries] if caller else []
    return Attempt(asked.job_id, "", 0, {}, 0, over=True, caller=caller, entries=entries)


def committed(attempt: Attempt, place: Mapping[str, str], result: Result | None) -> m.JobCommitted:
    """Return what jobs is told of the commit of its workspace; without a result nobody was asked any more."""
    found = result.data.get("state") if result is not None and isinstance(result.data, dict) else None
    in_doubt = result is not None and result.kind == "unknown"
    ends = (outcomes(result, ()) if result is not None else None) or []
    done = sum(each.outcome in TOOK_EFFECT for each in ends)
    state: Any = found if found in _COMMIT_ENDS else "not_committed"
    if in_doubt and not done:
        state = "unknown"
    left_out = [each.summary or each.tool for each in ends if each.outcome == "left_out"]
    return m.JobCommitted(
        tenant=place["tenant"],
        conversation_id=place["conversation_id"],
        job_id=attempt.job_id,
        state=state,
        done=done,
        left_out=len(left_out),
        reason=_why(result) or (f"People left out {listed(left_out)}." if left_out else ""),
    )


def _why(result: Result | None) -> str:
    """Return why a commit did not run or not all of it, with the words of a person who answered instead."""
    if result is None:
        return NOT_ASKED
    if result.answer_kind is None:
        return result.reason or result.error
    return f"{result.decided_by or 'A person'} answered instead: {json.dumps(result.answer, ensure_ascii=False)}."
