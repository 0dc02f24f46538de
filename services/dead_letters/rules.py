"""What a buried delivery says about itself: pure, because broken bytes are exactly what comes here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from placet.contracts.dead_letters import HOUSE_TENANT, UNSENT_TYPE, events_in, unsent_in
from placet.contracts.ids import derived_id
from placet.contracts.messages import (
    AbandonCall,
    ApprovalRequested,
    CallApproved,
    ToolCallFinished,
    ToolCallPermitted,
    ToolCallProposed,
    ToolCallRefused,
)
from placet.contracts.topology import MESSAGES
from placet.dead_letters.states import State
from placet.domain.card_text import REDACTED
from placet.runtime.bus import Delivery

_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
#: A JWS in compact form: a header's braces are `e` in base64.
_JWS = re.compile(r"e[\w-]*\.[\w-]*\.[\w-]+")
#: Queues of a call's steps, executors' by their common name -> messages without which the call cannot go on, and
#: whether it may have run when such a one is lost. Whether a permit was used, the executor knows better.
STEPS: Mapping[str, Mapping[str, bool]] = {
    "policy.tool-calls": {ToolCallProposed.type_name: False},
    "approval.requests": {ApprovalRequested.type_name: False},
    "policy.approved-calls": {CallApproved.type_name: False},
    "executor": {ToolCallPermitted.type_name: False},
    "agent.permits": {ToolCallPermitted.type_name: False},
    "agent.tool-results": {ToolCallRefused.type_name: False, ToolCallFinished.type_name: True},
}


@dataclass(frozen=True)
class Letter:
    """One dead letter as it arrived."""

    dead_letter_id: str
    tenant: str
    queue: str
    service: str
    reason: str
    message_id: str
    message_type: str
    body: str
    #: The body as people may see it.
    shown_body: str


@dataclass(frozen=True)
class KeptLetter(Letter):
    """One dead letter as it is kept, and how it stands."""

    state: State


def letter_from(delivery: Delivery) -> Letter:
    """Return what a delivery from the dead-letter queue says. The same burial twice gives the same id."""
    body = delivery.body.decode("utf-8", "replace")
    event = _first_event(body)
    # The key is the queue it came from, and the broker lets each service use its own only: a header could lie.
    queue = _storable(delivery.key) or "unknown"
    service = queue.partition(".")[0]
    # Except of what the broker refused, which may never have left its sender: such a letter is never sent back, and
    # says for which queue it was, and what; one of an older outbox says less.
    kind = event.get("type", "")
    if refused := unsent_in(event):
        queue, kind = refused.queue or queue, refused.type or kind
    message_id = _storable(str(delivery.headers.get("x-placet-message-id") or event.get("id") or ""))
    return Letter(
        dead_letter_id=derived_id("dead-letter", queue, message_id, hashlib.sha256(delivery.body).hexdigest()),
        tenant=_storable(_tenant_of(event)),
        queue=_storable(queue)[:128],
        service=service,
        reason=_storable(_why(delivery.headers)),
        message_id=message_id[:128],
        message_type=_storable(str(kind))[:128],
        body=_storable(body),
        shown_body=_storable(shown(body)),
    )


def letters_from(delivery: Delivery) -> list[Letter]:
    """Return the letters of a delivery: one for each tenant that it has events of, since each sees its own letters.

    What is no list of events is one letter, and that of the house where a tenant cannot be told for all of it.
    """
    # One text for all that reads it: what is no UTF-8 would else be no JSON to one and a list of events to another.
    text = delivery.body.decode("utf-8", "replace")
    delivery = replace(delivery, body=_without_secrets(text.encode()))
    try:
        parts = _by_tenant(delivery.body)
    except (ValueError, RecursionError):
        # Its first event may be readable, and say nothing about the others.
        return [replace(letter_from(delivery), tenant=HOUSE_TENANT)]
    if len(parts) < 2:  # noqa: PLR2004 - nothing to take apart
        return [letter_from(delivery)]
    own = {name: value for name, value in delivery.headers.items() if name != "x-placet-message-id"}
    return [letter_from(replace(delivery, body=body, headers=own)) for body in parts]


def _without_secrets(body: bytes) -> bytes:
    """Return a body as it may be kept: what the broker itself buried has the secrets of its messages in it still."""
    try:
        items = json.loads(body)
        found = [event for event in (items if isinstance(items, list) else [items]) if _blank_secrets(event)]
        return json.dumps(items, separators=(",", ":")).encode() if found else body
    except (ValueError, RecursionError):
        return body


def _blank_secrets(event: Any) -> bool:
    """Take the secrets out of an event; tell whether it had any."""
    data = event.get("data") if isinstance(event, dict) else None
    if not isinstance(data, dict) or (message := MESSAGES.get(str(event.get("type")))) is None:
        return False
    had = message.secrets & data.keys()
    data |= dict.fromkeys(had, "")
    return bool(had)


def _by_tenant(body: bytes) -> list[bytes]:
    """Return an envelope's events by tenant, each tenant's as an envelope of its own; one for any other JSON."""
    items = json.loads(body)
    if not isinstance(items, list):
        return [body]
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(_tenant_of(item), []).append(item)
    if len(found) < 2:  # noqa: PLR2004 - of one tenant, or empty
        return [body]
    return [
        json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        for part in found.values()
    ]


def _tenant_of(event: Any) -> str:
    data = event.get("data") if isinstance(event, dict) else None
    tenant = data.get("tenant") if isinstance(data, dict) else None
    return tenant if isinstance(tenant, str) and tenant else HOUSE_TENANT


def _storable(text: str) -> str:
    """Return a text as PostgreSQL keeps it: half a character pair and NUL are none."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def shown(body: str) -> str:
    """Return a body as people may see it: of each call's arguments what may be shown, of bytes that are no JSON none.

    What cannot be read cannot be searched for values that nobody must see either.
    """
    try:
        text = json.dumps(_masked(json.loads(body)), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        size = len(body.encode("utf-8", "replace"))
        return f"({size} bytes that are no JSON; the table dead_letters.dead_letters has them)"
    return text.encode("utf-8", "replace").decode()


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if isinstance(value, str):
        # What is signed names people, in a form that no erasure finds, and an edit's arguments are in it.
        return REDACTED if _JWS.fullmatch(value) else value
    if not isinstance(value, dict):
        return value
    masked = {name: _masked(each) for name, each in value.items()}
    data = value.get("data")
    if value.get("type") == UNSENT_TYPE and isinstance(data, dict) and isinstance(data.get("body"), str):
        # How an event began that no broker took.
        masked["data"]["body"] = shown(data["body"])
    if "arguments" in value:
        told = value.get("shown_arguments")
        masked["arguments"] = told if isinstance(told, str) and told else REDACTED
    return masked


def events_of(body: str) -> list[str]:
    """Return the JSON of each event in a dead letter's body; raise ValueError where it holds none."""
    try:
        return [json.dumps(item, separators=(",", ":"), ensure_ascii=False) for item in events_in(body)]
    except RecursionError as error:
        raise ValueError("the body nests too deeply") from error


def abandoned(queue: str, body: str, by: str) -> list[AbandonCall]:
    """Return the calls that wait for what a dead letter holds, and that nothing else will end if it is discarded.

    A lost decision or card leaves its approval open for others or for its expiry; a lost line of a feed ends nothing.
    """
    lost = STEPS.get("executor" if queue.startswith("executor.") else queue, {})
    events = [item for item in _items(body) if isinstance(item, dict)]
    return [call for event in events for call in _abandoned_by(event, queue, lost, by)] if lost else []


def _abandoned_by(event: dict[str, Any], queue: str, lost: Mapping[str, bool], by: str) -> Iterator[AbandonCall]:
    kind, data = str(event.get("type")), event.get("data")
    if refused := unsent_in(event):
        kind, data = refused.type, {"tenant": _tenant_of(event), "call": refused.call}
    if not isinstance(data, dict) or kind not in {*lost, AbandonCall.type_name}:
        return
    call = _call_in(data)
    if call.get("tenant") != data.get("tenant"):
        return
    fields = {"may_have_run": lost.get(kind)} | call | {"queue": queue, "by": by}
    # An event that its own consumer could not read may still name its call.
    with suppress(ValidationError):
        yield AbandonCall.model_validate(fields)


def source_of(body: str) -> tuple[str, str]:
    """Return traceparent and call of the first event in a letter's body; empty where it names none, or no good one."""
    event = _first_event(body)
    found, data = event.get("traceparent"), event.get("data")
    call_id = _call_in(data).get("call_id") if isinstance(data, dict) else None
    trace = found if isinstance(found, str) and _TRACEPARENT.fullmatch(found) else ""
    return trace, _storable(call_id)[:128] if isinstance(call_id, str) else ""


def _call_in(data: dict[str, Any]) -> dict[str, Any]:
    """Return the call that an event's data are about, as far as they tell of one."""
    return data["call"] if isinstance(data.get("call"), dict) else data


def _first_event(body: str) -> dict[str, Any]:
    first = next(iter(_items(body)), None)
    return first if isinstance(first, dict) else {}


def _items(body: str) -> list[Any]:
    """Return what an envelope holds, or the one thing that a body is; nothing where it cannot be read."""
    try:
        items = json.loads(body)
    except (ValueError, RecursionError):
        return []
    return items if isinstance(items, list) else [items]


def _why(headers: Mapping[str, object]) -> str:
    """Our own burials give the reason in a header; the broker's in `x-death`."""
    if "x-placet-reason" in headers:
        return str(headers["x-placet-reason"])
    deaths = headers.get("x-death")
    death = deaths[0] if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict) else {}
    return f"broker: {death.get('reason', 'unknown')}"
