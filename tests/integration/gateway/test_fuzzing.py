"""What the OpenAPI document promises is kept for requests nobody thought of: no 500, only documented answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.gateway import House, an_approval_row, insert, open_house, prepare
from tests.support.postgres import Databases

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("message/rfc822")
def as_a_mail(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """Return a body as the bytes of a mail, whatever it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def fuzzed(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A gateway on a thread of its own: its address, and a key with every scope."""
    ready, stop, found = Event(), Event(), []

    async def serve(url: str) -> None:
        async with AsyncExitStack() as stack:
            folder: Path = tmp_path_factory.mktemp("fuzzed")
            house: House = await stack.enter_async_context(
                open_house(url, folder, gateway_answer_seconds=0.05, gateway_heartbeat_seconds=0.05)
            )
            insert(url, "approvals", **an_approval_row())
            found.append((house.gateways[0].url, house.key("chat", "decide", "admin")))
            ready.set()
            await asyncio.to_thread(stop.wait)

    with databases.fresh(prepare) as url:
        thread = Thread(target=asyncio.run, args=(serve(url),))
        thread.start()
        assert ready.wait(30)
        yield found[0]
        stop.set()
        thread.join()


def test_the_document_is_kept(fuzzed: tuple[str, str]) -> None:
    """Whatever is sent to whichever route, the answer is one that the document names, in the form it names."""
    url, key = fuzzed
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    # An event stream has no end for a client to wait for, and a poll a late one; their inputs are tested by hand.
    found = schema.exclude(path_regex=r"/(events|feed)$|^/api/chat|^/agui|^/v1/(chat|responses)").get_all_operations()
    routes = [route.ok() for route in found if isinstance(route, Ok)]
    assert len(routes) >= 18
    for route in routes:

        @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=route.as_strategy())
        def keeps(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(headers={"authorization": f"Bearer {key}"}, checks=CHECKS)

        keeps()
