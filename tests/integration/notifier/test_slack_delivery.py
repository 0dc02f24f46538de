"""Slack behind the delivery machine: many cards on a bad day, and every one ends where its approval ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from pydantic import SecretStr

from placet.cli.backup.settling import statement
from placet.contracts.messages import ApprovalCommented
from placet.domain.directory import Directory
from placet.notifier.channels.slack import SlackChannel
from placet.notifier.rules import RETRY_SECONDS
from placet.notifier.stops import BATCH, tell_stops
from placet.notifier.store import Claims
from placet.notifier.store.stops import QUERIES
from placet.notifier.worker import Worker
from placet.surfaces.slack import Slack, SlackTeam
from tests.builders import NOON, a_call
from tests.support.cards import closed, finished, opened, progressed
from tests.support.house import Replica
from tests.support.slack_server import BOT_TOKEN, TEAM, Fault, SlackServer, slack_server

CARDS = 40
#: Answers that are lost on the way back.
LOST = 4
#: Rounds in which everything must be through.
ROUNDS = 200
#: Nobody waits in a test: what is due later is due now, and a channel that rests has rested.
HURRY = "UPDATE notifier.deliveries SET due_at = now() - interval '1 second'"
FREE = "UPDATE notifier.paces SET free_at = now() - interval '1 minute'"
#: A bad day may last longer than the usual number of tries: this one does not end in giving up.
FORGIVE = "UPDATE notifier.deliveries SET attempt = 0 WHERE state = 'due'"
LEFT = "SELECT count(*) AS left FROM notifier.deliveries WHERE state <> 'sent'"


def a_worker(replica: Replica, slack: SlackServer) -> Worker:
    """Return a worker that shows cards in the stub."""
    team = SlackTeam(team=TEAM, bot_token=SecretStr(BOT_TOKEN), tenants=["acme"])
    channel = SlackChannel(Slack(SecretStr(""), SecretStr(""), (team,)), f"{slack.url}/api/", Directory)
    return Worker(replica.units, {"slack": channel}, claims=Claims(("slack",), among=True))


async def deliver(replica: Replica, worker: Worker) -> None:
    """Let the worker try until every card shows the newest."""
    for _ in range(ROUNDS):
        await worker.run_once()
        if (await replica.rows(LEFT))[0]["left"] == 0:
            return
        for each in (HURRY, FREE, FORGIVE):
            await replica.execute(each)
    raise AssertionError("cards were not through")


async def test_every_card_ends_in_place_on_a_bad_day(replica: Replica) -> None:
    """A fifth of the calls is limited and some answers are lost: each approval has one card, and it shows its end."""
    async with slack_server() as slack:
        slack.limited_share = 0.2
        worker = a_worker(replica, slack)
        news = [opened("slack:#ops", expires_at=NOON + timedelta(hours=1)) for _ in range(CARDS)]
        slack.fail("chat.postMessage", *(Fault("lost") for _ in range(LOST)))
        for each in news:
            await replica.send(each)
        await deliver(replica, worker)
        assert CARDS == len(slack.cards())
        for each in news:
            await replica.send(progressed(each, 2))
        await deliver(replica, worker)
        slack.fail("chat.update", *(Fault("lost") for _ in range(LOST)))
        for each in news:
            await replica.send(closed(each, revision=3, decided_by="person:ada"), finished(each))
        await deliver(replica, worker)
        cards = slack.cards()
        ended = [card for card in cards if "It ran and succeeded." in card.words and not card.buttons]
        assert (CARDS, CARDS) == (len(cards), len(ended))
        assert [] == [card for card in cards if _goes_back(card.versions)]


async def test_a_worker_that_died_behind_its_post_makes_no_second_card(replica: Replica) -> None:
    """The next one, another process, is told that there was a try, and finds its card."""
    async with slack_server() as slack:
        await replica.send(opened("slack:#ops"))
        slack.fail("chat.postMessage", Fault("lost"))
        await a_worker(replica, slack).run_once()
        await deliver(replica, a_worker(replica, slack))
        assert 1 == len(slack.cards())


async def test_a_card_that_slack_refused_is_searched_nowhere(replica: Replica) -> None:
    """It surely is not there: the next try posts it, and one that is over by then is posted no more."""
    async with slack_server() as slack:
        worker, stays, ends = a_worker(replica, slack), opened("slack:#ops"), opened("slack:#ops")
        await replica.send(stays, ends)
        slack.fail("chat.postMessage", *(Fault("error", "not_authed") for _ in range(2)))
        await worker.run_once()
        await replica.send(closed(ends, "withdrawn", 2))
        await replica.execute(HURRY)
        await worker.run_once()
        methods = [method for method, _ in slack.calls if method != "conversations.list"]
        states = [row["state"] for row in await replica.rows("SELECT state FROM notifier.deliveries ORDER BY state")]
        assert (["chat.postMessage"], ["sent", "spared"]) == (methods, states)


async def test_a_card_whose_answer_was_lost_and_that_was_given_up_shows_its_end(replica: Replica) -> None:
    """Its post arrived and its update is refused: it is there, so it is tried again when the approval is over."""
    async with slack_server() as slack:
        worker, news = a_worker(replica, slack), opened("slack:#ops")
        await replica.send(news)
        slack.fail("chat.postMessage", Fault("lost"))
        slack.fail("chat.update", Fault("error", "is_archived"))
        await worker.run_once()
        await replica.execute(HURRY)
        await worker.run_once()
        states = await replica.rows("SELECT state FROM notifier.deliveries")
        await replica.send(closed(news, decided_by="person:ada"))
        await worker.run_once()
        (card,) = slack.cards()
        assert ([{"state": "given_up"}], {}) == (states, card.buttons)


async def test_a_card_in_doubt_that_was_given_up_shows_its_end(replica: Replica) -> None:
    """Slack is away from the lost answer to the last try: at the end the channel is searched for the card."""
    async with slack_server() as slack:
        worker, news = a_worker(replica, slack), opened("slack:#ops")
        await replica.send(news)
        slack.fail("chat.postMessage", Fault("lost"))
        slack.fail("conversations.history", *(Fault("page") for _ in RETRY_SECONDS))
        for _ in range(1 + len(RETRY_SECONDS)):
            await worker.run_once()
            await replica.execute(HURRY)
        states = await replica.rows("SELECT state FROM notifier.deliveries")
        await replica.send(closed(news, decided_by="person:ada"))
        await worker.run_once()
        (card,) = slack.cards()
        assert ([{"state": "given_up"}], {}) == (states, card.buttons)


async def test_a_comment_that_a_dead_worker_said_is_not_said_again(replica: Replica) -> None:
    """The next one, another process, is told that there was a try, and looks into the thread."""
    async with slack_server() as slack:
        news = opened("slack:#ops", expires_at=NOON + timedelta(hours=1))
        await replica.send(news)
        await deliver(replica, a_worker(replica, slack))
        said = {"tenant": "acme", "approval_id": news.approval_id, "person": "person:ada"}
        await replica.send(ApprovalCommented(**said, comment_id="c1", text="Why?"))
        slack.fail("chat.postMessage", Fault("lost"))
        await a_worker(replica, slack).run_once()
        await replica.execute(HURRY)
        await deliver(replica, a_worker(replica, slack))
        assert 1 == len(slack.thread_of(slack.cards()[0]))


def _goes_back(versions: list[dict[str, object]]) -> bool:
    """Tell whether a card showed buttons again after it had none."""
    open_then = ["placet_more" in str(version["blocks"]) for version in versions]
    return open_then != sorted(open_then, reverse=True)


async def test_a_comment_reaches_every_thread_but_the_one_it_was_written_in(replica: Replica) -> None:
    """Two channels show the card: what is said in one stands in the other; what is said on the page in both, once."""
    async with slack_server() as slack:
        worker = a_worker(replica, slack)
        news = opened("slack:#ops", "slack:#finance", expires_at=NOON + timedelta(hours=1))
        await replica.send(news)
        await deliver(replica, worker)
        ops, finance = slack.cards("C0OPS0000")[0], slack.cards("C0FINANCE")[0]
        said = {"tenant": "acme", "approval_id": news.approval_id, "person": "person:ada"}
        here = ApprovalCommented(**said, comment_id="c1", text="Why?", said_in=f"{ops.channel}/{ops.ts}")
        page = ApprovalCommented(**said, comment_id="c2", text="Because.")
        for each in (here, page, page, page.model_copy(update={"tenant": "rival", "comment_id": "c3"})):
            await replica.send(each)
        await deliver(replica, worker)
    told = [[each.versions[0]["text"] for each in slack.thread_of(card)] for card in (ops, finance)]
    both = "ada commented: Because."
    assert [[both], ["ada commented: Why?", both]] == told


HOW_OFTEN = "SELECT sum(version) AS versions FROM notifier.deliveries"


@pytest.fixture
async def stops(replica: Replica) -> AsyncIterator[None]:
    """The gateway's view of what is stopped, empty before and after."""
    await replica.execute("DELETE FROM read.stops")
    yield
    await replica.execute("DELETE FROM read.stops")


@pytest.mark.usefixtures("stops")
async def test_cards_say_that_calls_are_stopped_until_they_may_run_again(replica: Replica) -> None:
    """Those that the stop covers and no others, also what opens meanwhile; of a stop that lasts they are told once."""
    async with slack_server() as slack:
        worker = a_worker(replica, slack)

        async def shown() -> list[bool]:
            assert 0 == await tell_stops(replica.units)
            await deliver(replica, worker)
            return ["an incident" in card.words and "placet_approve" not in card.buttons for card in slack.cards()]

        later = {"expires_at": NOON + timedelta(hours=1)}
        calls = [a_call(tool=tool, agent=agent) for tool, agent in (("refund", "a"), ("deploy", "a"), ("refund", "b"))]
        for call in calls[:2]:
            await replica.send(opened("slack:#ops", call=call, **later))
            # One by one, so that their cards come in this order.
            await deliver(replica, worker)
        before = await shown()
        await replica.execute("INSERT INTO read.stops VALUES ('acme', 'refund', NULL, 'an incident')")
        await replica.execute("INSERT INTO read.stops VALUES ('rival', NULL, NULL, 'another')")
        stopped = await shown()
        await replica.send(opened("slack:#ops", call=calls[2], **later))
        further, versions = await shown(), await replica.rows(HOW_OFTEN)
        again = (await shown(), await replica.rows(HOW_OFTEN))
        await replica.execute("DELETE FROM read.stops")
        lifted = await shown()
        approvable = [card.versions[-1] for card in slack.cards() if "placet_approve" in card.buttons]
    assert ([False, False], [True, False], [True, False, True]) == (before, stopped, further)
    assert ((further, versions), [False] * 3, 3) == (again, lifted, len(approvable))


async def test_cards_say_that_the_house_was_restored(replica: Replica) -> None:
    """What waits may have run since the backup: its card says so where it stands, with its buttons, to the end."""
    async with slack_server() as slack:
        worker = a_worker(replica, slack)
        news = opened("slack:#ops", expires_at=NOON + timedelta(hours=1))
        await replica.send(news)
        await deliver(replica, worker)
        for each in ("tell_cards", "show_cards"):
            await replica.execute(statement(each).replace("%(restored_at)s", "now()"))
        await deliver(replica, worker)
        (card,) = slack.cards()
        told = ("See first whether it has run" in card.words, "placet_approve" in card.buttons)
        await replica.send(closed(news, revision=2, decided_by="person:ada"))
        await deliver(replica, worker)
        (card,) = slack.cards()
    assert ((True, True), False) == (told, "See first whether it has run" in card.words)
    history = await replica.rows("SELECT from_state, to_state FROM notifier.history WHERE actor = 'restore'")
    assert [("sent", "due")] == [(row["from_state"], row["to_state"]) for row in history]


@pytest.mark.usefixtures("stops")
async def test_a_commit_says_that_a_tool_in_it_is_stopped(replica: Replica) -> None:
    """Its card lists the entries; a stop of any of their tools covers it until people leave that entry out."""
    await replica.send(opened("slack:#ops"))
    listed, line = "UPDATE notifier.deliveries SET card = card || CAST(:plan AS jsonb)", {"call_id": "c-mail"}
    await replica.execute(listed, plan=json.dumps({"plan": [line | {"words": "Mail", "kind": "call"}]}))
    await replica.execute(
        "INSERT INTO read.workspace_entries (call_id, tenant, tool) VALUES ('c-mail', 'acme', 'mail')"
    )
    told = []
    for tool in ("other", "mail"):
        await replica.execute("INSERT INTO read.stops VALUES ('acme', :tool, NULL, 'an incident')", tool=tool)
        await tell_stops(replica.units)
        rows = await replica.rows("SELECT card->>'stopped' AS stopped FROM notifier.deliveries")
        told += [row["stopped"] for row in rows]
    shown = await replica.rows("SELECT delivery_id FROM notifier.deliveries")
    mailed = {"ids": [row["delivery_id"] for row in shown]}
    async with replica.units.begin() as work:
        said = [row["stopped"] for row in await work.run(QUERIES.why_stopped, **mailed)]
    left_out = line | {"words": "Mail", "kind": "call", "outcome": "left_out"}
    await replica.execute(listed, plan=json.dumps({"plan": [left_out]}))
    async with replica.units.begin() as work:
        said += [row["stopped"] for row in await work.run(QUERIES.why_stopped, **mailed)]
    await tell_stops(replica.units)
    told += [
        row["stopped"] for row in await replica.rows("SELECT card->>'stopped' AS stopped FROM notifier.deliveries")
    ]
    await replica.execute("DELETE FROM read.workspace_entries")
    assert (["", "an incident", ""], ["an incident"]) == (told, said)


@pytest.mark.usefixtures("stops")
async def test_a_stop_of_many_cards_makes_a_hundred_due_at_a_time(replica: Replica) -> None:
    """Each transaction sees to so many; the rest comes at once after it, and what is kept back is left alone."""
    await replica.execute("INSERT INTO read.stops (reason) VALUES ('an incident')")
    for _ in range(BATCH + 1):
        await replica.send(opened("slack:#ops"))
    await replica.send(opened("wall"))
    rounds = [await tell_stops(replica.units) for _ in range(3)]
    told = await replica.rows("SELECT card->>'stopped' AS stopped, count(*) FROM notifier.deliveries GROUP BY 1")
    assert ([BATCH, 0, 0], {"an incident": BATCH + 1, "": 1}) == (
        rounds,
        {each["stopped"]: each["count"] for each in told},
    )
