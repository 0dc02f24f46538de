"""Explaining a verdict without giving one: which rule decides a call, why none above it did, and who may approve.

Pure, like the judging itself: the same rulebook and call always have the same explanation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from placet.contracts.messages.approvals import ApprovalRule
from placet.contracts.messages.stage import COMMIT_TOOL, ENTRIES_MAX, Decide
from placet.domain import deciders
from placet.domain.approvers import OPERATORS, identity_of, read_approver
from placet.domain.catalog import ToolSpec, placed_error, validate_arguments
from placet.domain.directory import Directory
from placet.domain.house_tools import COMMIT_SPEC
from placet.domain.origins import NONE, texts_in
from placet.domain.trials import Deciders, Explanation, Tried
from placet.domain.yaml_source import Problem, RulebookInvalid, Steps, did_you_mean, validation_problems
from placet.policy.rules.asking_origins import KNOWN
from placet.policy.rules.call import COUNTERS, CallFacts
from placet.policy.rules.deciding import panels_of, would_be_held
from placet.policy.rules.model import OPERATORS as OPERATORS_DECIDE
from placet.policy.rules.model import Rulebook
from placet.policy.rules.staging import StagedEntry, tried_entry, wanted_entries
from placet.policy.rules.verdicts import Verdict, error_text, judge, walk

#: When people are asked about a staged call, and about what.
_WHEN: Mapping[Decide, str] = {
    "turn": "At the end of the turn people decide once about all that was staged; these decide about this call.",
    "on_request": "When somebody asks for it, people decide once about all that was staged; these about this call.",
    "each": "People decide at once about what is staged by then; these decide about this call.",
}


#: Arguments of a commit that no rule needs to know, where nobody wrote them down.
_ANY_WORKSPACE = {"workspace_id": "workspace", "tree_digest": "0" * 64}


class StagedCallEntry(BaseModel):
    """A staged call that a commit to try is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tool: Annotated[str, Field(min_length=1, max_length=64)]
    arguments: dict[str, Any] = Field(default_factory=dict)


class CallEntry(BaseModel):
    """A call to try, as a person writes it down: only the tool is needed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tool: Annotated[str, Field(min_length=1, max_length=64)]
    arguments: dict[str, Any] = Field(default_factory=dict)
    agent: Annotated[str, Field(min_length=1, max_length=64)] = "default"
    tenant: Annotated[str, Field(min_length=1, max_length=63)] = "default"
    requester: Annotated[
        str, Field(max_length=200, description="`person:ada`, or for a visitor `visitor:v77` or `v77`.")
    ] = "visitor:x"
    labels: Annotated[dict[str, str], Field(description="Labels of the conversation.")] = Field(default_factory=dict)
    conversation_id: Annotated[str, Field(min_length=1, max_length=64)] = "conversation"
    history: Annotated[
        dict[str, Annotated[int, Field(ge=0, lt=2**63)]],
        Field(description="Counters of earlier calls, for conditions; one that is left out is 0."),
    ] = Field(default_factory=dict)
    origins: Annotated[
        dict[str, Annotated[str, Field(pattern=f"^({KNOWN.pattern})$")]],
        Field(description="Where texts among the arguments stood before the call, by name; `none` for all others."),
    ] = Field(default_factory=dict)

    staged: Annotated[
        list[StagedCallEntry],
        Field(max_length=ENTRIES_MAX, description="Of `commit_changes`: the staged calls it is made of, in order."),
    ] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_staged(self) -> CallEntry:
        if not self.staged:
            return self
        if self.tool != COMMIT_TOOL:
            raise placed_error([(("staged",), f"only {COMMIT_TOOL} is made of staged calls")])
        if len(wanted_entries(self.proposed)) != len(self.staged):
            raise placed_error([(("staged",), "the arguments name another number of entries")])
        return self

    @model_validator(mode="after")
    def _check_origins(self) -> CallEntry:
        texts = {pointer for pointer, _ in texts_in(self.arguments)}
        wrong = [name for name in self.origins if _pointer(name) not in texts]
        if wrong:
            raise placed_error(
                [(("origins", name), f"no text among the arguments is called {name!r}") for name in wrong]
            )
        return self

    @field_validator("history")
    @classmethod
    def _check_history(cls, history: dict[str, int]) -> dict[str, int]:
        unknown = [name for name in history if name not in COUNTERS]
        if unknown:
            raise placed_error([((name,), _no_counter(name)) for name in unknown])
        return history

    @property
    def proposed(self) -> dict[str, Any]:
        """The arguments as an agent proposes them: for a commit, what nobody wrote down is filled in."""
        if self.tool != COMMIT_TOOL:
            return self.arguments
        entries = [f"call-{number}" for number in range(1, len(self.staged) + 1)]
        return _ANY_WORKSPACE | ({"entries": entries} if entries else {}) | self.arguments

    def spec(self, rulebook: Rulebook) -> ToolSpec | None:
        """Return the tool; None where nobody knows it."""
        return COMMIT_SPEC if self.tool == COMMIT_TOOL else rulebook.spec(self.tool)

    def facts(self, rulebook: Rulebook) -> CallFacts:
        """Return the facts of this call by an agent that has the rulebook's own catalogue."""
        spec = self.spec(rulebook)
        return CallFacts(
            call_id="call",
            schema_digest=spec.schema_digest if spec else "",
            **self.model_dump(exclude={"arguments", "history", "origins", "staged"}),
            arguments=self.proposed,
            origins={_pointer(name): [] if each == NONE else [each] for name, each in self.origins.items()},
            history=dict.fromkeys(COUNTERS, 0) | self.history,
            staged=tuple(self._entries(rulebook)) if self.tool == COMMIT_TOOL else None,
        )

    def verdicts(self, rulebook: Rulebook) -> list[Verdict]:
        """Return the verdict on each of the staged calls, judged as if it were proposed by itself."""
        same: dict[str, Any] = {"arguments": {}, "origins": {}, "staged": []}
        each_alone = (self.model_copy(update={**same, **each.model_dump()}) for each in self.staged)
        return [judge(each.facts(rulebook), rulebook, only_tried=True) for each in each_alone]

    def _entries(self, rulebook: Rulebook) -> Iterator[StagedEntry]:
        """Yield what policy lets this conversation stage: every entry where nobody says which calls they are."""
        wanted = wanted_entries(self.proposed)
        if not self.staged:
            yield from (tried_entry(each, self.requester, COMMIT_SPEC, "stop", None) for each in wanted)
            return
        for call_id, verdict in zip(wanted, self.verdicts(rulebook), strict=True):
            if (entry := verdict.tried_entry(call_id, self.requester)) is not None:
                yield entry


def _pointer(name: str) -> str:
    """Return the JSON pointer that a person writes as `to`, `customer.mail`, or as the pointer itself."""
    return name if name.startswith("/") else "/" + name.replace(".", "/")


def _no_counter(name: str) -> str:
    return f"unknown counter {name!r}{did_you_mean(name, COUNTERS)}; there are {', '.join(COUNTERS)}"


def call_from(value: object, rulebook: Rulebook, file: str) -> CallEntry:
    """Return the call that `value` of `file` describes, as an agent with the rulebook's catalogue could propose it.

    Raises RulebookInvalid with everything because of which no agent could: its form, its tool, its arguments.
    """
    try:
        entry = CallEntry.model_validate(value)
    except ValidationError as error:
        texts = [_placed(steps, text) for steps, text, _ in validation_problems(error, ("call",))]
        raise RulebookInvalid([Problem(file, 1, 1, text) for text in texts]) from error
    if problems := list(_never_proposed(entry, rulebook)):
        raise RulebookInvalid([Problem(file, 1, 1, problem) for problem in problems])
    return entry


def _placed(steps: Steps, text: str) -> str:
    """Return a problem with the key that it is below; the key itself stands in the text."""
    above = ".".join(map(str, steps[:-1]))
    return f"in {above!r}: {text}" if above else text


def _never_proposed(entry: CallEntry, rulebook: Rulebook) -> Iterator[str]:
    """Yield why no agent could propose this call."""
    if read_approver(entry.requester).kind not in {"person", "nobody"}:
        yield f"nobody asks for a call who is called {entry.requester!r}"
    for tool, spec, arguments in [
        (entry.tool, entry.spec(rulebook), entry.proposed),
        *((each.tool, rulebook.spec(each.tool), each.arguments) for each in entry.staged),
    ]:
        if spec is None:
            yield f"no agent could propose it: unknown tool {tool!r}{did_you_mean(tool, rulebook.tools)}"
            continue
        for problem in argument_problems(spec, arguments):
            yield f"no agent could propose it: among the arguments of {tool!r}: {problem}"


def explain(entry: CallEntry, rulebook: Rulebook, *, tell_people: bool = True) -> Explanation:
    """Return why `entry` gets its verdict, and perhaps who may decide. Never raises for what a call contains."""
    call = entry.facts(rulebook)
    verdict = judge(call, rulebook, only_tried=True)
    spec, approval = verdict.spec, verdict.approval
    notes: list[str] = []
    if verdict.plan:
        notes.append(_WHEN[verdict.plan.decide])
        approval = approval or OPERATORS_DECIDE
    notes += _commit_notes(entry, rulebook)
    if verdict.demands:
        notes.append("The rule decides only while its limits have room; without, the rules below it are asked.")
    directory = rulebook.directory if tell_people else None
    if approval and directory:
        notes += _decision_notes(approval, call, directory)
    return Explanation(
        effect=verdict.effect,
        rule=verdict.rule,
        reason=verdict.reason,
        model_reason=verdict.model_reason,
        notes=notes,
        tried=list(_tried(call, spec, rulebook)) if spec else [],
        deciders=list(_deciders(approval, call, directory)) if approval else [],
        approval=approval.model_dump(mode="json") if approval else None,
        stage=verdict.plan.model_dump(mode="json") if verdict.plan else None,
    )


def _commit_notes(entry: CallEntry, rulebook: Rulebook) -> Iterator[str]:
    """Yield what is to be known of the entries of a commit."""
    if entry.tool == COMMIT_TOOL and not entry.staged:
        yield "What the rules of its entries ask is not in it: say in `staged` which calls they are."
    for number, verdict in enumerate(entry.verdicts(rulebook), 1):
        told = f"staged by {verdict.rule}" if verdict.plan else f"not staged, but {verdict.effect} by {verdict.rule}"
        yield f"Entry {number}, a call of {entry.staged[number - 1].tool}, is {told}."


def argument_problems(spec: ToolSpec, arguments: Mapping[str, Any]) -> list[str]:
    """Return how arguments do not fit their tool; such a call is answered by the agent and never judged."""
    return [f"{error.pointer or '/'} {error.detail}" for error in validate_arguments(spec, dict(arguments))]


def _tried(call: CallFacts, spec: ToolSpec, rulebook: Rulebook) -> Iterator[Tried]:
    for step in walk(call, spec, rulebook, only_tried=True):
        if step.error is not None:
            yield Tried(rule=step.rule.name, outcome="failed", why=error_text(step.error, spec))
        else:
            yield Tried(rule=step.rule.name, outcome="passed_over" if step.why else "decided", why=step.why)


def _decision_notes(approval: ApprovalRule, call: CallFacts, directory: Directory) -> Iterator[str]:
    held = would_be_held(call, approval)
    if problem := deciders.undecidable(held, directory):
        yield f"Such a call {problem}."
    if approval.condition and any("operators" in panel.approvers for panel in deciders.panels(held)):
        yield "The condition on who may decide is asked of operators too; who they are is not known here."


def _deciders(approval: ApprovalRule, call: CallFacts, directory: Directory | None) -> Iterator[Deciders]:
    for number, panel in enumerate(deciders.panels(would_be_held(call, approval))):
        people = (
            []
            if directory is None
            else sorted(
                name
                for name in _named(panel.approvers, call, directory)
                if name == OPERATORS or number in panels_of(name, call, approval, directory)
            )
        )
        yield Deciders(approvals=panel.approvals, approvers=list(panel.approvers), people=people)


def _named(approvers: Sequence[str], call: CallFacts, directory: Directory) -> set[str]:
    """Return everybody who is meant by `approvers`, whether they may decide this call or not."""
    found: set[str] = set()
    for each in approvers:
        match read_approver(each).kind:
            case "requester":
                found.add(call.requester)
            case "group":
                found |= {identity_of(name) for name in directory.behind(each)}
            case _:
                found.add(each)
    return found
