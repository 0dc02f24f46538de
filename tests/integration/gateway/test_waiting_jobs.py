"""A job whose attempt waits for people says so, with the card that they are asked by."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect

from placet.contracts.ids import job_conversation_id, own_id
from placet.contracts.messages import JobBudget, JobPlan
from placet.gateway.web.render import set_up_was_run
from tests.builders import a_call
from tests.support.gateway import House, an_approval_row, insert, open_house

JOB = own_id("acme", "job-1")
SPEC = {"task": "Everything.", "plan": JobPlan().model_dump(), "budget": JobBudget().model_dump()}
NONE: dict[str, Any] = {"flags": [], "reason": "", "input_tokens": 0, "output_tokens": 0, "calls": 0, "asked_again": 0}


def put_job(made: House) -> None:
    """Put a job there of which one attempt runs and one is over."""
    now = made.query("SELECT now()")[0][0]
    place = {"tenant": "acme", "job_id": JOB}
    insert(made.url, "jobs", **place, agent="default", author="person:ada", state="running", changes="", entries=0,
           spec=SPEC, tasks=1, decided=0, active=1, attempts=2, running=1, flagged=1, agreed=0, cast=0, tokens=0,
           cost=0.0, unpriced=False, reason="", log_seq=0, created_at=now)  # fmt: skip
    insert(made.url, "job_tasks", **place, number=1, task_id="a", text="Do a.", state="running", needs="{}",
           produces="{}", group_number=0, k=1, votes={}, drawn=2, drawn_before=0, running=1, reason="")  # fmt: skip
    for number, state in enumerate(("flagged", "running"), 1):
        attempt = {"attempt_id": f"attempt-{number}", "attempt": number, "conversation_id": f"acme_a{number}"}
        insert(made.url, "job_attempts", **place, number=1, **attempt, state=state, begun_at=now,
               **NONE | {"flags": "{}"})  # fmt: skip
        ask(made, f"acme_a{number}", f"card-{number}")


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One gateway, and a job."""
    async with open_house(gateway_database_url, tmp_path) as made:
        put_job(made)
        yield made


@pytest.fixture
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """Who asked for the job."""
    async with house.client(house.key("chat", "decide")) as made:
        yield made


def ask(house: House, conversation_id: str, approval_id: str, **changes: Any) -> None:
    """Have people asked about a call in a conversation."""
    row = an_approval_row(a_call(), conversation_id=conversation_id, approval_id=approval_id, **changes)
    insert(house.url, "approvals", **row)


async def test_a_job_s_page_says_what_it_leaves_out(house: House, client: httpx.AsyncClient) -> None:
    """The newest attempts stand on it, and how many there are."""
    for number in range(3, 60):
        attempt = {"attempt_id": f"attempt-{number}", "attempt": number, "conversation_id": f"acme_a{number}"}
        insert(house.url, "job_attempts", tenant="acme", job_id=JOB, number=1, **attempt, state="flagged",
               begun_at=datetime.now(UTC), **NONE | {"flags": "{}"})  # fmt: skip
    page = (await client.get(f"/jobs/{JOB}")).text
    assert (["50 of 58"], False, True) == (
        re.findall(r"The newest (\d+ of \d+)\.", page),
        "a · 3<" in page.partition("h-tried")[0],
        "a · 59<" in page.partition("h-tried")[0],
    )


async def test_a_job_says_which_cards_its_attempts_wait_for(client: httpx.AsyncClient) -> None:
    """Of attempts that are under way: over HTTP, and as a link on its page."""
    job, page = (await client.get(f"/v1/jobs/{JOB}")).json(), (await client.get(f"/jobs/{JOB}")).text
    (task,) = job["tasks"]
    assert (["card-2"], [[], ["card-2"]]) == (job["waits_for"], [each["waits_for"] for each in task["attempts"]])
    assert ("waits for people" in page, "/inbox/card-1" in page, "/inbox/card-2" in page) == (True, False, True)


async def test_a_job_says_which_cards_its_jobs_wait_for(house: House, client: httpx.AsyncClient) -> None:
    """What people are asked in a job that an attempt does surfaces there, beside its own; what they decided is gone."""
    for number, approval_id in enumerate(("inner", "decided"), 1):
        ask(house, "acme_inner", approval_id)
        told = [("tool_call", {"call_id": f"call-{number}", "caller": "outer"}),
                ("approval", {"call_id": f"call-{number}", "approval_id": approval_id})]  # fmt: skip
        for seq, (kind, data) in enumerate(told, 2 * number):
            insert(house.url, "log", tenant="acme", conversation_id="acme_a2", seq=seq, type=kind, at=datetime.now(UTC),
                   data=data)  # fmt: skip
    house.query("UPDATE read.approvals SET state = 'denied' WHERE approval_id = 'decided'")
    job = (await client.get(f"/v1/jobs/{JOB}")).json()
    assert (["card-2", "inner"], ["card-2", "inner"]) == (
        job["waits_for"],
        job["tasks"][0]["attempts"][1]["waits_for"],
    )


async def test_a_job_s_page_says_what_people_are_asked_for_it(house: House, client: httpx.AsyncClient) -> None:
    """The sentences of the oldest cards and how many there are; what is decided moves none of the others up or down."""
    for number in range(12):
        ask(house, "acme_a2", f"more-{number:02}", summary=f"Pay {number} EUR?")
    told = re.compile(r'<a href="/inbox/[^"]+">(Pay \d+ EUR\?)</a>|(The oldest \d+ of \d+)\.')
    links = (await client.get(f"/jobs/{JOB}")).text
    before = ["".join(each) for each in told.findall(links)]
    house.query("UPDATE read.approvals SET state = 'denied' WHERE approval_id IN ('card-2', 'more-01')")
    after = ["".join(each) for each in told.findall((await client.get(f"/jobs/{JOB}")).text)]
    assert ["The oldest 10 of 13", *(f"Pay {number} EUR?" for number in range(9))] == before
    assert ["The oldest 10 of 11", *(f"Pay {number} EUR?" for number in range(11) if number != 1)] == after
    # The line of the attempt leads to all of them at once.
    (whole,) = re.findall(r'href="(/inbox\?[^"]*)">waits for people</a> <span class="quiet">\(13\)', links)
    assert 11 == (await client.get(unescape(whole))).text.count('class="item pending')


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
async def test_who_comes_back_to_a_job_s_page_sees_no_card_that_is_decided(house: House, browser: Browser) -> None:
    """What people decide is no line of the job's log, and whoever decided it in another tab looks here next."""
    context = await browser.new_context(locale="en-GB")
    page, url = await context.new_page(), house.gateways[0].url
    key = house.key("chat", "decide")
    await context.request.post(f"{url}/sign-in", form={"key": key}, headers={"origin": url})
    await page.goto(f"{url}/jobs/{JOB}")
    await expect(page.locator("#waits-card-2")).to_be_visible()
    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    house.query("UPDATE read.approvals SET state = 'approved' RETURNING 1")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(page.locator("#waits-card-2")).to_be_hidden()


async def test_cards_of_several_attempts_stand_in_the_order_they_were_asked_in(
    house: House, client: httpx.AsyncClient
) -> None:
    """Whichever attempt asked: what one of them gets decided does not move its other cards behind those of others."""
    house.query("UPDATE read.job_attempts SET state = 'running'")
    house.query("UPDATE read.approvals SET state = 'denied'")
    for number in range(4):
        ask(house, f"acme_a{number % 2 + 1}", f"more-{number}")
    assert [f"more-{number}" for number in range(4)] == (await client.get(f"/v1/jobs/{JOB}")).json()["waits_for"]


async def test_a_job_that_asks_about_its_changes_says_so(house: House, client: httpx.AsyncClient) -> None:
    """Its card is in the conversation in which people decide about it."""
    house.query("UPDATE read.jobs SET state = 'waiting'")
    house.query("UPDATE read.approvals SET state = 'denied'")
    ask(house, job_conversation_id("acme", "job-conversation", JOB), "card-3")
    assert ["card-3"] == (await client.get(f"/v1/jobs/{JOB}")).json()["waits_for"]


async def test_one_stream_more_than_a_caller_may_have_is_refused(gateway_database_url: str, tmp_path: Path) -> None:
    """Before anything is answered: a stream that only ended would be asked for again and again."""
    path = f"/v1/jobs/{JOB}/events"
    async with open_house(gateway_database_url, tmp_path, gateway_key_streams=1) as house:
        put_job(house)
        async with house.client(house.key("chat")) as client, client.stream("GET", path) as first:
            # It ends when nobody reads it any more.
            told = first.aiter_lines()
            assert (200, "retry: 1000") == (first.status_code, await anext(told))
            refused = await client.get(path)
    assert (429, "urn:placet:problem:too-many-streams") == (refused.status_code, refused.json()["type"])
