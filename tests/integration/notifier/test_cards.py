"""Cards on real PostgreSQL: one per channel, redrawn when the approval moves, sent once, given up in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from services.notifier import handlers
from services.notifier.channels import ChannelFailed
from services.notifier.rules import RETRY_SECONDS
from services.notifier.worker import BATCH, Worker
from shared.errors import Transient
from shared.ids import new_id
from shared.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.house import Replica

STATES = "SELECT channel, state, revision, sent_revision, attempt, error FROM notifier.deliveries ORDER BY channel"
HISTORY = "SELECT event, from_state, to_state FROM notifier.history ORDER BY id"
#: Whatever waits for its next try, or for its worker's lease to end, is due now.
HURRY = "UPDATE notifier.deliveries SET due_at = now() - interval '1 second'"


class Wall:
    """A channel that notes what is sent, or refuses it."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.sent: list[tuple[str, int]] = []

    async def send(self, card: Mapping[str, Any], *, revision: int) -> None:
        """Note the card's state."""
        if self.broken:
            raise ChannelFailed("the wall is wet")
        self.sent.append((card["state"], revision))


def opened(*channels: str, **changes: Any) -> ApprovalOpened:
    """Return the news that a call waits for people."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "approval_id": new_id(),
        "revision": 1,
        "call": a_call(),
        "summary": "Create a payment link over 299 TRY?",
        "rule": "payment-links",
        "reason": "It costs money.",
        "approval": an_approval_rule(channels=list(channels)),
        "expires_at": NOON,
    }
    return ApprovalOpened(**(fields | changes))


def closed(news: ApprovalOpened, state: str = "approved", revision: int = 2) -> ApprovalClosed:
    """Return the news that the approval is over."""
    return ApprovalClosed(
        tenant=news.tenant,
        approval_id=news.approval_id,
        revision=revision,
        conversation_id=news.call.conversation_id,
        call_id=news.call.call_id,
        state=state,
        closed_at=NOON,
    )


def progressed(news: ApprovalOpened, revision: int) -> ApprovalProgressed:
    """Return the news that the approval moved on."""
    return ApprovalProgressed(
        tenant=news.tenant,
        approval_id=news.approval_id,
        revision=revision,
        conversation_id=news.call.conversation_id,
        call_id=news.call.call_id,
        note=f"vote {revision}",
    )


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
    assert [("succeeded", "due", "sent"), ("revised", "sent", "due"), ("succeeded", "due", "sent")] == [
        tuple(row.values()) for row in await replica.rows(HISTORY)
    ]


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
    await replica.send(closed(opened(), "withdrawn", revision=1))
    assert ([], []) == (replica.dead, await replica.rows(STATES))


@pytest.mark.parametrize("state", ["approved", "denied", "expired"])
async def test_another_end_before_its_card_comes_again(replica: Replica, state: str) -> None:
    """What people decided or let expire was announced: the news of it is on its way and the end waits for it."""
    with pytest.raises(Transient):
        async with replica.units.begin() as work:
            await handlers.close(closed(opened(), state), work)


async def test_two_revisions_at_once_are_both_drawn(replica: Replica) -> None:
    """The second one waits for the first one's commit, sees what it wrote, and keeps it."""
    news = opened("wall")
    await replica.send(news)

    async def end() -> None:
        async with replica.units.begin() as work:
            await handlers.close(closed(news, revision=3), work)

    async with replica.units.begin() as work:
        await handlers.redraw(progressed(news, 2), work)
        ending = asyncio.create_task(end())
        await replica.until_waiting(1)
    await ending
    shown = "SELECT revision, card->>'note' AS note, card->>'state' AS state FROM notifier.deliveries"
    assert [{"revision": 3, "note": "vote 2", "state": "approved"}] == await replica.rows(shown)


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


async def test_a_channel_that_nobody_has_fails_like_any_other(replica: Replica) -> None:
    """A rule may name a channel that this notifier does not have; the other cards are sent all the same."""
    wall = Wall()
    await replica.send(opened("nowhere", "wall"))
    await Worker(replica.units, {"wall": wall}).run_once()
    states = {row["channel"]: (row["state"], row["error"]) for row in await replica.rows(STATES)}
    assert {"nowhere": ("due", "no channel is called 'nowhere'"), "wall": ("sent", "")} == states


class Breaking(Wall):
    """A channel with a bug that shows at its second card."""

    async def send(self, card: Mapping[str, Any], *, revision: int) -> None:
        """Note the first card, break at the second."""
        if self.sent:
            raise ZeroDivisionError
        await super().send(card, revision=revision)


async def test_a_channel_that_breaks_leaves_written_what_it_sent(replica: Replica) -> None:
    """A bug ends the round loudly; the card sent before it is not sent again, the others wait for their lease."""
    await replica.send(opened("wall"), opened("wall"))
    with pytest.raises(ZeroDivisionError):
        await Worker(replica.units, {"wall": Breaking()}).run_once()
    assert ["due", "sent"] == sorted(row["state"] for row in await replica.rows(STATES))


class Revising(Wall):
    """A channel during whose sending the approval moves on."""

    def __init__(self, replica: Replica, news: ApprovalOpened) -> None:
        super().__init__()
        self._replica, self._news = replica, news

    async def send(self, card: Mapping[str, Any], *, revision: int) -> None:
        """Note the card; the first time its approval closes meanwhile."""
        await super().send(card, revision=revision)
        if revision == 1:
            await self._replica.send(closed(self._news))


async def test_a_card_that_was_revised_while_it_was_sent_is_sent_again(replica: Replica) -> None:
    """The try of the older revision settles nothing, and the newer one follows."""
    news = opened("wall")
    wall = Revising(replica, news)
    worker = Worker(replica.units, {"wall": wall})
    await replica.send(news)
    await worker.run_once()
    assert ["due"] == [row["state"] for row in await replica.rows(STATES)]
    await worker.run_once()
    assert [("pending", 1), ("approved", 2)] == wall.sent


async def test_a_round_writes_its_cards_in_one_transaction(replica: Replica) -> None:
    """Fifty cards of a quick channel cost one write, and a full round says that more may be due."""
    wall = Wall()
    worker = Worker(replica.units, {"wall": wall})
    await replica.send(*(opened("wall") for _ in range(BATCH)))
    assert BATCH == await worker.run_once()
    assert 0 == await worker.run_once()
    writers = await replica.rows("SELECT DISTINCT xmin::text FROM notifier.deliveries WHERE state = 'sent'")
    assert (BATCH, 1) == (len(wall.sent), len(writers))


async def test_two_workers_share_the_cards(replica: Replica) -> None:
    """However many look at the same moment, each card is sent once."""
    wall = Wall()
    await replica.send(*(opened("wall") for _ in range(20)))
    await asyncio.gather(*(Worker(replica.units, {"wall": wall}).run_once() for _ in range(3)))
    assert 20 == len(wall.sent)
