"""A notifier that mails through a real SMTP server, and the people it mails to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from placet.domain.directory import Directory, Person
from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from tests.support.house import Replica, a_replica
from tests.support.smtp_server import MailServer

ADA, BEN = "ada@example.org", "ben@example.org"
PEOPLE = Directory(
    people={
        "ada": Person("ada", "Ada", emails=(ADA,)),
        "ben": Person("ben", "Ben", emails=(BEN,)),
        "odd": Person("odd", emails=("odd,eve@example.org",)),
    },
    groups={"finance": frozenset({"ada", "ben"})},
)
FINANCE = {"approvers": ["group:finance"]}
ONLY_ADA = {"approvers": ["person:ada"]}

DELIVERIES = "SELECT recipient, state, error FROM notifier.deliveries ORDER BY recipient"
#: Whatever waits for its next try, or for a rest of its channel to end, is due now.
HURRY = (
    "UPDATE notifier.deliveries SET due_at = now() - interval '1 second'",
    "DELETE FROM notifier.paces",
)


@asynccontextmanager
async def a_mailer(
    url: str, server: MailServer, directory: Directory = PEOPLE, *, empty: bool = True, **settings: Any
) -> AsyncIterator[Replica]:
    """Run a notifier that hands its mails to `server`; one that is not `empty` finds what an earlier one left."""
    values: dict[str, Any] = {
        "email_host": "127.0.0.1",
        "email_port": server.port,
        "email_security": "none",
        "email_from": "placet@example.org",
        "email_bounces": "bounces@example.org",
        "public_url": "https://placet.example",
        "notifier_cards_per_minute": {},
        "email_wait_seconds": 0,
    }
    wired = partial(build, NotifierSettings(**(values | settings)), directory=lambda: directory)
    async with a_replica("notifier", url, wired) as replica:
        if empty:
            await replica.empty_tables()
        yield replica


async def post(replica: Replica) -> None:
    """Send every mail that is due."""
    duties = {duty.name: duty for duty in replica.service.duties}
    await duties["send-email"].run_once()


async def hurry(replica: Replica) -> None:
    """Let whatever waits be due, and send it."""
    for statement in HURRY:
        await replica.execute(statement)
    await post(replica)
