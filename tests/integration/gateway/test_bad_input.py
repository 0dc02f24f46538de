"""Bad input and hard times: every error is a problem document that says what to do and nothing about our insides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from placet.gateway.app import HISTORY_BYTES_MAX
from placet.gateway.http.errors import FAULTS_MAX
from placet.gateway.http.strict import COOKIE_BYTES_MAX, TYPE_BYTES_MAX
from tests.support.gateway import House, a_conversation, an_approval_row, insert, open_house, prepare
from tests.support.postgres import Databases

CONVERSATIONS = "/v1/conversations"
JSON = "application/json"


TOO_LARGE = {
    "type": "urn:placet:problem:too-large",
    "title": "A request body has at most 262144 bytes.",
    "status": 413,
}


def told(answer: httpx.Response) -> tuple[int, str]:
    """Return status and media type, with the form of the document checked."""
    problem = answer.json()
    assert answer.status_code == problem["status"]
    assert {"type", "title"} <= problem.keys()
    assert "Traceback" not in answer.text
    return answer.status_code, answer.headers["content-type"]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """One gateway for all that is refused: nothing of it leaves a trace."""
    with databases.fresh(prepare) as url:
        async with open_house(url, tmp_path_factory.mktemp("house")) as made:
            yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody with every scope."""
    async with house.client(house.key("chat", "decide", "admin")) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/conversations/unknown", 404),
        ("GET", "/v1/conversations/unknown/events", 404),
        ("GET", "/v1/conversations/%00", 404),
        ("GET", "/v1/conversations/" + "x" * 65, 404),
        ("GET", "/v1/approvals/unknown", 404),
        ("GET", "/v1/tool-calls/unknown", 404),
        ("GET", "/v1/dead-letters/unknown", 404),
        ("POST", "/v1/dead-letters/unknown/replay", 404),
        ("DELETE", "/v1/keys/unknown", 404),
        ("DELETE", "/v1/conversations/unknown", 405),
        ("PUT", "/v1/keys", 405),
        ("GET", "/v1/approvals?limit=0", 400),
        ("GET", "/v1/approvals?limit=many", 400),
        ("GET", "/v1/approvals?stat=pending", 400),
        ("GET", "/v1/approvals?state=pending&state=denied", 400),
        ("GET", "/v1/approvals/unknown?state=pending", 400),
        ("GET", "/v1/grants?owner=ada", 400),
        ("POST", "/v1/conversations/unknown/end", 404),
        ("GET", "/v1/approvals?state=pend%00ing", 400),
        ("GET", "/v1/approvals?cursor=nonsense", 400),
        ("GET", "/v1/approvals?cursor=WyIyMDI2LTAxLTAxIiwieCJd", 400),
        # A moment before the year 1 of UTC.
        ("GET", "/v1/approvals?cursor=WyIwMDAxLTAxLTAxVDAwOjAwOjAwKzIzOjU5IiwiYSJd", 400),
        ("GET", "/v1/approvals?opened_after=0001-01-01T00:00:00%2B23:59", 400),
        ("GET", "/v1/tool-calls?until=9999-12-31T23:59:59-23:59", 400),
        ("GET", "/v1/dead-letters?state=lost", 400),
        ("GET", "/v1/deliveries?state=asleep", 400),
        ("POST", "/v1/deliveries/unknown/retry", 404),
        ("GET", "/static/nothing.css", 404),
    ],
)
async def test_what_does_not_exist_or_make_sense_is_a_problem(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    """Routing, ids, queries and cursors fail alike, as problem documents."""
    assert (status, "application/problem+json") == told(await client.request(method, path))


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"{", "#"),
        (b'{"text": "a", "text": "b"}', "#"),
        (b'{"text": NaN}', "#"),
        (b"[" * 100_000, "#"),
        (b"\xff\xfe", "#"),
        (b"[]", "#"),
        (b"null", "#"),
        (b"{}", "#/text"),
        (b'{"text": ""}', "#/text"),
        (b'{"text": " \\n\\t"}', "#/text"),
        (b'{"text": 7}', "#/text"),
        (b'{"text": "a\\u0000b"}', "#/text"),
        (b'{"text": "\\ud800"}', "#"),
        (b'{"text": "a", "message_id": "no spaces"}', "#/message_id"),
        (b'{"text": "a", "message_id": "line\\n"}', "#/message_id"),
        (b'{"text": "a", "sudo/~": true}', "#/sudo~1~0"),
    ],
)
async def test_a_malformed_body_is_refused_with_a_pointer(client: httpx.AsyncClient, body: bytes, pointer: str) -> None:
    """400 says where: not JSON, read differently by two readers, or not what is asked for."""
    conversation, _ = await a_conversation(client)
    headers = {"content-type": "application/json"}
    answer = await client.post(f"{CONVERSATIONS}/{conversation}/messages", content=body, headers=headers)
    assert ((400, "application/problem+json"), [pointer]) == (
        told(answer),
        [fault["pointer"] for fault in answer.json()["errors"]],
    )


@pytest.mark.parametrize(
    ("asked", "language", "title"),
    [
        ("", "en", "The request is not valid."),
        ("de-AT,de;q=0.9,en;q=0.1", "de", "Die Anfrage ist ungültig."),
        ("tr", "tr", "İstek geçersiz."),
        ("fi, *;q=0.1", "en", "The request is not valid."),
    ],
)
async def test_a_problem_is_told_in_the_language_that_is_asked_for(
    client: httpx.AsyncClient, asked: str, language: str, title: str
) -> None:
    """Its title is translated and says into what; its type never changes."""
    answer = await client.post(CONVERSATIONS, content=b"[]", headers={"accept-language": asked, "content-type": JSON})
    problem = answer.json()
    assert (400, language, title) == (answer.status_code, answer.headers["content-language"], problem["title"])
    assert problem["type"] == "urn:placet:problem:invalid-request"


async def test_what_is_wrong_is_told_in_that_language_too(client: httpx.AsyncClient) -> None:
    """What the framework finds and what we do; in English both are as they were."""
    german, body = {"accept-language": "de", "content-type": JSON}, b'{"language":7}'
    wrong = [(await client.post(CONVERSATIONS, content=body, headers=german)).json()["errors"][0]]
    wrong += (await client.get("/v1/approvals?limit=0", headers=german)).json()["errors"]
    wrong += (await client.get("/v1/approvals?colour=red", headers=german)).json()["errors"]
    wrong += (await client.get("/v1/approvals?sort=worst", headers=german)).json()["errors"]
    orders = "'newest', 'oldest', 'deadline', 'risk', 'amount'"
    expected = ["soll ein Text sein", "soll mindestens 1 sein", "unbekannter Parameter"]
    expected += [f"soll eines hiervon sein: {orders}"]
    assert expected == [each["detail"] for each in wrong]
    other = await client.post(
        CONVERSATIONS, content=b"a=b", headers={"accept-language": "de", "content-type": "text/x"}
    )
    assert (415, "Der Inhalt") == (other.status_code, other.json()["detail"][:10])


async def test_a_title_without_a_translation_says_that_it_is_english(client: httpx.AsyncClient) -> None:
    """What no catalogue has is told in English, and nothing claims to be German."""
    answer = await client.get("/v1/nowhere", headers={"accept-language": "de"})
    assert ("en", "Not Found") == (answer.headers["content-language"], answer.json()["title"])


@pytest.mark.parametrize(
    "body",
    [
        {"agent": "no spaces"},
        {"language": "english"},
        {"labels": {"a": 1}},
        {"labels": {"a": "\x00"}},
        {"labels": {str(number): "x" for number in range(33)}},
        {"visitor": "person:ada"},
        {"visitor": "operators"},
        {"visitor": "requester"},
        {"visitor": ""},
    ],
)
async def test_a_conversation_that_makes_no_sense_is_not_opened(
    client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    """Nobody is opened for under a name that approval rules use for somebody else."""
    assert 400 == (await client.post(CONVERSATIONS, json=body)).status_code


async def test_a_conversation_needs_no_body(client: httpx.AsyncClient) -> None:
    """Everything about a conversation has a default."""
    assert 201 == (await client.post(CONVERSATIONS)).status_code


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_must_say_that_it_is_json(client: httpx.AsyncClient, kind: str) -> None:
    """What a foreign page's form can send is 415."""
    answer = await client.post(CONVERSATIONS, content=b"{}", headers={"content-type": kind})
    assert (415, "application/problem+json") == told(answer)


async def test_no_form_of_several_parts_is_read(client: httpx.AsyncClient) -> None:
    """It may name any codec for its texts: by one of 250 kB a stranger kept the gateway busy for half a minute."""
    kind = "multipart/form-data; boundary=b; charset=punycode"
    answer = await client.post("/sign-in", content=b"--b--", headers={"content-type": kind})
    assert (415, "application/problem+json") == told(answer)


@pytest.mark.parametrize(
    ("header", "begin", "most", "status"),
    [("content-type", "application/json; ", TYPE_BYTES_MAX, 415), ("cookie", "other=", COOKIE_BYTES_MAX, 431)],
)
async def test_what_is_split_has_a_bound(
    client: httpx.AsyncClient, header: str, begin: str, most: int, status: int
) -> None:
    """A byte more in a header that is split into its parts is refused, and what is no longer passes."""
    answers = [
        await client.post(CONVERSATIONS, content=b"{}", headers=headers)
        for length in (most, most + 1)
        for headers in [{"content-type": "application/json"} | {header: begin.ljust(length, "x")}]
    ]
    assert (201, (status, "application/problem+json")) == (answers[0].status_code, told(answers[1]))


async def test_an_oversized_text_is_refused(client: httpx.AsyncClient) -> None:
    """One character more than a message may have is 413; the largest message passes."""
    conversation, _ = await a_conversation(client)
    path = f"{CONVERSATIONS}/{conversation}/messages"
    largest = await client.post(path, json={"text": "ü" * 32_000})
    larger = await client.post(path, json={"text": "ü" * 32_001})
    assert (202, (413, "application/problem+json")) == (largest.status_code, told(larger))


async def test_an_oversized_body_is_refused_before_it_is_read(client: httpx.AsyncClient) -> None:
    """A declared size over the limit is 413 at once."""
    headers = {"content-type": "application/json"}
    answer = await client.post(CONVERSATIONS, content=b" " * (256 * 1024 + 1), headers=headers)
    assert ((413, "application/problem+json"), TOO_LARGE) == (told(answer), answer.json())


@pytest.mark.parametrize("path", HISTORY_BYTES_MAX)
async def test_a_whole_history_may_be_larger(house: House, client: httpx.AsyncClient, path: str) -> None:
    """Clients post all that was said with every message: it is read up to a bound of its own."""
    large = json.dumps({"unknown": "x" * 4_000_000})
    answer = await client.post(path, content=large, headers={"content-type": "application/json"})
    too_large = await refused_by_size(house, path, str(HISTORY_BYTES_MAX[path] + 1))
    assert ((400, "application/problem+json"), 413) == (told(answer), too_large)


async def refused_by_size(house: House, path: str, size: str) -> int:
    """Return the status that a body of so many bytes is answered with before any of it comes."""
    where = urlsplit(house.gateways[0].url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {size}\r\n\r\n".encode())
    async with asyncio.timeout(20):
        line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.parametrize(("size", "status"), [("0" * 5_000, 404), ("9" * 5_000, 400)])
async def test_a_size_of_thousands_of_digits_is_a_number(house: House, size: str, status: int) -> None:
    """Zeros before it are none of it, and a body without an end is refused."""
    assert status == await refused_by_size(house, "/nowhere", size)


async def test_an_oversized_body_is_refused_while_it_streams(client: httpx.AsyncClient) -> None:
    """A body that hides its size is 413 as soon as it is too large."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 16_384

    headers = {"content-type": "application/json"}
    answer = await client.post(CONVERSATIONS, content=endless(), headers=headers)
    assert ((413, "application/problem+json"), TOO_LARGE) == (told(answer), answer.json())


@pytest.mark.parametrize(
    "header",
    ["", "Basic YTpi", "Bearer", "Bearer nonsense", "Bearer placet_0123456789abcdef_" + "x" * 43, "Bearer \xe9"],
)
async def test_a_wrong_proof_is_nobody(house: House, header: str) -> None:
    """401 asks for a bearer and does not say what was wrong."""
    headers = httpx.Headers({"authorization": header} if header else {}, encoding="latin-1")
    async with house.client() as nobody:
        answer = await nobody.get("/v1/approvals", headers=headers)
    assert ((401, "application/problem+json"), 'Bearer realm="placet"') == (
        told(answer),
        answer.headers["www-authenticate"],
    )


@pytest.mark.parametrize(
    "body",
    [
        {"decision": "maybe", "digest": "0" * 64},
        {"decision": "approve"},
        {"decision": "approve", "digest": "X"},
        {"decision": "approve", "digest": "0" * 64, "revision": 2**40},
        {"decision": "approve", "digest": "0" * 64, "confirmed": True},
    ],
)
async def test_a_decision_that_makes_no_sense_is_refused(
    house: House, client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    """A decision names what it is and what was seen; nothing is sent otherwise."""
    row = an_approval_row()
    insert(house.url, "approvals", **row)
    answer = await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json=body)
    assert ((400, "application/problem+json"), []) == (told(answer), house.approvers.claims)


async def test_an_oversized_reason_is_refused(house: House, client: httpx.AsyncClient) -> None:
    """A reason is a sentence or two, not a book."""
    row = an_approval_row()
    insert(house.url, "approvals", **row)
    body = {"decision": "deny", "digest": row["digest"], "reason": "x" * 2001}
    answer = await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json=body)
    assert (413, "application/problem+json") == told(answer)


async def test_answers_carry_the_browser_rules(house: House) -> None:
    """No answer may be framed, sniffed, cached, or run anything from elsewhere or inline."""
    async with house.client() as nobody:
        for path in ("/healthz", "/sign-in", "/nowhere", "/v1/approvals"):
            headers = (await nobody.get(path)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
            assert ("unsafe-inline" in policy, headers["x-content-type-options"]) == (False, "nosniff")


async def test_a_missing_database_is_told_and_recovered_from(
    fresh_database: Callable[..., str], postgres_url: str, tmp_path: Path
) -> None:
    """While the database is away answers are 503 with a time to come back, readiness is false; then all is well."""
    url = fresh_database(prepare)
    name = urlsplit(url).path.removeprefix("/")
    switch = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    async with open_house(url, tmp_path) as house:
        key = house.key("chat")
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(switch.format(sql.Identifier(name), sql.Literal(False)))  # noqa: FBT003
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            async with house.client(key) as client:
                away = await client.post(CONVERSATIONS, json={})
                unready = await client.get("/readyz")
                alive = await client.get("/healthz")
                admin.execute(switch.format(sql.Identifier(name), sql.Literal(True)))  # noqa: FBT003
                back = await client.post(CONVERSATIONS, json={})
                ready = await client.get("/readyz")
    assert ((503, "application/problem+json"), "2") == (told(away), away.headers["retry-after"])
    assert [503, 200, 201, 200] == [each.status_code for each in (unready, alive, back, ready)]


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/approvals/a/decisions", "/v1/keys"])
async def test_nothing_is_parsed_for_somebody_who_is_not_known(house: House, path: str) -> None:
    """401 before a byte of the body is read, whatever it is."""
    async with house.client() as nobody:
        answer = await nobody.post(path, content=b"{" * 1000, headers={"content-type": "text/plain"})
    assert 401 == answer.status_code


async def test_a_pointer_names_nothing_of_our_insides(client: httpx.AsyncClient) -> None:
    """Where a value may have several forms, the place is that of the value in the body."""
    answer = await client.post("/v1/responses", json={"model": "default", "input": "a\x00b"})
    assert (400, {"#/input"}) == (answer.status_code, {fault["pointer"] for fault in answer.json()["errors"]})


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"revision": True}, "#/revision"),
        ({"revision": "1"}, "#/revision"),
        ({"seconds": "60"}, "#/seconds"),
        ({"seconds": True}, "#/seconds"),
        ({"seconds": 60.5}, "#/seconds"),
        ({"allow_from_now_on": {"uses": True}}, "#/allow_from_now_on/uses"),
        ({"allow_from_now_on": {"expires_after_seconds": "60"}}, "#/allow_from_now_on/expires_after_seconds"),
    ],
)
async def test_a_number_of_a_decision_is_a_number(client: httpx.AsyncClient, more: dict[str, Any], place: str) -> None:
    """JSON has numbers: neither a truth value nor a text is taken for one."""
    body = {"decision": "claim", "digest": "0" * 64, **more}
    answer = await client.post("/v1/approvals/any/decisions", json=body)
    assert (400, [place]) == (answer.status_code, [fault["pointer"] for fault in answer.json()["errors"]])


async def test_no_more_faults_are_named_than_anybody_reads(client: httpx.AsyncClient) -> None:
    """A body of a hundred unknown fields gets no answer that is many times as long."""
    answer = await client.post("/v1/conversations", json={f"field{number}": 1 for number in range(100)})
    assert (400, FAULTS_MAX) == (answer.status_code, len(answer.json()["errors"]))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/conversations", {f"field{number}": 1 for number in range(10_000)}),
        ("/v1/conversations", {"labels": {f"field{number}": 1 for number in range(10_000)}}),
        ("/v1/jobs", {"task": "x", "outputs": [0] * 10_000}),
    ],
)
async def test_a_body_that_is_wrong_all_over_is_told_so_in_a_line(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    """To describe each of ten thousand faults keeps everybody waiting, and nobody reads it."""
    answer = await client.post(path, json=body)
    fault = {"detail": "more than 200 things are wrong with it", "pointer": "#"}
    assert (400, [fault]) == (answer.status_code, answer.json()["errors"])


async def test_a_field_of_another_verb_is_named(client: httpx.AsyncClient) -> None:
    """Who approves with new arguments means to edit: the old ones are not approved."""
    body = {"decision": "approve", "digest": "0" * 64, "arguments": {"amount": 1}}
    answer = await client.post("/v1/approvals/any/decisions", json=body)
    fault = {"detail": "'arguments' goes with 'edit', not with 'approve'", "pointer": "#/arguments"}
    assert (400, [fault]) == (answer.status_code, answer.json()["errors"])


async def test_a_text_that_is_too_long_is_told_in_characters(client: httpx.AsyncClient) -> None:
    """A text has no items."""
    body = {"decision": "deny", "digest": "0" * 64, "reason": "a" * 2001}
    answer = await client.post("/v1/approvals/any/decisions", json=body)
    fault = {"detail": "should have at most 2000 characters", "pointer": "#/reason"}
    assert (413, [fault]) == (answer.status_code, answer.json()["errors"])


@pytest.mark.parametrize(("path", "body"), [("/v1/jobs", {"task": ""}), ("/v1/conversations/c/messages", {"text": ""})])
async def test_an_empty_text_is_told_as_one(client: httpx.AsyncClient, path: str, body: dict[str, str]) -> None:
    """It has no items, and nothing is said of validation."""
    answer = await client.post(path, json=body)
    assert (400, ["must say something"]) == (answer.status_code, [each["detail"] for each in answer.json()["errors"]])


async def test_a_parameter_that_does_not_exist_is_named(client: httpx.AsyncClient) -> None:
    """A misspelt filter would else list everything, and a doubled one half of what was asked."""
    answer = await client.get("/v1/approvals", params=[("stat", "pending"), ("tool", "a"), ("tool", "b")])
    faults = [("stat", "unknown parameter"), ("tool", "given more than once")]
    assert faults == [(fault["parameter"], fault["detail"]) for fault in answer.json()["errors"]]


async def test_every_list_and_page_of_the_api_names_a_parameter_it_does_not_have(client: httpx.AsyncClient) -> None:
    """What one route refuses, no other may let through in silence."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    readable = [path for path in paths if path.startswith("/v1/") and "get" in paths[path]]
    told = {path: (await client.get(path, params={"surprise": 1})).json().get("errors") for path in readable}
    expected = [{"detail": "unknown parameter", "parameter": "surprise"}]
    assert dict.fromkeys(readable, expected) == told
    assert len(readable) > 15
