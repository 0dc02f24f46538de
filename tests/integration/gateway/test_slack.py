"""Slack's door: signed, once, by the right people, and told what became of it. Slack is a stub, the SDK is real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import yaml
from pydantic import SecretStr

from placet.contracts.canonical import canonical_text
from placet.domain.catalog import load_catalog
from placet.domain.directory import Directory, Person, SlackUser
from placet.gateway.slack.acting import AWAY
from placet.gateway.slack.edit_form import ENTRIES_MAX
from placet.surfaces import block_kit as kit
from placet.surfaces import slack as names
from tests.builders import a_call
from tests.support.gateway import House, an_approval_row, insert, open_house
from tests.support.line import Line, to_postgres
from tests.support.slack_people import SIGNING_SECRET, Door, SlackPerson
from tests.support.slack_rules import view_problems
from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, TEAM, Fault, Message, SlackServer, slack_server
from tests.support.staged_scene import a_busy_turn, commit_arguments, propose, stage

RULEBOOK = {
    "version": 1,
    "tools": {
        "transfer": {
            "description": "Move money.",
            "category": "unsafe_api",
            "parameters": {
                "type": "object",
                "properties": {
                    "amount": {"type": "integer", "maximum": 1000},
                    "currency": {"enum": ["EUR", "TRY"]},
                    "note": {"type": "string"},
                    "urgent": {"type": "boolean"},
                },
                "required": ["amount", "currency"],
                "additionalProperties": False,
            },
        }
    },
    "rules": [],
}
DIRECTORY = Directory(
    people={
        "ada": Person("ada", "Ada", slack=(SlackUser(TEAM, "U0ADA"),)),
        "bob": Person("bob", slack=(SlackUser(TEAM, "U0BOB"),), active=False),
        "deniz": Person("deniz", slack=(SlackUser(TEAM, "U0DENIZ"),), language="tr"),
        "grace": Person("grace", "Grace"),
        "eve": Person("eve", slack=(SlackUser("T0OTHER", "U0ADA"),)),
    },
    groups={"operators": frozenset({"ada", "bob", "deniz"})},
)


@dataclass
class Scene:
    """A gateway with Slack before it."""

    house: House
    slack: SlackServer
    door: Door
    rulebook: Path

    def person(self, user: str = "U0ADA", **changes: str) -> SlackPerson:
        """Return somebody in Slack."""
        return SlackPerson(self.door, user, **changes)

    def waiting(self, **changes: Any) -> tuple[dict[str, Any], Message]:
        """Let an approval wait, and show its card in Slack."""
        schema_digest = load_catalog(self.rulebook)["transfer"].schema_digest
        arguments = changes.pop("arguments", {"amount": 299, "currency": "TRY", "note": ""})
        call = a_call(tool="transfer", schema_digest=schema_digest, arguments=arguments)
        row = an_approval_row(call, **changes)
        insert(self.house.url, "approvals", **row)
        return row, self.card(row)

    def card(self, row: dict[str, Any], *, restored_at: datetime | None = None) -> Message:
        """Show a card of an approval, with every button."""
        restored = round(restored_at.timestamp() * 1_000_000) if restored_at else 0
        subject = names.Subject(row["tenant"], row["approval_id"], row["revision"], row["digest"], restored).text()
        actions = [names.APPROVE, names.AGAIN, names.DENY, names.EDIT, names.MORE]
        blocks = [kit.actions("b", *(kit.button(action, action, subject) for action in actions))]
        made = Message("C0OPS0000", f"1.{self.slack.number()}", "", [{"text": "", "blocks": blocks, "metadata": None}])
        self.slack.messages.append(made)
        return made

    async def view(self) -> dict[str, Any]:
        """Return the newest modal."""
        await self.slack.until(lambda: self.slack.views)
        return list(self.slack.views.values())[-1]

    async def told(self) -> str:
        """Return the first thing that somebody was told alone."""
        await self.slack.until(lambda: self.slack.responses or self.slack.whispers)
        return str((self.slack.responses or [{"text": self.slack.whispers[0][2]}])[0]["text"])


@asynccontextmanager
async def in_a_workspace(url: str, tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[House, SlackServer]]:
    """Run gateways that know the people of a workspace, and the workspace; `settings` say how Slack reaches them."""
    async with slack_server() as slack:
        known: dict[str, Any] = {"slack_bot_token": SecretStr(BOT_TOKEN), "slack_team": TEAM, "slack_tenant": "acme"}
        known |= {"directory": lambda: DIRECTORY, "slack_api_url": f"{slack.url}/api/"}
        async with open_house(url, tmp_path, **known, **settings) as house:
            yield house, slack


@pytest.fixture
async def scene(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    """Two gateways on one database, a workspace, and people in it."""
    rulebook = tmp_path / "rulebook.yaml"
    rulebook.write_text(yaml.safe_dump(RULEBOOK))
    async with in_a_workspace(
        gateway_database_url,
        tmp_path,
        gateways=2,
        rulebook=rulebook,
        public_url="https://placet.example",
        slack_signing_secret=SecretStr(SIGNING_SECRET),
    ) as (house, slack):
        yield Scene(house, slack, Door(slack, f"{house.gateways[0].url}/slack/interactions"), rulebook)


async def test_a_click_decides_as_the_person_of_the_directory(scene: Scene) -> None:
    """B4: the click is one signed decision with the proof `slack`, the digest that was shown, and the person's role."""
    row, card = scene.waiting()
    reply = await scene.person().click(card, names.APPROVE)
    await scene.house.approvers.heard.wait()
    (claims,) = scene.house.approvers.claims
    assert (200, "") == (reply.status, reply.body)
    assert ("acme", row["approval_id"], "approve", row["digest"], 1) == (
        claims.tenant,
        claims.approval_id,
        claims.verb,
        claims.digest,
        claims.revision,
    )
    assert ("person:ada", ["operators"], "slack") == (claims.person, claims.roles, claims.proof)


async def test_a_click_allows_the_same_for_an_hour(scene: Scene) -> None:
    """It approves with the narrowest grant; where the rule offers none, nothing is decided, and the person is told."""
    terms = {"approvers": ["operators"], "grants": {"uses": 5, "expires_after_seconds": 600}}
    _, card = scene.waiting(approval_rule=terms)
    await scene.person().click(card, names.AGAIN)
    await scene.house.approvers.heard.wait()
    _, plain = scene.waiting(approval_id="approval-2", approval_rule={"approvers": ["operators"]})
    await scene.person().click(plain, names.AGAIN)
    assert "The rule does not let anybody allow such calls from now on." == await scene.told()
    (claims,) = scene.house.approvers.claims
    assert claims.grant is not None
    assert ("approve", "conversation", 600) == (claims.verb, claims.grant.scope, claims.grant.expires_after_seconds)


async def test_a_denial_asks_why_first(scene: Scene) -> None:
    """Deny opens a modal; submitting it decides with the words in it and closes it."""
    _, card = scene.waiting()
    ada = scene.person()
    await ada.click(card, names.DENY)
    reply = await ada.submit(await scene.view(), {"reason": "not this week"})
    (claims,) = scene.house.approvers.claims
    assert (200, "") == (reply.status, reply.body)
    assert ("deny", "not this week") == (claims.verb, claims.reason)


async def test_a_rule_that_wants_a_reason_asks_for_it_before_an_approval(scene: Scene) -> None:
    """With `reason_required: always` Approve opens a modal whose input must be filled."""
    _, card = scene.waiting(approval_rule={"reason_required": "always"})
    ada = scene.person()
    await ada.click(card, names.APPROVE)
    view = await scene.view()
    assert [] == scene.house.approvers.claims
    assert [False] == [block["optional"] for block in view["blocks"] if block["type"] == "input"]
    await ada.submit(view, {"reason": "checked with finance"})
    assert ["checked with finance"] == [claims.reason for claims in scene.house.approvers.claims]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"x-slack-signature": "v0=" + "0" * 64}, "another signature"),
        ({"x-slack-signature": ""}, "no signature"),
        ({"x-slack-request-timestamp": "yesterday"}, "no time"),
        ({"x-slack-request-timestamp": "1"}, "another time than was signed"),
    ],
)
async def test_an_unsigned_request_is_refused(scene: Scene, headers: dict[str, str], why: str) -> None:
    """T9: what Slack did not sign reaches nobody."""
    del why
    _, card = scene.waiting()
    body = urlencode({"payload": json.dumps(scene.person().action(card, names.APPROVE))})
    reply = await scene.door.post(body, scene.door.signed(body) | headers)
    assert (401, []) == (reply.status, scene.house.approvers.claims)


async def test_a_signature_covers_every_byte_and_five_minutes(scene: Scene) -> None:
    """T9: a changed body and an old signature are refused, one from just inside the window is not."""
    row, card = scene.waiting()
    body = urlencode({"payload": json.dumps(scene.person().action(card, names.APPROVE))})
    signed = scene.door.signed(body)
    changed = await scene.door.post(body.replace(row["approval_id"][-4:], "0000"), signed)
    old = await scene.door.post(body, scene.door.signed(body, age_seconds=301))
    ahead = await scene.door.post(body, scene.door.signed(body, age_seconds=-310))
    fresh = await scene.door.post(body, scene.door.signed(body, age_seconds=280))
    assert [401, 401, 401, 200] == [changed.status, old.status, ahead.status, fresh.status]
    assert 1 == len(scene.house.approvers.claims)


async def test_a_replay_decides_nothing_on_any_replica(scene: Scene) -> None:
    """T9: the same request again, within the window and at another gateway, is acknowledged and does nothing."""
    _, card = scene.waiting()
    await scene.person().click(card, names.APPROVE)
    first = await scene.door.replay()
    scene.door.url = f"{scene.house.gateways[1].url}/slack/interactions"
    second = await scene.door.replay()
    assert [200, 200] == [first.status, second.status]
    assert 1 == len(scene.house.approvers.claims)


async def test_the_same_click_told_ten_times_at_once_decides_once(scene: Scene) -> None:
    """T9: copies with fresh signatures race for two gateways; one of them counts."""
    _, card = scene.waiting()
    payload = scene.person().action(card, names.APPROVE)
    doors = [Door(scene.slack, f"{gateway.url}/slack/interactions") for gateway in scene.house.gateways]
    replies = await asyncio.gather(*(doors[number % 2].deliver(payload) for number in range(10)))
    await scene.house.approvers.heard.wait()
    assert ({200}, 1) == ({reply.status for reply in replies}, len(scene.house.approvers.claims))


@pytest.mark.parametrize(
    ("person", "words"),
    [
        ({"user": "U0NOBODY"}, "not in Placet's directory"),
        ({"user": "U0BOB"}, "no longer decide"),
        ({"user": "U0ADA", "team": "T0GUEST", "app_team": TEAM}, "not in Placet's directory"),
        ({"user": "U0ADA", "team": "T0OTHER"}, "not connected"),
    ],
    ids=["unmapped", "inactive", "a stranger with ada's user id", "another workspace"],
)
async def test_who_is_not_in_the_directory_decides_nothing(scene: Scene, person: dict[str, str], words: str) -> None:
    """T10: team and user id together are a person; names, guests and strangers are nobody, and are told so alone."""
    _, card = scene.waiting()
    for action in (names.APPROVE, names.DENY, names.EDIT, names.MORE):
        reply = await scene.person(**person).click(card, action)
        assert 200 == reply.status
    assert words in await scene.told()
    assert {"ephemeral"} >= {each.get("response_type", "ephemeral") for each in scene.slack.responses}
    assert ([], {}) == (scene.house.approvers.claims, scene.slack.views)


async def test_a_forged_button_reaches_no_other_tenant(scene: Scene) -> None:
    """T11: ids of another tenant, unknown ids and values of nobody's are told apart by nothing and decide nothing."""
    other, _ = scene.waiting(tenant="umbrella")
    mine, card = scene.waiting()
    ada = scene.person()
    values = [
        names.Subject("umbrella", other["approval_id"], 1, other["digest"]).text(),
        names.Subject("acme", other["approval_id"], 1, other["digest"]).text(),
        names.Subject("acme", "unknown", 1, mine["digest"]).text(),
    ]
    for value in values:
        await ada.click(card, names.APPROVE, value=value)
    await scene.slack.until(lambda: len(scene.slack.responses) == len(values))
    assert ["There is no such approval."] * 3 == [each["text"] for each in scene.slack.responses]
    await ada.click(card, names.APPROVE, value="v1.acme.x")
    await scene.slack.until(lambda: len(scene.slack.responses) > len(values))
    assert "does not belong to Placet" in scene.slack.responses[-1]["text"]
    assert [] == scene.house.approvers.claims


async def test_a_late_click_is_told_who_was_first(scene: Scene) -> None:
    """A9: who comes second hears who decided, alone, and the decision stands."""
    row, card = scene.waiting()
    async with scene.house.client(scene.house.key("decide", person="grace")) as client:
        path = f"/v1/approvals/{row['approval_id']}/decisions"
        await client.post(path, json={"decision": "deny", "digest": row["digest"]})
    await scene.person().click(card, names.APPROVE)
    assert "This approval is already closed. Decided by Grace." == await scene.told()
    assert [("ephemeral", False)] == [
        (each["response_type"], each["replace_original"]) for each in scene.slack.responses
    ]


async def test_a_stale_card_approves_nothing(scene: Scene) -> None:
    """The digest that the card showed decides, not the approval's own of now."""
    row, card = scene.waiting()
    stale = names.Subject("acme", row["approval_id"], 1, "0" * 64).text()
    await scene.person().click(card, names.APPROVE, value=stale)
    assert "changed since it was shown" in await scene.told()
    assert [("pending",)] == scene.house.query("SELECT state FROM read.approvals")


async def test_more_shows_everything_hidden_characters_made_visible(scene: Scene) -> None:
    """T2: the whole arguments are one click away, literal, with code points in place of what hides."""
    row, card = scene.waiting(arguments={"amount": 1, "note": "x" * 2900 + "\u202e<!channel> *bold*"})
    await scene.person().click(card, names.MORE)
    view = await scene.view()
    boxes = [block["elements"][0] for block in view["blocks"] if block["type"] == "rich_text"]
    text = "".join(box["elements"][0]["text"] for box in boxes)
    assert ({"rich_text_preformatted"}, True) == ({box["type"] for box in boxes}, "[U+202E]<!channel> *bold*" in text)
    assert ("\u202e" in json.dumps(view, ensure_ascii=False), row["digest"] in json.dumps(view)) == (False, True)


async def test_more_names_people_as_the_directory_does(scene: Scene) -> None:
    """Who asked, who may decide and who decided have their names, and a rule's groups are no code."""
    asked = {"requester": "person:ada", "approvers": ["person:grace", "group:finance", "requester"]}
    _, card = scene.waiting(state="denied", decided_by="person:grace", **asked)
    await scene.person().click(card, names.MORE)
    said = [block["elements"][0]["text"] for block in (await scene.view())["blocks"] if block["type"] == "context"]
    facts = [each for each in said if each.startswith(("Asked by", "May decide", "Decided by"))]
    assert facts == [
        "Asked by: Ada",
        "May decide: Grace, finance, whoever asked",
        "Decided by: Grace",
    ]


async def test_more_says_that_the_house_was_restored(scene: Scene) -> None:
    """Above all else: what was asked before the restore may have run since."""
    _, card = scene.waiting()
    soon = datetime.now(UTC) + timedelta(hours=1)
    scene.house.query("INSERT INTO gateway.restores (restored_at, backup_at) VALUES (%s, %s)", soon, soon)
    await scene.person().click(card, names.MORE)
    assert "restored from a backup" in (await scene.view())["blocks"][0]["text"]["text"]


async def test_a_card_in_slack_that_tells_of_a_restore_approves(scene: Scene) -> None:
    """A restore has its cards shown anew; one from before, or from before another one, or a modal approves nothing."""
    row, card = scene.waiting(approval_rule={"edits": True})
    soon, ada = datetime.now(UTC) + timedelta(hours=1), scene.person()
    await ada.click(card, names.EDIT)
    view = await scene.view()
    scene.house.query("INSERT INTO gateway.restores (restored_at, backup_at) VALUES (%s, %s)", soon, soon)
    await ada.click(card, names.APPROVE)
    await ada.click(scene.card(row, restored_at=soon - timedelta(minutes=1)), names.APPROVE)
    await ada.submit(view, {})
    assert ("see first whether it ran" in await scene.told(), []) == (True, scene.house.approvers.claims)
    await ada.click(scene.card(row, restored_at=soon), names.APPROVE)
    assert ["approve"] == [claims.verb for claims in scene.house.approvers.claims]


async def test_edited_arguments_come_from_the_tool_s_form(scene: Scene) -> None:
    """Edit opens one input per argument of the schema; what is submitted is a whole new object, canonical."""
    _, card = scene.waiting(approval_rule={"edits": True})
    ada = scene.person()
    await ada.click(card, names.EDIT)
    view = await scene.view()
    inputs = {block["block_id"]: block["element"]["type"] for block in view["blocks"] if block["type"] == "input"}
    assert inputs == {
        "argument.amount": "plain_text_input",
        "argument.currency": "static_select",
        "argument.note": "plain_text_input",
        "argument.urgent": "static_select",
        "reason": "plain_text_input",
    }
    given = {"argument.amount": "250", "argument.urgent": "true", "reason": "a little less"}
    reply = await ada.submit(view, given)
    (claims,) = scene.house.approvers.claims
    assert (200, "") == (reply.status, reply.body)
    assert ("edit", "a little less") == (claims.verb, claims.reason)
    assert '{"amount":250,"currency":"TRY","note":"","urgent":true}' == claims.arguments


async def test_wrong_arguments_are_told_beside_their_input(scene: Scene) -> None:
    """What does not fit the schema stays in the modal, with the problem where it is."""
    _, card = scene.waiting(approval_rule={"edits": True})
    ada = scene.person()
    await ada.click(card, names.EDIT)
    view = await scene.view()
    too_much = await ada.submit(view, {"argument.amount": "5000"})
    no_json = await ada.submit(view, {"argument.amount": "lots"})
    assert ["errors", "errors"] == [each.json["response_action"] for each in (too_much, no_json)]
    assert [["argument.amount"], ["argument.amount"]] == [list(each.json["errors"]) for each in (too_much, no_json)]
    assert [] == scene.house.approvers.claims


async def test_what_a_form_cannot_show_is_not_edited_in_it(scene: Scene) -> None:
    """T2: an argument with hidden characters is never put into an input; the page is named instead."""
    _, card = scene.waiting(approval_rule={"edits": True}, arguments={"amount": 1, "note": "a\u200bb"})
    await scene.person().click(card, names.EDIT)
    told = await scene.told()
    assert ("hidden characters" in told, "https://placet.example/inbox/" in told) == (True, True)
    assert {} == scene.slack.views


async def test_a_refused_submission_stays_open_with_the_reason(scene: Scene) -> None:
    """Where approval says no, the modal says why instead of closing."""
    scene.house.approvers.outcome = "not_allowed"
    _, card = scene.waiting()
    ada = scene.person()
    await ada.click(card, names.DENY)
    reply = await ada.submit(await scene.view(), {"reason": "no"})
    assert {"reason": "You are not among this approval's approvers."} == reply.json["errors"]


async def test_slack_is_answered_before_a_slow_decision(gateway_database_url: str, tmp_path: Path) -> None:
    """Stored is acknowledged: an approval service that takes its time costs nobody Slack's warning."""
    async with in_a_workspace(
        gateway_database_url, tmp_path, gateway_answer_seconds=4.0, slack_signing_secret=SecretStr(SIGNING_SECRET)
    ) as (house, slack):
        house.approvers.silent = True
        row = an_approval_row(a_call())
        insert(house.url, "approvals", **row)
        scene = Scene(house, slack, Door(slack, f"{house.gateways[0].url}/slack/interactions"), tmp_path)
        reply = await scene.person().click(scene.card(row), names.APPROVE)
        assert (200, 1) == (reply.status, len(house.approvers.claims))
        assert "The answer is taking longer than usual" in await scene.told()


async def test_whoever_clicks_while_the_database_is_away_is_told_to_try_again(
    gateway_database_url: str, tmp_path: Path
) -> None:
    """The click is acknowledged and nothing is decided; pressed again afterwards, it counts."""
    line = Line(to_postgres(lambda: gateway_database_url))
    await line.open()
    parts = urlsplit(gateway_database_url)
    told = f"postgresql://{parts.username or 'postgres'}@127.0.0.1:{line.port}{parts.path}?sslmode=disable"
    async with in_a_workspace(told, tmp_path, slack_signing_secret=SecretStr(SIGNING_SECRET)) as (house, slack):
        row = an_approval_row(a_call())
        insert(gateway_database_url, "approvals", **row)
        scene = Scene(house, slack, Door(slack, f"{house.gateways[0].url}/slack/interactions"), tmp_path)
        line.dead = True
        line.cut()
        reply = await scene.person().click(scene.card(row), names.APPROVE)
        words = await scene.told()
        line.dead = False
        assert (200, 0, AWAY) == (reply.status, len(house.approvers.claims), words)
        await scene.person().click(scene.card(row), names.APPROVE)
        await house.approvers.heard.wait()
    await line.close()


async def test_slack_that_fails_leaves_the_decision_as_it_is(scene: Scene) -> None:
    """A modal that Slack does not open decides nothing, and the person is told."""
    _, card = scene.waiting()
    scene.slack.fail("views.open", Fault("error", "expired_trigger_id"))
    await scene.person().click(card, names.DENY)
    assert "Check the card" in await scene.told()
    assert [] == scene.house.approvers.claims


async def test_what_is_no_interaction_is_refused(scene: Scene) -> None:
    """Signed nonsense is answered with 400 and no trace of our insides."""
    for body in ("", "payload=", "payload=[]", "payload=" + "[" * 5000, "payload=%7B%7D&payload=%7B%7D", "x=1"):
        reply = await scene.door.post(body, scene.door.signed(body))
        assert (400, "urn:placet:problem:invalid-request") == (reply.status, reply.json["type"])


async def test_socket_mode_needs_no_address(gateway_database_url: str, tmp_path: Path) -> None:
    """With an app-level token the gateway connects to Slack; clicks and modals come through the socket."""
    async with in_a_workspace(gateway_database_url, tmp_path, slack_app_token=SecretStr(APP_TOKEN)) as (house, slack):
        scene = Scene(house, slack, Door(slack), tmp_path)
        row = an_approval_row(a_call())
        insert(house.url, "approvals", **row)
        ada, card = scene.person(), scene.card(row)
        async with house.client() as client:
            assert 404 == (await client.post("/slack/interactions", content="payload={}")).status_code
        await ada.click(card, names.DENY)
        reply = await ada.submit(await scene.view(), {"reason": "no"})
        assert (200, ["deny"]) == (reply.status, [claims.verb for claims in house.approvers.claims])


async def test_modals_and_private_words_are_in_the_person_s_language(scene: Scene) -> None:
    """The directory says Turkish: what Placet says, its refusals too; what the rule and the tool say stays."""
    row, card = scene.waiting(approval_rule={"reason_required": "always"})
    deniz = scene.person("U0DENIZ")
    await deniz.click(card, names.DENY)
    view = await scene.view()
    assert ("Reddet", "Geri") == (view["title"]["text"], view["close"]["text"])
    scene.house.query("UPDATE read.approvals SET state = 'expired' WHERE approval_id = %s", row["approval_id"])
    await deniz.click(card, names.EDIT)
    assert "Bu onay zaten kapanmış." == await scene.told()


async def test_entries_of_a_commit_are_left_out_in_a_modal(scene: Scene) -> None:
    """Boxes in groups of ten; what goes along is said before anything is decided, and what is left is approved."""
    calls = stage(scene.house, a_busy_turn(12))
    row = propose(scene.house, calls)
    person = scene.person()
    await person.click(scene.card(row), names.EDIT)
    view = await scene.view()
    boxes = [block for block in view["blocks"] if block["type"] == "input" and block["block_id"].startswith("leave.")]
    assert ([10, 8], []) == ([len(each["element"]["options"]) for each in boxes], view_problems(view))
    alone = await person.submit(view, {"leave.10": [calls[12]]})
    assert "check 14 too" in alone.json["errors"]["leave.0"]
    assert [] == scene.house.approvers.claims
    await person.submit(view, {"leave.10": [calls[12], calls[13]]})
    await scene.house.approvers.heard.wait()
    (claims,) = scene.house.approvers.claims
    kept = [each for each in calls if each not in calls[12:14]]
    assert ("edit", canonical_text(commit_arguments(kept))) == (claims.verb, claims.arguments)


async def test_a_commit_of_which_nothing_was_checked_is_approved_whole(scene: Scene) -> None:
    """The form's button says what it does."""
    row = propose(scene.house, stage(scene.house, a_busy_turn(0)))
    person = scene.person()
    await person.click(scene.card(row), names.EDIT)
    await person.submit(await scene.view(), {})
    await scene.house.approvers.heard.wait()
    assert [("approve", row["digest"])] == [(each.verb, each.digest) for each in scene.house.approvers.claims]


async def test_leaving_every_entry_out_is_told_in_the_modal(scene: Scene) -> None:
    """Nothing would be left: the modal says so, nothing is decided, and a person whom nobody asks is refused there."""
    calls = stage(scene.house, a_busy_turn(2))
    card = scene.card(propose(scene.house, calls))
    await scene.person().click(card, names.EDIT)
    everything = await scene.person().submit(await scene.view(), {"leave.0": calls})
    assert "Deny it instead" in everything.json["errors"]["reason"]
    stranger = await scene.person("U0BOB").submit(await scene.view(), {"leave.0": calls[:1]})
    assert "reason" in stranger.json["errors"]
    assert [] == scene.house.approvers.claims


async def test_too_many_entries_for_a_modal_lead_to_the_page(scene: Scene) -> None:
    """Beyond what a form of Slack holds, the person is told where entries can be left out."""
    row = propose(scene.house, stage(scene.house, a_busy_turn(ENTRIES_MAX)))
    await scene.person().click(scene.card(row), names.EDIT)
    assert f"https://placet.example/inbox/{row['approval_id']}" in await scene.told()
    assert ({}, []) == (scene.slack.views, scene.house.approvers.claims)
