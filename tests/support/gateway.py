"""A gateway for tests: real PostgreSQL, the in-process bus, real HTTP, and stand-ins for everybody else.

What other services show in schema `read` are plain tables here; `Approvers` plays the approval service.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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

from placet.contracts.canonical import sha256_hex
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    ConsentAnswered,
    ConversationEnded,
    ConversationItems,
    DecideApproval,
    DecisionAnswered,
    DecisionClaims,
    HolderChanged,
    Message,
    MessagePosted,
    OperatorSpoke,
    ResolveCall,
    RulebookTried,
    ShownCall,
    ToolCall,
    ToolCallFinished,
    ToolCallProgressed,
    TryRulebook,
)
from placet.contracts.signing import Purpose, create_keys, load_verifier
from placet.contracts.topology import destination_of, executor_queue, queue
from placet.domain.directory import Directory
from placet.domain.trials import CasesReport, CheckReport, Explanation, Report, Simulation
from placet.domain.words import searched_card
from placet.gateway.audit.store import ORDER
from placet.gateway.identity.bootstrap import create_key
from placet.gateway.service import GatewayService, build
from placet.gateway.settings import GatewaySettings
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope
from placet.runtime.database import async_url
from placet.runtime.in_process import InProcessBus
from placet.runtime.service import runtime_on
from tests.builders import NOON, a_call, an_approval_rule, an_envelope, an_event
from tests.support.house import create_tables
from tests.support.http import http_client

#: Has the house restored, after all that waits was asked.
RESTORED = "INSERT INTO gateway.restores (restored_at, backup_at) VALUES (now() + interval '1 minute', now())"

READ = {
    "approvals": "approval_id text, tenant text, conversation_id text, call_id text, turn_id text, tool text,"
    " arguments text, digest text, schema_digest text, revision int, state text, summary text, rule text,"
    " rulebook_digest text, reason text, approvers jsonb, requester text, agent text, language text,"
    " created_at timestamptz, expires_at timestamptz, decided_by text, decision_reason text, answer_kind text,"
    " closed_at timestamptz,"
    " arguments_revision int default 1, edited jsonb, approval_rule jsonb default '{}', steps_done int default 0,"
    " next_step_at timestamptz, claimed_by text, claimed_until timestamptz, delegations jsonb default '[]',"
    " seats jsonb, closed_to jsonb default '{}', voters jsonb default '{}',"
    " cancel_asked_by text, cancel_asked_at timestamptz, category text, deciders text[],"
    " deciders_digest text, labels jsonb default '{}', arguments_masked bool default false, searched text,"
    " origins jsonb",
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
    "turns": "turn_id text, tenant text, requester text",
    "messages": "message_id text, tenant text, conversation_id text, text text, UNIQUE (conversation_id, message_id)",
    "log": "tenant text, conversation_id text, seq int, type text, at timestamptz default clock_timestamp(),"
    " data jsonb, PRIMARY KEY (conversation_id, seq)",
    "conversations": "conversation_id text PRIMARY KEY, tenant text, agent text, language text, labels jsonb,"
    " created_at timestamptz default now(), ended_at timestamptz, turn_id text, job_id text",
    "verdicts": "verdict_id text, call_id text, tenant text, effect text, rule text, reason text,"
    " rulebook_digest text, judged_at timestamptz",
    "activations": "activation_id text, kind text default 'rulebook', digest text, activated_by text,"
    " activated_at timestamptz, diff text",
    "executions": "call_id text, tenant text, conversation_id text, pool text, state text, mode text, fence int,"
    " worker text, permit_id text, permit_issuer text, lease_until timestamptz, started_at timestamptz,"
    " finished_at timestamptz, result_kind text, error text, digest text, permit_expires_at timestamptz,"
    " resolution text, resolved_by text, resolution_note text default '', resolution_signed text default '',"
    " resolved_at timestamptz",
    "grants": "grant_id text, tenant text, approval_id text, owner text, rule text, tool text, scope text,"
    " subject text, arguments text, bounds jsonb, uses int, uses_left int, given_at timestamptz,"
    " expires_at timestamptz, revoked_at timestamptz, revoked_by text, void_at timestamptz,"
    " void_reason text, state text",
    "limit_counters": "counter_id text, tenant text, rule text, measure text, per text, subject text,"
    " touched_at timestamptz default now()",
    "limit_reservations": "counter_id text, amount numeric, reserved_at timestamptz default now()",
    "history": "tenant text, machine text, subject_id text, call_id text, event text, from_state text, to_state text,"
    " actor text, message_id text, at timestamptz, detail jsonb, service text default 'gateway',"
    " id bigint generated always as identity, line text default '{}'",
    "links": "token_hash text, tenant text, approval_id text, person text, digest text, revision int, code_hash text,"
    " expires_at timestamptz, recipient text",
    "mails": "mail_id text, tenant text",
    "slack_cards": "tenant text, approval_id text, channel text, ts text",
    "workspaces": "workspace_id text, tenant text, conversation_id text, number int default 1, agent text"
    " default 'default', state text, commit_call_id text, entries int, waiting int, bytes bigint default 0,"
    " opened_at timestamptz default now(), expires_at timestamptz default now() + interval '1 day',"
    " ended_at timestamptz, ended_by text default '', reason text default ''",
    "workspace_entries": "call_id text, workspace_id text, tenant text, conversation_id text, position int, tool text,"
    " pool text default 'default', kind text, digest text, keys text[], summary text, decide text default 'turn',"
    " on_failure text default 'stop', state text default 'waiting', commit_call_id text, error text default '',"
    " staged_at timestamptz default now(), ended_at timestamptz, shown_arguments text,"
    " requester text default 'v77'",
    "workspace_changes": "call_id text, ordinal int default 0, workspace_id text, tenant text, conversation_id text,"
    " position int, pack text, key text, kind text, base_digest text, base_size int, base_mode int, after_digest text,"
    ' after_size int, after_mode int, summary text, "binary" bool default false, added int default 0,'
    " removed int default 0, diff text default '', cut bool default false",
    "staged_entries": "call_id text, tenant text, conversation_id text, workspace_id text, position int,"
    " commit_id text",
    "jobs": "job_id text, tenant text, agent text, author text, state text, changes text, entries int, spec jsonb,"
    " tasks int, decided int,"
    ' active int, attempts int, running int, flagged int, agreed int, "cast" int, tokens bigint, cost float8,'
    " unpriced bool, reason text, result jsonb, log_seq int, created_at timestamptz, ended_at timestamptz",
    "job_tasks": "job_id text, tenant text, number int, task_id text, text text, state text, needs text[],"
    " produces text[], group_number int, k int, votes jsonb, drawn int, drawn_before int, running int, answer jsonb,"
    " reason text",
    "job_attempts": "attempt_id text, job_id text, tenant text, number int, attempt int, conversation_id text,"
    " state text, vote_key text, answer jsonb, tree_digest text, flags text[], reason text, input_tokens int,"
    " output_tokens int, cost float8, calls int, asked_again int, begun_at timestamptz, ended_at timestamptz",
    "job_log": "job_id text, seq int, tenant text, type text, at timestamptz, data jsonb",
    "dead_letters": "dead_letter_id text, tenant text, queue text, service text, reason text, message_id text,"
    " message_type text, body text, state text, received_at timestamptz, resolved_at timestamptz, resolved_by text",
}
"""Stand-ins for the views: name -> columns."""
_HISTORY_IDS = f"""
    SELECT service, coalesce((SELECT max(id) FROM read.history), 0) AS last FROM unnest(ARRAY{[*ORDER]}) AS service
"""  # noqa: S608 - ours
_WORDS = """
    SELECT DISTINCT tenant, word, state = 'pending' AS is_open, created_at, approval_id
    FROM read.approvals, unnest(array_remove(string_to_array(trim(searched), ' ') || ARRAY[
        'requester=' || requester, 'rule=' || rule, 'decided_by=' || decided_by], NULL)) AS word
"""


def prepare(url: str) -> None:
    """Make the gateway's own tables and the stand-ins."""
    create_tables("gateway")(url)
    engine = sa.create_engine(async_url(url))
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("read"))
        for name, columns in READ.items():
            connection.execute(sa.text(f"CREATE TABLE read.{name} ({columns})"))
        connection.execute(sa.text(f"CREATE VIEW read.approval_words AS {_WORDS}"))
        connection.execute(sa.text(f"CREATE VIEW read.history_ids AS {_HISTORY_IDS}"))
    engine.dispose()


def insert(url: str, table: str, **values: Any) -> None:
    """Insert one row of a stand-in; objects and lists become jsonb."""
    names = ", ".join(f'"{name}"' for name in values)
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
        "deciders_digest": sha256_hex({"tool": call.tool, "agent": call.agent, "rule": rule.model_dump(mode="json")}),
        "closed_to": {call.requester: None} if "requester" in rule.exclude else {},
        "created_at": now,
        "expires_at": now + timedelta(hours=1),
    }
    row |= changes
    return {"searched": searched_card(row["summary"], row["arguments"])} | row


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
    #: Held by a test, it keeps what was heard from being answered.
    answering: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, delivery: Delivery) -> None:
        """Take decisions and answer them."""
        events, _ = read_envelope(delivery.body)
        for event in events:
            assert isinstance(event.message, DecideApproval)
            claims = load_verifier(self.keys).verify(Purpose.DECISION, event.message.decision)
            self.claims.append(DecisionClaims.model_validate(claims))
            self.heard.set()
            if not self.silent:
                async with self.answering:
                    answer = await asyncio.to_thread(self._decide, self.claims[-1], event.message.answer_to)
                body = an_envelope(an_event(answer))
                await self.bus.publish(destination_of(answer), body, message_id="answer", mandatory=False)

    def _decide(self, claims: DecisionClaims, answer_to: str) -> DecisionAnswered:
        state = "denied" if claims.verb == "deny" else "approved"
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


def items_of(message: Message) -> list[tuple[str, dict[str, Any]]]:  # noqa: C901, PLR0911 - one case for each type
    """Return the items, type and data, that the agent appends for what people do in a conversation."""
    match message:
        case MessagePosted():
            told = message.model_dump(include={"message_id", "text", "author"})
            taken = {"taken_as": message.taken_as.model_dump()} if message.taken_as else {}
            return [("message", {"role": "user", **told, **taken})]
        case OperatorSpoke():
            author = {"kind": "operator", "id": message.operator}
            told = message.model_dump(include={"message_id", "text"})
            return [("message", {"role": "operator", **told, "author": author})]
        case HolderChanged():
            told = message.model_dump(include={"event", "operator", "revision", "text"})
            return [("holder", {"state": message.holder, **told})]
        case ConversationEnded():
            return [("conversation", {"state": "ended", "by": message.by})]
        case ConsentAnswered():
            told = message.model_dump(include={"message_id", "outcome", "detail", "state"})
            return [("decision", {**message.taken_as.model_dump(), **told})]
        case ApprovalOpened(call=call):
            return [tool_call(call, "pending_confirmation"), ("approval", card_of(message))]
        case ApprovalProgressed():
            fields = {"approval_id", "call_id", "revision", "kind", "note", "person", "expires_at"}
            return [("approval", {**message.model_dump(mode="json", include=fields), "state": "pending"})]
        case ApprovalClosed():
            return [("approval", message.model_dump(mode="json", exclude={"tenant", "conversation_id"}))]
        case ToolCallFinished():
            fields = {"call_id", "tool", "kind", "data", "error", "ui_blocks"}
            status = "success" if message.kind in {"succeeded", "staged"} else "error"
            return [("tool_call", {**message.model_dump(mode="json", include=fields), "status": status})]
        case ToolCallProgressed():
            told = message.model_dump(mode="json", include={"call_id", "tool", "fraction", "text", "attempt"})
            return [("progress", {**told, "status": "executing"})]
    return []


#: What other services tell the agent of calls.
_NEWS = (ApprovalOpened, ApprovalProgressed, ApprovalClosed, ToolCallFinished, ToolCallProgressed, ConsentAnswered)


def tool_call(call: ToolCall | ShownCall, status: str = "proposed") -> tuple[str, dict[str, Any]]:
    """Return the item of a call that has no result."""
    told = call.model_dump(include={"call_id", "turn_id", "tool"})
    return "tool_call", {**told, "arguments": json.loads(call.shown_arguments), "status": status}


def card_of(opened: ApprovalOpened) -> dict[str, Any]:
    """Return an approval's card."""
    call = opened.call
    told = opened.model_dump(mode="json", include={"approval_id", "revision", "summary", "reason", "expires_at"})
    told |= call.model_dump(include={"call_id", "turn_id", "digest", "tool"})
    quote = {"quote": call.quote} if call.quote else {}
    arguments = json.loads(call.shown_arguments)
    return {**told, "state": "pending", "approvers": opened.approval.approvers, "arguments": arguments, **quote}


def said(message_id: str, text: str, turn_id: str = "t", **more: Any) -> tuple[str, dict[str, Any]]:
    """Return the item of what the model said."""
    told = {"role": "assistant", "message_id": message_id, "turn_id": turn_id, "step": 1, "text": text}
    return "message", told | more


def turn(state: str, turn_id: str = "t", **more: Any) -> tuple[str, dict[str, Any]]:
    """Return the item of a turn that began, or goes on, or is over."""
    return "turn", {"state": state, "turn_id": turn_id, **more}


@dataclass
class Agent:
    """Plays the agent: keeps the log of what people do, and says once what is new; a `silent` one says nothing."""

    url: str
    bus: InProcessBus
    silent: bool = False
    #: Every message that reached it.
    posted: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, delivery: Delivery) -> None:
        """Take what people do."""
        for event in read_envelope(delivery.body)[0]:
            await self.take(event.message)

    async def take(self, message: Any) -> None:
        """Note a message, and append what it says to the log; a message's id that is known appends nothing."""
        if not isinstance(message, _NEWS) and not getattr(message, "taken_as", None):
            self.posted.put_nowait(message)
        async with self._lock:
            if (items := items_of(message)) and not await asyncio.to_thread(self._is_known, message):
                conversation_id = getattr(message, "conversation_id", "") or message.call.conversation_id
                await self._append_all(message.tenant, conversation_id, items)

    async def append(self, conversation_id: str, *items: tuple[str, dict[str, Any]], tenant: str = "acme") -> None:
        """Append items, type and data, to a conversation's log, and tell every gateway."""
        async with self._lock:
            await self._append_all(tenant, conversation_id, items)

    async def _append_all(self, tenant: str, conversation_id: str, items: Sequence[tuple[str, dict[str, Any]]]) -> None:
        stored = await asyncio.to_thread(self._append, tenant, conversation_id, items)
        if self.silent or not stored:
            return
        news = ConversationItems(tenant=tenant, conversation_id=conversation_id, items=stored)
        body = an_envelope(an_event(news))
        await self.bus.publish(destination_of(news), body, message_id="items", mandatory=False, persistent=False)

    def _is_known(self, message: Message) -> bool:
        if not isinstance(message, MessagePosted | OperatorSpoke):
            return False
        with psycopg.connect(self.url, autocommit=True) as connection:
            if isinstance(message, MessagePosted):
                sql = "INSERT INTO read.conversations (conversation_id, tenant, agent, language, labels)"
                connection.execute(
                    sql + " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (message.conversation_id, message.tenant, message.agent, message.language, Jsonb(message.labels)),
                )
            sql = "INSERT INTO read.messages (tenant, conversation_id, message_id, text) VALUES (%s, %s, %s, %s)"
            values = (message.tenant, message.conversation_id, message.message_id, message.text)
            return connection.execute(sql + " ON CONFLICT DO NOTHING", values).rowcount == 0

    def _append(
        self, tenant: str, conversation_id: str, items: Sequence[tuple[str, dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        sql = (
            "INSERT INTO read.log (tenant, conversation_id, seq, type, data) SELECT %s, %s,"
            " coalesce((SELECT max(seq) FROM read.log WHERE conversation_id = %s), 0) + 1, %s, %s RETURNING seq, at"
        )
        told = []
        with psycopg.connect(self.url) as connection:
            for kind, data in items:
                row = connection.execute(sql, (tenant, conversation_id, conversation_id, kind, Jsonb(data))).fetchone()
                assert row is not None
                told.append({"id": row[0], "type": kind, "at": row[1].isoformat(), "data": data})
        return told


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
    #: What it finds wrong with everything, and with the first rulebook that it is asked about.
    problems: list[dict[str, Any]] = field(default_factory=list)
    problems_first: list[dict[str, Any]] = field(default_factory=list)
    asked: list[TryRulebook] = field(default_factory=list)

    async def __call__(self, delivery: Delivery) -> None:
        """Take questions and answer them."""
        for event in read_envelope(delivery.body)[0]:
            asked = event.message
            assert isinstance(asked, TryRulebook)
            self.asked.append(asked)
            if not self.silent:
                place = asked.model_dump(include={"tenant", "trial_id", "answer_to"})
                problems = self.problems_first if len(self.asked) == 1 and self.problems_first else self.problems
                answer = RulebookTried(**place, report=REPORTS[asked.kind].as_json(), problems=problems)
                body = an_envelope(an_event(answer))
                await self.bus.publish(destination_of(answer), body, message_id="answer", mandatory=False)


@dataclass
class House:
    """Running gateways, and what a test does around them."""

    url: str
    bus: InProcessBus
    approvers: Approvers
    policy: Policy
    agent: Agent
    gateways: list[GatewayService]
    #: The folder of signing keys.
    keys: Path
    #: Everything that reached the queue of dead_letters.
    dead_lettered: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    #: Everything that operators wanted of the notifier.
    retried: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    #: Everything that reached policy's queue of grants.
    granted: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    #: What people said of calls of unknown outcome, as it reached the pool `default`.
    words: asyncio.Queue[ResolveCall] = field(default_factory=asyncio.Queue)

    @property
    def posted(self) -> asyncio.Queue[Message]:
        """Every message that reached the agent."""
        return self.agent.posted

    def key(self, *scopes: str, tenant: str = "acme", person: str = "ada") -> str:
        """Return a new API key."""
        with psycopg.connect(self.url) as connection:
            return create_key(connection, tenant=tenant, person=person, scopes=scopes)

    def client(self, secret: str = "", *, gateway: int = 0) -> httpx.AsyncClient:
        """Return an HTTP client of somebody with a secret, or of nobody."""
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        return http_client(self.gateways[gateway].url, headers=headers, timeout=20)

    async def append(self, conversation_id: str, *items: tuple[str, dict[str, Any]], tenant: str = "acme") -> None:
        """Append items to a conversation's log as the agent does; it begins with them where it is not there."""
        sql = "INSERT INTO read.conversations (conversation_id, tenant, agent, language, labels)"
        self.query(f"{sql} VALUES (%s, %s, 'default', 'en', '{{}}') ON CONFLICT DO NOTHING", conversation_id, tenant)
        await self.agent.append(conversation_id, *items, tenant=tenant)

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

    async def take_dead_lettered(self, delivery: Delivery) -> None:
        """Note what reached dead_letters."""
        for event in read_envelope(delivery.body)[0]:
            self.dead_lettered.put_nowait(event.message)

    async def take_retried(self, delivery: Delivery) -> None:
        """Note what reached the notifier."""
        for event in read_envelope(delivery.body)[0]:
            self.retried.put_nowait(event.message)

    async def take_granted(self, delivery: Delivery) -> None:
        """Note what reached policy about grants."""
        for event in read_envelope(delivery.body)[0]:
            self.granted.put_nowait(event.message)


@asynccontextmanager
async def open_house(
    url: str, folder: Path, *, gateways: int = 1, directory: Callable[[], Directory] = Directory, **settings: Any
) -> AsyncIterator[House]:
    """Run gateways on one bus and one database while the block runs."""
    keys = folder / "keys"
    create_keys(keys)
    bus = InProcessBus()
    made = GatewaySettings(database_url=SecretStr(url), keys=keys, **({"gateway_port": 0} | settings))
    house = House(url, bus, Approvers(url, keys, bus), Policy(bus), Agent(url, bus), [], keys)
    bus.subscribe(queue("approval.decisions"), house.approvers)
    bus.subscribe(queue("policy.trials"), house.policy)
    bus.subscribe(queue("dead-letters.commands"), house.take_dead_lettered)
    bus.subscribe(executor_queue("default"), house.take_word)
    bus.subscribe(queue("policy.grants"), house.take_granted)
    for name in ("messages", "approvals", "tool-results", "progress"):
        bus.subscribe(queue(f"agent.{name}"), house.agent)
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
