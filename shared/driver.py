"""asyncpg, as the rest of the house sees it: one connection, its errors, and what a libpq URL asks of both.

A statement is prepared when a connection runs it first, and kept: PostgreSQL parses it once, and sending it costs
little more than its values (see ADR 0030). Errors are told again as our own, because asyncpg's quote the row that was
refused, arguments and all, and errors go to logs.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

import asyncpg
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic_core import from_json

from shared.errors import PlacetError

#: How long making a connection may take, taking back what was done on it, and closing it in good order.
CONNECT_SECONDS = 5.0
ROLLBACK_SECONDS = 10.0
CLOSE_SECONDS = 2.0
#: Statements that a connection keeps prepared. A service has fewer; some are written anew for what they are asked.
PREPARED_MAX = 200
#: Classes of SQLSTATE that say nothing about the statement: connection lost, transaction rolled back (deadlock), no
#: room left, lock not available, stopped by an operator, files of the server.
_OUTAGES = frozenset({"08", "40", "53", "55", "57", "58"})
#: What asyncpg raises where a statement was prepared on tables that a migration has changed since.
_OUTDATED = (asyncpg.InvalidCachedStatementError, asyncpg.OutdatedSchemaCacheError)
_RAISED = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
#: Parameters of a libpq URL, by how asyncpg takes them.
_ARGUMENTS = {"user": "user", "password": "password", "dbname": "database", "passfile": "passfile"}
_ENCRYPTION = frozenset({
    "sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl", "sslnegotiation",
    "ssl_min_protocol_version", "ssl_max_protocol_version",
})  # fmt: skip
_SERVER_SETTINGS = frozenset({"options", "application_name"})
#: How libpq tells a name that it does not know.
_UNKNOWN = re.compile(r'invalid URI query parameter: "(\w+)"')
_OTHERS = frozenset({"host", "port", "connect_timeout", "target_session_attrs"})
_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
}


class DatabaseError(Exception):
    """A statement that the database refused, by the name of the rule and without a value of any row."""

    def __init__(self, message: str = "", *, sqlstate: str = "") -> None:
        super().__init__(message)
        #: PostgreSQL's code of the error; empty where it is not the server's.
        self.sqlstate = sqlstate


class Outage(DatabaseError):
    """It says nothing about the statement: connection lost or refused, deadlock, server stopping, lock not free."""


class BadDatabaseUrl(PlacetError):
    """The URL of the database cannot be used; the message is one line for whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement came to."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    #: Rows that were found or changed; -1 where the statement is about none.
    rowcount: int


class Driver:
    """A connection to PostgreSQL, in a transaction from its first statement on. Not for two tasks at once."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        #: asyncpg's statement and the names of its columns, by text; the one used last stands last.
        self._prepared: OrderedDict[str, tuple[Any, tuple[str, ...]]] = OrderedDict()
        #: Whether every statement is a transaction by itself.
        self.autocommit = False
        #: Whether a cancelled task may have left something under way, so that nobody knows what state it leads to.
        self._under_way = False

    @property
    def closed(self) -> bool:
        """Whether it is good for nothing any more."""
        closed: bool = self._connection.is_closed()
        return closed

    @property
    def in_transaction(self) -> bool:
        """Whether something may wait to be committed."""
        return not self.closed and bool(self._connection.is_in_transaction())

    async def run(self, text: str, values: Sequence[Any] = ()) -> Answer:
        """Run a statement with `values` for $1, $2 and so on. Raises DatabaseError."""
        self._under_way = True
        try:
            statement, names = await self._ready(text)
            rows = list(map(tuple, await statement.fetch(*values)))
        except _RAISED as error:
            raise self._told(error) from None
        self._under_way = False
        return Answer(names, rows, _rowcount(statement.get_statusmsg()))

    async def run_each(self, text: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each of `values`; all of it counts or nothing. Raises DatabaseError."""
        self._under_way = True
        try:
            statement, _ = await self._ready(text)
            await statement.executemany(values)
        except _RAISED as error:
            raise self._told(error) from None
        self._under_way = False

    async def commit(self) -> None:
        """Make what was done since the first statement count. Raises DatabaseError."""
        if self.in_transaction:
            await self._end("COMMIT")

    async def rollback(self) -> None:
        """Take back what was done since the first statement. Raises DatabaseError."""
        if not self.in_transaction and (self.closed or not self._under_way):
            return
        try:
            # What a cancelled task left under way is waited for first.
            async with asyncio.timeout(ROLLBACK_SECONDS):
                await self._end("ROLLBACK")
        except TimeoutError:
            self.terminate()

    async def close(self) -> None:
        """Say good-bye to the server, or hang up where that takes long."""
        if not self.closed:
            with suppress(*_RAISED):
                await self._connection.close(timeout=CLOSE_SECONDS)

    def terminate(self) -> None:
        """Hang up."""
        self._connection.terminate()

    async def _ready(self, text: str) -> tuple[Any, tuple[str, ...]]:
        connection = self._connection
        if not self.autocommit and not connection.is_in_transaction():
            await connection.execute("BEGIN")
        found = self._prepared.get(text)
        if found is not None:
            self._prepared.move_to_end(text)
            return found
        statement = await connection.prepare(text)
        found = self._prepared[text] = statement, tuple(each.name for each in statement.get_attributes())
        if len(self._prepared) > PREPARED_MAX:
            self._prepared.popitem(last=False)
        return found

    async def _end(self, how: str) -> None:
        self._under_way = True
        try:
            await self._connection.execute(how)
        except _RAISED as error:
            raise self._told(error) from None
        self._under_way = False

    def _told(self, error: Exception) -> DatabaseError:
        """Return the error as our own; hang up where no statement can succeed any more."""
        self._under_way = False
        fatal = getattr(error, "severity_en", "") in {"FATAL", "PANIC"}
        lost = self.closed or fatal or isinstance(error, (*_OUTDATED, OSError))
        if lost or isinstance(error, asyncpg.InternalClientError):
            self.terminate()
        return _translated(error, lost=lost)


class Address:
    """Where a libpq URL says that the database is, and how to go there."""

    def __init__(self, url: str, *, application: str) -> None:
        """Read the URL; raise BadDatabaseUrl for what a service cannot follow."""
        asked = _asked(url)
        self._arguments: dict[str, Any] = {
            **_encryption({name: value for name, value in asked.items() if name in _ENCRYPTION}),
            "server_settings": {name: asked[name] for name in _SERVER_SETTINGS & asked.keys()}
            | {"application_name": application},
            "target_session_attrs": asked.get("target_session_attrs"),
            **{argument: asked[name] for name, argument in _ARGUMENTS.items() if name in asked},
        }
        if "host" in asked:
            self._arguments["host"] = asked["host"].split(",")
        try:
            if "port" in asked:
                self._arguments["port"] = _ports(asked["port"])
            self._patience = min(float(asked.get("connect_timeout", 0)) or CONNECT_SECONDS, CONNECT_SECONDS)
        except ValueError:
            raise BadDatabaseUrl("the URL of the database has a port or a connect_timeout that is no number") from None

    async def connect(self) -> Driver:
        """Return a new connection. Raises Outage, at once where the server is not there."""
        try:
            async with asyncio.timeout(self._patience):
                return Driver(await self._connect())
        except TimeoutError:
            raise Outage(f"the database did not answer within {self._patience:g} seconds") from None
        except _RAISED as error:
            raise _translated(error, lost=True) from None

    async def _connect(self) -> Any:
        connection = await asyncpg.connect(**self._arguments)
        try:
            await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=_as_it_is, decoder=from_json)
        except BaseException:
            connection.terminate()
            raise
        return connection


def _asked(url: str) -> dict[str, str]:
    """Return the parameters of a libpq URL by libpq's names. Errors quote names, and never what may be a password."""
    try:
        asked = {name: str(value) for name, value in conninfo_to_dict(url).items() if value not in {None, ""}}
    except ProgrammingError as error:
        found = _UNKNOWN.search(str(error))
        why = f"it has no parameter {found[1]}" if found else "write postgresql://user:password@host:5432/database"
        raise BadDatabaseUrl(f"the URL of the database cannot be read: {why}") from None
    known = _ARGUMENTS.keys() | _ENCRYPTION | _SERVER_SETTINGS | _OTHERS
    if unknown := sorted(asked.keys() - known):
        raise BadDatabaseUrl(f"the URL of the database has what services do not follow: {', '.join(unknown)}")
    for name, choices in _CHOICES.items():
        if asked.get(name, choices[0]) not in choices:
            raise BadDatabaseUrl(f"the URL of the database has a {name} that is none of {', '.join(choices)}")
    return asked


def _encryption(asked: dict[str, str]) -> dict[str, Any]:
    if asked.get("sslrootcert") == "system":
        if asked.get("sslmode", "verify-full") != "verify-full" or asked.keys() - {"sslmode", "sslrootcert"}:
            raise BadDatabaseUrl("the URL of the database has sslrootcert=system, which goes with verify-full alone")
        return {"ssl": True}
    # asyncpg takes these from a URL only.
    return {"dsn": f"postgresql://?{urlencode(asked)}"} if asked else {}


def _ports(text: str) -> int | list[int]:
    ports = [int(each or 5432) for each in text.split(",")]
    return ports[0] if len(ports) == 1 else ports


def _as_it_is(value: str) -> str:
    """Return JSON that SQLAlchemy has written."""
    return value


def _rowcount(status: str | None) -> int:
    """Read the count at the end of what the server answers: `UPDATE 5`, `INSERT 0 3`, `SELECT 2`."""
    last = (status or "").rpartition(" ")[2]
    return int(last) if last.isdecimal() else -1


def _translated(error: Exception, *, lost: bool = False) -> DatabaseError:
    state: str = getattr(error, "sqlstate", None) or ""
    outage = lost or state[:2] in _OUTAGES or isinstance(error, OSError)
    return _kind(type(error).__name__, Outage if outage else DatabaseError)(_message(error), sqlstate=state)


@cache
def _kind(name: str, base: type[DatabaseError]) -> type[DatabaseError]:
    """Return the kind of error with asyncpg's name for it: logs say `LockNotAvailableError`, which tells more."""
    return type(name, (base,), {"__doc__": base.__doc__, "__module__": __name__})


def _message(error: Exception) -> str:
    """Return what an error says, in the server's words, without its DETAIL and without a value that was given."""
    if isinstance(error, asyncpg.DataError):
        # Behind the colon it quotes the value.
        return f"{str(error.args[0]).partition(':')[0]}: not of the parameter's type"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    return str(error.args[0]) if error.args else type(error).__name__
