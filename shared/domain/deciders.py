"""Who may decide about a held call. Pure: approval asks it of every decision, the gateway of every line of an inbox.

Asked anew for each decision, and for each counted vote when a decision falls. Fails closed: an unknown group has no
members, an unknown approver is nobody, a condition without an answer is a no, a revoked key proves nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from placet.contracts.messages import ApprovalRule, DecisionClaims, Escalation, Panel
from placet.contracts.messages.approvals import Proof, strengths_met
from placet.contracts.visitors import ANONYMOUS, ANSWERED
from placet.domain.approvers import OPERATORS, REQUESTER, group_of, identity_of, is_person, person_id, read_approver
from placet.domain.conditions import holds, looks_at_call
from placet.domain.directory import Directory
from placet.domain.held import HeldCall


@dataclass(frozen=True, slots=True)
class Voter:
    """Somebody as the gateway proved them."""

    #: `person:ada`, or a visitor's id as the chat frontend chose it.
    person: str
    roles: tuple[str, ...]
    proof: Proof
    #: Set for a conversation token.
    conversation_id: str | None = None
    #: Set where an API key, or a session begun with one, proved them: what they decide stands and falls with it.
    key_id: str | None = None
    #: Who may have asked beside the requester, separated by spaces; empty for nobody. It is who opened the conversation
    #: with a key that may decide too, and so holds its token; who had a key that opened it, wrote for its visitor or
    #: took the token (owners, and makers of what was not taken over); and, with `ANSWERED` before them, who wrote in it
    #: as themselves, who asked for what a commit is made of, and who made such a key for the requester.
    opened_by: str = ""

    @property
    def identity(self) -> str:
        """Who was proven. A visitor's id never stands for a named person."""
        anonymous = self.proof == "conversation_token"
        return f"{ANONYMOUS}{self.person.removeprefix(ANONYMOUS)}" if anonymous else self.person

    @property
    def behind(self) -> tuple[str, ...]:
        """Identities that may have cast a vote of theirs: all holders of a token, else the voter."""
        holders = self.opened_by.split() if self.proof == "conversation_token" else []
        return tuple(each for each in holders if not each.startswith(ANSWERED)) or (self.identity,)

    @property
    def keyless(self) -> bool:
        """Whether no API key proved them: of a person the directory alone said who they are, and is asked again."""
        return self.key_id is None and self.proof != "api_key"

    @classmethod
    def of(cls, claims: DecisionClaims) -> Voter:
        """Return who makes a decision."""
        return cls(
            claims.person, tuple(claims.roles), claims.proof, claims.conversation_id, claims.key_id, claims.opened_by
        )


#: Identity of who voted -> what it counts for: numbers of panels, and `placet.domain.votes.VETO`.
Seats = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Delegation:
    """A person lets another one decide in their place. The place stays one: whoever votes first fills it."""

    by: Voter
    to: str

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Delegation:
        """Read back what `dataclasses.asdict` made."""
        return cls(Voter(**value["by"] | {"roles": tuple(value["by"]["roles"])}), value["to"])


class Held(Protocol):
    """A held call with what says who may decide about it, as it is by now."""

    @property
    def call(self) -> HeldCall:
        """The call."""

    @property
    def approval_rule(self) -> ApprovalRule:
        """The rule as it was pinned when the call was held."""

    @property
    def steps_done(self) -> int:
        """Number of the rule's reminders and escalations that were done."""

    @property
    def delegations(self) -> Sequence[Delegation]:
        """Who lets whom decide in their place."""

    @property
    def seats(self) -> Seats | None:
        """What each vote counted for when they were last counted; None where that was never kept."""


@dataclass(frozen=True, slots=True)
class _NoCall:
    """Stands where a condition does not look."""

    tool: str = ""
    agent: str = ""
    tenant: str = ""
    requester: str = ""
    arguments: str = "{}"
    labels: Mapping[str, str] = field(default_factory=dict)


_NO_CALL = _NoCall()


@dataclass(frozen=True, slots=True)
class Step:
    """Something that the clock does while an approval waits."""

    kind: Literal["reminded", "escalated"]
    after_seconds: int
    #: Whom to ask too; set exactly for an escalation.
    escalation: Escalation | None = None


def steps(rule: ApprovalRule) -> tuple[Step, ...]:
    """Return the rule's reminders and escalations in the order of their time; at the same time, escalations first."""
    found = [Step("escalated", each.after_seconds, each) for each in rule.escalations]
    found += [Step("reminded", seconds) for seconds in rule.reminders_after_seconds]
    return tuple(sorted(found, key=lambda step: step.after_seconds))


def escalations(held: Held) -> Iterator[Escalation]:
    """Yield the escalations that were done."""
    for step in steps(held.approval_rule)[: held.steps_done]:
        if step.escalation is not None:
            yield step.escalation


def strong_enough(held: Held, proof: Proof, *, said: bool = False) -> bool:
    """Tell whether somebody known by `proof`, who perhaps only said it in the chat, is known surely enough."""
    return held.approval_rule.min_strength in strengths_met(proof, said=said)


def panels(held: Held) -> list[Panel]:
    """Return the panels as they are by now, those of `also` behind the others: see `demanded`.

    Whom an escalation asked may decide in every one.
    """
    rule = held.approval_rule
    asked_too = [approver for escalation in escalations(held) for approver in escalation.approvers]
    found = [Panel(approvers=rule.approvers, approvals=rule.approvals), *rule.alternatives]
    for demand in rule.also:
        found += demand.panels
    if not asked_too:
        return found
    return [Panel(approvers=[*panel.approvers, *asked_too], approvals=panel.approvals) for panel in found]


def demanded(rule: ApprovalRule) -> tuple[range, ...]:
    """Return the numbers of the panels of each yes that is needed; any one panel of it is enough."""
    found = [range(1 + len(rule.alternatives))]
    for demand in rule.also:
        found.append(range(found[-1].stop, found[-1].stop + len(demand.panels)))
    return tuple(found)


def named(held: Held) -> tuple[str, ...]:
    """Return whom the approval names by now: who may approve, who may veto, and who was given another's place."""
    names = {approver for panel in panels(held) for approver in panel.approvers}
    names.update(held.approval_rule.veto, (each.to for each in held.delegations))
    return tuple(sorted(names))


def own_panels(held: Held, voter: Voter, directory: Directory) -> frozenset[int]:
    """Return the numbers of the panels that a person belongs to by themselves."""
    if _barred(held, voter, directory):
        return frozenset()
    found = enumerate(panels(held))
    numbers = frozenset(number for number, panel in found if _among(panel.approvers, held, voter, directory))
    return numbers - _closed_by_condition(held, voter, directory) if held.approval_rule.also else numbers


def _closed_by_condition(held: Held, voter: Voter, directory: Directory) -> frozenset[int]:
    """Return the panels of `also` whose own condition does not let a person decide."""
    rule = held.approval_rule
    pairs = zip(demanded(rule)[1:], rule.also, strict=True)
    closed = [numbers for numbers, demand in pairs if not holds(demand.condition, voter.identity, directory, held.call)]
    return frozenset(number for numbers in closed for number in numbers)


def conditions_met(rule: ApprovalRule, seats: Collection[int]) -> frozenset[str]:
    """Return the conditions that somebody has to meet who sits in these panels."""
    pairs = zip(demanded(rule)[1:], rule.also, strict=True)
    own = {demand.condition for numbers, demand in pairs if any(number in seats for number in numbers)}
    return frozenset(own | {rule.condition}) - {""}


def all_panels(held: Held, voter: Voter, directory: Directory, voted: Collection[str] = ()) -> frozenset[int]:
    """Return the panels that a person may vote in, for themselves or in the place of somebody who let them.

    A place is one: who voted themselves (`voted` has whom they count as) is not voted for.
    """
    own = own_panels(held, voter, directory)
    if not held.delegations or _barred(held, voter, directory):
        return own
    for delegation in held.delegations:
        if delegation.to == voter.identity and delegation.by.identity not in voted:
            own |= own_panels(held, delegation.by, directory)
    return own


def may_veto(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person's single denial decides by right of veto."""
    veto = held.approval_rule.veto
    return bool(veto) and not _barred(held, voter, directory) and _among(veto, held, voter, directory)


def may_approve(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person's approval can count."""
    return bool(all_panels(held, voter, directory))


def may_deny(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person's denial can count."""
    return may_approve(held, voter, directory) or may_veto(held, voter, directory)


def decides_now(held: Held, voter: Voter, directory: Directory, voted: Collection[str]) -> bool:
    """Tell whether somebody known so surely can approve or deny; `voted` is whom a place can be taken of no more."""
    may = all_panels(held, voter, directory, voted) or may_veto(held, voter, directory)
    return bool(may) and strong_enough(held, voter.proof)


def lets_in(rule: ApprovalRule, names: Iterable[str], agent: str, voter: Voter, directory: Directory) -> bool:
    """Tell whether somebody may be among those whom a rule lets decide, without looking at any call of `agent`.

    `names` are those that an approval under this rule has by now. What depends on the call is taken as true, but that
    somebody asked for it: whoever looks for that knows the calls.
    """
    if "agent_owner" in rule.exclude and voter.person in map(identity_of, directory.owners.get(agent, ())):
        return False
    person = directory.person(voter.identity)
    groups = {group_of(name) for name in directory.groups_of(voter.identity)}
    seated = not groups.isdisjoint(names) or voter.person in names or (OPERATORS in names and OPERATORS in voter.roles)
    known = person is None or person.active
    strong = rule.min_strength in strengths_met(voter.proof)
    if not (seated and known and strong):
        return False
    return _looks_at_call(rule) or holds(rule.condition, voter.identity, directory, _NO_CALL)


def undecidable(held: Held, directory: Directory, opened_by: str = "") -> str:
    """Return why an approval cannot be approved by anybody as things are now; empty where it can."""
    *_, found = person_by_person(held, directory, opened_by)
    return found


def person_by_person(held: Held, directory: Directory, opened_by: str = "") -> Iterator[str]:
    """Yield the answer of `undecidable` as the last, and nothing for each person who is asked up to there.

    Nobody counts operators, who are whoever has a key, so where they may decide there are always enough. `opened_by`
    is who may have asked beside the requester, as far as that is known.
    """
    ways = panels(held)
    lacking = [
        numbers
        for numbers in demanded(held.approval_rule)
        if not any(OPERATORS in ways[number].approvers for number in numbers)
    ]
    counts = [0] * len(ways)
    listed = _listed(held, directory, opened_by)
    while lacking and (voter := next(listed, None)):
        for number in own_panels(held, voter, directory):
            counts[number] += 1
        lacking = [each for each in lacking if all(counts[number] < ways[number].approvals for number in each)]
        yield ""
    lacks = [
        "; or ".join(
            f"{ways[number].approvals} of {', '.join(ways[number].approvers)} must approve, and {counts[number]} can"
            for number in numbers
        )
        for numbers in lacking
    ]
    yield f"cannot be decided: {'; and '.join(lacks)}" if lacks else ""


def depends_on_call(rule: ApprovalRule, names: Iterable[str]) -> bool:
    """Tell whether it takes the call to say who may decide under a rule; `names` are those that it has by now."""
    return "requester" in names or bool(rule.exclude) or _looks_at_call(rule)


def _listed(held: Held, directory: Directory, opened_by: str) -> Iterator[Voter]:
    """Yield everybody who is named, in person or in a group, each as surely known as they can be, once."""
    requester, named_ones = held.call.requester, set(named(held))
    people = {identity_of(name) for each in named_ones if each != OPERATORS for name in directory.behind(each)}
    if "requester" in named_ones and requester not in people:
        asker = _requester(held)
        if strong_enough(held, asker.proof):
            yield asker
    for person in people:
        yield Voter(person, ("requester",) if person == requester else (), "api_key", opened_by=opened_by)


def _requester(held: Held) -> Voter:
    call = held.call
    if is_person(call.requester):
        return Voter(call.requester, ("requester",), "api_key")
    return Voter(call.requester, ("requester",), "conversation_token", call.conversation_id)


def may_delegate(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person has a place of their own that somebody else could fill. A visitor has not."""
    return voter.conversation_id is None and bool(own_panels(held, voter, directory))


def may_be_delegate(held: Held, person: str, directory: Directory, opened_by: str = "") -> bool:
    """Tell whether somebody may decide in another's place: nobody whom a directory with people in it does not list."""
    delegate = Voter(person, (), "api_key", opened_by=opened_by)
    known = not directory.people or directory.person(person) is not None
    return known and is_person(person) and not _barred(held, delegate, directory)


def may_cancel(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether a person may cancel the call: whoever asked for it, and operators."""
    if not (_in_place(held, voter) and _active(voter, directory)):
        return False
    return _among((REQUESTER, OPERATORS), held, voter, directory)


def _barred(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether somebody may decide nothing here, whatever groups they are in."""
    return (
        not _in_place(held, voter)
        or not _active(voter, directory)
        or _excluded(held, voter, directory)
        or not holds(held.approval_rule.condition, voter.identity, directory, held.call)
    )


def _in_place(held: Held, voter: Voter) -> bool:
    """Tell whether the proof is good in this conversation. A conversation's token says nothing elsewhere."""
    if voter.proof == "conversation_token" and voter.conversation_id is None:
        return False
    return voter.conversation_id in {None, held.call.conversation_id}


def _active(voter: Voter, directory: Directory) -> bool:
    """Tell whether their proof is still good. Without a key it is what the directory says of them.

    A token is good while one of its holders may be somebody who has not left.
    """
    if voter.key_id in directory.revoked_keys:
        return False
    if voter.proof == "conversation_token":
        return any(person is None or person.active for person in map(directory.person, voter.behind))
    person = directory.person(voter.identity)
    return person.active if person else not voter.keyless


def _excluded(held: Held, voter: Voter, directory: Directory) -> bool:
    exclude, them = held.approval_rule.exclude, {voter.person, *voter.behind}
    if "requester" in exclude and not them.isdisjoint(_askers(held, voter)):
        return True
    owners = directory.owners.get(held.call.agent, frozenset())
    return "agent_owner" in exclude and not them.isdisjoint(map(identity_of, owners))


def _askers(held: Held, voter: Voter) -> set[str]:
    """Return whoever may have asked for the call: its requester, and whom the gateway knows beside them."""
    return {held.call.requester, *(each.removeprefix(ANSWERED) for each in voter.opened_by.split())}


def _looks_at_call(rule: ApprovalRule) -> bool:
    return any(map(looks_at_call, (rule.condition, *(each.condition for each in rule.also))))


def _among(approvers: Iterable[str], held: Held, voter: Voter, directory: Directory) -> bool:
    return any(_is(approver, held, voter, directory) for approver in approvers)


def _is(approver: str, held: Held, voter: Voter, directory: Directory) -> bool:
    if approver == REQUESTER:
        return REQUESTER in voter.roles and voter.person == held.call.requester
    # A visitor's id is chosen by the chat frontend, so a conversation token never proves a named person.
    if voter.proof == "conversation_token":
        return False
    if approver == OPERATORS:
        return OPERATORS in voter.roles and (not voter.keyless or directory.is_operator(voter.identity))
    if (wanted := read_approver(approver)).kind == "group":
        name = person_id(voter.identity)
        return name is not None and directory.is_member(name, wanted.name)
    return approver == voter.person
