"""Rulebooks on real PostgreSQL: a new version takes over without a restart, and any may be tried without being used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from placet.contracts.messages import ApprovalRequested, RulebookTried, ToolCallPermitted, ToolCallProposed, TryRulebook
from placet.contracts.signing import Signer
from placet.domain import directory_file
from placet.domain.yaml_source import RulebookInvalid
from placet.policy.active import ACTIVATIONS, PEOPLE_MISSING, REJECTIONS
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from placet.policy.store.rulebooks import PAGE
from placet.policy.trial_process import REPLAYED_MAX
from placet.policy.views import VIEWS
from tests.builders import a_call
from tests.support.house import Replica, a_replica
from tests.support.policy_builders import a_grant_request, a_proposal, kinds

STRICTER = ("arguments.amount < 100", "arguments.amount < 10")


@pytest.fixture
def own(settings: PolicySettings, tmp_path: Path) -> PolicySettings:
    """Settings with a rulebook that the test may change."""
    path = tmp_path / "rulebook.yaml"
    path.write_text(settings.rulebook.read_text())
    return settings.model_copy(update={"rulebook": path})


@pytest.fixture
async def pair(policy_url: str, own: PolicySettings) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas on one empty database and one file, each after its first look at it."""
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(a_replica("policy", policy_url, partial(build, own), keys=own.keys))
            for _ in range(2)
        ]
        await replicas[0].empty_tables()
        for replica in replicas:
            await look(replica)
        yield replicas[0], replicas[1]


async def look(replica: Replica) -> None:
    """Have a replica look at its rulebook file."""
    await replica.service.duties[0].run_once()


def a_shipment(rulebook: Rulebook) -> ToolCallProposed:
    """Return the proposal of a call that people may allow from now on."""
    return a_proposal(rulebook, "ship", arguments={"amount": 1, "to": "x"})


async def grants(replica: Replica) -> list[tuple[str, str | None]]:
    """Return state and reason of every grant as the gateway sees it."""
    rows = await replica.rows(VIEWS["grants"])
    return [(row["state"], row["void_reason"]) for row in rows]


async def test_a_grant_is_void_for_good_once_its_tool_has_changed(
    module_database_url: str, limited_settings: PolicySettings, limited: Rulebook, approver: Signer, tmp_path: Path
) -> None:
    """Another rule changes nothing; another entry of the tool does, once and with why; the old one revives nothing."""
    own = limited_settings.model_copy(update={"rulebook": tmp_path / "rulebook.yaml"})
    own.rulebook.write_text(limited_settings.rulebook.read_text())
    async with a_replica("policy", module_database_url, partial(build, own), keys=own.keys) as replica:
        await replica.empty_tables()
        await look(replica)
        await replica.send(
            a_grant_request(a_proposal(limited, "ship", arguments={"amount": 1, "to": "x"}).call, approver)
        )
        seen = []
        for before, after in (
            ("It costs money.", "It costs very much."),
            ("Ship something.", "Ship anything."),
            ("Ship anything.", "Ship something."),
        ):
            change(own, before, after)
            await look(replica)
            seen += await grants(replica)
        told = await replica.rows("SELECT actor, to_state FROM policy.history WHERE event = 'voided'")
        held = await replica.send(a_shipment(limited))
    void = ("void", "the tool's entry in the rulebook has changed")
    assert ([("active", None), void, void], [{"actor": "file", "to_state": "void"}]) == (seen, told)
    assert ["ApprovalRequested"] == kinds(held)


async def test_a_grant_is_void_where_its_tool_is_gone(
    module_database_url: str, limited_settings: PolicySettings, limited: Rulebook, approver: Signer, tmp_path: Path
) -> None:
    """Every replica may be the first to see that, also one that has just begun."""
    own = limited_settings.model_copy(update={"rulebook": tmp_path / "rulebook.yaml"})
    own.rulebook.write_text(limited_settings.rulebook.read_text())
    async with a_replica("policy", module_database_url, partial(build, own), keys=own.keys) as replica:
        await replica.empty_tables()
        await replica.send(
            a_grant_request(a_proposal(limited, "ship", arguments={"amount": 1, "to": "x"}).call, approver)
        )
    text = own.rulebook.read_text().replace("  ship:\n", "  send:\n").replace("tool: ship", "tool: send")
    own.rulebook.write_text(text)
    async with a_replica("policy", module_database_url, partial(build, own), keys=own.keys) as replica:
        await look(replica)
        assert [("void", "the rulebook has the tool no more")] == await grants(replica)


def change(settings: PolicySettings, before: str, after: str) -> Rulebook:
    """Put a changed version in the place of the file; return it."""
    new = settings.rulebook.with_suffix(".new")
    new.write_text(settings.rulebook.read_text().replace(before, after))
    new.replace(settings.rulebook)
    return load_rulebook(settings.rulebook)


def a_payment(rulebook: Rulebook, amount: float, **changes: Any) -> ToolCallProposed:
    """Return the proposal of a payment."""
    digest = rulebook.tools["pay"].schema_digest
    call = a_call(tool="pay", schema_digest=digest, arguments={"amount": amount, "to": "secret"}, **changes)
    return ToolCallProposed(tenant=call.tenant, call=call)


async def activations(replica: Replica) -> list[dict[str, Any]]:
    """Return every activation, oldest first."""
    return await replica.rows("SELECT * FROM policy.activations ORDER BY activated_at")


async def tried(replica: Replica, kind: str, **what: Any) -> RulebookTried:
    """Have a rulebook tried; return the answer."""
    fields = {"tenant": "acme", "trial_id": "trial-1", "answer_to": "gateway-1", "kind": kind}
    (answer,) = await replica.send(TryRulebook(**(fields | what)))
    assert isinstance(answer, RulebookTried)
    assert ("trial-1", "gateway-1") == (answer.trial_id, answer.answer_to)
    return answer


async def test_start_is_the_first_activation(pair: tuple[Replica, Replica], own: PolicySettings) -> None:
    """One row, however many replicas started with it, with the whole text."""
    (row,) = await activations(pair[0])
    text = own.rulebook.read_text()
    assert ("file", load_rulebook(own.rulebook).digest, text) == (row["activated_by"], row["digest"], row["source"])


async def test_changed_file_takes_over_without_a_restart(pair: tuple[Replica, Replica], own: PolicySettings) -> None:
    """Verdicts name the new digest at once; the row says what changed."""
    replica, counted = pair[0], ACTIVATIONS._value.get()
    first = await replica.send(a_payment(load_rulebook(own.rulebook), 50))
    changed = change(own, *STRICTER)
    await look(replica)
    second = await replica.send(a_payment(changed, 50))
    assert [ToolCallPermitted, ApprovalRequested] == [type(message) for message in (*first, *second)]
    digests = await replica.rows("SELECT rulebook_digest FROM policy.verdicts ORDER BY judged_at")
    _, row = await activations(replica)
    assert (changed.digest, changed.digest, 1) == (
        digests[1]["rulebook_digest"],
        row["digest"],
        ACTIVATIONS._value.get() - counted,
    )
    lines = [line for line in row["diff"].splitlines() if line[0] in "+-"]
    assert ["--- before", "+++ after", "-    when: arguments.amount < 100", "+    when: arguments.amount < 10"] == lines


async def test_replicas_note_one_change_once(pair: tuple[Replica, Replica], own: PolicySettings) -> None:
    """Both see the new file at the same moment; both judge by it, one row tells of it."""
    changed = change(own, *STRICTER)
    await asyncio.gather(*(look(replica) for replica in pair))
    answers = [await replica.send(a_payment(changed, 50)) for replica in pair]
    assert 2 == len(await activations(pair[0]))
    assert [ApprovalRequested, ApprovalRequested] == [type(message) for each in answers for message in each]


@pytest.fixture
def with_people(own: PolicySettings) -> PolicySettings:
    """Settings with a rulebook that asks a group, and a file of people beside it."""
    text = own.rulebook.read_text().replace("approvers: [requester, operators]", "approvers: ['group:ops']")
    own.rulebook.write_text(f"directory: people.yaml\n{text}")
    own.rulebook.with_name("people.yaml").write_text(PEOPLE)
    return own


PEOPLE = """\
people: {ada: {emails: [ada@example.org]}, bob: {}}
groups: {ops: [ada]}
"""


async def with_fresh_people(settings: PolicySettings, url: str, people: str) -> list[dict[str, Any]]:
    """Start policy, change the people, start it again; return the activations of directories."""
    async with a_replica("policy", url, partial(build, settings), keys=settings.keys) as replica:
        await replica.empty_tables()
        await look(replica)
    settings.rulebook.with_name("people.yaml").write_text(people)
    async with a_replica("policy", url, partial(build, settings), keys=settings.keys) as replica:
        await look(replica)
        return [row for row in await activations(replica) if row["kind"] == "directory"]


async def test_a_change_of_people_is_an_activation_without_addresses(
    policy_url: str, with_people: PolicySettings
) -> None:
    """When, which digest, and who: a new address shows as a change and not as an address."""
    changed = PEOPLE.replace("ada@", "lovelace@").replace("ops: [ada]", "ops: [ada, bob]")
    first, second = await with_fresh_people(with_people, policy_url, changed)
    with psycopg.connect(policy_url) as connection:
        digests = connection.execute(VIEWS["active_rulebook"]).fetchall()
    assert [(load_rulebook(with_people.rulebook).digest, second["digest"], True)] == digests
    assert load_rulebook(with_people.rulebook).directory.digest == second["digest"]
    lines = [line for line in second["diff"].splitlines()[2:] if line[0] in "+-"]
    assert ["-group ops: ada", "+group ops: ada, bob"] == [line for line in lines if "group" in line]
    assert 2 == len([line for line in lines if "person ada: active, known by" in line])
    assert not any("@example" in row[name] for row in (first, second) for name in ("source", "diff"))


@pytest.mark.parametrize("people", ["groups: {ops: []}\n", "groups: {}\n"])
async def test_a_group_that_lost_its_people_keeps_nothing_from_starting(
    policy_url: str, with_people: PolicySettings, people: str
) -> None:
    """A restart is no stricter than a reload: it starts, counts what its rules lack, and `check` still says what."""
    rows = await with_fresh_people(with_people, policy_url, people)
    assert (2, 1) == (len(rows), PEOPLE_MISSING._value.get())
    with pytest.raises(RulebookInvalid, match="group 'ops'"):
        load_rulebook(with_people.rulebook)


async def test_a_vanished_rulebook_is_told_once(pair: tuple[Replica, Replica], own: PolicySettings) -> None:
    """The version in use stays, and the metric of what was not used moves by one."""
    text, before = own.rulebook.read_text(), REJECTIONS._value.get()
    own.rulebook.unlink()
    for _ in range(3):
        await look(pair[0])
    assert 1 == REJECTIONS._value.get() - before
    own.rulebook.write_text(text)
    await look(pair[0])
    assert 1 == len(await activations(pair[0]))


async def test_going_back_is_an_activation_too(pair: tuple[Replica, Replica], own: PolicySettings) -> None:
    """The history says what was active when, also what had been active before."""
    first = load_rulebook(own.rulebook)
    second = change(own, *STRICTER)
    await look(pair[0])
    change(own, STRICTER[1], STRICTER[0])
    await look(pair[0])
    assert [first.digest, second.digest, first.digest] == [row["digest"] for row in await activations(pair[0])]


async def test_bad_file_is_no_change_of_people(
    pair: tuple[Replica, Replica], own: PolicySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is in it can be read, and is who was there before: nothing is written down."""
    monkeypatch.setattr(directory_file, "LOOK_EVERY_SECONDS", 0.0)
    own.rulebook.write_text(own.rulebook.read_text().replace("arguments.amount", "arguments.amont"))
    await look(pair[0])
    assert ["rulebook"] == [row["kind"] for row in await activations(pair[0])]


@pytest.mark.parametrize("bad", [("arguments.amount", "arguments.amont"), ("tools:", "tools: {")])
async def test_bad_file_never_takes_over(
    pair: tuple[Replica, Replica], own: PolicySettings, bad: tuple[str, str]
) -> None:
    """The old rulebook stays, it is counted once, and the mended file takes over."""
    replica, good = pair[0], load_rulebook(own.rulebook)
    counted, text = REJECTIONS._value.get(), own.rulebook.read_text()
    own.rulebook.write_text(text.replace(*bad))
    await look(replica)
    await look(replica)
    answer = await replica.send(a_payment(good, 50))
    assert (1, 1, [ToolCallPermitted]) == (
        REJECTIONS._value.get() - counted,
        len(await activations(replica)),
        [type(message) for message in answer],
    )
    own.rulebook.write_text(text.replace(*STRICTER))
    await look(replica)
    assert 2 == len(await activations(replica))


async def test_vanished_file_changes_nothing(pair: tuple[Replica, Replica], own: PolicySettings) -> None:
    """Somebody replaces it clumsily; policy waits."""
    good = load_rulebook(own.rulebook)
    own.rulebook.unlink()
    await look(pair[0])
    assert [ToolCallPermitted] == [type(message) for message in await pair[0].send(a_payment(good, 50))]


async def test_check_tells_problems_by_line(replica: Replica) -> None:
    """A rulebook that is wrong is a good answer to whether it is right."""
    report = (await tried(replica, "check", rulebook="tools: {}\nruls: 5\n")).report
    assert (False, "rulebook:2:1 unknown key 'ruls'") == (
        report["valid"],
        "{file}:{line}:{column} {problem}".format(**report["problems"][1]),
    )


async def test_no_file_is_read_that_a_text_names(replica: Replica, settings: PolicySettings) -> None:
    """What somebody sent opens nothing on this machine: the directory that is active counts instead."""
    text = f"directory: {settings.rulebook}\n" + settings.rulebook.read_text()
    assert (await tried(replica, "check", rulebook=text)).report["valid"]


async def test_explain_goes_by_the_active_rulebook(replica: Replica) -> None:
    """Unless another one was sent."""
    call = {"tool": "pay", "arguments": {"amount": 50}}
    schema = "{type: object, properties: {amount: {type: number}}}"
    text = f"tools: {{pay: {{description: P., category: safe_read, parameters: {schema}}}}}"
    active, other = (
        await tried(replica, "explain", call=call),
        await tried(replica, "explain", call=call, rulebook=text),
    )
    assert ["small-payments", "default:safe_read"] == [active.report["rule"], other.report["rule"]]


async def test_what_is_no_call_is_told(replica: Replica) -> None:
    """Like a problem of a file."""
    answer = await tried(replica, "explain", call={"arguments": {}})
    assert ({}, [{"file": "call", "line": 1, "column": 1, "problem": "in 'call': key 'tool' is missing"}]) == (
        answer.report,
        answer.problems,
    )


async def test_cases_are_run(replica: Replica) -> None:
    """Passed and failed are counted."""
    cases = """
cases:
  - {name: small, call: {tool: pay, arguments: {amount: 50}}, expect: {effect: allow}}
  - {name: large, call: {tool: pay, arguments: {amount: 500}}, expect: {effect: allow}}
"""
    report = (await tried(replica, "test", cases=cases)).report
    assert (1, 1, ["effect: expected allow, found require_approval"]) == (
        report["passed"],
        report["failed"],
        report["cases"][1]["differences"],
    )


async def test_simulation_replays_what_the_tenant_proposed(replica: Replica, settings: PolicySettings) -> None:
    """Each past call is judged again; what would change is counted, and foreign calls are not seen."""
    rulebook, text = load_rulebook(settings.rulebook), settings.rulebook.read_text()
    for amount in (5, 50, 51, 500):
        await replica.send(a_payment(rulebook, amount))
    await replica.send(a_payment(rulebook, 52, tenant="globex"))
    report = (await tried(replica, "simulate", rulebook=text.replace(*STRICTER), since_seconds=3600)).report
    (found,) = report["changes"]
    assert (4, 2, True) == (report["calls"], report["changed"], report["complete"])
    assert ("allow", "require_approval", ["Pay 51 to •••?", "Pay 50 to •••?"]) == (
        found["before"]["effect"],
        found["after"]["effect"],
        [example["summary"] for example in found["examples"]],
    )


async def test_simulation_of_the_active_rulebook_changes_nothing(replica: Replica, settings: PolicySettings) -> None:
    """What is kept of a call is what it was judged by."""
    rulebook, text = load_rulebook(settings.rulebook), settings.rulebook.read_text()
    for amount in (5, 50, 500):
        await replica.send(a_payment(rulebook, amount, labels={"channel": "web"}))
    report = (await tried(replica, "simulate", rulebook=text)).report
    assert (3, 0, 0, []) == (report["calls"], report["changed"], report["renamed"], report["changes"])


async def test_simulation_goes_no_further_back_than_asked(replica: Replica, settings: PolicySettings) -> None:
    """By the database clock."""
    rulebook, text = load_rulebook(settings.rulebook), settings.rulebook.read_text()
    for number in range(2):
        await replica.send(a_payment(rulebook, 5, call_id=f"call-{number}"))
    await replica.execute("UPDATE policy.verdicts SET judged_at = now() - interval '2 hours' WHERE call_id = 'call-0'")
    report = (await tried(replica, "simulate", rulebook=text, since_seconds=3600)).report
    assert 1 == report["calls"]


@pytest.mark.parametrize(("more", "found"), [(PAGE, (PAGE + 1, True)), (REPLAYED_MAX, (REPLAYED_MAX, False))])
async def test_simulation_reads_page_by_page_and_says_where_it_stops(
    replica: Replica, settings: PolicySettings, more: int, found: tuple[int, bool]
) -> None:
    """More calls than one page are all replayed; of more than the most, the newest are, and the report says so."""
    rulebook, text = load_rulebook(settings.rulebook), settings.rulebook.read_text()
    await replica.send(a_payment(rulebook, 5))
    copy = """
        INSERT INTO policy.verdicts
        SELECT (jsonb_populate_record(v, jsonb_build_object('verdict_id', n::text, 'call_id', n::text))).*
        FROM policy.verdicts v, generate_series(1, :more) n
    """
    await replica.execute(copy, more=more)
    report = (await tried(replica, "simulate", rulebook=text)).report
    assert found == (report["calls"], report["complete"])
