"""Wires the channel `email` from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from placet.domain.directory import Directory
from placet.notifier.channels.email import EmailChannel, Post
from placet.notifier.channels.email.links import Links
from placet.notifier.channels.email.mail_templates import Letterhead
from placet.notifier.channels.email.smtp import Relay
from placet.notifier.settings import NotifierSettings
from placet.notifier.store.mails import forget
from placet.runtime.service import Duty
from placet.runtime.work import UnitOfWork

#: Pause between two looks for mails that are old enough to be forgotten, in seconds.
FORGET_EVERY_SECONDS = 3600.0
#: How long the relay may take, in seconds.
RELAY_SECONDS = 15.0
#: How long mails and links are kept after they are over.
KEEP = timedelta(days=30)


def email_channel(
    settings: NotifierSettings, units: UnitOfWork, directory: Callable[[], Directory]
) -> dict[str, EmailChannel]:
    """Return the channel by its kind; nothing where this installation sends no mails."""
    if not settings.sends_mails:
        return {}
    relay = Relay(
        settings.email_host,
        settings.email_port,
        settings.email_security,
        settings.email_username,
        settings.email_password,
        settings.email_ca_file,
        RELAY_SECONDS,
    )
    head = Letterhead(
        settings.email_from,
        settings.email_reply_to,
        arguments=settings.email_arguments,
        subject=settings.email_subject,
    )
    post = Post(relay, head, Links(settings.public_url, settings.email_link_seconds), settings.email_bounces)

    def zone_of(person: str) -> str:
        found = directory().people.get(person)
        return found.zone if found else "UTC"

    return {"email": EmailChannel(units, post, zone_of)}


def email_duties(settings: NotifierSettings, units: UnitOfWork) -> Iterator[Duty]:
    """Yield what is to be done about mails beside sending cards: forgetting old ones."""

    async def forget_old() -> int:
        async with units.begin() as work:
            await forget(work, KEEP)
        return 0

    if settings.sends_mails:
        yield Duty("forget-mails", FORGET_EVERY_SECONDS, forget_old)
