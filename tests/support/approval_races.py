"""Races on real PostgreSQL: two replicas begin at the same moment, and every call must end exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from placet.contracts.messages import (
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
    await check_invariants(replicas)
    return {row["approval_id"]: row["state"] for row in rows}


#: What must never be found, whatever was raced: number of the invariant and its fact -> a query for what breaks it.
INVARIANTS = {
    "14 one decision ends an approval": """
        SELECT a.approval_id FROM approval.approvals a LEFT JOIN approval.decisions d
            ON d.approval_id = a.approval_id AND d.outcome = 'accepted' AND d.answer ->> 'state' = a.state
            AND d.verb IN ('approve', 'deny', 'edit', 'respond')
        WHERE a.state IN ('approved', 'denied', 'answered')
        GROUP BY a.approval_id, a.decided_by
        HAVING count(DISTINCT d.decision_id) <> 1 OR min(d.person) <> a.decided_by""",
    "14 no vote counts after the end": """
        SELECT decision_id FROM approval.decisions d JOIN approval.approvals a USING (approval_id)
        WHERE d.counted_revision IS NOT NULL AND d.decided_at > a.closed_at""",
    "19 as many people as the rule wants, each counted once, approved the arguments that ran": """
        SELECT a.approval_id FROM approval.approvals a WHERE a.state = 'approved'
            AND (a.approval_rule ->> 'approvals')::int > (
                SELECT count(*) FROM (
                    SELECT DISTINCT ON (person, conversation_id) verb FROM approval.decisions d
                    WHERE d.approval_id = a.approval_id AND d.arguments_revision = a.arguments_revision
                    ORDER BY person, conversation_id, counted_revision DESC, decided_at DESC) last
                WHERE verb IN ('approve', 'edit'))""",
    "19 nobody whom four eyes exclude voted": """
        SELECT a.approval_id FROM approval.approvals a JOIN approval.decisions d USING (approval_id)
        WHERE d.counted_revision IS NOT NULL AND jsonb_exists(a.approval_rule -> 'exclude', 'requester')
            AND (d.person = a.requester
                OR (a.requester NOT LIKE 'person:%' AND d.details ->> 'opened_by' = d.person))""",
    "19 nobody voted on a call of an agent that they own, where that is excluded": """
        SELECT a.approval_id FROM approval.approvals a JOIN approval.decisions d USING (approval_id)
        WHERE d.counted_revision IS NOT NULL AND jsonb_exists(a.approval_rule -> 'exclude', 'agent_owner')
            AND a.agent = 'default' AND d.person = 'person:carl'""",
    "20 what is over never changes": """
        SELECT subject_id FROM approval.history WHERE machine = 'approval'
            AND from_state <> 'pending' AND to_state <> from_state
        UNION ALL
        SELECT subject_id FROM approval.history WHERE machine = 'approval'
            AND from_state = 'pending' AND to_state <> 'pending' GROUP BY subject_id HAVING count(*) > 1""",
    "20 the history ends where the approval does": """
        SELECT a.approval_id FROM approval.approvals a WHERE a.state <> 'pending' AND NOT EXISTS (
            SELECT FROM approval.history h WHERE h.subject_id = a.approval_id AND h.to_state = a.state)""",
    "25 the history leads from state to state": """
        SELECT subject_id FROM (
            SELECT subject_id, from_state, lag(to_state) OVER (PARTITION BY subject_id ORDER BY id) AS before
            FROM approval.history WHERE machine = 'approval') moves
        WHERE from_state IS DISTINCT FROM before""",
    "24 every vote says how its maker was proved, with the signed evidence": """
        SELECT decision_id FROM approval.decisions WHERE proof = '' OR signed = '' OR person = ''""",
    "27 nothing is decided at or after its deadline, and nothing expires before it": """
        SELECT approval_id FROM approval.approvals
        WHERE (state IN ('approved', 'denied', 'answered') AND closed_at >= expires_at)
            OR (state = 'expired' AND closed_at < expires_at)""",
    "28 what was approved stays so, whoever wanted it cancelled": """
        SELECT approval_id FROM approval.approvals WHERE cancel_asked_at IS NOT NULL AND state <> 'approved'""",
}


async def check_invariants(replicas: Replicas) -> None:
    """Ask the database for what must never be, and the messages for permits that were issued twice."""
    found = {name: await replicas[0].rows(query) for name, query in INVARIANTS.items()}
    assert {} == {name: rows for name, rows in found.items() if rows}
    permits = [message.permit for replica in replicas for message in replica.all_sent(ToolCallPermitted)]
    assert len(set(permits)) == len(permits), "22: a permit was sent twice"


def answer_in(sent: Sequence[Message]) -> DecisionAnswered:
    """Return the one answer among messages."""
    answers = [message for message in sent if isinstance(message, DecisionAnswered)]
    assert len(answers) == 1
    return answers[0]
