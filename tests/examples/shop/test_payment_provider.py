"""The demo payment provider keeps its promise about keys, also over restarts and with several requests at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from shop.provider.app import BODY_BYTES_MAX, PaymentProvider
from shop.provider.links import Links
from shop.provider.server import PaymentServer

ORDER = {"amount": "299.90", "currency": "TRY", "reference": "call-1"}


@asynccontextmanager
async def _provider(data: Path, **given: Any) -> AsyncIterator[httpx.AsyncClient]:
    server = PaymentServer("127.0.0.1", 0, data, **given)
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        yield client
    server.should_exit = True
    await serving


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the provider without a network in between."""
    links = Links(tmp_path / "links.sqlite3")
    transport = httpx.ASGITransport(PaymentProvider(links, public_url="http://pay.example"))
    async with httpx.AsyncClient(base_url="http://pay.example", transport=transport) as client:
        yield client
    links.close()


async def _order(client: httpx.AsyncClient, key: str = "k-1", **changed: Any) -> httpx.Response:
    return await client.post("/v1/links", json={**ORDER, **changed}, headers={"Idempotency-Key": key})


async def test_order_makes_a_link_that_can_be_read_back(client: httpx.AsyncClient) -> None:
    """The answer, the link by id and the links by reference are the same."""
    made = await _order(client)

    link = made.json()
    assert 201 == made.status_code
    assert ("299.90", "TRY", "call-1") == (link["amount"], link["currency"], link["reference"])
    assert link["url"] == str(client.base_url.join(f"/pay/{link['id']}"))
    assert (await client.get(f"/v1/links/{link['id']}")).json() == link
    assert {"items": [link]} == (await client.get("/v1/links", params={"reference": "call-1"})).json()
    assert {"items": []} == (await client.get("/v1/links", params={"reference": "call-2"})).json()


async def test_repeat_gets_the_same_answer_whatever_the_order_of_keys_or_the_way_to_write_the_amount(
    client: httpx.AsyncClient,
) -> None:
    """299.90, 299.9 and "299.900"-free spellings of one amount are one order."""
    made = await _order(client)
    content = '{"reference": "call-1", "currency": "TRY", "amount": 299.9}'
    repeat = await client.post("/v1/links", content=content, headers={"Idempotency-Key": "k-1"})

    assert (201, made.json()) == (repeat.status_code, repeat.json())
    assert (False, "true") == ("idempotent-replayed" in made.headers, repeat.headers["idempotent-replayed"])


@pytest.mark.parametrize("changed", [{"amount": "299.91"}, {"currency": "EUR"}, {"reference": "call-2"}, {"note": "x"}])
async def test_key_that_comes_back_with_another_order_is_refused(
    client: httpx.AsyncClient, changed: dict[str, str]
) -> None:
    """A key means one order for ever."""
    await _order(client)
    refused = await _order(client, **changed)

    assert 422 == refused.status_code
    assert "application/problem+json" == refused.headers["content-type"]
    assert 1 == len((await client.get("/v1/links", params={"reference": "call-1"})).json()["items"])


async def test_same_key_many_times_at_once_makes_one_link(tmp_path: Path) -> None:
    """The file decides, not the timing, also between two providers on one file."""
    async with _provider(tmp_path) as one, _provider(tmp_path) as two:
        answers = await asyncio.gather(*(_order(client) for client in [one, two] * 6))

    assert {201} == {answer.status_code for answer in answers}
    assert 1 == len({answer.json()["id"] for answer in answers})
    assert 1 == sum("idempotent-replayed" not in answer.headers for answer in answers)


async def test_answer_survives_a_restart_and_a_change_of_address(tmp_path: Path) -> None:
    """What was answered once is answered again, down to the address of the page."""
    async with _provider(tmp_path, public_url="https://pay.example/") as client:
        made = (await _order(client)).json()
    async with _provider(tmp_path, public_url="https://moved.example") as client:
        assert (await _order(client)).json() == made
        assert 422 == (await _order(client, amount="1.00")).status_code
    assert f"https://pay.example/pay/{made['id']}" == made["url"]


@pytest.mark.parametrize(
    ("content", "status", "title"),
    [
        ("", 400, "/: Invalid JSON"),
        ("[]", 400, "/: Input should be an object"),
        ('{"currency": "TRY"}', 400, "/amount: Field required"),
        ('{"amount": "0", "currency": "TRY"}', 400, "/amount: Input should be greater than 0"),
        ('{"amount": "1.001", "currency": "TRY"}', 400, "/amount: "),
        ('{"amount": "NaN", "currency": "TRY"}', 400, "/amount: "),
        ('{"amount": "1", "currency": "try"}', 400, "/currency: "),
        ('{"amount": "1", "currency": "TRY", "extra": 1}', 400, "/extra: "),
        ("x" * (BODY_BYTES_MAX + 1), 413, "An order may have at most "),
    ],
)
async def test_order_that_is_none_is_refused_with_its_place(
    client: httpx.AsyncClient, content: str, status: int, title: str
) -> None:
    """The caller learns what is wrong where."""
    answer = await client.post("/v1/links", content=content, headers={"Idempotency-Key": "k-1"})

    assert (status, status) == (answer.status_code, answer.json()["status"])
    assert answer.json()["title"].startswith(title)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": ""}, {"Idempotency-Key": "k" * 256}])
async def test_order_without_a_usable_key_is_refused(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """Without a key a repeat could not be told from a second order."""
    assert 400 == (await client.post("/v1/links", json=ORDER, headers=headers)).status_code


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/v1/links/none", 404),
        ("GET", "/pay/none", 404),
        ("GET", "/v1/links", 400),
        ("DELETE", "/v1/links", 405),
        ("POST", "/pay/none", 405),
        ("GET", "/", 404),
        ("GET", "/v1/links/a/b", 405),
    ],
)
async def test_other_addresses_and_methods_are_answered(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    """Each wrong turn has its status."""
    assert status == (await client.request(method, path)).status_code


async def test_page_shows_the_amount_and_runs_nothing_of_what_was_ordered(client: httpx.AsyncClient) -> None:
    """Text of an order is text on the page."""
    link = (await _order(client, note="<script>alert(1)</script> {amount}")).json()
    page = await client.get(f"/pay/{link['id']}")

    assert "text/html; charset=utf-8" == page.headers["content-type"]
    assert "default-src 'none'" == page.headers["content-security-policy"]
    assert "<h1>299.90 TRY</h1>" in page.text
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt; {amount}</p>" in page.text


@contextmanager
def _process(data: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "shop.provider.server", "--port", "0", "--data", str(data)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "examples")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def _order_from(line: str) -> Any:
    url = line.removeprefix("payment provider ready on ")
    headers = {"Idempotency-Key": "k-1"}
    return httpx.post(f"{url}/v1/links", json=ORDER, headers=headers, trust_env=False).json()


def test_process_says_where_it_listens_and_forgets_nothing_when_killed(tmp_path: Path) -> None:
    """One ready line, and after kill -9 the same key gives the same link."""
    with _process(tmp_path) as (process, line):
        made = _order_from(line)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with _process(tmp_path) as (process, line):
        assert _order_from(line) == made
        process.terminate()
        assert -signal.SIGTERM == process.wait()
