"""Deciding by a message: signed like a click, bound to the card that was shown, and never in doubt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.contracts.messages import ApprovalOpened, MessagePosted
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.failing_commits import failing_commits
from tests.support.gateway import (
    RESTORED,
    House,
    a_conversation,
    an_approval_row,
    insert,
    listen,
    open_house,
    said,
)

BY_MESSAGE: dict[str, Any] = {"by_message": True}


async def a_card(house: House, conversation: str, number: int = 1, **changes: Any) -> dict[str, Any]:
    """Let a call of the conversation's visitor wait, with its card in the feed; return its row."""
    rule = changes.pop("approval_rule", BY_MESSAGE)
    call = a_call(
        call_id=f"call-{number}", conversation_id=conversation, requester="v-42", tool=changes.pop("tool", "pay")
    )
    row = an_approval_row(call, approval_rule=rule, **changes)
    insert(house.url, "approvals", **row)
    shown = ApprovalOpened(
        tenant="acme",
        approval_id=row["approval_id"],
        revision=1,
        call=call,
        summary=row["summary"],
        rule="r",
        reason="",
        approval=an_approval_rule(approvers=["requester"], **rule),
        expires_at=NOON,
    )
    await house.deliver(shown)
    return row


async def a_visitors_token(house: House) -> tuple[str, str]:
    """Open a conversation for the visitor v-42; return its id and token."""
    async with house.client(house.key("chat")) as client:
        return await a_conversation(client, visitor="v-42")


async def say(client: httpx.AsyncClient, conversation: str, text: str, **more: Any) -> dict[str, Any]:
    """Post a message and return the answer."""
    answer = await client.post(f"/v1/conversations/{conversation}/messages", json={"text": text, **more})
    told: dict[str, Any] = answer.raise_for_status().json()
    return told


@pytest.mark.parametrize(("word", "status", "verbs"), [("Yes.", 409, []), ("No.", 202, ["deny"])])
async def test_a_yes_to_a_card_from_before_a_restore_is_refused(
    house: House, word: str, status: int, verbs: list[str]
) -> None:
    """The card above it does not say that the call may have run since; a no counts."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation)
    house.query(RESTORED)
    async with house.client(token) as visitor:
        answer = await visitor.post(f"/v1/conversations/{conversation}/messages", json={"text": word})
    assert (status, verbs) == (answer.status_code, [claims.verb for claims in house.approvers.claims])


async def test_a_plain_yes_is_signed_as_what_it_is(house: House) -> None:
    """The claims have the card's digest, the requester, the proof, and the words; the agent gets no message."""
    conversation, token = await a_visitors_token(house)
    row = await a_card(house, conversation)
    async with house.client(token) as visitor:
        told = await say(visitor, conversation, " Yes. ")
        items = await listen(
            visitor, f"/v1/conversations/{conversation}/events", lambda heard: heard[-1]["type"] == "decision"
        )
    (claims,) = house.approvers.claims
    assert ("approve", row["digest"], "v-42", ["requester"], conversation, "conversation_token", "Yes.") == (
        claims.verb,
        claims.digest,
        claims.person,
        claims.roles,
        claims.conversation_id,
        claims.proof,
        claims.said,
    )
    taken = {"approval_id": row["approval_id"], "decision": "approve", "summary": row["summary"]}
    assert (taken, "accepted") == (told["taken_as"], told["outcome"])
    message, decision = items[-2]["data"], items[-1]["data"]
    assert (taken, message["message_id"], "accepted") == (
        message["taken_as"],
        decision["message_id"],
        decision["outcome"],
    )
    assert house.posted.empty()


async def test_a_token_that_was_taken_back_decides_nothing(house: House) -> None:
    """Neither by a click nor by a word, in the second in which it is remembered either."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42")
        row = await a_card(house, conversation)
        path, decisions = f"/v1/conversations/{conversation}", f"/v1/approvals/{row['approval_id']}/decisions"
        async with house.client(token) as visitor:
            (await visitor.get(path)).raise_for_status()
            (await client.delete(f"{path}/token")).raise_for_status()
            clicked = await visitor.post(decisions, json={"decision": "approve", "digest": row["digest"]})
            said_so = await visitor.post(f"{path}/messages", json={"text": "Yes."})
    assert (401, 401, []) == (clicked.status_code, said_so.status_code, house.approvers.claims)


async def test_the_same_message_again_decides_once(house: House) -> None:
    """Ten copies at once are one decision and one message, and each is told for what it was taken."""
    conversation, token = await a_visitors_token(house)
    row = await a_card(house, conversation)
    async with house.client(token) as visitor:
        told = await asyncio.gather(*(say(visitor, conversation, "yes", message_id="m-1") for _ in range(10)))
        path = f"/v1/conversations/{conversation}/events"
        await listen(visitor, path, lambda heard: heard[-1]["type"] == "decision")
    assert [row["approval_id"]] * 10 == [each["taken_as"]["approval_id"] for each in told]
    kept = house.query("SELECT type FROM read.log WHERE type IN ('message', 'decision') ORDER BY seq")
    assert ({"m-1"}, [("message",), ("decision",)]) == ({each["message_id"] for each in told}, kept)
    assert 1 == len({claims.decision_id for claims in house.approvers.claims})


async def test_a_decision_that_is_repeated_elsewhere_is_told_as_one(gateway_database_url: str, tmp_path: Path) -> None:
    """Another gateway knows it by the log; what has the same id and says another thing is refused there too."""
    async with open_house(gateway_database_url, tmp_path, gateways=2) as house:
        conversation, token = await a_visitors_token(house)
        await a_card(house, conversation)
        async with house.client(token) as visitor, house.client(token, gateway=1) as elsewhere:
            told = await say(visitor, conversation, "yes", message_id="m-1")
            path = f"/v1/conversations/{conversation}"
            await listen(visitor, f"{path}/events", lambda heard: heard[-1]["type"] == "decision")
            house.query("UPDATE read.approvals SET state = 'approved' RETURNING 1")
            house.query("DELETE FROM read.messages")
            again = await say(elsewhere, conversation, "yes", message_id="m-1")
            other = await elsewhere.post(f"{path}/messages", json={"text": "no", "message_id": "m-1"})
    assert (told, 409) == (again, other.status_code)
    assert (1, True) == (len(house.approvers.claims), house.posted.empty())


async def test_a_yes_that_led_to_a_call_is_no_answer_to_it(house: House) -> None:
    """A client that repeats its message, because its connection broke, approves nothing."""
    conversation, token = await a_visitors_token(house)
    async with house.client(token) as visitor:
        await say(visitor, conversation, "yes", message_id="m-1")
        path = f"/v1/conversations/{conversation}/events"
        await listen(visitor, path, lambda heard: heard[-1]["type"] == "message")
        await a_card(house, conversation)
        again = await say(visitor, conversation, "yes", message_id="m-1")
    assert ("m-1", None, []) == (again["message_id"], again.get("taken_as"), house.approvers.claims)


async def test_a_yes_that_was_not_stored_decides_when_it_is_sent_again(house: House) -> None:
    """Where the commit fails, the same message id is not taken for a decision that is there."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation)
    async with house.client(token) as visitor:
        with failing_commits(house.url, "gateway.outbox"):
            path = f"/v1/conversations/{conversation}/messages"
            failed = await visitor.post(path, json={"text": "yes", "message_id": "lost"})
        told = await say(visitor, conversation, "yes", message_id="lost")
    assert (503, "accepted", 1) == (failed.status_code, told["outcome"], len(house.approvers.claims))


async def test_a_refused_yes_is_shown_to_have_counted_for_nothing(house: House) -> None:
    """What approval says no to is told in the answer and in the feed."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation)
    house.approvers.outcome = "too_weak"
    async with house.client(token) as visitor:
        assert "too_weak" == (await say(visitor, conversation, "yes"))["outcome"]
        items = await listen(
            visitor, f"/v1/conversations/{conversation}/events", lambda heard: heard[-1]["type"] == "decision"
        )
    assert "too_weak" == items[-1]["data"]["outcome"]


async def test_a_rule_must_allow_it(house: House) -> None:
    """Without `by_message` a yes is an ordinary message, which the agent gets."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation, approval_rule={})
    async with house.client(token) as visitor:
        assert (await say(visitor, conversation, "yes"))["taken_as"] is None
    message = await asyncio.wait_for(house.posted.get(), 20)
    assert isinstance(message, MessagePosted)
    assert ("yes", []) == (message.text, house.approvers.claims)


async def test_a_yes_to_what_is_stopped_is_no_message(house: House) -> None:
    """It says why, and the call waits on: as an ordinary message it might withdraw it. A no decides still."""
    conversation, token = await a_visitors_token(house)
    row = await a_card(house, conversation)
    async with house.client(house.key("admin")) as admin:
        asked = {"tool": row["tool"], "reason": "Look first", "anyway": True}
        assert 201 == (await admin.post("/v1/stops", json=asked)).status_code
    async with house.client(token) as visitor:
        path = f"/v1/conversations/{conversation}/messages"
        refused = await visitor.post(path, json={"text": "yes"})
        assert (409, "stopped", "Look first") == (
            refused.status_code,
            refused.json()["type"].rpartition(":")[2],
            refused.json()["detail"],
        )
        assert "deny" == (await say(visitor, conversation, "no"))["taken_as"]["decision"]
    assert house.posted.empty()


async def test_with_several_cards_only_a_name_is_clear(house: House) -> None:
    """A bare yes is about none of two calls; the name of one is about that one, if its rule allows it."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation, 1, tool="pay")
    await a_card(house, conversation, 2, tool="refund", approval_rule={})
    async with house.client(token) as visitor:
        bare = await say(visitor, conversation, "yes")
        other = await say(visitor, conversation, "yes refund")
        named = await say(visitor, conversation, "no, pay")
    assert [None, None, "deny"] == [(each["taken_as"] or {}).get("decision") for each in (bare, other, named)]
    assert ["approval-call-1"] == [claims.approval_id for claims in house.approvers.claims]


async def spoken(house: House, conversation: str, step: int, turn: str = "turn-1", **more: Any) -> None:
    """Let the model say something in a turn."""
    await house.append(conversation, said(f"said-{turn}-{step}", "Shall I tell you a joke?", turn, step=step, **more))


@pytest.mark.parametrize("words", [{"step": 2, "heard_meanwhile": True}, {"step": 1, "turn": "turn-2"}])
async def test_a_yes_after_more_words_of_the_model_is_in_doubt(house: House, words: dict[str, Any]) -> None:
    """It may be an answer to those; with a name it is none."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation)
    await spoken(house, conversation, **words)
    async with house.client(token) as visitor:
        doubtful = await say(visitor, conversation, "yes")
        named = await say(visitor, conversation, "yes, pay")
    assert (None, "approve") == (doubtful["taken_as"], named["taken_as"]["decision"])


async def test_a_yes_after_words_that_ask_nothing_is_about_the_card(house: House) -> None:
    """What is not shown asks nothing."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation)
    await spoken(house, conversation, step=2, while_waiting=True)
    async with house.client(token) as visitor:
        assert "approve" == (await say(visitor, conversation, "yes"))["taken_as"]["decision"]


async def test_a_card_that_was_not_shown_yet_is_not_decided(house: House) -> None:
    """The approval exists, and its card is still on its way to the feed: a yes cannot be about it."""
    conversation, token = await a_visitors_token(house)
    call = a_call(call_id="call-1", conversation_id=conversation, requester="v-42")
    insert(house.url, "approvals", **an_approval_row(call, approval_rule=BY_MESSAGE))
    async with house.client(token) as visitor:
        assert (await say(visitor, conversation, "yes"))["taken_as"] is None


async def test_a_card_that_changed_since_it_was_shown_is_not_decided(house: House) -> None:
    """An edit that the feed does not show yet makes the yes an ordinary message."""
    conversation, token = await a_visitors_token(house)
    await a_card(house, conversation, digest="e" * 64)
    async with house.client(token) as visitor:
        assert (await say(visitor, conversation, "yes"))["taken_as"] is None


async def test_nobody_says_yes_for_another(house: House) -> None:
    """A backend that relays its user's words proves nothing about them, and a stranger's yes is a message."""
    async with house.client(house.key("chat", "decide", person="shop")) as backend:
        conversation, _ = await a_conversation(backend, visitor="v-42")
        await a_card(house, conversation, approvers=["requester"], deciders="{requester}")
        relayed = await say(backend, conversation, "yes", author="visitor")
        own = await say(backend, conversation, "yes", author="person")
    assert [None, None] == [relayed["taken_as"], own["taken_as"]]
    assert [] == house.approvers.claims


async def test_an_approver_may_say_it_under_their_own_name(house: House) -> None:
    """A person with a key who may decide is known by it, and decides by message where the rule lets them."""
    conversation, _ = await a_visitors_token(house)
    await a_card(house, conversation)
    async with house.client(house.key("chat", "decide", person="grace")) as grace:
        told = await say(grace, conversation, "no", author="person")
    (claims,) = house.approvers.claims
    assert ("deny", "person:grace", "api_key", "no") == (claims.verb, claims.person, claims.proof, claims.said)
    assert "accepted" == told["outcome"]


async def test_the_language_of_the_conversation_counts(house: House) -> None:
    """A German conversation knows German words only."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42", language="de")
    await a_card(house, conversation)
    async with house.client(token) as visitor:
        english, german = [await say(visitor, conversation, text) for text in ("yes", "Ja, bitte!")]
    assert (None, "approve") == (english["taken_as"], german["taken_as"]["decision"])
