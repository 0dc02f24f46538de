"""Wires the channel `email` from its settings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from services.notifier.channels.email import DigestTerms, EmailChannel, Post
from services.notifier.channels.email.digests import Digests, GiveUp
from services.notifier.channels.email.letters import Letterhead
from services.notifier.channels.email.links import Links
from services.notifier.channels.email.smtp import Relay
from services.notifier.settings import NotifierSettings
from shared.service import Duty
from shared.work import UnitOfWork

#: Pause between two looks for mails that are old enough to be forgotten, in seconds.
FORGET_EVERY_SECONDS = 3600.0


def email_channel(settings: NotifierSettings, units: UnitOfWork) -> dict[str, EmailChannel]:
    """Return the channel by its kind; nothing where this installation sends no mails."""
    post = _post(settings)
    return {} if post is None else {"email": EmailChannel(units, post, _terms(settings))}


def email_duties(settings: NotifierSettings, units: UnitOfWork, give_up: GiveUp) -> Iterator[Duty]:
    """Yield what is to be done about mails beside sending cards."""
    post = _post(settings)
    if post is not None:
        digests = Digests(units, post, _terms(settings), give_up)
        yield Duty("send-digests", settings.notifier_every_seconds, digests.run_once)
        yield Duty("forget-mails", FORGET_EVERY_SECONDS, digests.forget_once)


def _terms(settings: NotifierSettings) -> DigestTerms:
    return DigestTerms(settings.email_digest_after, timedelta(seconds=settings.email_digest_seconds))


def _post(settings: NotifierSettings) -> Post | None:
    if not (settings.email_host and settings.email_from):
        return None
    relay = Relay(
        settings.email_host,
        settings.email_port,
        settings.email_security,
        settings.email_username,
        settings.email_password,
        settings.email_ca_file,
        settings.email_timeout_seconds,
    )
    head = Letterhead(settings.email_from, settings.email_reply_to, arguments=settings.email_arguments)
    return Post(relay, head, Links(settings.public_url, settings.email_link_seconds), settings.email_bounces)
