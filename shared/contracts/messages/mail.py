"""What the world of mail tells about mails that Placet sent."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from placet.contracts.messages.message import Message

#: Longest words of a mail system that are kept, in characters.
WORDS_MAX = 500
#: What a mail's Message-ID and the sender of its envelope have in them.
MAIL_ID_PATTERN = r"^[0-9a-f]{32}$"


class MailBounced(Message):
    """A mail that a relay had taken came back: its person was told nothing. Sent by the gateway to the notifier."""

    type_name: ClassVar[str] = "placet.mail.bounced.v1"

    mail_id: Annotated[str, Field(pattern=MAIL_ID_PATTERN, description="Of the mail, as its Message-ID has it.")]
    status: Annotated[str, Field(max_length=20, description="RFC 3463, for example `5.1.1`; empty where not told.")] = (
        ""
    )
    reason: Annotated[str, Field(max_length=WORDS_MAX, description="In the words of the mail system.")] = ""
