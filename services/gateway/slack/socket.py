"""Socket Mode: the gateway connects to Slack, so that Slack need not reach the gateway. Any replica may be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from math import inf
from time import monotonic
from typing import Any

import structlog
from prometheus_client import Gauge
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from placet.gateway.slack.acting import word_of
from placet.gateway.slack.door import SlackDoor
from placet.runtime.retry_after import asked_seconds

log = structlog.get_logger(__name__)

#: Pauses between tries to connect, in seconds.
PAUSE_SECONDS, PAUSE_MAX_SECONDS = 1.0, 60.0
#: Longest wait that Slack is taken at its word for, in seconds.
WAIT_MAX_SECONDS = 900.0
#: How long one try may take, in seconds: Slack's tickets are good for no longer.
TRY_SECONDS = 30
#: How often a socket is asked whether it is still there, in seconds; four times without an answer it is not.
PING_SECONDS = 10

CONNECTED = Gauge("placet_slack_socket_connected", "1: this gateway hears Slack by Socket Mode; 0: it does not.")


@asynccontextmanager
async def socket_mode(door: SlackDoor) -> AsyncIterator[None]:
    """Stay connected to Slack while the block runs; Slack being away stops nothing else."""
    handler = _Handler(door)
    connecting = asyncio.create_task(handler.connect_async())  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        connecting.cancel()
        with suppress(asyncio.CancelledError):
            await connecting
        await handler.close_async()  # type: ignore[no-untyped-call]
        CONNECTED.set(0)


class _Socket(SocketModeClient):
    """The SDK's client, with a ticket of its own for each try to connect.

    The SDK's `connect` takes the one it has again and again, which is used up by its first try, and logs it each time.
    """

    #: How long the next wait is, and since when there is a socket; seconds, these by the monotonic clock.
    _pause, _since = PAUSE_SECONDS, -inf

    async def connect(self) -> None:
        """Connect, however long that takes."""
        CONNECTED.set(0)
        self.auto_reconnect_enabled = False
        if monotonic() - self._since < PAUSE_MAX_SECONDS:
            # Slack closes at once what is one socket too many.
            await self._wait("closed at once")
        else:
            self._pause = PAUSE_SECONDS
        while not self.closed:
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    session = await self._try()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next try may do better
                if not self.closed:
                    await self._wait(_kind_of(error), _asked_to_wait(error))
            else:
                self._begin(session)
                return

    async def _wait(self, why: str, at_least: float = 0.0) -> None:
        """Wait, longer each time, until a socket has lasted."""
        seconds = max(self._pause, at_least)
        log.warning("slack.socket_waiting", error=why, again_in_seconds=seconds)
        self._pause = min(self._pause * 2, PAUSE_MAX_SECONDS)
        await asyncio.sleep(seconds)

    async def connect_to_new_endpoint(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - the SDK's
        """Connect anew where the socket is gone, or Slack says that it will be."""
        had = self.current_session
        async with self.connect_operation_lock:
            # Of two that want it at once, the second finds that it was done.
            if self.current_session is had and (force or not await self.is_connected()):
                await self.connect()

    async def _try(self) -> Any:
        """Return a new socket, of a new ticket."""
        if self.current_session is not None:
            # Slack counts it. Where it is broken it may not close, which is no reason to stay without one.
            with suppress(Exception):
                await self.current_session.close()
        ticket = await self.web_client.apps_connections_open(app_token=self.app_token)
        return await self.aiohttp_client_session.ws_connect(
            str(ticket["url"]), autoping=False, heartbeat=self.ping_interval, proxy=self.proxy
        )

    def _begin(self, session: Any) -> None:
        """Hear what comes by a new socket, and watch it."""
        self.current_session, self.stale, self.last_ping_pong_time = session, False, None
        self.auto_reconnect_enabled, self._since = self.default_auto_reconnect_enabled, monotonic()
        for task in (self.current_session_monitor, self.message_receiver):
            if task is not None:
                task.cancel()
        self.current_session_monitor = asyncio.ensure_future(self.monitor_current_session())
        self.message_receiver = asyncio.ensure_future(self.receive_messages())
        CONNECTED.set(1)
        log.info("slack.socket_connected")


class _Handler(AsyncSocketModeHandler):
    """Bolt's handler of what comes in, over that client."""

    def __init__(self, door: SlackDoor) -> None:
        # Bolt's own would make the SDK's client.
        self.app, self.app_token = door.app, door.slack.app_token.get_secret_value()
        self.client = _Socket(
            self.app_token,
            logger=door.app.logger,
            web_client=AsyncWebClient(base_url=door.api_url),
            ping_interval=PING_SECONDS,
        )
        self.client.socket_mode_request_listeners.append(self.handle)  # type: ignore[arg-type]


def _kind_of(error: Exception) -> str:
    """Return what went wrong, in Slack's word where it has one; never the error's text, which may hold the ticket."""
    status = getattr(error, "status", "")
    return word_of(error) or f"{type(error).__name__} {status}".rstrip()


def _asked_to_wait(error: Exception) -> float:
    """Return how long Slack wants to be left alone, in seconds; 0 where it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    asked = asked_seconds(str(headers.get("Retry-After", "")), datetime.now(UTC))
    return min(asked or 0.0, WAIT_MAX_SECONDS)
