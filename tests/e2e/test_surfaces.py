"""Approvals in Slack, by mail and in the inbox: asked in one or in all, decided in one, told wherever they were."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from placet.gateway.approvals.links import CODE_DIGITS
from placet.surfaces import slack as names
from tests.e2e.conftest import Stage
from tests.e2e.scenes import EVERYWHERE, rulebook
from tests.support.mailed_links import Page, choose, scan
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.slack_people import SIGNING_SECRET, Door, SlackPerson
from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, TEAM, Fault, Message, SlackServer, slack_server
from tests.support.smtp_server import MailServer, Received
from tests.support.system import System, a_system, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Approvals that wait at once.
MANY = 200
#: The part of Slack's answers that are 429, and every how manieth of its callbacks comes twice.
LIMITED, TWICE = 0.2, 10
GRACE, HOPPER = "grace@example.org", "hopper@example.org"
PEOPLE = {
    "grace": {"emails": [GRACE], "slack": [{"team": TEAM, "user": "U0GRACE"}]},
    "hopper": {"emails": [HOPPER], "slack": [{"team": TEAM, "user": "U0HOPPER"}]},
}
SERVICES = ("gateway", "agent", "policy", "approval", "notifier", "executor", "dead_letters")
#: The stubs are on this machine, whatever way it takes to the world.
NO_PROXY = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
BY_MAIL = {
    "name": "flags-by-mail",
    "match": {"tool": "set_flag"},
    "effect": "require_approval",
    "reason": "Flags change what customers see.",
    "approval": {"approvers": ["group:releases"], "channels": ["email"]},
}
#: Deliveries that do not show that their approved call ran; who was not told before its end is told nothing.
BEHIND = """
    SELECT count(*) FROM notifier.deliveries d JOIN approval.approvals a USING (approval_id)
    WHERE a.state = 'approved' AND d.state <> 'spared' AND (
        d.state <> 'sent' OR d.sent_version <> d.version OR d.sent_revision <> a.revision
        OR d.card ->> 'ended' <> 'succeeded'
    )
"""


@dataclass
class Surfaces:
    """A whole Placet with people who are everywhere, a workspace and a mail relay."""

    system: System
    slack: SlackServer
    door: Door
    relay: MailServer
    frontend: Caller
    inbox: Caller

    def person(self, user: str) -> SlackPerson:
        """Return somebody in Slack."""
        return SlackPerson(self.door, user)

    def card(self, approval_id: str) -> Message:
        """Return the card of an approval in Slack."""
        (found,) = (card for card in self.slack.cards() if approval_id in card.words)
        return found

    def mails(self, recipient: str, approval_id: str) -> list[Received]:
        """Return the mails to somebody about an approval, oldest first."""
        return [mail for mail in self.relay.of(recipient) if mail.message["X-Placet-Approval"] == approval_id]

    async def mailed(self, recipient: str, approval_id: str, count: int) -> list[Received]:
        """Return the mails to somebody about an approval once there are so many."""

        async def come() -> bool:
            return len(self.mails(recipient, approval_id)) >= count

        await until(come, f"{count} mails to {recipient}")
        return self.mails(recipient, approval_id)

    async def ask_in_slack(self, words: str) -> tuple[Visitor, Message]:
        """Let a visitor say something that must be approved; return them and the card in Slack."""
        visitor = await a_visitor(self.frontend)
        await visitor.say(words)
        approval_id = (await visitor.see_card())["approval_id"]
        await self.slack.until(lambda: [card for card in self.slack.cards() if approval_id in card.words])
        return visitor, self.card(approval_id)


def a_rulebook(folder: Path) -> Path:
    """Write the tests' rulebook with people who are everywhere; held calls are asked in Slack where nothing is said."""
    path = rulebook(folder)
    content = yaml.safe_load(path.read_text())
    content["people"] |= PEOPLE
    content["groups"] |= {"operators": list(PEOPLE), "releases": list(PEOPLE)}
    content["rules"].append(BY_MAIL)
    for rule in content["rules"]:
        if rule["effect"] == "require_approval":
            rule.setdefault("approval", {"approvers": ["operators"]}).setdefault("channels", ["slack:#ops"])
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def settings_of(url: str, slack: SlackServer, relay: MailServer) -> dict[str, str]:
    """Return the settings that connect a system with both, and let it tell everything at once."""
    return {
        "PLACET_PUBLIC_URL": url,
        "PLACET_SLACK_BOT_TOKEN": BOT_TOKEN,
        "PLACET_SLACK_SIGNING_SECRET": SIGNING_SECRET,
        "PLACET_SLACK_APP_TOKEN": APP_TOKEN,
        "PLACET_SLACK_TEAM": TEAM,
        "PLACET_SLACK_TENANT": "acme",
        "PLACET_SLACK_API_URL": f"{slack.url}/api/",
        "PLACET_EMAIL_HOST": "127.0.0.1",
        "PLACET_EMAIL_PORT": str(relay.port),
        "PLACET_EMAIL_SECURITY": "none",
        "PLACET_EMAIL_FROM": "placet@example.org",
        "PLACET_EMAIL_BOUNCES": "bounces@example.org",
        "PLACET_EMAIL_WAIT_SECONDS": "0",
        "PLACET_NOTIFIER_WAITING_MAX": "0",
        "PLACET_NOTIFIER_SAME_MAX": "0",
        "PLACET_NOTIFIER_CARDS_PER_MINUTE": '{"slack": 6000, "email": 6000}',
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def surfaces(
    stage: Stage, module_database_url: str, module_rabbitmq_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Surfaces]:
    """One of each service between a workspace and a mail relay, for all tests of this module."""
    folder = tmp_path_factory.mktemp("surfaces")
    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(slack_server())
        relay = stack.enter_context(MailServer().running())
        environment = stage.environment | NO_PROXY
        made = System(folder, module_database_url, module_rabbitmq_url, a_rulebook(folder), environment)
        made.environment |= settings_of(made.url, slack, relay)
        system = await stack.enter_async_context(a_system(made, dict.fromkeys(SERVICES, 1)))
        door = Door(slack, f"{system.url}/slack/interactions", wait_seconds=30)
        frontend = Caller(system.url, system.key("chat", person="shop-frontend"))
        inbox = Caller(system.url, system.key("decide", person="grace"))
        yield Surfaces(system, slack, door, relay, frontend, inbox)


def shows(card: Message, words: str) -> bool:
    """Tell whether a card says something now."""
    return words in card.words


async def test_a_click_in_slack_runs_the_call_and_the_card_follows_to_its_end(stage: Stage, surfaces: Surfaces) -> None:
    """B4: two approve an edited call in Slack through 429s; it runs as edited; one card tells all; a denial too."""
    slack, grace, hopper = surfaces.slack, surfaces.person("U0GRACE"), surfaces.person("U0HOPPER")
    before, told, forms = len(slack.cards()), len(slack.responses), len(slack.views)
    slack.fail("chat.postMessage", Fault("ratelimited", retry_after=0.2), Fault("lost"))
    visitor, card = await surfaces.ask_in_slack("deploy reviewed")
    stranger = await surfaces.person("U0NOBODY").click(card, names.APPROVE)
    await slack.until(lambda: len(slack.responses) > told)
    assert (200, True) == (stranger.status, "not in Placet's directory" in slack.responses[told]["text"])

    await grace.click(card, names.EDIT)
    await slack.until(lambda: len(slack.views) > forms)
    view = list(slack.views.values())[forms]
    edited = await grace.submit(view, {"argument.version": "reviewed-2", "reason": "the newer one"})
    assert (200, "") == (edited.status, edited.body)
    await slack.until(lambda: shows(card, "changed the arguments"))
    assert (True, True) == (shows(card, '"strike": true'), shows(card, "reviewed-2"))

    slack.fail("chat.update", Fault("ratelimited", retry_after=0.2), Fault("page"))
    await hopper.click(card, names.APPROVE)
    await visitor.see(is_result("deploy"))
    await slack.until(lambda: shows(card, "It ran and succeeded.") and shows(card, "Approved: deploy"))
    assert ({}, before + 1) == (card.buttons, len(slack.cards()))
    assert ["reviewed-2"] == [line["version"] for line in stage.begun("deploy", visitor.conversation)]

    visitor, other = await surfaces.ask_in_slack("deploy and hold")
    await hopper.click(other, names.DENY)
    await slack.until(lambda: len(slack.views) > forms + 1)
    await hopper.submit(list(slack.views.values())[forms + 1], {"reason": "not on a Friday"})
    result: dict[str, Any] = (await visitor.see(is_result("deploy")))["data"]
    assert ("denied", True) == (result["kind"], "not on a Friday" in result["error"])
    await slack.until(lambda: shows(other, "not on a Friday"))
    assert {} == other.buttons
    for secret in (BOT_TOKEN, SIGNING_SECRET):
        assert secret not in surfaces.system.logs()


async def test_a_stop_takes_approving_from_a_card_in_slack_until_it_is_lifted(surfaces: Surfaces) -> None:
    """Issue 15.12: the card says why and keeps its denial; redrawn when calls may run again, it approves and runs."""
    visitor, card = await surfaces.ask_in_slack("deploy and hold")
    admin = Caller(surfaces.system.url, surfaces.system.key("admin", person="boss"))
    stop = await admin.post("/v1/stops", {"tool": "deploy", "reason": "an incident"})
    await surfaces.slack.until(lambda: shows(card, "“an incident”"))
    left = list(card.buttons)
    await admin.post(f"/v1/stops/{stop['id']}/resume", {"reason": "over"})
    await surfaces.slack.until(lambda: names.APPROVE in card.buttons)
    await surfaces.person("U0GRACE").click(card, names.APPROVE)
    ended = (await visitor.see(is_result("deploy")))["data"]["kind"]
    assert ([names.DENY, names.MORE], "succeeded", False) == (left, ended, shows(card, "an incident"))


async def test_socket_mode_decides_without_an_address(surfaces: Surfaces) -> None:
    """B4: Slack need not reach the gateway, which has connected to Slack; approving there runs the call."""
    visitor, card = await surfaces.ask_in_slack("deploy and hold")
    await SlackPerson(Door(surfaces.slack, wait_seconds=30), "U0GRACE").click(card, names.APPROVE)
    assert "succeeded" == (await visitor.see(is_result("deploy")))["data"]["kind"]
    await surfaces.slack.until(lambda: shows(card, "It ran and succeeded."))
    assert APP_TOKEN not in surfaces.system.logs()


async def test_a_call_is_approved_by_mail_and_runs_once(stage: Stage, surfaces: Surfaces) -> None:
    """A scanner opens and sends whatever it finds; a person decides; the call runs; everybody's thread says so."""
    visitor = await a_visitor(surfaces.frontend)
    await visitor.say("set the flag")
    approval_id = (await visitor.see_card())["approval_id"]
    (asked,), (other,) = await surfaces.mailed(GRACE, approval_id, 1), await surfaces.mailed(HOPPER, approval_id, 1)
    async with httpx.AsyncClient(base_url=surfaces.system.url, timeout=20) as browser:
        await scan(browser, asked.link)
        before = stage.begun("set_flag", visitor.conversation)
        fields = {"reason": "customers wait", "mail_code": asked.code}
        decided = await choose(browser, asked.link, decision="approve", **fields)
        answer = await visitor.see_answer()
        shown = await browser.get(other.link)
        late = await browser.post(other.link, data={"decision": "deny"})
    assert ([], 303, "The flag is set.") == (before, decided.status_code, answer)
    assert 1 == len(stage.begun("set_flag", visitor.conversation))
    assert (200, True, 409) == (shown.status_code, "Decided by grace." in shown.text, late.status_code)
    for recipient, first in ((GRACE, asked), (HOPPER, other)):
        end = (await surfaces.mailed(recipient, approval_id, 2))[-1]
        assert first.message["Message-ID"] in str(end.message["References"]).split()
    votes = (await surfaces.inbox.get(f"/v1/approvals/{approval_id}"))["decisions"]
    assert [("person:grace", "link")] == [(vote["person"], vote["proof"]) for vote in votes]
    token = asked.link.rpartition("/")[2]
    assert token not in surfaces.system.logs()


@pytest.mark.timeout(900)
async def test_two_hundred_approvals_say_the_same_everywhere(stage: Stage, surfaces: Surfaces) -> None:
    """A third is decided in each place while Slack is busy and repeats itself: each runs once, and all say so."""
    surfaces.slack.limited_share = LIMITED
    visitors = [await a_visitor(surfaces.frontend) for _ in range(MANY // EVERYWHERE)]
    conversations = {visitor.conversation for visitor in visitors}
    for visitor in visitors:
        await visitor.say("deploy everywhere")
    waiting = await all_asked(surfaces, conversations)
    parts = [waiting[place::3] for place in range(3)]
    await asyncio.gather(in_slack(surfaces, parts[0]), by_mail(surfaces, parts[1]), in_inbox(surfaces, parts[2]))
    answers = await asyncio.gather(*(visitor.see_answer() for visitor in visitors))
    assert ["It is everywhere."] * len(visitors) == answers
    await until(lambda: everywhere_told(surfaces.system), "every surface shows the end")

    surfaces.slack.limited_share = 0.0
    for approval_id in waiting:
        card, (asked, *news) = surfaces.card(approval_id), surfaces.mails(GRACE, approval_id)
        assert ({}, True) == (card.buttons, "It ran and succeeded." in card.words)
        assert "The call has run: succeeded." in news[-1].part("plain")
        assert asked.message["Message-ID"] in str(news[-1].message["References"]).split()
        assert "The call has run: succeeded." in surfaces.mails(HOPPER, approval_id)[-1].part("plain")
    assert sorted(waiting) == sorted(await every_approval(surfaces.inbox, "approved", conversations))
    ran = [line["call"] for visitor in visitors for line in stage.begun("deploy", visitor.conversation)]
    assert (MANY, MANY) == (len(ran), len(set(ran)))


async def every_approval(caller: Caller, state: str, conversations: Collection[str]) -> list[str]:
    """Return the ids of all approvals of some conversations in a state, page by page."""
    found: list[str] = []
    cursor = ""
    while True:
        options = {"state": state, "limit": "100"} | ({"cursor": cursor} if cursor else {})
        page = await caller.get("/v1/approvals", params=options)
        found += [item["id"] for item in page["items"] if item["conversation_id"] in conversations]
        cursor = page["next"]
        if not cursor:
            return found


async def all_asked(surfaces: Surfaces, conversations: Collection[str]) -> list[str]:
    """Return the ids of the approvals once each waits in Slack, in both mailboxes and in the inbox."""
    waiting: list[str] = []

    async def wait() -> bool:
        waiting[:] = await every_approval(surfaces.inbox, "pending", conversations)
        return len(waiting) == MANY

    async def asked() -> bool:
        words = " ".join(card.words for card in surfaces.slack.cards())
        mailed = Counter(mail.message["X-Placet-Approval"] for mail in surfaces.relay.inbox)
        return all(each in words and mailed[each] == len(PEOPLE) for each in waiting)

    await until(wait, "everything waits")
    await until(asked, "everything is asked everywhere")
    return waiting


async def in_slack(surfaces: Surfaces, approvals: Sequence[str]) -> None:
    """Decide in Slack, which sends some clicks twice."""
    grace = surfaces.person("U0GRACE")
    for number, approval_id in enumerate(approvals):
        reply = await grace.click(surfaces.card(approval_id), names.APPROVE)
        again = await surfaces.door.replay() if number % TWICE == 0 else reply
        assert (200, 200) == (reply.status, again.status)


async def by_mail(surfaces: Surfaces, approvals: Sequence[str]) -> None:
    """Decide with mailed links."""
    async with httpx.AsyncClient(base_url=surfaces.system.url, timeout=30) as browser:
        for approval_id in approvals:
            asked = surfaces.mails(HOPPER, approval_id)[0]
            # A risky call asks for the end of the digest that is shown, so that nobody approves it in passing.
            code = Page((await browser.get(asked.link)).text).fields["digest"][-CODE_DIGITS:]
            fields = {"code": code, "mail_code": asked.code}
            assert 303 == (await choose(browser, asked.link, decision="approve", **fields)).status_code


async def in_inbox(surfaces: Surfaces, approvals: Sequence[str]) -> None:
    """Decide on the pages of the inbox, without scripts."""
    url = surfaces.system.url
    async with httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=30) as browser:
        key = surfaces.system.key("chat", "decide", person="grace")
        assert 303 == (await browser.post("/sign-in", data={"key": key})).status_code
        for approval_id in approvals:
            path = f"/inbox/{approval_id}"
            page = (await browser.get(path)).text
            fields = dict(re.findall(r'<input type="hidden" name="(form_token|digest|revision)" value="([^"]*)"', page))
            assert 303 == (await browser.post(path, data={**fields, "decision": "approve"})).status_code


async def everywhere_told(system: System) -> bool:
    """Tell whether every card shows how its call ended, and every mailbox was told."""
    return system.count(BEHIND) == 0
