"""The base of every message, and the event that carries one.

A message is only its data; an event adds who sent it, why and in which trace. The two are apart so that a handler
can be written and tested with the message alone. On the wire an event is a CloudEvents 1.0 JSON object and an
envelope is a JSON array of 1 to 64 of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic_core import to_json

#: Largest number of events in one envelope.
ENVELOPE_EVENTS_MAX = 64

Identifier = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Tenant = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9-]*$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

#: CloudEvents allows no control characters in attributes, and PostgreSQL keeps no NUL.
Printable = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]

#: How a call can end. Each call ends in exactly one of these.
ResultKind = Literal[
    "succeeded",
    "failed",
    "refused",
    "denied",
    "answered",
    "expired",
    "cancelled",
    "superseded",
    "invalid",
    "staged",
    "unknown",
]


class Value(BaseModel):
    """A frozen part of a message. Unknown fields are passed over: a newer sender does not break an older reader."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Message(Value):
    """A typed, versioned, frozen fact or request. Subclasses set `type_name`; a breaking change makes a new version."""

    #: CloudEvents type, `placet.<noun>.<verb>.v<version>`.
    type_name: ClassVar[str]
    #: Whether it only tells what has happened: then it still counts when all was restored since from a backup that
    #: knows of its sending. Of any other message nobody knows by then whether what it asks for was done.
    tells: ClassVar[bool] = False
    #: Fields, texts all, that only whom it is sent for may read: no dead letter has them.
    secrets: ClassVar[frozenset[str]] = frozenset()

    tenant: Tenant = Field(description="The tenant that every row written for this message belongs to.")

    def in_brief(self) -> Self | None:
        """Return what goes in its place where no broker takes all of it; None: without it all nothing is said."""
        return None


class SignedMessage(Message):
    """A message that only one service may ever write, and that says so: see `placet.contracts.signed`."""

    signature: str = Field(
        default="", description="The sender's signature over all of this, and when it signed; no reader acts without."
    )


class Attributes(Value):
    """The CloudEvents attributes of one event, as they stand on the wire."""

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[Printable, Field(min_length=1, max_length=128)]
    source: Annotated[Printable, Field(min_length=1, max_length=256)]
    type: str
    time: AwareDatetime
    correlationid: Annotated[Printable, Field(max_length=256)] = ""
    causationid: Annotated[Printable, Field(max_length=256)] = ""
    traceparent: Annotated[Printable, Field(max_length=256)] = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One message on its way."""

    #: Unique per sender; the receiver's inbox drops a second one.
    id: str
    #: The service that sent it.
    source: str
    #: When the sender's transaction began, by the database clock; of what is never stored, such as deltas, when it was
    #: sent or happened, by the clock that the sender had at hand.
    time: datetime
    #: The conversation's thread: equal over everything one user message caused.
    correlation_id: str
    #: The id of the event that caused this one; empty for the first.
    causation_id: str
    #: W3C trace context of the sender.
    traceparent: str
    message: Message

    def to_json(self) -> str:
        """Return the CloudEvents JSON object."""
        # Ours already: there is nothing to validate. The names are those of `Attributes`, in its order.
        event = {
            "specversion": "1.0",
            "id": self.id,
            "source": f"placet/{self.source}",
            "type": self.message.type_name,
            "time": self.time,
            "correlationid": self.correlation_id,
            "causationid": self.causation_id,
            "traceparent": self.traceparent,
            "datacontenttype": "application/json",
            "data": self.message,
        }
        return to_json(event).decode()

    def without_secrets(self) -> Event:
        """Return it as it may be kept."""
        secrets = self.message.secrets
        return replace(self, message=self.message.model_copy(update=dict.fromkeys(secrets, ""))) if secrets else self


def event_from(raw: dict[str, Any], types: dict[str, type[Message]]) -> Event:
    """Return the event of one parsed CloudEvents object; raise ValueError where it is none we know."""
    head = Attributes.model_validate(raw)
    cls = types.get(head.type)
    if cls is None:
        raise ValueError(f"unknown message type {head.type!r}")
    return Event(
        id=head.id,
        source=head.source.removeprefix("placet/"),
        time=head.time,
        correlation_id=head.correlationid or head.id,
        causation_id=head.causationid,
        traceparent=head.traceparent,
        message=cls.model_validate(raw.get("data")),
    )
