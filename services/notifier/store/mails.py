"""Mails and their links: who was sent what, so that links can be told, and bounces find their way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.notifier.cards import Address
from services.notifier.tables import DigestItemRow, LinkRow, MailRow
from shared.database import table_of
from shared.sql import records
from shared.work import Work

MAILS = table_of(MailRow)
LINKS = table_of(LinkRow)
_ITEMS = table_of(DigestItemRow)
_TIME = sa.TIMESTAMP(timezone=True)


@dataclass(frozen=True, slots=True)
class Mailed:
    """One approval in a mail."""

    mail_id: str
    tenant: str
    approval_id: str
    address: Address
    #: Whether the mail asks somebody, and about this approval alone.
    asked: bool


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


_MAILED = dict.fromkeys(("mail_id", "approval_id", "tenant", "channel", "recipient", "person"), sa.Text)
_LINKED: dict[str, Any] = {
    **dict.fromkeys(("token_hash", "mail_id", "tenant", "approval_id", "person", "digest", "code_hash"), sa.Text),
    "revision": sa.Integer,
}


def _text(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.Text)


def _add_statement() -> sa.Insert:
    brought = records("mails", {**_MAILED, "asked": sa.Boolean})
    names = [*_MAILED, "asked"]
    source = sa.select(*(brought.c[name] for name in names), sa.bindparam("now", type_=_TIME))
    # The same mail tried again is the same row.
    return pg.insert(MAILS).from_select([*names, "made_at"], source).on_conflict_do_nothing()


def _link_statement() -> sa.Insert:
    brought = records("links", {**_LINKED, "seconds": sa.Float, "deadline": _TIME})
    lasts = sa.bindparam("now", type_=_TIME) + sa.func.make_interval(0, 0, 0, 0, 0, 0, brought.c.seconds)
    source = sa.select(*(brought.c[name] for name in _LINKED), sa.func.least(lasts, brought.c.deadline))
    return sa.insert(LINKS).from_select([*_LINKED, "expires_at"], source)


_LOCK = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(_text("place"), 0)))
_COUNT = sa.select(
    sa.func.count().filter(MAILS.c.mail_id != _text("mail_id")),
    sa.func.count().filter(MAILS.c.mail_id == _text("mail_id")),
).where(
    MAILS.c.tenant == _text("tenant"),
    MAILS.c.recipient == _text("recipient"),
    MAILS.c.asked,
    MAILS.c.made_at > sa.bindparam("since", type_=_TIME),
)
_ADD = _add_statement()
_LINK = _link_statement()
_OF = sa.select(*(MAILS.c[name] for name in ("approval_id", "channel", "recipient", "person"))).where(
    MAILS.c.mail_id == _text("mail_id"), MAILS.c.tenant == _text("tenant")
)
_BEFORE = sa.bindparam("before", type_=_TIME)
_FORGET: tuple[sa.Delete, ...] = (
    sa.delete(LINKS).where(LINKS.c.expires_at < _BEFORE),
    sa.delete(MAILS).where(MAILS.c.made_at < _BEFORE),
    sa.delete(_ITEMS).where(_ITEMS.c.changed_at < _BEFORE, _ITEMS.c.told_version == _ITEMS.c.version),
)


async def asked_lately(work: Work, tenant: str, recipient: str, mail_id: str, window: timedelta) -> int | None:
    """Return how many mails asked a recipient within the window, and let nobody else count until this is written.

    None where the mail itself was made before: it is only tried again.
    """
    await work.connection.execute(_LOCK, {"place": f"mails {tenant} {recipient}"})
    place = {"tenant": tenant, "recipient": recipient, "mail_id": mail_id, "since": work.now - window}
    others, same = (await work.connection.execute(_COUNT, place)).one()
    return None if same else int(others)


async def add_mail(work: Work, mails: Sequence[Mailed], links: Sequence[NewLink]) -> None:
    """Store what a mail will say before it is sent: a link in it works from the moment that somebody can have it."""
    brought = [
        {
            **{name: getattr(each, name) for name in ("mail_id", "tenant", "approval_id", "asked")},
            **_place(each.address),
        }
        for each in mails
    ]
    await work.connection.execute(_ADD, {"mails": brought, "now": work.now})
    if links:
        rows = [asdict(each) | {"deadline": each.deadline and each.deadline.isoformat()} for each in links]
        await work.connection.execute(_LINK, {"links": rows, "now": work.now})


async def approvals_in(work: Work, tenant: str, mail_id: str) -> list[tuple[str, Address]]:
    """Return the approvals that a mail was about, each with the address of its delivery."""
    found = await work.connection.execute(_OF, {"mail_id": mail_id, "tenant": tenant})
    return [(row.approval_id, Address(row.channel, row.recipient, row.person)) for row in found]


async def forget(work: Work, age: timedelta) -> int:
    """Delete what was over longer ago than `age`; return how many rows."""
    values = {"before": work.now - age}
    return sum([(await work.connection.execute(statement, values)).rowcount for statement in _FORGET])


def _place(address: Address) -> dict[str, Any]:
    return {"channel": address.channel, "recipient": address.recipient, "person": address.person}
