"""Emergency stops at the gateway: who may stop what, who may lift it, and what approvers are told meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from placet.cli.stops import app
from placet.contracts.signing import load_verifier
from placet.gateway.store import stops
from tests.builders import a_call
from tests.integration.gateway.test_inbox_page import Form, signed_in
from tests.support.gateway import House, an_approval_row, insert, open_house
from tests.support.inbox_scene import DIRECTORY, furnish
from tests.support.staged_scene import a_change, a_file, a_staged_call, propose, stage

REASON = "refunds run wild"
RULEBOOK = """
version: 1
tools:
  refund: {description: Refund., category: unsafe_api, function: shop.tools:refund, parameters: {type: object}}
"""


async def stop(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    """Ask for a stop, of whatever name."""
    return await client.post("/v1/stops", json={"reason": REASON, "anyway": True, **body})


async def test_a_stop_is_listed_until_it_is_lifted_and_both_are_on_record(house: House) -> None:
    """Executors see it while it lasts; its history names who stopped and who lifted it, and why."""
    async with house.client(house.key("admin")) as ada, house.client(house.key("admin", person="grace")) as grace:
        made = (await stop(ada, tool="refund")).json()
        shown = house.query("SELECT tenant, tool, agent, reason FROM gateway.stops WHERE resumed_at IS NULL")
        active = (await grace.get("/v1/stops", params={"state": "active"})).json()["items"]
        lifted = (await grace.post(f"/v1/stops/{made['id']}/resume", json={"reason": "mended"})).json()
        after = (await grace.get("/v1/stops", params={"state": "active"})).json()["items"]
    assert ([("acme", "refund", None, REASON)], [made], []) == (shown, active, after)
    assert ("resumed", "person:grace", True) == (lifted["state"], lifted["resumed_by"], lifted["genuine"])
    rows = house.query("SELECT machine, event, actor, detail ->> 'reason' FROM gateway.history ORDER BY id")
    assert [("stop", "stopped", "person:ada", REASON), ("stop", "resumed", "person:grace", "mended")] == rows


@pytest.mark.parametrize(
    ("tenant", "scope", "body", "expected"),
    [
        ("acme", "admin", {"tool": "refund"}, 201),
        ("acme", "admin", {"agent": "default"}, 201),
        ("acme", "admin", {"tenant": "acme"}, 201),
        ("acme", "admin", {"tenant": "globex"}, 403),
        ("acme", "admin", {"all": True}, 403),
        ("default", "admin", {"all": True}, 201),
        ("default", "admin", {"tenant": "globex"}, 201),
        ("acme", "decide", {"tool": "refund"}, 403),
        ("acme", "admin", {}, 400),
        ("acme", "admin", {"tool": "refund", "agent": "default"}, 400),
        ("acme", "admin", {"tool": "refund", "reason": ""}, 400),
        ("acme", "admin", {"tool": "refund", "reason": " \t\u00a0"}, 400),
        ("acme", "admin", {"tool": "no tool"}, 400),
    ],
)
async def test_only_administrators_stop_and_only_what_is_theirs(
    house: House, tenant: str, scope: str, body: dict[str, Any], expected: int
) -> None:
    """The house's administrators stop anything, a tenant's their own calls, and nobody else stops any."""
    async with house.client(house.key(scope, tenant=tenant)) as client:
        answer = await stop(client, **body)
    assert expected == answer.status_code


async def test_a_stop_of_the_house_is_lifted_by_the_house(house: House) -> None:
    """A tenant's administrator sees that all is stopped, and cannot lift it; another tenant's stop is not there."""
    async with house.client(house.key("admin", tenant="default")) as boss, house.client(house.key("admin")) as ada:
        whole = (await stop(boss, all=True)).json()
        other = (await stop(boss, tenant="globex")).json()
        seen = [each["id"] for each in (await ada.get("/v1/stops")).json()["items"]]
        answers = [await ada.post(f"/v1/stops/{each['id']}/resume", json={}) for each in (whole, other)]
    assert ([whole["id"]], [403, 404]) == (seen, [answer.status_code for answer in answers])


async def test_a_tenant_that_the_house_stopped_does_not_lift_that(gateway_database_url: str, tmp_path: Path) -> None:
    """Not over HTTP, nor on the page, which offers no form; the house does, whoever of it."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as house:
        grace = house.key("admin", tenant="default", person="grace")
        async with house.client(house.key("admin", tenant="default")) as boss, house.client(grace) as other:
            made = (await stop(boss, tenant="acme")).json()
            path = f"/v1/stops/{made['id']}/resume"
            async with house.client(house.key("admin")) as ada, signed_in(house, "ada", "admin") as browser:
                refused = (await ada.post(path, json={})).status_code
                page = (await browser.get("/stops")).text
            lifted = await other.post(path, json={})
    assert (True, 403, False, True) == (
        made["by_house"],
        refused,
        f"/stops/{made['id']}/resume" in page,
        "Administrators of the house lift this stop." in page,
    )
    assert (200, True) == (lifted.status_code, lifted.json()["genuine"])


async def test_a_weak_stop_keeps_no_stronger_one_out(house: House) -> None:
    """Each stands and is lifted by itself; one that is as hard to lift is there already, and a weaker one too."""
    async with house.client(house.key("admin")) as ada, house.client(house.key("admin", tenant="default")) as boss:
        answers = [
            await stop(ada, tenant="acme"),
            await stop(ada, tenant="acme", by_another=True),
            await stop(boss, tenant="acme"),
            await stop(boss, tenant="acme", by_another=True),
            await stop(ada, tenant="acme", by_another=True),
            await stop(ada, tenant="acme"),
            await stop(boss, tenant="acme"),
            await stop(ada, tool="refund"),
        ]
        lifted = await ada.post(f"/v1/stops/{answers[0].json()['id']}/resume", json={})
        again = await stop(ada, tenant="acme")
    assert [201, 201, 201, 201, 409, 409, 409, 201] == [answer.status_code for answer in answers]
    assert (200, 409) == (lifted.status_code, again.status_code)
    standing = house.query(
        "SELECT by_house, by_another FROM gateway.stops WHERE resumed_at IS NULL AND tool IS NULL ORDER BY 1, 2"
    )
    assert [(False, True), (True, False), (True, True)] == standing


async def test_a_card_from_before_a_restore_says_so(house: House) -> None:
    """Its call may have run after the backup; what was asked for since says nothing."""
    now = datetime.now(UTC)
    for name, minutes in (("before", 2), ("since", -2)):
        moment = now - timedelta(minutes=minutes)
        insert(house.url, "approvals", **an_approval_row(a_call(), approval_id=name, created_at=moment))
    house.query("INSERT INTO gateway.restores (restored_at, backup_at) VALUES (%s, %s)", now, now - timedelta(hours=1))
    async with house.client(house.key("decide")) as ada:
        listed = (await ada.get("/v1/approvals")).json()["items"]
        pages = [
            (await ada.get(f"/inbox/{name}", headers={"accept": "text/html"})).text for name in ("before", "since")
        ]
    assert {"before": True, "since": False} == {each["id"]: bool(each["restored_at"]) for each in listed}
    assert [True, False] == ["restored from a backup" in page for page in pages]


async def test_a_commit_of_what_was_staged_before_a_restore_says_so(house: House) -> None:
    """It may have been committed after the backup, whenever people are asked about it."""
    now = datetime.now(UTC)
    for name, staged_at in (("old", now - timedelta(minutes=2)), ("new", now + timedelta(minutes=1))):
        call = a_call(tool="commit_changes", arguments={"entries": [f"entry-{name}"]})
        row = an_approval_row(call, approval_id=name, created_at=now + timedelta(minutes=2))
        insert(house.url, "approvals", **row)
        entry = {"tenant": row["tenant"], "conversation_id": row["conversation_id"], "tool": "pay"}
        insert(house.url, "workspace_entries", call_id=f"entry-{name}", staged_at=staged_at, **entry)
    house.query("INSERT INTO gateway.restores (restored_at, backup_at) VALUES (%s, %s)", now, now - timedelta(hours=1))
    async with house.client(house.key("decide")) as ada:
        listed = (await ada.get("/v1/approvals")).json()["items"]
    assert {"old": True, "new": False} == {each["id"]: bool(each["restored_at"]) for each in listed}


async def test_the_same_is_stopped_once_and_lifted_once(house: House) -> None:
    """Whoever is second is told so."""
    async with house.client(house.key("admin")) as ada:
        first = await stop(ada, tool="refund")
        second = await stop(ada, tool="refund")
        path = f"/v1/stops/{first.json()['id']}/resume"
        third, fourth = await ada.post(path, json={}), await ada.post(path, json={})
    codes = [answer.status_code for answer in (first, second, third, fourth)]
    kinds = [answer.json().get("type") for answer in (second, fourth)]
    assert [201, 409, 200, 409] == codes
    assert ["urn:placet:problem:already-stopped", "urn:placet:problem:already-resumed"] == kinds


async def test_somebody_else_lifts_a_stop_that_asks_for_it(gateway_database_url: str, tmp_path: Path) -> None:
    """Asked for one stop, or of all by a setting: who stopped cannot lift it, another administrator can."""
    async with (
        open_house(gateway_database_url, tmp_path, gateway_stops_by_another=True) as house,
        house.client(house.key("admin")) as ada,
        house.client(house.key("admin", person="grace")) as grace,
    ):
        made = (await stop(ada, tool="refund")).json()
        path = f"/v1/stops/{made['id']}/resume"
        own, other = await ada.post(path, json={}), await grace.post(path, json={})
    assert (True, 403, 200) == (made["by_another"], own.status_code, other.status_code)


async def test_a_stop_that_was_changed_in_the_database_is_not_genuine(house: House) -> None:
    """Its reason, its target or its end written by hand no longer fits the gateway's signatures."""
    changes = (
        "reason = 'nothing of weight'",
        "tool = 'add'",
        "resumed_at = now(), resumed_by = 'person:eve', resume_signature = signature",
    )
    genuine = []
    async with house.client(house.key("admin")) as ada:
        for number, change in enumerate(changes):
            made = (await stop(ada, tool=f"tool-{number}")).json()
            house.query(f"UPDATE gateway.stops SET {change} WHERE stop_id = %s RETURNING stop_id", made["id"])  # noqa: S608 - ours
            rows = {each["id"]: each["genuine"] for each in (await ada.get("/v1/stops")).json()["items"]}
            genuine.append((made["genuine"], rows[made["id"]]))
    assert [(True, False)] * 3 == genuine


async def test_a_stop_that_somebody_put_back_in_force_is_not_genuine(house: House) -> None:
    """It was lifted and signed so: without its end, and without the constraints, its row says something else."""
    async with house.client(house.key("admin")) as ada:
        made = (await stop(ada, tool="refund")).json()
        await ada.post(f"/v1/stops/{made['id']}/resume", json={})
    async with house.gateways[0].runtime.units.database.single() as connection:
        lifted = await stops.find(connection, made["id"])
    assert lifted is not None
    rows = lifted, {**lifted, "resumed_at": None, "resumed_by": None}
    assert [True, False] == [stops.genuine(load_verifier(house.keys), row) for row in rows]


async def test_what_is_stopped_waits_and_may_be_denied(house: House) -> None:
    """An approval is refused with the reason while its tool is stopped; others, and denials, are not."""
    rows = furnish(house)
    async with house.client(house.key("admin")) as admin, house.client(house.key("decide")) as ada:
        await stop(admin, tool="send_mail")
        shown = (await ada.get(f"/v1/approvals/{rows['mail']['approval_id']}")).json()["stopped"]
        answers = [
            await ada.post(
                f"/v1/approvals/{rows[name]['approval_id']}/decisions",
                json={"decision": verb, "digest": rows[name]["digest"]},
            )
            for name, verb in (("mail", "approve"), ("mail", "deny"), ("refund", "approve"))
        ]
    assert (REASON, [409, 200, 200]) == (shown, [answer.status_code for answer in answers])
    assert ("urn:placet:problem:stopped", REASON) == tuple(answers[0].json()[name] for name in ("type", "detail"))


async def test_a_commit_waits_with_what_is_stopped_in_it_and_goes_on_without(house: House) -> None:
    """Its card says so like any other's; with the stopped entry left out the rest is let through."""
    calls = stage(house, [a_change(a_file("a.md", after="a\n")), a_staged_call("send_mail", "Mail lin", {"to": "lin"})])
    row = propose(house, calls)
    path = f"/v1/approvals/{row['approval_id']}"
    async with house.client(house.key("admin")) as admin, house.client(house.key("decide")) as ada:
        await stop(admin, tool="refund")
        others = (await ada.get(path)).json()["stopped"]
        await stop(admin, tool="send_mail")
        shown = (await ada.get(path)).json()["stopped"]
        wishes: list[dict[str, Any]] = [{"decision": "approve"}, {"decision": "edit", "leave_out": calls[:1]}]
        wishes.append({"decision": "edit", "leave_out": calls[1:]})
        answers = [await ada.post(f"{path}/decisions", json={**wish, "digest": row["digest"]}) for wish in wishes]
    assert (None, REASON, [409, 409, 200]) == (others, shown, [answer.status_code for answer in answers])


async def test_an_administrator_stops_and_lifts_on_the_page(gateway_database_url: str, tmp_path: Path) -> None:
    """The form stops, every page says so, the card's Approve is off, and the form beside the stop lifts it."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as house:
        furnish(house)
        async with signed_in(house, "ada", "admin", "decide", "chat") as ada:
            page = (await ada.get("/stops")).text
            fields = Form("/stops", page).fields | {"what": "tool", "name": "send_mail"}
            fields |= {"reason": REASON, "anyway": "yes"}
            made = await ada.post("/stops", data=fields, follow_redirects=True)
            banner, inbox = (await ada.get("/ui/stops")).text, (await ada.get("/inbox?tool=send_mail")).text
            (stop_id,) = house.query("SELECT stop_id FROM gateway.stops")[0]
            path = f"/stops/{stop_id}/resume"
            lifted = await ada.post(path, data=Form(path, made.text).fields, follow_redirects=True)
            after = (await ada.get("/ui/stops")).text
    assert [True] * 3 == [REASON in each for each in (made.text, banner, inbox)]
    assert (True, "Nothing is stopped." in lifted.text, "") == (
        'value="approve" formnovalidate disabled>' in inbox,
        True,
        after.strip(),
    )


async def test_who_is_no_administrator_has_no_such_page(house: House) -> None:
    """An approver sees that calls are stopped, and neither the page nor its link."""
    async with house.client(house.key("admin")) as admin:
        await stop(admin, tenant="acme")
    async with signed_in(house, "grace") as grace:
        page, banner = await grace.get("/stops"), await grace.get("/ui/stops")
    assert (403, True, False) == (page.status_code, REASON in banner.text, "/stops" in banner.text)


async def test_a_stop_of_all_stands_before_five_newer_ones(house: House) -> None:
    """Pages have room for five lines; they say how many more there are."""
    async with house.client(house.key("admin")) as admin:
        await stop(admin, tenant="acme")
        for number in range(6):
            await stop(admin, tool=f"tool_{number}", anyway=True)
    async with signed_in(house, "grace") as grace:
        banner = (await grace.get("/ui/stops")).text
    assert [True, False, True] == [each in banner for each in ("No call runs.", "tool_1", "More than these: 2.")]


AGENTS = "version: 1\nagents:\n  clerk: {}\n  robot: {tenants: [globex]}\n"
UNKNOWN = "urn:placet:problem:unknown-name"


@pytest.fixture
async def named(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """A gateway with one tool, `refund`, one agent of `acme`, `clerk`, and the tenants that have keys."""
    (tmp_path / "rulebook.yaml").write_text(RULEBOOK)
    (tmp_path / "agents.yaml").write_text(AGENTS)
    rulebook, agents = tmp_path / "rulebook.yaml", tmp_path / "agents.yaml"
    async with open_house(gateway_database_url, tmp_path, rulebook=rulebook, agents=agents) as house:
        yield house


@pytest.mark.parametrize(
    ("body", "near"),
    [
        ({"tool": "refnud"}, ["refund"]),
        ({"tool": "zzz"}, []),
        ({"agent": "clrek"}, ["clerk"]),
        ({"agent": "robot"}, []),
        ({"tenant": "gloebx"}, ["globex"]),
        ({"tool": "refund"}, None),
        ({"tool": "commit_changes"}, None),
        ({"agent": "clerk"}, None),
        ({"tenant": "globex"}, None),
        ({"tenant": "adopted"}, None),
    ],
)
async def test_a_stop_of_nothing_that_is_there_is_refused_unless_it_is_wanted_anyway(
    named: House, body: dict[str, Any], near: list[str] | None
) -> None:
    """The refusal names what is spelt like it and nothing is stopped; with `anyway` it is. What is there is stopped."""
    named.key("chat", tenant="globex")
    place = {"conversation_id": "c1", "agent": "clerk", "created_by": "person:a"}
    named.query(
        "INSERT INTO gateway.conversations (tenant, conversation_id, agent, created_by) VALUES (%s, %s, %s, %s)"
        " RETURNING tenant",
        "adopted",
        *place.values(),
    )
    async with named.client(named.key("admin", tenant="acme" if "agent" in body else "default")) as boss:
        refused = await stop(boss, **body, anyway=False)
        stopped = named.query("SELECT count(*) FROM gateway.stops")
        wanted = await stop(boss, **body)
    if near is None:
        assert (201, [(1,)]) == (refused.status_code, stopped)
    else:
        problem = refused.json()
        assert (422, UNKNOWN, near, [(0,)], 201) == (
            refused.status_code,
            problem["type"],
            problem["near"],
            stopped,
            wanted.status_code,
        )


@pytest.mark.parametrize(
    ("agent", "expected"), [("default", 201), ("helper", 201), ("theirs", 422), ("nonsense", 422), ("Default", 422)]
)
async def test_without_a_file_an_agent_is_there_that_a_conversation_names(
    house: House, agent: str, expected: int
) -> None:
    """Conversations may then call theirs what they like; a name that none of the tenant's has stops nothing."""
    for tenant, name in (("acme", "helper"), ("globex", "theirs")):
        house.query(
            "INSERT INTO gateway.conversations (tenant, conversation_id, agent, created_by) VALUES (%s, %s, %s, %s)"
            " RETURNING tenant",
            *(tenant, f"with-{name}", name, "person:a"),
        )
    async with house.client(house.key("admin")) as boss:
        answer = await stop(boss, agent=agent, anyway=False)
    assert expected == answer.status_code


async def test_a_rulebook_that_cannot_be_read_keeps_no_stop_out(named: House) -> None:
    """In an emergency it is placed, whatever it names."""
    named.gateways[0].settings.rulebook.write_text("tools: [")
    async with named.client(named.key("admin")) as ada:
        assert 201 == (await stop(ada, tool="refnud", anyway=False)).status_code


async def test_the_page_asks_again_about_an_unknown_name(named: House) -> None:
    """It says what is like it and keeps what was typed; with its box ticked the same is stopped."""
    async with signed_in(named, "ada", "admin") as ada:
        fields = Form("/stops", (await ada.get("/stops")).text).fields
        fields |= {"what": "tool", "name": "refnud", "reason": REASON}
        asked = await ada.post("/stops", data=fields)
        done = await ada.post("/stops", data={**fields, "anyway": "yes"})
    said = ("There is no such tool.", "Nothing was stopped.", "Did you mean refund?", 'name="anyway"', 'value="refnud"')
    assert (422, [True] * 5, 303) == (asked.status_code, [each in asked.text for each in said], done.status_code)


async def test_the_command_says_in_one_line_that_nothing_was_stopped(named: House) -> None:
    """Its exit code is no success, and `--anyway` stops what it names; `list --state all` has that."""
    key = named.key("admin")
    told = {"PLACET_URL": named.gateways[0].url, "PLACET_KEY": key}
    words = ["--tool", "refnud", "--reason", "oops"]
    ended = await asyncio.to_thread(CliRunner().invoke, app, words, env=told)
    done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--anyway"], env=told)
    async with named.client(key) as ada:
        listed = (await ada.get("/v1/stops", params={"state": "all"})).json()["items"]
    line = (
        'placet: 422 There is no such tool; Nothing was stopped; "anyway": true, or --anyway, stops it all the same;'
        " did you mean: refund\n"
    )
    assert (1, line, 0) == (ended.exit_code, ended.stderr, done.exit_code)
    assert ["refnud"] == [each["tool"] for each in listed]
