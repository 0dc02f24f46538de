"""The request for a grant, signed: only approval, which knows who approved what, can ask policy for one.

Without the signature whoever can write to the broker could allow calls for good. Every field is bound, the call by
its digest.
"""

from __future__ import annotations

from typing import Any

from shared.errors import SecurityAlert
from shared.messages.grants import GrantAsked
from shared.permit import check_digest
from shared.signing import BadSignature, Purpose, Signer, Verifier


def signed(asked: GrantAsked, signer: Signer) -> GrantAsked:
    """Return the request with the signature that policy asks for."""
    return asked.model_copy(update={"signature": signer.sign(Purpose.GRANT, _claims(asked))})


def verify_asked(verifier: Verifier, asked: GrantAsked) -> None:
    """Raise SecurityAlert unless approval signed exactly this request, for exactly this call."""
    check_digest(asked.call, asked.tenant)
    try:
        claims = verifier.verify(Purpose.GRANT, asked.signature)
    except BadSignature as error:
        raise SecurityAlert(f"forged request for grant {asked.grant_id}: {error}") from error
    if {name: value for name, value in claims.items() if name != "iss"} != _claims(asked):
        raise SecurityAlert(f"the request for grant {asked.grant_id} is not the one that was signed")


def _claims(asked: GrantAsked) -> dict[str, Any]:
    fields = asked.model_dump(mode="json", exclude={"call", "signature"})
    return {**fields, "call_id": asked.call.call_id, "call_digest": asked.call.digest}
