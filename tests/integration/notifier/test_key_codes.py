"""Codes of keys in Slack: they go to the key's owner in the tenant's own workspace, or nowhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from placet.contracts.messages import KeyOffered
from placet.domain.directory import Directory, Person, SlackUser
from tests.integration.notifier.mailing import ADA, a_mailer
from tests.support.house import Replica
from tests.support.slack_server import BOT_TOKEN, TEAM, SlackServer, slack_server
from tests.support.smtp_server import MailServer

ELSEWHERE = SlackUser("T0OTHER", "U0MALLORY")
PEOPLE = Directory(
    people={
        "grace": Person("grace", slack=(ELSEWHERE,)),
        "both": Person("both", slack=(ELSEWHERE, SlackUser(TEAM, "U0BOTH00"))),
        "short": Person("short", slack=(SlackUser(TEAM, "U9"),)),
        "mailed": Person("mailed", emails=(ADA,), slack=(ELSEWHERE,)),
        "twice": Person("twice", emails=(ADA,), slack=(SlackUser(TEAM, "U0TWICE0"),)),
    }
)


@dataclass
class Scene:
    """A notifier that mails and speaks in a workspace, which is the tenant acme's."""

    notifier: Replica
    server: MailServer
    slack: SlackServer

    async def offer(self, person: str, tenant: str = "acme") -> None:
        """Let mallory have made a key for somebody."""
        await self.notifier.send(
            KeyOffered(tenant=tenant, key_id="k", person=person, by="person:mallory", code="AB2CD-EF3GH")
        )

    @property
    def asked(self) -> list[str]:
        """Whose direct messages were opened."""
        return [str(given["users"]) for method, given in self.slack.calls if method == "conversations.open"]

    @property
    def told(self) -> list[bool]:
        """Whether each message in Slack has the code."""
        return ["AB2CD-EF3GH" in message.words for message in self.slack.messages]


@pytest.fixture
def server() -> Iterator[MailServer]:
    """A relay that takes everything."""
    with MailServer().running() as running:
        yield running


@pytest.fixture
async def scene(notifier_url: str, server: MailServer) -> AsyncIterator[Scene]:
    """One workspace, and people of it and of another one."""
    async with slack_server() as slack:
        known: dict[str, Any] = {"slack_bot_token": SecretStr(BOT_TOKEN), "slack_team": TEAM, "slack_tenant": "acme"}
        known |= {"slack_api_url": f"{slack.url}/api/"}
        async with a_mailer(notifier_url, server, PEOPLE, **known) as notifier:
            yield Scene(notifier, server, slack)


@pytest.mark.parametrize(("person", "user"), [("both", "U0BOTH00"), ("short", "U9")])
async def test_a_code_goes_to_its_owner_in_the_tenants_workspace(scene: Scene, person: str, user: str) -> None:
    """A user's id of another workspace is somebody else's here, and keeps nobody from the right one."""
    await scene.offer(person)
    assert ([user], [True]) == (scene.asked, scene.told)


@pytest.mark.parametrize(("person", "tenant"), [("grace", "acme"), ("both", "umbrella")])
async def test_a_code_for_a_user_of_another_workspace_is_sent_to_nobody(scene: Scene, person: str, tenant: str) -> None:
    """Whom nothing reaches in the tenant's own workspace, or whose tenant has none, takes a key over in another way."""
    with capture_logs() as logs:
        await scene.offer(person, tenant)
    assert ([], [], ["key_code.no_way"]) == (scene.slack.calls, scene.server.inbox, [each["event"] for each in logs])


async def test_a_bounced_code_comes_to_no_administrator(scene: Scene) -> None:
    """A bounce returns the whole mail, and the mailbox of bounces is handed to an administrator: the key's maker."""
    await scene.offer("mailed")
    (mail,) = scene.server.inbox
    assert ("placet@example.org", True) == (mail.sender, "AB2CD-EF3GH" in mail.part("plain"))


async def test_a_code_that_no_relay_takes_goes_to_slack(scene: Scene) -> None:
    """Mail comes first, and of two ways one is enough; whom Slack does not reach is mailed alone."""
    await scene.offer("mailed")
    await scene.offer("twice")
    mails = len(scene.server.of(ADA))
    scene.server.refusals[ADA] = ["550 no"]
    await scene.offer("twice")
    assert (2, ["U0TWICE0"], [True]) == (mails, scene.asked, scene.told)
