"""Four eyes that see only two: who could approve a call alone although its rule excludes somebody.

As far as a rulebook says so by itself: by whom it names, by its directory, and by conditions that are decided before
there is a call. A condition that depends on more may hold, so it protects nobody here.
"""

from __future__ import annotations

from collections.abc import Iterator

from placet.contracts.messages.approvals import strengths_met
from placet.contracts.visitors import rule_name
from placet.domain.approvers import REQUESTER, identity_of, person_id
from placet.domain.cel import ConditionInvalid
from placet.domain.person_condition import PersonFacts, compile_person_condition, facts_of
from placet.domain.yaml_source import Steps
from placet.policy.rulebook.entries import ApprovalEntry
from placet.policy.rulebook.scope import Scope

_REQUESTER_ALONE = "may approve this alone, in spite of four eyes: put 'requester' into 'exclude' too"
_OWNER_ALONE = "may approve its calls alone, in spite of four eyes: put 'agent_owner' into 'exclude' too"


def panels(entry: ApprovalEntry) -> Iterator[tuple[Steps, list[str], int]]:
    """Yield the ways to say yes: the steps to each, its approvers, and how many must approve."""
    yield (), entry.approvers, entry.approvals
    for at, panel in enumerate(entry.alternatives):
        yield ("alternatives", at), panel.approvers, panel.approvals


def requester_alone(entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[Steps, str]]:
    """Yield where an approval lets whoever asked approve alone, though it excludes the agent's owners."""
    if "requester" in entry.exclude or not entry.exclude:
        return
    askers = [asker for asker in scope.askers() if _may_decide_own(asker, entry, scope)]
    for steps, approvers in _alone(entry):
        if REQUESTER in approvers and askers:
            yield (*steps, "approvers", approvers.index(REQUESTER)), f"the requester {_REQUESTER_ALONE}"


def people_alone(entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[Steps, str]]:
    """Yield where somebody of the directory could approve alone what they ask for, or what their own agent asks for."""
    if "requester" not in entry.exclude and entry.exclude:
        askers = [identity_of(name) for name in scope.named_askers()]
        askers = [asker for asker in askers if _may_decide_own(asker, entry, scope)]
        for steps, at, names in _seats(entry, scope):
            if found := next((asker for asker in askers if person_id(asker) in names), None):
                yield (*steps, "approvers", at), f"{found}, who may ask for it, {_REQUESTER_ALONE}"
    if "agent_owner" not in entry.exclude and entry.exclude:
        for steps, at, names in _seats(entry, scope):
            if owned := next(_owners_among(names, entry, scope), None):
                owner, agent = owned
                yield (*steps, "approvers", at), f"{owner}, who owns agent {agent!r}, {_OWNER_ALONE}"


def _alone(entry: ApprovalEntry) -> Iterator[tuple[Steps, list[str]]]:
    """Yield lists of approvers of whom each may approve alone: whom an escalation asks may do so in every panel."""
    found = [(steps, approvers) for steps, approvers, approvals in panels(entry) if approvals == 1]
    yield from found
    if found:
        yield from ((("escalations", at), step.approvers) for at, step in enumerate(entry.escalations))


def _seats(entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[Steps, int, frozenset[str]]]:
    """Yield each approver who may approve alone: the steps to the list, the place in it, and the people behind."""
    for steps, approvers in _alone(entry):
        for at, named in enumerate(approvers):
            people = scope.directory.behind(named)
            yield steps, at, frozenset(name for name in people if scope.directory.is_active(name))


def _may_decide_own(asker: str, entry: ApprovalEntry, scope: Scope) -> bool:
    """Tell whether somebody may decide a call that they ask for themselves, as far as nothing rules that out."""
    person = person_id(asker)
    if entry.min_strength not in strengths_met("conversation_token" if person is None else "api_key"):
        return False
    if person in scope.directory.owners.get(scope.agent, frozenset()):
        return False
    facts = PersonFacts(rule_name(asker)) if person is None else facts_of(asker, scope.directory)
    return may_hold(entry, scope, facts, {"call.requester": asker})


def _owners_among(names: frozenset[str], entry: ApprovalEntry, scope: Scope) -> Iterator[tuple[str, str]]:
    """Yield the owners among people whom the approval lets decide about their agent, each with the agent."""
    only = scope.named_askers() if not scope.asks_for_anybody() else []
    for agent in scope.owned():
        for name in sorted(names & scope.directory.owners[agent]):
            owner = identity_of(name)
            # Where nobody else can ask, the owner asks, and as the requester they are excluded.
            if only != [name] and may_hold(entry, scope, facts_of(owner, scope.directory), {"call.agent": agent}):
                yield owner, agent


def may_hold(entry: ApprovalEntry, scope: Scope, facts: PersonFacts, call: dict[str, str]) -> bool:
    """Tell whether the approval's condition may let this person decide; `call` is what is known of the call beside."""
    if not entry.condition:
        return True
    try:
        condition = compile_person_condition(entry.condition)
    except ConditionInvalid:
        return True
    return condition.expression.decided({**facts.variables, **scope.known, **call}) is not False
