"""Reading a signed decision: only what the gateway signed counts, whatever the message around it says."""

from __future__ import annotations

from pydantic import ValidationError

from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import DecideApproval, DecisionClaims
from placet.contracts.signing import BadSignature, Purpose, Verifier


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
