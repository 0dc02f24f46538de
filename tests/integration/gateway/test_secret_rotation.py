"""Secrets of the gateway change as docs/security.md says: before, between and after, and the old one is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from placet.surfaces import slack as names
from tests.builders import a_call
from tests.integration.gateway.test_login import GRACE, People, come_back, log_in
from tests.integration.gateway.test_slack import DIRECTORY, Scene
from tests.support.gateway import House, a_conversation, an_approval_row, insert, open_house
from tests.support.http import http_client
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, running_provider
from tests.support.ports import lasting_port
from tests.support.slack_people import SIGNING_SECRET, Door
from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, TEAM, SlackServer, slack_server

pytestmark = pytest.mark.timeout(180)


async def test_a_new_client_secret_of_the_sign_in_service_ends_nothing(
    gateway_database_url: str, tmp_path: Path
) -> None:
    """Sessions and a sign-in under way outlive the change; with the first one, once removed, nobody signs in."""
    port = lasting_port()
    with running_provider() as issuer:
        known: dict[str, Any] = {
            "gateway_port": port,
            "public_url": f"http://127.0.0.1:{port}",
            "gateway_oidc_issuer": issuer,
            "gateway_oidc_client_id": CLIENT_ID,
            "gateway_oidc_tenant": "acme",
        }

        def gateway(secret: str) -> AbstractAsyncContextManager[House]:
            settings = known | {"gateway_oidc_client_secret": SecretStr(secret)}
            return open_house(gateway_database_url, tmp_path, directory=People(), **settings)

        async def takes(*secrets: str) -> None:
            async with http_client(issuer) as provider:
                (await provider.put("/client-secrets", json=secrets)).raise_for_status()

        async with gateway(CLIENT_SECRET) as house, house.client() as before, house.client() as between:
            first = await log_in(before, subject=GRACE.subjects[0])
            await takes(CLIENT_SECRET, "another")
            address = await come_back(between, subject=GRACE.subjects[0])
            cookies = before.cookies, between.cookies
        async with gateway("another") as house:
            await takes("another")
            async with house.client() as later, house.client() as kept, house.client() as under_way:
                kept.cookies, under_way.cookies = cookies
                stayed = await kept.get("/inbox")
                finished = await under_way.get(address)
                second = await log_in(later, subject=GRACE.subjects[0])
        async with gateway(CLIENT_SECRET) as house, house.client() as late:
            refused = await log_in(late, subject=GRACE.subjects[0])
    assert (303, 303, 303, 200, 401) == (
        first.status_code,
        finished.status_code,
        second.status_code,
        stayed.status_code,
        refused.status_code,
    )


@asynccontextmanager
async def a_workspace(url: str, folder: Path, slack: SlackServer, **settings: Any) -> AsyncIterator[Scene]:
    """Run a gateway that Slack reaches, on what an earlier one left."""
    known: dict[str, Any] = {"slack_team": TEAM, "slack_tenant": "acme", "slack_api_url": f"{slack.url}/api/"}
    known |= {"directory": lambda: DIRECTORY}
    async with open_house(url, folder, **known, **settings) as house:
        yield Scene(house, slack, Door(slack), folder)


async def test_clicks_count_by_slack_s_new_signing_secret_alone(gateway_database_url: str, tmp_path: Path) -> None:
    """After the restart the old one signs nothing that counts, and modals open by the new bot token."""
    async with slack_server() as slack:
        told: dict[str, list[Any]] = {}
        for secret, token in ((SIGNING_SECRET, BOT_TOKEN), ("regenerated", "xoxb-new")):
            slack.tokens = {token: TEAM}
            settings = {"slack_signing_secret": SecretStr(secret), "slack_bot_token": SecretStr(token)}
            async with a_workspace(gateway_database_url, tmp_path, slack, **settings) as scene:
                row = an_approval_row(a_call(), approval_id=f"approval-{secret}")
                insert(scene.house.url, "approvals", **row)
                card, slack.views = scene.card(row), {}
                statuses = []
                for signed_with in (SIGNING_SECRET, "regenerated"):
                    url = f"{scene.house.gateways[0].url}/slack/interactions"
                    scene.door = Door(slack, url, secret=signed_with)
                    statuses.append((await scene.person().click(card, names.DENY)).status)
                told[secret] = [*statuses, len([await scene.view()])]
    assert {SIGNING_SECRET: [200, 401, 1], "regenerated": [401, 200, 1]} == told


async def test_the_socket_opens_by_slack_s_new_app_token_alone(gateway_database_url: str, tmp_path: Path) -> None:
    """Slack refuses the old one; after the restart clicks come through a socket that the new one opened."""
    async with slack_server() as slack:
        slack.app_token = "xapp-new"
        settings = {"slack_bot_token": SecretStr(BOT_TOKEN)}
        async with a_workspace(gateway_database_url, tmp_path, slack, slack_app_token=SecretStr(APP_TOKEN), **settings):
            await slack.until(lambda: "apps.connections.open" in [method for method, _ in slack.calls])
            assert [] == slack.sockets
        async with a_workspace(
            gateway_database_url, tmp_path, slack, slack_app_token=SecretStr("xapp-new"), **settings
        ) as scene:
            row = an_approval_row(a_call())
            insert(scene.house.url, "approvals", **row)
            reply = await scene.person().click(scene.card(row), names.APPROVE)
            await scene.house.approvers.heard.wait()
    assert 200 == reply.status


async def test_a_key_is_replaced_without_a_gap(gateway_database_url: str, tmp_path: Path) -> None:
    """The second key of a name works beside the first; with the first revoked, tokens taken with it live on."""
    async with open_house(gateway_database_url, tmp_path) as house:
        old, new = (house.key("chat", person="widget") for _ in range(2))
        async with house.client(old) as first, house.client(new) as second, house.client(house.key("admin")) as admin:
            conversation, token = await a_conversation(first)
            both = [(await each.post("/v1/conversations")).status_code for each in (first, second)]
            await admin.delete(f"/v1/keys/{old.split('_')[1]}")
            after = [(await each.post("/v1/conversations")).status_code for each in (first, second)]
        async with house.client(token) as visitor:
            reads = await visitor.get(f"/v1/conversations/{conversation}")
    assert ([201, 201], [401, 201], 200) == (both, after, reads.status_code)
