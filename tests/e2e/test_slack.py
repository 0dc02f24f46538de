"""Slack from outside: a held call is a card, a click decides it, and the card follows to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import slack as names
from tests.e2e.conftest import Stage
from tests.e2e.scenes import rulebook
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.slack_people import SIGNING_SECRET, Door, SlackPerson
from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, TEAM, Fault, Message, SlackServer, slack_server
from tests.support.system import System, a_system

PEOPLE = {
    "grace": {"slack": [{"team": TEAM, "user": "U0GRACE"}]},
    "hopper": {"slack": [{"team": TEAM, "user": "U0HOPPER"}]},
}


@dataclass
class Scene:
    """A whole Placet beside a workspace."""

    system: System
    slack: SlackServer
    door: Door
    frontend: Caller

    def person(self, user: str) -> SlackPerson:
        """Return somebody in Slack."""
        return SlackPerson(self.door, user)

    async def asked(self, words: str) -> tuple[Visitor, Message]:
        """Let a visitor say something that must be approved; return them and the card in Slack."""
        visitor = await a_visitor(self.frontend)
        known = len(self.slack.cards())
        await visitor.say(words)
        await self.slack.until(lambda: len(self.slack.cards()) > known)
        return visitor, self.slack.cards()[-1]


def in_slack(path: Path) -> Path:
    """Let the rulebook's people be in Slack, and its held calls be asked there."""
    rules = yaml.safe_load(path.read_text())
    rules["people"] = {**rules.get("people", {}), **PEOPLE}
    rules["groups"] = {**rules.get("groups", {}), "operators": list(PEOPLE), "releases": list(PEOPLE)}
    for rule in rules["rules"]:
        if rule["effect"] == "require_approval":
            rule.setdefault("approval", {"approvers": ["operators"]})["channels"] = ["slack:#ops"]
    path.write_text(yaml.safe_dump(rules, sort_keys=False))
    return path


@asynccontextmanager
async def a_scene(
    stage: Stage, database_url: str, rabbitmq_url: str, folder: Path, **settings: str
) -> AsyncIterator[Scene]:
    """Run a system beside a workspace."""
    async with slack_server() as slack:
        environment = {
            **stage.environment,
            "PLACET_SLACK_BOT_TOKEN": BOT_TOKEN,
            "PLACET_SLACK_TEAM": TEAM,
            "PLACET_SLACK_TENANT": "acme",
            "PLACET_SLACK_API_URL": f"{slack.url}/api/",
            "PLACET_NOTIFIER_EVERY_SECONDS": "0.1",
            **settings,
        }
        made = System(folder, database_url, rabbitmq_url, in_slack(rulebook(folder)), environment)
        services = ("gateway", "agent", "policy", "approval", "notifier", "executor", "audit")
        async with a_system(made, dict.fromkeys(services, 1)) as system:
            url = "" if "PLACET_SLACK_APP_TOKEN" in settings else f"{system.url}/slack/interactions"
            frontend = Caller(system.url, system.key("chat", person="shop-frontend"))
            yield Scene(system, slack, Door(slack, url, wait_seconds=30), frontend)


def shows(card: Message, words: str) -> bool:
    """Tell whether a card says something now."""
    return words in card.words


async def test_a_click_in_slack_runs_the_call_and_the_card_follows_to_its_end(
    stage: Stage, database_url: str, rabbitmq_url: str, tmp_path: Path
) -> None:
    """B4: two approve an edited call in Slack through 429s; it runs as edited; one card tells all; a denial too."""
    async with a_scene(
        stage, database_url, rabbitmq_url, tmp_path, PLACET_SLACK_SIGNING_SECRET=SIGNING_SECRET
    ) as scene:
        slack, grace, hopper = scene.slack, scene.person("U0GRACE"), scene.person("U0HOPPER")
        slack.fail("chat.postMessage", Fault("ratelimited", retry_after=0.2), Fault("lost"))
        visitor, card = await scene.asked("deploy reviewed")
        stranger = await scene.person("U0NOBODY").click(card, names.APPROVE)
        await slack.until(lambda: slack.responses)
        assert (200, True) == (stranger.status, "does not know you" in slack.responses[0]["text"])

        await grace.click(card, names.EDIT)
        await slack.until(lambda: slack.views)
        (view,) = slack.views.values()
        edited = await grace.submit(view, {"argument.version": "reviewed-2", "reason": "the newer one"})
        assert (200, "") == (edited.status, edited.body)
        await slack.until(lambda: shows(card, "changed the arguments"))
        assert (True, True) == (shows(card, '"strike": true'), shows(card, "reviewed-2"))

        slack.fail("chat.update", Fault("ratelimited", retry_after=0.2), Fault("page"))
        await hopper.click(card, names.APPROVE)
        await visitor.see(is_result("deploy"))
        await slack.until(lambda: shows(card, "It ran and succeeded.") and shows(card, "Approved: deploy"))
        assert ({}, 1) == (card.buttons, len(slack.cards()))
        assert ["reviewed-2"] == [line["version"] for line in stage.begun("deploy", visitor.conversation)]

        visitor, other = await scene.asked("deploy and hold")
        await hopper.click(other, names.DENY)
        await slack.until(lambda: len(slack.views) > 1)
        await hopper.submit(list(slack.views.values())[-1], {"reason": "not on a Friday"})
        result: dict[str, Any] = (await visitor.see(is_result("deploy")))["data"]
        assert ("denied", True) == (result["kind"], "not on a Friday" in result["error"])
        await slack.until(lambda: shows(other, "not on a Friday"))
        assert {} == other.buttons
        for secret in (BOT_TOKEN, SIGNING_SECRET):
            assert secret not in scene.system.logs()


async def test_socket_mode_decides_without_an_address(
    stage: Stage, database_url: str, rabbitmq_url: str, tmp_path: Path
) -> None:
    """B4: a gateway that Slack cannot reach connects to Slack; approving there runs the call."""
    async with a_scene(stage, database_url, rabbitmq_url, tmp_path, PLACET_SLACK_APP_TOKEN=APP_TOKEN) as scene:
        visitor, card = await scene.asked("deploy and hold")
        await scene.person("U0GRACE").click(card, names.APPROVE)
        assert "succeeded" == (await visitor.see(is_result("deploy")))["data"]["kind"]
        await scene.slack.until(lambda: shows(card, "It ran and succeeded."))
        assert APP_TOKEN not in scene.system.logs()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach the stub directly, whatever way this machine takes to the world."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
