"""How many calls of one tenant may wait for people: one too many is refused, and no other tenant notices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from placet.approval.service import build
from placet.approval.settings import ApprovalSettings
from placet.contracts.messages import ApprovalOpened, ToolCallRefused, WatchedCallClosed
from tests.builders import a_call
from tests.support.approval_builders import Register, a_request, a_withdrawal
from tests.support.house import Replica, a_replica

MOST = 2


@pytest.fixture
async def replica(
    approval_url: str, keys: Path, register: Register, replicas: tuple[Replica, Replica]
) -> AsyncIterator[Replica]:
    """A process of approval that lets two calls of one tenant wait, on an empty database."""
    del replicas  # they have emptied it
    settings = ApprovalSettings(keys=keys, approval_tenant_pending=MOST)
    built = partial(build, settings, directory=register)
    async with a_replica("approval", approval_url, built, keys=keys) as opened:
        yield opened


async def count(replica: Replica) -> None:
    """Have the duty count what waits."""
    await next(duty for duty in replica.service.duties if duty.name == "count-by-tenant").run_once()


async def test_a_call_too_many_is_refused_with_words_for_the_model(replica: Replica) -> None:
    """Of three requests in one envelope two wait; the third is refused, policy hears of it, and nobody has a card."""
    requests = [a_request() for _ in range(MOST + 1)]
    sent = await replica.send(*requests)
    (refused,) = [each for each in sent if isinstance(each, ToolCallRefused)]
    assert (MOST, "refused", requests[-1].call.call_id) == (
        len([each for each in sent if isinstance(each, ApprovalOpened)]),
        refused.kind,
        refused.call_id,
    )
    assert "too many calls wait for people" in refused.reason
    assert [refused.call_id] == [each.call_id for each in sent if isinstance(each, WatchedCallClosed)]


async def test_another_tenant_notices_nothing(replica: Replica) -> None:
    """Its calls wait whatever the other one has."""
    await replica.send(*[a_request() for _ in range(MOST + 1)])
    sent = await replica.send(a_request(a_call(tenant="globex")))
    assert [ApprovalOpened] == [type(each) for each in sent]


async def test_what_waits_elsewhere_is_counted_too(replica: Replica, replicas: tuple[Replica, Replica]) -> None:
    """Two wait that another replica opened: after the next count a third is refused here."""
    await replicas[0].send(*[a_request() for _ in range(MOST)])
    await count(replica)
    sent = await replica.send(a_request())
    assert [ToolCallRefused] == [type(each) for each in sent if not isinstance(each, WatchedCallClosed)]


async def test_there_is_room_again_once_one_has_ended(replica: Replica) -> None:
    """Withdrawn calls leave their places to the next: as many wait as have room, however many come at once."""
    requests = [a_request() for _ in range(MOST)]
    await replica.send(*requests)
    await replica.send(*[a_withdrawal(each.call) for each in requests])
    sent = await replica.send(*[a_request() for _ in range(MOST + 2)])
    assert [ApprovalOpened] * MOST == [type(each) for each in sent if isinstance(each, ApprovalOpened)]


async def test_a_request_that_comes_again_has_one_answer(replica: Replica) -> None:
    """One that was refused stays refused though there is room by then, and is not answered twice."""
    requests = [a_request() for _ in range(MOST + 1)]
    await replica.send(*requests)
    await replica.send(a_withdrawal(requests[0].call))
    await count(replica)
    assert [] == await replica.send(requests[-1])
    assert [] == await replica.send(requests[1])
