"""Two notifiers and their duties on the same cards: whoever waits, waits in one order, so nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from structlog.testing import capture_logs

from placet.contracts.messages import ApprovalCommented, ApprovalOpened, MailBounced, RetryWebhookEvent
from placet.notifier.card_limits import Limits
from placet.notifier.claiming import Manners, recount
from placet.notifier.falling_back import see_to_untold
from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from placet.notifier.worker import Worker
from tests.support.cards import Board, closed, opened, progressed
from tests.support.house import Replica, a_replica

LATER = datetime.now(UTC) + timedelta(hours=1)
IN_ORDER = "SELECT approval_id FROM notifier.deliveries ORDER BY delivery_id"
STATES = "SELECT state FROM notifier.deliveries ORDER BY approval_id"
LOCK = sa.text("SELECT FROM notifier.deliveries WHERE approval_id = :approval_id FOR UPDATE")
CROWD = """UPDATE notifier.deliveries SET state = 'sent', card = jsonb_set(card, '{held_back}', '7')"""
GIVE_UP = "UPDATE notifier.deliveries SET state = 'given_up'"
MAIL = """
    INSERT INTO notifier.mails (mail_id, approval_id, tenant, channel, recipient, person, made_at)
    SELECT replace(approval_id, '-', ''), approval_id, tenant, channel, recipient, person, now()
    FROM notifier.deliveries
"""
EVENTS = """
    INSERT INTO notifier.webhook_events (event_id, tenant, webhook, type, body, state, attempt, fence, due_at,
        created_at, error)
    SELECT id, 'acme', 'hook', 'any', '{}', 'given_up', 1, 1, now(), now(), ''
    FROM unnest(ARRAY['e1', 'e2', 'e3']) AS id
"""
#: Begins what wants the cards of the first approval and then those of the second.
Rival: TypeAlias = Callable[[], Awaitable[object]]


@pytest.fixture
async def other(notifier_url: str, replica: Replica) -> AsyncIterator[Replica]:
    """A second notifier on the same database."""
    del replica
    settings = NotifierSettings(notifier_apprise={"somewhere": SecretStr("json://127.0.0.1:9")})
    async with a_replica("notifier", notifier_url, partial(build, settings)) as second:
        yield second


async def envelope(other: Replica, first: ApprovalOpened, second: ApprovalOpened) -> Rival:
    """News of two types for the other notifier."""
    return partial(other.send, progressed(first, 3), closed(second, revision=3))


async def settling(other: Replica, _first: ApprovalOpened, _second: ApprovalOpened) -> Rival:
    """A worker that has sent all cards and writes what became of them."""
    board = Board()
    board.gate.clear()
    sending = asyncio.create_task(Worker(other.units, {"wall": board}).run_once())
    await board.begun.wait()

    async def settle() -> None:
        board.gate.set()
        await sending

    return settle


async def untold(other: Replica, _first: ApprovalOpened, _second: ApprovalOpened) -> Rival:
    """What sees to approvals whose cards were given up."""
    await other.execute(GIVE_UP)
    return partial(see_to_untold, other.units)


async def comments(other: Replica, first: ApprovalOpened, second: ApprovalOpened) -> Rival:
    """People comment on both."""
    said = [
        ApprovalCommented(tenant="acme", approval_id=each.approval_id, comment_id="c", person="person:ada", text="why?")
        for each in (first, second)
    ]
    return partial(other.send, *said)


async def bounces(other: Replica, first: ApprovalOpened, second: ApprovalOpened) -> Rival:
    """Mails about both came back."""
    await other.execute(MAIL)
    back = [MailBounced(tenant="acme", mail_id=each.approval_id.replace("-", "")) for each in (first, second)]
    return partial(other.send, *back)


async def counting(other: Replica, _first: ApprovalOpened, _second: ApprovalOpened) -> Rival:
    """A recount of the address at which all of them wait."""
    await other.execute(CROWD)
    return partial(recount, other.units, Limits(waiting=9))


@pytest.mark.parametrize("begin", [envelope, settling, untold, comments, bounces, counting])
async def test_an_envelope_of_several_types_and_what_else_moves_cards_lock_nobody_out(
    replica: Replica, other: Replica, begin: Callable[[Replica, ApprovalOpened, ApprovalOpened], Awaitable[Rival]]
) -> None:
    """Half-way, an envelope has the second card and will want the first, which its rival would take first."""
    await replica.send(*(news := [opened("wall", expires_at=LATER) for _ in range(3)]))
    known = {each.approval_id: each for each in news}
    first, second, gate = (known[row["approval_id"]] for row in await replica.rows(IN_ORDER))
    with capture_logs() as logs:
        rival = await begin(other, first, second)
        async with replica.units.database.transaction() as connection:
            await connection.execute(LOCK, {"approval_id": gate.approval_id})
            sending = asyncio.create_task(replica.send(progressed(second, 2), closed(gate), progressed(first, 2)))
            await other.until_waiting(1)
            running = asyncio.ensure_future(rival())
            waiting = asyncio.create_task(other.until_waiting(2))
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        await asyncio.gather(sending, running)
    bad = [line["event"] for line in logs if line["event"] == "envelope.falls_back"]
    assert ([], [], []) == (bad, replica.dead, other.dead)


async def test_events_retried_in_different_orders_lock_nobody_out(replica: Replica, other: Replica) -> None:
    """Two notifiers take the same two wishes of operators the other way round; a third event holds the first one up."""
    await replica.execute(EVENTS)
    wishes = {name: RetryWebhookEvent(tenant="acme", event_id=name, by="person:ada") for name in ("e1", "e2", "e3")}
    with capture_logs() as logs:
        async with replica.units.database.transaction() as connection:
            await connection.execute(sa.text("SELECT FROM notifier.webhook_events WHERE event_id = 'e3' FOR UPDATE"))
            one = asyncio.create_task(replica.send(wishes["e2"], wishes["e3"], wishes["e1"]))
            await other.until_waiting(1)
            two = asyncio.create_task(other.send(wishes["e1"], wishes["e2"]))
            await other.until_waiting(2)
        await asyncio.gather(one, two)
    assert [] == [line["event"] for line in logs if line["event"] == "envelope.falls_back"]


async def test_a_recount_leaves_locked_cards_to_the_next_look_and_counts_them(replica: Replica) -> None:
    """A card that another has locked keeps its place: nobody is let through instead, and what others say waits too."""
    board, manners = Board(), Manners(Limits(waiting=1))
    news = [opened("wall", approval_id=f"approval-{number}", expires_at=LATER) for number in range(3)]
    await replica.send(*news)
    await Worker(replica.units, {"wall": board}, manners=manners).run_once()
    async with replica.units.database.transaction() as connection:
        await connection.execute(LOCK, {"approval_id": "approval-1"})
        async with asyncio.timeout(10):
            await recount(replica.units, Limits(waiting=2))
        held_up = [row["state"] for row in await replica.rows(STATES)]
    await recount(replica.units, Limits(waiting=2))
    after = [row["state"] for row in await replica.rows(STATES)]
    assert (["due", "kept", "kept"], ["due", "due", "kept"]) == (held_up, after)


async def test_an_end_sees_the_cards_that_were_added_while_it_waited(replica: Replica, other: Replica) -> None:
    """An escalation adds a card in one notifier; the end, which waits for it in the other, closes that card too."""
    await replica.send(news := opened("wall", expires_at=LATER))
    more = progressed(news, 2, kind="escalated", channels=["pager"], approvers=["operators"])
    async with replica.units.database.transaction() as connection:
        await connection.execute(LOCK, {"approval_id": news.approval_id})
        one = asyncio.create_task(replica.send(more))
        await other.until_waiting(1)
        two = asyncio.create_task(other.send(closed(news, revision=3)))
        await other.until_waiting(2)
    await asyncio.gather(one, two)
    states = "SELECT DISTINCT card->>'state' AS state, count(*) AS cards FROM notifier.deliveries GROUP BY 1"
    assert [{"state": "approved", "cards": 2}] == await replica.rows(states)
