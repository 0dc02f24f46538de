"""Kill -9 at each named point of each service that has it: the call is answered once, and its tool begins at most once.

Each takes ten seconds and more, so that a usual run has twelve of them. `make test-kills` tries them all, and with
HITS=3 also at the second and third time that a point is reached, as every night should.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aio_pika
import pytest
import yaml
from anyio.from_thread import start_blocking_portal

from hanoi import model as hanoi
from placet.contracts.ids import new_id
from placet.contracts.messages import Event, HandoverRequested
from tests.builders import an_envelope, an_event
from tests.conftest import migrate
from tests.e2e.conftest import Stage
from tests.e2e.scenes import agents, rulebook
from tests.support.jobs import MODEL, SURE, begin, ended, wrong_moves
from tests.support.kill_points import AT, CASES, Patient, arm, ended_as, held, killed
from tests.support.people import Caller
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.smtp_server import MailServer
from tests.support.system import System, running, until
from tests.support.webhook_server import Receiver, a_receiver

pytestmark = pytest.mark.timeout(300)

OF_A_JOB = [case for case in CASES if case[0] == "jobs"]
#: What is kept of bytes that nobody can read, and what an operator does with a letter.
OF_A_LETTER = [
    case for case in CASES if case[:2] in {("dead_letters", "work.written"), ("dead_letters", "work.committed")}
]
OF_A_REPLAY = [case for case in CASES if case[0] == "dead_letters" and case not in OF_A_LETTER]
OF_A_HANDOVER = [case for case in CASES if case[0] == "gateway" and case[1].startswith("consumer.")]
#: What ends a conversation is a transaction of both.
OF_AN_END = [case for case in CASES if case[:2] in {("gateway", "work.written"), ("approval", "work.written")}]
OF_AN_EXPIRY = [case for case in CASES if case[1] == "approval.expiring"]
_APART = {*OF_A_JOB, *OF_A_LETTER, *OF_A_REPLAY, *OF_A_HANDOVER, *OF_AN_END, *OF_AN_EXPIRY}
OF_A_CALL = [case for case in CASES if case not in _APART]
#: Points of an executor at which the call is claimed: it may have begun, and nobody knows what became of it.
IN_THE_ACT = {point for point in AT["executor"] if point not in {"consumer.received", "outbox.confirmed"}}
#: Who is told by mail of the held call.
GRACE = "grace@example.org"
#: Its relay, and what hears its webhook.
Outside = tuple[MailServer, Receiver]
#: Signs what the webhook hears.
SECRET = "whsec_" + "c2lnbmVk" * 4
MAILED = {
    "name": "told-by-mail",
    "match": {"tool": "deploy"},
    "when": 'arguments.version == "1.2"',
    "effect": "require_approval",
    "reason": "Somebody is told by mail.",
    # What takes of a limit, policy judges in a transaction.
    "limits": [{"count": 10_000, "per": "tenant", "within": "1d"}],
    "approval": {"approvers": ["group:releases"], "channels": ["email"]},
}


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    """Where the notifier's mails and its webhook's events go."""
    with (
        MailServer().running() as relay,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(a_receiver()) as receiver,
    ):
        yield relay, receiver


@pytest.fixture(scope="module")
def system(
    stage: Stage,
    outside: Outside,
    databases: Databases,
    virtual_hosts: VirtualHosts,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[System]:
    """One of each service, so that nobody else goes on with what a dead one left."""
    folder = tmp_path_factory.mktemp("points")
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        named = agents(folder, f"http://127.0.0.1:{stage.model_port}")
        environment = stage.environment | {"PLACET_AGENTS": str(named), "CLERK_MODEL_KEY": "scripted-key"}
        environment |= {"PLACET_AGENT_LEASE_SECONDS": "3", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        made = System(folder, database_url, rabbitmq_url, with_mails(rulebook(folder)), environment)
        made.environment |= {
            "PLACET_PUBLIC_URL": made.url,
            "PLACET_EMAIL_HOST": "127.0.0.1",
            "PLACET_EMAIL_PORT": str(outside[0].port),
            "PLACET_EMAIL_SECURITY": "none",
            "PLACET_EMAIL_FROM": "placet@example.org",
            "PLACET_NOTIFIER_WEBHOOKS": str(webhooks(folder, outside[1])),
        }
        with running(made, dict.fromkeys(AT.keys() - {"jobs"}, 1)):
            yield made


def with_mails(path: Path) -> Path:
    """Have the rules of a file tell somebody by mail of the held call."""
    content = yaml.safe_load(path.read_text())
    content["rules"].insert(0, MAILED)
    content["people"]["grace"] |= {"emails": [GRACE]}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def webhooks(folder: Path, receiver: Receiver) -> Path:
    """Name a webhook that hears of each held call."""
    entry = {"url": receiver.url, "secrets": [SECRET], "events": ["approval.opened"], "private": True}
    (path := folder / "webhooks.yaml").write_text(yaml.safe_dump({"webhooks": {"crm": entry}}))
    return path


@pytest.fixture
def job_system(databases: Databases, virtual_hosts: VirtualHosts, tmp_path: Path) -> Iterator[System]:
    """One of each service that a job goes through; its model is a function that errs."""
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(tmp_path, database_url, rabbitmq_url, environment=dict(MODEL))
        with running(made, dict.fromkeys(("gateway", "agent", "policy", "jobs", "dead_letters"), 1)):
            yield made


Told = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Decide without being told."""


async def a_held_call(person: Patient, armed: Path, told: Told = at_once) -> dict[str, Any]:
    """Have a call proposed, approve it once somebody was told, and return what is known of it with its result."""
    _, card = await held(person, "deploy the shop", armed)
    await told()

    async def is_decided() -> bool:
        wish = {"decision": "approve", "digest": card["digest"]}
        answer = await person.tried("POST", f"/v1/approvals/{card['id']}/decisions", json=wish)
        return answer.status_code in {200, 409}

    await until(is_decided, "the approval is decided")
    return await ended_as(person, card["call"]["id"])


@pytest.mark.parametrize(("service", "point", "hit"), OF_A_CALL)
async def test_a_kill_at_a_named_point_loses_and_doubles_nothing(
    system: System, stage: Stage, outside: Outside, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """The process dies there and comes back: one result, one answer of the agent, and no second begin of the tool.

    The notifier's mail and its webhook's event come all the same, and once more at most: where nobody knows whether
    they went out.
    """
    relay, receiver = outside
    mark, before, heard = tmp_path / "mark", len(relay.of(GRACE)), len(receiver.heard)
    arm(system, service, point, hit, mark)
    await system.start_again(f"{service}-1")
    person = Patient(system.url, system.key("chat", "decide", person="grace"))

    async def mailed() -> bool:
        is_told = len(relay.of(GRACE)) > before and len(receiver.heard) > heard and mark.exists()
        return is_told and not system.count("SELECT count(*) FROM notifier.webhook_events WHERE state = 'due'")

    told = partial(until, mailed, "the mail and the event come") if service == "notifier" else at_once
    doing = asyncio.create_task(a_held_call(person, Path(f"{mark}.armed"), told))
    await killed(system, doing, service, point, mark)
    call = await doing
    begun = [line["call"] for line in stage.begun("deploy", call["conversation_id"])]
    ends = [line for line in call["history"] if line["machine"] == "execution" and line["to_state"] == "unknown"]
    if service == "executor" and point in IN_THE_ACT:
        # A tool that is not safe to repeat is not repeated, and what nobody can know is said to be unknown, once.
        assert (call["kind"], len(ends)) in {("unknown", 1), ("succeeded", 0)}
        assert begun in ([], [call["id"]])
    else:
        assert ("succeeded", [call["id"]], []) == (call["kind"], begun, ends)
    results = (
        "SELECT count(*) FROM agent.log WHERE type = 'tool_call' AND data ->> 'call_id' = '{}'"
        " AND data ->> 'status' IN ('success', 'error')"
    )
    assert 1 == system.count(results.format(call["id"]))
    if service == "notifier":
        # By mail, for one about an earlier call may come only now.
        copies = Counter(mail.message["Message-ID"] for mail in relay.of(GRACE)[before:])
        assert max(copies.values()) in ({1, 2} if point == "notifier.sent" else {1})
        events = Counter(each.headers["webhook-id"] for each in receiver.heard[heard:])
        assert max(events.values()) in ({1, 2} if point == "notifier.posted" else {1})
    if point == "audit.sealing":
        command = [sys.executable, "-m", "placet.cli", "audit", "verify", "--database", system.database_url]
        command += ["--keys", str(system.folder / "keys")]
        verified = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert (0, "nothing was changed") == (verified.returncode, verified.stdout.splitlines()[-1]), verified.stdout


@pytest.mark.parametrize(("service", "point", "hit"), OF_AN_EXPIRY)
async def test_a_kill_while_an_approval_expires_ends_it_once(
    system: System, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """S1: nothing of the expiry was committed; the next process ends the call, and it is told once."""
    mark = tmp_path / "mark"
    await asyncio.to_thread(Path(f"{mark}.armed").touch)
    arm(system, service, point, hit, mark)
    await system.start_again(f"{service}-1")
    person = Patient(system.url, system.key("chat", "decide", person="grace"))
    for _ in range(hit - 1):
        await ended_as(person, (await held(person, "deploy short-lived"))[1]["call"]["id"])
    _, card = await held(person, "deploy short-lived")
    doing = asyncio.create_task(ended_as(person, card["call"]["id"]))
    await killed(system, doing, service, point, mark)
    call = await doing
    ends = [line for line in call["history"] if line["machine"] == "approval" and line["event"] == "time_out"]
    assert ("expired", 1) == (call["kind"], len(ends))


async def test_a_kill_between_two_votes_keeps_the_first(system: System, stage: Stage) -> None:
    """V3: the process dies after the first of two votes; with the second one the call runs, once."""
    asker, *voters = (
        Patient(system.url, system.key("chat", "decide", person=name)) for name in ("ada", "grace", "hopper")
    )
    conversation, card = await held(asker, "deploy reviewed")
    wish, path = {"decision": "approve", "digest": card["digest"]}, f"/v1/approvals/{card['id']}/decisions"
    first = await voters[0].tried("POST", path, json=wish)
    process = system.processes["approval-1"]
    process.kill()
    process.start()
    await until(process.ready, "approval is ready again")
    second = await voters[1].tried("POST", path, json=wish)
    call = await ended_as(asker, card["call"]["id"])
    assert [(200, "pending"), (200, "approved")] == [
        (each.status_code, each.json()["state"]) for each in (first, second)
    ]
    assert ("succeeded", 1) == (call["kind"], len(stage.begun("deploy", conversation)))


@pytest.mark.parametrize(("service", "point", "hit"), OF_A_LETTER)
async def test_a_kill_while_a_dead_letter_is_kept_keeps_it_once(
    system: System, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """The process dies over bytes that nobody can read, and comes back: there is one letter of them."""
    mark, body = tmp_path / "mark", f"no event {new_id()}".encode()
    arm(system, service, point, hit, mark)
    await system.start_again(f"{service}-1")
    await asyncio.to_thread(Path(f"{mark}.armed").touch)
    for _ in range(hit):
        await brought(system, "policy.edits", body)
    kept = f"SELECT count(*) FROM dead_letters.dead_letters WHERE body LIKE '%{body.decode()}%'"  # noqa: S608

    async def is_kept() -> bool:
        return system.count(kept) >= hit

    doing = asyncio.create_task(until(is_kept, "the letter is kept"))
    await killed(system, doing, service, point, mark)
    await doing
    assert hit == system.count(kept)


@pytest.mark.parametrize(("service", "point", "hit"), OF_AN_END)
async def test_a_kill_while_a_conversation_ends_withdraws_its_call_once(
    system: System, stage: Stage, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """Neither its end nor the withdrawal was committed: both come once, its messages too, and nothing has begun."""
    mark = tmp_path / "mark"
    arm(system, service, point, hit, mark)
    await system.start_again(f"{service}-1")
    await asyncio.to_thread(Path(f"{mark}.armed").touch)
    person = Patient(system.url, system.key("chat", "decide", person="grace"))
    ended: list[dict[str, Any]] = []

    async def several() -> None:
        for _ in range(hit):
            conversation, card = await held(person, "deploy the shop")
            await person.tried("POST", f"/v1/conversations/{conversation}/end")
            ended.append(await ended_as(person, card["call"]["id"]))

    doing = asyncio.create_task(several())
    await killed(system, doing, service, point, mark)
    await doing
    for call in ended:
        moves = [line for line in call["history"] if line["machine"] == "approval" and line["to_state"] == "withdrawn"]
        assert ("cancelled", 1, []) == (call["kind"], len(moves), stage.begun("deploy", call["conversation_id"]))
        heard = "SELECT count(*) FROM agent.messages WHERE conversation_id = '{}'"
        assert 1 == system.count(heard.format(call["conversation_id"]))


@pytest.mark.parametrize(("service", "point", "hit"), OF_A_HANDOVER)
async def test_a_kill_while_a_conversation_is_handed_over_hands_it_over_once(
    system: System, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """The gateway dies over what a tool asked for, and comes back: each conversation waits for people, and once."""
    mark = tmp_path / "mark"
    arm(system, service, point, hit, mark)
    await system.start_again(f"{service}-1")
    person = Patient(system.url, system.key("chat", person="grace"))
    places = [(await person.tried("POST", "/v1/conversations")).json()["id"] for _ in range(hit)]
    await asyncio.to_thread(Path(f"{mark}.armed").touch)
    counted = "SELECT count({}) FROM gateway.history WHERE event = 'escalated' AND subject_id = ANY ('{{{}}}')"
    moves, moved = (counted.format(what, ",".join(places)) for what in ("*", "DISTINCT subject_id"))

    async def several() -> None:
        for number, place in enumerate(places, 1):
            asked = HandoverRequested(tenant="acme", conversation_id=place, call_id=new_id(), reason="They ask for it.")
            await brought(system, "gateway.handovers", an_envelope(an_event(asked)))

            async def is_moved(number: int = number) -> bool:
                return system.count(moved) >= number

            await until(is_moved, "the conversation waits for people")

    doing = asyncio.create_task(several())
    await killed(system, doing, service, point, mark)
    await doing
    assert [hit, hit] == [system.count(each) for each in (moves, moved)]


async def brought(system: System, queue: str, body: bytes) -> None:
    """Put something into a queue."""
    async with await aio_pika.connect(system.rabbitmq_url) as connection:
        channel = await connection.channel()
        await channel.default_exchange.publish(aio_pika.Message(body), queue)


@pytest.mark.parametrize(("service", "point", "hit"), OF_A_REPLAY)
async def test_a_kill_while_dead_letters_are_resolved_resolves_each_once(
    system: System, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """The process dies over an operator's word, and comes back: each letter goes back once, and is given up once."""
    mark, admin = tmp_path / "mark", Patient(system.url, system.key("admin", person="ada"))
    arm(system, service, point, hit, mark)
    await system.start_again(f"{service}-1")
    # Its queue has nobody who knows such a message, so that it comes back.
    lost = [an_event(HandoverRequested(tenant="acme", conversation_id="c", call_id="x", reason="")) for _ in range(hit)]
    told = "SELECT {} FROM dead_letters.history WHERE subject_id = '{}'"

    async def resolved(event: Event) -> str:
        await brought(system, "policy.edits", an_envelope(event))
        found = "SELECT count(*) FROM dead_letters.dead_letters WHERE message_id = '{}' AND state = '{}'"

        async def is_there(state: str) -> bool:
            return system.count(found.format(event.id, state)) == 1

        await until(partial(is_there, "open"), "the letter is kept")
        await asyncio.to_thread(Path(f"{mark}.armed").touch)
        (letter,) = [
            each["id"]
            for each in (await admin.tried("GET", "/v1/dead-letters", params={"state": "open"})).json()["items"]
            if each["message_id"] == event.id
        ]
        await admin.tried("POST", f"/v1/dead-letters/{letter}/replay")
        again = told.format("count(*) FILTER (WHERE event = 'buried_again')", letter)

        async def came_back() -> bool:
            return system.count(again) >= 1

        await until(came_back, "the letter has come back")
        await admin.tried("POST", f"/v1/dead-letters/{letter}/discard")
        await until(partial(is_there, "discarded"), "the letter is given up")
        return str(letter)

    async def several() -> list[str]:
        return [await resolved(event) for event in lost]

    doing = asyncio.create_task(several())
    await killed(system, doing, service, point, mark)
    for letter in await doing:
        moves = [
            system.count(told.format(f"count(*) FILTER (WHERE event = '{event}' AND from_state <> to_state)", letter))
            for event in ("replay", "buried_again", "discard")
        ]
        assert [1, 1, 1] == moves


@pytest.mark.parametrize(("service", "point", "hit"), OF_A_JOB)
async def test_a_kill_of_what_runs_jobs_decides_no_task_wrongly(
    job_system: System, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """The process dies there and comes back: the job is done, without a wrong answer and without a lost attempt."""
    mark = tmp_path / "mark"
    arm(job_system, service, point, hit, mark)
    await job_system.start_again(f"{service}-1")
    ada = Caller(job_system.url, job_system.key("chat", person="ada"))
    await asyncio.to_thread(Path(f"{mark}.armed").touch)
    job_id = await begin(ada, **hanoi.job(2), **SURE)
    doing = asyncio.create_task(ended(ada, job_id))
    await killed(job_system, doing, service, point, mark)
    job = await doing
    assert ("done", 0) == (job["state"], wrong_moves(job))
