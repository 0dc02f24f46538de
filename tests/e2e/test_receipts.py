"""Receipts on a running system: made for every end of a call, verified by the one file alone, false where changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.async_api import Browser, expect
from psycopg import sql

from placet.contracts.receipts import Keys, load_keys, verify
from tests.e2e.test_embedded import Embedded, placet, running
from tests.integration.gateway.test_inbox_browser import AXE, faults_of
from tests.support.people import Caller, a_visitor, is_result
from tests.support.system import ROOT, until

pytestmark = pytest.mark.timeout(240)

PARTS = ["receipt", "chain", "proposal", "verdict", "votes", "permit", "execution", "result"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet."""
    with running(tmp_path_factory.mktemp("receipts")) as made:
        yield made


async def receipt_of(caller: Caller, call_id: str) -> dict[str, Any]:
    """Return the receipt of a call once it is sealed."""
    found: list[dict[str, Any]] = []

    async def is_sealed() -> bool:
        answer = await caller.request("GET", f"/v1/tool-calls/{call_id}/receipt")
        assert answer.status_code == 200 or answer.json()["type"] == "urn:placet:problem:not-sealed", answer.text
        found.append(answer.json())
        return answer.status_code == 200

    await until(is_sealed, "the call is sealed")
    return found[-1]


def verified(receipt: dict[str, Any], keys: Path, folder: Path) -> tuple[int, list[str]]:
    """Verify a receipt with the script alone, in a folder that has nothing of Placet's; return its code and parts."""
    script, file = folder / "receipts.py", folder / "receipt.json"
    shutil.copy(ROOT / "shared" / "contracts" / "receipts.py", script)
    file.write_text(json.dumps(receipt))
    command = [sys.executable, "-I", str(script), str(file), "--keys", str(keys / "public.json")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, [line.split()[1] for line in done.stdout.splitlines()]


async def ended(caller: Caller, said: str, tool: str, decision: str = "") -> str:
    """Have a call asked for, decided where it is held, and ended; return its id."""
    visitor = await a_visitor(caller)
    await visitor.say(said)
    if decision:
        answer = await caller.decide(await visitor.see_card(), decision)
        assert answer.status_code == 200, answer.text
    call: dict[str, Any] = (await visitor.see(is_result(tool)))["data"]
    return str(call["call_id"])


async def test_every_end_has_a_receipt_that_verifies_alone(house: Embedded, tmp_path: Path) -> None:
    """Allowed, approved and denied: the script says of each part that it holds; so does the command."""
    admin = house.caller()
    calls = [
        await ended(admin, "find red shoes under 500", "search_products"),
        await ended(admin, "create a payment link over 299 TRY", "create_pay_link", "approve"),
        await ended(admin, "create a payment link over 299 TRY", "create_pay_link", "deny"),
    ]
    kinds = []
    for call_id in calls:
        receipt = await receipt_of(admin, call_id)
        kinds.append((receipt["result"]["kind"], len(receipt["votes"]), receipt["permit"] is not None))
        assert (0, PARTS) == verified(receipt, house.data / "keys", tmp_path)
    saved = placet(house, "receipt", "save", calls[1], str(tmp_path / "saved.json"))
    checked = placet(house, "receipt", "verify", str(tmp_path / "saved.json"), "--keys", str(house.data / "keys"))
    shown = placet(house, "receipt", "show", calls[1])
    assert [("succeeded", 0, True), ("succeeded", 1, True), ("denied", 1, False)] == kinds
    assert [0, 0, 0] == [each.returncode for each in (saved, checked, shown)]
    assert ("NO" in checked.stdout, "web_session" in shown.stdout or "api_key" in shown.stdout) == (False, True)


async def test_a_call_that_waits_has_no_receipt(house: Embedded) -> None:
    """What is not over says so, in a problem document and on the page."""
    admin = house.caller()
    visitor = await a_visitor(admin)
    await visitor.say("create a payment link over 299 TRY")
    card = await visitor.see_card()
    answer = await admin.request("GET", f"/v1/tool-calls/{card['call_id']}/receipt")
    page = await admin.request("GET", f"/receipts/{card['call_id']}")
    assert (409, "urn:placet:problem:not-over", 409) == (answer.status_code, answer.json()["type"], page.status_code)
    await admin.decide(card, "deny")


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every field of a JSON value that is no object and no list."""
    if isinstance(value, dict | list) and value:
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, name))
    else:
        yield path


def changed(receipt: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    """Return a receipt with another value at a path."""
    made = deepcopy(receipt)
    place: Any = made
    for name in path[:-1]:
        place = place[name]
    value = place[path[-1]]
    place[path[-1]] = f"{value}x" if isinstance(value, str) else value + 1 if type(value) is int else "x"
    return made


async def test_any_change_of_a_receipt_is_found(house: Embedded) -> None:
    """Each field of it changed alone, taken away alone, or a part of it: the receipt holds no more."""
    admin, keys = house.caller(), public(house)
    receipt = await receipt_of(
        admin, await ended(admin, "create a payment link over 299 TRY", "create_pay_link", "approve")
    )
    paths = list(leaves(receipt))
    unfound = [path for path in paths if all(each.holds for each in verify(changed(receipt, path), keys))]
    without = [{name: value for name, value in receipt.items() if name != gone} for gone in receipt]
    assert ([], True) == (unfound, len(paths) > 100)
    assert [] == [list(each) for each in without if all(found.holds for found in verify(each, keys))]
    assert all(each.holds for each in verify(receipt, keys))


def public(house: Embedded) -> Keys:
    """Return the public keys of a house."""
    return load_keys((house.data / "keys" / "public.json").read_text())


@contextmanager
def changed_row(house: Embedded, table: str, column: str, value: str, where: dict[str, str]) -> Iterator[None]:
    """Let an administrator of the database change a row for a while."""
    names: dict[str, sql.Composable] = {"table": sql.Identifier(*table.split(".")), "column": sql.Identifier(column)}
    names["kind"] = sql.SQL("jsonb" if column == "result" else "text")

    def fits(found: dict[str, str]) -> sql.Composed:
        return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(name), found[name]) for name in found)

    update = sql.SQL("UPDATE {table} SET {column} = CAST(CAST(%s AS text) AS {kind}) WHERE ").format(**names)
    with psycopg.connect(house.database_url, autocommit=True) as connection:
        look = sql.SQL("SELECT CAST({column} AS text) FROM {table} WHERE ").format(**names)
        found = connection.execute(look + fits(where)).fetchone()
        connection.execute(update + fits(where), (value,))
        try:
            yield
        finally:
            connection.execute(update + fits({**where, column: value} if column in where else where), found)


async def test_a_receipt_of_changed_rows_does_not_hold(house: Embedded) -> None:
    """A database's administrator changes what services know of a call: signed or sealed words say otherwise."""
    admin, keys = house.caller(), public(house)
    call_id = await ended(admin, "create a payment link over 299 TRY", "create_pay_link", "approve")
    approval = (await receipt_of(admin, call_id))["approval"]["id"]
    of_call, of_approval = {"call_id": call_id}, {"approval_id": approval}
    for table, column, value, where, part in (
        ("agent.tool_calls", "result", '{"data": {"amount": 1}}', of_call, "result"),
        ("agent.tool_calls", "shown_arguments", '{"amount":1}', of_call, "proposal"),
        ("policy.verdicts", "rule", "another", of_call, "verdict"),
        ("approval.decisions", "person", "person:eve", of_approval, "votes"),
        ("approval.decisions", "proof", "slack", of_approval, "votes"),
        ("approval.decisions", "signed", "", of_approval, "votes"),
        ("approval.decisions", "signed", "no signature", of_approval, "votes"),
        ("approval.approvals", "requester", "person:eve", of_approval, "permit"),
        ("approval.approvals", "call_id", "another", of_approval, "votes"),
        ("policy.verdicts", "effect", "allow", of_call, "verdict"),
        ("policy.verdicts", "call_id", "another", of_call, "verdict"),
        ("approval.approvals", "digest", "0" * 64, of_approval, "permit"),
        ("executor.executions", "pool", "default", of_call, "execution"),
    ):
        with changed_row(house, table, column, value, where):
            found = verify(await receipt_of(admin, call_id), keys)
        assert part in {each.part for each in found if not each.holds}, (table, column)
    with changed_row(house, "approval.history", "actor", "person:eve", {**of_call, "event": "opened"}):
        answer = await admin.request("GET", f"/v1/tool-calls/{call_id}/receipt")
    assert (409, "urn:placet:problem:history-changed") == (answer.status_code, answer.json()["type"])


async def test_a_row_that_only_looks_erased_gives_no_receipt(house: Embedded) -> None:
    """Made to look as an erasure leaves it, to hide who decided: no sealed erasure names it, so nothing is signed."""
    admin = house.caller()
    call_id = await ended(admin, "create a payment link over 299 TRY", "create_pay_link", "approve")
    await receipt_of(admin, call_id)
    hidden = """
        UPDATE approval.history AS h SET actor = 'erased', salt = NULL,
            detail = jsonb_build_object('erased', CAST(r.line AS json) ->> 'said')
        FROM read.history AS r
        WHERE r.service = 'approval' AND r.id = h.id AND h.call_id = %s AND h.event = 'approve'
    """
    with psycopg.connect(house.database_url, autocommit=True) as connection:
        connection.execute(hidden, (call_id,))
    answer = await admin.request("GET", f"/v1/tool-calls/{call_id}/receipt")
    assert (409, "urn:placet:problem:history-changed") == (answer.status_code, answer.json()["type"])


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is fetched by `make setup`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_shows_what_holds(house: Embedded, browser: Browser, scheme: Any, tmp_path: Path) -> None:
    """Eight parts, each verified, a download, no fault that axe-core knows, and nothing cut off on a phone."""
    admin = house.caller()
    call_id = await ended(admin, "create a payment link over 299 TRY", "create_pay_link", "approve")
    await receipt_of(admin, call_id)
    page = await browser.new_page(base_url=admin.url, locale="en-GB", color_scheme=scheme)
    try:
        origin = {"origin": admin.url}
        await page.request.post("/sign-in", form={"key": admin.token}, headers=origin, max_redirects=0)
        await page.goto(f"/receipts/{call_id}")
        await expect(page.get_by_text("verified", exact=True)).to_have_count(len(PARTS))
        assert [] == await faults_of(page)
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download").click()
        saved = tmp_path / "saved.json"
        await (await download.value).save_as(saved)
        assert (0, PARTS) == verified(json.loads(saved.read_text()), house.data / "keys", tmp_path)
        await page.set_viewport_size({"width": 390, "height": 780})
        assert await page.evaluate("document.querySelector('main').scrollWidth") <= 390
    finally:
        await page.close()
