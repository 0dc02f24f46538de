"""What the agent makes of a model's answer: which calls are sound, and how the turn goes on. Never asks a model.

A call is checked against its schema before anybody hears of it, so that a wrong one costs the model a step and
bothers no person.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from placet.agent.budgets import Limit
from placet.agent.model_answer import ModelAnswer, ProposedCall
from placet.agent.states import Event
from placet.contracts.canonical import NotStrictJson, call_digest, canonical_text, parse_arguments
from placet.contracts.ids import call_id, derived_id
from placet.contracts.messages import CallResolved, ResultKind, ToolCallFinished, ToolCallRefused
from placet.contracts.messages.tool_calls import CALLS_PER_STEP_MAX, AnswerKind, ArgumentsChange, Category
from placet.contracts.permit import MAY_HAVE_RUN
from placet.domain.agents import AccomplishEntry
from placet.domain.catalog import Catalog, ToolSpec, shown_text, validate_arguments
from placet.domain.house_tools import PROPOSE_SPEC

#: Longest text kept of arguments that are no JSON object, in characters.
RAW_ARGUMENTS_MAX = 65_536
#: Longest error text for the model, in characters.
ERROR_MAX = 2_000
#: Longest tool name repeated in an error or an event; a model can write any text there.
NAME_MAX = 64
#: Longest words of the model that people see beside a call, in characters.
QUOTE_MAX = 600
#: Claims of one step whose worker never came back, before the turn is given up.
TAKEOVERS_MAX = 5

#: Name of the limit of model steps per turn.
STEPS = "steps"
#: What the model reads before the last step of a turn, in which it may call no tool.
LAST_STEP = (
    "This is your last step in this turn: no tool can be called any more. Answer now, and say what is left undone."
)
NO_MODEL = "The assistant could not answer just now. Please write again in a moment."
TOO_LONG = "This conversation has become too long for the assistant. Please begin a new one."
RESTORED = "The system was restored from a backup, so this answer was broken off. Please check, and write again."
STOPPED = "The assistant stopped after {count} steps without an answer. Nothing more will run."
STOPPED_AT_ONCE = "The assistant stopped after one step without an answer. Nothing more will run."
USED_UP = "The assistant had used all its {count} steps and answered without calling more tools."
NO_AGENT = "This assistant is not available any more. Please begin a new conversation."

NEVER_RAN = "Not run: it could not be handled, and an operator gave it up."
RESULT_LOST = f"Its result was lost, and an operator gave it up. {MAY_HAVE_RUN}"

#: What the model is told of a call that a person answered.
_ANSWERED: Mapping[AnswerKind, str] = {
    "result": "The call did not run: a person gave its result instead. Take the answer as what the tool returned.",
    "instruction": "The call did not run: a person answered instead. The answer says what to do.",
}

FINAL_ANSWER = ToolSpec(
    name="final_answer",
    description="End the task with its result. Call it alone, when the results of all other calls are there.",
    parameters={
        "type": "object",
        "properties": {
            "success": {"type": "boolean", "description": "Whether the task was accomplished."},
            "result": {"type": "string", "maxLength": 32_000, "description": "The result, or why there is none."},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["success", "result", "confidence"],
    },
    category=Category.SAFE_COMPUTE,
)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the agent behaves, as its settings say."""

    instructions: str
    #: Model steps per turn; the last one is asked without the right to call tools.
    steps_max: int
    #: True: the model may end a turn with the tool `final_answer`.
    final_answer: bool
    #: What a message does that comes while calls wait for people: the turn goes on with interim results, or the message
    #: waits for its end, or the calls are withdrawn. A rule goes before it.
    pending: Literal["continue", "wait", "supersede"] = "continue"
    #: `continue`: the model gets an interim result as soon as people are asked. A rule goes before it.
    while_pending: Literal["hold", "continue"] = "hold"
    #: What may be used up before the model is not asked any more.
    limits: tuple[Limit, ...] = ()
    accomplish: AccomplishEntry | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to ask the model for one step of a turn, until its lease runs out or a newer fence is given."""

    tenant: str
    agent: str
    conversation_id: str
    turn_id: str
    step: int
    fence: int
    #: The newest message that the turn answers, and who wrote it: {kind, id}.
    message_id: str
    author: dict[str, str]
    #: What the step goes back to, as JSON of a Cause.
    cause: dict[str, str]

    @property
    def ids(self) -> dict[str, str]:
        """What everything about its turn says."""
        return {"tenant": self.tenant, "conversation_id": self.conversation_id, "turn_id": self.turn_id}

    @property
    def assistant_message_id(self) -> str:
        """Id of the assistant message that this step will write, the same for every attempt at it."""
        return derived_id("assistant", self.turn_id, str(self.step))


@dataclass(frozen=True, slots=True)
class Result:
    """The one result of a call, as the model will read it."""

    kind: ResultKind
    data: Any = None
    error: str = ""
    reason: str = ""
    decided_by: str = ""
    #: Where a person answered instead: their words, and whether these are a result or an instruction.
    answer_kind: AnswerKind | None = None
    answer: str = ""
    #: For the model: that people changed the arguments, to what and why.
    edited: str = ""
    #: Of a commit: those of its entries that are refused; empty: all. Not kept: each of them has an end of its own.
    entries: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return what is stored beside the kind; what is empty is left out."""
        texts = {"answer_kind": self.answer_kind, "answer": self.answer, "error": self.error, "reason": self.reason}
        texts |= {"decided_by": self.decided_by, "edited": self.edited}
        found = {name: text for name, text in texts.items() if text}
        return found if self.data is None else {"data": self.data, **found}


def never_ran(refused: ToolCallRefused) -> Result:
    """Return the result of a call that did not run; a person's answer to it stands apart, and says what it is."""
    if refused.answer_kind is None:
        return Result(refused.kind, reason=refused.reason, decided_by=refused.decided_by, entries=refused.entries)
    answered = {name: getattr(refused, name) for name in ("decided_by", "answer_kind", "answer")}
    return Result(refused.kind, reason=_ANSWERED[refused.answer_kind], **answered)


def edit_text(finished: ToolCallFinished) -> str:
    """Return what the model is told of the arguments that people changed; empty where nobody did."""
    edited = finished.edited
    if edited is None:
        return ""
    last = ArgumentsChange(person=edited.person, reason=edited.reason, arguments=finished.executed)
    first, *others = edited.changes or [last]
    told, before = [f"The arguments were changed by {first.person} before the call ran,"], edited.proposed
    for change in (first, *others):
        told += [] if change is first else [f"Then {change.person} changed them,"]
        told.append(f"from {before} to {change.arguments}.")
        told += [f"They said: {json.dumps(change.reason, ensure_ascii=False)}."] if change.reason else []
        before = change.arguments
    return " ".join([*told, *(["So it ran with the arguments that you had proposed."] if edited.restored else [])])


#: What came between asking the model and proposing the calls of its answer.
Interruption = Literal["spoken", "ended"]

ENDED = "Not run: the conversation was ended."


def stopped_by(who: str) -> str:
    """Return what people are told of a turn that was stopped."""
    return f"Stopped by {who}."


def withdrawn_by(who: str, *, job: bool = False) -> str:
    """Return why a call that waited for people when its turn, or the job that it is of, was stopped is withdrawn."""
    return f"Not run: {who} {'cancelled the job' if job else 'stopped the turn'}."


_NOT_WANTED: Mapping[Interruption, Result] = {
    "spoken": Result("superseded", reason="Not run: the user wrote again before it was proposed."),
    "ended": Result("cancelled", reason=ENDED),
}


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A proposed call, judged. Without a result it is sound and goes to policy."""

    call_id: str
    position: int
    provider_call_id: str
    tool: str
    #: Canonical JSON text where the arguments fit the schema, else what the model wrote.
    arguments: str
    #: What people may see of them; empty for nothing.
    shown_arguments: str = ""
    schema_digest: str = ""
    #: Empty where the arguments do not fit.
    digest: str = ""
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an answer of the model, or its absence, means for the turn."""

    event: Event
    calls: tuple[CheckedCall, ...] = ()
    final_answer: dict[str, Any] | None = None
    #: One neutral sentence for people where the turn fails.
    reason: str = ""
    #: Name of the limit that is reached where that is why.
    limit: str = ""

    @property
    def open_calls(self) -> int:
        """Calls that still need their result."""
        return sum(call.result is None for call in self.calls)

    def with_calls(self, calls: Iterable[CheckedCall]) -> Settlement:
        """Return it with these calls: the turn waits where some of them still need their result."""
        found = replace(self, calls=tuple(calls), event=Event.CALLS_PROPOSED)
        return found if found.open_calls else replace(found, event=Event.CALLS_SETTLED)


@dataclass(frozen=True, slots=True)
class Queued:
    """A stored message, or the late outcome of a call, that no turn has answered yet."""

    message_id: str
    #: The person's message that an answer goes back to: itself, or the one that led to the call.
    answers: str
    author: dict[str, str]
    cause: dict[str, str]
    #: Whether it is an outcome: nobody wrote it.
    is_outcome: bool = False
    #: Of a message: the number of its item in the log.
    number: int = 0


def offered(catalog: Catalog, behaviour: Behaviour) -> Catalog:
    """Return the tools that the model is offered; raise ValueError where a tool takes the name of ours."""
    if FINAL_ANSWER.name in catalog:
        raise ValueError(f"the rulebook must not define a tool called {FINAL_ANSWER.name!r}: the agent has its own")
    own = [PROPOSE_SPEC] if any(spec.stage for spec in catalog.values()) else []
    own += [FINAL_ANSWER] if behaviour.final_answer else []
    return Catalog([*catalog.values(), *own], redacts=catalog.redacts) if own else catalog


def settle(
    answer: ModelAnswer,
    claim: Claim,
    tools: Catalog,
    behaviour: Behaviour,
    *,
    interrupted: Interruption | None = None,
) -> Settlement:
    """Return what `answer` means. `interrupted` says why nobody wants its calls any more."""
    calls = tuple(_checked(call, position, claim, tools) for position, call in enumerate(answer.calls))
    if not calls:
        reason = _why_ended(claim, tools, behaviour)
        return Settlement(Event.ANSWERED, reason=reason, limit=STEPS if reason else "")
    if len(calls) == 1 and calls[0].tool == FINAL_ANSWER.name and calls[0].result is None:
        accepted = replace(calls[0], result=Result("succeeded", data="accepted"))
        result = parse_arguments(accepted.arguments)
        return Settlement(Event.ANSWERED, (accepted,), result)
    if claim.step >= behaviour.steps_max:
        one = behaviour.steps_max == 1
        limit = "not run: the turn has used " + ("its one step" if one else f"all its {behaviour.steps_max} steps")
        reason = STOPPED_AT_ONCE if one else STOPPED.format(count=behaviour.steps_max)
        refused = _answered(calls, Result("invalid", error=limit))
        return Settlement(Event.STEPS_EXHAUSTED, refused, reason=reason, limit=STEPS)
    if interrupted:
        calls = _answered(calls, _NOT_WANTED[interrupted])
    return Settlement(Event.CALLS_PROPOSED).with_calls(map(_never_beside_others, calls))


def _why_ended(claim: Claim, tools: Catalog, behaviour: Behaviour) -> str:
    """Return why a turn ended with this answer where the model could not have called a tool instead, else nothing."""
    if not tools or not 1 < behaviour.steps_max <= claim.step:
        return ""
    return USED_UP.format(count=behaviour.steps_max)


def abandoned(*, may_have_run: bool) -> Result:
    """Return the result of a call whose own result was lost on its way here and then given up."""
    return Result("unknown", error=RESULT_LOST) if may_have_run else Result("failed", error=NEVER_RAN)


def fact_text(resolved: CallResolved) -> str:
    """Return what the model is told, with the next message, of a call whose outcome was `unknown` until now."""
    ran = {"ran": "it did run", "did_not_run": "it did not run, and nothing was done"}[resolved.outcome]
    note = f" Their note: {json.dumps(resolved.note, ensure_ascii=False)}." if resolved.note else ""
    return (
        f"From the system, not from the user: the outcome of your earlier call of {resolved.tool} was unknown. "
        f"A person has checked since: {ran}.{note}"
    )


def leading_run(queued: Sequence[Queued], author: dict[str, str] | None = None) -> list[Queued]:
    """Return the first messages in a row of one author (the first one's, where none is named).

    A turn has one requester: what one person asked for must not wait for the approval of another as if it were theirs.
    """
    author = author or (queued[0].author if queued else {})
    run = []
    for message in queued:
        if message.author != author:
            break
        run.append(message)
    return run


def quote(said: str, call: CheckedCall) -> str:
    """Return the model's own words for people who decide on a call; none where it has values that people must not see.

    The model may have repeated such a value in its words.
    """
    return said[:QUOTE_MAX] if call.shown_arguments == call.arguments else ""


def storable(value: Any) -> Any:
    """Return a JSON value with every character that PostgreSQL refuses (NUL, lone surrogates) replaced."""
    match value:
        case str():
            return _storable_text(value)
        case dict():
            return {storable(name): storable(item) for name, item in value.items()}
        case list() | tuple():
            return [storable(item) for item in value]
        case _:
            return value


def _storable_text(text: str) -> str:
    if not text.isascii():
        # UTF-16 joins the halves of a pair that two JSON escapes spelt, and only lone ones are left to replace.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\x00", "\ufffd")


def _checked(proposed: ProposedCall, position: int, claim: Claim, tools: Catalog) -> CheckedCall:
    spec = tools.get(proposed.name)
    written = storable(proposed.arguments_text[:RAW_ARGUMENTS_MAX])
    call = CheckedCall(
        call_id=call_id(claim.turn_id, claim.step, position),
        position=position,
        provider_call_id=storable(proposed.provider_call_id),
        tool=storable(proposed.name[:NAME_MAX]),
        arguments=written,
        shown_arguments="" if (spec.redact if spec else tools.redacts) else written,
    )
    if position >= CALLS_PER_STEP_MAX:
        return _invalid(call, f"not run: at most {CALLS_PER_STEP_MAX} calls in one message")
    if spec is None:
        return _invalid(call, f"there is no tool {call.tool!r}; the tools are: {', '.join(tools) or 'none'}")
    try:
        arguments = parse_arguments(proposed.arguments_text)
        text = canonical_text(arguments)
    except NotStrictJson as error:
        return _invalid(call, f"the arguments cannot be read: {storable(str(error))}")
    if errors := validate_arguments(spec, arguments):
        return _invalid(call, "; ".join(f"{error.pointer or '/'}: {error.detail}" for error in errors))
    digest = call_digest(
        tenant=claim.tenant,
        conversation_id=claim.conversation_id,
        tool=spec.name,
        schema_digest=spec.schema_digest,
        arguments=text,
    )
    shown = shown_text(spec, text, arguments)
    return replace(call, arguments=text, shown_arguments=shown, schema_digest=spec.schema_digest, digest=digest)


def _invalid(call: CheckedCall, error: str) -> CheckedCall:
    return replace(call, result=Result("invalid", error=error[:ERROR_MAX]))


def _answered(calls: Iterable[CheckedCall], result: Result) -> tuple[CheckedCall, ...]:
    """Give `result` to every call that has none."""
    return tuple(replace(call, result=call.result or result) for call in calls)


def _never_beside_others(call: CheckedCall) -> CheckedCall:
    """Refuse a sound `final_answer` that stands beside other calls: it would answer without their results."""
    if call.tool != FINAL_ANSWER.name or call.result is not None:
        return call
    return _invalid(call, "not accepted: call final_answer alone, after the results of the other calls")
