"""Mailed links: found by the hash of their token in the notifier's view, and used up here, once."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.gateway.links import SENT_SECONDS, Link, Use
from services.gateway.tables import LinkUseRow
from shared.database import table_of
from shared.messages import DecisionClaims
from shared.sql import Connection

_USES = table_of(LinkUseRow)
_COLUMNS = "token_hash tenant approval_id person digest code_hash expires_at"
_LINKS = sa.table("links", *(sa.column(name) for name in _COLUMNS.split()), schema="read")
_MAILS = sa.table("mails", sa.column("mail_id"), sa.column("tenant"), schema="read")
_HASH: sa.BindParameter[str] = sa.bindparam("token_hash", type_=sa.Text)

_FIND = sa.select(
    *(_LINKS.c[name] for name in _COLUMNS.split() if name != "expires_at"),
    # What was mailed before links had codes has none, and is no longer good.
    sa.and_(_LINKS.c.expires_at > sa.func.now(), _LINKS.c.code_hash != "").label("alive"),
).where(_LINKS.c.token_hash == _HASH)
_FIND_MAIL = sa.select(sa.literal(1)).where(
    _MAILS.c.tenant == sa.bindparam("tenant", type_=sa.Text), _MAILS.c.mail_id == sa.bindparam("mail_id", type_=sa.Text)
)


#: The answer that the approval service has stored to the decision of a use. As text, because a statement's own names do
#: not reach into what ON CONFLICT asks.
_ANSWER = (
    "EXISTS (SELECT 1 FROM read.decisions AS answer WHERE answer.decision_id = link_uses.decision_id"
    " AND answer.tenant = link_uses.tenant AND {how})"
)
_ACCEPTED, _REFUSED = (_ANSWER.format(how=f"answer.outcome {is_} 'accepted'") for is_ in ("=", "<>"))
#: Whether a use is one no more: its decision was refused, or nobody has heard of it for so long that it is lost.
_IS_FREE: sa.ColumnElement[bool] = sa.literal_column(
    f"(link_uses.outcome = 'refused' OR (link_uses.outcome = 'sent' AND NOT {_ACCEPTED}"
    f" AND ({_REFUSED} OR link_uses.used_at < now() - interval '{SENT_SECONDS} seconds')))",
    sa.Boolean,
)
_COUNTED: sa.ColumnElement[bool] = sa.literal_column(f"(link_uses.outcome = 'counted' OR {_ACCEPTED})", sa.Boolean)
_FIND_USE = sa.select(_USES.c.verb, _USES.c.used_at, _COUNTED.label("counted")).where(
    _USES.c.token_hash == _HASH, sa.not_(_IS_FREE)
)


def _take_statement() -> Any:
    """Use a link; no row comes back where it was used before for what counted, or may have counted."""
    names = ("token_hash", "tenant", "approval_id", "person", "verb", "decision_id")
    insert = pg.insert(_USES).values({name: sa.bindparam(name, type_=sa.Text) for name in names} | {"outcome": "sent"})
    again = {name: insert.excluded[name] for name in ("verb", "decision_id", "outcome", "used_at")}
    used = insert.on_conflict_do_update(index_elements=["token_hash"], set_=again, where=_IS_FREE)
    return used.returning(_USES.c.token_hash)


_TAKE = _take_statement()
_SETTLE = (
    sa.update(_USES)
    .where(_USES.c.decision_id == sa.bindparam("decision", type_=sa.Text), _USES.c.outcome == "sent")
    .values(outcome=sa.bindparam("became", type_=sa.Text))
)


async def find_link(connection: Connection, token_hash: str) -> Link | None:
    """Return the link whose token has this hash."""
    row = (await connection.execute(_FIND, {"token_hash": token_hash})).mappings().first()
    return None if row is None else Link(**row)


async def find_use(connection: Connection, token_hash: str) -> Use | None:
    """Return what a link was used for; None where nothing was decided with it that counts, or may still count."""
    row = (await connection.execute(_FIND_USE, {"token_hash": token_hash})).first()
    return None if row is None else Use(row.verb, row.used_at, counted=row.counted)


async def take_link(connection: Connection, token_hash: str, claims: DecisionClaims) -> bool:
    """Use a link up for a decision, in the transaction that sends it; tell whether it could be used."""
    values = claims.model_dump(include={"tenant", "approval_id", "person", "verb", "decision_id"})
    taken = await connection.execute(_TAKE, {"token_hash": token_hash, **values})
    return taken.first() is not None


async def settle_link(connection: Connection, decision_id: str, *, counted: bool) -> None:
    """Note what became of the decision that a link was used for; where it did not count, the link is good again."""
    became = "counted" if counted else "refused"
    await connection.execute(_SETTLE, {"decision": decision_id, "became": became})


async def mail_is_of(connection: Connection, tenant: str, mail_id: str) -> bool:
    """Tell whether a mail about approvals of this tenant has this id."""
    found = await connection.execute(_FIND_MAIL, {"tenant": tenant, "mail_id": mail_id})
    return found.first() is not None
