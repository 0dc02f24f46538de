"""Messages that are posted while their conversations change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from placet.contracts.errors import Refused
from placet.contracts.messages import MessagePosted
from placet.gateway.conversations.service import TRIES_MAX, PostedTexts, Posts, Writing
from placet.gateway.conversations.store import QUERIES, Conversation
from placet.gateway.identity.auth import Caller
from placet.runtime.work import UnitOfWork

HERE = Conversation("acme", "c1", "default", "en", {}, "visitor:v", datetime(2026, 1, 1, tzinfo=UTC), "person:shop")
STRANGER = Caller("acme", "person:eve", "api_key", frozenset({"chat", "decide"}), key_id="k1")
VISITOR = Caller("acme", "visitor:v", "conversation_token", frozenset({"chat"}), conversation_id="c1")


@dataclass
class Changing:
    """Work on a conversation that has changed whenever a message is stored: so many times, and then no more."""

    times: int
    stored: list[MessagePosted] = field(default_factory=list)
    _given: dict[str, MessagePosted] = field(default_factory=dict)
    cause: Any = None

    @property
    def connection(self) -> Any:
        """Return itself."""
        return self

    async def run(self, query: Any, **_: Any) -> list[Any]:
        """Return the conversation, and nothing else."""
        return [astuple(HERE)] if query is QUERIES.load_conversation else []

    def emit(self, message: MessagePosted, key: str) -> None:
        """Keep a message until it is stored."""
        self._given[key] = message

    async def execute_once(self, _: Any, **given: Any) -> list[dict[str, str]]:
        """Store what was handed over, unless the conversation has changed."""
        self.times -= 1
        if self.times >= 0:
            return []
        self.stored += [self._given[key] for key in given["post_keys"]]
        return [{"key": key} for key in given["post_keys"]]

    @asynccontextmanager
    async def once(self) -> AsyncIterator[Changing]:
        """Yield itself."""
        yield self


def posts_on(work: Changing) -> Posts:
    """Return the service on such work."""
    anybody = SimpleNamespace(admit=lambda _: None, find=lambda *_: True)
    return Posts(cast("UnitOfWork", work), cast("Any", anybody), cast("Any", anybody), PostedTexts())


async def test_a_message_is_stored_once_its_conversation_stands_still() -> None:
    """What changed is read again, and the message is written as it is by then."""
    work = Changing(TRIES_MAX - 1)
    posted = await posts_on(work).post(VISITOR, "c1", Writing("Pay it", "m1"))
    assert [("c1", "m1")] == [(each.conversation_id, each.message_id) for each in work.stored]
    assert "m1" == posted.message_id


@pytest.mark.parametrize(("times", "expected"), [(0, ["m1"] * 3), (1, ["m1"] * 3), (TRIES_MAX, [""] * 3)])
async def test_the_same_message_sent_at_once_has_one_fate(times: int, expected: list[str]) -> None:
    """It is stored once, and each of them is told so; or it is not, and none is."""
    work = Changing(times)
    posts = posts_on(work)
    sent = (posts.post(VISITOR, "c1", Writing("Pay it", "m1")) for _ in range(3))
    answers = await asyncio.gather(*sent, return_exceptions=True)
    assert expected == [getattr(each, "message_id", "") for each in answers]
    assert int(times < TRIES_MAX) == len(work.stored)


async def test_only_copies_have_one_fate() -> None:
    """Another text under the same id is refused for its own sake, and one by somebody who may write is stored."""
    work = Changing(0)
    posts = posts_on(work)
    sent = [
        posts.post(STRANGER, "c1", Writing("Pay it", "m1", "visitor")),
        posts.post(VISITOR, "c1", Writing("Pay it", "m1")),
        posts.post(VISITOR, "c1", Writing("Pay twice", "m1")),
    ]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    kinds = [each.kind if isinstance(each, Refused) else each.message_id for each in answers]  # type: ignore[union-attr]
    assert ["author-not-allowed", "m1", "message-id-used"] == kinds
    assert ["Pay it"] == [each.text for each in work.stored]


async def test_a_message_that_was_not_stored_is_not_said_to_be() -> None:
    """A conversation that changes each time it is tried answers 409, and the message can be sent again."""
    work = Changing(TRIES_MAX)
    posts = posts_on(work)
    with pytest.raises(Refused) as refused:
        await posts.post(VISITOR, "c1", Writing("Pay it", "m1"))
    assert (409, "conversation-changed", []) == (refused.value.status, refused.value.kind, work.stored)
    assert "m1" == (await posts.post(VISITOR, "c1", Writing("Pay it", "m1"))).message_id
    assert 1 == len(work.stored)
