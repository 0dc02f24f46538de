"""What people are asked inside jobs is decided where these were called, by clients that know nothing of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from placet.contracts.ids import new_id
from tests.conftest import migrate
from tests.e2e import test_ag_ui, test_ai_sdk, test_openai
from tests.e2e.test_a_job_as_a_tool import written
from tests.e2e.test_job_commits import REPLICAS, files
from tests.support.job_caller import AND
from tests.support.node_client import node_client
from tests.support.people import PATIENCE_SECONDS, Caller, Visitor
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, running

pytestmark = pytest.mark.timeout(300)

DONE = '{"only": {"answer": "done"}}'


@pytest.fixture(scope="module")
def house(
    databases: Databases, virtual_hosts: VirtualHosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """A system whose agent may have jobs done."""
    folder = tmp_path_factory.mktemp("surfaced")
    environment = written(folder) | {"PLACET_EXECUTOR_POOLS": "*"}
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(folder, database_url, rabbitmq_url, folder / "rulebook.yaml", environment)
        with running(made, REPLICAS):
            yield made


@pytest.fixture
def shopper(house: System) -> Caller:
    """A chat product's backend whose person may also decide."""
    return Caller(house.url, house.key("chat", "decide", person="grace"))


def wish(*names: str) -> str:
    """Return what a person says who wants a line written by a job into each of these files."""
    return f"Have it done: {AND.join(f'Add the line one to {name}.txt.' for name in names)}"


def lines(folder: Path, *names: str) -> list[str | None]:
    """Return what stands in these files."""
    found = files(folder)
    return [found.get(f"{name}.txt") for name in names]


async def both_asked(shopper: Caller, conversation_id: str) -> None:
    """Return when both jobs of a conversation ask at once."""
    visitor = Visitor(shopper.url, shopper.token, conversation_id)
    await visitor.see(lambda item: len(item["data"].get("waiting", ())) == 2)


async def test_ag_ui_decides_the_card_of_a_job(shopper: Caller, house: System) -> None:
    """D8: the run ends with the job's question as its interrupt; the resume brings the result of the job."""
    async with node_client("ag_ui.mjs", shopper.url, shopper.token, new_id()) as page:
        asked = await page.do("say", text=wish("agui"))
        done = await page.do("answer", payload={"approved": True})
    assert (("RUN_FINISHED", "interrupt"), 1) == (test_ag_ui.end(asked), len(asked["interrupts"]))
    assert (None, ("RUN_FINISHED", "success")) == (done["error"], test_ag_ui.end(done))
    assert DONE == test_ag_ui.texts(done)[-1]
    assert ("accomplish", "succeeded") in test_ag_ui.results(done)
    assert "one\n" == files(house.folder)["agui.txt"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_ag_ui_decides_the_cards_of_two_jobs(shopper: Caller, house: System, *, at_once: bool) -> None:
    """D8: one run may answer both questions; one that answers one of them ends with the other.

    The agent knows from its tables what is asked: it is killed in between.
    """
    thread, names = new_id(), (f"agui-{at_once}-a", f"agui-{at_once}-b")
    async with node_client("ag_ui.mjs", shopper.url, shopper.token, thread) as page:
        await page.do("say", text=wish(*names))
        await both_asked(shopper, thread)
        house.processes["agent-1"].kill()
        await house.start_again("agent-1")
        # Whatever the client does while it knows of questions, it must answer them all.
        await page.do("load")
        asked = await page.do("run")
        if not at_once:
            first, second = asked["interrupts"]
            await page.do("load")
            resume = {"interruptId": first["id"], "status": "resolved", "payload": {"approved": True}}
            half = await page.do("run", resume=[resume])
            assert (None, [second["id"]]) == (half["error"], [each["id"] for each in half["interrupts"]])
        done = await page.do("answer", payload={"approved": True})
    assert (2, None, ("RUN_FINISHED", "success")) == (len(asked["interrupts"]), done["error"], test_ag_ui.end(done))
    assert (DONE, ["one\n"] * 2) == (test_ag_ui.texts(done)[-1], lines(house.folder, *names))


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("major", ["6", "7"])
async def test_the_ai_sdk_decides_the_card_of_a_job(shopper: Caller, house: System, major: str, *, again: bool) -> None:
    """D8: the SDK posts the answer by itself, also of a page that was loaded again; the message goes on to its end."""
    name = f"sdk-{major}-{again}"
    async with node_client("ai_sdk.mjs", major, shopper.url, shopper.token, new_id()) as page:
        asked = await page.do("send", text=wish(name))
        if again:
            await page.do("open")
            asked = await page.do("settle")
        done = await page.do("answer", approved=True)
        loaded = await page.do("reload")
    assert [("accomplish", "input-available"), ("commit_changes", "approval-requested")] == test_ai_sdk.tools(asked)
    assert ("ready", None, None) == (done["status"], done["error"], done["fault"])
    outputs = [("accomplish", "output-available"), ("commit_changes", "output-available")]
    assert (outputs, [DONE]) == (test_ai_sdk.tools(done), test_ai_sdk.texts(done))
    assert (outputs, [DONE], ["one\n"]) == (
        test_ai_sdk.tools(loaded),
        test_ai_sdk.texts(loaded),
        lines(house.folder, name),
    )


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("major", ["6", "7"])
async def test_the_ai_sdk_decides_the_cards_of_two_jobs(
    shopper: Caller, house: System, major: str, *, at_once: bool
) -> None:
    """D8: a page that shows both posts both answers together; one that was asked once is asked again."""
    chat, names = new_id(), (f"sdk-{major}-{at_once}-a", f"sdk-{major}-{at_once}-b")
    async with node_client("ai_sdk.mjs", major, shopper.url, shopper.token, chat) as page:
        said = await page.do("send", text=wish(*names))
        await both_asked(shopper, chat)
        if at_once:
            await page.do("open")
            said = await page.do("settle")
        for _ in names:
            if any(state == "approval-requested" for _, state in test_ai_sdk.tools(said)):
                said = await page.do("answer", approved=True)
    assert ("ready", None, None) == (said["status"], said["error"], said["fault"])
    tools = ["accomplish"] * 2 + ["commit_changes"] * 2
    assert [(tool, "output-available") for tool in tools] == test_ai_sdk.tools(said)
    assert ([DONE], ["one\n"] * 2) == (test_ai_sdk.texts(said), lines(house.folder, *names))


async def test_responses_decide_the_card_of_a_job(shopper: Caller, house: System) -> None:
    """D8: the question is OpenAI's approval request; its answer runs the commit, and the next response has the end."""
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key=shopper.token, timeout=PATIENCE_SECONDS) as client:
        asked = await client.responses.create(model="default", input=wish("responses"))
        answer: Any = test_openai.yes_or_no(test_openai.request_of(asked), approve=True)
        done = await client.responses.create(model="default", previous_response_id=asked.id, input=answer)
    assert DONE == done.output_text
    assert "one\n" == files(house.folder)["responses.txt"]


async def test_an_answer_that_names_no_conversation_finds_the_one_that_asks(shopper: Caller, house: System) -> None:
    """D8: the request says which card it is of, and the answer goes where that was shown, not into the job."""
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key=shopper.token, timeout=PATIENCE_SECONDS) as client:
        asked = await client.responses.create(model="default", input=wish("nameless"))
        answer: Any = test_openai.yes_or_no(test_openai.request_of(asked), approve=True)
        done = await client.responses.create(model="default", input=answer)
    assert (DONE, asked.conversation) == (done.output_text, done.conversation)
    assert ["one\n"] == lines(house.folder, "nameless")


async def test_responses_decide_the_cards_of_two_jobs(shopper: Caller, house: System) -> None:
    """D8: a response that answers one question ends with the other one; both have their results then."""
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key=shopper.token, timeout=PATIENCE_SECONDS) as client:
        told = await client.responses.create(model="default", input=wish("one-a", "one-b"))
        assert told.conversation is not None
        await both_asked(shopper, told.conversation.id)
        seen = list[str]()
        for _ in range(2):
            (card, *_) = test_openai.extension(told)["approvals"]
            seen.append(card["id"])
            answer: Any = test_openai.yes_or_no(card["request_id"], approve=True)
            told = await client.responses.create(model="default", previous_response_id=told.id, input=answer)
    assert (2, DONE, []) == (len(set(seen)), told.output_text, test_openai.extension(told)["approvals"])
    assert ["one\n"] * 2 == lines(house.folder, "one-a", "one-b")


async def test_a_completion_says_what_a_job_asks(shopper: Caller, house: System) -> None:
    """D8: Chat Completions names the approval; decided by the API, the next request has what came of it."""
    named = {"Placet-Conversation": new_id()}
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key=shopper.token, timeout=PATIENCE_SECONDS) as client:
        asked = await client.chat.completions.create(
            model="default", messages=test_openai.said(wish("completions")), extra_headers=named
        )
        (card,) = test_openai.extension(asked)["approvals"]
        assert (await shopper.decide({"approval_id": card["id"], "digest": card["digest"]}, "approve")).is_success
        told = await client.chat.completions.create(
            model="default", messages=test_openai.said("hello"), extra_headers=named
        )
    assert ("commit_changes", True) == (card["tool"], DONE in str(told.choices[0].message.content))
    assert "one\n" == files(house.folder)["completions.txt"]
