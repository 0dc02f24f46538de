"""Replies in the thread of a card: a known person's are comments on the approval. Slack is a stub, the SDK is real."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from placet.contracts.messages import ApprovalCommented
from placet.gateway.approvals.store.comments import COMMENTS_MAX
from tests.builders import a_call
from tests.integration.gateway.test_slack import Scene, in_a_workspace
from tests.support.gateway import an_approval_row, insert
from tests.support.slack_people import SIGNING_SECRET, Door
from tests.support.slack_server import APP_TOKEN, TEAM, Fault, Message

KEPT = "SELECT approval_id, person, text, question FROM gateway.comments ORDER BY created_at"


@pytest.fixture(params=["http", "socket"])
async def scene(gateway_database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """A gateway before a workspace, which Slack reaches over HTTP, or which connects to Slack."""
    door: dict[str, Any] = {"slack_app_token": SecretStr(APP_TOKEN)}
    if request.param == "http":
        door = {"slack_signing_secret": SecretStr(SIGNING_SECRET)}
    async with in_a_workspace(gateway_database_url, tmp_path, **door) as (house, slack):
        url = f"{house.gateways[0].url}/slack/interactions" if request.param == "http" else ""
        yield Scene(house, slack, Door(slack, url, wait_seconds=30), tmp_path)


def shown(scene: Scene, **changes: Any) -> tuple[dict[str, Any], Message]:
    """Let an approval wait, whose card stands in Slack."""
    row = an_approval_row(a_call(), **changes)
    insert(scene.house.url, "approvals", **row)
    card = scene.card(row)
    place = {"channel": card.channel, "ts": card.ts}
    insert(scene.house.url, "slack_cards", tenant=row["tenant"], approval_id=row["approval_id"], **place)
    return row, card


def told(scene: Scene) -> list[ApprovalCommented]:
    """Return what the notifier was told of comments."""
    heard = []
    while not scene.house.retried.empty():
        message = scene.house.retried.get_nowait()
        assert isinstance(message, ApprovalCommented)
        heard.append(message)
    return heard


async def test_a_reply_is_a_comment_and_decides_nothing(scene: Scene) -> None:
    """It stands on the page as what the person said; other threads are told, and the approval is as it was."""
    row, card = shown(scene)
    reply = await scene.person().reply(card, "approve &lt;it&gt;, <@U0DENIZ>?")
    kept = {"approval_id": row["approval_id"], "person": "person:ada", "text": "approve <it>, @deniz?"}
    assert (200, [(*kept.values(), False)]) == (reply.status, scene.house.query(KEPT))
    async with scene.house.client(scene.house.key("decide", person="grace")) as grace:
        page = (await grace.get(f"/v1/approvals/{row['approval_id']}")).json()
    assert ("pending", 1, ["approve <it>, @deniz?"]) == (
        page["state"],
        page["revision"],
        [each["text"] for each in page["comments"]],
    )
    (news,) = told(scene)
    assert (f"{card.channel}/{card.ts}", kept) == (news.said_in, news.model_dump(include=set(kept)))
    assert [] == scene.house.approvers.claims


async def test_a_reply_that_slack_tells_again_is_one_comment(scene: Scene) -> None:
    """Slack repeats what was not acknowledged in time: the same reply is kept and told once."""
    _, card = shown(scene)
    event = scene.person().written(card, "Why?")
    replies = [await scene.door.tell(event) for _ in range(3)]
    assert ([200] * 3, 1, 1) == ([each.status for each in replies], len(scene.house.query(KEPT)), len(told(scene)))


async def test_what_others_write_stays_in_slack(scene: Scene) -> None:
    """Strangers, who left, whose account another workspace has, programs, other threads, other tenants' cards."""
    _, card = shown(scene)
    _, rival = shown(scene, tenant="rival")
    nobody = Message(card.channel, "9.9", "", [])
    said = [
        await scene.person("U0NOBODY").reply(card, "hello"),
        await scene.person("U0BOB").reply(card, "I was here"),
        await scene.person(user="U0ADA", team="T0STRANGE").reply(card, "not me"),
        await scene.person().reply(card, "a program", bot_id="B0OTHER"),
        await scene.person().reply(card, "to all", thread_ts=None),
        await scene.person().reply(nobody, "elsewhere"),
        await scene.person().reply(rival, "not ours"),
    ]
    assert ([200] * 7, [], []) == ([each.status for each in said], scene.house.query(KEPT), told(scene))


async def test_a_reply_that_is_not_kept_is_told_to_its_writer_alone(scene: Scene) -> None:
    """Too long, or one comment too many: whoever wrote it hears so in the thread, in their language."""
    row, card = shown(scene)
    await scene.person().reply(card, "x" * 2_001)
    for number in range(COMMENTS_MAX):
        values = (f"c{number}", row["approval_id"])
        sql = "INSERT INTO gateway.comments (comment_id, tenant, approval_id, person, text, question)"
        scene.house.query(f"{sql} VALUES (%s, 'acme', %s, 'person:ada', 'x', false)", *values)
    await scene.person("U0DENIZ").reply(card, "one more")
    (long, many) = scene.slack.whispers
    assert (("U0ADA", True), ("U0DENIZ", False)) == ((long[1], "too long" in long[2]), (many[1], "too many" in many[2]))
    assert COMMENTS_MAX == len(scene.house.query(KEPT))


async def test_a_writer_who_cannot_be_told_is_no_reason_for_slack_to_tell_it_again(scene: Scene) -> None:
    """Slack is busy, or has no such channel any more: the event is acknowledged."""
    _, card = shown(scene)
    scene.slack.fail("chat.postEphemeral", Fault("error", "channel_not_found"))
    reply = await scene.person().reply(card, "x" * 2_001)
    assert (200, []) == (reply.status, scene.house.query(KEPT))


async def test_an_event_that_slack_did_not_sign_is_refused(scene: Scene) -> None:
    """Another secret, an old signature, or no event: nothing is kept. Slack's own check of the address is answered."""
    if not scene.door.url:
        return
    _, card = shown(scene)
    stranger = Door(scene.slack, scene.door.url, secret="another secret")
    url = scene.door.url.replace("/slack/interactions", "/slack/events")
    check = json.dumps({"type": "url_verification", "challenge": "c4"})
    old = scene.door.signed(check, age_seconds=400)
    answers = [
        await stranger.tell(scene.person().written(card, "Why?")),
        await scene.door.post(check, old, url=url),
        await scene.door.post("[]", scene.door.signed("[]"), url=url),
        await scene.door.post(check, scene.door.signed(check), url=url),
    ]
    assert ([401, 401, 400, 200], {"challenge": "c4"}, []) == (
        [each.status for each in answers],
        answers[3].json,
        scene.house.query(KEPT),
    )


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
async def test_an_event_in_another_encoding_than_slack_s_is_none(scene: Scene, codec: str) -> None:
    """Nothing guesses how a body is meant: it is UTF-8, without a mark, or no event."""
    if not scene.door.url:
        return
    _, card = shown(scene)
    event = {
        "type": "event_callback",
        "team_id": TEAM,
        "event_id": "Ev1",
        "event": scene.person().written(card, "Why?"),
    }
    body = json.dumps(event).encode(codec).decode()
    url = scene.door.url.replace("/slack/interactions", "/slack/events")
    answer = await scene.door.post(body, scene.door.signed(body), url=url)
    assert (400, []) == (answer.status, scene.house.query(KEPT))
