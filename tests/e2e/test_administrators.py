"""What administrators do on the command line of a running installation: stop calls, list them, audit the history."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e.test_embedded import Embedded, placet, running
from tests.support.people import a_visitor
from tests.support.system import until

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet."""
    with running(tmp_path_factory.mktemp("administered")) as made:
        yield made


async def test_calls_are_stopped_and_run_again_by_two_commands(house: Embedded) -> None:
    """A search is refused while its tool is stopped, without the reason, and runs once the stop is lifted."""
    stopped = placet(house, "stop", "--tool", "search_products", "--reason", "an incident")
    listed = json.loads(placet(house, "stop", "list", "--json").stdout)["items"]
    twice = placet(house, "stop", "--tool", "search_products", "--reason", "again")
    nothing = placet(house, "stop", "--reason", "of what?")
    visitor = await a_visitor(house.caller())
    await visitor.say("find red shoes under 500")
    refused = await visitor.see(lambda item: item["type"] == "tool_call" and item["data"]["status"] == "error")
    found = re.search(r"placet resume (\S+)", stopped.stdout)
    lifted = placet(house, "resume", found[1] if found else "", "--reason", "over")
    await visitor.see_answer()
    await visitor.say("find red shoes under 500")
    again = await visitor.see(lambda item: item["type"] == "tool_call" and item["data"]["status"] == "success")
    assert [0, 1, 2, 0] == [each.returncode for each in (stopped, twice, nothing, lifted)]
    assert [("search_products", True)] == [(each["tool"], each["genuine"]) for each in listed]
    told = str(refused["data"])
    assert (True, False) == ("has stopped such calls" in told, "an incident" in told)
    assert "search_products" == again["data"]["tool"]
    calls = json.loads(placet(house, "calls", "list", "--state", "all", "--json").stdout)["items"]
    assert ["succeeded", "refused"] == [each["state"] for each in calls if each["tool"] == "search_products"][:2]


async def test_a_history_that_somebody_changed_is_found(house: Embedded, tmp_path: Path) -> None:
    """The chain of a running installation holds, and no more once a row is changed; an export is verified offline."""
    database, keys = ("--database", house.database_url), ("--keys", str(house.data / "keys"))
    visitor = await a_visitor(house.caller())
    await visitor.say("find red shoes under 500")
    await visitor.see_answer()

    async def is_sealed() -> bool:
        told = placet(house, "audit", "verify", *database, *keys, "--json").stdout
        return bool(json.loads(told)["tenants"].get("default", {"rows": 0})["rows"])

    await until(is_sealed, "the history is sealed")
    whole = placet(house, "audit", "verify", *database, *keys)
    file = tmp_path / "audit.jsonl"
    file.write_text(placet(house, "audit", "export", "--tenant", "default", *database, *keys).stdout)
    offline = placet(house, "audit", "verify", str(file), *keys)
    with psycopg.connect(house.database_url, autocommit=True) as administrator:
        administrator.execute(
            "UPDATE agent.history SET actor = 'person:nobody' WHERE id = (SELECT min(id) FROM agent.history)"
        )
    changed = placet(house, "audit", "verify", "--data", str(house.data))
    after = placet(house, "audit", "verify", str(file), *keys)
    assert [0, 0, 1, 0] == [each.returncode for each in (whole, offline, changed, after)]
    assert "something was changed" in changed.stdout
