"""Who listens is asked about by the clock, while their log is told again too."""

from __future__ import annotations

from contextlib import aclosing
from itertools import count
from typing import cast

import pytest

from placet.gateway.conversations.items import Item
from placet.gateway.conversations.live import Hub
from placet.gateway.conversations.log import PAGE, ConversationLog
from placet.gateway.conversations.stream_limits import StreamLimits
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.jobs.log import JobLog
from placet.runtime.database import Database

CALLER = Caller("acme", "person:ada", "api_key", frozenset({Scope.CHAT}), key_id="k")


class _Endless:
    """A log that somebody writes to faster than it is read."""

    async def read(self, _tenant: str, _conversation_id: str, after: int, limit: int) -> list[Item]:
        """Return a full page, always."""
        numbers = range(after + 1, after + 1 + limit)
        return [Item(each, "message", "2026-01-01T00:00:00+00:00", {"message_id": f"m-{each}"}) for each in numbers]


class EndlessConversation(_Endless, ConversationLog):
    """Of a conversation."""


class EndlessJob(_Endless, JobLog):
    """Of a job."""


class Rights:
    """A caller's rights, which hold for so many questions."""

    def __init__(self, good_for: int) -> None:
        self._good_for = good_for
        self.asked = 0

    async def hold(self, _caller: Caller) -> bool:
        """Tell whether they hold still."""
        self.asked += 1
        return self.asked <= self._good_for


async def heard(kind: type[ConversationLog], rights: Rights, heartbeat_seconds: float, most: int) -> int:
    """Return how many items somebody is told, who listens to so many at most."""
    limits = StreamLimits(1, 1, 1, 1)
    log = kind(cast("Database", None), Hub(10), heartbeat_seconds, rights.hold, limits)
    async with aclosing(log.follow(CALLER, "c", 0)) as entries:
        for number in count():
            if number == most or await anext(entries, None) is None:
                return number
    raise AssertionError


@pytest.mark.parametrize("kind", [EndlessConversation, EndlessJob])
async def test_who_is_told_an_old_log_is_let_go_with_their_rights(kind: type[ConversationLog]) -> None:
    """A heartbeat ends before each item here: two are told, and not the one after the rights ended."""
    assert 2 == await heard(kind, Rights(2), 0.0, 3 * PAGE)


async def test_an_old_log_asks_by_the_clock_and_not_by_the_item() -> None:
    """Within one heartbeat nobody is asked about, however much there is to tell."""
    rights = Rights(0)
    assert (3 * PAGE, 0) == (await heard(EndlessConversation, rights, 3600.0, 3 * PAGE), rights.asked)
