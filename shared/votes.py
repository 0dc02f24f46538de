"""Counting votes: when do they decide, and which way. Every vote is judged by the directory as it is now.

Pure: approval asks it of every decision, the gateway of every card, so that a page counts as the decision will.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from shared import deciders
from shared.deciders import Held, Voter
from shared.directory import Directory

#: What votes can decide.
Way = Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Vote:
    """What one person last said about the arguments as they are; an edit counts as its maker's approval."""

    voter: Voter
    verb: Literal["approve", "deny", "abstain"]


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
    #: Of whom the last vote counts, as `Voter.counts_as` names them; an abstention counts for nobody but is heard.
    counting: frozenset[str]

    @property
    def words(self) -> str:
        """How far the approval is: `1 of 2 approvals`, panels that are alternatives joined by `or`."""
        return " or ".join(f"{panel.counted} of {panel.approvals}" for panel in self.panels) + " approvals"


def approves_alone(held: Held, voter: Voter, directory: Directory) -> bool:
    """Tell whether an approval of this person needs nobody else's."""
    return _fills_one(held, deciders.own_panels(held, voter, directory))


def decided_alone(held: Held, vote: Vote, directory: Directory) -> Way | None:
    """Return what this vote decides whatever others said; None where the other votes must be counted.

    Only a place of one's own counts here: whether a delegate's does depends on the other votes. Where it takes several
    denials, some may be there already, and a denial that decides goes before any approval.
    """
    own = deciders.own_panels(held, vote.voter, directory)
    first_denial_decides = held.approval_rule.denials == 1
    if vote.verb == "approve" and first_denial_decides and _fills_one(held, own):
        return "approve"
    if vote.verb == "deny" and ((own and first_denial_decides) or _vetoes(held, vote, directory)):
        return "deny"
    return None


def _fills_one(held: Held, numbers: Iterable[int]) -> bool:
    return any(deciders.panels(held)[number].approvals == 1 for number in numbers)


def tally(held: Held, votes: Iterable[Vote], directory: Directory) -> Tally:
    """Return what votes come to; of each person the last one counts. A denial that decides goes first."""
    last = {vote.voter.counts_as: vote for vote in votes}
    seats = {
        person: deciders.all_panels(held, vote.voter, directory, last.keys() - {person})
        for person, vote in last.items()
    }
    vetoes = {person for person, vote in last.items() if vote.verb == "deny" and _vetoes(held, vote, directory)}
    approvals = [seats[person] for person, vote in last.items() if vote.verb == "approve"]
    denials = sum(1 for person, vote in last.items() if vote.verb == "deny" and seats[person])
    panels = tuple(
        PanelTally(tuple(panel.approvers), panel.approvals, sum(1 for numbers in approvals if number in numbers))
        for number, panel in enumerate(deciders.panels(held))
    )
    counting = frozenset(person for person in last if seats[person] or person in vetoes)
    if vetoes or denials >= held.approval_rule.denials:
        return Tally("deny", panels, denials, counting)
    enough = any(panel.counted >= panel.approvals for panel in panels)
    return Tally("approve" if enough else None, panels, denials, counting)


def _vetoes(held: Held, vote: Vote, directory: Directory) -> bool:
    return deciders.may_veto(held, vote.voter, directory)
