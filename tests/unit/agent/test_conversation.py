"""A conversation's log keeps its order, in whatever order everything arrives, twice or late."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest

from placet.agent.conversation import Answer, Conversation
from placet.agent.rules import Behaviour, Claim, Result, Settlement
from placet.agent.states import Event
from placet.agent.turns import Said
from placet.contracts.errors import Poison, Refused, Transient
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalProgressed,
    HolderChanged,
    OperatorSpoke,
    StopTurn,
    ToolCallProgressed,
    ToolCallProposed,
)
from placet.runtime.work import Cause
from tests.builders import NOON, a_posted_message
from tests.support.agents import SHOP, opened, says
from tests.support.log_rules import LogRules

PAY = ("pay", '{"amount": 299}')
PLACE = {"tenant": "acme", "conversation_id": "conversation-1"}
#: Nobody wrote, and no call waited.
NOTHING_MEANWHILE = (False, False)


def answers(call: Any) -> list[Any]:
    """Return everything that the world may say of a call, as (name of the method, arguments)."""
    about = {"tenant": "acme", "conversation_id": call.conversation_id, "call_id": call.call_id}
    approval = {**about, "approval_id": f"approval-{call.call_id[:8]}"}
    proposed = ToolCallProposed(tenant="acme", call=call)
    return [
        ("take_opened", opened(proposed)),
        ("take_progressed", ApprovalProgressed(**approval, revision=2, note="One of two.")),
        ("take_progressed", ApprovalProgressed(**approval, revision=3, note="Two of three.")),
        ("take_closed", ApprovalClosed(**approval, revision=3, state="approved", closed_at=NOON)),
        ("take_progress", ToolCallProgressed(**about, tool="pay", attempt=1)),
        ("take_progress", ToolCallProgressed(**about, tool="pay", attempt=1, fraction=0.5)),
        ("take_result", Answer(call.call_id, Result("succeeded", data=1))),
    ]


class World:
    """One conversation; people, models, approval and executor do what they may, each at any moment."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same every time
        self.now = Conversation("conversation-1", "acme")
        self.log = LogRules()
        self.told: set[tuple[str, str]] = set()
        self.claims: list[Claim] = []
        self.coming: list[tuple[str, Any]] = []
        self.number = 0
        pending: Any = self.random.choice(["continue", "wait", "supersede"])
        while_pending: Any = self.random.choice(["hold", "hold", "continue"])
        self.behaviour = Behaviour("", steps_max=4, final_answer=False, pending=pending, while_pending=while_pending)

    def run(self, steps: int) -> None:
        """Let so many things happen."""
        things = {
            self.somebody_writes: 4,
            self.model_answers: 12,
            self.something_arrives: 30,
            self.model_fails: 1,
            self.somebody_stops: 1,
            self.holder_changes: 1,
            self.operator_speaks: 1,
        }
        for each in self.random.choices(list(things), list(things.values()), k=steps):
            each()
            self.check()

    def check(self) -> None:
        """Assert what is always true."""
        assert [] == self.log.faults
        # The running turn is paused where all its open calls wait for people, and nowhere else.
        assert self.log.should_rest() == self.log.paused
        assert self.now.held or self.now.turn_id or not self.now.queue
        turn = self.now.turn
        open_calls = [call for call in self.now.calls.values() if turn and call.turn_id == turn.turn_id]
        assert (turn is not None and turn.state == "waiting") == any(call.state == "open" for call in open_calls)

    def happens(self, name: str, *given: Any) -> None:
        """Let something happen in a transaction; nothing does where it raises."""
        there = deepcopy(self.now)
        self.number += 1
        there.cause = Cause(id=f"e{self.number}")
        try:
            getattr(there, name)(*given)
        except (Poison, Refused, Transient):
            return
        there.finish()
        assert there.log_seq == self.now.log_seq + len(there.items)
        for kind, data in there.items:
            self.log.take(kind, data)
            self.told.add((kind, str(data.get("state") or data.get("status"))))
        self.claims += there.begun
        for message, _ in there.emitted:
            self.coming += answers(message.call) if isinstance(message, ToolCallProposed) else []
        for buffer in (there.items, there.begun, there.emitted, there.changes, there.new_calls, there.new_steps):
            buffer.clear()
        there.new_messages.clear()
        self.now = there

    def somebody_writes(self) -> None:
        """Write something new, or the first message again."""
        name = self.random.choice([f"m{self.number}", f"m{self.number}", "m0"])
        author = {"kind": "visitor", "id": self.random.choice(["ada", "ada", "bob"])}
        message = a_posted_message(**PLACE, message_id=name, text="hello", author=author)
        self.happens("take_message", message, self.behaviour, {})

    def model_answers(self) -> None:
        """Answer the newest claim, or any older one."""
        if self.claims:
            claim = self.random.choice([*self.claims, *self.claims[-1:] * len(self.claims)])
            calls = [PAY] * self.random.choice([0, 1, 2, 2])
            wrong = [("pay", "nonsense")] * self.random.choice([0, 0, 0, 1])
            self.happens("settle", claim, Said(says("Hm", *calls, *wrong), *NOTHING_MEANWHILE, SHOP, self.behaviour))

    def model_fails(self) -> None:
        """End a turn without an answer."""
        if self.claims:
            self.happens("settle", self.claims[-1], Settlement(Event.MODEL_FAILED, reason="no"))

    def something_arrives(self) -> None:
        """Deliver anything that was ever sent, again too; an inbox drops what comes twice."""
        if self.coming:
            name, message = self.random.choice(self.coming[-16:])
            given = (message, self.behaviour) if name in {"take_opened", "take_result"} else (message,)
            self.happens(name, *given)

    def somebody_stops(self) -> None:
        """Stop the turn that runs."""
        if self.now.turn_id is not None:
            self.happens("stop", StopTurn(**PLACE, turn_id=self.now.turn_id, by="person:ada"))

    def holder_changes(self) -> None:
        """Take the conversation over, or give it back."""
        holder: Any = self.random.choice(["agent", "agent", "operator"])
        changed = HolderChanged(**PLACE, holder=holder, revision=self.number + 1, event="taken", by="person:ada")
        self.happens("take_holder", changed, self.behaviour)

    def operator_speaks(self) -> None:
        """Answer what waits."""
        spoke = OperatorSpoke(**PLACE, message_id=f"o{self.number}", text="Hi", operator="person:ada")
        self.happens("take_spoken", spoke)


@pytest.mark.parametrize("seed", range(150))
def test_log_is_in_order_whatever_arrives_when(seed: int) -> None:
    """No promise about the log is broken by what comes early, late, twice or never."""
    World(seed).run(120)


def test_worlds_reach_what_there_is_to_reach() -> None:
    """Pauses, going on, late results and late closings happen in them: the test above is about something."""
    told: set[tuple[str, str]] = set()
    for seed in range(20):
        world = World(seed)
        world.run(150)
        told |= world.told
    turns = {("turn", state) for state in ("started", "paused", "continued", "finished", "failed", "stopped")}
    assert turns | {("approval", "pending"), ("approval", "approved"), ("tool_call", "success")} <= told
