"""Socket Mode: the gateway connects to Slack, so that Slack need not reach the gateway. Any replica may be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_sdk.web.async_client import AsyncWebClient

from placet.gateway.slack.door import SlackDoor

log = structlog.get_logger(__name__)

#: Pauses between tries to connect, in seconds.
PAUSE_SECONDS, PAUSE_MAX_SECONDS = 1.0, 60.0


@asynccontextmanager
async def socket_mode(door: SlackDoor) -> AsyncIterator[None]:
    """Stay connected to Slack while the block runs; Slack being away stops nothing else."""
    token = door.slack.app_token.get_secret_value()
    handler = AsyncSocketModeHandler(door.app, token, web_client=AsyncWebClient(base_url=door.api_url))
    connecting = asyncio.create_task(_connect(handler))
    try:
        yield
    finally:
        connecting.cancel()
        with suppress(asyncio.CancelledError):
            await connecting
        await handler.close_async()  # type: ignore[no-untyped-call]


async def _connect(handler: AsyncSocketModeHandler) -> None:
    """Connect for the first time; from then on the SDK connects again by itself."""
    pause = PAUSE_SECONDS
    while True:
        try:
            await handler.connect_async()  # type: ignore[no-untyped-call]
        except Exception as error:  # noqa: BLE001 - whatever it is, the next try may do better
            log.warning("slack.socket_waiting", error=type(error).__name__, again_in_seconds=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX_SECONDS)
        else:
            log.info("slack.socket_connected")
            return
