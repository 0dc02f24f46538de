"""What people are asked inside a job is decided where the job was called, by AG-UI's and OpenAI's clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from placet.contracts.ids import new_id
from tests.conftest import migrate
from tests.e2e import test_ag_ui, test_openai
from tests.e2e.test_a_job_as_a_tool import written
from tests.e2e.test_job_commits import REPLICAS, files
from tests.support.node_client import node_client
from tests.support.people import PATIENCE_SECONDS, Caller
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


def wish(name: str) -> str:
    """Return what a person says who wants a line written by a job."""
    return f"Have it done: Add the line one to {name}.txt."


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


async def test_responses_decide_the_card_of_a_job(shopper: Caller, house: System) -> None:
    """D8: the question is OpenAI's approval request; its answer runs the commit, and the next response has the end."""
    async with AsyncOpenAI(base_url=f"{house.url}/v1", api_key=shopper.token, timeout=PATIENCE_SECONDS) as client:
        asked = await client.responses.create(model="default", input=wish("responses"))
        answer: Any = test_openai.yes_or_no(test_openai.request_of(asked), approve=True)
        done = await client.responses.create(model="default", previous_response_id=asked.id, input=answer)
    assert DONE == done.output_text
    assert "one\n" == files(house.folder)["responses.txt"]


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
