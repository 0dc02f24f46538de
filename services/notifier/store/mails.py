"""Mails and their links: who was sent what, so that links can be told, and bounces find their way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.notifier.cards import Address
from placet.notifier.tables import LINKS, MAILS
from placet.runtime.sql import records
from placet.runtime.work import Work

_TIME = sa.TIMESTAMP(timezone=True)


@dataclass(frozen=True, slots=True)
class Mailed:
    """One approval in a mail."""

    mail_id: str
    tenant: str
    approval_id: str
    address: Address


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link that a mail will have in it."""

    token_hash: str
    mail_id: str
    tenant: str
    approval_id: str
    #: `person:<id>`.
    person: str
    digest: str
    #: Of the code that the mail says beside it.
    code_hash: str
    revision: int
    #: It lasts so long, or until the deadline where that is sooner.
    seconds: float
    deadline: datetime | None


_MAILED = ("mail_id", "approval_id", "tenant", "channel", "recipient", "person")
_LINKED: dict[str, Any] = {
    **dict.fromkeys(("token_hash", "mail_id", "tenant", "approval_id", "person", "digest", "code_hash"), sa.Text),
    "revision": sa.Integer,
}


def _text(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.Text)


def _link_statement() -> sa.Insert:
    brought = records("links", {**_LINKED, "seconds": sa.Float, "deadline": _TIME})
    lasts = sa.bindparam("now", type_=_TIME) + sa.func.make_interval(0, 0, 0, 0, 0, 0, brought.c.seconds)
    source = sa.select(*(brought.c[name] for name in _LINKED), sa.func.least(lasts, brought.c.deadline))
    return sa.insert(LINKS).from_select([*_LINKED, "expires_at"], source)


def _add_statement() -> sa.Insert:
    brought = records("mails", dict.fromkeys(_MAILED, sa.Text))
    source = sa.select(*(brought.c[name] for name in _MAILED), sa.bindparam("now", type_=_TIME))
    # The same mail tried again is the same rows.
    return pg.insert(MAILS).from_select([*_MAILED, "made_at"], source).on_conflict_do_nothing()


_ADD = _add_statement()
_LINK = _link_statement()
_OF = sa.select(*(MAILS.c[name] for name in ("approval_id", "channel", "recipient", "person"))).where(
    MAILS.c.mail_id == _text("mail_id"), MAILS.c.tenant == _text("tenant")
)
_WAITING = sa.text(
    "SELECT count(*) FROM notifier.deliveries WHERE pending AND state IN ('due', 'kept', 'sent')"
    " AND tenant = :tenant AND channel = :channel AND recipient = :recipient AND person = :person"
)
_BEFORE = sa.bindparam("before", type_=_TIME)


def _forget(table: sa.Table, at: sa.ColumnElement[datetime]) -> sa.Delete:
    """Delete old rows, but for those that somebody else is deleting."""
    keys = tuple(table.primary_key.columns)
    old = sa.select(*keys).where(at < _BEFORE).with_for_update(skip_locked=True)
    return sa.delete(table).where(sa.tuple_(*keys).in_(old))


_FORGET = (_forget(LINKS, LINKS.c.expires_at), _forget(MAILS, MAILS.c.made_at))


async def add_mail(work: Work, mail: Mailed, link: NewLink | None) -> None:
    """Store what a mail will say before it is sent: a link in it works from the moment that somebody can have it."""
    await add_joint_mail(work, [mail])
    if link is not None:
        row = asdict(link) | {"deadline": link.deadline and link.deadline.isoformat()}
        await work.connection.execute(_LINK, {"links": [row], "now": work.now})


async def add_joint_mail(work: Work, mails: Sequence[Mailed]) -> None:
    """Store which approvals one mail will be about, before it is sent: a bounce of it finds all of them."""
    brought = [asdict(each) | asdict(each.address) for each in mails]
    await work.connection.execute(_ADD, {"mails": brought, "now": work.now})


async def approvals_in(work: Work, tenant: str, mail_id: str) -> list[tuple[str, Address]]:
    """Return the approvals that a mail was about, each with the address of its delivery."""
    found = await work.connection.execute(_OF, {"mail_id": mail_id, "tenant": tenant})
    return [(row.approval_id, Address(row.channel, row.recipient, row.person)) for row in found]


async def forget(work: Work, age: timedelta) -> int:
    """Delete what was over longer ago than `age`; return how many rows."""
    values = {"before": work.now - age}
    return sum([(await work.connection.execute(statement, values)).rowcount for statement in _FORGET])


async def count_waiting(work: Work, tenant: str, address: Address) -> int:
    """Return how many calls wait that somebody is told about at an address, those that are kept back among them."""
    values = {"tenant": tenant, **{name: getattr(address, name) for name in ("channel", "recipient", "person")}}
    return int((await work.connection.execute(_WAITING, values)).scalar_one())
