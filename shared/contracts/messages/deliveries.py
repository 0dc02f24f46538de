"""What the gateway wants of the notifier, or tells it: a card or event once more, a code, a comment, a mail back."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from placet.contracts.messages.message import Identifier, Message

#: Characters of one comment.
COMMENT_MAX = 2_000
#: Longest words of a mail system that are kept, in characters.
WORDS_MAX = 500
#: What a mail's Message-ID and the sender of its envelope have in them.
MAIL_ID_PATTERN = r"^[0-9a-f]{32}$"


class RetryDelivery(Message):
    """Show a card again where its channel failed for good. Sent by the gateway to the notifier."""

    type_name: ClassVar[str] = "placet.delivery.retry.v1"

    delivery_id: Identifier
    by: str


class RetryWebhookEvent(Message):
    """Post an event again that its webhook never took. Sent by the gateway to the notifier."""

    type_name: ClassVar[str] = "placet.webhook-event.retry.v1"

    event_id: Identifier
    by: str


class KeyOffered(Message):
    """Send somebody the code with which they take over an API key that another person made for them.

    Sent by the gateway to the notifier. The code alone is good for nothing: it takes the key beside it.
    """

    type_name: ClassVar[str] = "placet.key.offered.v1"
    secrets: ClassVar[frozenset[str]] = frozenset({"code"})

    key_id: Identifier
    person: Annotated[str, Field(max_length=128, description="The key's owner, without the prefix.")]
    by: Annotated[str, Field(description="Who made the key: `person:<id>`.")]
    code: Annotated[str, Field(max_length=40)]


class ApprovalCommented(Message):
    """Somebody commented on an approval, which decides nothing. Sent by the gateway to the notifier.

    Cards that have a thread show it there.
    """

    type_name: ClassVar[str] = "placet.approval.commented.v1"

    approval_id: Identifier
    comment_id: Identifier
    person: Annotated[str, Field(max_length=300, description="Who wrote it: `person:<id>`, or a visitor.")]
    text: Annotated[str, Field(max_length=COMMENT_MAX)]
    question: Annotated[bool, Field(description="Whether it asks the requester something.")] = False
    said_in: Annotated[
        str,
        Field(max_length=200, description="Slack thread that it was written in, `<channel>/<ts>`; empty elsewhere."),
    ] = ""


class MailBounced(Message):
    """A mail that a relay had taken came back: its person was told nothing. Sent by the gateway to the notifier."""

    type_name: ClassVar[str] = "placet.mail.bounced.v1"

    mail_id: Annotated[str, Field(pattern=MAIL_ID_PATTERN, description="Of the mail, as its Message-ID has it.")]
    status: Annotated[str, Field(max_length=20, description="RFC 3463, for example `5.1.1`; empty where not told.")] = (
        ""
    )
    reason: Annotated[str, Field(max_length=WORDS_MAX, description="In the words of the mail system.")] = ""
