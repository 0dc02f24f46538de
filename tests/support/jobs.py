"""Jobs in end-to-end tests: a model that errs, and how a test asks for a job and looks at it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from httpx_sse import aconnect_sse

from hanoi import model as hanoi
from tests.support.http import http_client
from tests.support.people import Caller
from tests.support.system import until

#: A model that is often wrong, sometimes in the same way, and sometimes makes no sense.
MODEL = {
    "PLACET_MODEL": "python/hanoi.model:reply",
    "HANOI_ERRORS": "0.1",
    "HANOI_AGREE": "0.5",
    "HANOI_MALFORMED": "0.05",
    "PLACET_AGENT_LEASE_SECONDS": "2",
}
#: How sure these tests are that no task is decided wrongly: a run that fails by chance is one in a hundred thousand.
SURE: dict[str, Any] = {"p": 0.85, "epsilon": 0.00001, "attempts_max": 60}


async def begin(caller: Caller, **job: Any) -> str:
    """Ask for a job; return its id."""
    answer = await caller.request("POST", "/v1/jobs", json=job)
    assert (202, "") == (answer.status_code, "" if answer.status_code == 202 else answer.text)
    job_id: str = answer.json()["id"]
    return job_id


async def ended(caller: Caller, job_id: str) -> dict[str, Any]:
    """Return a job when it is over."""
    path = f"/v1/jobs/{job_id}"

    async def is_over() -> bool:
        answer = await caller.request("GET", path)
        return answer.is_success and answer.json()["ended_at"] is not None

    await until(is_over, "the job is over")
    found: dict[str, Any] = await caller.get(path)
    return found


async def decided(caller: Caller, job_id: str, number: int) -> bool:
    """Tell whether so many tasks of a job are decided."""
    answer = await caller.request("GET", f"/v1/jobs/{job_id}")
    return answer.is_success and answer.json()["tasks_decided"] >= number


def wrong_moves(job: Mapping[str, Any]) -> int:
    """Return how many of a job's answers are not the right move."""
    disks = (len(job["tasks"]) + 1).bit_length() - 1
    state, wrong = hanoi.start(disks), 0
    for task in job["tasks"]:
        right = hanoi.right_answer(task["number"], disks, state)
        wrong += task["answer"] != right
        state = right["state"]
    return wrong


async def events(caller: Caller, path: str) -> AsyncIterator[dict[str, Any]]:
    """Yield a job's events up to its end."""
    headers = {"authorization": f"Bearer {caller.token}"}
    async with (
        http_client(caller.url, timeout=60) as client,
        aconnect_sse(client, "GET", path, headers=headers) as source,
    ):
        async for event in source.aiter_sse():
            if not event.data:
                continue
            data = json.loads(event.data)
            yield {"id": int(event.id), "type": event.event, "data": data}
            if event.event == "job" and data["state"] in {"done", "failed", "cancelled"}:
                return
