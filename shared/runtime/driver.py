"""asyncpg, as the rest of the house sees it: its pool, what a libpq URL asks of it, and its errors as our own.

Errors are told again because asyncpg's quote the row that was refused, arguments and all, and errors go to logs.
"""

from __future__ import annotations

import re
import ssl
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import asyncpg
from pydantic_core import from_json, to_json

from placet.contracts.errors import PlacetError
from placet.runtime.urls import UNREADABLE

#: How long making a connection may take.
CONNECT_SECONDS = 5.0
#: How long a statement may take, locks and all, in seconds; a server that is there ends it a little sooner. A line that
#: falls silent, or a server that stands still, ends nothing by itself: TCP waits for minutes, or for ever.
ANSWER_SECONDS = 30.0
#: How long a connection that nobody uses stays, in seconds.
IDLE_SECONDS = 60.0
#: Has the server give up a statement, unless the role or the URL says sooner.
_GIVE_UP = """
    SELECT set_config('statement_timeout', '{milliseconds}', false) FROM pg_settings
    WHERE name = 'statement_timeout' AND setting::int NOT BETWEEN 1 AND {milliseconds}
"""
#: Statements that a connection keeps prepared. A service has fewer; some are written anew for what they are asked.
PREPARED_MAX = 200
#: Classes of SQLSTATE that say nothing about the statement: connection lost, transaction rolled back (deadlock), no
#: room left, lock not available, stopped by an operator, files of the server.
_OUTAGES = frozenset({"08", "40", "53", "55", "57", "58"})
_DISK_FULL = "53100"
#: Likewise: the server takes no writes, as a standby does, or one that an operator has protected.
_READ_ONLY = "25006"
#: What asyncpg raises where a statement was prepared on tables that a migration has changed since, and where a session
#: is asked between the server's word that it has ended and the end of its connection.
_NOT_ITS_FAULT = (asyncpg.InvalidCachedStatementError, asyncpg.OutdatedSchemaCacheError, asyncpg.InternalClientError)
RAISED = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
#: Parameters of a libpq URL that asyncpg follows; it would send others to the server as settings.
_FOLLOWED = frozenset({
    "host", "port", "user", "password", "dbname", "passfile", "sslmode", "sslcert", "sslkey", "sslpassword",
    "sslrootcert", "sslcrl", "sslnegotiation", "ssl_min_protocol_version", "ssl_max_protocol_version",
    "target_session_attrs", "options", "application_name", "connect_timeout",
})  # fmt: skip
_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
}
#: Hosts with their ports, as they stand behind the user.
_HOST = r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")


class DatabaseError(Exception):
    """A statement that the database refused, by the name of the rule and without a value of any row."""

    def __init__(self, message: str = "", *, sqlstate: str = "") -> None:
        super().__init__(message)
        #: PostgreSQL's code of the error; empty where it is not the server's.
        self.sqlstate = sqlstate


class Outage(DatabaseError):
    """It says nothing about the statement: connection lost or refused, deadlock, server stopping, lock not free."""

    @property
    def is_full_disk(self) -> bool:
        """Whether the server had no room left, for this or anything else."""
        return self.sqlstate == _DISK_FULL


class Silence(Outage):
    """The server did not answer in time. Whether the statement was done is unknown, as where a line breaks."""


class DatabaseClosed(Outage):
    """The service hangs up, because it stops in order; nothing is away."""


class BadDatabaseUrl(PlacetError):
    """The URL of the database cannot be used; the message is one line for whoever wrote it."""


def pool_options(
    url: str, *, application: str, plan_once: bool = False, answer_seconds: float | None = ANSWER_SECONDS
) -> dict[str, Any]:
    """Return how asyncpg reaches the database of a libpq URL; raise BadDatabaseUrl, which quotes no value.

    With `plan_once` a connection plans each statement once, whatever its parameters will be. A statement is waited for
    as long as `answer_seconds`; None: for ever. The server gives it up a tenth sooner, so that none goes on, or waits
    for a lock, for nobody.
    """
    try:
        parts = urlsplit(url)
        asked = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        seconds = min(float(asked.pop("connect_timeout", 0)) or CONNECT_SECONDS, CONNECT_SECONDS)
    except ValueError:
        raise BadDatabaseUrl(UNREADABLE) from None
    if not _HOSTS.fullmatch(parts.netloc.rpartition("@")[2]) or parts.scheme not in {"postgresql", "postgres"}:
        raise BadDatabaseUrl(UNREADABLE)
    for name, choices in _CHOICES.items():
        if asked.get(name, choices[0]) not in choices:
            raise BadDatabaseUrl(f"the URL of the database has a {name} that is none of {', '.join(choices)}")
    if unknown := sorted(asked.keys() - _FOLLOWED):
        raise BadDatabaseUrl(f"the URL of the database has what services do not follow: {', '.join(unknown)}")
    options: dict[str, Any] = {
        "server_settings": {"application_name": application},
        "timeout": seconds,
        "command_timeout": answer_seconds,
        "statement_cache_size": PREPARED_MAX,
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
        "max_inactive_connection_lifetime": IDLE_SECONDS,
        "init": partial(_prepare, plan_once=plan_once, answer_seconds=answer_seconds),
        "reset": _roll_back,
    }
    if asked.get("sslrootcert") == "system":
        if asked.keys() & {"sslcert", "sslkey", "sslcrl"} or asked.get("sslmode", "verify-full") != "verify-full":
            raise BadDatabaseUrl("the URL of the database has sslrootcert=system, which goes with verify-full alone")
        asked = {name: value for name, value in asked.items() if name not in {"sslrootcert", "sslmode"}}
        options["ssl"] = ssl.create_default_context()
    asked.pop("application_name", None)
    return options | {"dsn": parts._replace(query=urlencode(asked, quote_via=quote)).geturl()}


async def _prepare(connection: Any, *, plan_once: bool, answer_seconds: float | None) -> None:
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=_json, decoder=from_json)
    said = ["SET plan_cache_mode = force_generic_plan"] if plan_once else []
    if answer_seconds:
        said.append(_GIVE_UP.format(milliseconds=round(answer_seconds * 900)))
    if said:
        await connection.execute("; ".join(said))


async def _roll_back(connection: Any) -> None:
    """Leave no transaction to the next caller; nothing else of a session is ever changed."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


def _json(value: Any) -> str:
    """Return JSON; text is JSON already. A number that is none stands in it as NaN, so that PostgreSQL refuses it."""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="constants").decode()


def translated(error: Exception, *, lost: bool = False) -> DatabaseError:
    """Return one of `RAISED` as our own; `lost` where the connection is gone."""
    state: str = getattr(error, "sqlstate", None) or ""
    outage = lost or state[:2] in _OUTAGES or state == _READ_ONLY or isinstance(error, (*_NOT_ITS_FAULT, OSError))
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
