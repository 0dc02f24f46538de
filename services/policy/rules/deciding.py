"""Who could decide about a call if it were held by today's rulebook. Pure: approval asks the same of real ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placet.contracts.canonical import NotStrictJson, canonical_text
from placet.contracts.messages.approvals import ApprovalRule
from placet.domain import deciders
from placet.domain.approvers import is_person
from placet.domain.deciders import Delegation, Voter
from placet.domain.directory import Directory
from placet.policy.rules.call import CallFacts


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call as those who decide about it see it."""

    tool: str
    agent: str
    tenant: str
    requester: str
    conversation_id: str
    labels: Mapping[str, str]
    #: JSON text; empty where the arguments are none, and then a condition that looks at them has no answer.
    arguments: str


@dataclass(frozen=True, slots=True)
class WouldBeHeld:
    """A call that nobody has asked people about: no clock has moved on, and nobody gave their place away."""

    call: AskedCall
    approval_rule: ApprovalRule
    steps_done: int = 0
    delegations: tuple[Delegation, ...] = ()
    seats: None = None


def would_be_held(call: CallFacts, approval: ApprovalRule) -> WouldBeHeld:
    """Return `call` as it would be held under `approval`."""
    same = {name: getattr(call, name) for name in ("tool", "agent", "tenant", "requester", "conversation_id", "labels")}
    return WouldBeHeld(AskedCall(**same, arguments=_text_of(call)), approval)


def voter(identity: str, call: CallFacts, *, keyless: bool = False) -> Voter:
    """Return somebody known as surely as they can be; whoever is no person has a conversation's token at most.

    Whose key may decide is not known here, so every person may be one of the operators, but for the `keyless`, who are
    what the directory says.
    """
    if not is_person(identity):
        return Voter(identity, ("requester",), "conversation_token", call.conversation_id)
    roles = ("operators", "requester") if identity == call.requester else ("operators",)
    return Voter(identity, roles, "web_session" if keyless else "api_key")


def panels_of(
    identity: str, call: CallFacts, approval: ApprovalRule, directory: Directory, *, keyless: bool = False
) -> frozenset[int]:
    """Return the numbers of the panels in which somebody could approve `call`; 0 is `approvers` itself."""
    held, who = would_be_held(call, approval), voter(identity, call, keyless=keyless)
    if not deciders.strong_enough(held, who.proof):
        return frozenset()
    return deciders.own_panels(held, who, directory)


def decides_alone(
    identity: str, call: CallFacts, approval: ApprovalRule, directory: Directory, *, keyless: bool = False
) -> bool:
    """Tell whether somebody's approval of `call` would be enough."""
    held, own = would_be_held(call, approval), panels_of(identity, call, approval, directory, keyless=keyless)
    ways = deciders.panels(held)
    return all(
        any(number in own and ways[number].approvals == 1 for number in wanted)
        for wanted in deciders.demanded(approval)
    )


def _text_of(call: CallFacts) -> str:
    try:
        return canonical_text(dict(call.arguments))
    except NotStrictJson:
        return ""
