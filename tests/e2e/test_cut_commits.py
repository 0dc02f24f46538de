"""F14: a service's line to the database is cut at a commit, so that it cannot know whether the server has it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.conftest import migrate
from tests.e2e.conftest import Stage
from tests.e2e.scenes import rulebook
from tests.support.cut_commits import CutLine, Side
from tests.support.kill_points import Patient, card_of, ended_as
from tests.support.line import to_postgres
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, until

Lines = dict[str, CutLine]
SERVICES = ("gateway", "agent", "policy", "approval", "executor", "dead_letters")

#: Policy judges what takes of a limit in a transaction of several statements.
LIMITED = {
    "name": "two-of-a-limit",
    "match": {"tool": "deploy"},
    "when": 'arguments.version == "1.2"',
    "effect": "require_approval",
    "reason": "It takes of a limit.",
    "limits": [{"count": 10_000, "per": "tenant", "within": "1d"}],
    "approval": {"approvers": ["group:releases"], "approvals": 2, "exclude": ["requester"]},
}
REVIEWED, LIMIT = "deploy reviewed", "deploy the shop"
#: What is committed -> by whom, after which wish of a person, what was said, and what is written.
PLACES: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = {
    "a message is posted": ("gateway", "post", REVIEWED, ("INSERT INTO gateway.outbox",)),
    "a message is taken": ("agent", "post", REVIEWED, ("INSERT INTO agent.messages",)),
    "a call is proposed": ("agent", "post", REVIEWED, ("INSERT INTO agent.tool_calls", "INSERT INTO agent.outbox")),
    "a call is judged": ("policy", "post", REVIEWED, ("INSERT INTO policy.verdicts",)),
    "a call is judged by a limit": ("policy", "post", LIMIT, ("INSERT INTO policy.verdicts",)),
    "a verdict is forgotten": ("policy", "post", REVIEWED, ("DELETE FROM policy.outbox",)),
    "an approval is opened": ("approval", "post", REVIEWED, ("INSERT INTO approval.approvals",)),
    "a vote is counted": ("approval", "vote", REVIEWED, ("INSERT INTO approval.decisions",)),
    "a call is decided": ("approval", "decide", REVIEWED, ("INSERT INTO approval.decisions",)),
    "a call is claimed": ("executor", "decide", REVIEWED, ("INSERT INTO executor.executions",)),
    "a call is settled": (
        "executor",
        "decide",
        REVIEWED,
        ("UPDATE executor.executions", "INSERT INTO executor.outbox"),
    ),
    "a result is forgotten": ("executor", "decide", REVIEWED, ("DELETE FROM executor.outbox",)),
    "a result is taken": ("agent", "decide", REVIEWED, ("INSERT INTO agent.inbox", "INSERT INTO agent.history")),
    "a result is answered": ("agent", "decide", REVIEWED, ("INSERT INTO agent.steps",)),
}
#: Of these a usual run cuts behind the commit; `make test-faults` cuts all, on both sides.
AFTER = ("a message is posted", "a call is judged by a limit", "a vote is counted", "a call is claimed")
EVERY: list[tuple[str, Side]] = [(place, side) for place in PLACES for side in ("before", "after")]
CASES = EVERY if "FAULTS" in os.environ else [("a call is settled", "before"), *((each, "after") for each in AFTER)]
#: What there is one of in each conversation: its message, its result, the end of its turn.
ONCE = {
    "asked": "type = 'message' AND data ->> 'role' = 'user'",
    "results": "type = 'tool_call' AND data ->> 'tool' = 'deploy' AND data ->> 'status' IN ('success', 'error')",
    "ends": "type = 'turn' AND data ->> 'state' NOT IN ('started', 'continued', 'paused')",
}
COUNTED = "SELECT count(*) FROM agent.log WHERE conversation_id = '{}' AND {}"
VOTES = "SELECT count(*) FROM approval.decisions WHERE approval_id = '{}' AND outcome = 'accepted'"
UNSENT = f"SELECT {' + '.join(f'(SELECT count(*) FROM {name}.outbox)' for name in SERVICES)}"  # noqa: S608


@pytest.fixture(scope="module")
def made(
    stage: Stage, databases: Databases, virtual_hosts: VirtualHosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """A system with a database and a broker, and no process yet."""
    folder = tmp_path_factory.mktemp("cut")
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        yield System(folder, database_url, rabbitmq_url, with_limit(rulebook(folder)), dict(stage.environment))


def with_limit(path: Path) -> Path:
    """Have a rule of a file with a limit."""
    content = yaml.safe_load(path.read_text())
    content["rules"].insert(0, LIMITED)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lines(made: System) -> AsyncIterator[Lines]:
    """Each service with a line of its own to the database, so that nobody else goes on with what it left."""
    made.prepare()
    lines = {name: CutLine(to_postgres(lambda: made.database_url)) for name in SERVICES}
    async with AsyncExitStack() as stack:
        for name, line in lines.items():
            await line.open()
            stack.push_async_callback(line.close)
            made.add(name, PLACET_DATABASE_URL=line.url(made.database_url))
        stack.push_async_callback(asyncio.to_thread, made.stop)
        await made.start()
        yield lines


@pytest.fixture(scope="module")
def system(made: System, lines: Lines) -> System:
    """The running system."""
    del lines
    return made


async def posted(person: Patient, path: str, wish: dict[str, Any]) -> list[int]:
    """Post something until it is taken; return the status of each answer."""
    statuses: list[int] = []

    async def taken() -> bool:
        statuses.append((await person.request("POST", path, json=wish)).status_code)
        return statuses[-1] != 503

    await until(taken, f"POST {path} is taken")
    return statuses


@pytest.mark.parametrize(("place", "side"), CASES)
async def test_a_commit_of_which_nobody_knows_is_done_once(
    system: System, lines: Lines, stage: Stage, place: str, side: Side
) -> None:
    """Whether the server has it or not: who asked is told to try again, and all of the call happens, once."""
    service, moment, said, writes = PLACES[place]
    asker, *voters = (
        Patient(system.url, system.key("chat", "decide", person=name)) for name in ("ada", "grace", "hopper")
    )
    conversation, told = (await asker.post("/v1/conversations"))["id"], {}

    async def post(now: str, person: Patient, path: str, wish: dict[str, Any]) -> None:
        if now == moment:
            lines[service].cut_at(side, *writes)
        told[now] = await posted(person, path, wish)

    wish = {"text": said, "message_id": f"m-{conversation}"}
    await post("post", asker, f"/v1/conversations/{conversation}/messages", wish)
    card = await card_of(asker, conversation)
    wish = {"decision": "approve", "digest": card["digest"]}
    for now, voter in zip(("vote", "decide"), voters, strict=True):
        await post(now, voter, f"/v1/approvals/{card['id']}/decisions", wish)
    call = await ended_as(asker, card["call"]["id"])

    def once() -> dict[str, int]:
        return {name: system.count(COUNTED.format(conversation, each)) for name, each in ONCE.items()}

    async def is_told() -> bool:
        return once()["ends"] > 0 and lines[service].was_cut.is_set() and not system.count(UNSENT)

    await until(is_told, "the line was cut, and all is told")
    refused = {now: [each for each in statuses if each not in {200, 202}] for now, statuses in told.items()}
    assert {now: [503] * (now == moment and service == "gateway") for now in told} == refused
    begun = [line["call"] for line in stage.begun("deploy", conversation)]
    assert ("succeeded", [call["id"]], dict.fromkeys(ONCE, 1)) == (call["kind"], begun, once())
    assert 2 == system.count(VOTES.format(card["id"]))
    assert 0 == system.count("SELECT count(*) FROM dead_letters.dead_letters")
