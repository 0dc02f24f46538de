"""Wires the notifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from services.notifier import handlers
from services.notifier.announcing import Announcer
from services.notifier.bounces import give_up, take_bounces
from services.notifier.channels import Channel
from services.notifier.channels.email import DigestTerms, EmailChannel, Post
from services.notifier.channels.email.digests import Digests
from services.notifier.channels.email.letters import Letterhead
from services.notifier.channels.email.links import Links
from services.notifier.channels.email.smtp import Relay
from services.notifier.channels.log import LogChannel
from services.notifier.claiming import Manners, recount
from services.notifier.crowds import Limits
from services.notifier.falling_back import see_to_untold
from services.notifier.peace import hours_of
from services.notifier.settings import NotifierSettings
from services.notifier.store import Claims
from services.notifier.worker import Worker
from shared.catalog import load_catalog
from shared.consumer import Together
from shared.directory import Directory
from shared.directory_file import DirectoryFile
from shared.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    MailBounced,
    Message,
    RetryDelivery,
    ToolCallFinished,
)
from shared.service import Duty, Runtime, Service, Subscription
from shared.topology import queue

#: Pause between two looks for mails that are old enough to be forgotten.
FORGET_EVERY_SECONDS = 3600.0


def build(settings: NotifierSettings, runtime: Runtime, directory: Callable[[], Directory] | None = None) -> Service:
    """Return the notifier, ready to run; raise RulebookInvalid where its people or tools cannot be read.

    `directory` says who is who now; without one, the people and groups of the rulebook count.
    """
    directory = directory or DirectoryFile(settings.rulebook).current
    announcer = Announcer(directory, load_catalog(settings.rulebook), settings.public_url, settings.notifier_language)
    channels: dict[str, Channel] = {"log": LogChannel()}
    duties: list[Duty] = []
    if (post := _post(settings)) is not None:
        terms = DigestTerms(settings.email_digest_after, timedelta(seconds=settings.email_digest_seconds))
        channels["email"] = EmailChannel(runtime.units, post, terms)
        digests = Digests(runtime.units, post, terms, give_up)
        duties.append(Duty("send-digests", settings.notifier_every_seconds, digests.run_once))
        duties.append(Duty("forget-mails", FORGET_EVERY_SECONDS, digests.forget_once))
    manners = Manners(
        Limits(settings.notifier_waiting_max, settings.notifier_same_max),
        settings.notifier_cards_per_minute,
        partial(hours_of, directory=directory, tenants=settings.notifier_quiet_hours),
    )
    messages: dict[type[Message], Together[Any]] = {
        ApprovalOpened: Together(partial(handlers.announce, announcer=announcer)),
        ApprovalProgressed: Together(partial(handlers.redraw, announcer=announcer)),
        ApprovalClosed: Together(partial(handlers.close, announcer=announcer)),
        ToolCallFinished: Together(partial(handlers.finish, announcer=announcer)),
    }
    return Service(
        name="notifier",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("notifier.approvals"), messages),
            Subscription(queue("notifier.commands"), {RetryDelivery: handlers.retry}),
            Subscription(queue("notifier.bounces"), {MailBounced: Together(take_bounces)}),
        ),
        duties=(*_duties(settings, runtime, channels, manners), *duties),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )


def _duties(
    settings: NotifierSettings, runtime: Runtime, channels: dict[str, Channel], manners: Manners
) -> Iterator[Duty]:
    """Yield one duty for each kind of channel and for channels this installation does not have, and those behind."""
    every = settings.notifier_every_seconds
    yield Duty("see-to-untold", every, partial(see_to_untold, runtime.units))
    yield Duty("recount-cards", every, partial(recount, runtime.units, manners.limits))
    kinds = tuple(channels)
    claims = {kind: Claims((kind,), among=True) for kind in kinds} | {"unknown": Claims(kinds)}
    for kind, mine in claims.items():
        worker = Worker(runtime.units, channels, claims=mine, manners=manners)
        yield Duty(f"send-{kind}", every, worker.run_once)


def _post(settings: NotifierSettings) -> Post | None:
    """Return what sending mails takes; None where this installation sends none."""
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
