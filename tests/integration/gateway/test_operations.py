"""What operators look at: a call's history, dead letters, health and the documents."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from placet.contracts.messages import ResolveDeadLetter
from placet.contracts.signed import verify_signed
from placet.contracts.signing import create_keys, load_verifier
from placet.gateway.service import build
from placet.gateway.settings import GatewaySettings
from placet.runtime.in_process import InProcessBus
from placet.runtime.service import runtime_on
from tests.builders import a_call, a_posted_message
from tests.support.gateway import House, a_conversation, an_approval_row, insert, listen, open_house

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def a_told_call(house: House, conversation: str = "c", **changes: Any) -> str:
    """Put one call with everything that happened to it into the read views; return its id."""
    call = a_call(conversation_id=conversation)
    of_call = {"call_id": call.call_id, "tenant": "acme"}
    insert(
        house.url,
        "tool_calls",
        **{
            **call.model_dump(include={"turn_id", "message_id", "tool", "arguments", "digest"}),
            **of_call,
            "conversation_id": conversation,
            "step": 1,
            "position": 0,
            "state": "answered",
            "result_kind": "succeeded",
            "result": {"url": "https://pay.example/1"},
            "proposed_at": NOW,
            "answered_at": NOW,
            **changes,
        },
    )
    verdict = {"verdict_id": "v", "effect": "require_approval", "rule": "payments", "reason": "", "judged_at": NOW}
    insert(house.url, "verdicts", **of_call, **verdict, rulebook_digest="b" * 64)
    insert(house.url, "approvals", **an_approval_row(call, state="approved", decided_by="person:ada", closed_at=NOW))
    execution = {"pool": "default", "state": "succeeded", "fence": 1, "result_kind": "succeeded"}
    insert(house.url, "executions", **of_call, **execution, conversation_id=conversation)
    for number, (machine, event) in enumerate([("execution", "succeed"), ("turn", "propose"), ("approval", "approve")]):
        row = {"machine": machine, "subject_id": "s", "event": event, "to_state": "x", "actor": "a", "detail": {}}
        insert(house.url, "history", **of_call, **row, at=NOW + timedelta(seconds=[3, 1, 2][number]))
    return call.call_id


async def test_a_calls_history_is_whole_and_in_order(house: House) -> None:
    """One address tells proposal, verdict, approval, execution and every change, by time."""
    call_id = a_told_call(house)
    async with house.client(house.key("decide")) as client:
        told = (await client.get(f"/v1/tool-calls/{call_id}")).json()
    assert ("success", "succeeded", {"amount": 299, "currency": "TRY"}) == (
        told["status"],
        told["kind"],
        told["arguments"],
    )
    assert ("require_approval", "approved", "succeeded") == (
        told["verdict"]["effect"],
        told["approval"]["state"],
        told["execution"]["state"],
    )
    assert ["propose", "approve", "succeed"] == [row["event"] for row in told["history"]]


async def test_a_call_whose_arguments_are_no_json_is_told_as_it_was_written(house: House) -> None:
    """An invalid call has no argument value; its text is there."""
    text = '{"amount": \\ud800'
    call_id = a_told_call(house, arguments=text, result_kind="invalid")
    async with house.client(house.key("decide")) as client:
        told = (await client.get(f"/v1/tool-calls/{call_id}")).json()
    assert (None, text, "error") == (told["arguments"], told["arguments_text"], told["status"])


@pytest.mark.parametrize(
    ("state", "error", "expected"),
    [
        ("waiting", "", ("success", None, None)),
        ("kept", "", ("success", None, None)),
        ("committed", "", ("success", "committed", None)),
        ("succeeded", "", ("success", "succeeded", None)),
        ("failed", "The disk is full.", ("error", "failed", "The disk is full.")),
        ("discarded", "", ("error", "discarded", None)),
        ("unknown", "", ("error", "unknown", None)),
    ],
)
async def test_what_became_of_a_staged_call_is_told(
    house: House, state: str, error: str, expected: tuple[str, str | None, str | None]
) -> None:
    """Its result stays that it was staged; its end is beside it, and the status follows the end."""
    call_id = a_told_call(house, result_kind="staged")
    place = {"tenant": "acme", "conversation_id": "c", "workspace_id": "w"}
    insert(house.url, "workspace_entries", **place, call_id=call_id, state=state, error=error)
    async with house.client(house.key("decide")) as client:
        told = (await client.get(f"/v1/tool-calls/{call_id}")).json()
    assert ("staged", *expected) == tuple(told[name] for name in ("kind", "status", "outcome", "outcome_error"))


async def test_a_call_is_told_within_its_tenant_and_conversation(house: House) -> None:
    """A9: for another tenant, or the token of another conversation, the call does not exist."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
        _, other = await a_conversation(client)
    call_id = a_told_call(house, conversation)
    codes = []
    for secret in (token, other, house.key("decide", tenant="rival")):
        async with house.client(secret) as somebody:
            codes.append((await somebody.get(f"/v1/tool-calls/{call_id}")).status_code)
    assert [200, 404, 404] == codes


@pytest.mark.parametrize("scope", ["chat", "admin"])
async def test_a_calls_history_is_for_those_who_may_see_its_approval(house: House, scope: str) -> None:
    """The history holds the approval: a key that is refused the one is refused the other."""
    call_id = a_told_call(house)
    async with house.client(house.key(scope)) as somebody:
        paths = [f"/v1/tool-calls/{call_id}", f"/v1/approvals/approval-{call_id}"]
        assert [403, 403] == [(await somebody.get(path)).status_code for path in paths]


async def test_an_administrator_resolves_an_unknown_outcome(house: House) -> None:
    """The word goes, signed, to the pool that ran the call, with who said it."""
    call_id = a_told_call(house)
    known = {"tenant": "acme", "conversation_id": "c", "agent": "default", "language": "en", "labels": {}}
    insert(house.url, "conversations", **known)
    with psycopg.connect(house.url, autocommit=True) as connection:
        connection.execute("UPDATE read.executions SET state = 'unknown', result_kind = 'unknown'")
    async with house.client(house.key("admin", person="grace")) as admin:
        body = {"outcome": "did_not_run", "note": "no such order"}
        answer = await admin.post(f"/v1/tool-calls/{call_id}/resolution", json=body)
        word = await asyncio.wait_for(house.words.get(), 10)
    with psycopg.connect(house.url) as connection:
        noted = connection.execute("SELECT relayed_by FROM gateway.conversations").fetchall()
    # The model reads the note, so they may have asked for what comes.
    assert [("~person:grace",)] == noted
    assert (202, f"/v1/tool-calls/{call_id}") == (answer.status_code, answer.headers["location"])
    assert (call_id, "default", "did_not_run", "no such order", "person:grace") == (
        word.call_id,
        word.pool,
        word.outcome,
        word.note,
        word.by,
    )
    ((now,),) = house.query("SELECT clock_timestamp()")
    verify_signed(load_verifier(house.keys), word, restored_at=now - timedelta(seconds=60))


@pytest.mark.parametrize(("mode", "listed"), [("staged_call", 1), ("commit", 0)])
async def test_of_a_commit_the_staged_calls_alone_are_of_unknown_outcome(house: House, mode: str, listed: int) -> None:
    """Whoever says what became of them has no second question about the commit itself."""
    a_told_call(house)
    with psycopg.connect(house.url, autocommit=True) as connection:
        connection.execute("UPDATE read.executions SET state = 'unknown', mode = %s", (mode,))
    async with house.client(house.key("admin")) as admin:
        found = (await admin.get("/v1/tool-calls", params={"state": "unknown"})).json()
    assert listed == len(found["items"])


@pytest.mark.parametrize(
    ("scope", "tenant", "code"), [("admin", "acme", 409), ("decide", "acme", 403), ("admin", "rival", 404)]
)
async def test_only_an_unknown_outcome_is_resolved_and_only_by_administrators(
    house: House, scope: str, tenant: str, code: int
) -> None:
    """A9, and no talking over what an executor saw."""
    call_id = a_told_call(house)
    async with house.client(house.key(scope, tenant=tenant)) as somebody:
        answer = await somebody.post(f"/v1/tool-calls/{call_id}/resolution", json={"outcome": "ran"})
    assert code == answer.status_code


def a_letter(house: House, **changes: Any) -> str:
    """Put a dead letter into the read view; return its id."""
    values = {
        "dead_letter_id": f"letter-{changes.pop('number', 0)}",
        "tenant": "acme",
        "queue": "executor.default",
        "service": "executor",
        "reason": "security: replayed permit",
        "message_id": "m",
        "message_type": "placet.tool-call.permitted.v1",
        "body": "[{}]",
        "state": "open",
        "received_at": NOW,
    } | changes
    insert(house.url, "dead_letters", **values)
    return str(values["dead_letter_id"])


@pytest.mark.parametrize("action", ["replay", "discard"])
async def test_a_dead_letter_is_resolved_by_an_administrator(house: House, action: str) -> None:
    """The wish goes to dead_letters with who had it."""
    letter = a_letter(house)
    async with house.client(house.key("admin", person="grace")) as admin:
        shown = (await admin.get(f"/v1/dead-letters/{letter}")).json()
        answer = await admin.post(f"/v1/dead-letters/{letter}/{action}")
        told = await asyncio.wait_for(house.dead_lettered.get(), 10)
    assert ("[{}]", 202) == (shown["body"], answer.status_code)
    expected = ResolveDeadLetter(tenant="acme", dead_letter_id=letter, action=action, by="person:grace")
    assert expected == told


async def test_a_resolved_dead_letter_says_so(house: House) -> None:
    """A second administrator learns who was first."""
    letter = a_letter(house, state="discarded", resolved_by="person:ada", resolved_at=NOW)
    async with house.client(house.key("admin")) as admin:
        answer = await admin.post(f"/v1/dead-letters/{letter}/replay")
    assert (409, "discarded", "person:ada") == (
        answer.status_code,
        answer.json()["state"],
        answer.json()["resolved_by"],
    )


@pytest.mark.parametrize(
    "body", ["(7 bytes that are no JSON; the table dead_letters.dead_letters has them)", "[]", "[1]"]
)
async def test_a_dead_letter_without_events_can_only_be_discarded(house: House, body: str) -> None:
    """Whoever would replay it is told at once, and dead_letters hears of the discard only."""
    letter = a_letter(house, body=body)
    async with house.client(house.key("admin", person="grace")) as admin:
        replayed = await admin.post(f"/v1/dead-letters/{letter}/replay")
        discarded = await admin.post(f"/v1/dead-letters/{letter}/discard")
        told = await asyncio.wait_for(house.dead_lettered.get(), 10)
    told_at_once = (replayed.status_code, replayed.json()["title"])
    assert (409, "This dead letter cannot be replayed.", 202) == (*told_at_once, discarded.status_code)
    expected = ResolveDeadLetter(tenant="acme", dead_letter_id=letter, action="discard", by="person:grace")
    assert ([expected], True) == ([told], house.dead_lettered.empty())


async def test_dead_letters_are_paged_and_belong_to_a_tenant(house: House) -> None:
    """A9: pages show each letter of the tenant once; others have none and resolve none."""
    letters = [a_letter(house, number=number) for number in range(5)]
    async with house.client(house.key("admin")) as admin:
        first = (await admin.get("/v1/dead-letters?state=open&limit=3")).json()
        second = (await admin.get(f"/v1/dead-letters?state=open&limit=3&cursor={first['next']}")).json()
    async with house.client(house.key("admin", tenant="rival")) as rival:
        theirs = (await rival.get("/v1/dead-letters")).json()["items"]
        stolen = (await rival.post(f"/v1/dead-letters/{letters[0]}/discard")).status_code
    seen = [item["id"] for item in first["items"] + second["items"]]
    assert (sorted(letters), None, [], 404) == (sorted(seen), second["next"], theirs, stolen)


@pytest.mark.parametrize("scope", ["chat", "decide"])
async def test_dead_letters_are_for_administrators(house: House, scope: str) -> None:
    """Letters hold what messages hold: other scopes do not see them."""
    letter = a_letter(house)
    async with house.client(house.key(scope)) as somebody:
        paths = ["/v1/dead-letters", f"/v1/dead-letters/{letter}"]
        assert [403, 403] == [(await somebody.get(path)).status_code for path in paths]


async def test_health_and_documents_need_no_key(house: House) -> None:
    """Probes and both documents answer everybody; metrics do where the settings say so."""
    async with house.client() as nobody:
        paths = ["/healthz", "/readyz", "/openapi.json", "/asyncapi.json", "/metrics"]
        answers = [await nobody.get(path) for path in paths]
    assert [200, 200, 200, 200, 404] == [answer.status_code for answer in answers]
    assert "placet_http_requests_total" not in answers[4].text
    assert ("Placet", "3.0.0") == (answers[2].json()["info"]["title"], answers[3].json()["asyncapi"])


async def test_probes_may_ask_without_a_body(house: House) -> None:
    """HEAD answers as GET does, without the words; the page sends strangers to sign in."""
    async with house.client() as nobody:
        paths = ("/healthz", "/readyz", "/metrics", "/")
        answers = [await nobody.head(path) for path in paths]
        pages = [await nobody.get(path) for path in paths]
    assert [b""] * 4 == [each.content for each in answers]
    assert [(each.status_code, each.headers["content-type"]) for each in pages] == [
        (each.status_code, each.headers["content-type"]) for each in answers
    ]


async def test_a_method_that_is_not_allowed_is_told_those_that_are(house: House) -> None:
    """All of the path's, whichever route they belong to."""
    async with house.client(house.key("chat")) as client:
        answers = [await client.delete(path) for path in ("/v1/conversations", "/v1/conversations/c/events")]
    assert [(405, "GET, POST"), (405, "GET")] == [(each.status_code, each.headers["allow"]) for each in answers]


async def test_metrics_count_routes_and_not_addresses(gateway_database_url: str, tmp_path: Path) -> None:
    """Ids and unknown paths never become labels."""
    settings: dict[str, Any] = {"gateway_metrics": True}
    async with (
        open_house(gateway_database_url, tmp_path, **settings) as house,
        house.client(house.key("chat")) as client,
    ):
        await client.get("/v1/conversations/some-id-of-mine")
        await client.get("/nowhere-in-particular")
        text = (await client.get("/metrics")).text
    assert 'route="/v1/conversations/{conversation_id}"' in text
    assert (False, False) == ("some-id-of-mine" in text, "nowhere-in-particular" in text)


async def test_a_gateway_that_stops_lets_its_streams_end_well(gateway_database_url: str, tmp_path: Path) -> None:
    """A stream that is open when the gateway stops ends as a stream ends, not as a broken connection."""
    heard = asyncio.Event()

    def enough(_: list[dict[str, Any]]) -> bool:
        heard.set()
        return False

    async with AsyncExitStack() as clients:
        async with open_house(gateway_database_url, tmp_path) as house:
            await house.deliver(a_posted_message(conversation_id="acme_c"))
            client = await clients.enter_async_context(house.client(house.key("chat")))
            listening = asyncio.create_task(listen(client, "/v1/conversations/c/events", enough))
            await heard.wait()
        assert ["message"] == [event["type"] for event in await listening]


async def test_a_gateway_waits_for_its_database_and_says_so(
    gateway_database_url: str, postgres_url: str, tmp_path: Path
) -> None:
    """Started without a database it answers, is not ready, and becomes ready by itself when the database comes."""
    name = urlsplit(gateway_database_url).path.removeprefix("/")
    switch = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    create_keys(tmp_path)
    settings = GatewaySettings(database_url=SecretStr(gateway_database_url), keys=tmp_path, gateway_port=0)
    service = build(settings, runtime_on(settings, "gateway", InProcessBus()))
    ready, over = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with service.running():
            ready.set()
            await over.wait()

    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(switch.format(sql.Identifier(name), sql.Literal(False)))  # noqa: FBT003
        running = asyncio.create_task(run())
        await service.listens()
        async with httpx.AsyncClient(base_url=service.url, timeout=20) as client:
            waiting = [(await client.get(path)).status_code for path in ("/healthz", "/readyz")]
            admin.execute(switch.format(sql.Identifier(name), sql.Literal(True)))  # noqa: FBT003
            await ready.wait()
            working = [(await client.get(path)).status_code for path in ("/healthz", "/readyz")]
        over.set()
        await running
    assert ([200, 503], [200, 200]) == (waiting, working)


async def test_chat_widgets_of_named_origins_may_call(gateway_database_url: str, tmp_path: Path) -> None:
    """A browser on an origin from the settings may read answers; one on another may not."""
    widget = "https://shop.example"
    async with (
        open_house(gateway_database_url, tmp_path, gateway_allowed_origins=[widget]) as house,
        house.client(house.key("chat")) as client,
    ):
        allowed = {}
        for origin in (widget, "https://evil.example"):
            answer = await client.post("/v1/conversations", headers={"origin": origin})
            allowed[origin] = answer.headers.get("access-control-allow-origin")
    assert {widget: widget, "https://evil.example": None} == allowed


async def test_clients_of_named_origins_may_send_headers_of_their_own(
    gateway_database_url: str, tmp_path: Path
) -> None:
    """The OpenAI library marks its attempts, names conversations and reads when to come back, in a browser too."""
    widget = "https://shop.example"
    sends = "authorization,content-type,idempotency-key,placet-conversation,x-stainless-retry-count"
    asks = {"origin": widget, "access-control-request-method": "POST", "access-control-request-headers": sends}
    async with (
        open_house(gateway_database_url, tmp_path, gateway_allowed_origins=[widget]) as house,
        house.client(house.key("chat")) as client,
    ):
        before = await client.options("/v1/chat/completions", headers=asks)
        answer = await client.post("/v1/chat/completions", content="", headers={"origin": widget})
    assert (200, sends) == (before.status_code, before.headers["access-control-allow-headers"])
    assert {"placet-conversation", "retry-after"} <= set(answer.headers["access-control-expose-headers"].split(", "))
