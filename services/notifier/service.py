"""Wires the notifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from services.notifier import handlers
from services.notifier.announcing import Announcer
from services.notifier.bounces import give_up, take_bounces
from services.notifier.channels import Channel
from services.notifier.channels.apprise import AppriseChannel
from services.notifier.channels.email.wiring import email_channel, email_duties
from services.notifier.channels.log import LogChannel
from services.notifier.channels.webhook import WebhookChannel
from services.notifier.claiming import Manners, recount
from services.notifier.crowds import Limits
from services.notifier.falling_back import see_to_untold
from services.notifier.peace import hours_of
from services.notifier.rules import IN_PLACE
from services.notifier.settings import NotifierSettings
from services.notifier.store import Claims
from services.notifier.webhooks.endpoints import Endpoint, load_endpoints
from services.notifier.webhooks.posting import Poster
from services.notifier.webhooks.worker import EventWorker
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
    RetryWebhookEvent,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallRefused,
)
from shared.service import Duty, Runtime, Service, Subscription
from shared.topology import queue

#: Pause between two deletions of old events, in seconds.
FORGET_EVERY_SECONDS = 600.0


def build(settings: NotifierSettings, runtime: Runtime, directory: Callable[[], Directory] | None = None) -> Service:
    """Return the notifier, ready to run; raise RulebookInvalid where its people or tools cannot be read.

    `directory` says who is who now; without one, the people and groups of the rulebook count.
    """
    directory = directory or DirectoryFile(settings.rulebook).current
    announcer = Announcer(directory, load_catalog(settings.rulebook), settings.public_url, settings.notifier_language)
    endpoints, poster = load_endpoints(settings.notifier_webhooks), Poster()
    channels: dict[str, Channel] = {
        "log": LogChannel(),
        "webhook": WebhookChannel(endpoints, poster),
        "apprise": AppriseChannel(settings.notifier_apprise),
        **email_channel(settings, runtime.units),
    }
    resources: list[AbstractAsyncContextManager[object]] = []
    if (slack := settings.slack()).teams:
        # Imported where it is used: Slack's library is large.
        from services.notifier.channels.slack import SlackChannel  # noqa: PLC0415

        channels["slack"] = in_slack = SlackChannel(slack, settings.slack_api_url, directory)
        resources.append(in_slack.running())
    manners = Manners(
        Limits(settings.notifier_waiting_max, settings.notifier_same_max),
        settings.notifier_cards_per_minute,
        partial(hours_of, directory=directory, tenants=settings.notifier_quiet_hours),
    )
    posting = EventWorker(runtime.units, endpoints, poster)
    return Service(
        name="notifier",
        runtime=runtime,
        subscriptions=(
            Subscription(
                queue("notifier.approvals"), _handlers(announcer, endpoints, in_place=bool(IN_PLACE & set(channels)))
            ),
            Subscription(
                queue("notifier.commands"),
                {RetryDelivery: handlers.retry, RetryWebhookEvent: handlers.retry_event},
            ),
            Subscription(queue("notifier.bounces"), {MailBounced: Together(take_bounces)}),
        ),
        duties=(
            *_duties(settings, runtime, channels, manners),
            *email_duties(settings, runtime.units, give_up),
            Duty("post-events", settings.notifier_every_seconds, posting.run_once),
            Duty("forget-events", FORGET_EVERY_SECONDS, posting.forget),
        ),
        resources=tuple(resources),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )


def _handlers(
    announcer: Announcer, endpoints: Mapping[str, Endpoint], *, in_place: bool
) -> dict[type[Message], Together[Any]]:
    """Return what is done with each message: cards first, and then what webhooks hear of it.

    `in_place`: whether there is a channel whose cards can say how far a call is.
    """
    cards: dict[type[Message], Any] = {
        ApprovalOpened: handlers.announce,
        ApprovalProgressed: handlers.redraw,
        ApprovalClosed: handlers.close,
        ToolCallProgressed: handlers.advance if in_place else None,
        ToolCallFinished: handlers.finish,
        ToolCallRefused: None,
    }
    return {
        kind: Together(partial(handlers.hear, cards=draw, announcer=announcer, endpoints=endpoints))
        for kind, draw in cards.items()
    }


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
