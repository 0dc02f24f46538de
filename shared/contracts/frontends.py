"""Chat frontends that publish to RabbitMQ themselves: what they may say, whatever their envelopes claim.

The broker brings from a frontend's exchange to `messages` one routing key, `frontend.<tenant>`, and looks at no body.
So the key is what readers believe: what came with it is a MessagePosted of a visitor of that tenant, or it is refused.
Pure.
"""

from __future__ import annotations

from placet.contracts.ids import is_of_job, own_prefix
from placet.contracts.messages import Message, MessagePosted
from placet.contracts.messages.conversations import LABEL_NAME_MAX, LABEL_TEXT_MAX, LABELS_MAX
from placet.contracts.messages.jobs import JOB_LABELS
from placet.contracts.visitors import is_visitor_id

_PREFIX = "frontend."


def frontend_key(tenant: str) -> str:
    """Return the routing key that frontends of a tenant publish with."""
    return f"{_PREFIX}{tenant}"


def frontends_tenant(key: str) -> str | None:
    """Return whose frontends publish with a routing key; None for a key of our own services.

    A tenant's name and a queue's, which are the keys of everything else here, never begin so.
    """
    return key.removeprefix(_PREFIX) if key.startswith(_PREFIX) else None


def why_not(message: Message, tenant: str) -> str | None:
    """Return why a frontend of `tenant` may not send `message`, in one line; None where it may."""
    if not isinstance(message, MessagePosted):
        return f"a frontend sends no {message.type_name}"
    prefix = own_prefix(tenant)
    held = "only the gateway says that people hold a conversation, or takes a message for a decision"
    bounds = (
        f"a conversation has at most {LABELS_MAX} labels, with names of 1 to {LABEL_NAME_MAX} characters and texts "
        f"of at most {LABEL_TEXT_MAX}, none of them NUL"
    )
    labels = message.labels.items()
    refusals = (
        (message.tenant != tenant, f"a frontend of {tenant} writes for another tenant"),
        (
            not message.conversation_id.startswith(prefix),
            f"a conversation of {tenant} has an id that begins with {prefix}",
        ),
        (is_of_job(tenant, message.conversation_id), "a conversation of a job is begun by its job alone"),
        (message.author.kind != "visitor", "a frontend writes for visitors only: nobody proved that a person wrote"),
        (message.held_revision or message.taken_as, held),
        (
            not is_visitor_id(message.author.id, message.conversation_id),
            "the author's id is none that a visitor of this conversation may have",
        ),
        (not JOB_LABELS.isdisjoint(message.labels), "labels of jobs are given by their jobs alone"),
        (len(labels) > LABELS_MAX or not all(_is_label(*each) for each in labels), bounds),
    )
    return next((reason for refused, reason in refusals if refused), None)


def _is_label(name: str, text: str) -> bool:
    return 1 <= len(name) <= LABEL_NAME_MAX and len(text) <= LABEL_TEXT_MAX and "\x00" not in name + text
