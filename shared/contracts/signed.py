"""Messages that are signed as a whole: those that nobody but their one sender may ever write.

Without the signature whoever can write to the broker could change what runs or what counts as a person's word. The
table says who signs what. Permits and decisions carry a signature of their own. The other messages let nothing run by
themselves; one of them is weaker than it should be: ToolCallRefused gives back what a call took of limits and grants.
SECURITY.md says what follows from that.

Beside what is said, they sign when: whoever can write to the broker sends an old message again in a new envelope, whose
time nobody signs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from placet.contracts.errors import SecurityAlert, SentBeforeRestore
from placet.contracts.messages import (
    ApprovalRequested,
    EditJudged,
    EditProposed,
    GrantAsked,
    Message,
    ResolveCall,
    WatchedCallClosed,
)
from placet.contracts.messages.message import SignedMessage
from placet.contracts.signing import BadSignature, Purpose, Signer, Verifier

Signed = TypeVar("Signed", bound=SignedMessage)

#: What each signature says; `placet.contracts.signing.SIGNERS` says who may say it.
PURPOSES: Mapping[type[SignedMessage], Purpose] = {
    ApprovalRequested: Purpose.HOLD,
    GrantAsked: Purpose.GRANT,
    EditProposed: Purpose.EDIT,
    EditJudged: Purpose.EDIT_VERDICT,
    WatchedCallClosed: Purpose.END,
    ResolveCall: Purpose.RESOLUTION,
}


def signed(message: Signed, signer: Signer, at: datetime) -> Signed:
    """Return the message with the signature that its reader asks for; `at` is now, by the database clock."""
    claims = {**_claims(message), "at": at.timestamp()}
    return message.model_copy(update={"signature": signer.sign(PURPOSES[type(message)], claims)})


def verify_signed(verifier: Verifier, message: SignedMessage, restored_at: datetime | None) -> None:
    """Raise SecurityAlert unless exactly this message was signed by one who may send it.

    Raises SentBeforeRestore where that was before the database was restored.
    """
    try:
        claims = verifier.verify(PURPOSES[type(message)], message.signature)
    except BadSignature as error:
        raise SecurityAlert(f"forged {_name(message)}: {error}") from error
    if {name: value for name, value in claims.items() if name not in {"iss", "at"}} != _claims(message):
        raise SecurityAlert(f"a {_name(message)} is not the one that was signed")
    refuse_void(claims.get("at", 0), restored_at)


def refuse_void(at: float, restored_at: datetime | None) -> None:
    """Raise SentBeforeRestore for what was signed at `at`, Unix seconds, where the database was restored since."""
    if restored_at is not None and at <= restored_at.timestamp():
        raise SentBeforeRestore(restored_at)


def _claims(message: Message) -> dict[str, str]:
    """Return the digest of all that is said. What stands at its default is left out.

    So a new optional field that nobody uses yet is no other message to a reader that does not know it.
    """
    said = message.model_dump(mode="json", exclude={"signature"}, exclude_defaults=True)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return {"message": message.type_name, "digest": hashlib.sha256(text.encode()).hexdigest()}


def _name(message: Message) -> str:
    return type(message).__name__
