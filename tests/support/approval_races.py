"""Races on real PostgreSQL: two replicas begin at the same moment, and every call must end exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from shared.messages import (
    ApprovalClosed,
    ApprovalOpened,
    DecisionAnswered,
    Message,
    ToolCallPermitted,
    ToolCallRefused,
)
from tests.builders import an_approval_rule
from tests.support.approval_builders import a_request
from tests.support.house import Replica

Replicas = tuple[Replica, Replica]
Action = Callable[[], Awaitable[Any]]


async def at_once(*actions: Action) -> list[Any]:
    """Begin all actions at the same moment; return what they return."""
    barrier = asyncio.Barrier(len(actions))

    async def begin(action: Action) -> Any:
        await barrier.wait()
        return await action()

    return await asyncio.gather(*map(begin, actions))


async def at_once_or_in_turn(turn: int, *actions: Action) -> list[Any]:
    """Begin both actions at the same moment, the order of their start changing by turn; two turns in ten are no race.

    There one action ends before the other begins, so that each side wins now and then on any machine.
    """
    actions = actions[:: 1 - 2 * (turn % 2)]
    if turn % 10 < 2:
        return [await action() for action in actions]
    return await at_once(*actions)


async def in_any_order(turn: int, first: Action, second: Action) -> tuple[Any, Any]:
    """Do both as `at_once_or_in_turn` does; return what the first and the second came to."""
    done: dict[int, Any] = {}

    async def note(number: int, action: Action) -> None:
        done[number] = await action()

    await at_once_or_in_turn(turn, partial(note, 1, first), partial(note, 2, second))
    return done[1], done[2]


async def some_cards(replica: Replica, number: int, **rule: Any) -> list[ApprovalOpened]:
    """Open that many approvals, under the builders' rule unless another is given."""
    changes: dict[str, Any] = {"approval": an_approval_rule(**rule)} if rule else {}
    for start in range(0, number, 50):
        await replica.send(*[a_request(**changes) for _ in range(min(50, number - start))])
    return replica.all_sent(ApprovalOpened)


async def end_states(replicas: Replicas) -> dict[str, str]:
    """Return approval id -> state, having checked that every approval and its call ended exactly once."""
    rows = await replicas[0].rows("SELECT approval_id, call_id, state FROM approval.approvals")
    ends: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    for replica in replicas:
        await replica.settle()
        ends.update(message.call.call_id for message in replica.all_sent(ToolCallPermitted))
        ends.update(message.call_id for message in replica.all_sent(ToolCallRefused))
        closed.update(message.approval_id for message in replica.all_sent(ApprovalClosed))
        assert [] == replica.dead
    assert Counter(row["call_id"] for row in rows) == ends
    assert Counter(row["approval_id"] for row in rows) == closed
    permitted = {message.call.call_id for replica in replicas for message in replica.all_sent(ToolCallPermitted)}
    assert {row["call_id"] for row in rows if row["state"] == "approved"} == permitted
    moves = await replicas[0].rows(
        "SELECT subject_id FROM approval.history WHERE from_state = 'pending' AND to_state <> 'pending'"
    )
    assert Counter(row["approval_id"] for row in rows) == Counter(row["subject_id"] for row in moves)
    late = "SELECT approval_id FROM approval.approvals WHERE state = 'approved' AND closed_at >= expires_at"
    assert [] == await replicas[0].rows(late)
    return {row["approval_id"]: row["state"] for row in rows}


def answer_in(sent: Sequence[Message]) -> DecisionAnswered:
    """Return the one answer among messages."""
    answers = [message for message in sent if isinstance(message, DecisionAnswered)]
    assert len(answers) == 1
    return answers[0]
