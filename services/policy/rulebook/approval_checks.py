"""What an approval in a rulebook may get wrong although each of its words is right: nobody decides, or who should not.

Every check yields its problem with the steps to the place that its author has to change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placet.contracts.messages.approvals import strengths_met
from placet.domain.approvers import OPERATORS, REQUESTER, identity_of
from placet.domain.catalog import ToolSpec
from placet.domain.cel import ConditionInvalid, constant
from placet.domain.directory import Directory
from placet.domain.person_condition import VARIABLES, compile_person_condition, facts_of
from placet.domain.yaml_source import Steps, YamlSource
from placet.policy.rulebook.bound_checks import useless_bounds
from placet.policy.rulebook.entries import ApprovalEntry
from placet.policy.rulebook.four_eyes import may_hold, panels, people_alone, requester_alone
from placet.policy.rulebook.rule_checks import nobody_behind
from placet.policy.rulebook.scope import Scope
from placet.policy.rules.cel_checks import checked_type
from placet.policy.rules.cel_failures import failures
from placet.policy.rules.conditions import unknown_arguments


def check_approval(source: YamlSource, steps: Steps, entry: ApprovalEntry, scope: Scope) -> None:
    """Report everything because of which this approval could not be decided, or by the wrong people."""
    unknown, excluded = list(_unknown_people(entry, scope.directory)), list(_excluded(entry, scope))
    few = [] if excluded else [*_too_few(entry, scope), *_too_few_denials(entry, scope)]
    alone = [] if excluded else people_alone(entry, scope)
    for below, problem in (*(unknown or few), *alone):
        source.report_people((*steps, *below), problem)
    for below, problem in (
        *excluded,
        *_too_late(entry),
        *_unknown_channels(entry, scope.channels),
        *useless_bounds(entry, scope.tools),
        *_never_granted(entry),
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
        _check_condition(text, tools)
    except ConditionInvalid as error:
        return error.problems
    return []


def _check_condition(text: str, tools: Sequence[ToolSpec]) -> None:
    """Raise ConditionInvalid with what is wrong with a condition on who may decide."""
    compiled = compile_person_condition(text).expression
    if constant(text) is False:
        raise ConditionInvalid([(0, "the condition is false whoever decides, so nobody may")])
    # Arguments are those of the call here; blanks keep every offset where it is.
    unknown = unknown_arguments(text.replace("call.arguments", "     arguments"), tools)
    if problems := [*unknown, *failures(compiled)]:
        raise ConditionInvalid(problems)
    checked_type(text, VARIABLES, tools, under="call.arguments", only_doubles=True)


def _mentions(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    """Yield everybody who may say yes, each with the steps to where they are named."""
    lists: list[tuple[Steps, list[str]]] = [(("approvers",), entry.approvers)]
    lists += [(("alternatives", at, "approvers"), panel.approvers) for at, panel in enumerate(entry.alternatives)]
    lists += [(("escalations", at, "approvers"), step.approvers) for at, step in enumerate(entry.escalations)]
    for steps, approvers in lists:
        yield from (((*steps, index), approver) for index, approver in enumerate(approvers))


def _unknown_people(entry: ApprovalEntry, directory: Directory) -> Iterator[tuple[Steps, str]]:
    for steps, approver in (*_mentions(entry), *((("veto", at), each) for at, each in enumerate(entry.veto))):
        if problem := nobody_behind(approver, directory):
            yield steps, problem


def _excluded(entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[Steps, str]]:
    """Yield where four eyes and the approvers contradict each other."""
    if "requester" in entry.exclude:
        for steps, approver in (*_mentions(entry), *((("veto", at), each) for at, each in enumerate(entry.veto))):
            if approver == REQUESTER:
                yield steps, "the requester is asked here, and 'exclude' says that they may not decide"
    yield from requester_alone(entry, scope)


def _too_few(entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[Steps, str]]:
    """Yield panels that want more approvals than there are people, also once everybody was asked."""
    asked_later = [approver for step in entry.escalations for approver in step.approvers]
    for steps, approvers, wanted in panels(entry):
        for case in _cases(scope, entry):
            found = _how_many([*approvers, *asked_later], entry, scope, case)
            if found is not None and found < wanted:
                who = "nobody" if found == 0 else f"only {found}"
                at = (*steps, "approvals") if wanted > 1 else (*steps, "approvers")
                yield at, f"{wanted} must approve, but {who} may{case.said}"
                break


def _too_few_denials(entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[Steps, str]]:
    """Yield why the denials that are asked for can never come; where somebody has a veto, theirs is enough."""
    if entry.denials == 1 or entry.veto:
        return
    everybody = [approver for _, approver in _mentions(entry)]
    for case in _cases(scope, entry):
        found = _how_many(everybody, entry, scope, case)
        if found is not None and found < entry.denials:
            yield ("denials",), f"{entry.denials} must deny, but only {found} may{case.said}"
            return


@dataclass(frozen=True, slots=True)
class _Case:
    """Calls that differ in who may not decide."""

    #: The agent whose owners are excluded; empty for one without.
    agent: str = ""
    #: The person who asks and is excluded; empty for anybody else.
    asker: str = ""
    #: Which calls these are, for the message.
    said: str = ""


def _cases(scope: Scope, entry: ApprovalEntry) -> Iterator[_Case]:
    """Yield what there is to tell apart among the calls of a scope."""
    named = "requester" in entry.exclude and not scope.asks_for_anybody()
    askers = (scope.named_askers() if named else []) or [""]
    owned = scope.owned() if "agent_owner" in entry.exclude else []
    for asker in askers:
        said = f" where {asker} asks" if len(askers) > 1 else ""
        yield _Case(asker=asker, said=said)
        for agent in owned:
            yield _Case(agent, asker, f" where the owners of agent {agent!r} are excluded")


def _how_many(approvers: Sequence[str], entry: ApprovalEntry, scope: Scope, case: _Case) -> int | None:
    """Return how many people there are behind `approvers` at most; None where nobody can tell."""
    if OPERATORS in approvers:
        return None
    directory = scope.directory
    named = frozenset[str]().union(*(directory.behind(approver) for approver in approvers))
    others = named - directory.owners.get(case.agent, frozenset()) - {case.asker}
    known = {"call.agent": case.agent} if case.agent else {}
    known |= {"call.requester": identity_of(case.asker)} if case.asker else {}
    people = [
        name
        for name in others
        if directory.is_active(name) and may_hold(entry, scope, facts_of(identity_of(name), directory), known)
    ]
    return len(people) + (REQUESTER in approvers and "requester" not in entry.exclude)


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
            if channel not in channels and channel.partition(":")[0] not in channels:
                yield (*steps, index), f"unknown channel {channel!r}"


def _never_granted(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    if entry.grants is not None and all(wanted > 1 for _, _, wanted in panels(entry)):
        yield (
            ("grants",),
            "nobody can give this: it takes somebody whose approval decides alone, and each panel takes more",
        )


def _no_window(entry: ApprovalEntry) -> Iterator[tuple[Steps, str]]:
    for name in ("veto_on", "veto_within"):
        if name in entry.model_fields_set and not entry.veto_window_seconds:
            yield (name,), f"'{name}' says nothing without 'veto_window_seconds'"


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
