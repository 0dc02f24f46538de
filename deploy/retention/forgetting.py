"""Forgets a person in what stays: a pseudonym where Placet names them, `[erased]` where it quotes their words.

Only what Placet writes of people is changed. Ids, states, tools, digests, arguments and what others said are whose they
are and stay, whatever the erased person wrote: nobody loses a vote because somebody's reason reads like their name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isinf
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.topology import SERVICES
from placet.contracts.visitors import ANONYMOUS
from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.names import (
    PLACET,
    bare_in_column,
    bare_in_json,
    bare_in_list,
    bare_in_sentence,
    pattern_of,
    spelled,
    who_says,
)
from placet.runtime.queries import query
from placet.runtime.sql import Connection

#: Columns in which Placet names people, by table; what is not here names nobody, or goes whole.
NAMING: Mapping[str, str] = {
    "agent.attempts": "data",
    "agent.facts": "text",
    "agent.log": "data",
    "agent.messages": "text author cause",
    "agent.steps": "raw",
    "agent.tool_calls": "result",
    "agent.turns": "author cause reason final_answer",
    "approval.approvals": "requester edited reason approval_rule deciders closed_to voters decided_by decision_reason"
    " claimed_by delegations seats cancel_asked_by staged",
    "approval.calls": "withdrawn_reason",
    "approval.decisions": "person details answer",
    "approval.edits": "person",
    "approval.words": "word",
    "dead_letters.dead_letters": "reason body shown_body resolved_by",
    "executor.executions": "call cause error resolved_by",
    "executor.parked": "body",
    "executor.workspaces": "ended_by reason",
    "executor.workspace_entries": "error",
    "gateway.api_keys": "created_by revoked_by",
    "gateway.comments": "person",
    "gateway.conversations": "created_by relayed_by token_of ended_by operator",
    "gateway.erasures": "asked_by",
    "gateway.link_uses": "person",
    "gateway.saved_views": "person",
    "gateway.sessions": "person revoked_by",
    "gateway.stops": "stopped_by resumed_by",
    "jobs.attempts": "reason answer",
    "jobs.jobs": "author spec reason result",
    "jobs.log": "data",
    "jobs.tasks": "reason answer",
    "notifier.deliveries": "card error",
    "notifier.links": "person",
    "notifier.webhook_events": "body error",
    "policy.activations": "activated_by",
    "policy.counters": "subject",
    "policy.grants": "owner revoked_by void_reason",
    "policy.verdicts": "requester reason model_reason facts approval",
    "policy.watched_calls": "requester approval denied_by",
    **{f"{service}.outbox": "events" for service in SERVICES},
}
#: Columns with what somebody wrote or had signed, behind the one that says who: a row of theirs has nothing there then.
WRITTEN: Sequence[tuple[str, str, str]] = (
    ("approval.approvals", "decided_by", "decision_reason"),
    ("approval.edits", "person", "reason signed"),
    ("executor.executions", "resolved_by", "resolution_note resolution_signed"),
    ("executor.workspaces", "ended_by", "reason"),
    ("gateway.stops", "resumed_by", "resume_reason resume_signature"),
    ("gateway.stops", "stopped_by", "signature"),
    ("policy.watched_calls", "denied_by", "reason"),
)
#: Tables that quote people without naming them, and the column that says of which conversation or job.
QUOTING: Mapping[str, str] = {
    **dict.fromkeys(("agent.facts", "agent.log", "agent.steps", "agent.tool_calls", "agent.turns"), "conversation_id"),
    **dict.fromkeys(("executor.workspaces", "jobs.attempts"), "conversation_id"),
    **dict.fromkeys(("jobs.jobs", "jobs.log", "jobs.tasks"), "job_id"),
}
#: Of tables that have no column for it: how a row says which tenant it is of. What is in none of them names no visitor.
_WITHIN: Mapping[str, str] = {
    "attempts": "(TABLE.conversation_id, :tenant) IN (SELECT conversation_id, tenant FROM agent.conversations)",
    "outbox": ":tenant IN (SELECT CAST(event AS json) #>> '{data,tenant}' FROM unnest(TABLE.events) AS event)",
    "tasks": "(TABLE.job_id, :tenant) IN (SELECT job_id, tenant FROM jobs.jobs)",
    "workspace_entries": "(TABLE.workspace_id, :tenant) IN (SELECT workspace_id, tenant FROM executor.workspaces)",
}
#: What a column that says who is called elsewhere, and of its table the rows in which it does.
_CALLED: Mapping[str, str] = {"policy.counters.subject": "requester"}
_WHERE: Mapping[str, str] = {"policy.counters": "per = 'requester'"}
#: Columns of objects with a field for each person; other objects have fields of these names.
_BY_PERSON = frozenset({"closed_to", "seats", "voters"})
#: Fields and columns that say why, or what was said.
_QUOTES = frozenset(
    {"answer", "content", "detail", "edited", "error", "note", "text", "words"}
    | {"reason", "decision_reason", "model_reason", "withdrawn_reason"}
)
#: Fields that are nobody's name, whatever they say; what a tool answered too, in results and in the log.
_KEPT = re.compile(
    r".*_id|(.*_)?(digest|arguments)|before|grant|kind|labels|proposed|response|stat(e|us)|summary|tool|type"
)
ANSWERED = frozenset({"agent.log", "agent.tool_calls"})
#: Who writes messages in a conversation that are no quotes, and fields that say whose words stand beside them.
_SPEAKERS = ("user", "operator")
_WHOSE = ("by", "decided_by", "person")
ERASED = "[erased]"
#: Shorter words are found in any text by chance: only in quotes, or where they are all that stands beside a name.
WORDS_MIN = 8
#: Finds words that a tenant knows, and those that a place quotes; None where there are none.
_Found: TypeAlias = tuple[re.Pattern[str] | None, re.Pattern[str] | None]
_POSTGRES: sa.Dialect = pg.dialect()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Forgetting:
    """Whom to forget, who they are from now on, and what they wrote: rows of `tenant`, `place` and `said`."""

    identity: str
    pseudonym: str = ""
    #: A visitor's name means somebody in one tenant alone; empty for people, who are themselves everywhere.
    tenant: str = ""
    words: Sequence[Mapping[str, Any]] = ()
    #: Others whose identities begin with theirs.
    namesakes: frozenset[str] = frozenset()
    _found: dict[tuple[str | None, str | None], _Found] = field(default_factory=dict)

    @property
    def forms(self) -> list[str]:
        """What they are called where a field or column says who: rules know a visitor by kind, all else without."""
        return [self.identity, self.visitor] if self.visitor else [self.identity]

    @property
    def whose(self) -> dict[str, Any]:
        """What statements find them by."""
        return {"forms": self.forms, "tenant": self.tenant}

    @property
    def opened(self) -> dict[str, str]:
        """What finds the conversations that are theirs."""
        return {"identity": self.identity, "tenant": self.tenant, "visitor": self.visitor}

    @property
    def actors(self) -> list[str]:
        """What they are called, but for what Placet is called itself."""
        return [each for each in self.forms if each not in PLACET]

    @property
    def visitor(self) -> str:
        """The name that their tenant's frontends give them; empty for people."""
        return self.identity.removeprefix(ANONYMOUS) if self.tenant else ""

    @property
    def sealed(self) -> dict[str, Any]:
        """What finds the rows of the history that name them."""
        return {"actors": self.actors, "pattern": self.pattern, "tenant": self.tenant}

    @cached_property
    def pattern(self) -> str:
        """What finds them in a row as a text, with its JSON."""
        found = pattern_of(self.identity, self.namesakes, in_json=True)
        return f"{found}|{bare_in_json(self.visitor)}" if self.visitor else found

    @cached_property
    def pattern_in_column(self) -> str:
        """What finds them in a column that says who."""
        return f"{self.pattern}|{bare_in_column(self.visitor)}" if self.visitor else self.pattern

    @cached_property
    def says_who(self) -> frozenset[str]:
        """Fields and columns in which their name stands without kind; none of a person, whom each calls by kind."""
        return frozenset(who_says(self.visitor)) if self.visitor else frozenset()

    @cached_property
    def pattern_in_text(self) -> str:
        """What finds their identity in a text that is no JSON."""
        return pattern_of(self.identity, self.namesakes)

    @property
    def bare_pattern(self) -> str:
        """What finds their name where it stands without its kind."""
        kind, _, bare = self.identity.partition(":")
        return pattern_of(bare, (each.removeprefix(f"{kind}:") for each in self.namesakes))

    @cached_property
    def names(self) -> str:
        """What finds their name in a row, also as an author has it: without prefix."""
        kind, _, bare = map(spelled, self.identity.partition(":"))
        quote = spelled('"')
        told = [f"{quote}{name}{quote}: ?{quote}{each}{quote}" for name, each in (("id", bare), ("kind", kind))]
        return "|".join((self.pattern, ", ?".join(told), ", ?".join(reversed(told))))

    @property
    def new_name(self) -> str:
        """What stands in place of their identity."""
        return f"{self.identity.partition(':')[0]}:{self.pseudonym}"

    def in_address(self, address: str) -> str:
        """Return the address of a list with their new name in its query; as it was where that names them nowhere."""
        path, _, fields = address.partition("?")
        told = parse_qsl(fields, keep_blank_values=True)
        new = [(name, re.sub(self.pattern_in_text, self.new_name, value)) for name, value in told]
        return address if new == told else f"{path}?{urlencode(new)}"

    async def is_needed(self, connection: Connection) -> bool:
        """Tell whether anything that is to be changed names them, or the history does."""
        named = {table: columns.split() for table, columns in NAMING.items()}
        named |= {f"{service}.history": ["actor", "detail"] for service in SERVICES}
        for table, columns in named.items():
            statement = f"SELECT FROM {table} WHERE {within(table)} AND ({self._any_of(table, columns)}) LIMIT 1"
            if await self._run(connection, statement):
                return True
        return False

    async def lock_approvals(self, connection: Connection) -> None:
        """Lock the approvals that name them in the order of their calls' ids, as votes do: none waits for the other."""
        named = self._any_of("approval.approvals", NAMING["approval.approvals"].split())
        whose = f"{within('approval.approvals')} AND ({named})"
        await self._run(connection, f"SELECT FROM approval.approvals WHERE {whose} ORDER BY call_id FOR UPDATE")

    async def forget(self, connection: Connection, *, but: str = "") -> None:
        """Change every row that names or quotes them, of all tables but one."""
        for table in (each for each in NAMING if each != but):
            columns = {name: metadata.tables[table].columns[name] for name in NAMING[table].split()}
            kinds = {name: each.type.compile(_POSTGRES) for name, each in columns.items()}
            for found, new in await self.changed(connection, table):
                values = ", ".join(f"{name} = CAST(:{name} AS {kinds[name]})" for name in new)
                statement = f"UPDATE {table} SET {values} WHERE ctid = CAST(CAST(:spot AS text) AS tid)"  # noqa: S608
                await connection.run(query("forget", statement), spot=found["spot"], **new)

    async def changed(self, connection: Connection, table: str) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """Return rows of a table that are to be changed, each with the new values of its columns; lock them."""
        held, names, place = metadata.tables[table].columns, NAMING[table].split(), QUOTING.get(table, "NULL")
        told = ["CAST(ctid AS text) AS spot", f"CAST({place} AS text) AS place"]
        told += [name for name in ("tenant", "call_id") if name in held]
        told += [name if isinstance(held[name].type, sa.ARRAY) else f"CAST({name} AS text) AS {name}" for name in names]
        statement = f"""
            SELECT {", ".join(told)} FROM {table}
            WHERE {within(table)}
                AND ({self._any_of(table, names)} OR CAST({place} AS text) = ANY (:places::text[])) FOR UPDATE
        """  # noqa: S608
        changed = []
        for row in await self._run(connection, statement):
            tenant = row["tenant"] if "tenant" in held else None
            line = Line(self, *self._found_by(tenant, row["place"]), keeps_data=table in ANSWERED)
            new = {name: line.forget(row[name], _CALLED.get(f"{table}.{name}", name)) for name in names}
            if new := {name: value for name, value in new.items() if value != row[name]}:
                changed.append((row, new))
        return changed

    async def _run(self, connection: Connection, statement: str) -> Sequence[Mapping[str, Any]]:
        """Run a statement that looks for them."""
        places = sorted({row["place"] for row in self.words if row["place"]})
        looking = query("looking", statement)
        named = {"names": self.names, "listed": self.pattern_in_column, "places": places, "tenant": self.tenant}
        return await connection.run(looking, **{name: named[name] for name in looking.parameters})

    def _any_of(self, table: str, columns: Sequence[str]) -> str:
        """Return what is true of the rows of which a column names them."""
        held, found = metadata.tables[table].columns, []
        for name in columns:
            only_ids = not isinstance(held[name].type, pg.JSONB) or name in _BY_PERSON
            called = _CALLED.get(f"{table}.{name}", name)
            pattern = ":listed" if called in self.says_who and only_ids else ":names"
            found.append(f"CAST({name} AS text) ~ {pattern}")
        return f"({' OR '.join(found)}) AND {_WHERE.get(table, 'true')}"

    def _found_by(self, tenant: str | None, place: str | None) -> _Found:
        """Return what finds the words that a tenant knows, any where it is None, and those that a place quotes."""
        if (tenant, place) not in self._found:
            known = {each["said"] for each in self.words if tenant in {None, each["tenant"]}}
            quoted = {each["said"] for each in self.words if place is not None and place == each["place"]}
            self._found[tenant, place] = (_either(known, r"\A{0}\Z|"), _either(quoted))
        return self._found[tenant, place]


@dataclass(frozen=True, slots=True)
class Line:
    """One row: what they wrote anywhere, and what of it this row may quote without naming them."""

    of: Forgetting
    words: re.Pattern[str] | None
    quoted: re.Pattern[str] | None
    keeps_data: bool

    def forget(self, value: Any, name: str, *, beside: bool = False) -> Any:
        """Return the value of a field or column without them; `beside`: it stands beside a name of theirs."""
        if isinstance(value, dict):
            return self._fields(value, name)
        if isinstance(value, list):
            return [self.forget(each, name, beside=beside) for each in value]
        if not isinstance(value, str):
            return value
        if (found := read_json(value)) is not None:
            with suppress(ValueError, RecursionError):
                new = self.forget(found, name, beside=beside)
                return value if new == found else _json(new)
        return self._text(value, name, beside=beside)

    def _fields(self, fields: Mapping[str, Any], of: str) -> dict[str, Any]:
        kind, _, bare = self.of.identity.partition(":")
        if fields.get("kind") == kind and fields.get("id") == bare:
            fields = {**fields, "id": self.of.pseudonym}
        others = {each for name in _WHOSE if isinstance(each := fields.get(name), str)} - {"", *self.of.forms}
        line = replace(self, quoted=None) if others or fields.get("role") in _SPEAKERS else self
        beside = any(each == self.of.identity or self._is(name, each) for name, each in fields.items())
        found = {}
        for name, value in fields.items():
            kept = is_kept(name, keeps_data=self.keeps_data)
            new = self._text(name, of if of in _BY_PERSON else "")
            # Who was offered a key stands there as the directory has them.
            whose_key = name == "person" and "code" in fields
            found[new] = value if kept or whose_key else line.forget(value, name, beside=beside)
        return found

    def _is(self, name: str, value: Any) -> bool:
        """Tell whether a field says that it is they, by the name that their frontend gave them."""
        return name in self.of.says_who and value == self.of.visitor

    def _text(self, text: str, name: str, *, beside: bool = False) -> str:
        found = re.sub(self.of.pattern_in_text, self.of.new_name, text)
        if name in self.of.says_who:
            found = re.sub(bare_in_list(self.of.visitor), self.of.pseudonym, found)
        elif self.of.visitor and (name in _QUOTES or name == "line"):
            found = re.sub(bare_in_sentence(self.of.visitor), self.of.pseudonym, found)
        if name in _QUOTES:
            for words in (self.words if beside or found != text else None, self.quoted):
                found = words.sub(ERASED, found) if words else found
        return found


def within(table: str) -> str:
    """Return what is true of the rows of `:tenant`, and of all where that is empty."""
    name = table.partition(".")[2]
    own = f"{table}.tenant = :tenant" if "tenant" in metadata.tables[table].columns else _WITHIN.get(name, "false")
    return f"(:tenant = '' OR {own.replace('TABLE', table)})"


def _either(words: set[str], alone: str = "") -> re.Pattern[str] | None:
    """Return what finds any of these, the longest first, also as JSON has them; short ones in quotes, or `alone`."""
    spelled = {each for said in words for each in (said, json.dumps(said, ensure_ascii=False)[1:-1])}
    ordered = [(len(each), re.escape(each)) for each in sorted(spelled, key=len, reverse=True)]
    short = alone + '(?<="){0}(?=")'
    found = [each if size >= WORDS_MIN else short.replace("{0}", each) for size, each in ordered]
    return re.compile("|".join(found)) if found else None


def is_kept(name: str, *, keeps_data: bool) -> bool:
    """Tell whether nothing in a field names anybody; `keeps_data`: what a tool answered stands in `data`."""
    return _KEPT.fullmatch(name) is not None or (keeps_data and name == "data")


def read_json(text: str) -> Any:
    """Return the object or list that a text is; None where it is neither, or one that no JSON says again."""
    with suppress(ValueError, RecursionError):
        return json.loads(text, parse_float=_finite) if text.startswith(("{", "[")) else None
    return None


def _finite(text: str) -> float:
    if isinf(number := float(text)):
        raise ValueError("no JSON says this number again")
    return number


def _json(value: object) -> str:
    """Return JSON that a database takes: half a character stands in it as an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or text.encode(errors="ignore").decode() == text else json.dumps(value)
