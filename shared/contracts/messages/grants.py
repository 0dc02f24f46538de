"""Messages of grants: remembered choices for calls to come."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field

from placet.contracts.messages.approvals import GrantScope
from placet.contracts.messages.message import Digest, Identifier, Message, SignedMessage
from placet.contracts.messages.tool_calls import ToolCall


class GrantAsked(SignedMessage):
    """A person who approved a call wants such calls allowed from now on. Sent by approval to policy, which keeps it.

    Terms are what was asked within the rule's GrantTerms. Only an accepted approval asks for a grant: never an edit,
    a denial or an expiry.
    """

    type_name: ClassVar[str] = "placet.grant.asked.v1"

    grant_id: Identifier
    approval_id: Identifier
    owner: str = Field(description="Stable id of the person who asks, for example `person:ada`.")
    key_id: str | None = Field(
        default=None, description="The API key that proved them: once it is revoked, the grant covers nothing."
    )
    call: ToolCall = Field(description="The approved call: its arguments are what the bounds are taken from.")
    scope: GrantScope
    bounds: list[str] = Field(description="Arguments whose approved value bounds the grant; all others must be equal.")
    uses: Annotated[int, Field(ge=1)]
    expires_at: AwareDatetime
    rule: str = Field(description="Name of the rule that held the call.")
    rulebook_digest: Digest


class RevokeGrant(Message):
    """Somebody takes a grant back. Sent by the gateway to policy. Unsigned: it can only make things stricter."""

    type_name: ClassVar[str] = "placet.grant.revoke.v1"

    grant_id: Identifier
    by: str = Field(description="Stable id of the person who revokes.")
