"""Messages become feed items that a frontend can render from their status alone."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.feed import SOURCES, Item, arguments_value, items_of, status_of
from shared.messages import (
    MESSAGES,
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    CallResolved,
    CallsWithdrawn,
    ConversationEvent,
    Message,
    ToolCallFinished,
    ToolCallProposed,
    ToolCallRefused,
)
from shared.topology import ROUTES, key_matches, queue
from tests.builders import NOON, a_call, a_posted_message, an_approval_rule

PLACE = {"tenant": "acme", "conversation_id": "c"}


def only(message: Message) -> Item:
    """Return the one item that a message makes."""
    (item,) = items_of(message, "event-1")
    return item


def a_finish(**changes: Any) -> ToolCallFinished:
    """Return a call that ran well."""
    fields = {"call_id": "k", "tool": "t", "kind": "succeeded", "attempt": 1, "started_at": NOON, "finished_at": NOON}
    return ToolCallFinished(**PLACE, **(fields | changes))


def test_a_posted_message_is_known_by_its_own_id() -> None:
    """Whichever event carries it, a message has one source: so the copy from the broker adds nothing."""
    message = a_posted_message(message_id="m-1", text="hi")
    assert {"message:m-1"} == {item.source_id for event in ("e-1", "e-2") for item in items_of(message, event)}
    assert {"role": "user", "message_id": "m-1", "text": "hi", "author": {"kind": "visitor", "id": "visitor-1"}} == (
        only(message).data
    )


def test_an_assistant_message_keeps_its_turn() -> None:
    """The agent's text comes with role, turn and message."""
    payload = {"message_id": "a", "step": 2, "text": "yes"}
    event = ConversationEvent(**PLACE, turn_id="t", kind="assistant_message", payload=payload)
    assert ("message", {**payload, "turn_id": "t", "role": "assistant"}) == (only(event).type, only(event).data)


@pytest.mark.parametrize(
    ("kind", "payload", "state"),
    [("turn_started", {"message_id": "m"}, "started"), ("turn_ended", {"state": "failed", "reason": "r"}, "failed")],
)
def test_a_turn_has_a_state(kind: Any, payload: dict[str, str], state: str) -> None:
    """A turn's start and end are one type of item with a state."""
    item = only(ConversationEvent(**PLACE, turn_id="t", kind=kind, payload=payload))
    assert ("turn", state, "t") == (item.type, item.data["state"], item.data["turn_id"])


def test_an_opened_approval_is_a_status_and_a_card() -> None:
    """B1: the card carries what a decision needs, from the stored call, and the call waits for confirmation."""
    call = a_call(conversation_id="c")
    opened = ApprovalOpened(
        tenant="acme",
        approval_id="a",
        revision=3,
        call=call,
        summary="Sure?",
        rule="r",
        reason="why",
        approval=an_approval_rule(),
        expires_at=NOON,
    )
    waiting, card = items_of(opened, "e")
    assert ("tool_call", "pending_confirmation", call.call_id) == (
        waiting.type,
        waiting.data["status"],
        waiting.data["call_id"],
    )
    assert ("approval", "pending", "a", 3, call.digest, {"amount": 299, "currency": "TRY"}) == (
        card.type,
        *(card.data[name] for name in ("state", "approval_id", "revision", "digest", "arguments")),
    )
    assert waiting.source_id != card.source_id


@pytest.mark.parametrize(("quote", "expected"), [("I refund it.", "I refund it."), ("", None)])
def test_an_opened_approval_keeps_what_the_agent_said(quote: str, expected: str | None) -> None:
    """The pages quote it as mail and Slack do; where nothing was said, or may be seen, there is nothing."""
    opened = ApprovalOpened(
        tenant="acme",
        approval_id="a",
        revision=1,
        summary="s",
        rule="r",
        reason="",
        expires_at=NOON,
        call=a_call().model_copy(update={"quote": quote}),
        approval=an_approval_rule(),
    )
    assert expected == items_of(opened, "e")[1].data.get("quote")


def test_a_closed_approval_keeps_its_card_with_its_state() -> None:
    """B4: the same approval, its final state, who decided and why."""
    over = {"decided_by": "person:ada", "reason": "no", "closed_at": NOON}
    item = only(ApprovalClosed(**PLACE, approval_id="a", revision=2, call_id="k", state="denied", **over))
    assert ("approval", "denied", "person:ada", "no") == (
        item.type,
        *(item.data[name] for name in ("state", "decided_by", "reason")),
    )


def test_an_approval_that_progresses_still_waits() -> None:
    """A vote without a decision changes the card and not its state."""
    item = only(ApprovalProgressed(**PLACE, approval_id="a", revision=2, call_id="k", note="1 of 2"))
    assert ("pending", "1 of 2") == (item.data["state"], item.data["note"])


def test_a_proposed_call_shows_its_arguments_as_a_value() -> None:
    """Frontends need not parse JSON inside JSON."""
    item = only(ToolCallProposed(tenant="acme", call=a_call(arguments={"a": [1]})))
    assert ("proposed", {"a": [1]}) == (item.data["status"], item.data["arguments"])


def test_items_show_the_redacted_arguments() -> None:
    """A feed tells what people may see, and of a call that may not be shown nothing."""
    call = a_call(arguments={"pin": "no-4929"}, shown_arguments='{"pin":"•••"}')
    hidden = call.model_copy(update={"shown_arguments": ""})
    shown = [only(ToolCallProposed(tenant="acme", call=each)).data["arguments"] for each in (call, hidden)]
    assert [{"pin": "•••"}, None] == shown


@pytest.mark.parametrize(("kind", "status"), [("succeeded", "success"), ("failed", "error"), ("unknown", "error")])
def test_a_finished_call_is_success_or_error(kind: str, status: str) -> None:
    """C2: the status alone says how to render; the kind says more."""
    item = only(a_finish(kind=kind))
    assert (status, kind) == (item.data["status"], item.data["kind"])


@pytest.mark.parametrize("kind", ["refused", "denied", "expired", "cancelled", "superseded", "invalid"])
def test_a_refused_call_is_an_error_with_its_kind(kind: Any) -> None:
    """Every way not to run is an error, told apart by its kind and explained by its reason."""
    item = only(ToolCallRefused(**PLACE, call_id="k", tool="t", kind=kind, reason="because"))
    assert ("error", kind, "because") == tuple(item.data[name] for name in ("status", "kind", "error"))


def test_a_staged_call_is_a_success() -> None:
    """Staged is what was asked for."""
    assert ("success", "error") == (status_of("staged"), status_of("invalid"))


def test_a_call_that_the_agent_answered_itself_has_a_status() -> None:
    """An unknown tool never reaches policy; the agent's answer is the call's only item."""
    payload = {"call_id": "k", "tool": "nope", "kind": "invalid", "error": "no such tool"}
    item = only(ConversationEvent(**PLACE, turn_id="t", kind="call_answered", payload=payload))
    assert ("tool_call", "error", "k") == (item.type, item.data["status"], item.data["call_id"])


def test_what_postgresql_cannot_keep_is_made_harmless() -> None:
    """A tool may answer with NUL characters and infinite numbers; jsonb has neither."""
    item = only(a_finish(data={"a\x00b": ["\x00", float("inf"), 1.5, None]}))
    assert {"a\ufffdb": ["\ufffd", None, 1.5, None]} == item.data["data"]


def test_what_is_no_feed_item_is_passed_over() -> None:
    """A message that frontends do not show makes none."""
    withdrawn = CallsWithdrawn(tenant="acme", conversation_id="c", call_ids=["k"], kind="cancelled", reason="r")
    assert () == items_of(withdrawn, "e")


def test_every_message_on_the_feed_queue_makes_items() -> None:
    """What the topology brings to the gateway's feed is known there, so that none of it ends as a dead letter."""
    bindings = queue("gateway.feed").bindings

    def arrives(cls: type[Message]) -> bool:
        route = ROUTES[cls]
        keys = ["event.acme"] if cls is ConversationEvent else []
        if not keys and not route.transient:
            keys = [route.key(type("Any", (), {"tenant": "acme", "answer_to": "g", "pool": "p", "queue": "q"})())]
        return any(
            binding.exchange == route.exchange and key_matches(binding.key, key) for binding in bindings for key in keys
        )

    assert {cls for cls in MESSAGES.values() if arrives(cls)} == set(SOURCES)


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a":1}', {"a": 1}), ('{"a":', None), ("", None), ('{"a":"\\ud800"}', None), ('{"a":1e999}', {"a": None})],
)
def test_arguments_are_shown_as_a_value_where_they_are_one(text: str, value: Any) -> None:
    """What the model wrote is JSON or not; never an error of ours."""
    assert value == arguments_value(text)


def test_words_that_the_agent_marked_stay_marked() -> None:
    """B3: the agent knows which words are chatter about a call that waits, in whatever order its events arrive."""
    payload = {"message_id": "m", "step": 2, "text": "Please confirm!", "while_waiting": True}
    item = only(ConversationEvent(**PLACE, turn_id="t", kind="assistant_message", payload=payload))
    assert {**payload, "turn_id": "t", "role": "assistant"} == item.data


def test_a_resolution_is_an_item_beside_the_call() -> None:
    """The call's own items stay as they are: a final status is never taken back."""
    word = {"call_id": "k", "tool": "t", "outcome": "ran", "note": "seen", "by": "person:ada", "resolved_at": NOON}
    item = only(CallResolved(**PLACE, **word))
    assert ("resolution", "ran", "person:ada") == (item.type, item.data["outcome"], item.data["by"])
    assert "status" not in item.data
