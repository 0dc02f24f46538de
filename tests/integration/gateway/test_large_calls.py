"""Calls of very many values: no page grows with them, and each leads to all of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.contracts.canonical import canonical_text
from placet.domain.directory import Directory, Person
from placet.surfaces.card import ROWS_MAX
from placet.surfaces.plan import ENTRY_ROWS_MAX
from tests.integration.gateway.test_inbox_page import signed_in
from tests.support.approval_builders import Counted
from tests.support.gateway import House, open_house
from tests.support.inbox_scene import DIRECTORY, hold
from tests.support.mailed_links import a_link
from tests.support.staged_scene import CONVERSATION, a_staged_call, propose, stage
from tests.support.turns import turns_of_others

pytestmark = pytest.mark.timeout(180)

#: Calls on one page.
CALLS = 5


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people and groups."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as made:
        yield made


@pytest.fixture
async def browser(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which ada is signed in."""
    async with signed_in(house, "ada") as made:
        yield made


def deep() -> Any:
    """Return two thousand values, each below thirty steps."""
    value: Any = [0] * 2_000
    for step in range(28):
        value = {f"step{step}": value}
    return value


SHAPES = {
    "tiny": {"all": [0] * 30_000},
    "many names": {f"key{number}": number for number in range(4_000)},
    "deep": deep(),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("path", ["/inbox", "/ui/approvals"])
async def test_cards_of_very_many_values_draw_so_many_and_say_so(
    house: House, browser: httpx.AsyncClient, shape: str, path: str
) -> None:
    """Five cards of 60 kB kept the gateway busy for three seconds; each has a way to all of its values."""
    rows = [hold(house, "pay", "Pay them all?", SHAPES[shape]) for _ in range(CALLS)]
    page = (await browser.get(path)).text
    drawn = [each.split("</dl>")[0].count("<dt>") for each in page.split('<dl class="arguments">')[1:]]
    assert [ROWS_MAX] * CALLS == drawn
    assert CALLS == sum(f'href="/inbox/{row["approval_id"]}#all-values"' in page for row in rows)
    assert (CALLS, True) == (page.count("more values"), len(page) < CALLS * 80_000)
    # Of calls that differ in what is not drawn nobody says that they are the same, and none is chosen with others.
    assert (0, 0) == (page.count("identical calls"), page.count('form="batch"'))


@pytest.mark.parametrize("shape", SHAPES)
async def test_own_page_of_a_call_has_all_of_its_values(house: House, browser: httpx.AsyncClient, shape: str) -> None:
    """As the JSON text that runs, beside the rows; and no other part of the page has a row for each."""
    terms = {"edits": True, "approvers": ["operators"]}
    row = hold(house, "pay", "Pay them all?", SHAPES[shape], approval_rule=terms)
    page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    whole = canonical_text(SHAPES[shape]).replace('"', "&#34;")
    assert [True, True] == [each in page for each in ('id="all-values"', f'<pre tabindex="0">{whole}</pre>')]
    assert page.count("<tr") <= ROWS_MAX
    assert page.count("<label") <= ROWS_MAX


async def test_mailed_link_has_all_values_of_a_call_too(house: House) -> None:
    """Who is not signed in has nowhere else to look."""
    row = hold(house, "pay", "Pay them all?", SHAPES["tiny"], approval_rule={"approvers": ["operators"]})
    async with house.client() as nobody:
        page = (await nobody.get(f"/l/{a_link(house.url, row)}")).text
    whole = canonical_text(SHAPES["tiny"]).replace('"', "&#34;")
    assert [True, ROWS_MAX] == [f'<pre tabindex="0">{whole}</pre>' in page, page.count("<dt>")]


async def test_staged_call_of_very_many_values_leads_to_all_of_them(house: House, browser: httpx.AsyncClient) -> None:
    """A plan draws so many of each call, and says where the others are."""
    arguments = {"all": [0] * 10_000}
    await house.append(CONVERSATION)
    calls = stage(house, [a_staged_call("refund", "Refund them all", arguments)])
    row = propose(house, calls)
    page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    address = f"/ui/conversations/{CONVERSATION}/entries/{calls[0]}/arguments"
    assert [True, True] == [f'href="{address}"' in page, "… and 9960 more values" in page]
    assert (ENTRY_ROWS_MAX, json.dumps(arguments)) == (
        page.split('<dl class="arguments">')[1].split("</dl>")[0].count("<dd>"),
        (await browser.get(address)).text.split('<pre tabindex="0">')[1].split("</pre>")[0].replace("&#34;", '"'),
    )
    assert 404 == (await browser.get(address.replace(calls[0], "unknown"))).status_code


@pytest.mark.parametrize(
    ("path", "turns"), [("/v1/approvals", 3 * 20), ("/v1/approvals?mine=true", 3 + 3 * 20), ("/inbox", 3 + 3 * 20)]
)
async def test_others_are_served_while_many_are_asked_about_large_calls(
    gateway_database_url: str, tmp_path: Path, path: str, turns: int
) -> None:
    """Whoever looks at a list asks about themselves and about everybody who is named, one condition in a turn."""
    people = Counted({f"p{number}": Person(f"p{number}") for number in range(20)})
    directory = Directory(people=people, groups={"staff": frozenset(people)})
    rule = {"approvers": ["group:staff"], "approvals": 20, "condition": "call.arguments.rows.size() > 5"}
    async with open_house(gateway_database_url, tmp_path, directory=lambda: directory) as house:
        for _ in range(3):
            hold(house, "pay", "Pay?", {"rows": [1] * 5_000}, approval_rule=rule, approvers=["group:staff"])
        async with house.client(house.key("decide", person="p7")) as client:
            async with turns_of_others(lambda: people.looked_up) as seen:
                answer = await client.get(path)
            assert (200, True) == (answer.status_code, turns <= len(seen))
