"""Counting votes: when do they decide, and which way. Every vote is judged by the directory as it is now.

A vote never comes to count for more than it did when votes were last counted. If its maker could not decide then, it is
void until they vote again; a place, a group or an escalation that came later waits for a vote of its own. So only a new
vote can make votes enough, and what is enough is decided in the transaction that counts it.

Pure: approval asks it of every decision, the gateway of every card, so that a page counts as the decision will.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from placet.domain import deciders
from placet.domain.approvers import OPERATORS, read_approver
from placet.domain.deciders import Held, Seats, Voter
from placet.domain.directory import Directory

#: Stands among the numbers of panels for a denial that decides by right of veto.
VETO = -1
#: What votes can decide.
Way = Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Vote:
    """What one person last said about the arguments as they are; an edit counts as its maker's approval."""

    voter: Voter
    verb: Literal["approve", "deny", "abstain"]


def groups_needed(held: Held, voter: Voter, panels: Iterable[int]) -> list[list[str]]:
    """Return the groups of each of these panels of a voter where nothing else lets them decide."""
    every = deciders.panels(held)
    roles = set(voter.roles)
    # Who showed no key is an operator by the group of that name.
    passing = roles & {OPERATORS} if voter.keyless else set()
    found: list[list[str]] = []
    for number in sorted(panels):
        named = set(every[number].approvers)
        if voter.person not in named and named.isdisjoint(roles - passing):
            groups = {each.name for each in map(read_approver, named) if each.kind == "group"}
            found.append(sorted(groups | (named & passing)))
    return found


@dataclass(frozen=True, slots=True)
class PanelTally:
    """How far one way to say yes is."""

    #: Whom it names by now; whom an escalation asked too is among them.
    approvers: tuple[str, ...]
    #: Approvals that decide, and those that count.
    approvals: int
    counted: int


@dataclass(frozen=True, slots=True)
class Tally:
    """What the votes come to."""

    #: What the votes decide; None where they do not yet.
    way: Way | None
    panels: tuple[PanelTally, ...]
    denials: int
    #: What the last vote of each voter counts for; an abstention counts for nobody but is heard.
    seats: Seats
    #: Numbers of the panels of each yes that is needed; any one panel of it is enough.
    demanded: tuple[range, ...] = ()

    @property
    def counting(self) -> frozenset[str]:
        """Of whom the last vote counts, by their identity."""
        return frozenset(person for person, numbers in self.seats.items() if numbers)

    @property
    def words(self) -> str:
        """How far the approval is: `1 of 2 approvals`, alternatives joined by `or`, what must all be met by `and`."""
        said = [f"{panel.counted} of {panel.approvals}" for panel in self.panels]
        return f"{self.joined(said, 'or', 'and')} approvals"

    def joined(self, said: Sequence[str], either: str, both: str) -> str:
        """Return what is said of each panel in one line, with the words for `or` and `and` between."""
        groups = self.demanded or (range(len(said)),)
        return f" {both} ".join(f" {either} ".join(said[number] for number in numbers) for numbers in groups)


def last_votes(votes: Iterable[Vote]) -> dict[str, Vote]:
    """Return what each person said last, by their identity; `votes` are in the order in which they were made.

    A visitor's token is in the hands of everybody who opened the conversation or took it. So what it says replaces
    nobody's own vote, and while one of them has voted with a proof of their own it counts for nothing, unless it alone
    denies: one person never fills two places with two proofs.
    """
    last: dict[str, Vote] = {}
    for vote in votes:
        last.pop(vote.voter.identity, None)
        last[vote.voter.identity] = vote
    return {who: vote for who, vote in last.items() if not _is_said_in_person(vote, last)}


def _is_said_in_person(vote: Vote, last: Mapping[str, Vote]) -> bool:
    """Tell whether a holder of a token has voted themselves, so that its vote adds nothing."""
    own = [last[who].verb for who in vote.voter.behind if who in last and who != vote.voter.identity]
    return bool(own) and (vote.verb != "deny" or "deny" in own)


def behind_others(last: Mapping[str, Vote], person: str) -> set[str]:
    """Return everybody who may be behind the votes of others."""
    return {each for who, vote in last.items() if who != person for each in (who, *vote.voter.behind)} - {person}


def approves_alone(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether an approval of this person needs nobody else's."""
    return _fills_all(held, deciders.own_panels(held, voter, directory))


def decided_alone(held: Held, vote: Vote, directory: Directory) -> Way | None:
    """Return what this vote decides whatever others said; None where the other votes must be counted.

    Only a place of one's own counts here: whether a delegate's does depends on the other votes. Where it takes several
    denials, some may be there already, and a denial that decides goes before any approval.
    """
    own = deciders.own_panels(held, vote.voter, directory)
    first_denial_decides = held.approval_rule.denials == 1
    if vote.verb == "approve" and first_denial_decides and _fills_all(held, own):
        return "approve"
    if vote.verb == "deny" and ((own and first_denial_decides) or _vetoes(held, vote, directory)):
        return "deny"
    return None


def _fills_all(held: Held, numbers: Collection[int]) -> bool:
    """Tell whether one approval in these panels is every yes that is needed."""
    ways = deciders.panels(held)
    return all(
        any(number in numbers and ways[number].approvals == 1 for number in wanted)
        for wanted in deciders.demanded(held.approval_rule)
    )


def tally(held: Held, votes: Iterable[Vote], directory: Directory, new: Vote | None = None) -> Tally:
    """Return what votes come to, and `new`, which is just being made; of each person the last one counts.

    A denial that decides goes first.
    """
    last = last_votes((*votes, *([new] if new else [])))
    seats = {person: _seats(held, vote, directory, behind_others(last, person)) for person, vote in last.items()}
    if held.seats is not None:
        seats |= {
            person: numbers & held.seats.get(person, frozenset())
            for person, numbers in seats.items()
            if new is None or last[person] is not new
        }
    approvals = [seats[person] for person, vote in last.items() if vote.verb == "approve"]
    denials = [seats[person] for person, vote in last.items() if vote.verb == "deny"]
    denying = sum(1 for numbers in denials if numbers - {VETO})
    wanted = deciders.demanded(held.approval_rule)
    panels = tuple(
        PanelTally(tuple(panel.approvers), panel.approvals, sum(1 for numbers in approvals if number in numbers))
        for number, panel in enumerate(deciders.panels(held))
    )
    if any(VETO in numbers for numbers in denials) or denying >= held.approval_rule.denials:
        return Tally("deny", panels, denying, seats, wanted)
    enough = all(any(panels[number].counted >= panels[number].approvals for number in each) for each in wanted)
    return Tally("approve" if enough else None, panels, denying, seats, wanted)


def _seats(held: Held, vote: Vote, directory: Directory, voted: Collection[str]) -> frozenset[int]:
    """Return what a vote counts for by people and groups as they are."""
    numbers = deciders.all_panels(held, vote.voter, directory, voted)
    return numbers | {VETO} if vote.verb == "deny" and _vetoes(held, vote, directory) else numbers


def _vetoes(held: Held, vote: Vote, directory: Directory) -> bool:
    return deciders.may_veto(held, vote.voter, directory)
