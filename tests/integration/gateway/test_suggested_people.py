"""Whom pages suggest: the directory is the house's, and tells no other tenant who is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placet.domain.directory import Directory, Person
from tests.integration.gateway.test_inbox_page import signed_in
from tests.support.gateway import open_house
from tests.support.inbox_scene import hold

DIRECTORY = Directory(people={name: Person(name, name.title()) for name in ("ada", "grace", "lin", "zoe")})


def suggested(page: str) -> set[str]:
    """Return the people whom a page offers to choose."""
    return {
        name
        for name, person in DIRECTORY.people.items()
        if re.search(rf'<option value="((person:)?{name}|{person.name})">', page)
    }


@pytest.mark.parametrize("path", ["/admin/history", "/admin/calls", "/inbox/{}"])
async def test_a_tenant_is_suggested_its_own_people_alone(gateway_database_url: str, tmp_path: Path, path: str) -> None:
    """Who has a key of their own there, and whom the page names anyway; the rest of the directory is not told."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as house:
        rule = {"approvers": ["operators"]}
        row = hold(house, "refund", "Refund?", {}, deciders="{person:lin,person:ada}", approval_rule=rule)
        house.key("decide", person="grace")
        house.key("decide", person="zoe", tenant="default")
        async with signed_in(house, "ada", "admin", "decide") as ada:
            # One that she makes for somebody is not theirs yet, whoever signs in with it.
            made = await ada.post("/v1/keys", json={"person": "zoe", "scopes": ["chat"]})
            async with house.client() as browser:
                origin = {"origin": house.gateways[0].url}
                await browser.post("/sign-in", data={"key": made.json()["key"]}, headers=origin)
            page = (await ada.get(path.format(row["approval_id"]))).text
    expected = {"/admin/history": {"ada", "grace"}, "/admin/calls": {"ada", "grace"}}.get(path, {"grace", "lin"})
    assert expected == suggested(page)


async def test_the_house_is_suggested_everybody(gateway_database_url: str, tmp_path: Path) -> None:
    """Its administrators look after the directory."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as house:
        key = house.key("admin", tenant="default", person="ada")
        async with house.client(key) as client:
            page = (await client.get("/admin/history")).text
    assert set(DIRECTORY.people) == suggested(page)
