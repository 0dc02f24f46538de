"""Jobs: divided, tried by several agents, decided by votes; on both footings, with processes killed in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hanoi import model as hanoi
from placet.client import AsyncClient, Client
from placet.gateway.jobs.schemas import JobEvent
from tests.conftest import migrate
from tests.support.http import http_client
from tests.support.jobs import MODEL, SURE, begin, decided, ended, events, wrong_moves
from tests.support.people import Caller
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, running, until

pytestmark = pytest.mark.timeout(300)

REPLICAS: Mapping[str, int] = {"gateway": 1, "agent": 2, "policy": 1, "jobs": 2, "dead_letters": 1}
DISKS = 4


@pytest.fixture(scope="module")
def house(
    databases: Databases, virtual_hosts: VirtualHosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """A system with two agents and two of what runs jobs; its model is a function that errs."""
    folder = tmp_path_factory.mktemp("jobs")
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(folder, database_url, rabbitmq_url, environment=dict(MODEL))
        with running(made, REPLICAS):
            yield made


@pytest.fixture(scope="module")
def ada(house: System) -> Caller:
    """A person with a key for chatting."""
    return Caller(house.url, house.key("chat", person="ada"))


async def test_a_job_is_divided_tried_and_decided_without_one_wrong_move(ada: Caller) -> None:
    """Every move is right although one in ten is wrong; what made no sense is thrown out and counted, not repaired."""
    job_id = await begin(ada, **hanoi.job(DISKS), **SURE)
    job = await ended(ada, job_id)
    assert ("done", 0) == (job["state"], wrong_moves(job))
    last = job["tasks"][-1]
    assert {last["id"]: last["answer"]} == job["result"]
    assert [[], [], [4, 3, 2, 1]] == last["answer"]["state"]
    tried = [attempt for task in job["tasks"] for attempt in task["attempts"]]
    states = Counter(attempt["state"] for attempt in tried)
    assert states["flagged"] == job["attempts_thrown_out"] == sum(bool(each["flags"]) for each in tried)
    assert job["attempts"] == len(tried) + 1
    assert {"voted", "flagged"} >= set(states)
    # Nobody was asked without what the task needs: the model would have had no answer.
    assert {"malformed_call", "no_final_answer"} >= {flag for each in tried for flag in each["flags"]}


async def test_no_more_attempts_are_drawn_than_the_leader_lacked(ada: Caller) -> None:
    """Each task ends with the vote that puts its winner ahead by k: no attempt was still on its way, none was spare."""
    job = await ended(ada, await begin(ada, **hanoi.job(3), **SURE))
    for task in job["tasks"]:
        votes = sorted(task["votes"].values(), reverse=True)
        assert task["k"] == votes[0] - (votes[1] if len(votes) > 1 else 0)
        assert {"voted", "flagged"} >= {attempt["state"] for attempt in task["attempts"]}


async def test_the_events_of_a_job_come_without_gap_and_say_each_attempt_in_one_line(ada: Caller) -> None:
    """The stream ends with the job's end; its numbers have no gap; the stored log says the same."""
    job_id = await begin(ada, **hanoi.job(2), **SURE)
    seen = [event async for event in events(ada, f"/v1/jobs/{job_id}/events")]
    job = await ada.get(f"/v1/jobs/{job_id}")
    assert list(range(1, job["last_event_id"] + 1)) == [event["id"] for event in seen]
    stored = await ada.get(f"/v1/jobs/{job_id}/log", params={"limit": 1000})
    assert [(each["id"], each["data"]["line"]) for each in stored["items"]] == [
        (each["id"], each["data"]["line"]) for each in seen
    ]
    described = [JobEvent.model_validate(each) for each in seen]
    assert set[str]() == {name for each in seen for name in each["data"]} - set(type(described[0].data).model_fields)
    attempts = [each["data"] for each in seen if each["type"] == "attempt" and each["data"]["state"] != "running"]
    assert len(attempts) == job["attempts"]
    assert sum(each["tokens"] for each in attempts) == job["tokens"] > 0


async def test_what_an_agent_did_is_read_attempt_by_attempt(ada: Caller) -> None:
    """The log of an attempt has what its agent was told, what it called and how its turn ended."""
    job = await ended(ada, await begin(ada, **hanoi.job(1), **SURE))
    first = job["tasks"][0]["attempts"][0]
    log = (await ada.get(f"/v1/jobs/{job['id']}/attempts/{first['id']}/log"))["items"]
    (told,) = [each["data"]["text"] for each in log if each["data"].get("role") == "user"]
    assert "Make move 1 of 1 for 1 disks." in told
    assert ["turn"] == [each["type"] for each in log if "final_answer" in each["data"] or each["data"].get("reason")]


def _run_by_client(url: str, key: str) -> tuple[str, list[int], int]:
    with Client(url, key) as placet:
        job_id = placet.run_job(**hanoi.job(1), tasks=hanoi.tasks(1), **SURE)
        ids = [line.id for line in placet.follow_job(job_id)]
        placet.cancel_job(job_id)
        job = placet.job(job_id)
        return job.state, ids, job.tasks[0].k


async def test_programs_run_follow_and_cancel_jobs(ada: Caller) -> None:
    """The typed clients do what the API does; a job that is over cannot be cancelled any more."""
    state, ids, k = await asyncio.to_thread(_run_by_client, ada.url, ada.token)
    assert ("done", list(range(1, len(ids) + 1)), True) == (state, ids, k > 1)
    async with AsyncClient(ada.url, ada.token) as placet:
        job_id = await placet.run_job(**hanoi.job(1), tasks=hanoi.tasks(1), **SURE)
        lines = [line async for line in placet.follow_job(job_id, after=2)]
        assert (3, True) == (lines[0].id, lines[-1].is_end)
        assert (await placet.job(job_id)).is_over


async def test_the_command_line_runs_a_job_to_its_end(ada: Caller, tmp_path: Path) -> None:
    """`placet jobs run` says what happens line by line and then the result; `list`, `show` and `log` find it again."""
    more = tmp_path / "job.json"
    more.write_text(json.dumps({**hanoi.job(2), **SURE}))

    def placet(*arguments: str) -> str:
        environment = os.environ | {"PLACET_URL": ada.url, "PLACET_KEY": ada.token}
        command = [sys.executable, "-m", "placet.cli", "jobs", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    said = await asyncio.to_thread(placet, "run", hanoi.job(2)["task"], "--file", str(more))
    job_id = said.split()[1]
    assert "divided into 3 tasks in 3 groups" in said
    assert '"state": [' in said
    assert job_id in await asyncio.to_thread(placet, "list")
    shown = json.loads(await asyncio.to_thread(placet, "show", job_id, "--json"))
    whole = await asyncio.to_thread(placet, "show", job_id)
    table = [line.split() for line in whole.rpartition("\ntasks\n")[2].splitlines()]
    named = [["id", "state"], ["(division)", "decided"], *([each["id"], "decided"] for each in shown["tasks"])]
    assert (named, False) == ([line[:2] for line in table], "conversation_id" in whole)
    log = (await asyncio.to_thread(placet, "log", job_id)).splitlines()
    assert ("done", shown["last_event_id"]) == (shown["state"], len(log))
    # Nothing more comes, so nobody waits for it.
    assert log == (await asyncio.to_thread(placet, "log", job_id, "--follow")).splitlines()
    attempt = shown["tasks"][0]["attempts"][0]["id"]
    told = await asyncio.to_thread(placet, "log", job_id, "--attempt", attempt)
    assert "Make move 1 of 3 for 2 disks." in told


async def test_a_job_that_nobody_wants_is_cancelled(ada: Caller) -> None:
    """Its attempts and what is open are withdrawn, and no model is asked for it again."""
    job_id = await begin(
        ada, task="T", tasks=hanoi.tasks(9), answer_schema=dict(hanoi.ANSWER_SCHEMA), tasks_max=600, **SURE
    )
    await ada.post(f"/v1/jobs/{job_id}/cancel")
    job = await ended(ada, job_id)
    assert ("cancelled", "Cancelled by person:ada.", 0) == (job["state"], job["reason"], job["attempts_running"])
    assert {"decided", "withdrawn"} >= {task["state"] for task in job["tasks"]}


async def test_a_budget_ends_a_job_before_it_is_passed(ada: Caller) -> None:
    """No attempt begins whose share is not there: the job fails, says so, and has used no more than it may."""
    budget = {"tokens": 3_000, "tokens_per_attempt": 300}
    job = await ended(ada, await begin(ada, **hanoi.job(5), tasks=hanoi.tasks(5), budget=budget, **SURE))
    used = f"{job['tokens']} of 3000 tokens are used, and an attempt may use 300"
    assert ("failed", f"The budget has no room for another attempt: {used}.") == (job["state"], job["reason"])
    assert 0 < job["tokens"] <= 3_000


async def test_a_task_without_a_majority_fails_honestly(ada: Caller) -> None:
    """It says how many attempts were made and how they voted, and the job says which task it was."""
    tasks = [{"id": "riddle", "task": "What has an eye and cannot see?"}]
    job = await ended(ada, await begin(ada, task="Riddles", tasks=tasks, k=2, attempts_max=4))
    assert ("failed", "failed") == (job["state"], job["tasks"][0]["state"])
    tried = "4 attempts: 3 thrown out (no final answer), 1 still under way, votes: none"
    assert f"Task riddle failed. No answer can win: {tried}." == job["reason"]
    # The last one could not have made a winner any more.
    assert [("flagged", ["no_final_answer"])] * 3 + [("withdrawn", [])] == sorted(
        (attempt["state"], attempt["flags"]) for attempt in job["tasks"][0]["attempts"]
    )


@pytest.mark.parametrize(
    ("tasks", "outputs", "why"),
    [
        ([{"id": "a", "task": "A", "needs": ["b"]}, {"id": "b", "task": "B", "needs": ["a"]}], [], "in a circle: a, b"),
        ([{"id": "a", "task": "A"}], ["report"], "output report is produced by 0 tasks"),
        ([{"id": "a", "task": "A", "needs": ["b"]}], [], "task a needs b, which is no task"),
        ([{"id": "a", "task": "A"}, {"id": "a", "task": "B"}], [], "two tasks are called a"),
        ([{"id": each, "task": "A"} for each in "abc"], [], "it has 3 tasks, more than 2"),
        ([], [], "it has no task"),
    ],
)
async def test_an_unsound_division_is_refused(
    ada: Caller, tasks: list[dict[str, Any]], outputs: list[str], why: str
) -> None:
    """At the door, with what is wrong in it: there is no job."""
    body = {"id": "unsound", "task": "T", "tasks": tasks, "outputs": outputs, "tasks_max": 2}
    answer = await ada.request("POST", "/v1/jobs", json=body)
    (fault,) = answer.json()["errors"]
    assert (422, "urn:placet:problem:unsound-division") == (answer.status_code, answer.json()["type"])
    assert ("#/tasks", True) == (fault["pointer"], why in fault["detail"])
    assert [] == [each["id"] for each in (await ada.get("/v1/jobs"))["items"] if each["id"].endswith("unsound")]


async def test_the_command_line_says_in_a_line_why_a_division_is_refused(ada: Caller, tmp_path: Path) -> None:
    """And ends with 1: nothing was begun."""
    more = tmp_path / "job.json"
    more.write_text(json.dumps({"tasks": [{"id": "a", "task": "A", "needs": ["b"]}]}))
    environment = os.environ | {"PLACET_URL": ada.url, "PLACET_KEY": ada.token}
    command = [sys.executable, "-m", "placet.cli", "jobs", "run", "T", "--file", str(more)]
    run = partial(subprocess.run, command, env=environment, capture_output=True, text=True, check=False)
    done = await asyncio.to_thread(run)
    said = "placet: 422 The division cannot be used; #/tasks task a needs b, which is no task\n"
    assert (1, "", said) == (done.returncode, done.stdout, done.stderr)


async def test_an_output_that_is_named_twice_is_one(ada: Caller) -> None:
    """What a job must produce is a set."""
    tasks = [hanoi.tasks(1)[0] | {"produces": ["last"]}]
    job = await ended(ada, await begin(ada, **hanoi.job(1), **SURE, tasks=tasks, outputs=["last", "last"]))
    assert ("done", ["last"]) == (job["state"], list(job["result"]))


async def test_an_id_is_of_one_job(ada: Caller, house: System) -> None:
    """The same body again is the same job; with another task, or of another person, it is refused."""
    body = {"id": "nightly", **hanoi.job(1), **SURE}
    bob = Caller(ada.url, house.key("chat", person="bob"))
    first, again = [await ada.request("POST", "/v1/jobs", json=body) for _ in range(2)]
    other = await ada.request("POST", "/v1/jobs", json=body | {"context": "Something else."})
    foreign = await bob.request("POST", "/v1/jobs", json=body)
    assert [202, 202, 409, 409] == [each.status_code for each in (first, again, other, foreign)]
    assert ("urn:placet:problem:job-id-used", first.json()) == (other.json()["type"], again.json())
    assert hanoi.job(1)["task"] == (await ended(ada, first.json()["id"]))["task"]


async def test_of_two_jobs_with_one_id_that_come_at_once_one_is_done(ada: Caller) -> None:
    """The other one is told, whoever was first."""
    tasks = ["Move 1.", "Move 2."]
    asked = [ada.request("POST", "/v1/jobs", json={"id": "race", "task": each, "k": 1}) for each in tasks]
    answers = await asyncio.gather(*asked)
    codes = [each.status_code for each in answers]
    assert [202, 409] == sorted(codes)
    won = answers[codes.index(202)].json()["id"]
    assert tasks[codes.index(202)] == (await ada.get(f"/v1/jobs/{won}"))["task"]


#: Routes of one job.
ROUTES = [
    ("GET", ""),
    ("GET", "/events"),
    ("GET", "/log"),
    ("GET", "/attempts/{attempt}/log"),
    ("POST", "/cancel"),
]


@pytest.fixture
async def of_ada(ada: Caller) -> dict[str, str]:
    """A job of Ada's that is over: its id and that of an attempt."""
    job = await ended(ada, await begin(ada, **hanoi.job(1), **SURE))
    return {"job": job["id"], "attempt": job["tasks"][0]["attempts"][0]["id"]}


@pytest.mark.parametrize(("method", "route"), ROUTES)
async def test_people_who_chat_see_no_job_but_their_own(
    house: System, ada: Caller, of_ada: dict[str, str], method: str, route: str
) -> None:
    """For others of the tenant it does not exist, unless they decide or operate; nor for other tenants at all."""
    path = f"/v1/jobs/{of_ada['job']}{route.format(**of_ada)}"
    callers = {
        "chat": house.key("chat", person="bob"),
        "admin": house.key("admin", person="bob"),
        "decide": house.key("chat", "decide", person="bob"),
        "operate": house.key("chat", "operate", person="bob"),
        "elsewhere": house.key("chat", "decide", "operate", person="ada", tenant="umbrella"),
    }
    found = {name: await status_of(Caller(house.url, key), method, path) for name, key in callers.items()}
    ok = 202 if method == "POST" else 200
    assert {"chat": 404, "admin": 403, "decide": ok, "operate": ok, "elsewhere": 404} == found
    assert ok == await status_of(ada, method, path)


async def status_of(caller: Caller, method: str, path: str) -> int:
    """Return how a request is answered; a stream is not read to its end."""
    headers = {"authorization": f"Bearer {caller.token}"}
    async with http_client(caller.url, headers=headers) as http, http.stream(method, path) as answer:
        return answer.status_code


async def test_lists_have_the_jobs_that_one_may_see(house: System, of_ada: dict[str, str]) -> None:
    """Those of others are there for who decides or operates."""
    listed = {}
    for name, scopes in {"chat": ("chat",), "decide": ("decide",), "operate": ("operate",)}.items():
        caller = Caller(house.url, house.key(*scopes, person="bob"))
        listed[name] = of_ada["job"] in {each["id"] for each in (await caller.get("/v1/jobs"))["items"]}
    assert {"chat": False, "decide": True, "operate": True} == listed


async def test_a_job_survives_every_kill(ada: Caller, house: System) -> None:
    """Agents and what runs jobs are killed in turn while it goes on: every move is right."""
    job_id = await begin(ada, **hanoi.job(6), **SURE)
    victims = ("jobs-1", "agent-1", "jobs-2", "agent-2")
    for number, name in enumerate(victims):
        await until(lambda wanted=3 + 4 * number: decided(ada, job_id, wanted), "the job went on")  # type: ignore[misc]
        house.processes[name].kill()
        await house.start_again(name)
    job = await ended(ada, job_id)
    assert ("done", 0) == (job["state"], wrong_moves(job))
    attempts = [attempt for task in job["tasks"] for attempt in task["attempts"]]
    assert len({attempt["conversation_id"] for attempt in attempts}) == len(attempts)
    assert job["attempts"] == len(attempts) + 1
