"""Emergency stops: the rows that executors read when they claim calls.

A stop counts from its commit on, everywhere: executors read it in the statement that claims. Both of its ends are
signed, so that a stop that somebody lifted in the database by hand is told from one that an administrator lifted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.contracts.signing import BadSignature, Purpose, Signer, Verifier
from placet.gateway.store.paging import Cursor
from placet.gateway.tables import API_KEYS, CONVERSATIONS, STOPS
from placet.runtime.sql import Connection

Row = Mapping[str, Any]

_SAID = ("stop_id", "tenant", "tool", "agent", "reason", "by_another", "by_house", "stopped_by")
_LIFTED = ("stop_id", "resumed_by", "resume_reason")
#: How the pseudonym of a person begins who was erased.
ERASED = "person:erased-"


@dataclass(frozen=True, slots=True)
class Stopping:
    """What an administrator wants stopped; what is None covers all."""

    tenant: str | None
    tool: str | None
    agent: str | None
    reason: str
    #: Whether only somebody else may lift it.
    by_another: bool
    #: Whether the house wants it: then the house alone lifts it.
    by_house: bool


async def place(connection: Connection, signer: Signer, wanted: Stopping, *, by: str, at: datetime) -> Row:
    """Stop such calls at a time of the database's clock.

    Raises Refused (409) where the same is stopped already by a stop that is as hard to lift; beside a weaker one it
    stands, and each is lifted by itself.
    """
    row = {**asdict(wanted), "stop_id": new_id(), "stopped_at": at, "stopped_by": by}
    row["signature"] = signer.sign(Purpose.STOP, _claims(row, _SAID, "stopped_at"))
    c = STOPS.c
    same = (c[name].is_not_distinct_from(row[name]) for name in ("tenant", "tool", "agent"))
    as_strong = (c[name] for name in ("by_house", "by_another") if row[name])
    standing = sa.select(c.stop_id).where(c.resumed_at.is_(None), *same, *as_strong).exists()
    values = sa.select(*(sa.literal(row[name], c[name].type).label(name) for name in row)).where(~standing)
    placed = pg.insert(STOPS).from_select(list(row), values).on_conflict_do_nothing().returning(STOPS)
    made = (await connection.execute(placed)).mappings().one_or_none()
    if made is None:
        raise Refused("These calls are already stopped.", status=409, kind="already-stopped")
    return dict(made)


async def lift(connection: Connection, signer: Signer, stop: Row, *, by: str, reason: str, at: datetime) -> Row | None:
    """Resume these calls at a time of the database's clock; None where somebody was faster."""
    values = {"resumed_at": at, "resumed_by": by, "resume_reason": reason}
    claims = _claims({**stop, **values}, _LIFTED, "resumed_at")
    values["resume_signature"] = signer.sign(Purpose.RESUME, claims)
    c = STOPS.c
    lifted = sa.update(STOPS).where(c.stop_id == stop["stop_id"], c.resumed_at.is_(None)).values(values)
    row = (await connection.execute(lifted.returning(STOPS))).mappings().one_or_none()
    return dict(row) if row else None


async def find(connection: Connection, stop_id: str) -> Row | None:
    """Return one stop, whoever it is of."""
    row = (await connection.execute(sa.select(STOPS).where(STOPS.c.stop_id == stop_id))).mappings().one_or_none()
    return dict(row) if row else None


async def list_tenants(connection: Connection, asked: str) -> Sequence[str]:
    """Return the tenants that have API keys, and the one asked for where it has conversations."""
    keys, conversations = API_KEYS.c, CONVERSATIONS.c
    has_some = sa.select(conversations.tenant).where(conversations.tenant == asked).limit(1)
    return (await connection.execute(sa.select(keys.tenant).union(has_some))).scalars().all()


async def has_agent(connection: Connection, tenant: str, agent: str) -> bool:
    """Tell whether any conversation of a tenant is with an agent of this name."""
    c = CONVERSATIONS.c
    found = sa.select(sa.select(c.agent).where(c.tenant == tenant, c.agent == agent).exists())
    return bool((await connection.execute(found)).scalar_one())


async def list_stops(
    connection: Connection, tenant: str | None, *, active: bool | None, after: Cursor | None, limit: int
) -> Sequence[Row]:
    """Return the stops that cover calls of a tenant (None: of any), the newest first."""
    c = STOPS.c
    statement = sa.select(STOPS).order_by(c.stopped_at.desc(), c.stop_id.desc()).limit(limit)
    if tenant is not None:
        statement = statement.where(sa.or_(c.tenant.is_(None), c.tenant == tenant))
    if active is not None:
        statement = statement.where(c.resumed_at.is_(None) if active else c.resumed_at.is_not(None))
    if after is not None:
        statement = statement.where(sa.tuple_(c.stopped_at, c.stop_id) < (after.at, after.id))
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


def genuine(verifier: Verifier, row: Row) -> bool | None:
    """Tell whether the gateway itself wrote all that a stop's row says, its end included.

    None where a signature went with somebody who was erased, and nothing else is wrong.
    """
    halves = [_holds(verifier, row, Purpose.STOP, ("signature", "stopped_by"), _SAID, "stopped_at")]
    if row["resumed_at"] is not None:
        names = ("resume_signature", "resumed_by")
        halves.append(_holds(verifier, row, Purpose.RESUME, names, _LIFTED, "resumed_at"))
    elif row["resume_signature"] is not None:
        return False
    return False if False in halves else None if None in halves else True


def _holds(
    verifier: Verifier, row: Row, purpose: Purpose, names: tuple[str, str], said: Sequence[str], at: str
) -> bool | None:
    """Tell whether one half of a stop's row is as it was signed; None where its maker was erased."""
    signature, person = (row[name] for name in names)
    if not signature and person.startswith(ERASED):
        return None
    try:
        signed = verifier.verify(purpose, signature)
    except BadSignature:
        return False
    return {name: value for name, value in signed.items() if name != "iss"} == _claims(row, said, at)


def _claims(row: Row, names: Sequence[str], at: str) -> dict[str, Any]:
    moment: datetime = row[at]
    return {**{name: row[name] for name in names}, at: moment.timestamp()}
