"""Mails and their links: who was sent what, so that links can be told, and bounces find their way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from placet.notifier.cards import Address
from placet.runtime.queries import load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__, "mails.sql")


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


async def add_mail(work: Work, mail: Mailed, link: NewLink | None) -> None:
    """Store what a mail will say before it is sent: a link in it works from the moment that somebody can have it."""
    await add_joint_mail(work, [mail])
    if link is not None:
        await work.run(QUERIES.add_link, **asdict(link), now=work.now)


async def add_joint_mail(work: Work, mails: Sequence[Mailed]) -> None:
    """Store which approvals one mail will be about, before it is sent: a bounce of it finds all of them."""
    await work.run(QUERIES.add, mails=[asdict(each) | asdict(each.address) for each in mails], now=work.now)


async def approvals_in(work: Work, tenant: str, mail_id: str) -> list[tuple[str, Address]]:
    """Return the approvals that a mail was about, each with the address of its delivery."""
    found = await work.run(QUERIES.approvals_in, mail_id=mail_id, tenant=tenant)
    return [(row["approval_id"], Address(row["channel"], row["recipient"], row["person"])) for row in found]


async def forget(work: Work, age: timedelta) -> None:
    """Delete what was over longer ago than `age`."""
    before = work.now - age
    await work.run(QUERIES.forget_links, before=before)
    await work.run(QUERIES.forget_mails, before=before)


async def count_waiting(work: Work, tenant: str, address: Address) -> int:
    """Return how many calls wait that somebody is told about at an address, those that are kept back among them."""
    return int((await work.run(QUERIES.count_waiting, tenant=tenant, **asdict(address)))[0][0])
