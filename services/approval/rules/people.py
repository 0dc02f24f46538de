"""Who may decide: asked anew for each decision, and for each counted vote when a decision falls.

Fails closed: an unknown group has no members, an unknown approver is nobody, a condition without an answer is a no.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from services.approval.rules import timers
from services.approval.rules.approval import Approval, Voter
from shared.directory import Directory
from shared.errors import PlacetError
from shared.messages import Panel
from shared.messages.approvals import Proof, strengths_met
from shared.person_condition import compile_person_condition, facts_of


def strong_enough(approval: Approval, proof: Proof, *, said: bool = False) -> bool:
    """Tell whether somebody known by `proof`, who perhaps only said it in the chat, is known surely enough."""
    return approval.approval_rule.min_strength in strengths_met(proof, said=said)


def panels(approval: Approval) -> list[Panel]:
    """Return the ways to say yes, as they are by now: whom an escalation asked may decide in every one."""
    rule = approval.approval_rule
    asked_too = [approver for escalation in timers.escalations(approval) for approver in escalation.approvers]
    first = Panel(approvers=rule.approvers, approvals=rule.approvals)
    if not asked_too:
        return [first, *rule.alternatives]
    return [
        Panel(approvers=[*panel.approvers, *asked_too], approvals=panel.approvals)
        for panel in (first, *rule.alternatives)
    ]


def deciders(approval: Approval) -> tuple[str, ...]:
    """Return whom the approval names by now: who may approve, who may veto, and who was given another's place."""
    named = {approver for panel in panels(approval) for approver in panel.approvers}
    named.update(approval.approval_rule.veto, (each.to for each in approval.delegations))
    return tuple(sorted(named))


def own_panels(approval: Approval, voter: Voter, directory: Directory) -> frozenset[int]:
    """Return the numbers of the panels that a person belongs to by themselves."""
    if _barred(approval, voter, directory):
        return frozenset()
    found = enumerate(panels(approval))
    return frozenset(number for number, panel in found if _among(panel.approvers, approval, voter, directory))


def all_panels(approval: Approval, voter: Voter, directory: Directory, voted: Collection[str] = ()) -> frozenset[int]:
    """Return the panels that a person may vote in, for themselves or in the place of somebody who let them.

    A place is one: who voted themselves (`voted` has their identities) is not voted for.
    """
    own = own_panels(approval, voter, directory)
    if not approval.delegations or _barred(approval, voter, directory):
        return own
    for delegation in approval.delegations:
        if delegation.to == voter.identity and delegation.by.identity not in voted:
            own |= own_panels(approval, delegation.by, directory)
    return own


def may_veto(approval: Approval, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person's single denial decides by right of veto."""
    veto = approval.approval_rule.veto
    return bool(veto) and not _barred(approval, voter, directory) and _among(veto, approval, voter, directory)


def may_approve(approval: Approval, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person's approval can count."""
    return bool(all_panels(approval, voter, directory))


def may_deny(approval: Approval, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person's denial can count."""
    return may_approve(approval, voter, directory) or may_veto(approval, voter, directory)


def may_delegate(approval: Approval, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person has a place of their own that somebody else could fill. A visitor has not."""
    return voter.conversation_id is None and bool(own_panels(approval, voter, directory))


def may_be_delegate(approval: Approval, person: str, directory: Directory) -> bool:
    """Tell whether somebody may decide in another's place."""
    delegate = Voter(person, (), "api_key")
    return person.startswith("person:") and not _barred(approval, delegate, directory)


def may_operate(approval: Approval, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person may move the deadline: operators of the tenant may."""
    return _in_place(approval, voter) and _active(voter, directory) and _is("operators", approval, voter, directory)


def may_cancel(approval: Approval, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person may cancel the call: whoever asked for it, and operators."""
    if not (_in_place(approval, voter) and _active(voter, directory)):
        return False
    return _among(("requester", "operators"), approval, voter, directory)


def _barred(approval: Approval, voter: Voter, directory: Directory) -> bool:
    """Tell whether somebody may decide nothing here, whatever groups they are in."""
    return (
        not _in_place(approval, voter)
        or not _active(voter, directory)
        or _excluded(approval, voter, directory)
        or not _condition_holds(approval, voter, directory)
    )


def _in_place(approval: Approval, voter: Voter) -> bool:
    """Tell whether the proof is good in this conversation. A conversation's token says nothing elsewhere."""
    if voter.proof == "conversation_token" and voter.conversation_id is None:
        return False
    return voter.conversation_id in {None, approval.call.conversation_id}


def _active(voter: Voter, directory: Directory) -> bool:
    person = directory.person(voter.identity)
    return person is None or directory.is_active(person.id)


def _excluded(approval: Approval, voter: Voter, directory: Directory) -> bool:
    exclude = approval.approval_rule.exclude
    if "requester" in exclude and voter.person == approval.call.requester:
        return True
    owners = directory.owners.get(approval.call.agent, frozenset())
    return "agent_owner" in exclude and voter.person in {f"person:{owner}" for owner in owners}


def _condition_holds(approval: Approval, voter: Voter, directory: Directory) -> bool:
    text = approval.approval_rule.condition
    if not text:
        return True
    try:
        return compile_person_condition(text).holds(facts_of(voter.identity, directory), approval.call)
    except PlacetError:
        return False


def _among(approvers: Iterable[str], approval: Approval, voter: Voter, directory: Directory) -> bool:
    return any(_is(approver, approval, voter, directory) for approver in approvers)


def _is(approver: str, approval: Approval, voter: Voter, directory: Directory) -> bool:
    if approver == "requester":
        return "requester" in voter.roles and voter.person == approval.call.requester
    # A visitor's id is chosen by the chat frontend, so a conversation token never proves a named person.
    if voter.proof == "conversation_token":
        return False
    if approver == "operators":
        return "operators" in voter.roles
    kind, _, name = approver.partition(":")
    if kind == "group":
        person = directory.person(voter.identity)
        return person is not None and person.id in directory.members(name)
    return approver == voter.person
