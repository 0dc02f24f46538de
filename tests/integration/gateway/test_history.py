"""The history in pages and as a file: nothing twice, nothing left out, and nobody else's."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from placet.domain.directory import Directory, Person
from placet.gateway.admin import history_routes
from placet.gateway.admin.limit_routes import LimitPage
from placet.gateway.audit import history
from placet.gateway.audit.history import Stream, load_page, merged
from placet.runtime.database import Database
from tests.integration.gateway.test_inbox_page import signed_in
from tests.support.gateway import House, insert, open_house
from tests.support.inbox_scene import DIRECTORY

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway."""
    rulebook = tmp_path / "rules.yaml"
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY, rulebook=rulebook) as made:
        yield made


@pytest.fixture
async def boss(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """An administrator of acme."""
    async with house.client(house.key("admin")) as made:
        yield made


def change(house: House, number: int, **changes: Any) -> None:
    """Let a service write a change, `number` minutes before NOW."""
    row: dict[str, Any] = {"tenant": "acme", "service": "approval", "machine": "approval", "subject_id": f"a{number}"}
    row |= {"event": "opened", "to_state": "pending", "actor": "policy", "at": NOW - timedelta(minutes=number)}
    row |= {"detail": {}}
    insert(house.url, "history", **row | changes)


async def everything(client: httpx.AsyncClient, **asked: str | int) -> list[str]:
    """Return the subjects of all pages of a list."""
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = asked | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/v1/history", params=query)).json()
        found += [each["subject_id"] for each in page["items"]]
        cursor = page["next"]
    return found


async def test_the_pages_of_all_services_are_one_list(house: House, boss: httpx.AsyncClient) -> None:
    """Each change is on one page, newest first, whichever service made it; another tenant's is on none."""
    services = ("agent", "approval", "policy")
    for number in range(24, -1, -1):
        change(house, number, service=services[number % 3])
    change(house, 0, tenant="other", subject_id="theirs")
    expected = [f"a{number}" for number in range(25)]
    assert [expected, expected] == [await everything(boss, limit=7), await everything(boss, limit=200)]


async def test_changes_are_found_by_what_they_say(house: House, boss: httpx.AsyncClient) -> None:
    """Every filter narrows, and moments are from the first on and before the second."""
    change(house, 30, service="agent", machine="tool_call", call_id="call-1", subject_id="call-1", event="proposed")
    change(house, 20, call_id="call-1")
    change(house, 10, actor="person:ada", event="approve", to_state="approved")
    change(house, 0, machine="grant", service="policy")
    since, until = (NOW - timedelta(minutes=20)).isoformat(), NOW.isoformat()
    assert [["a20", "call-1"], ["a10"], ["a10"], ["a0"], ["call-1"], ["a10"], ["a10", "a20"]] == [
        await everything(boss, call_id="call-1"),
        await everything(boss, actor="person:ada"),
        await everything(boss, event="approve"),
        await everything(boss, machine="grant"),
        await everything(boss, service="agent"),
        await everything(boss, subject_id="a10"),
        await everything(boss, since=since, until=until),
    ]


async def test_what_is_rare_is_found_below_a_page_s_sight(
    house: House, boss: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks through so many rows of each history and says where to look on; the order of time holds."""
    monkeypatch.setattr(history, "LOOKED_AT", 10)
    change(house, 99, actor="person:ada", subject_id="first")
    for number in range(98, 50, -1):
        change(house, number, service="agent" if number % 2 else "approval")
    change(house, 50, service="agent", actor="person:ada", subject_id="second")
    for number in range(49, 0, -1):
        change(house, number)
    page = (await boss.get("/v1/history", params={"actor": "person:ada"})).json()
    assert ([], True) == (page["items"], page["next"] is not None)
    assert ["second", "first"] == await everything(boss, actor="person:ada")


async def test_a_gap_in_the_ids_hides_nothing(house: House, boss: httpx.AsyncClient) -> None:
    """However far ids were moved on, the next page has what is before the gap, and times are found on both sides."""
    change(house, 2)
    with psycopg.connect(house.url, autocommit=True) as connection:
        connection.execute("SELECT setval(pg_get_serial_sequence('read.history', 'id'), %s)", (2**62,))
    change(house, 1)
    change(house, 0)
    first = (await boss.get("/v1/history")).json()
    second = (await boss.get("/v1/history", params={"cursor": first["next"]})).json()
    assert ["a0", "a1", "a2"] == [each["subject_id"] for page in (first, second) for each in page["items"]]
    since = (NOW - timedelta(minutes=1)).isoformat()
    recent = (await boss.get("/v1/history", params={"since": since})).json()
    assert ["a0", "a1"] == [each["subject_id"] for each in recent["items"]]


@pytest.mark.parametrize("narrowed", [{}, {"since": -9}, {"until": 9}, {"since": -9, "until": 9}, {"since": 9}])
async def test_the_largest_id_of_all_is_on_a_page(
    house: House, boss: httpx.AsyncClient, narrowed: dict[str, int]
) -> None:
    """Whoever inserts a row behind all that will ever come hides neither that one nor any other."""
    change(house, 2, service="agent")
    with psycopg.connect(house.url, autocommit=True) as connection:
        connection.execute("SELECT setval(pg_get_serial_sequence('read.history', 'id'), %s)", (2**63 - 2,))
    change(house, 0)
    asked = {name: (NOW + timedelta(hours=hours)).isoformat() for name, hours in narrowed.items()}
    expected = [] if narrowed == {"since": 9} else ["a0", "a2"]
    assert expected == await everything(boss, **asked)
    assert len(expected) == len((await boss.get("/v1/history/export", params=asked)).text.splitlines())
    assert 200 == (await boss.get("/v1/tool-calls", params=asked)).status_code
    shown = [(await boss.get(f"/v1/history/approval-{number}")).status_code for number in (2**63 - 1, 2**63)]
    assert [200, 404] == shown


@pytest.mark.parametrize(
    "query",
    [
        {"cursor": "x"},
        {"cursor": "WzFd"},
        {"since": "2026-01-01T00:00:00"},
        {"service": "nobody"},
        {"actr": "ada"},
        {"event": "\x00"},
        {"limit": "0"},
    ],
)
async def test_what_cannot_be_asked_is_told(boss: httpx.AsyncClient, query: dict[str, str]) -> None:
    """A foreign cursor, a time without a zone and a filter that there is not are a 400, not a longer list."""
    answer = await boss.get("/v1/history", params=query)
    assert (400, "application/problem+json") == (answer.status_code, answer.headers["content-type"])


async def test_only_administrators_read_it(house: House) -> None:
    """Who decides sees no history, one row of it or a file of it."""
    change(house, 1)
    async with house.client(house.key("decide", "chat", "operate")) as ada:
        paths = ("/v1/history", "/v1/history/export", "/v1/history/approval-1", "/v1/limits", "/admin/history")
        assert [403] * len(paths) == [(await ada.get(path)).status_code for path in paths]


async def test_an_export_is_the_whole_list(
    house: House, boss: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON lines and as CSV, over several pages, narrowed like the list; nothing in it is a formula."""
    monkeypatch.setattr(history_routes, "AT_ONCE", 2)
    change(house, 9, actor='=HYPERLINK("x")', event="approve")
    for number in range(4, -1, -1):
        change(house, number, detail={"reason": "why, or not?"})
    lines = await boss.get("/v1/history/export", params={"event": "opened"})
    table = await boss.get("/v1/history/export", params={"format": "csv"})
    rows = list(csv.DictReader(io.StringIO(table.text)))
    told = [json.loads(line) for line in lines.text.splitlines()]
    assert [f"a{number}" for number in range(5)] == [each["subject_id"] for each in told]
    assert ["a0", "a1", "a2", "a3", "a4", "a9"] == [row["subject_id"] for row in rows]
    assert ({"reason": "why, or not?"}, '{"reason":"why, or not?"}') == (told[0]["detail"], rows[0]["detail"])
    assert """'=HYPERLINK("x")""" == rows[-1]["actor"]
    assert 'attachment; filename="history.csv"' == table.headers["content-disposition"]


async def test_an_export_breaks_off_with_its_callers_rights(
    gateway_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who leaves while the first page is read is told no second one, and sees that the file is not whole."""
    now, page = [Directory()], load_page

    async def read_and_leave(*asked: Any) -> Any:
        read = await page(*asked)
        now[0] = Directory(people={"ada": Person("ada", active=False)})
        return read

    monkeypatch.setattr(history_routes, "AT_ONCE", 2)
    monkeypatch.setattr(history, "load_page", read_and_leave)
    kept: dict[str, Any] = {"directory": lambda: now[0], "gateway_heartbeat_seconds": 1e-9}
    async with open_house(gateway_database_url, tmp_path, **kept) as house, house.client(house.key("admin")) as ada:
        for number in range(4, -1, -1):
            change(house, number)
        with pytest.raises(httpx.RemoteProtocolError):
            await ada.get("/v1/history/export")


async def test_one_change_is_shown(house: House, boss: httpx.AsyncClient) -> None:
    """By its service and number; another tenant's, and what there is not, is not found."""
    change(house, 1, detail={"reason": "so"})
    change(house, 2, tenant="other")
    listed = (await boss.get("/v1/history")).json()["items"][0]
    shown = (await boss.get(f"/v1/history/{listed['id']}")).json()
    assert (listed, {"reason": "so"}) == (shown, shown["detail"])
    for name in ("approval-2", "approval-999", "nobody-1", "approval-x", "approval-99999999999999999999"):
        assert 404 == (await boss.get(f"/v1/history/{name}")).status_code


def stream(*minutes: int, floor: int | None = None) -> Stream:
    """Return rows of so many minutes ago; `floor`: how old the row is below which was not looked."""
    rows = [{"id": 100 - minute, "at": NOW - timedelta(minutes=minute)} for minute in minutes]
    return Stream(rows, 101, 1, None if floor is None else NOW - timedelta(minutes=floor))


def test_nothing_is_told_before_what_may_be_newer() -> None:
    """Where a history was not looked through to its end, older rows of others wait for the next page."""
    looked, whole = stream(1, 3, floor=5), stream(2, 4, 6, 8)
    found = merged([looked, whole], 10)
    assert [1, 2, 3, 4] == [(NOW - row["at"]).seconds // 60 for row in found]
    assert (1, 96) == (looked.following, whole.following)


async def test_the_real_view_gives_the_same(database_url: str) -> None:
    """Pages over the histories of all services as they are in PostgreSQL, and times found by halving."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for service in ("agent", "approval", "policy"):
            connection.execute(
                f"INSERT INTO {service}.history (tenant, machine, subject_id, event, to_state, actor, at)"  # noqa: S608 - ours
                " SELECT 'acme', 'm', 's' || n, 'e', 'x', 'a', timestamptz '2026-03-01 12:00Z' + n * interval '1 hour'"
                " FROM generate_series(1, 100) AS n"
            )
    database = Database(database_url, service="gateway")
    try:
        asked = {"tenant": "acme", "since": NOW + timedelta(hours=10), "until": NOW + timedelta(hours=12)}
        async with database.single() as connection:
            rows, following = await load_page(connection, asked, None, 4)
            rest, end = await load_page(connection, asked, following, 4)
    finally:
        await database.close()
    assert (["s11"] * 3 + ["s10"], ["s10"] * 2, None) == (
        [row["subject_id"] for row in rows],
        [row["subject_id"] for row in rest],
        end,
    )


async def test_the_page_filters_and_pages(house: House) -> None:
    """A filter stays in the address of the next page and of the files; days are whole; nonsense is told."""
    for number in range(59, -1, -1):
        change(house, number, call_id="call-1")
    async with signed_in(house, "ada", "admin") as ada:
        page = (await ada.get("/admin/history", params={"machine": "approval", "until": "2026-03-01"})).text
        none = (await ada.get("/admin/history", params={"machine": "grant"})).text
        wrong = await ada.get("/admin/history", params={"since": "never"})
        one = (await ada.get("/admin/history/approval-1")).text
    assert "/v1/history/export?machine=approval&amp;until=2026-03-02T00%3A00%3A00Z&amp;format=csv" in page
    assert "/admin/history?machine=approval&amp;until=2026-03-01&amp;cursor=" in page
    assert ["No matches." in none, "That was not valid." in wrong.text] == [True, True]
    assert (400, True) == (wrong.status_code, "approval-1" in one)


async def test_a_limit_s_room_is_told(house: House, boss: httpx.AsyncClient, tmp_path: Path) -> None:
    """Each counter has what was used of the limits that the rulebook has now, within their windows."""
    (tmp_path / "rules.yaml").write_text(
        "rules: [{name: refunds, limits: [{sum: {argument: amount, at_most: 500}, per: requester, within: 1d},"
        " {sum: {argument: amount, at_most: 50}, per: requester, within: 1h}, {count: 3, per: tenant, within: 1h}]}]"
    )
    counter = {"tenant": "acme", "rule": "refunds", "measure": "sum:amount", "per": "requester"}
    insert(house.url, "limit_counters", counter_id="c1", **counter, subject="person:ada")
    insert(house.url, "limit_counters", counter_id="c2", **counter | {"rule": "gone"}, subject="person:ada")
    insert(house.url, "limit_counters", counter_id="c3", **counter | {"tenant": "other"}, subject="person:eve")
    for amount, hours in ((20.5, 0), (100, 5), (300, 50)):
        at = datetime.now(UTC) - timedelta(hours=hours)
        insert(house.url, "limit_reservations", counter_id="c1", amount=amount, reserved_at=at)
    page = LimitPage.model_validate((await boss.get("/v1/limits")).json())
    found = {
        each.id: [(window.used, window.at_most, window.within_seconds) for window in each.windows]
        for each in page.items
    }
    assert {"c1": [(120.5, 500, 86_400), (20.5, 50, 3_600)], "c2": []} == found
    async with signed_in(house, "ada", "admin") as ada:
        assert "120.5 of 500 in 1 day, 20.5 of 50 in 1 h" in (await ada.get("/admin/limits")).text
