"""Counting votes: when do they decide, and which way. Every vote is judged by the directory as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from services.approval.rules.approval import Approval
from services.approval.states import Event
from shared import deciders
from shared.deciders import Voter
from shared.directory import Directory


@dataclass(frozen=True, slots=True)
class Vote:
    """What one person last said about the arguments as they are; an edit counts as its maker's approval."""

    voter: Voter
    verb: Literal["approve", "deny", "abstain"]


@dataclass(frozen=True, slots=True)
class Tally:
    """What the votes come to."""

    #: What the votes decide; None where they do not yet.
    event: Event | None
    #: For each panel: approvals that count, and approvals that decide.
    panels: tuple[tuple[int, int], ...]
    denials: int

    @property
    def words(self) -> str:
        """How far the approval is: `1 of 2 approvals`, panels that are alternatives joined by `or`."""
        return " or ".join(f"{counted} of {needed}" for counted, needed in self.panels) + " approvals"


def decided_alone(approval: Approval, vote: Vote, directory: Directory) -> Event | None:
    """Return what this vote decides whatever others said; None where the other votes must be counted.

    Only a place of one's own counts here: whether a delegate's does depends on the other votes.
    """
    own = deciders.own_panels(approval, vote.voter, directory)
    if vote.verb == "approve" and any(deciders.panels(approval)[number].approvals == 1 for number in own):
        return Event.APPROVE
    if vote.verb == "deny" and ((own and approval.approval_rule.denials == 1) or _vetoes(approval, vote, directory)):
        return Event.DENY
    return None


def tally(approval: Approval, votes: Iterable[Vote], directory: Directory) -> Tally:
    """Return what votes come to; of each person the last one counts. A denial that decides goes first."""
    last: Mapping[str, Vote] = {vote.voter.counts_as: vote for vote in votes}
    seats = {
        person: deciders.all_panels(approval, vote.voter, directory, last.keys() - {person})
        for person, vote in last.items()
    }
    approvals = [seats[person] for person, vote in last.items() if vote.verb == "approve"]
    denials = sum(1 for person, vote in last.items() if vote.verb == "deny" and seats[person])
    panels = tuple(
        (sum(1 for numbers in approvals if number in numbers), panel.approvals)
        for number, panel in enumerate(deciders.panels(approval))
    )
    vetoed = any(_vetoes(approval, vote, directory) for vote in last.values() if vote.verb == "deny")
    if vetoed or denials >= approval.approval_rule.denials:
        return Tally(Event.DENY, panels, denials)
    enough = any(counted >= needed for counted, needed in panels)
    return Tally(Event.APPROVE if enough else None, panels, denials)


def _vetoes(approval: Approval, vote: Vote, directory: Directory) -> bool:
    return deciders.may_veto(approval, vote.voter, directory)
