"""What a decision is judged by, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from placet.approval.rules.approval import Approval
from placet.approval.states import Event
from placet.contracts.messages import DecisionAnswered, DecisionClaims, ToolCall
from placet.contracts.messages.approvals import Outcome, ProgressKind
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.votes import Vote


@dataclass(frozen=True, slots=True)
class Answer:
    """What a decision comes to."""

    outcome: Outcome
    #: One sentence for the person.
    detail: str
    #: The approval as it is then; None where there is none.
    after: Approval | None
    #: What closes it; None where it stays pending or was closed before.
    event: Event | None = None
    #: What surfaces are told where it changed and stays pending, or was edited.
    progress: ProgressKind | None = None
    #: The call that policy has to judge before there is an answer.
    proposal: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision and what became of it; kept whether it counted or not."""

    claims: DecisionClaims
    #: The claims as the gateway signed them, JWS compact form.
    signed: str
    answered: DecisionAnswered
    at: datetime
    #: The arguments that the vote is about, and the card's revision that it made; None where it did not count.
    arguments_revision: int | None = None
    counted_revision: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A decision that may be made, and everything that it is judged by."""

    approval: Approval
    claims: DecisionClaims
    voter: Voter
    now: datetime
    directory: Directory
    #: What others, and this person before, said about the same arguments.
    votes: Sequence[Vote]

    def accepted(self, detail: str, after: Approval, progress: ProgressKind) -> Answer:
        """Return the answer to what changed the approval without closing it."""
        return Answer("accepted", detail, after, progress=progress)

    def invalid(self, detail: str) -> Answer:
        """Return the answer to what cannot be done."""
        return Answer("invalid", detail, self.approval)
