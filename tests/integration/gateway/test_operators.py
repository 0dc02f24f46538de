"""Operators: taking conversations over, answering in them, giving them back (mission A8, A9)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, TypeVar

from placet.contracts.messages import HandoverRequested, HolderChanged, Message, OperatorSpoke
from tests.support.failing_commits import failing_commits
from tests.support.gateway import House, a_conversation
from tests.support.system import until

M = TypeVar("M", bound=Message)


async def spoken_in(house: House, text: str = "hello", **options: Any) -> tuple[str, str]:
    """Return a conversation in which its visitor has written, and its token."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, **options)
    async with house.client(token) as visitor:
        await visitor.post(f"/v1/conversations/{conversation}/messages", json={"text": text, "message_id": "m1"})
    return conversation, token


async def sent(house: House, kind: type[M]) -> M:
    """Return the next message of a kind that reaches the agent."""
    while not isinstance(message := await asyncio.wait_for(house.posted.get(), 20), kind):
        pass
    return message


def handed_over(conversation: str) -> HandoverRequested:
    """Return the word of the agent that a tool hands a conversation over."""
    place = {"tenant": "acme", "conversation_id": conversation}
    return HandoverRequested(**place, call_id="call-1", reason="wants a refund")


async def test_a_tool_hands_a_conversation_over_once(house: House) -> None:
    """It waits for an operator with the tool's reason, and its visitor is told so; a copy changes nothing."""
    conversation, token = await spoken_in(house, language="de")
    asked = handed_over(conversation)
    for _ in range(2):
        await house.deliver(asked)
    async with house.client(house.key("operate")) as ada, house.client(token) as visitor:
        (waiting,) = (await ada.get("/v1/conversations")).json()["items"]
        shown = (await visitor.get(f"/v1/conversations/{conversation}")).json()
    assert (conversation, "waiting", "wants a refund") == tuple(waiting[name] for name in ("id", "holder", "reason"))
    assert ("waiting", None) == (shown["holder"], shown["operator"])
    said: list[tuple[str]] = []

    async def is_told() -> bool:
        said[:] = house.query("SELECT data->>'text' FROM read.log WHERE type = 'holder'")
        return bool(said)

    await until(is_told, "the visitor is told")
    ((told,),) = said
    assert told.startswith("Ein Mensch wurde gerufen.")


async def test_of_two_operators_one_wins_and_the_other_hears_who(house: House) -> None:
    """One 200 and one 409 that names the holder; asking again changes nothing for the winner."""
    conversation, _ = await spoken_in(house)
    path = f"/v1/conversations/{conversation}/takeover"
    keys = {person: house.key("operate", person=person) for person in ("ada", "grace")}
    async with house.client(keys["ada"]) as ada, house.client(keys["grace"]) as grace:
        answers = dict(zip(("ada", "grace"), await asyncio.gather(ada.post(path), grace.post(path)), strict=True))
        winner = next(person for person, answer in answers.items() if answer.status_code == 200)
        loser = next(person for person in answers if person != winner)
        again = await (ada if winner == "ada" else grace).post(path)
    problem = answers[loser].json()
    assert (409, f"person:{winner}") == (answers[loser].status_code, problem["operator"])
    assert problem["title"] == f"{winner} holds this conversation."
    assert (200, 1) == (again.status_code, again.json()["revision"])


async def test_an_operators_answer_is_said_in_their_name(house: House) -> None:
    """The feed has it as an operator's; the agent hears what it answers: what they had seen, and no more."""
    conversation, token = await spoken_in(house)
    path = f"/v1/conversations/{conversation}"
    async with house.client(house.key("operate")) as ada, house.client(token) as visitor:
        assert 409 == (await ada.post(f"{path}/messages", json={"text": "hi", "author": "operator"})).status_code
        await ada.post(f"{path}/takeover")
        seen = (await ada.get(path)).json()["last_event_id"]
        await visitor.post(f"{path}/messages", json={"text": "unseen", "message_id": "m2"})
        body = {"text": "hi", "author": "operator", "message_id": "o1", "seen_event_id": seen}
        first, second = [await ada.post(f"{path}/messages", json=body) for _ in range(2)]
        other = await ada.post(f"{path}/messages", json={**body, "text": "else"})
        forged = await visitor.post(f"{path}/messages", json={"text": "I am ada", "author": "operator"})
        messages: list[dict[str, Any]] = []
        while not messages or messages[-1]["role"] != "operator":
            messages = (await visitor.get(path)).json()["messages"]
    assert (202, first.json(), 409, 403) == (
        first.status_code,
        second.json(),
        other.status_code,
        forged.status_code,
    )
    assert ("operator", {"kind": "operator", "id": "person:ada"}) == (messages[-1]["role"], messages[-1]["author"])
    assert seen == (await sent(house, OperatorSpoke)).seen


async def test_an_operators_answer_that_was_not_stored_can_be_sent_again(house: House) -> None:
    """Where the commit fails, the same message id is not taken for an answer that is there."""
    conversation, _ = await spoken_in(house)
    path = f"/v1/conversations/{conversation}"
    body = {"text": "hi", "author": "operator", "message_id": "lost"}
    async with house.client(house.key("operate")) as ada:
        await ada.post(f"{path}/takeover")
        with failing_commits(house.url, "gateway.outbox"):
            failed = await ada.post(f"{path}/messages", json=body)
        again = await ada.post(f"{path}/messages", json=body)
    assert (503, 202) == (failed.status_code, again.status_code)
    assert "lost" == (await sent(house, OperatorSpoke)).message_id


async def test_a_released_conversation_is_the_agents(house: House) -> None:
    """Any operator may give it back; nobody holds it then, and a second time changes nothing."""
    conversation, _ = await spoken_in(house)
    path = f"/v1/conversations/{conversation}"
    async with (
        house.client(house.key("operate")) as ada,
        house.client(house.key("operate", person="grace")) as grace,
    ):
        await ada.post(f"{path}/takeover")
        answers = [(await grace.post(f"{path}/release")).json() for _ in range(2)]
        late = await ada.post(f"{path}/messages", json={"text": "hi", "author": "operator"})
        left = (await ada.get("/v1/conversations")).json()["items"]
    assert [("agent", 2)] * 2 == [(answer["holder"], answer["revision"]) for answer in answers]
    assert (409, []) == (late.status_code, left)
    assert ["operator", "agent"] == [(await sent(house, HolderChanged)).holder for _ in range(2)]


async def test_operators_see_their_own_tenant_and_need_the_scope(house: House) -> None:
    """A foreign conversation does not exist; chat and decide open nothing here."""
    conversation, token = await spoken_in(house)
    paths = [f"/v1/conversations/{conversation}/{verb}" for verb in ("takeover", "release")]
    async with (
        house.client(house.key("operate", tenant="other")) as foreign,
        house.client(house.key("chat", "decide")) as chatter,
        house.client(token) as visitor,
    ):
        assert [404, 404] == [(await foreign.post(path)).status_code for path in paths]
        assert [] == (await foreign.get("/v1/conversations")).json()["items"]
        for caller in (chatter, visitor):
            assert [403, 403] == [(await caller.post(path)).status_code for path in paths]
            assert 403 == (await caller.get("/v1/conversations")).status_code


async def test_the_list_has_pages(house: House) -> None:
    """Each page begins behind the one before, newest first, and narrows to those that wait."""
    made = [(await spoken_in(house))[0] for _ in range(3)]
    for conversation in made:
        await house.deliver(handed_over(conversation))
    found: list[str] = []
    async with house.client(house.key("operate")) as ada:
        await ada.post(f"/v1/conversations/{made[0]}/takeover")
        page = (await ada.get("/v1/conversations?limit=2")).json()
        found += [each["id"] for each in page["items"]]
        page = (await ada.get("/v1/conversations", params={"limit": 2, "cursor": page["next"]})).json()
        found += [each["id"] for each in page["items"]]
        waiting = (await ada.get("/v1/conversations?holder=waiting")).json()["items"]
    assert (list(reversed(made)), None) == (found, page["next"])
    assert {made[1], made[2]} == {each["id"] for each in waiting}
    assert all(datetime.fromisoformat(each["held_since"]) <= datetime.now(UTC) for each in waiting)


async def test_an_ended_conversation_is_nobodys(house: House) -> None:
    """An operator may end it; then it is in no list, and nobody takes it over."""
    conversation, _ = await spoken_in(house)
    path = f"/v1/conversations/{conversation}"
    async with house.client(house.key("operate")) as ada:
        await ada.post(f"{path}/takeover")
        assert 204 == (await ada.post(f"{path}/end")).status_code
        assert [] == (await ada.get("/v1/conversations")).json()["items"]
        assert "conversation-ended" in (await ada.post(f"{path}/takeover")).json()["type"]
