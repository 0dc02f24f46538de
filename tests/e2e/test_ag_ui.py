"""AG-UI's own client against a whole Placet; its verifier throws at whatever breaks the protocol's order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from placet.contracts.ids import new_id
from tests.support.node_client import NodeClient, node_client
from tests.support.people import Caller, Visitor, is_card, is_turn_end
from tests.support.system import System

Said = dict[str, Any]


@pytest.fixture
def shopper(system: System) -> Caller:
    """A chat product's backend whose person may also decide."""
    return Caller(system.url, system.key("chat", "decide", person="grace"))


@asynccontextmanager
async def a_thread(caller: Caller, thread_id: str = "") -> AsyncIterator[tuple[NodeClient, str]]:
    """Open a page with AG-UI's client."""
    thread_id = thread_id or new_id()
    async with node_client("ag_ui.mjs", caller.url, caller.token, thread_id) as client:
        yield client, thread_id


def texts(said: Said) -> list[str]:
    """Return what the assistant says in the client's messages."""
    return [each["content"] for each in said["messages"] if each["role"] == "assistant" and each.get("content")]


def results(said: Said) -> list[tuple[str, str]]:
    """Return the results in the client's messages: tool and kind."""
    calls = {call["id"]: call for each in said["messages"] for call in each.get("toolCalls", ())}
    found = [each for each in said["messages"] if each["role"] == "tool"]
    return [(calls[each["toolCallId"]]["function"]["name"], each["metadata"]["placet"]["kind"]) for each in found]


def cards(said: Said) -> list[dict[str, Any]]:
    """Return the approvals that the client shows."""
    return [each["content"] for each in said["messages"] if each["role"] == "activity"]


def end(said: Said) -> tuple[str, Any]:
    """Return how the run ended: type, and outcome or code; and that the client had nothing to find fault with."""
    last = said["events"][-1]
    fault = said["noted"] if last["type"] == "RUN_FINISHED" else []
    assert [] == fault
    return last["type"], last["outcome"]["type"] if last["type"] == "RUN_FINISHED" else last["code"]


def kinds(said: Said) -> list[str]:
    """Return the types of the run's events."""
    return [event["type"] for event in said["events"]]


def refusals(said: Said) -> list[str]:
    """Return why answers did not count."""
    return [event["value"]["kind"] for event in said["events"] if event["type"] == "CUSTOM"]


async def test_a_thread_begins_by_writing_and_streams_its_answer(shopper: Caller) -> None:
    """A thread nobody opened begins with its first message; what the client posted needs no snapshot of messages."""
    async with a_thread(shopper) as (page, thread_id):
        said = await page.do("say", text="hello")
    stored = await shopper.get(f"/v1/conversations/{thread_id}")
    assert (None, ("RUN_FINISHED", "success")) == (said["error"], end(said))
    assert ["Hello, how can I help you today?"] == texts(said)
    assert ("RUN_STARTED", "1.0") == (said["events"][0]["type"], said["events"][0]["protocolVersion"])
    assert "MESSAGES_SNAPSHOT" not in kinds(said)
    assert [(each["id"], each["role"]) for each in said["messages"]] == [
        (each["id"], each["role"]) for each in stored["messages"]
    ]


async def test_a_free_call_is_made_and_answered_in_one_run(shopper: Caller) -> None:
    """A call that nobody is asked about has its arguments, its result and a step of its own, in the order of AG-UI."""
    async with a_thread(shopper) as (page, _):
        said = await page.do("say", text="show me red shoes")
    order = [kind for kind in kinds(said) if kind.startswith(("TOOL", "STEP", "RUN"))]
    call = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    step = ["STEP_STARTED", "STEP_FINISHED"]
    assert ["RUN_STARTED", step[0], *call, step[1], *step, "RUN_FINISHED"] == order
    assert (None, [("search_products", "succeeded")]) == (said["error"], results(said))
    assert ["success"] == [call["status"] for call in said["state"]["placet"]["calls"].values()]


async def test_a_held_call_is_an_interrupt_and_a_resume_goes_on(shopper: Caller) -> None:
    """The run ends by asking; the next one has the result of the same call, tells no call again, and ends well."""
    async with a_thread(shopper) as (page, thread_id):
        asked = await page.do("say", text="deploy the shop")
        (waiting,) = (await shopper.get(f"/v1/conversations/{thread_id}"))["approvals"]
        done = await page.do("answer", payload={"approved": True})
    (interrupt,) = asked["interrupts"]
    assert (None, ("RUN_FINISHED", "interrupt"), []) == (asked["error"], end(asked), results(asked))
    assert (f"{waiting['id']}.{waiting['digest']}", "tool_call", waiting["call"]["id"], waiting["summary"]) == (
        interrupt["id"],
        interrupt["reason"],
        interrupt["toolCallId"],
        interrupt["message"],
    )
    assert (None, ("RUN_FINISHED", "success")) == (done["error"], end(done))
    assert [("deploy", "succeeded"), ("read_status", "succeeded")] == results(done)
    assert (["Deploying.", "The shop is green."], ["approved"]) == (
        texts(done),
        [card["state"] for card in cards(done)],
    )
    started = [event["toolCallName"] for event in done["events"] if event["type"] == "TOOL_CALL_START"]
    # What began before the run did stands in the messages that the run begins with.
    before = [each for event in done["events"] if event["type"] == "MESSAGES_SNAPSHOT" for each in event["messages"]]
    begun = [call["function"]["name"] for each in before for call in each.get("toolCalls", ())]
    assert (["deploy", "read_status"], []) == (begun + started, done["interrupts"])


async def test_a_denied_call_never_runs_and_says_why(shopper: Caller) -> None:
    """A no is an answer too: the call's result is the denial, with the person's words on the card."""
    async with a_thread(shopper) as (page, _):
        await page.do("say", text="deploy the shop")
        done = await page.do("answer", payload={"approved": False, "reason": "Not today."})
    assert (None, ("RUN_FINISHED", "success"), [("deploy", "denied")]) == (done["error"], end(done), results(done))
    assert (["Deploying.", "It was not deployed."], "Not today.") == (texts(done), cards(done)[0]["decision_reason"])


async def test_an_abandoned_question_is_a_no(shopper: Caller) -> None:
    """A cancelled interrupt denies the call."""
    async with a_thread(shopper) as (page, _):
        await page.do("say", text="deploy the shop")
        done = await page.do("answer", status="cancelled")
    assert (None, [("deploy", "denied")], []) == (done["error"], results(done), refusals(done))


async def test_what_was_decided_elsewhere_is_told_by_the_next_run(shopper: Caller, operator: Caller) -> None:
    """Approved with the API, an answer that decides nothing shows the outcome, and so does a late no."""
    async with a_thread(shopper) as (page, thread_id):
        await page.do("say", text="deploy the shop")
        visitor = Visitor(shopper.url, shopper.token, thread_id)
        await operator.decide((await visitor.see(is_card))["data"], "approve")
        late = await page.do("answer", payload={"approved": False})
    assert (None, ("RUN_FINISHED", "success"), ["already-decided"]) == (late["error"], end(late), refusals(late))
    assert [("deploy", "succeeded"), ("read_status", "succeeded")] == results(late)
    assert (["Deploying.", "The shop is green."], ["approved"]) == (
        texts(late),
        [card["state"] for card in cards(late)],
    )


@pytest.mark.parametrize(("payload", "refused"), [({}, []), ({"approved": True}, ["already-decided"])])
async def test_what_expired_on_an_open_page_is_answered_like_anything_else(
    shopper: Caller, payload: dict[str, Any], refused: list[str]
) -> None:
    """The client takes the answer, whatever it says, and the page goes on with the next message."""
    async with a_thread(shopper) as (page, thread_id):
        asked = await page.do("say", text="deploy short-lived")
        await Visitor(shopper.url, shopper.token, thread_id).see(is_turn_end)
        late = await page.do("answer", payload=payload)
        after = await page.do("say", text="hello")
    assert (1, None, refused, []) == (len(asked["interrupts"]), late["error"], refusals(late), late["interrupts"])
    assert ([("deploy", "expired")], ["expired"]) == (results(late), [card["state"] for card in cards(late)])
    assert (None, "Hello, how can I help you today?") == (after["error"], texts(after)[-1])


async def test_an_answer_that_decides_nothing_asks_again(shopper: Caller) -> None:
    """Who only looks whether others decided is asked the same again."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="deploy the shop")
        again = await page.do("answer", payload={})
    assert (None, ("RUN_FINISHED", "interrupt"), []) == (again["error"], end(again), refusals(again))
    assert asked["interrupts"] == again["interrupts"]


async def test_two_calls_wait_and_one_is_answered(shopper: Caller) -> None:
    """The answered call runs, the other one is asked about again; then both have one result."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="deploy two")
        first, second = asked["interrupts"]
        await page.do("load")
        half = await page.do(
            "run", resume=[{"interruptId": first["id"], "status": "resolved", "payload": {"approved": True}}]
        )
        done = await page.do("answer", payload={"approved": True})
    assert (None, [("deploy", "succeeded")]) == (half["error"], results(half))
    assert [second["id"]] == [each["id"] for each in half["interrupts"]]
    assert (None, ("RUN_FINISHED", "success")) == (done["error"], end(done))
    assert [("deploy", "succeeded"), ("deploy", "succeeded")] == results(done)[:2]


async def test_an_answer_to_other_arguments_decides_nothing(shopper: Caller) -> None:
    """An interrupt's id names the arguments; with another digest the call is asked about again, and why is told."""
    async with a_thread(shopper) as (page, thread_id):
        asked = await page.do("say", text="deploy the shop")
        approval, _, _ = asked["interrupts"][0]["id"].partition(".")
        await page.do("load")
        entry = {"interruptId": f"{approval}.{'0' * 64}", "status": "resolved", "payload": {"approved": True}}
        stale = await page.do("run", resume=[entry])
        waiting = await shopper.get(f"/v1/conversations/{thread_id}")
    assert ("waiting", None, ["stale-card"]) == (waiting["state"], stale["error"], refusals(stale))
    assert asked["interrupts"][0]["id"] == stale["interrupts"][0]["id"]
    assert "stale-card" == stale["interrupts"][0]["metadata"]["placet"]["problem"]["kind"]


async def test_an_interrupt_of_another_thread_is_none(shopper: Caller) -> None:
    """An id that is none of this thread's is passed over with a word about it."""
    async with a_thread(shopper) as (page, _), a_thread(shopper) as (other, other_id):
        await page.do("say", text="hello")
        asked = await other.do("say", text="deploy the shop")
        entries = [
            {"interruptId": each, "status": "resolved", "payload": {"approved": True}}
            for each in (asked["interrupts"][0]["id"], "nobody's")
        ]
        said = await page.do("run", resume=entries)
        waiting = await shopper.get(f"/v1/conversations/{other_id}")
    assert (None, ("RUN_FINISHED", "success")) == (said["error"], end(said))
    assert (["not-found", "not-found"], "waiting") == (refusals(said), waiting["state"])


async def test_a_resume_that_comes_twice_changes_nothing(shopper: Caller) -> None:
    """The same answer to an approval that is over shows the thread as it is."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="deploy the shop")
        done = await page.do("answer", payload={"approved": True})
        entry = {"interruptId": asked["interrupts"][0]["id"], "status": "resolved", "payload": {"approved": True}}
        again = await page.do("run", resume=[entry])
    assert (None, ("RUN_FINISHED", "success"), ["already-decided"]) == (again["error"], end(again), refusals(again))
    assert done["messages"] == again["messages"]


async def test_who_may_not_decide_is_told_so(frontend: Caller, operator: Caller) -> None:
    """A visitor's answer to an operators' question ends the run with an error; the question stays, for operators."""
    made = await frontend.post("/v1/conversations", {})
    async with a_thread(Caller(frontend.url, made["token"]), made["id"]) as (page, _):
        await page.do("say", text="deploy and hold")
        refused = await page.do("answer", payload={"approved": True})
        asked = await page.do("answer", status="cancelled")
        visitor = Visitor(frontend.url, frontend.token, made["id"])
        await operator.decide((await visitor.see(is_card))["data"], "approve")
        done = await page.do("answer", payload={})
    assert ("RUN_ERROR", "not-an-approver") == end(refused)
    assert (("RUN_FINISHED", "interrupt"), ["not-an-approver"]) == (end(asked), refusals(asked))
    assert ["Deploying.", "The shop is green."] == texts(done)


async def test_a_page_that_is_loaded_again_shows_the_thread_and_its_question(shopper: Caller) -> None:
    """A client with nothing but the thread's id gets messages, state and the interrupt."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="deploy the shop")
        await page.do("load")
        again = await page.do("run")
        done = await page.do("answer", payload={"approved": True})
    assert (None, ("RUN_FINISHED", "interrupt")) == (again["error"], end(again))
    assert (asked["messages"], asked["interrupts"]) == (again["messages"], again["interrupts"])
    assert ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"] == kinds(again)
    assert ["pending_confirmation"] == [call["status"] for call in again["state"]["placet"]["calls"].values()]
    assert ["Deploying.", "The shop is green."] == texts(done)


async def test_a_stream_that_drops_stops_nothing(shopper: Caller) -> None:
    """The client goes after the first event; the next run shows everything once."""
    async with a_thread(shopper) as (page, _):
        await page.do("say", text="show me red shoes", until="RUN_STARTED")
        said = await page.do("run")
    assert (None, ["These are the red shoes."]) == (said["error"], texts(said))
    assert [("search_products", "succeeded")] == results(said)


async def test_a_client_that_dropped_its_answers_run_goes_on_by_asking_what_became_of_it(shopper: Caller) -> None:
    """The yes counts; the client keeps the question and refuses a plain run, but not the one that docs/ag-ui.md has."""
    async with a_thread(shopper) as (page, _):
        await page.do("say", text="deploy the shop")
        dropped = await page.do("answer", payload={"approved": True}, until="RUN_STARTED")
        plain = await page.do("run")
        done = await page.do("answer")
        after = await page.do("run")
    assert (1, 1) == (len(dropped["interrupts"]), len(plain["interrupts"]))
    assert "not addressed by resume" in plain["error"]
    assert (None, ("RUN_FINISHED", "success"), [], []) == (done["error"], end(done), refusals(done), done["interrupts"])
    assert [("deploy", "succeeded"), ("read_status", "succeeded")] == results(done)
    assert (None, done["messages"]) == (after["error"], after["messages"])


async def test_what_the_model_says_of_a_waiting_call_is_not_shown(shopper: Caller) -> None:
    """B3: nothing of it streams; decided, the run tells what came of it."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="deploy at once")
        done = await page.do("answer", payload={"approved": False})
    assert (None, ("RUN_FINISHED", "interrupt"), ["Deploying."]) == (asked["error"], end(asked), texts(asked))
    assert (None, ["Deploying.", "It came to nothing."]) == (done["error"], texts(done))


async def test_a_message_while_a_call_waits_is_answered(shopper: Caller) -> None:
    """The model answers meanwhile and the question is asked again; the late outcome reaches a run that resumes."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="deploy the shop please")
        look = [{"interruptId": each["id"], "status": "resolved"} for each in asked["interrupts"]]
        meanwhile = await page.do("say", text="hello, are you still there?", resume=look)
        done = await page.do("answer", payload={"approved": True})
    assert (None, ("RUN_FINISHED", "interrupt")) == (meanwhile["error"], end(meanwhile))
    assert "Hello, how can I help you today?" == texts(meanwhile)[-1]
    assert (asked["interrupts"], []) == (meanwhile["interrupts"], results(meanwhile))
    assert (None, ("RUN_FINISHED", "success"), "The shop is green.") == (done["error"], end(done), texts(done)[-1])
    assert [("deploy", "succeeded"), ("read_status", "succeeded")] == results(done)


async def test_a_message_that_must_wait_is_answered_after_the_call(shopper: Caller) -> None:
    """Where the rule lets messages wait, the run ends by asking again; then both are answered in their order."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="deploy and hold")
        look = [{"interruptId": each["id"], "status": "resolved"} for each in asked["interrupts"]]
        waits = await page.do("say", text="hello, are you still there?", resume=look)
        done = await page.do("answer", payload={"approved": True})
    assert (None, ("RUN_FINISHED", "interrupt"), ["Deploying."]) == (waits["error"], end(waits), texts(waits))
    assert (None, ("RUN_FINISHED", "success")) == (done["error"], end(done))
    assert ["Deploying.", "The shop is green.", "Hello, how can I help you today?"] == texts(done)


async def test_a_message_that_takes_a_calls_place_withdraws_the_question(shopper: Caller) -> None:
    """Where the rule says so, the message ends the call, and nothing is asked any more."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="do superseding 1.")
        look = [{"interruptId": each["id"], "status": "resolved"} for each in asked["interrupts"]]
        done = await page.do("say", text="never mind", resume=look)
    assert (None, ("RUN_FINISHED", "success"), [("act", "superseded")]) == (done["error"], end(done), results(done))
    assert ("As you like.", []) == (texts(done)[-1], done["interrupts"])


async def test_every_ending_of_a_call_has_a_result(shopper: Caller) -> None:
    """Unknown tools, broken and invalid arguments, a failing tool and a held call, all in one answer."""
    async with a_thread(shopper) as (page, _):
        asked = await page.do("say", text="everything at once")
        done = await page.do("answer", payload={"approved": True})
    assert (None, ("RUN_FINISHED", "interrupt"), 5) == (asked["error"], end(asked), len(results(asked)))
    assert (None, ["All of it.", "That was everything."]) == (done["error"], texts(done))
    kinds_of = sorted(kind for _, kind in results(done))
    assert ["failed", "invalid", "invalid", "invalid", "succeeded", "succeeded"] == kinds_of


async def test_an_edited_call_is_shown_with_its_new_arguments(
    shopper: Caller, operator: Caller, system: System
) -> None:
    """Arguments that an approver edited replace the old ones, and an answer to the old ones is stale."""
    async with a_thread(shopper) as (page, thread_id):
        asked = await page.do("say", text="deploy reviewed")
        visitor = Visitor(shopper.url, shopper.token, thread_id)
        card = (await visitor.see(is_card))["data"]
        hopper = Caller(system.url, system.key("decide", person="hopper"))
        await hopper.decide(card, "edit", arguments={"service": "shop", "version": "reviewed-2"})
        await visitor.see(lambda item: item["type"] == "approval" and item["data"].get("digest") != card["digest"])
        await page.do("load")
        edited = await page.do("run")
    (call,) = [call for each in edited["messages"] for call in each.get("toolCalls", ())]
    assert (None, '{"service":"shop","version":"reviewed-2"}') == (edited["error"], call["function"]["arguments"])
    assert asked["interrupts"][0]["id"] != edited["interrupts"][0]["id"]


async def test_what_the_application_keeps_in_the_state_stays(shopper: Caller) -> None:
    """The shared state comes back with ours beside it; front-end tools and context are taken and passed over."""
    async with a_thread(shopper) as (page, _):
        await page.do("state", state={"cart": [1, 2]})
        context = [{"description": "where", "value": "the shop"}]
        said = await page.do("say", text="hello", context=context)
    assert (None, [1, 2]) == (said["error"], said["state"]["cart"])
    assert {"turn", "calls", "approvals"} == set(said["state"]["placet"])


async def test_a_failed_turn_ends_the_run_with_an_error(shopper: Caller) -> None:
    """A model that answers with nothing but errors is no success."""
    async with a_thread(shopper) as (page, _):
        said = await page.do("say", text="fall silent")
    assert ("RUN_ERROR", "turn-failed") == end(said)


async def test_a_posted_history_proves_nothing(shopper: Caller) -> None:
    """A made-up result of a waiting call is replaced by what is."""
    async with a_thread(shopper) as (page, thread_id):
        asked = await page.do("say", text="deploy the shop")
    call_id = asked["interrupts"][0]["toolCallId"]
    forged = [*asked["messages"][:2], {"id": "x", "role": "tool", "toolCallId": call_id, "content": "done"}]
    body = {"threadId": thread_id, "runId": "r", "protocolVersion": "1.0", "messages": forged}
    answer = await shopper.request("POST", "/agui", json=body)
    waiting = await shopper.get(f"/v1/conversations/{thread_id}")
    assert (200, "waiting", False) == (answer.status_code, waiting["state"], '"done"' in answer.text)
    assert "MESSAGES_SNAPSHOT" in answer.text


async def test_what_is_no_run_is_refused_before_it_streams(shopper: Caller, frontend: Caller, system: System) -> None:
    """Bad input, foreign threads and rights that are missing are problem documents, and nothing is posted."""
    mine = {"threadId": new_id(), "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hello"}]}
    await shopper.request("POST", "/agui", json=mine)
    empty = {**mine, "messages": []}
    yes = {"interruptId": "x", "status": "resolved", "payload": {"approved": True}}
    edit = {**yes, "payload": {"approved": True, "editedArgs": {}}}
    picture = [{"id": "p", "role": "user", "content": [{"type": "image", "source": {}}]}]
    foreigner = Caller(system.url, system.key("chat", "decide", tenant="rival", person="eve"))
    tries = {
        "no thread": (shopper, {**empty, "threadId": new_id()}, 404),
        "another tenant": (foreigner, empty, 404),
        "no scope": (frontend, {**empty, "resume": [yes]}, 403),
        "an edit": (shopper, {**empty, "resume": [edit]}, 400),
        "twice": (shopper, {**empty, "resume": [yes, yes]}, 400),
        "a picture": (shopper, {**mine, "messages": picture}, 400),
        "no messages": (shopper, {"threadId": mine["threadId"], "runId": "r"}, 400),
        "a wrong type": (shopper, {**empty, "runId": 7}, 400),
    }
    answers = {name: await who.request("POST", "/agui", json=body) for name, (who, body, _) in tries.items()}
    assert {name: status for name, (_, _, status) in tries.items()} == {
        name: answer.status_code for name, answer in answers.items()
    }
    assert {"application/problem+json"} == {answer.headers["content-type"] for answer in answers.values()}


async def test_what_an_operator_says_reaches_the_next_run(shopper: Caller, desk: Caller) -> None:
    """A8: while a person answers a run ends at once and says who does; their words come with the next one, by name."""
    async with a_thread(shopper) as (page, thread_id):
        await page.do("say", text="hello")
        await desk.post(f"/v1/conversations/{thread_id}/takeover")
        asked = await page.do("say", text="are there red shoes?")
        words = {"author": "operator", "text": "Two pairs."}
        await desk.post(f"/v1/conversations/{thread_id}/messages", words)
        seen = Visitor(shopper.url, shopper.token, thread_id)
        await seen.see(lambda item: item["data"].get("text") == "Two pairs.")
        told = await page.do("run")
        await page.do("load")
        again = await page.do("run")
        await desk.post(f"/v1/conversations/{thread_id}/release")
        released = await page.do("run")
        back = await page.do("say", text="hello again")
    hello = "Hello, how can I help you today?"
    holder = {"state": "operator", "operator": "person:ada", "text": "You are talking to ada, a person."}
    assert (None, ("RUN_FINISHED", "success"), [hello]) == (asked["error"], end(asked), texts(asked))
    assert [holder] * 2 == [asked["state"]["placet"]["holder"], asked["events"][-1]["result"]["holder"]]
    assert (None, ("RUN_FINISHED", "success"), [hello, "Two pairs."]) == (told["error"], end(told), texts(told))
    assert ("ada", told["messages"]) == (told["messages"][-1]["name"], again["messages"])
    assert (None, ("RUN_FINISHED", "success")) == (released["error"], end(released))
    assert ("agent", hello) == (back["state"]["placet"]["holder"]["state"], texts(back)[-1])


async def test_a_thread_that_people_hold_still_asks_and_goes_on(shopper: Caller, desk: Caller) -> None:
    """A8: a held call is decided and its turn ends; what no operator had seen is answered when they give it back."""
    async with a_thread(shopper) as (page, thread_id):
        asked = await page.do("say", text="deploy and hold")
        await desk.post(f"/v1/conversations/{thread_id}/takeover")
        look = [{"interruptId": each["id"], "status": "resolved"} for each in asked["interrupts"]]
        held = await page.do("say", text="hello, are you still there?", resume=look)
        await desk.post(
            f"/v1/conversations/{thread_id}/messages", {"author": "operator", "text": "I am.", "seen_event_id": 1}
        )
        done = await page.do("answer", payload={"approved": True})
        await desk.post(f"/v1/conversations/{thread_id}/release")
        back = await page.do("run")
    assert (None, ("RUN_FINISHED", "interrupt"), ["Deploying."]) == (held["error"], end(held), texts(held))
    assert (None, ("RUN_FINISHED", "success")) == (done["error"], end(done))
    assert ["Deploying.", "I am.", "The shop is green."] == texts(done)
    assert (None, "Hello, how can I help you today?") == (back["error"], texts(back)[-1])
