"""Socket Mode comes back: each try takes a ticket of its own, and the log and a gauge tell that Slack is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from structlog.testing import capture_logs

from placet.surfaces import slack as names
from tests.builders import a_call
from tests.integration.gateway.test_slack import DIRECTORY, Scene
from tests.support.gateway import an_approval_row, insert, open_house
from tests.support.slack_people import Door
from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, TEAM, Fault, SlackServer, slack_server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    """A workspace that a gateway may open sockets to."""
    async with slack_server() as made:
        yield made


@asynccontextmanager
async def a_gateway(url: str, folder: Path, slack: SlackServer) -> AsyncIterator[Scene]:
    """Run a gateway that reaches Slack by a socket alone."""
    known: dict[str, Any] = {"slack_bot_token": SecretStr(BOT_TOKEN), "slack_team": TEAM, "slack_tenant": "acme"}
    known |= {"directory": lambda: DIRECTORY, "slack_api_url": f"{slack.url}/api/"}
    async with open_house(url, folder, **known, slack_app_token=SecretStr(APP_TOKEN)) as house:
        yield Scene(house, slack, Door(slack), folder)


def opened(slack: SlackServer) -> int:
    """Return how many tickets were asked for."""
    return [method for method, _ in slack.calls].count("apps.connections.open")


def connected() -> float | None:
    """Return what the gauge says."""
    return REGISTRY.get_sample_value("placet_slack_socket_connected")


async def denied(scene: Scene, approval_id: str) -> int:
    """Press a button of a new card; return what was answered."""
    row = an_approval_row(a_call(), approval_id=approval_id)
    insert(scene.house.url, "approvals", **row)
    await scene.person().click(scene.card(row), names.DENY)
    return (await scene.person().submit(await scene.view(), {"reason": "no"})).status


async def test_a_handshake_that_fails_at_the_start_is_tried_with_another_ticket(
    gateway_database_url: str, tmp_path: Path, slack: SlackServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The next try has a ticket of its own; lines tell why it waits and for how long, and none tells a ticket."""
    slack.fail("apps.connections.open", Fault("ratelimited", retry_after=2))
    slack.fail("socket", Fault("page"))
    with capture_logs() as lines:
        async with a_gateway(gateway_database_url, tmp_path, slack) as scene:
            status = await denied(scene, "approval-1")
    told = [line for line in lines if line["event"].startswith("slack.socket")]
    assert (200, 2) == (status, opened(slack))
    assert [
        ("slack.socket_waiting", "ratelimited", 2.0),
        ("slack.socket_waiting", "WSServerHandshakeError 503", 2.0),
        ("slack.socket_connected", None, None),
    ] == [(line["event"], line.get("error"), line.get("again_in_seconds")) for line in told]
    assert "ticket" not in f"{lines} {caplog.text}"


async def test_a_socket_that_was_cut_comes_back_with_another_ticket(
    gateway_database_url: str, tmp_path: Path, slack: SlackServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Slack closes it, and refuses first a ticket, then a handshake; clicks arrive again, and the gauge follows."""
    async with a_gateway(gateway_database_url, tmp_path, slack) as scene:
        before = await denied(scene, "approval-1"), connected()
        slow = Fault("slow")
        slack.fail("apps.connections.open", Fault("error", error="internal_error"), slow)
        slack.fail("socket", Fault("page"))
        with capture_logs() as lines:
            await slack.sockets[0].close()
            await slack.until(lambda: not slack.faults["apps.connections.open"])
            meanwhile = connected()
            slow.gate.set()
            after = await denied(scene, "approval-2"), connected()
    told = [line["error"] for line in lines if line["event"] == "slack.socket_waiting"]
    assert ((200, 1), 0, (200, 1), 0) == (before, meanwhile, after, connected())
    assert ["closed at once", "internal_error", "WSServerHandshakeError 503"] == told
    assert "ticket" not in f"{lines} {caplog.text}"


async def test_a_socket_that_slack_closes_at_once_is_opened_anew_after_a_pause(
    gateway_database_url: str, tmp_path: Path, slack: SlackServer
) -> None:
    """As it does with one socket too many: each pause is longer, until a socket has lasted."""
    with capture_logs() as lines:
        async with a_gateway(gateway_database_url, tmp_path, slack) as scene:
            for _ in range(2):
                await slack.until(lambda: slack.sockets)
                (new,) = slack.sockets
                await new.send_json({"type": "disconnect", "reason": "too_many_websockets"})
                await slack.until(lambda: slack.sockets and new not in slack.sockets)  # noqa: B023 - at once
            assert (200, 3, 1) == (await denied(scene, "approval-1"), opened(slack), connected())
    assert [1.0, 2.0] == [line["again_in_seconds"] for line in lines if line["event"] == "slack.socket_waiting"]
