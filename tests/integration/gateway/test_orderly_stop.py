"""A gateway that is told to stop: who is being answered is answered, and nobody reads of an outage."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from structlog.testing import capture_logs

from tests.support.agents import wait_for_a_blocked_statement
from tests.support.gateway import House, open_house
from tests.support.system import until

COMPLETION = {"model": "default", "messages": [{"role": "user", "content": "Hello"}]}
BODY = json.dumps({"agent": "default"}).encode()


async def test_a_request_that_was_begun_is_answered_as_ever(gateway_database_url: str, tmp_path: Path) -> None:
    """Database and broker stay until the last one has its answer; the log has no outage."""
    running = AsyncExitStack()
    house = await running.enter_async_context(open_house(gateway_database_url, tmp_path))
    gateway, key = house.gateways[0], house.key("chat")
    server, place = gateway._servers[0], urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"POST /v1/conversations HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n".encode())

    async def begun() -> bool:
        return bool(server.server_state.tasks)

    async def refuses() -> bool:
        return not any(each.is_serving() for each in server.servers)

    await until(begun, "the request is read")
    with capture_logs() as logs:
        stopping = asyncio.create_task(running.aclose())
        await until(refuses, "nobody else is let in")
        writer.write(BODY)
        answer = await reader.read()
        await stopping
        writer.close()
        await writer.wait_closed()
    assert b"201" == answer.split(b" ", 2)[1], answer
    assert [] == [line for line in logs if line["log_level"] not in {"debug", "info"}]


async def test_a_request_that_outlasts_the_stop_is_told_of_it(
    gateway_database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its database does not answer: when waiting ends, its client, a page elsewhere, reads a 503, and no traceback."""
    running = AsyncExitStack()
    widget = "https://shop.example"
    house = await running.enter_async_context(
        open_house(gateway_database_url, tmp_path, gateway_allowed_origins=[widget])
    )
    key, server = house.key("chat"), house.gateways[0]._servers[0]
    server.config.timeout_graceful_shutdown = 1
    with psycopg.connect(gateway_database_url) as other:
        other.execute("LOCK TABLE gateway.conversations")
        async with house.client(key) as client:
            asked = asyncio.create_task(
                client.post("/v1/chat/completions", json=COMPLETION, headers={"origin": widget})
            )
            await asyncio.to_thread(wait_for_a_blocked_statement, gateway_database_url)
            stopping = asyncio.create_task(running.aclose())
            answer = await asked
        other.rollback()
        await stopping
    told = answer.json()
    assert (503, "urn:placet:problem:unavailable") == (answer.status_code, told["type"])
    assert ("unavailable", "2") == (told["error"]["code"], answer.headers["retry-after"])
    assert widget == answer.headers["access-control-allow-origin"]
    assert [] == [record.getMessage() for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(("language", "title"), [("en", "This server is stopping; try again."), ("de", "")])
async def test_whoever_comes_too_late_is_told_of_the_stop(house: House, language: str, title: str) -> None:
    """Another instance answers, or this one after its start: a 503 with a time to come back, and no outage."""
    key = house.key("chat")
    with capture_logs() as logs:
        async with house.client(key) as client:
            await house.gateways[0].runtime.database.close()
            answer = await client.post("/v1/conversations", json={}, headers={"accept-language": language})
    told = answer.json()
    assert (503, "urn:placet:problem:unavailable") == (answer.status_code, told["type"])
    assert told["title"] == (title or "Dieser Server wird gerade beendet; versuchen Sie es noch einmal.")
    assert [] == [line["event"] for line in logs if line["event"] == "database.away"]
