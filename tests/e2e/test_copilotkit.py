"""CopilotKit's core and the AG-UI client that it pins, against a whole Placet: approvals show, and are answered."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.ids import new_id
from tests.support.node_client import node_client
from tests.support.people import Caller, Visitor, is_turn_end
from tests.support.system import System


@pytest.fixture
def shopper(system: System) -> Caller:
    """A chat product's backend whose person may also decide."""
    return Caller(system.url, system.key("chat", "decide", person="grace"))


def texts(said: dict[str, Any]) -> list[str]:
    """Return what the assistant says in the page's messages."""
    return [each["content"] for each in said["messages"] if each["role"] == "assistant" and each.get("content")]


def results(said: dict[str, Any]) -> dict[str, list[str]]:
    """Return the results that the page has of each call: tool -> contents."""
    calls = {call["id"]: call["function"]["name"] for each in said["messages"] for call in each.get("toolCalls", ())}
    found: dict[str, list[str]] = {name: [] for name in calls.values()}
    for each in said["messages"]:
        if each["role"] == "tool":
            found[calls[each["toolCallId"]]].append(each["content"])
    return found


async def test_an_approval_shows_and_is_answered(shopper: Caller) -> None:
    """The client names no version of the protocol and gets the interrupt; its answer runs the call, told once."""
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, new_id()) as page:
        asked = await page.do("say", text="deploy the shop")
        done = await page.do("resolve", payload={"approved": True})
    (interrupt,) = asked["interrupts"]
    assert (None, []) == (asked["posted"].get("protocolVersion"), asked["errors"])
    assert ("tool_call", ["Deploying."]) == (interrupt["reason"], texts(asked))
    assert ([], [], ["Deploying.", "The shop is green."]) == (done["errors"], done["interrupts"], texts(done))
    assert {"deploy": 1, "read_status": 1} == {tool: len(told) for tool, told in results(done).items()}
    assert "https://shop.example.test" in results(done)["deploy"][0]


async def test_a_page_looks_again_at_what_was_decided_elsewhere(shopper: Caller, operator: Caller) -> None:
    """An answer that decides nothing shows what became of the call, and the page goes on with the next message."""
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, new_id()) as page:
        asked = await page.do("say", text="deploy the shop")
        approval_id, digest = asked["interrupts"][0]["id"].split(".")
        await operator.decide({"approval_id": approval_id, "digest": digest}, "approve")
        looked = await page.do("resolve", payload={})
        told = await page.do("say", text="hello")
    assert ([], [], ["Deploying.", "The shop is green."]) == (looked["errors"], looked["interrupts"], texts(looked))
    assert ([], "Hello, how can I help you today?") == (told["errors"], texts(told)[-1])


async def test_a_denial_is_one_too(shopper: Caller) -> None:
    """Denied, the call never runs; the result is the denial and not what the page wrote there itself."""
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, new_id()) as page:
        await page.do("say", text="deploy the shop")
        done = await page.do("resolve", payload={"approved": False, "reason": "Not today."})
    (told,) = results(done)["deploy"]
    assert ([], ["Deploying.", "It was not deployed."]) == (done["errors"], texts(done))
    assert ("denied" in told, "approved" in told) == (True, False)


async def test_a_cancelled_question_is_a_no(shopper: Caller) -> None:
    """What the page gives up is denied."""
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, new_id()) as page:
        await page.do("say", text="deploy the shop")
        done = await page.do("cancel")
    assert ([], [], ["Deploying.", "It was not deployed."]) == (done["errors"], done["interrupts"], texts(done))


async def test_the_guides_page_answers_two_calls_that_wait(shopper: Caller) -> None:
    """The snippet of docs/ag-ui.md shows a card for each; each answer is about its own call."""
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, new_id()) as page:
        asked = await page.do("say", text="deploy two")
        await page.do("click", name="Approve", place=0)
        done = await page.do("click", name="Deny", place=1)
    told = results(done)["deploy"]
    assert (2, [], []) == (len(asked["interrupts"]), done["errors"], done["interrupts"])
    assert ["denied" in each for each in told].count(True) == 1 == len(told) - 1


@pytest.mark.parametrize("button", ["Approve", "Deny", "Go on"])
async def test_the_guides_page_is_freed_from_what_expired(shopper: Caller, button: str) -> None:
    """While it was open; each of its buttons shows the end, and the next message is answered."""
    thread_id = new_id()
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, thread_id) as page:
        await page.do("say", text="deploy short-lived")
        await Visitor(shopper.url, shopper.token, thread_id).see(is_turn_end)
        done = await page.do("click", name=button, place=0)
        told = await page.do("say", text="hello")
    (result,) = results(done)["deploy"]
    assert ([], [], True) == (done["errors"], done["interrupts"], "expired" in result)
    assert ([], "Hello, how can I help you today?") == (told["errors"], texts(told)[-1])


@pytest.mark.parametrize("how", ["cut", "lose"])
async def test_the_guides_page_goes_on_after_an_answer_that_was_cut(shopper: Caller, how: str) -> None:
    """Its run was stopped, or reached nobody, which is asked again: one button frees the page in both cases."""
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, new_id()) as page:
        await page.do("say", text="deploy the shop")
        lost = await page.do(how, name="Approve")
        freed = await page.do("click", name="Go on", place=0)
        done = await page.do("click", name="Approve", place=0) if how == "lose" else freed
        told = await page.do("say", text="hello")
    assert (how == "lose", []) == (bool(freed["interrupts"]), done["interrupts"])
    assert lost["errors"] == told["errors"]
    assert ["Deploying.", "The shop is green.", "Hello, how can I help you today?"] == texts(told)


async def test_the_guides_page_names_its_thread(shopper: Caller) -> None:
    """Loaded again, it is the same thread."""
    thread_id = new_id()
    async with node_client("copilotkit.mjs", shopper.url, shopper.token, thread_id) as page:
        said = await page.do("thread", threadId=thread_id)
    assert thread_id in said["noted"]
