"""What a rulebook may get wrong although each of its words is right: rules that nobody reaches or nobody can decide.

Every check notes its problem at the place that its author has to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from services.policy.conditions import plain, unknown_arguments
from services.policy.rulebook_entries import ApprovalEntry
from services.policy.rules import GROUP, RESERVED_NAMES, Rule
from shared.catalog import ToolSpec
from shared.directory import Directory
from shared.messages.approvals import strengths_met
from shared.person_condition import PersonConditionInvalid, compile_person_condition
from shared.tool_schema import argument_names
from shared.yaml_source import Steps, YamlSource

_PERSON = "person:"


@dataclass(frozen=True, slots=True)
class Scope:
    """What an approval is checked against: who there is, and the calls it may be about."""

    directory: Directory
    tools: Sequence[ToolSpec]
    agent: str = "*"
    requesters: tuple[str, ...] = ("*",)
    #: Channels that the file declares; None where it declares none.
    channels: Sequence[str] | None = None

    def of(self, rule: Rule) -> Scope:
        """Return the scope of one rule's calls."""
        tools = [spec for spec in self.tools if spec.name in rule.tools]
        return replace(self, tools=tools, agent=rule.agent, requesters=rule.requesters)


def check_name(source: YamlSource, steps: Steps, rule: Rule, above: list[Rule]) -> None:
    """Report a name that verdicts need for themselves, or that another rule has."""
    if rule.name in RESERVED_NAMES:
        source.report((*steps, "name"), f"the name {rule.name!r} is reserved")
    if any(rule.name == other.name for other in above):
        source.report((*steps, "name"), f"duplicate rule name {rule.name!r}")


def check_reachable(
    source: YamlSource, steps: Steps, rule: Rule, when: str | None, above: Iterable[tuple[Rule, str | None]]
) -> None:
    """Report a rule whose calls are all decided by rules above it: those without a condition, or with the same one."""
    catching = [other for other, text in above if text in {None, when} and _catches_all(other, rule)]
    if rule.tools and rule.tools <= frozenset[str]().union(*(other.tools for other in catching)):
        names = ", ".join(repr(other.name) for other in catching if other.tools & rule.tools)
        source.report((*steps, "name"), f"never reached: {names} above decides every call this rule matches")


def _catches_all(other: Rule, rule: Rule) -> bool:
    return (
        other.agent in {"*", rule.agent}
        and other.tenant in {"*", rule.tenant}
        and other.labels.items() <= dict(rule.labels).items()
        and ("*" in other.requesters or set(rule.requesters) <= set(other.requesters))
    )


def check_requesters(source: YamlSource, steps: Steps, requesters: Sequence[str], directory: Directory) -> None:
    """Report groups and people whom the directory does not have: such a rule never decides."""
    for index, requester in enumerate(requesters):
        if problem := _nobody(requester, directory):
            source.report((*steps, index) if (*steps, index) in source.values else steps, problem)


def check_approval(source: YamlSource, steps: Steps, entry: ApprovalEntry, scope: Scope) -> None:
    """Report everything because of which this approval could not be decided, or by the wrong people."""
    nobody = [*_unknown_people(entry, scope.directory), *_excluded(entry)]
    for below, problem in (
        *(nobody or _too_few(entry, scope)),
        *_too_late(entry),
        *_unknown_channels(entry, scope.channels),
        *_unknown_bounds(entry, scope.tools),
        *_no_window(entry),
        *_nothing_waits(entry),
        *_cannot_be_said(entry),
    ):
        source.report((*steps, *below), problem)
    for offset, problem in _condition_problems(entry.condition, scope.tools):
        source.report((*steps, "condition"), problem, inside=offset)


def _condition_problems(text: str, tools: Sequence[ToolSpec]) -> list[tuple[int, str]]:
    """Return what is wrong with a condition on who may decide, each with its offset; none where there is none."""
    if not text:
        return []
    try:
        compile_person_condition(text)
    except PersonConditionInvalid as error:
        return [(offset, plain(problem)) for offset, problem in error.problems]
    # Arguments are those of the call here; blanks keep every offset where it is.
    return unknown_arguments(text.replace("call.arguments", "     arguments"), tools)


def _mentions(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    """Yield everybody who may say yes, each with the steps to where they are named."""
    lists: list[tuple[Steps, list[str]]] = [(("approvers",), entry.approvers)]
    lists += [(("alternatives", at, "approvers"), panel.approvers) for at, panel in enumerate(entry.alternatives)]
    lists += [(("escalations", at, "approvers"), step.approvers) for at, step in enumerate(entry.escalations)]
    for steps, approvers in lists:
        yield from (((*steps, index), approver) for index, approver in enumerate(approvers))


def _unknown_people(entry: ApprovalEntry, directory: Directory) -> Iterator[tuple[Steps, str]]:
    for steps, approver in (*_mentions(entry), *((("veto", at), each) for at, each in enumerate(entry.veto))):
        if problem := _nobody(approver, directory):
            yield steps, problem


def _nobody(approver: str, directory: Directory) -> str | None:
    """Return why an approver or requester stands for nobody; None where they stand for somebody or are a pattern."""
    kind, _, name = approver.partition(":")
    if approver.startswith(GROUP):
        if name not in directory.groups:
            return f"unknown group {name!r}"
        return None if directory.members(name) else f"group {name!r} has no active members"
    if kind != "person" or not directory.people or any(char in name for char in "*?["):
        return None
    if name not in directory.people:
        return f"unknown person {name!r}"
    return None if directory.is_active(name) else f"person {name!r} is not active"


def _excluded(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    """Yield where four eyes and the approvers contradict each other."""
    if "requester" in entry.exclude:
        for steps, approver in _mentions(entry):
            if approver == "requester":
                yield steps, "the requester is asked here, and 'exclude' says that they may not decide"
        return
    if not entry.exclude:
        return
    for steps, approvers, approvals in _panels(entry):
        if approvals == 1 and "requester" in approvers:
            index = approvers.index("requester")
            yield (
                (*steps, "approvers", index),
                "the requester may approve this alone, in spite of four eyes: put 'requester' into 'exclude' too",
            )


def _panels(entry: ApprovalEntry) -> Iterator[tuple[Steps, list[str], int]]:
    yield (), entry.approvers, entry.approvals
    for at, panel in enumerate(entry.alternatives):
        yield ("alternatives", at), panel.approvers, panel.approvals


def _too_few(entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[Steps, str]]:
    """Yield panels that want more approvals than there are people, also once everybody was asked."""
    asked_later = [approver for step in entry.escalations for approver in step.approvers]
    for steps, approvers, wanted in _panels(entry):
        for agent in _agents(scope, entry):
            found = _how_many([*approvers, *asked_later], entry, scope, agent)
            if found is not None and found < wanted:
                who = "nobody" if found == 0 else f"only {found}"
                where = f" where the owners of agent {agent!r} are excluded" if agent else ""
                at = (*steps, "approvals") if wanted > 1 else (*steps, "approvers")
                yield at, f"{wanted} must approve, but {who} may{where}"
                break


def _agents(scope: Scope, entry: ApprovalEntry) -> list[str]:
    """Return the agents whose owners are excluded, and the empty name for any other."""
    owned = scope.directory.owners if "agent_owner" in entry.exclude else ()
    return ["", *(agent for agent in owned if fnmatchcase(agent, scope.agent))]


def _how_many(approvers: Sequence[str], entry: ApprovalEntry, scope: Scope, agent: str) -> int | None:
    """Return how many people there are behind `approvers` at most; None where nobody can tell."""
    if "operators" in approvers:
        return None
    directory = scope.directory
    people: set[str] = set()
    for approver in approvers:
        if approver.startswith(_PERSON):
            people.add(approver.removeprefix(_PERSON))
        elif approver.startswith(GROUP):
            people |= directory.members(approver.removeprefix(GROUP))
    people = {name for name in people if directory.is_active(name)} - directory.owners.get(agent, frozenset())
    if "requester" in entry.exclude and len(scope.requesters) == 1:
        people.discard(scope.requesters[0].removeprefix(_PERSON))
    return len(people) + ("requester" in approvers and "requester" not in entry.exclude)


def _too_late(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    expires = entry.expires_after_seconds
    late = f"the approval has expired by then, after {expires} seconds"
    for at, seconds in enumerate(entry.reminders_after_seconds):
        if seconds >= expires:
            yield ("reminders_after_seconds", at), late
    for at, step in enumerate(entry.escalations):
        if step.after_seconds >= expires:
            yield ("escalations", at, "after_seconds"), late


def _unknown_channels(entry: ApprovalEntry, channels: Sequence[str] | None) -> Iterator[tuple[Steps, str]]:
    if channels is None:
        return
    lists: list[tuple[Steps, list[str]]] = [(("channels",), entry.channels)]
    lists += [(("escalations", at, "channels"), step.channels) for at, step in enumerate(entry.escalations)]
    for steps, named in lists:
        for index, channel in enumerate(named):
            if channel not in channels:
                yield (*steps, index), f"unknown channel {channel!r}"


def _unknown_bounds(entry: ApprovalEntry, tools: Sequence[ToolSpec]) -> Iterator[tuple[Steps, str]]:
    names = [argument_names(spec.parameters) for spec in tools]
    if entry.grants is None or not names or None in names:
        return
    known = frozenset[str]().union(*(name for name in names if name is not None))
    for index, bound in enumerate(entry.grants.bounds):
        if bound not in known:
            at = ("grants", "bounds", index)
            yield at, f"no argument {bound!r} in {', '.join(spec.name for spec in tools)}"


def _no_window(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    if "veto_on" in entry.model_fields_set and not entry.veto_window_seconds:
        yield ("veto_on",), "'veto_on' says nothing without 'veto_window_seconds'"


def _nothing_waits(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    on_message = entry.on_message_while_pending
    if entry.while_pending == "continue" and on_message in {"wait", "supersede"}:
        yield (
            ("on_message_while_pending",),
            f"{on_message!r} says nothing with 'while_pending: continue'",
        )


def _cannot_be_said(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    """Yield why a message in the chat could never decide what its rule lets it decide."""
    if not entry.by_message:
        return
    if entry.min_strength not in strengths_met("web_session", said=True):
        yield ("by_message",), f"a message is known by 'chat', which is less than 'min_strength: {entry.min_strength}'"
    if entry.reason_required != "never":
        yield ("by_message",), f"a message gives no reason, and 'reason_required' is {entry.reason_required!r}"
