"""The delivery machine on real PostgreSQL: order by leases, rests, fallbacks, crowds, quiet hours and ends."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import structlog

from placet.contracts.messages import ApprovalOpened, RetryDelivery
from placet.domain.directory import Directory
from placet.notifier import store
from placet.notifier.card_limits import Limits
from placet.notifier.channels import ChannelFailed
from placet.notifier.claiming import Manners, recount
from placet.notifier.falling_back import BATCH, UNTOLD, see_to_untold
from placet.notifier.people import Case
from placet.notifier.quiet_hours import quiet_hours
from placet.notifier.rules import ASKED_TRIES_MAX, delivery_id, first_addresses
from placet.notifier.states import State
from placet.notifier.worker import Worker
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.cards import Board, closed, finished, opened, progressed
from tests.support.house import Replica

LATER = datetime.now(UTC) + timedelta(hours=1)
STATES = """
    SELECT channel, state, revision, sent_revision, attempt, error, reference, urgent, alerted
    FROM notifier.deliveries ORDER BY approval_id, channel
"""
HURRY = "UPDATE notifier.deliveries SET due_at = now() - interval '1 second'"
FREE = "UPDATE notifier.paces SET free_at = now() - interval '1 minute'"
#: Little time is left to tell anybody.
HASTEN = "UPDATE notifier.deliveries SET tell_by = now() - interval '1 second'"
ABANDON = "UPDATE notifier.deliveries SET lease_until = now() - interval '1 second'"


async def states(replica: Replica) -> list[str]:
    """Return the deliveries' states, in the order of approval and channel."""
    return [row["state"] for row in await replica.rows(STATES)]


def untold_so_far() -> float:
    """Return how many alarms this process has raised."""
    return float(UNTOLD._value.get())


def the_id(news: ApprovalOpened) -> str:
    """Return the id of an approval's first delivery."""
    (place, *_) = first_addresses(news.approval, Case(Directory(), news.call.requester, NOON))
    return delivery_id(news.approval_id, place.address)


async def test_an_update_finds_the_card_by_its_reference(replica: Replica) -> None:
    """What the channel returned comes back with the next card, and each card has a key of its own."""
    board, news = Board(), opened("wall")
    worker = Worker(replica.units, {"wall": board})
    await replica.send(news)
    await worker.run_once()
    await replica.send(closed(news))
    await worker.run_once()
    assert [None, {"place": "1"}] == [each.reference for each in board.shown]
    assert 2 == len({each.key for each in board.shown})


async def test_an_update_never_overtakes_a_card_that_is_being_sent(replica: Replica) -> None:
    """While one try is under way nobody else tries, whatever news comes; the newer card follows on the same place."""
    board, news = Board(), opened("wall")
    board.gate.clear()
    workers = [Worker(replica.units, {"wall": board}) for _ in range(2)]
    await replica.send(news)
    sending = asyncio.create_task(workers[0].run_once())
    await board.begun.wait()
    await replica.send(closed(news))
    await workers[1].run_once()
    assert [] == board.said
    board.gate.set()
    await sending
    await workers[1].run_once()
    assert [("pending", 1), ("approved", 2)] == board.said
    assert {"place": "1"} == board.shown[1].reference


async def test_a_worker_whose_lease_ran_out_settles_nothing(replica: Replica) -> None:
    """Another one has shown the card since; what the late one brings changes nothing."""
    late, quick = Board(), Board()
    late.gate.clear()
    await replica.send(opened("wall"))
    sending = asyncio.create_task(Worker(replica.units, {"wall": late}).run_once())
    await late.begun.wait()
    await replica.execute(ABANDON)
    await Worker(replica.units, {"wall": quick}).run_once()
    late.failures = [ChannelFailed("too late")]
    late.gate.set()
    await sending
    (row,) = await replica.rows(STATES)
    assert ("sent", "", {"place": "1"}) == (row["state"], row["error"], row["reference"])


async def test_a_channel_that_does_not_answer_is_a_failed_try(replica: Replica) -> None:
    """The card is tried again; whether the first try arrived nobody knows."""
    board = Board()
    board.gate.clear()
    await replica.send(opened("wall"))
    await Worker(replica.units, {"wall": board}, send_seconds=0.01).run_once()
    (row,) = await replica.rows(STATES)
    assert ("due", 1, "no answer within 0.01 s") == (row["state"], row["attempt"], row["error"])


@pytest.mark.parametrize(("asked", "longest"), [(30, 30), (3.2e8, 900), (1e15, 900)])
async def test_a_channel_that_asks_for_a_rest_gets_it(replica: Replica, asked: float, longest: int) -> None:
    """Nothing is sent there for anybody before it is over, a quarter of an hour at most; other channels go on."""
    board = Board(ChannelFailed("too many", retry_after=asked))
    worker = Worker(replica.units, {"wall": board, "door": board})
    await replica.send(opened("wall"))
    await worker.run_once()
    (row,) = await replica.rows("SELECT extract(epoch FROM due_at - now()) AS rest FROM notifier.deliveries")
    assert 0 < row["rest"] <= longest
    await replica.send(opened("wall", tenant="other"), opened("door"))
    await replica.execute(HURRY)
    await worker.run_once()
    assert ["door"] == [each.address.channel for each in board.shown]
    await replica.execute(FREE)
    await worker.run_once()
    assert ["door", "wall", "wall"] == [each.address.channel for each in board.shown]


async def test_a_channel_is_used_at_its_pace_for_each_tenant(replica: Replica) -> None:
    """Six a minute are two at once after a rest, and then one in ten seconds; another tenant has its own."""
    board = Board()
    worker = Worker(replica.units, {"wall": board}, manners=Manners(per_minute={"wall": 6}))
    await replica.send(*(opened("wall") for _ in range(15)), opened("wall", tenant="other"))
    await worker.run_once()
    tenants = [each.card.tenant for each in board.shown]
    assert (2, 1) == (tenants.count("acme"), tenants.count("other"))
    await worker.run_once()
    assert 3 == len(board.shown)
    await replica.execute(FREE)
    await worker.run_once()
    assert 5 == len(board.shown)


async def test_a_permanent_failure_is_given_up_and_the_next_place_is_told(replica: Replica) -> None:
    """Where nobody else was told, the first sleeping place of the rule is; the approval waits on."""
    board = Board(ChannelFailed("no such mailbox", permanent=True))
    step = {"after_seconds": 60, "approvers": ["operators"], "channels": ["pager", "phone"]}
    await replica.send(opened(approval=an_approval_rule(channels=["wall"], escalations=[step]), expires_at=LATER))
    worker = Worker(replica.units, dict.fromkeys(("wall", "pager", "phone"), board))
    await worker.run_once()
    await see_to_untold(replica.units)
    await worker.run_once()
    assert [("pager", "pending")] == [(each.address.channel, each.card.state) for each in board.shown]
    assert ["sent", "asleep", "given_up"] == await states(replica)
    moves = await replica.rows("SELECT event FROM notifier.history WHERE to_state = 'due' ORDER BY id")
    assert ["fell_back"] == [row["event"] for row in moves]


async def test_nobody_is_woken_while_one_place_shows_the_card(replica: Replica) -> None:
    """One of two places fails for good: the other one was told, which is enough."""
    broken, board = Board(ChannelFailed("gone", permanent=True)), Board()
    step = {"after_seconds": 60, "approvers": ["operators"], "channels": ["pager"]}
    rule = an_approval_rule(channels=["wall", "door"], escalations=[step])
    await replica.send(opened(approval=rule, expires_at=LATER))
    await Worker(replica.units, {"wall": broken, "door": board, "pager": board}).run_once()
    await see_to_untold(replica.units)
    assert ["sent", "asleep", "given_up"] == await states(replica)


async def test_an_approval_that_nobody_could_be_told_of_alarms_once_and_waits(replica: Replica) -> None:
    """No place is left: operators are told, and nothing about the approval is decided."""
    await replica.send(opened("nowhere", expires_at=LATER))
    await Worker(replica.units, {}).run_once()
    await see_to_untold(replica.units)
    await see_to_untold(replica.units)
    (row,) = await replica.rows(STATES)
    assert ("given_up", True) == (row["state"], row["alerted"])
    (card,) = await replica.rows("SELECT card->>'state' AS state, pending FROM notifier.deliveries")
    assert {"state": "pending", "pending": True} == card
    assert [] == replica.sent[1:]


async def test_a_given_up_card_that_was_shown_is_put_right_at_the_end(replica: Replica) -> None:
    """No place goes on showing as pending what is over, not even one that failed in between."""
    board, news = Board(), opened("wall")
    worker = Worker(replica.units, {"wall": board})
    await replica.send(news)
    await worker.run_once()
    await replica.send(progressed(news, 2))
    board.failures = [ChannelFailed("gone", permanent=True)]
    await worker.run_once()
    await replica.send(progressed(news, 3))
    assert ["given_up"] == await states(replica)
    await replica.send(closed(news, revision=4))
    await worker.run_once()
    assert ([("pending", 1), ("approved", 4)], ["sent"]) == (board.said, await states(replica))


async def test_a_given_up_card_that_nobody_saw_stays_given_up(replica: Replica) -> None:
    """There is nothing to put right, so nobody is told of the end of what they never heard of."""
    board, news = Board(ChannelFailed("gone", permanent=True)), opened("wall")
    worker = Worker(replica.units, {"wall": board})
    await replica.send(news)
    await worker.run_once()
    await replica.send(closed(news))
    await worker.run_once()
    assert ([], ["given_up"]) == (board.said, await states(replica))


async def test_an_escalation_behind_the_end_wakes_nobody(replica: Replica) -> None:
    """The sleeping place was spared by the end, and stays so; the place that was given up does too."""
    step = {"after_seconds": 60, "approvers": ["operators"], "channels": ["pager"]}
    news = opened(approval=an_approval_rule(channels=["wall"], escalations=[step]))
    board = Board(ChannelFailed("gone", permanent=True))
    worker = Worker(replica.units, {"wall": board, "pager": board})
    await replica.send(news)
    await worker.run_once()
    await replica.send(closed(news, revision=3))
    late = progressed(news, 2, kind="escalated", channels=["pager"], approvers=["operators"])
    await replica.send(late)
    await see_to_untold(replica.units)
    await worker.run_once()
    assert ([], ["spared", "given_up"]) == (board.said, await states(replica))


async def test_an_operator_has_a_given_up_card_tried_again(replica: Replica) -> None:
    """It is due with a clean record; who wanted it stands in the history; a second wish changes nothing."""
    board, news = Board(ChannelFailed("gone", permanent=True)), opened("wall")
    worker = Worker(replica.units, {"wall": board})
    await replica.send(news)
    await worker.run_once()
    wish = RetryDelivery(tenant="acme", delivery_id=the_id(news), by="person:grace")
    await replica.send(wish)
    await worker.run_once()
    await replica.send(wish)
    assert ([("pending", 1)], ["sent"]) == (board.said, await states(replica))
    made = "SELECT actor, from_state, to_state FROM notifier.history WHERE event = 'retried' ORDER BY id"
    assert [("person:grace", "given_up", "due"), ("person:grace", "sent", "sent")] == [
        tuple(row.values()) for row in await replica.rows(made)
    ]


async def test_a_delivery_of_another_tenant_is_not_tried_again(replica: Replica) -> None:
    """The wish is refused and buried nowhere; the delivery stays given up."""
    news = opened("nowhere")
    await replica.send(news)
    await Worker(replica.units, {}).run_once()
    await replica.send(RetryDelivery(tenant="rival", delivery_id=the_id(news), by="person:eve"))
    assert ([], ["given_up"]) == (replica.dead, await states(replica))


@pytest.mark.parametrize("kind", ["succeeded", "failed", "unknown"])
async def test_the_card_says_how_the_call_ended(replica: Replica, kind: str) -> None:
    """Once, whatever comes twice; its revision is the approval's still."""
    board, news = Board(), opened("wall")
    worker = Worker(replica.units, {"wall": board})
    await replica.send(news)
    await replica.send(closed(news))
    end = finished(news, kind=kind, error="" if kind == "succeeded" else "no answer")
    await replica.send(end)
    await replica.send(end)
    await worker.run_once()
    await worker.run_once()
    assert [("approved", kind, 2)] == [(each.card.state, each.card.ended, each.card.revision) for each in board.shown]


async def test_a_call_that_needed_nobody_has_no_cards(replica: Replica) -> None:
    """Its end is heard and leaves nothing."""
    await replica.send(finished(opened(), held=False))
    assert ([], []) == (await replica.rows(STATES), replica.dead)


async def test_another_tenant_ends_no_card(replica: Replica) -> None:
    """The end of a call counts where its approval is."""
    news = opened("wall")
    await replica.send(news)
    await replica.send(finished(news, tenant="rival", held=False))
    assert [{"ended": ""}] == await replica.rows("SELECT card->>'ended' AS ended FROM notifier.deliveries")


async def test_a_thousand_calls_show_as_many_cards_as_people_bear(replica: Replica) -> None:
    """T17: the newest card counts the others; one that is risky stands alone and is shown all the same."""
    board, limits = Board(), Limits(waiting=5)
    worker = Worker(replica.units, {"wall": board}, manners=Manners(limits))
    news = [opened("wall", call=a_call(tool=f"tool_{number % 7}"), expires_at=LATER) for number in range(1000)]
    for begin in range(0, 1000, 50):
        await replica.send(*news[begin : begin + 50])
    rule = an_approval_rule(channels=["wall"], approvals=2)
    await replica.send(opened(approval=rule, expires_at=LATER))
    while await worker.run_once():
        pass
    assert (5, 1) == _normal_and_risky(board)
    await recount(replica.units, limits)
    await worker.run_once()
    assert 995 == sum(each.card.similar + each.card.held_back for each in _newest(board))
    assert 6 == len(_newest(board))


def _normal_and_risky(board: Board) -> tuple[int, int]:
    cards = [each.card for each in board.shown]
    return sum(card.risk == "normal" for card in cards), sum(card.risk == "high" for card in cards)


def _newest(board: Board) -> list[Any]:
    return list({each.card.approval_id: each for each in board.shown}.values())


async def test_a_card_is_let_through_when_another_is_over(replica: Replica) -> None:
    """The oldest that was kept back comes next; what ended while it was kept back never comes."""
    board, limits = Board(), Limits(same=1)
    worker = Worker(replica.units, {"wall": board}, manners=Manners(limits))
    first, second, third = (opened("wall", approval_id=name, expires_at=LATER) for name in ("a", "b", "c"))
    await replica.send(first, second, third)
    await worker.run_once()
    assert ["sent", "kept", "kept"] == await states(replica)
    await replica.send(closed(second))
    await recount(replica.units, limits)
    await worker.run_once()
    assert [("a", 0), ("a", 1)] == [(each.card.approval_id, each.card.similar) for each in board.shown]
    await replica.send(closed(first))
    await recount(replica.units, limits)
    await worker.run_once()
    assert ["sent", "spared", "sent"] == await states(replica)
    assert {("a", "approved"), ("c", "pending")} == {
        (each.card.approval_id, each.card.state) for each in board.shown[2:]
    }


async def test_an_escalation_brings_a_card_that_was_kept_back(replica: Replica) -> None:
    """Whom it names is told, however many cards wait there."""
    board, limits = Board(), Limits(waiting=1)
    worker = Worker(replica.units, {"wall": board}, manners=Manners(limits))
    first, second = opened("wall", approval_id="a"), opened("wall", approval_id="b")
    await replica.send(first, second)
    await worker.run_once()
    await replica.send(progressed(second, 2, kind="escalated", channels=["wall"], approvers=["operators"]))
    await worker.run_once()
    assert ["a", "b"] == [each.card.approval_id for each in board.shown]


async def test_quiet_hours_hold_a_first_card_and_no_update(replica: Replica) -> None:
    """It waits for the morning; what is shown already is put right at night too."""
    now = datetime.now(UTC)
    begin, end = now - timedelta(hours=1), now + timedelta(hours=1)
    hours = quiet_hours(f"{begin:%H:%M}-{end:%H:%M}")
    board, awake = Board(), opened("wall", approval_id="a")
    worker = Worker(replica.units, {"wall": board})
    await replica.send(awake)
    await worker.run_once()
    quiet = Worker(replica.units, {"wall": board}, manners=Manners(hours_of=lambda _: hours))
    await replica.send(opened("wall", approval_id="b", expires_at=now + timedelta(hours=3)))
    await replica.send(closed(awake))
    await quiet.run_once()
    assert [("pending", 1), ("approved", 2)] == board.said
    (due,) = await replica.rows("SELECT due_at, state, error FROM notifier.deliveries WHERE approval_id = 'b'")
    assert end.replace(second=0, microsecond=0) == due["due_at"]
    await see_to_untold(replica.units)
    assert "due" == due["state"]


async def test_the_next_in_line_is_told_when_quiet_hours_outlast_the_deadline(replica: Replica) -> None:
    """Whoever sleeps is left in peace while somebody else can decide."""
    now = datetime.now(UTC)
    hours = quiet_hours(f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}")
    step = {"after_seconds": 60, "approvers": ["operators"], "channels": ["pager"]}
    rule = an_approval_rule(channels=["wall"], escalations=[step])
    board = Board()
    manners = Manners(hours_of=lambda each: hours if each.address.channel == "wall" else None)
    worker = Worker(replica.units, {"wall": board, "pager": board}, manners=manners)
    await replica.send(opened(approval=rule, expires_at=now + timedelta(hours=1)))
    await worker.run_once()
    await see_to_untold(replica.units)
    await worker.run_once()
    assert ["pager"] == [each.address.channel for each in board.shown]


async def test_somebody_is_woken_when_nobody_else_is_left_before_the_deadline(replica: Replica) -> None:
    """An approval never runs out unseen because its only people sleep."""
    now = datetime.now(UTC)
    hours = quiet_hours(f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}")
    board = Board()
    worker = Worker(replica.units, {"wall": board}, manners=Manners(hours_of=lambda _: hours))
    await replica.send(opened("wall", expires_at=now + timedelta(hours=1)))
    await worker.run_once()
    await see_to_untold(replica.units)
    await worker.run_once()
    assert [("pending", 1)] == board.said


async def test_a_call_that_is_kept_back_from_everybody_is_told_before_it_expires(replica: Replica) -> None:
    """The cap holds while there is time; in the last quarter the card comes, and operators are alarmed, once."""
    board, manners = Board(), Manners(Limits(waiting=1))
    worker = Worker(replica.units, {"wall": board}, manners=manners)
    first, second = (opened("wall", approval_id=name, expires_at=LATER) for name in ("a", "b"))
    await replica.send(first, second)
    before = untold_so_far()
    for hasten in ("", f"{HASTEN} WHERE approval_id = 'b'", f"{HASTEN} WHERE tell_by IS NOT NULL"):
        if hasten:
            await replica.execute(hasten)
        await worker.run_once()
        await see_to_untold(replica.units)
        await recount(replica.units, manners.limits)
        await worker.run_once()
    assert (["sent", "sent"], 1) == (await states(replica), untold_so_far() - before)
    assert [("a", False), ("b", True)] == [
        (row["approval_id"], row["alerted"])
        for row in await replica.rows("SELECT approval_id, alerted FROM notifier.deliveries ORDER BY approval_id")
    ]
    wakes = "SELECT event FROM notifier.history WHERE from_state = 'kept' AND to_state = 'due'"
    assert ["hurried"] == [row["event"] for row in await replica.rows(wakes)]


async def test_a_channel_that_stays_away_alarms_before_the_deadline(replica: Replica) -> None:
    """Its tries go on; meanwhile operators know, and every other place of the rule is told."""
    board = Board()
    step = {"after_seconds": 3000, "approvers": ["operators"], "channels": ["pager", "phone"]}
    news = opened(approval=an_approval_rule(channels=["wall"], escalations=[step]), expires_at=LATER)
    await replica.send(news)
    away = Board(*(ChannelFailed("no answer") for _ in range(9)))
    before = untold_so_far()
    await Worker(replica.units, {"wall": away}).run_once()
    await replica.execute(HASTEN)
    await see_to_untold(replica.units)
    await Worker(replica.units, dict.fromkeys(("pager", "phone"), board) | {"wall": away}).run_once()
    await see_to_untold(replica.units)
    assert (["pager", "phone"], 1) == (
        sorted(each.address.channel for each in board.shown),
        untold_so_far() - before,
    )


async def test_many_cards_that_were_given_up_keep_no_other_from_being_seen_to(replica: Replica) -> None:
    """What is told elsewhere is not looked at again and again, however much of it there is."""
    board, broken = Board(), Board(*(ChannelFailed("gone", permanent=True) for _ in range(2 * BATCH)))
    worker = Worker(replica.units, {"wall": board, "door": broken})
    both = an_approval_rule(channels=["wall", "door"])
    await replica.send(*(opened(approval=both, expires_at=LATER) for _ in range(BATCH)))
    await replica.send(opened("door", approval_id="alone", expires_at=LATER))
    while await worker.run_once():
        pass
    await see_to_untold(replica.units)
    alerted = await replica.rows("SELECT approval_id FROM notifier.deliveries WHERE alerted")
    assert [{"approval_id": "alone"}] == alerted


async def test_a_channel_that_fails_says_so_at_once_and_once(replica: Replica) -> None:
    """Operators need not wait until cards are given up; that it works again is a line, too."""
    worker = Worker(replica.units, {"wall": Board(*(ChannelFailed("it rains") for _ in range(3)))})
    with structlog.testing.capture_logs() as lines:
        await replica.send(opened("wall"), opened("wall"))
        for _ in range(3):
            await worker.run_once()
            await replica.execute(HURRY)
    told = [(line["event"], line["log_level"], line.get("reason")) for line in lines if "channel" in line["event"]]
    assert [("channel.failing", "warning", "it rains"), ("channel.works", "info", None)] == told


async def test_tries_end_where_a_channel_only_ever_asks_for_rests(replica: Replica) -> None:
    """A channel that says "later" for ever is given up like one that fails."""
    tries = ASKED_TRIES_MAX
    board = Board(*(ChannelFailed("too many", retry_after=1) for _ in range(tries)))
    worker = Worker(replica.units, {"wall": board})
    await replica.send(opened("wall"))
    for _ in range(tries):
        await replica.execute(HURRY)
        await replica.execute(FREE)
        await worker.run_once()
    assert ["given_up"] == await states(replica)


COUNT = "SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(chr(31), tenant, channel, recipient), 0)) FROM {}"


async def test_who_claims_and_who_recounts_never_wait_for_each_other(replica: Replica, notifier_url: str) -> None:
    """A recount has the address and wants the cards; a claim has these cards and leaves them to the next look."""
    board, counting = Board(), threading.Event()
    await replica.send(opened("wall", expires_at=LATER))

    def recounting() -> None:
        with psycopg.connect(notifier_url) as connection:
            connection.execute(COUNT.format("notifier.deliveries").encode())
            counting.set()
            connection.execute("SELECT FROM notifier.deliveries FOR UPDATE")

    with ThreadPoolExecutor(1) as pool:
        threads: list[Future[None]] = []

        def begin_recount(_: object) -> None:
            # Between the claim's lock of the cards and whatever it does about their address.
            threads.append(pool.submit(recounting))
            counting.wait()

        manners = Manners(Limits(waiting=1), hours_of=begin_recount)
        await Worker(replica.units, {"wall": board}, manners=manners).run_once()
        left = list(board.said)
        await asyncio.to_thread(threads[0].result)
    await Worker(replica.units, {"wall": board}, manners=Manners(Limits(waiting=1))).run_once()
    assert ([], 1) == (left, len(board.shown))


async def test_a_worker_whose_card_another_one_has_writes_nothing(replica: Replica) -> None:
    """Its lease ran out while it sent, and somebody else claimed the card: what it found out is not kept."""
    await replica.send(opened("wall", expires_at=LATER))
    async with replica.units.begin() as work:
        found = await store.claimable(work, store.ALL, 10, busy=())
        first = await store.claim(work, found, timedelta(seconds=60))
    async with replica.units.begin() as work:
        second = await store.claim(work, first, timedelta(seconds=60))
    late = [replace(each, state=State.GIVEN_UP, error="too late") for each in first]
    async with replica.units.begin() as work:
        await store.settle(work, [replace(each, error="in time") for each in second])
        await store.settle(work, late)
    assert [("due", "in time")] == [(row["state"], row["error"]) for row in await replica.rows(STATES)]
