"""What the sealer and people read of all histories, and the sealer's own two tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from placet.contracts.chain import Checkpoint, Row
from placet.contracts.topology import SERVICES
from placet.runtime.queries import Query, load_queries, query
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__)
#: In this order the rows of a block stand.
ORDER = tuple(sorted(SERVICES))
#: Checkpoints read at once.
PAGE = 500
#: Conditions that a list of changes can be narrowed by.
_CONDITIONS = {
    "since": "at >= :since",
    "until": "at < :until",
    **{name: f"{name} = :{name}" for name in ("tenant", "machine", "event", "actor", "subject_id", "call_id")},
}


async def take_upto(connection: Connection) -> dict[str, int] | None:
    """Return how far each history is sealed, and keep others from sealing; None where another one seals."""
    await connection.run(QUERIES.begin)
    found = await connection.run(QUERIES.take_upto)
    return dict(found[0]["upto"]) if found else None


async def sealed_upto(connection: Connection) -> dict[str, int]:
    """Return how far each history is sealed."""
    found = await connection.run(QUERIES.sealed_upto)
    return dict(found[0]["upto"]) if found else {}


@dataclass(frozen=True, slots=True)
class Newest:
    """What is newest in one history."""

    #: Of the newest row that its service wrote.
    row_id: int
    #: Seconds that the oldest row waits that is not sealed.
    age: float
    #: The last id that its service took.
    last: int
    #: The highest id of all, whoever wrote it.
    highest: int


async def newest(connection: Connection, upto: Mapping[str, int]) -> dict[str, Newest]:
    """Return by service what is newest; unsealed is what comes after `upto`."""
    found = {}
    for service in ORDER:
        row = (await connection.run(QUERIES.newest, service=service, after=upto.get(service, 0)))[0]
        found[service] = Newest(row["id"], row["age"], row["last"], row["highest"])
    return found


async def writers(connection: Connection) -> dict[str, set[str]]:
    """Return by service who may still commit rows of its history."""
    found: dict[str, set[str]] = {}
    for row in await connection.run(QUERIES.writers):
        found.setdefault(row["service"], set()).add(row["writer"])
    return found


async def load_leaves(
    connection: Connection, service: str, after: int, upto: int, most: int
) -> list[tuple[str, int, bytes]]:
    """Return rows of one history as (tenant, id, leaf)."""
    found = await connection.run(QUERIES.leaves, service=service, after=after, upto=upto, most=most)
    return [(row["tenant"], row["id"], row["leaf"]) for row in found]


async def load_head(connection: Connection, tenant: str) -> str | None:
    """Return the newest token of a tenant's chain."""
    found = await connection.run(QUERIES.head, tenant=tenant)
    return found[0]["token"] if found else None


async def load_heads(connection: Connection) -> list[str]:
    """Return the newest token of every tenant's chain, the newest first."""
    return [row["token"] for row in await connection.run(QUERIES.heads)]


async def load_token(connection: Connection, tenant: str, number: int) -> str | None:
    """Return one token of a tenant's chain."""
    found = await connection.run(QUERIES.checkpoint, tenant=tenant, number=number)
    return found[0]["token"] if found else None


async def add_block(connection: Connection, block: Checkpoint) -> None:
    """Add a block."""
    await connection.run(QUERIES.add, tenant=block.tenant, number=block.number, token=block.token)


async def keep_upto(connection: Connection, upto: Mapping[str, int]) -> None:
    """Remember how far histories are sealed."""
    await connection.run(QUERIES.keep_upto, upto=dict(upto))


async def load_rows(
    connection: Connection, tenant: str, after: Mapping[str, int], upto: Mapping[str, int]
) -> list[Row]:
    """Return the rows of a block as they stand now."""
    return [
        Row.of(row)
        for service in ORDER
        if after.get(service, 0) < upto.get(service, 0)
        for row in await connection.run(
            QUERIES.rows, service=service, tenant=tenant, after=after.get(service, 0), upto=upto[service]
        )
    ]


async def count_strays(connection: Connection, tenant: str, after: Mapping[str, int]) -> dict[str, int]:
    """Return by service how many rows of a tenant stand before the beginning of its chain, where there are any."""
    found = {}
    for service in ORDER:
        (row,) = await connection.run(QUERIES.strays, service=service, tenant=tenant, upto=after.get(service, 0))
        if row["rows"]:
            found[service] = row["rows"]
    return found


async def count_unsealed(connection: Connection, tenant: str, passed: Mapping[str, int]) -> tuple[int, int]:
    """Return how many rows of a tenant no round has passed yet, and the age of the oldest in seconds."""
    found = [
        (await connection.run(QUERIES.unsealed, service=service, tenant=tenant, after=passed.get(service, 0)))[0]
        for service in ORDER
    ]
    now = datetime.now(UTC)
    ages = [(now - row["oldest"]).total_seconds() for row in found if row["oldest"] is not None]
    return sum(row["rows"] for row in found), int(max(ages, default=0))


async def read_whole(connection: Connection) -> None:
    """Let a transaction that begins see one moment, and write nothing."""
    await connection.run(QUERIES.read_whole)


async def list_tenants(connection: Connection) -> list[str]:
    """Return every tenant that has a chain or a history."""
    return [row["tenant"] for row in await connection.run(QUERIES.tenants)]


async def each_token(connection: Connection, tenant: str) -> AsyncIterator[tuple[int, str]]:
    """Yield the tokens of a tenant's chain from the first on, each with the number under which it stands."""
    number = 0
    while found := await connection.run(QUERIES.checkpoints, tenant=tenant, after=number, most=PAGE):
        for row in found:
            yield row["number"], row["token"]
        number = found[-1]["number"]


@lru_cache(maxsize=256)
def _changes(service: str, names: tuple[str, ...]) -> Query:
    """Return the statement that lists a history's changes; the service stands in it, so that one table is planned."""
    conditions = " AND ".join(_CONDITIONS[name] for name in names)
    return query(
        "changes",
        "SELECT service, id, at, machine, subject_id, call_id, event, from_state, to_state, actor, message_id, detail"  # noqa: S608 - ours
        f" FROM read.history WHERE service = '{service}' AND id >= :floor AND id <= :last AND {conditions}"
        " ORDER BY id DESC LIMIT :most",
    )


async def load_changes(
    connection: Connection, service: str, filters: Mapping[str, Any], between: tuple[int, int], most: int
) -> list[Mapping[str, Any]]:
    """Return rows of one history with ids from the first number to before the second one, newest first.

    `filters` has a tenant, and what else rows must be: names of _CONDITIONS with their values.
    """
    floor, before = between
    if floor >= before:
        return []
    statement = _changes(service, tuple(filters))
    # Behind the last id there may be none that a bigint holds.
    return list(await connection.run(statement, **filters, floor=floor, last=before - 1, most=most))


@lru_cache(maxsize=32)
def _of(service: str, name: str) -> Query:
    return query(name, getattr(QUERIES, name).source.replace("{service}", service))


async def ends(connection: Connection, service: str) -> tuple[int, int]:
    """Return the smallest and the largest id of a history; (0, -1) where it is empty."""
    row = (await connection.run(_of(service, "ends")))[0]
    return row["lowest"], row["highest"]


async def first_since(connection: Connection, service: str, at: datetime, between: tuple[int, int]) -> int:
    """Return the id from which on a history's rows were written at or after `at`: times follow ids closely.

    `between` are the history's ends.
    """
    lowest, highest = between
    values = {"at": at, "lowest": max(lowest, 0), "highest": highest}
    return int((await connection.run(_of(service, "first_since"), **values))[0]["id"])


async def newest_before(connection: Connection, service: str, row_id: int) -> int | None:
    """Return the id of the last row of a history before this id; None where there is none."""
    found = await connection.run(_of(service, "newest_before"), id=row_id)
    return int(found[0]["id"]) if found else None


async def written_at(connection: Connection, service: str, row_id: int) -> datetime | None:
    """Return when the first row of a history from this id on was written; None where there is none."""
    found = await connection.run(_of(service, "written_at"), id=row_id)
    return found[0]["at"] if found else None
