"""Cards on real PostgreSQL: one per channel, redrawn when the approval moves, sent once, given up in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import structlog

from placet.contracts.errors import Transient
from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed, Message
from placet.domain.catalog import Catalog
from placet.domain.directory import Directory
from placet.notifier import handlers
from placet.notifier.announcing import Announcer
from placet.notifier.channels import Address, Card, ChannelFailed, Delivered
from placet.notifier.rules import RETRY_SECONDS
from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from placet.notifier.store.calls import take
from placet.notifier.worker import AT_ONCE, Worker
from placet.runtime.bus import Delivery
from placet.runtime.consumer import Arrival, Consumer, read_envelope
from placet.runtime.database import Restored
from placet.runtime.driver import Outage
from placet.runtime.in_process import InProcessBus
from placet.runtime.work import Cause
from tests.builders import a_call, an_approval_rule, an_envelope, an_event
from tests.support.approval_news import finished
from tests.support.cards import closed, opened, progressed
from tests.support.house import Replica, a_replica

M = TypeVar("M", bound=Message)

STATES = "SELECT channel, state, revision, sent_revision, attempt, error FROM notifier.deliveries ORDER BY channel"
HISTORY = "SELECT event, from_state, to_state FROM notifier.history ORDER BY id"
#: What the cards of approvals say, in the order of their coming.
CARDS = """
    SELECT approval_id, revision, card->>'state' AS state, card->>'note' AS note FROM notifier.deliveries
    ORDER BY approval_id
"""
#: Whatever waits for its next try, or for its worker's lease to end, is due now.
HURRY = "UPDATE notifier.deliveries SET due_at = now() - interval '1 second'"


ANNOUNCER = Announcer(Directory, Catalog([]), "", "en")


class Wall:
    """A channel that notes what is sent, or refuses it."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.sent: list[tuple[str, int]] = []

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Note the card's state."""
        del address, reference, key
        if self.broken:
            raise ChannelFailed("the wall is wet")
        self.sent.append((card.state, card.revision))
        return Delivered()


def escalating(*channels: str) -> ApprovalOpened:
    """Return the news that a call waits, whose rule asks at the wall first and in `channels` later."""
    step = {"after_seconds": 60, "approvers": ["operators"], "channels": list(channels)}
    return opened(approval=an_approval_rule(channels=["wall"], escalations=[step]))


def escalated(news: ApprovalOpened, revision: int, *channels: str) -> ApprovalProgressed:
    """Return the news that others are asked too."""
    changes = {"kind": "escalated", "channels": list(channels), "note": "Others too."}
    return progressed(news, revision).model_copy(update=changes)


def arrival(message: M) -> Arrival[M]:
    """Return a message as its handler gets it."""
    return Arrival(message, Cause(), datetime.now(UTC))


async def test_an_approval_gets_one_card_per_channel(replica: Replica) -> None:
    """Every channel of the rule shows the card once, also where the news came twice."""
    walls, news = {"east": Wall(), "west": Wall()}, opened("east", "west")
    await replica.send(news, news)
    worker = Worker(replica.units, walls)
    await worker.run_once()
    await worker.run_once()
    assert [[("pending", 1)], [("pending", 1)]] == [wall.sent for wall in walls.values()]
    assert ["sent", "sent"] == [row["state"] for row in await replica.rows(STATES)]


async def test_a_closed_approval_has_its_cards_redrawn(replica: Replica) -> None:
    """The card says how it ended, and the history says both moves."""
    wall, news = Wall(), opened("wall")
    worker = Worker(replica.units, {"wall": wall})
    await replica.send(news)
    await worker.run_once()
    await replica.send(closed(news))
    await worker.run_once()
    assert [("pending", 1), ("approved", 2)] == wall.sent
    assert [("succeeded", "due", "sent"), ("ended", "sent", "due"), ("succeeded", "due", "sent")] == [
        tuple(row.values()) for row in await replica.rows(HISTORY)
    ]


async def test_the_log_waits_for_no_worker(replica: Replica) -> None:
    """Where a rule names no channel, each state of the approval is a line at once, and stands as shown."""
    news = opened()
    with structlog.testing.capture_logs() as lines:
        await replica.send(news, news)
        await replica.send(closed(news))
    shown = [(each["approval_state"], each["revision"]) for each in lines if "approval_state" in each]
    assert [("pending", 1), ("approved", 2)] == shown
    assert [{"channel": "log", "state": "sent", "revision": 2, "sent_revision": 2, "attempt": 0, "error": ""}] == (
        await replica.rows(STATES)
    )
    assert [("succeeded", "due", "sent"), ("ended", "sent", "due"), ("succeeded", "due", "sent")] == [
        tuple(row.values()) for row in await replica.rows(HISTORY)
    ]


async def test_an_installation_without_channels_stores_nothing(notifier_url: str) -> None:
    """News are lines of the log and no rows, two where they came twice; a card for a channel unknown is given up."""
    async with a_replica("notifier", notifier_url, partial(build, NotifierSettings())) as replica:
        await replica.empty_tables()
        news, named = opened(), opened("slack:#deploys")
        announced = an_event(news)
        with structlog.testing.capture_logs() as lines:
            await replica.send_events(announced)
            await replica.send_events(announced)
            await replica.send(closed(news))
            await replica.send(finished(news))
            assert [] == await replica.rows("SELECT message_id FROM notifier.inbox")
            await replica.send(named)
        told = [(each.get("approval_state"), each.get("ended")) for each in lines if each["event"] == "approval.card"]
        assert [("pending", None), ("pending", None), ("approved", None), (None, "succeeded")] == told
        assert ["slack:#deploys"] == [row["channel"] for row in await replica.rows(STATES)]


async def test_an_older_revision_that_comes_late_changes_nothing(replica: Replica) -> None:
    """The card that shows the end stays as it is; the late news stands in the history without a move."""
    wall, news = Wall(), opened("wall")
    await replica.send(news)
    await replica.send(closed(news, revision=3))
    await Worker(replica.units, {"wall": wall}).run_once()
    await replica.send(progressed(news, 2))
    assert [{"channel": "wall", "state": "sent", "revision": 3, "sent_revision": 3, "attempt": 1, "error": ""}] == (
        await replica.rows(STATES)
    )
    assert ("revised", "sent", "sent") == tuple((await replica.rows(HISTORY))[-1].values())


async def test_a_withdrawal_before_any_card_is_passed_over(replica: Replica) -> None:
    """A call that was withdrawn before it was held closes an approval that nobody ever saw: nothing to redraw."""
    await replica.send(closed(opened(), "withdrawn", revision=1, unopened=True))
    assert ([], []) == (replica.dead, await replica.rows(STATES))


@pytest.mark.parametrize("state", ["approved", "denied", "expired", "withdrawn"])
async def test_another_end_before_its_card_comes_again(replica: Replica, state: str) -> None:
    """What people decided or let expire was announced: the news of it is on its way and the end waits for it."""
    with pytest.raises(Transient):
        async with replica.units.begin() as work:
            await handlers.close([arrival(closed(opened(), state))], work, ANNOUNCER)


async def test_two_revisions_at_once_are_both_drawn(replica: Replica) -> None:
    """The second one waits for the first one's commit, sees what it wrote, and keeps it."""
    news = opened("wall")
    await replica.send(news)

    async def end() -> None:
        async with replica.units.begin() as work:
            await take(work, [news.call.call_id])
            await handlers.close([arrival(closed(news, revision=3))], work, ANNOUNCER)

    async with replica.units.begin() as work:
        await take(work, [news.call.call_id])
        await handlers.redraw([arrival(progressed(news, 2))], work, ANNOUNCER)
        ending = asyncio.create_task(end())
        await replica.until_waiting(1)
    await ending
    shown = "SELECT revision, card->'votes'->0->>'person' AS voter, card->>'state' AS state FROM notifier.deliveries"
    assert [{"revision": 3, "voter": "person:p2", "state": "approved"}] == await replica.rows(shown)


async def test_news_of_many_approvals_is_written_together(replica: Replica) -> None:
    """One transaction adds the cards and one revises them; each says its own, and its history names its own news."""
    news = [opened("east", "west"), opened("east"), opened("west")]
    await replica.send(*news)
    writers = "SELECT count(*) AS cards, count(DISTINCT xmin::text) AS writers FROM notifier.deliveries"
    assert [{"cards": 4, "writers": 1}] == await replica.rows(writers)
    ends = [an_event(closed(each, state)) for each, state in zip(news, ("approved", "denied", "expired"), strict=True)]
    await replica.send_events(*ends)
    assert [{"cards": 4, "writers": 1}] == await replica.rows(writers)
    told = {(row["approval_id"], row["revision"], row["state"]) for row in await replica.rows(CARDS)}
    assert {(end.message.approval_id, 2, end.message.state) for end in ends} == told  # type: ignore[attr-defined]
    causes = await replica.rows("SELECT message_id, count(*) AS cards FROM notifier.history GROUP BY message_id")
    assert {ends[0].id: 2, ends[1].id: 1, ends[2].id: 1} == {row["message_id"]: row["cards"] for row in causes}


async def test_the_first_of_two_announcements_in_an_envelope_counts(replica: Replica) -> None:
    """An approval that is announced twice keeps what was said first; its neighbours are announced once."""
    first, other = opened("wall"), opened("wall")
    again = first.model_copy(update={"summary": "Something else"})
    await replica.send(first, again, other)
    rows = await replica.rows("SELECT approval_id, card->>'summary' AS summary FROM notifier.deliveries")
    assert {(each.approval_id, each.summary) for each in (first, other)} == {tuple(row.values()) for row in rows}


async def test_revisions_of_one_approval_in_an_envelope_are_taken_in_their_order(replica: Replica) -> None:
    """The second one sees what the first one wrote, an older one behind them changes nothing, others go along."""
    news, other = opened("wall"), opened("wall")
    await replica.send(news, other)
    await replica.send(progressed(news, 2), progressed(other, 5), progressed(news, 4), progressed(news, 3))
    told = {row["approval_id"]: (row["revision"], row["note"]) for row in await replica.rows(CARDS)}
    assert {news.approval_id: (4, "p4 voted."), other.approval_id: (5, "p5 voted.")} == told
    assert 4 == len(await replica.rows(HISTORY))


class Retrying(InProcessBus):
    """A bus that notes what is to come again."""

    def __init__(self) -> None:
        super().__init__()
        self.retried: list[str] = []

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """Note the events' ids."""
        del delivery, attempt
        self.retried += [event.id for event in read_envelope(body)[0]]


async def test_early_news_spoils_no_other_of_its_envelope(replica: Replica) -> None:
    """The end of an approval that was not announced yet comes again by itself; its neighbours are closed once."""
    first, early, last = opened("wall"), opened("wall"), opened("wall")
    await replica.send(first, last)
    bus = Retrying()
    closing = partial(handlers.hear, cards={ApprovalClosed: handlers.close}, announcer=ANNOUNCER, endpoints={})
    consumer = Consumer("notifier.approvals", {ApprovalClosed: closing}, units=replica.units, bus=bus)
    ends = [an_event(closed(each)) for each in (first, early, last)]
    await consumer(Delivery("notifier.approvals", an_envelope(*ends)))
    told = {(row["approval_id"], row["state"]) for row in await replica.rows(CARDS)}
    assert {(first.approval_id, "approved"), (last.approval_id, "approved")} == told
    assert ([ends[1].id], 2) == (bus.retried, len(await replica.rows(HISTORY)))


async def test_a_bad_announcement_spoils_no_other_of_its_envelope(replica: Replica) -> None:
    """One that cannot be stored is buried alone."""
    first, bad, last = opened("wall"), opened("wall", summary="\x00"), opened("wall")
    await replica.send(first, bad, last)
    told = {row["approval_id"] for row in await replica.rows(CARDS)}
    assert ({first.approval_id, last.approval_id}, 1) == (told, len(replica.dead))


async def test_a_second_delivery_of_some_news_takes_the_rest_only(replica: Replica) -> None:
    """News that was handled before leaves no second trace; the new one that came with it is drawn."""
    news = [opened("wall"), opened("wall")]
    await replica.send(*news)
    ends = [an_event(closed(each)) for each in news]
    await replica.send_events(ends[0])
    await replica.send_events(*ends)
    assert ["approved", "approved"] == [row["state"] for row in await replica.rows(CARDS)]
    assert 2 == len(await replica.rows(HISTORY))


async def test_a_channel_that_fails_is_tried_again_and_given_up_in_the_end(replica: Replica) -> None:
    """Each failure leaves its reason and a later time; after the last one the card is given up, once."""
    worker, tries = Worker(replica.units, {"wall": Wall(broken=True)}), len(RETRY_SECONDS) + 1
    await replica.send(opened("wall"))
    for attempt in range(1, tries):
        await worker.run_once()
        (row,) = await replica.rows(STATES)
        assert ("due", attempt, "the wall is wet") == (row["state"], row["attempt"], row["error"])
        (due,) = await replica.rows("SELECT due_at > now() AS later FROM notifier.deliveries")
        assert due["later"]
        await replica.execute(HURRY)
    await worker.run_once()
    assert [("given_up", tries, 0)] == [
        (row["state"], row["attempt"], row["sent_revision"]) for row in await replica.rows(STATES)
    ]
    assert [("failed_for_good", "due", "given_up")] == [tuple(row.values()) for row in await replica.rows(HISTORY)]


async def test_a_channel_that_nobody_has_is_given_up_at_once(replica: Replica) -> None:
    """A rule may name a channel that this notifier does not have; the other cards are sent all the same."""
    wall = Wall()
    await replica.send(opened("nowhere", "wall"))
    await Worker(replica.units, {"wall": wall}).run_once()
    states = {row["channel"]: (row["state"], row["error"]) for row in await replica.rows(STATES)}
    assert {"nowhere": ("given_up", "no channel is called 'nowhere'"), "wall": ("sent", "")} == states


class Breaking(Wall):
    """A channel that breaks at its second card."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Note the first card, break at the second."""
        if self.sent:
            raise self._error
        return await super().send(card, address, reference, key=key)


async def test_a_card_that_breaks_its_channel_is_given_up_in_the_end(replica: Replica) -> None:
    """A bug is a failed try like any other; the card that was sent before it is not sent again."""
    worker = Worker(replica.units, {"wall": (wall := Breaking(ZeroDivisionError()))})
    await replica.send(opened("wall"), opened("wall"))
    for _ in range(len(RETRY_SECONDS) + 1):
        await worker.run_once()
        await replica.execute(HURRY)
    states = sorted((row["state"], row["error"]) for row in await replica.rows(STATES))
    assert ([("given_up", "bug: ZeroDivisionError"), ("sent", "")], 1) == (states, len(wall.sent))


async def test_an_outage_of_the_database_is_no_fault_of_a_card(replica: Replica) -> None:
    """It ends the round loudly; what was sent is written, and the other card waits for its lease to end."""
    await replica.send(opened("wall"), opened("wall"))
    with pytest.raises(Outage):
        await Worker(replica.units, {"wall": Breaking(Outage())}).run_once()
    assert [("due", ""), ("sent", "")] == sorted((row["state"], row["error"]) for row in await replica.rows(STATES))


class Revising(Wall):
    """A channel during whose sending the approval moves on."""

    def __init__(self, replica: Replica, news: ApprovalOpened) -> None:
        super().__init__()
        self._replica, self._news = replica, news

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Note the card; the first time its approval closes meanwhile."""
        shown = await super().send(card, address, reference, key=key)
        if card.revision == 1:
            await self._replica.send(closed(self._news))
        return shown


async def test_a_card_that_was_revised_while_it_was_sent_is_sent_again(replica: Replica) -> None:
    """The try of the older revision settles nothing, and the newer one follows."""
    news = opened("wall")
    wall = Revising(replica, news)
    worker = Worker(replica.units, {"wall": wall})
    await replica.send(news)
    await worker.run_once()
    assert [("pending", 1), ("approved", 2)] == wall.sent


async def test_a_round_writes_its_cards_in_one_transaction(replica: Replica) -> None:
    """The cards of a round of a quick place cost one write: a quarter of all that are on their way at once."""
    wall = Wall()
    worker = Worker(replica.units, {"wall": wall})
    await replica.send(*(opened("wall") for _ in range(AT_ONCE)))
    assert 0 == await worker.run_once()
    writers = await replica.rows("SELECT DISTINCT xmin::text FROM notifier.deliveries WHERE state = 'sent'")
    assert (AT_ONCE, 4) == (len(wall.sent), len(writers))


class Halls(Wall):
    """Walls by name, one of which is silent until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.answer, self.other_is_told = asyncio.Event(), asyncio.Event()
        self.silent = 0

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Note the card, of the silent one when it answers."""
        if address.channel == "wall:silent":
            self.silent += 1
            await self.answer.wait()
        else:
            self.other_is_told.set()
        return await super().send(card, address, reference, key=key)


async def test_a_silent_place_keeps_nobody_else(replica: Replica) -> None:
    """Many cards for it that were due first leave room, and what comes for another place meanwhile is told."""
    halls = Halls()
    for _ in range(2):
        await replica.send(*(opened("wall:silent") for _ in range(AT_ONCE)))
    sending = asyncio.create_task(Worker(replica.units, {"wall": halls}).run_once())
    async with asyncio.timeout(20):
        for _ in range(2):
            await replica.send(opened("wall:quick"))
            await halls.other_is_told.wait()
            halls.other_is_told.clear()
        waiting = halls.silent
        halls.answer.set()
        await sending
    assert (AT_ONCE // 4, 2 * AT_ONCE + 2) == (waiting, len(halls.sent))


async def test_two_workers_share_the_cards(replica: Replica) -> None:
    """However many look at the same moment, each card is sent once."""
    wall = Wall()
    await replica.send(*(opened("wall") for _ in range(20)))
    await asyncio.gather(*(Worker(replica.units, {"wall": wall}).run_once() for _ in range(3)))
    assert 20 == len(wall.sent)


async def test_an_escalation_s_channel_gets_its_card_then(replica: Replica) -> None:
    """Not before; the card says what the others say, and is redrawn with them to the end."""
    walls, news = {"wall": Wall(), "pager": Wall()}, escalating("pager")
    worker = Worker(replica.units, walls)
    await replica.send(news)
    await worker.run_once()
    assert [] == walls["pager"].sent
    await replica.send(progressed(news, 2))
    await worker.run_once()
    assert [] == walls["pager"].sent
    await replica.send(escalated(news, 3, "pager", "wall"))
    await worker.run_once()
    await replica.send(closed(news, revision=4))
    await worker.run_once()
    assert [("pending", 3), ("approved", 4)] == walls["pager"].sent
    assert [("pending", 1), ("pending", 2), ("pending", 3), ("approved", 4)] == walls["wall"].sent
    moves = [tuple(row.values()) for row in await replica.rows(HISTORY)]
    assert {("revised", "asleep", "asleep"), ("escalated", "asleep", "due")} <= set(moves)


async def test_an_escalation_that_comes_late_or_twice_wakes_its_channel_once(replica: Replica) -> None:
    """Newer news of a pending approval does not keep others from being asked, and stays on the card."""
    wall, news = Wall(), escalating("pager", "mail")
    worker = Worker(replica.units, {"wall": Wall(), "pager": wall})
    await replica.send(news)
    await replica.send(progressed(news, 5))
    await replica.send(escalated(news, 4, "pager"), escalated(news, 4, "pager"))
    await worker.run_once()
    await replica.send(escalated(news, 4, "pager"))
    await worker.run_once()
    assert [("pending", 5)] == wall.sent
    shown = "SELECT channel, state, revision, card->>'note' AS note FROM notifier.deliveries ORDER BY channel"
    assert [
        ("mail", "asleep", 5, "p5 voted."),
        ("pager", "sent", 5, "p5 voted."),
        ("wall", "sent", 5, "p5 voted."),
    ] == [tuple(row.values()) for row in await replica.rows(shown)]


async def test_nobody_new_is_asked_about_a_closed_approval(replica: Replica) -> None:
    """An escalation that comes behind the end wakes nothing, and neither does the end itself."""
    wall, news = Wall(), escalating("pager")
    await replica.send(news)
    await replica.send(closed(news, revision=3))
    await replica.send(escalated(news, 2, "pager"))
    await Worker(replica.units, {"wall": Wall(), "pager": wall}).run_once()
    assert [] == wall.sent


async def test_channels_that_nobody_has_set_up_are_said_once(notifier_url: str, tmp_path: Path) -> None:
    """When the notifier starts, by name; a call that such a rule holds adds no line of its own."""
    rulebook = tmp_path / "rules.yaml"
    rulebook.write_text(
        "tools:\n  mail: {category: unsafe_api, description: Send a mail., parameters: {type: object}}\n"
        "rules:\n  - {name: mails, match: {tool: '*'}, effect: require_approval, reason: r,"
        " approval: {approvers: [operators], channels: [email, log]}}\n"
    )
    with structlog.testing.capture_logs() as lines:
        async with a_replica("notifier", notifier_url, partial(build, NotifierSettings(rulebook=rulebook))) as replica:
            await replica.send(opened("email"))
            await next(duty for duty in replica.service.duties if duty.name == "send-unknown").run_once()
            states = [row["state"] for row in await replica.rows(STATES)]
    missing = [line for line in lines if line["event"] == "notifier.channels_not_set_up"]
    loud = [line for line in lines if line["log_level"] in {"warning", "error"} and line not in missing]
    assert ([["email"]], "given_up", []) == ([line["channels"] for line in missing], states[0], loud)


WORKSPACES = """
DROP TABLE IF EXISTS read.workspaces, read.workspace_changes;
DELETE FROM read.workspace_entries;
CREATE TABLE read.workspaces AS SELECT 'w' AS workspace_id, 'acme' AS tenant, 'conversation-1' AS conversation_id,
    'open' AS state;
INSERT INTO read.workspace_entries VALUES ('c1', 'w', 'acme', 1, 'write_file', 'change', '0', ARRAY['files:a.md'],
    'Create a.md', 'waiting', '', '{}');
CREATE TABLE read.workspace_changes AS SELECT 'c1' AS call_id, 0 AS ordinal, 'w' AS workspace_id, 'acme' AS tenant,
    1 AS position, 'files' AS pack, 'a.md' AS key, 'create' AS kind, NULL::text AS base_digest, NULL::int AS base_size,
    NULL::int AS base_mode, 'x' AS after_digest, 9 AS after_size, 420 AS after_mode, 'Create a.md (+1 -0)' AS summary,
    false AS "binary", 1 AS added, 0 AS removed;
"""


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_commit_s_card_tells_of_a_restore_since_its_entries_were_staged(replica: Replica, hours: int) -> None:
    """It is proposed afterwards, and what it runs may have been committed in between."""
    for statement in WORKSPACES.strip().split(";")[:-1]:
        await replica.execute(statement)
    arguments = {"workspace_id": "w", "tree_digest": "0" * 64, "entries": ["c1"]}
    call = a_call(tool="commit_changes", arguments=arguments, conversation_id="conversation-1")
    at = datetime.now(UTC) + timedelta(hours=hours)
    await replica.send_anew(opened("wall", call=call), restored_at=at)
    (row,) = await replica.rows("SELECT card FROM notifier.deliveries")
    assert row["card"]["restored"] == (round(at.timestamp() * 1_000_000) if hours > 0 else 0)


@pytest.mark.parametrize("minutes", [-1, 1])
async def test_a_card_whose_news_were_on_their_way_tells_of_a_restore(replica: Replica, minutes: int) -> None:
    """The call may have run since it was asked about; what is asked afterwards has not."""
    at = datetime.now(UTC)
    replica.units.database.restored = Restored(at, at)
    await replica.send_events(an_event(opened("wall"), time=at + timedelta(minutes=minutes)))
    (row,) = await replica.rows("SELECT card FROM notifier.deliveries")
    assert row["card"]["restored"] == (round(at.timestamp() * 1_000_000) if minutes < 0 else 0)


async def test_a_commit_s_card_tells_its_entries(replica: Replica) -> None:
    """They are read once, when the card is drawn first; a workspace of another conversation tells nothing."""
    for statement in WORKSPACES.strip().split(";")[:-1]:
        await replica.execute(statement)
    arguments = {"workspace_id": "w", "tree_digest": "0" * 64, "entries": ["c1"]}
    calls = [
        a_call(tool="commit_changes", arguments=arguments, conversation_id=each) for each in ("conversation-1", "other")
    ]
    await replica.send(*(opened("wall", call=call) for call in calls))
    cards = [row["card"] for row in await replica.rows("SELECT card FROM notifier.deliveries ORDER BY delivery_id")]
    assert {("1 created (9 bytes)", ("create a.md (+1 -0, 9 bytes)",)), ("", ())} == {
        (card["plan_head"], tuple(line["words"] for line in card["plan"])) for card in cards
    }
