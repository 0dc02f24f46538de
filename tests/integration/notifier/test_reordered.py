"""News that overtakes other news: whatever comes first, the card ends up saying how the call ended."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from placet.contracts.errors import Transient
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ApprovalProgressed,
    CastVote,
    Message,
    ToolCallFinished,
)
from placet.domain.catalog import Catalog
from placet.domain.directory import Directory
from placet.notifier import handlers
from placet.notifier.announcing import Announcer
from placet.notifier.worker import Worker
from placet.runtime.bus import Delivery
from placet.runtime.consumer import Arrival, Consumer
from placet.runtime.in_process import InProcessBus
from placet.runtime.work import Cause
from tests.builders import NOON, a_call, an_envelope, an_event
from tests.support.cards import Board, closed, finished, opened, progressed
from tests.support.house import Replica

ANNOUNCER = Announcer(Directory, Catalog([]), "", "en")
KINDS: dict[type[Message], Any] = {
    ApprovalOpened: handlers.announce,
    ApprovalProgressed: handlers.redraw,
    ApprovalClosed: handlers.close,
    ToolCallFinished: handlers.finish,
}


class Later(InProcessBus):
    """A bus that keeps what is to come again."""

    def __init__(self) -> None:
        super().__init__()
        self.again: deque[bytes] = deque()

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """Keep it."""
        del delivery, attempt
        self.again.append(body)


async def take(replica: Replica, *news: Message) -> int:
    """Have each handled in an envelope of its own, in this order, then what came too early; return how often."""
    bus = Later()
    taking = dict.fromkeys(KINDS, partial(handlers.hear, cards=KINDS, announcer=ANNOUNCER, endpoints={}))
    consumer = Consumer("notifier.approvals", taking, units=replica.units, bus=bus)
    bus.again.extend(an_envelope(an_event(each)) for each in news)
    taken = 0
    while bus.again:
        taken += 1
        await consumer(Delivery("notifier.approvals", bus.again.popleft()))
    return taken


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=lambda order: "".join(map(str, order)))
async def test_in_whatever_order_news_comes_the_card_says_how_the_call_ended(
    replica: Replica, order: tuple[int, ...]
) -> None:
    """Opened, closed and finished in each of their orders: one card, approved, that ran, and no word lost."""
    announced = opened("wall")
    news: list[Message] = [announced, closed(announced, decided_by="person:ada"), finished(announced)]
    board = Board()
    await take(replica, *(news[number] for number in order))
    await Worker(replica.units, {"wall": board}).run_once()
    card = board.shown[-1].card
    assert ("approved", "succeeded", "person:ada") == (card.state, card.ended, card.decided_by)
    assert card.note.endswith("It ran and succeeded.")


@pytest.mark.parametrize("kind", ["voted", "edited", "reminded", "escalated"])
async def test_news_of_an_approval_that_was_not_announced_yet_comes_again(replica: Replica, kind: str) -> None:
    """It is no letter that nobody can read; what it says is shown once the card is there."""
    announced, board = opened("wall"), Board()
    await take(replica, progressed(announced, 2, kind=kind), announced)
    await Worker(replica.units, {"wall": board}).run_once()
    assert [(kind, 2)] == [(shown.card.happened, shown.card.revision) for shown in board.shown]


@pytest.mark.parametrize(("unopened", "shown"), [(False, ["withdrawn"]), (True, [])])
async def test_a_withdrawal_that_comes_first_waits_for_its_card(
    replica: Replica, *, unopened: bool, shown: list[str]
) -> None:
    """Where people were asked: else they would be asked behind the end. What was never held has no card."""
    announced, board = opened("wall"), Board()
    end = closed(announced, "withdrawn", unopened=unopened)
    await take(replica, *([end] if unopened else [end, announced]))
    await Worker(replica.units, {"wall": board}).run_once()
    assert shown == [each.card.state for each in board.shown]


@pytest.mark.parametrize("order", list(permutations(range(2))), ids=["edited-first", "closed-first"])
async def test_a_closed_card_shows_what_its_end_edited(replica: Replica, order: tuple[int, ...]) -> None:
    """One transaction sends both news; whichever comes first, the card has the arguments that were approved."""
    announced, less = opened("wall"), a_call(arguments={"amount": 7})
    edited = progressed(announced, 2, kind="edited", call=less, summary="Over 7?")
    news: list[Message] = [edited, closed(announced, decided_by="person:ada", edited=edited)]
    board = Board()
    await take(replica, announced, *(news[number] for number in order))
    await Worker(replica.units, {"wall": board}).run_once()
    card = board.shown[-1].card
    assert ("approved", "Over 7?", less.digest) == (card.state, card.summary, card.digest)
    assert ("7", "299") == next((each.text, each.changed_from) for each in card.arguments if each.name == "amount")


async def test_a_closed_card_shows_an_edit_that_a_vote_overtook(replica: Replica) -> None:
    """The news of the edit were older than the card by then; its end brings the arguments that were approved."""
    announced, less = opened("wall"), a_call(arguments={"amount": 7})
    edited = progressed(announced, 2, kind="edited", call=less, summary="Over 7?")
    voted = progressed(announced, 3, person="person:bob")
    board = Board()
    await take(replica, announced, voted, edited, closed(announced, "approved", 3, edited=edited))
    await Worker(replica.units, {"wall": board}).run_once()
    card = board.shown[-1].card
    assert ("approved", "Over 7?", less.digest) == (card.state, card.summary, card.digest)


async def test_an_end_that_comes_first_waits_for_its_card_and_a_free_call_s_for_nothing(replica: Replica) -> None:
    """What was held comes again; a call that needed nobody is done with at once."""
    announced = opened("wall")
    async with replica.units.begin() as work:
        with pytest.raises(Transient):
            await handlers.finish([Arrival(finished(announced), Cause(), NOON)], work, ANNOUNCER)
    assert 1 == await take(replica, finished(opened(), held=False))


async def test_the_closed_card_says_which_way_each_person_voted(replica: Replica) -> None:
    """Nobody's way is told before the end; then everybody's is, the deciding one last and with its words."""
    announced, board = opened("wall"), Board()
    worker = Worker(replica.units, {"wall": board})
    voted = [progressed(announced, number, person=f"person:{name}") for number, name in ((2, "ada"), (3, "bob"))]
    await take(replica, announced, *voted)
    await worker.run_once()
    cast = [CastVote(person="person:ada", verb="approve"), CastVote(person="person:bob", verb="abstain")]
    last = CastVote(person="person:eve", verb="deny")
    end = closed(announced, "denied", 4, decided_by="person:eve", reason="too much", votes=[*cast, last])
    await take(replica, end)
    await worker.run_once()
    before, after = ([(each.person, each.decision, each.reason) for each in shown.card.votes] for shown in board.shown)
    assert [("person:ada", "", ""), ("person:bob", "", "")] == before
    assert [("person:ada", "approve", ""), ("person:bob", "abstain", ""), ("person:eve", "deny", "too much")] == after
