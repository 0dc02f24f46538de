"""Links in mails: 256 random bits each, of which only the hash is kept, for one person about one call.

Beside it a mail says a code, which is typed to decide: who follows links and sends forms does not have it.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from placet.domain.approvers import identity_of
from placet.notifier.cards import Address, Card
from placet.notifier.store.mails import NewLink
from placet.surfaces.link_codes import code_hash, new_code

#: The strength that a mailed link has: rules that want more lead to signing in.
_STRENGTH = "link"
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class MailedLink:
    """Where the person of a mail decides."""

    #: Empty where nobody said which address browsers use.
    url: str
    #: What is kept of it; None where it leads to signing in.
    kept: NewLink | None = None
    #: What the person types to decide; empty where the link leads to signing in.
    code: str = ""


@dataclass(frozen=True, slots=True)
class Links:
    """Makes links."""

    public_url: str
    #: How long one lasts, in seconds; never beyond the deadline.
    seconds: float

    @property
    def inbox(self) -> str:
        """The page of all that waits; empty where nobody said which address browsers use."""
        return f"{self.public_url.rstrip('/')}/inbox" if self.public_url else ""

    def new(self, card: Card, address: Address, mail: str) -> MailedLink:
        """Return a new link for the person of an address; the page of the approval where a link is not enough."""
        if not self.public_url or not address.person or card.strength != _STRENGTH:
            return MailedLink(card.url)
        token, code = secrets.token_urlsafe(_TOKEN_BYTES), new_code()
        kept = NewLink(
            token_hash=hashlib.sha256(token.encode()).hexdigest(),
            mail_id=mail,
            tenant=card.tenant,
            approval_id=card.approval_id,
            person=identity_of(address.person),
            digest=card.digest,
            code_hash=code_hash(token, code),
            revision=card.revision,
            seconds=self.seconds,
            deadline=card.deadline,
        )
        return MailedLink(f"{self.public_url.rstrip('/')}/l/{token}", kept, code)
