"""A decision as it was signed, what it is judged by, and what it comes to."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from placet.approval.rules.approval import Approval
from placet.approval.states import Event
from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import DecideApproval, DecisionAnswered, DecisionClaims, ToolCall
from placet.contracts.messages.approvals import Outcome, ProgressKind
from placet.contracts.signing import BadSignature, Purpose, Verifier
from placet.domain.card_text import is_hidden
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


def read_claims(message: DecideApproval, verifier: Verifier) -> DecisionClaims:
    """Return what a person decided; raise SecurityAlert for a forged decision or one signed for something else."""
    try:
        claims = DecisionClaims.model_validate(verifier.verify(Purpose.DECISION, message.decision))
    except (BadSignature, ValidationError) as error:
        raise SecurityAlert(f"forged decision {message.decision_id}: {type(error).__name__}") from error
    signed = (claims.tenant, claims.approval_id, claims.decision_id)
    if signed != (message.tenant, message.approval_id, message.decision_id):
        raise SecurityAlert(f"decision {message.decision_id} was signed for another approval or tenant")
    # PostgreSQL stores no NUL; nobody types one.
    return claims.model_copy(update={"reason": claims.reason.replace("\x00", "")})


def says_something(text: str) -> bool:
    """Tell whether there is anything to read: blanks, marks without a letter, and what has no shape say nothing."""
    return any(unicodedata.category(char)[0] not in "ZCM" and not is_hidden(char) for char in text)
