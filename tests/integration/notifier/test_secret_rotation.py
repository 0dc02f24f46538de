"""Secrets of the notifier change as docs/security.md says: what waited meanwhile arrives, the old one is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from standardwebhooks import Webhook, WebhookVerificationError

from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from tests.integration.notifier.mailing import DELIVERIES, ONLY_ADA, a_mailer, hurry, post
from tests.integration.notifier.test_slack_delivery import FREE, HURRY
from tests.integration.notifier.test_webhooks import HURRY as HURRY_EVENTS
from tests.integration.notifier.test_webhooks import OLD
from tests.integration.notifier.test_webhooks import SECRET as NEW
from tests.support.approval_news import opened
from tests.support.house import Replica, a_replica
from tests.support.slack_server import BOT_TOKEN, TEAM, slack_server
from tests.support.smtp_server import MailServer, tls
from tests.support.webhook_server import Heard, a_receiver

EVENTS = "SELECT state FROM notifier.webhook_events"


@asynccontextmanager
async def a_notifier(url: str, **settings: Any) -> AsyncIterator[Replica]:
    """Run one process of the notifier, on what an earlier one left."""
    made = NotifierSettings(notifier_cards_per_minute={}, **settings)
    async with a_replica("notifier", url, partial(build, made)) as replica:
        yield replica


async def run(replica: Replica, duty: str) -> None:
    """Do once what the notifier does again and again."""
    duties = {each.name: each for each in replica.service.duties}
    await duties[duty].run_once()


def is_taken(secret: str, heard: Heard) -> bool:
    """Tell whether a receiver with this secret believes a request."""
    try:
        Webhook(secret).verify(heard.body, heard.headers)
    except WebhookVerificationError:
        return False
    return True


async def test_a_new_webhook_secret_signs_beside_the_old_one_and_then_alone(notifier_url: str, tmp_path: Path) -> None:
    """While both stand in the file a receiver knows either; what waited for the restart is signed by both."""
    file = tmp_path / "webhooks.yaml"
    async with a_receiver() as receiver:

        async def posted(*secrets: str, statement: str = "", news: bool = True) -> tuple[bool, bool]:
            """Restart with these secrets; return whether who knows the old one, or the new one, believes the post."""
            entry = {"url": f"{receiver.url}/hook", "secrets": list(secrets), "events": ["*"], "private": True}
            file.write_text(json.dumps({"webhooks": {"crm": entry}}))
            async with a_notifier(notifier_url, notifier_webhooks=file) as notifier:
                if news:
                    await notifier.send(opened())
                if statement:
                    await notifier.execute(statement)
                await run(notifier, "post-events")
            return is_taken(OLD, receiver.heard[-1]), is_taken(NEW, receiver.heard[-1])

        receiver.answers = [(503, {})]
        assert (True, False) == await posted(OLD)
        assert (True, True) == await posted(NEW, OLD, statement=HURRY_EVENTS, news=False)
        assert (False, True) == await posted(NEW)
        async with a_notifier(notifier_url) as notifier:
            assert ["sent", "sent"] == [row["state"] for row in await notifier.rows(EVENTS)]


async def test_a_card_waits_for_slack_s_new_bot_token(notifier_url: str) -> None:
    """Slack takes the old one no more: the card is not given up, and the restarted notifier shows it once."""
    async with slack_server() as slack:
        known: dict[str, Any] = {"slack_team": TEAM, "slack_tenant": "acme", "slack_api_url": f"{slack.url}/api/"}
        known |= {"slack_signing_secret": SecretStr("x")}
        async with a_notifier(notifier_url, slack_bot_token=SecretStr(BOT_TOKEN), **known) as notifier:
            await notifier.empty_tables()
            await notifier.send(opened("slack:#ops"))
            await run(notifier, "send-slack")
            slack.tokens = {"xoxb-new": TEAM}
            await notifier.send(opened("slack:#ops"))
            await run(notifier, "send-slack")
            states = [row["state"] for row in await notifier.rows(f"{DELIVERIES}, state")]
        assert (["due", "sent"], 1) == (states, len(slack.cards()))
        async with a_notifier(notifier_url, slack_bot_token=SecretStr("xoxb-new"), **known) as notifier:
            for statement in (HURRY, FREE):
                await notifier.execute(statement)
            await run(notifier, "send-slack")
            states = [row["state"] for row in await notifier.rows(DELIVERIES)]
    assert (["sent", "sent"], 2) == (states, len(slack.cards()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_mail_waits_for_the_new_password_of_the_mail_server(notifier_url: str, tmp_path: Path) -> None:
    """The server takes the old one no more: the mail is not given up, and the restarted notifier sends it once."""
    context, certificate = tls(tmp_path)
    server = MailServer(login=("placet", "old"))
    known: dict[str, Any] = {"email_host": "localhost", "email_security": "starttls", "email_ca_file": certificate}
    known |= {"email_username": "placet"}
    with server.running(tls_context=context, require_starttls=True):
        async with a_mailer(notifier_url, server, email_password=SecretStr("old"), **known) as mailer:
            await mailer.send(opened("email", rule=ONLY_ADA))
            await post(mailer)
            server.login = ("placet", "new")
            await mailer.send(opened("email", rule=ONLY_ADA))
            await post(mailer)
            states = sorted(row["state"] for row in await mailer.rows(DELIVERIES))
        assert (["due", "sent"], 1) == (states, len(server.inbox))
        async with a_mailer(notifier_url, server, empty=False, email_password=SecretStr("new"), **known) as mailer:
            await hurry(mailer)
            states = [row["state"] for row in await mailer.rows(DELIVERIES)]
    assert (["sent", "sent"], 2) == (states, len(server.inbox))
