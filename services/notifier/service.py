"""Wires the notifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from services.notifier import handlers
from services.notifier.announcing import Announcer
from services.notifier.channels import Channel
from services.notifier.channels.log import LogChannel
from services.notifier.settings import NotifierSettings
from services.notifier.store import Claims
from services.notifier.worker import Worker
from shared.catalog import load_catalog
from shared.consumer import Together
from shared.directory import Directory
from shared.directory_file import DirectoryFile
from shared.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed, Message, ToolCallFinished
from shared.service import Duty, Runtime, Service, Subscription
from shared.topology import queue


def build(settings: NotifierSettings, runtime: Runtime, directory: Callable[[], Directory] | None = None) -> Service:
    """Return the notifier, ready to run; raise RulebookInvalid where its people or tools cannot be read.

    `directory` says who is who now; without one, the people and groups of the rulebook count.
    """
    directory = directory or DirectoryFile(settings.rulebook).current
    announcer = Announcer(directory, load_catalog(settings.rulebook), settings.public_url, settings.notifier_language)
    channels: dict[str, Channel] = {"log": LogChannel()}
    messages: dict[type[Message], Together[Any]] = {
        ApprovalOpened: Together(partial(handlers.announce, announcer=announcer)),
        ApprovalProgressed: Together(partial(handlers.redraw, announcer=announcer)),
        ApprovalClosed: Together(partial(handlers.close, announcer=announcer)),
        ToolCallFinished: Together(partial(handlers.finish, announcer=announcer)),
    }
    return Service(
        name="notifier",
        runtime=runtime,
        subscriptions=(Subscription(queue("notifier.approvals"), messages),),
        duties=tuple(_duties(settings, runtime, channels)),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )


def _duties(settings: NotifierSettings, runtime: Runtime, channels: dict[str, Channel]) -> Iterator[Duty]:
    """Yield one duty for each kind of channel, and one for cards whose channel this installation does not have."""
    kinds = tuple(channels)
    claims = {kind: Claims((kind,), among=True) for kind in kinds} | {"unknown": Claims(kinds)}
    for kind, mine in claims.items():
        worker = Worker(runtime.units, channels, claims=mine)
        yield Duty(f"send-{kind}", settings.notifier_every_seconds, worker.run_once)
