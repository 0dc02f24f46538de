"""Wires the notifier."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Any

import structlog

from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalCommented,
    ApprovalOpened,
    ApprovalProgressed,
    KeyOffered,
    MailBounced,
    Message,
    RetryDelivery,
    RetryWebhookEvent,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallRefused,
)
from placet.contracts.topology import queue
from placet.domain.catalog import load_catalog
from placet.domain.channels import not_set_up
from placet.domain.directory import Directory
from placet.domain.directory_file import DirectoryFile
from placet.domain.duty_calendar import read_calendar
from placet.domain.yaml_source import read_yaml
from placet.notifier import handlers
from placet.notifier.announcing import Announcer
from placet.notifier.bounces import take_bounces
from placet.notifier.card_limits import Limits
from placet.notifier.channels import Channel
from placet.notifier.channels.apprise import AppriseChannel
from placet.notifier.channels.email.wiring import email_channel, email_duties
from placet.notifier.channels.log import LogChannel
from placet.notifier.channels.webhook import Poster, WebhookChannel
from placet.notifier.claiming import Manners, recount
from placet.notifier.falling_back import see_to_untold
from placet.notifier.key_codes import send_code
from placet.notifier.quiet_hours import hours_of
from placet.notifier.rules import IN_PLACE, told_at
from placet.notifier.send_round import LOOK_EVERY_SECONDS
from placet.notifier.settings import NotifierSettings
from placet.notifier.stops import tell_stops
from placet.notifier.store import Claims
from placet.notifier.webhook_endpoints import Endpoint, load_endpoints
from placet.notifier.webhook_worker import EventWorker
from placet.notifier.worker import Worker
from placet.runtime.consumer import Handler, Once
from placet.runtime.service import Duty, Runtime, Service, Subscription
from placet.runtime.work import UnitOfWork

log = structlog.get_logger(__name__)

#: Pause between two deletions of old events, in seconds.
FORGET_EVERY_SECONDS = 600.0


def build(settings: NotifierSettings, runtime: Runtime, directory: Callable[[], Directory] | None = None) -> Service:
    """Return the notifier, ready to run; raise RulebookInvalid where its people or tools cannot be read.

    `directory` says who is who now; without one, the people and groups of the rulebook count.
    """
    directory = directory or DirectoryFile(settings.rulebook, calendars=read_calendar).current
    endpoints, poster = load_endpoints(settings.notifier_webhooks), Poster()
    in_slack, resources = _slack(settings, directory)
    channels: dict[str, Channel] = {
        "log": LogChannel(),
        "webhook": WebhookChannel(endpoints, poster),
        "apprise": AppriseChannel(settings.notifier_apprise),
        **email_channel(settings, runtime.units, directory),
        **in_slack,
    }
    _tell_not_set_up(settings)
    announcer = Announcer(
        directory,
        load_catalog(settings.rulebook),
        settings.public_url,
        settings.notifier_language,
        has_channels=bool(endpoints or settings.notifier_apprise or {"email", "slack"} & channels.keys()),
        mail_window=timedelta(seconds=settings.email_wait_seconds),
    )
    manners = Manners(
        Limits(settings.notifier_waiting_max, settings.notifier_same_max),
        settings.notifier_cards_per_minute,
        partial(hours_of, directory=directory, tenants=settings.notifier_quiet_hours),
        joins=settings.email_wait_seconds > 0,
        told_at=lambda address: told_at(address, directory()),
    )
    posting = EventWorker(runtime.units, endpoints, poster)
    return Service(
        name="notifier",
        runtime=runtime,
        subscriptions=(
            Subscription(
                queue("notifier.approvals"),
                _handlers(announcer, endpoints, runtime.units, in_place=bool(IN_PLACE & set(channels))),
            ),
            Subscription(
                queue("notifier.commands"),
                _commands(announcer, partial(send_code, directory=directory, channels=channels)),
            ),
            Subscription(queue("notifier.bounces"), {MailBounced: take_bounces}),
        ),
        duties=(
            *_duties(runtime, channels, manners),
            *email_duties(settings, runtime.units),
            Duty("post-events", LOOK_EVERY_SECONDS, posting.run_once),
            Duty("forget-events", FORGET_EVERY_SECONDS, posting.forget),
        ),
        resources=tuple(resources),
        drain_seconds=settings.drain_seconds,
    )


def _slack(
    settings: NotifierSettings, directory: Callable[[], Directory]
) -> tuple[dict[str, Channel], list[AbstractAsyncContextManager[object]]]:
    """Return the Slack channel by its name with what it holds open; nothing where no team is set."""
    if not (slack := settings.slack()).teams:
        return {}, []
    # Imported where it is used: Slack's library is large.
    from placet.notifier.channels.slack import SlackChannel  # noqa: PLC0415

    channel = SlackChannel(slack, settings.slack_api_url, directory)
    return {"slack": channel}, [channel.running()]


def _tell_not_set_up(settings: NotifierSettings) -> None:
    """Say which channels rules name that nobody has set up: once, not for each approval."""
    found = not_set_up(read_yaml(settings.rulebook).data, settings.channels())
    if missing := sorted({name for _, name in found}):
        log.warning("notifier.channels_not_set_up", channels=missing, rulebook=str(settings.rulebook))


def _handlers(
    announcer: Announcer, endpoints: Mapping[str, Endpoint], units: UnitOfWork, *, in_place: bool
) -> dict[type[Message], Handler | Once]:
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
    if not announcer.has_channels and not endpoints:
        quietly = partial(handlers.hear_quietly, announcer=announcer, units=units, queue="notifier.approvals")
        return {kind: Once(partial(quietly, cards=draw), keyed=True) for kind, draw in cards.items()}
    return dict.fromkeys(cards, partial(handlers.hear, cards=cards, announcer=announcer, endpoints=endpoints))


def _commands(announcer: Announcer, send: Callable[..., Awaitable[None]]) -> dict[type[Message], Handler | Once]:
    """Return what is done with what people ask of the notifier; `send` sends codes."""
    each: dict[type[Message], Callable[..., Awaitable[None]]] = {
        RetryDelivery: handlers.retry,
        RetryWebhookEvent: handlers.retry_event,
        ApprovalCommented: partial(handlers.comment, announcer=announcer),
        KeyOffered: send,
    }
    return dict.fromkeys(each, partial(handlers.command, handlers=each))


def _duties(runtime: Runtime, channels: dict[str, Channel], manners: Manners) -> Iterator[Duty]:
    """Yield one duty for each kind of channel and for channels this installation does not have, and those behind."""
    yield Duty("see-to-untold", LOOK_EVERY_SECONDS, partial(see_to_untold, runtime.units))
    yield Duty("recount-cards", LOOK_EVERY_SECONDS, partial(recount, runtime.units, manners.limits))
    if IN_PLACE & channels.keys():
        yield Duty("tell-stops", LOOK_EVERY_SECONDS, partial(tell_stops, runtime.units))
    kinds = tuple(channels)
    claims = {kind: Claims((kind,), among=True) for kind in kinds} | {"unknown": Claims(kinds)}
    for kind, mine in claims.items():
        worker = Worker(runtime.units, channels, claims=mine, manners=manners)
        yield Duty(f"send-{kind}", LOOK_EVERY_SECONDS, worker.run_once)
