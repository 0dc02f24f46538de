"""The page of a job in a browser: its tasks are drawn, votes appear as they come, and it can be cancelled there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, expect

from hanoi import model as hanoi
from placet.gateway.web.job_picture import DOTS_MAX
from placet.gateway.web.jobs import TRIED_MAX
from placet.gateway.web.render import set_up_was_run
from tests.e2e.test_embedded import Embedded
from tests.integration.gateway.test_inbox_browser import faults_of
from tests.support.jobs import MODEL, SURE, begin, ended
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not set_up_was_run(), reason="the vendored scripts are not there"),
]

#: Tasks of each group; each needs two of the group before.
GROUPS = (8, 8, 8, 5, 1)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet with a model that errs."""
    made = Embedded(tmp_path_factory.mktemp("job-page") / "data", free_port(), dict(MODEL))
    made.data.mkdir()
    made.start()
    yield made
    made.stop()


def a_tree() -> list[dict[str, Any]]:
    """Return thirty tasks in five groups, all of them one move."""
    tasks: list[dict[str, Any]] = []
    before: list[str] = []
    for group, size in enumerate(GROUPS, 1):
        names = [f"part-{group}-{number}" for number in range(1, size + 1)]
        for place, name in enumerate(names):
            needs = sorted({before[place % len(before)], before[(place + 1) % len(before)]}) if before else []
            tasks.append({"id": name, "task": "Make move 1 of 1 for 1 disks.", "needs": needs})
        before = names
    return tasks


async def test_a_job_is_drawn_while_it_goes_on(house: Embedded, browser: Browser, tmp_path: Path) -> None:
    """Thirty tasks stand in their groups; without a reload the page ends with all of them decided."""
    ada = house.caller()
    page = await browser.new_page(base_url=ada.url, extra_http_headers={"authorization": f"Bearer {ada.token}"})
    try:
        job_id = await begin(
            ada, task="Thirty things.", tasks=a_tree(), answer_schema=dict(hanoi.ANSWER_SCHEMA), **SURE
        )
        await page.goto(f"/jobs/{job_id}")
        await expect(page.locator("g.task")).to_have_count(sum(GROUPS))
        await page.screenshot(path=tmp_path / "begun.png", full_page=True)
        await expect(page.locator("g.task.decided")).to_have_count(sum(GROUPS), timeout=120_000)
        await expect(page.locator(".badge.done")).to_be_visible()
        job = await ended(ada, job_id)
        columns = {await each.get_attribute("x") for each in await page.locator("g.task rect").all()}
        assert len(GROUPS) == len(columns)
        shown = [each for task in job["tasks"] for each in task["attempts"][-DOTS_MAX:]]
        assert await page.locator("g.task circle").count() == len(shown)
        assert await page.locator("circle.flagged").count() == sum(each["state"] == "flagged" for each in shown)
        await page.screenshot(path=tmp_path / "job.png", full_page=True)
        attempts = [each for task in job["tasks"] for each in task["attempts"]]
        tried = sorted(attempts, key=lambda each: each["begun_at"])
        links = [
            await each.get_attribute("href") for each in await page.locator(".tried li").first.get_by_role("link").all()
        ]
        assert min(len(tried), TRIED_MAX) == await page.locator(".tried li").count()
        log = f"/v1/jobs/{job_id}/attempts/{tried[-1]['id']}/log?limit=1000"
        assert [f"/?conversation={tried[-1]['conversation_id']}", log] == links
        await page.locator(".tried a").first.click()
        await expect(page.locator(".feed")).to_contain_text("Make move 1 of 1 for 1 disks.")
        await page.goto("/jobs")
        await expect(page.get_by_role("link", name="Thirty things.")).to_be_visible()
    finally:
        await page.close()


#: A name as long as the API takes it, without a place to break.
LONG = "src-" + "a" * 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 390])
async def test_no_page_of_jobs_scrolls_sideways(
    house: Embedded, browser: Browser, tmp_path: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    """On a phone, with thirty tasks, long names and a long line of the log; nor does the inbox beside them.

    Axe-core knows no fault of them either.
    """
    ada = house.caller()
    page = await browser.new_page(
        base_url=ada.url,
        extra_http_headers={"authorization": f"Bearer {ada.token}"},
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
    )
    tasks = [each | {"id": f"{LONG[:40]}-{each['id']}"} for each in a_tree()]
    for each in tasks:
        each["needs"] = [f"{LONG[:40]}-{need}" for need in each["needs"]]
    task = f"Change {LONG * 4}/{LONG * 4}.py."
    job_id = await begin(ada, task=task, tasks=tasks, answer_schema=dict(hanoi.ANSWER_SCHEMA), **SURE)
    wide, faults = {}, {}
    try:
        for path in (f"/jobs/{job_id}", "/jobs", "/inbox", "/inbox?view=all"):
            await page.goto(path)
            found = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            wide[path] = await page.evaluate(found)
            faults[path] = await faults_of(page)
            await page.screenshot(
                path=tmp_path / f"{path.split('/')[1].partition('?')[0]}-{len(wide)}.png", full_page=True
            )
    finally:
        await page.close()
        await ada.post(f"/v1/jobs/{job_id}/cancel")
    assert {path: [width, width] for path in wide} == wide
    assert {} == {path: found for path, found in faults.items() if found}


async def test_a_job_is_cancelled_on_its_page(house: Embedded, browser: Browser) -> None:
    """One button; the page says who did it."""
    ada = house.caller()
    job_id = await begin(ada, **hanoi.job(9), tasks=hanoi.tasks(9), tasks_max=600, **SURE)
    page = await browser.new_page(base_url=ada.url, extra_http_headers={"authorization": f"Bearer {ada.token}"})
    try:
        await page.goto(f"/jobs/{job_id}")
        # More than two hundred tasks are squares.
        await expect(page.locator("rect.square")).to_have_count(511)
        await page.get_by_role("button", name="Cancel job").click()
        await expect(page.locator(".badge.cancelled")).to_be_visible()
        await expect(page.get_by_text("Cancelled by admin.").first).to_be_visible()
    finally:
        await page.close()
