"""What somebody may send to the gateway before it is known who that is: next to nothing, at any door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from pydantic import SecretStr
from starlette.routing import Route

from placet.gateway.app import BODY_BYTES_MAX, FORM_BYTES_MAX
from tests.support.gateway import House, open_house, prepare
from tests.support.mailed_links import a_link, waiting
from tests.support.postgres import Databases
from tests.support.slack_people import SIGNING_SECRET
from tests.support.slack_server import BOT_TOKEN, TEAM

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """One gateway with every door that there is."""
    slack: dict[str, Any] = {"slack_bot_token": SecretStr(BOT_TOKEN), "slack_team": TEAM, "slack_tenant": "acme"}
    slack |= {"slack_signing_secret": SecretStr(SIGNING_SECRET)}
    with databases.fresh(prepare) as url:
        async with open_house(url, tmp_path_factory.mktemp("house"), **slack) as made:
            yield made


async def answered(house: House, method: str, path: str, head: str, body: bytes = b"") -> int:
    """Return the status that nobody known is answered after a head and a part of a body."""
    where = urlsplit(house.gateways[0].url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"{method} {path} HTTP/1.1\r\nhost: here\r\n{head}\r\n".encode() + body)
    async with asyncio.timeout(20):
        line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def test_nobody_sends_a_large_body(house: House) -> None:
    """Every route answers nobody before the body comes, or wants a small one only."""
    head = f"content-type: application/json\r\ncontent-length: {BODY_BYTES_MAX}\r\n"
    found = {}
    routes = [each for each in house.gateways[0].app.routes if isinstance(each, Route)]
    for route in routes:
        for method in route.methods or ():
            path = route.path.format_map(dict.fromkeys(route.param_convertors, "x"))
            found[f"{method} {route.path}"] = await answered(house, method, path, head)
    assert {"POST /sign-in", "POST /l/{token}", "POST /slack/events", "POST /v1/mail/bounces"} <= found.keys()
    assert {} == {route: status for route, status in found.items() if status >= 500}


@pytest.mark.parametrize("form", FORM_BYTES_MAX)
async def test_forms_that_nobody_known_sends_are_small(house: House, form: str) -> None:
    """A link may be old, and a key none: a form has what it takes to vote or to sign in, and not what a body has."""
    path = f"/l/{a_link(house.url, waiting(house))}" if form == "/l/" else form
    head = "origin: http://here\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    declared = await answered(house, "POST", path, f"{head}content-length: {FORM_BYTES_MAX[form] + 1}\r\n")
    size = FORM_BYTES_MAX[form] + 1
    chunk = b"%x\r\n" % (2 * size) + b"a" * size
    streamed = await answered(house, "POST", path, f"{head}transfer-encoding: chunked\r\n", chunk)
    assert (413, 413) == (declared, streamed)
