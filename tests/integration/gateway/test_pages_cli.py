"""Lists of the command line come in pages, and each says where the next one begins."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
import typer
from typer.testing import CliRunner, Result

from placet.cli import approvals
from placet.cli.administration import dead_letters, deliveries, webhooks
from tests.builders import NOON
from tests.support.gateway import House, a_delivery_row, an_approval_row, insert

LISTS = {"approvals": approvals.app, "deliveries": deliveries.app, "letters": dead_letters.app, "events": webhooks.app}

#: Ids in each list, the oldest first.
ROWS = ("row-1", "row-2", "row-3")


@pytest.fixture
def many(house: House) -> None:
    """Fill each list."""
    for number, name in enumerate(ROWS):
        at = NOON + timedelta(seconds=number)
        insert(house.url, "approvals", **an_approval_row(approval_id=name, created_at=at))
        insert(house.url, "deliveries", **a_delivery_row(name, name, updated_at=at))
        insert(house.url, "dead_letters", **a_letter(name, received_at=at))
        insert(house.url, "webhook_events", **an_event(name, created_at=at))


def a_letter(name: str, **changes: object) -> dict[str, object]:
    """Return a row of `read.dead_letters` that is open."""
    texts = {"queue": "policy.calls", "service": "policy", "reason": "no", "message_id": name, "message_type": "t"}
    return {"dead_letter_id": name, "tenant": "acme", "state": "open", "body": "{}"} | texts | changes


def an_event(name: str, **changes: object) -> dict[str, object]:
    """Return a row of `read.webhook_events` that was given up."""
    texts = {"webhook": "crm", "type": "opened", "state": "given_up", "error": "gone"}
    return {"event_id": name, "tenant": "acme", "attempt": 6, "due_at": NOON} | texts | changes


async def listed(house: House, app: typer.Typer, *arguments: str) -> Result:
    """Run a command's `list` as an administrator, beside the gateway."""
    environment = {"PLACET_URL": house.gateways[0].url, "PLACET_KEY": house.key("admin", "decide", person="ada")}
    return await asyncio.to_thread(CliRunner().invoke, app, ["list", *arguments], env=environment)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("name", LISTS)
async def test_list_that_goes_on_says_where(house: House, name: str) -> None:
    """The line has the option that shows the rest; the last page has no such line."""
    app = LISTS[name]
    first = await listed(house, app, "--limit", "2")
    *rows, more = first.stdout.splitlines()
    rest = await listed(house, app, *more.removeprefix("more: ").split())
    pages = [[row for row in ROWS if row in text] for text in ("".join(rows), rest.stdout)]
    assert ([["row-2", "row-3"], ["row-1"]], False) == (pages, "more:" in rest.stdout)
