"""A gateway for tests: real PostgreSQL, the in-process bus, real HTTP, and stand-ins for everybody else.

What other services show in schema `read` are plain tables here; `Approvers` plays the approval service.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import sqlalchemy as sa
from httpx_sse import aconnect_sse
from psycopg.types.json import Jsonb
from pydantic import SecretStr

from services.gateway.bootstrap import create_key
from services.gateway.service import GatewayService, build
from services.gateway.settings import GatewaySettings
from services.gateway.tables import ApiKeyRow, ConversationRow, FeedRow, LinkUseRow, SessionRow, SlackSeenRow
from shared.bus import Delivery
from shared.canonical import sha256_hex
from shared.consumer import read_envelope
from shared.database import async_url, metadata, service_tables, table_of
from shared.directory import Directory
from shared.in_process import InProcessBus
from shared.messages import (
    DecideApproval,
    DecisionAnswered,
    DecisionClaims,
    Message,
    ResolveCall,
    RulebookTried,
    ToolCall,
    TryRulebook,
)
from shared.service import runtime_on
from shared.signing import Purpose, create_keys, load_verifier
from shared.topology import destination_of, executor_queue, queue
from shared.trials import CasesReport, CheckReport, Explanation, Report, Simulation
from shared.words import searched
from tests.builders import NOON, a_call, an_approval_rule, an_envelope, an_event
from tests.support.http import http_client

READ = {
    "approvals": "approval_id text, tenant text, conversation_id text, call_id text, turn_id text, tool text,"
    " arguments text, digest text, schema_digest text, revision int, state text, summary text, rule text,"
    " rulebook_digest text, reason text, approvers jsonb, requester text, agent text, language text,"
    " created_at timestamptz, expires_at timestamptz, decided_by text, decision_reason text, answer_kind text,"
    " closed_at timestamptz,"
    " arguments_revision int default 1, edited jsonb, approval_rule jsonb default '{}', steps_done int default 0,"
    " next_step_at timestamptz, claimed_by text, claimed_until timestamptz, delegations jsonb default '[]',"
    " seats jsonb,"
    " paused_at timestamptz, cancel_asked_by text, cancel_asked_at timestamptz, category text, deciders text[],"
    " deciders_digest text, labels jsonb default '{}', arguments_masked bool default false, searched text",
    "decisions": "decision_id text, tenant text, approval_id text, person text, roles jsonb default '[]',"
    " conversation_id text, verb text, reason text, digest text, revision int, proof text, key_id text,"
    " details jsonb default '{}', outcome text, arguments_revision int, counted_revision int, decided_at timestamptz",
    "edits": "edit_id text, tenant text, approval_id text, person text, reason text, state text, base_revision int,"
    " before text, before_digest text, arguments text, digest text, differences jsonb, rulebook_digest text,"
    " refusal text, asked_at timestamptz, judged_at timestamptz",
    "deliveries": "delivery_id text, tenant text, approval_id text, channel text, recipient text,"
    " person text, state text, pending boolean, revision int, sent_revision int, attempt int, error text,"
    " due_at timestamptz, updated_at timestamptz",
    "webhook_events": "event_id text, tenant text, webhook text, type text, state text, attempt int, error text,"
    " due_at timestamptz, created_at timestamptz",
    "tool_calls": "call_id text, tenant text, conversation_id text, turn_id text, message_id text, step int,"
    " position int, tool text, arguments text, digest text, state text, result_kind text, result jsonb,"
    " proposed_at timestamptz, answered_at timestamptz, held text, next_message text",
    "messages": "message_id text, tenant text, conversation_id text, turn_id text, queued boolean",
    "turns": "turn_id text, tenant text, conversation_id text, state text, step int, started_at timestamptz,"
    " ended_at timestamptz, reason text, final_answer jsonb, spoken boolean, written boolean",
    "verdicts": "verdict_id text, call_id text, tenant text, effect text, rule text, reason text,"
    " rulebook_digest text, judged_at timestamptz",
    "activations": "activation_id text, kind text default 'rulebook', digest text, activated_by text,"
    " activated_at timestamptz, diff text",
    "executions": "call_id text, tenant text, conversation_id text, pool text, state text, fence int, worker text,"
    " permit_id text, permit_issuer text, lease_until timestamptz, started_at timestamptz, finished_at timestamptz,"
    " result_kind text, error text, digest text, permit_expires_at timestamptz, resolution text, resolved_by text,"
    " resolution_note text default '', resolved_at timestamptz",
    "grants": "grant_id text, tenant text, approval_id text, owner text, rule text, tool text, scope text,"
    " subject text, arguments text, bounds jsonb, uses int, uses_left int, given_at timestamptz,"
    " expires_at timestamptz, revoked_at timestamptz, revoked_by text, void_at timestamptz,"
    " void_reason text, state text",
    "history": "tenant text, machine text, subject_id text, call_id text, event text, from_state text, to_state text,"
    " actor text, message_id text, at timestamptz, detail jsonb",
    "links": "token_hash text, tenant text, approval_id text, person text, digest text, revision int, code_hash text,"
    " expires_at timestamptz",
    "mails": "mail_id text, tenant text",
    "dead_letters": "dead_letter_id text, tenant text, queue text, service text, reason text, message_id text,"
    " message_type text, body text, state text, received_at timestamptz, resolved_at timestamptz, resolved_by text",
}
"""Stand-ins for the views: name -> columns."""
_WORDS = """
    SELECT DISTINCT tenant, word, state = 'pending' AS is_open, created_at, approval_id
    FROM read.approvals, unnest(string_to_array(trim(searched), ' ')) AS word
"""


def prepare(url: str) -> None:
    """Make the gateway's own tables and the stand-ins."""
    engine = sa.create_engine(async_url(url))
    own = service_tables("gateway")
    tables = [table_of(row) for row in (ApiKeyRow, SessionRow, ConversationRow, FeedRow, LinkUseRow, SlackSeenRow)]
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("gateway"))
        connection.execute(sa.schema.CreateSchema("read"))
        metadata.create_all(connection, tables=[own.inbox, own.outbox, own.history, *tables])
        for name, columns in READ.items():
            connection.execute(sa.text(f"CREATE TABLE read.{name} ({columns})"))
        connection.execute(sa.text(f"CREATE VIEW read.approval_words AS {_WORDS}"))
    engine.dispose()


def insert(url: str, table: str, **values: Any) -> None:
    """Insert one row of a stand-in; objects and lists become jsonb."""
    names = ", ".join(values)
    marks = ", ".join(["%s"] * len(values))
    row = [Jsonb(value) if isinstance(value, dict | list) else value for value in values.values()]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO read.{table} ({names}) VALUES ({marks})", row)  # noqa: S608 - names of ours


def a_delivery_row(delivery_id: str, approval_id: str, **changes: Any) -> dict[str, Any]:
    """Return a row of `read.deliveries` that was given up."""
    row = {
        "delivery_id": delivery_id,
        "tenant": "acme",
        "approval_id": approval_id,
        "channel": "email",
        "recipient": "ada@example.org",
        "person": "ada",
        "state": "given_up",
        "pending": True,
        "revision": 2,
        "sent_revision": 0,
        "attempt": 6,
        "error": "the mailbox is full",
        "due_at": NOON,
        "updated_at": NOON,
    }
    return row | changes


def an_approval_row(call: ToolCall | None = None, **changes: Any) -> dict[str, Any]:
    """Return a row of `read.approvals` that waits."""
    call = call or a_call()
    now = datetime.now(UTC)
    rule = an_approval_rule(**({"approvers": ["requester", "operators"]} | changes.pop("approval_rule", {})))
    row = {
        "approval_id": f"approval-{call.call_id}",
        **call.model_dump(include={"tenant", "conversation_id", "call_id", "turn_id", "tool"}),
        "arguments": call.shown_arguments,
        **call.model_dump(include={"digest", "schema_digest", "requester", "agent", "language"}),
        "revision": 1,
        "state": "pending",
        "summary": "Create a payment link over 299 TRY?",
        "rule": "payments",
        "rulebook_digest": "b" * 64,
        "reason": "Money moves.",
        "approvers": rule.approvers,
        "approval_rule": rule.model_dump(),
        "category": "unsafe_api",
        "deciders": "{" + ",".join(sorted(rule.approvers)) + "}",
        "deciders_digest": sha256_hex({"tool": call.tool, "rule": rule.model_dump(mode="json")}),
        "created_at": now,
        "expires_at": now + timedelta(hours=1),
    }
    row |= changes
    return {"searched": searched(row["summary"])} | row


@dataclass
class Everybody:
    """A directory that a test may change."""

    #: Who is who.
    now: Directory

    def __call__(self) -> Directory:
        """Return who is who now."""
        return self.now


@dataclass
class Approvers:
    """Plays the approval service: decides at once, the first decision wins; `silent` ones never answer."""

    url: str
    keys: Path
    bus: InProcessBus
    silent: bool = False
    outcome: str = ""
    claims: list[DecisionClaims] = field(default_factory=list)
    #: Set by the first decision.
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, delivery: Delivery) -> None:
        """Take decisions and answer them."""
        events, _ = read_envelope(delivery.body)
        for event in events:
            assert isinstance(event.message, DecideApproval)
            claims = load_verifier(self.keys).verify(Purpose.DECISION, event.message.decision)
            self.claims.append(DecisionClaims.model_validate(claims))
            self.heard.set()
            if not self.silent:
                answer = await asyncio.to_thread(self._decide, self.claims[-1], event.message.answer_to)
                body = an_envelope(an_event(answer))
                await self.bus.publish(destination_of(answer), body, message_id="answer", mandatory=False)

    def _decide(self, claims: DecisionClaims, answer_to: str) -> DecisionAnswered:
        state = "approved" if claims.verb == "approve" else "denied"
        sql = "UPDATE read.approvals SET state = %s, decided_by = %s, decision_reason = %s, closed_at = now()"
        where = " WHERE approval_id = %s AND state = 'pending' AND digest = %s"
        values = (state, claims.person, claims.reason, claims.approval_id, claims.digest)
        look = "SELECT state, decided_by, closed_at, digest FROM read.approvals WHERE approval_id = %s"
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = 0 if self.outcome else connection.execute(sql + where, values).rowcount
            now = connection.execute(look, (claims.approval_id,)).fetchone()
        assert now is not None
        lost = "stale" if now[0] == "pending" else "already_decided"
        return DecisionAnswered.model_validate(
            {
                "tenant": claims.tenant,
                "approval_id": claims.approval_id,
                "decision_id": claims.decision_id,
                "answer_to": answer_to,
                "outcome": self.outcome or ("accepted" if done else lost),
                "state": now[0],
                "revision": 1,
                "digest": now[3],
                "decided_by": now[1] or "",
                "decided_at": now[2],
            }
        )


#: What policy says of each kind of trial here.
REPORTS: Mapping[str, Report] = {
    "check": CheckReport(file="rulebook", valid=True),
    "explain": Explanation(
        effect="deny", rule="r", reason="No.", model_reason="", notes=[], tried=[], deciders=[], approval=None
    ),
    "test": CasesReport(passed=0, failed=0, cases=[]),
    "simulate": Simulation(
        rulebook_digest="0" * 64, calls=0, changed=0, renamed=0, granted=0, vetoed=0, complete=True, changes=[]
    ),
}


@dataclass
class Policy:
    """Plays policy where rulebooks are tried: answers with what it was asked; a `silent` one never answers."""

    bus: InProcessBus
    silent: bool = False
    #: What it finds wrong with everything.
    problems: list[dict[str, Any]] = field(default_factory=list)
    asked: list[TryRulebook] = field(default_factory=list)

    async def __call__(self, delivery: Delivery) -> None:
        """Take questions and answer them."""
        for event in read_envelope(delivery.body)[0]:
            asked = event.message
            assert isinstance(asked, TryRulebook)
            self.asked.append(asked)
            if not self.silent:
                place = asked.model_dump(include={"tenant", "trial_id", "answer_to"})
                answer = RulebookTried(**place, report=REPORTS[asked.kind].as_json(), problems=self.problems)
                body = an_envelope(an_event(answer))
                await self.bus.publish(destination_of(answer), body, message_id="answer", mandatory=False)


@dataclass
class House:
    """Running gateways, and what a test does around them."""

    url: str
    bus: InProcessBus
    approvers: Approvers
    policy: Policy
    gateways: list[GatewayService]
    #: The folder of signing keys.
    keys: Path
    #: Everything that reached the queue of audit.
    audited: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    #: Everything that operators wanted of the notifier.
    retried: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    #: Everything that reached policy's queue of grants.
    granted: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    #: What people said of calls of unknown outcome, as it reached the pool `default`.
    words: asyncio.Queue[ResolveCall] = field(default_factory=asyncio.Queue)
    #: Every message that reached the agent.
    posted: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    def key(self, *scopes: str, tenant: str = "acme", person: str = "ada") -> str:
        """Return a new API key."""
        with psycopg.connect(self.url) as connection:
            return create_key(connection, tenant=tenant, person=person, scopes=scopes)

    def client(self, secret: str = "", *, gateway: int = 0) -> httpx.AsyncClient:
        """Return an HTTP client of somebody with a secret, or of nobody."""
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        return http_client(self.gateways[gateway].url, headers=headers, timeout=20)

    async def deliver(self, *messages: Message) -> None:
        """Publish messages in one envelope, as another service would; returns when everybody has them."""
        body = an_envelope(*(an_event(message) for message in messages))
        await self.bus.publish(destination_of(messages[0]), body, message_id="m", mandatory=False)

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    async def take_word(self, delivery: Delivery) -> None:
        """Keep what the pool's executors would get."""
        for event in read_envelope(delivery.body)[0]:
            if isinstance(event.message, ResolveCall):
                self.words.put_nowait(event.message)

    async def take_audited(self, delivery: Delivery) -> None:
        """Note what reached audit."""
        for event in read_envelope(delivery.body)[0]:
            self.audited.put_nowait(event.message)

    async def take_retried(self, delivery: Delivery) -> None:
        """Note what reached the notifier."""
        for event in read_envelope(delivery.body)[0]:
            self.retried.put_nowait(event.message)

    async def take_granted(self, delivery: Delivery) -> None:
        """Note what reached policy about grants."""
        for event in read_envelope(delivery.body)[0]:
            self.granted.put_nowait(event.message)

    async def take_posted(self, delivery: Delivery) -> None:
        """Note what reached the agent."""
        for event in read_envelope(delivery.body)[0]:
            self.posted.put_nowait(event.message)


@asynccontextmanager
async def open_house(
    url: str, folder: Path, *, gateways: int = 1, directory: Callable[[], Directory] = Directory, **settings: Any
) -> AsyncIterator[House]:
    """Run gateways on one bus and one database while the block runs."""
    keys = folder / "keys"
    create_keys(keys)
    bus = InProcessBus()
    made = GatewaySettings(database_url=SecretStr(url), keys=keys, **({"gateway_port": 0} | settings))
    house = House(url, bus, Approvers(url, keys, bus), Policy(bus), [], keys)
    bus.subscribe(queue("approval.decisions"), house.approvers)
    bus.subscribe(queue("policy.trials"), house.policy)
    bus.subscribe(queue("audit.commands"), house.take_audited)
    bus.subscribe(executor_queue("default"), house.take_word)
    bus.subscribe(queue("policy.grants"), house.take_granted)
    bus.subscribe(queue("agent.messages"), house.take_posted)
    bus.subscribe(queue("notifier.commands"), house.take_retried)
    async with AsyncExitStack() as stack:
        for _ in range(gateways):
            service = build(made, runtime_on(made, "gateway", bus), directory)
            service.subscribe()
            house.gateways.append(service)
        await bus.start()
        stack.push_async_callback(bus.stop)
        for service in house.gateways:
            await stack.enter_async_context(service.running(own_bus=False))
        yield house


async def a_conversation(client: httpx.AsyncClient, **options: Any) -> tuple[str, str]:
    """Open a conversation; return its id and its token."""
    made = (await client.post("/v1/conversations", json=options)).raise_for_status().json()
    return made["id"], made["token"]


async def listen(
    client: httpx.AsyncClient,
    path: str,
    enough: Callable[[list[dict[str, Any]]], bool],
    *,
    after: str = "",
    began: asyncio.Event | None = None,
) -> list[dict[str, Any]]:
    """Return the events of a stream, {id, type, data}, as soon as there are enough, or when it ends.

    `began` is set when the stream is open: from then on nothing that happens is missed.
    """
    heard: list[dict[str, Any]] = []
    headers = {"last-event-id": after} if after else {}
    async with asyncio.timeout(20), aconnect_sse(client, "GET", path, headers=headers) as source:
        source.response.raise_for_status()
        if began is not None:
            began.set()
        async for event in source.aiter_sse():
            heard.append({"id": event.id, "type": event.event, "data": json.loads(event.data)})
            if enough(heard):
                break
    return heard
