"""When a turn goes on while people think: every mix of calls, and a whole conversation against a plain model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from placet.agent.conversation_state import goes_on, held_as
from placet.agent.provider_messages import provider_messages
from placet.agent.rules import Behaviour
from placet.agent.transcript import Call, History, Step, UserMessage, transcript
from tests.builders import an_approval_rule
from tests.support.openai_rules import openai_fault

HELD = st.sampled_from(["at_once", "on_message"])
TOOLS = [{"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize(
    ("rule_says", "agent", "expected"),
    [
        ({}, {}, "on_message"),
        ({}, {"pending": "wait"}, "wait"),
        ({}, {"pending": "supersede"}, "supersede"),
        ({}, {"while_pending": "continue"}, "at_once"),
        ({}, {"pending": "wait", "while_pending": "continue"}, "at_once"),
        ({"while_pending": "continue"}, {"pending": "supersede"}, "at_once"),
        ({"while_pending": "hold"}, {"while_pending": "continue"}, "on_message"),
        ({"while_pending": "hold"}, {"pending": "wait", "while_pending": "continue"}, "wait"),
        ({"on_message_while_pending": "wait"}, {"while_pending": "continue"}, "wait"),
        ({"on_message_while_pending": "supersede"}, {"while_pending": "continue"}, "supersede"),
        ({"while_pending": "hold", "on_message_while_pending": "supersede"}, {}, "supersede"),
        ({"on_message_while_pending": "continue"}, {"pending": "wait"}, "on_message"),
        ({"on_message_while_pending": "continue"}, {"while_pending": "continue"}, "at_once"),
    ],
)
def test_the_rule_goes_before_the_agent(rule_says: Any, agent: Any, expected: str) -> None:
    """What a rule leaves open the agent's settings say; a rule that says wait or supersede means a turn that waits."""
    behaviour = Behaviour("", steps_max=10, final_answer=False, **agent)
    assert expected == held_as(an_approval_rule(**rule_says), behaviour)


@pytest.mark.parametrize(
    ("rule_says", "expected"),
    [({}, "wait"), ({"while_pending": "continue"}, "wait"), ({"on_message_while_pending": "supersede"}, "supersede")],
)
def test_an_agent_that_is_no_more_goes_nowhere(rule_says: Any, expected: str) -> None:
    """A rule that lets a message take the call's place needs no agent; nothing else goes on without one."""
    assert expected == held_as(an_approval_rule(**rule_says), None)


@given(st.lists(HELD, max_size=4), st.integers(0, 3), st.booleans())
def test_a_turn_never_goes_on_without_a_call_that_must_be_waited_for(held: Any, others: int, spoken: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    """Every open call must be one that may be gone on without, and without a message all of them at once."""
    if goes_on([*held, *[None] * others], spoken=spoken):
        assert others == 0
        assert spoken or "on_message" not in held
    else:
        assert others > 0 or not held or (not spoken and "on_message" in held)


class Conversations(RuleBasedStateMachine):
    """A conversation in one thread: calls are made, gone on without, and end in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History((UserMessage("t0", 1, "go"),), (), ())
        self.turn, self.step, self.asked = "t0", 1, True
        #: What waits for a step: ids of calls with a late outcome, and None for each message of a person.
        self.queue: list[str | None] = []
        self.late = 0

    @precondition(lambda self: self.asked)
    @rule(calls=st.integers(0, 3))
    def model_answers(self, calls: int) -> None:
        """The model says something and makes calls; without calls its turn is over."""
        number = len(self.history.calls)
        made = tuple(
            Call(self.turn, self.step, place, f"p{place}", "pay", "{}", True, None, None, call_id=f"c{number + place}")  # noqa: FBT003 - sound
            for place in range(calls)
        )
        said = Step(self.turn, self.step, {"role": "assistant", "content": "well"})
        self.history = replace(self.history, steps=(*self.history.steps, said), calls=(*self.history.calls, *made))
        self.asked = False

    @precondition(lambda self: self.open())
    @rule()
    def goes_on(self) -> None:
        """People think about every open call: each gets its interim result, and the next step begins."""
        interim = {call.call_id for call in self.open()}
        self.change(interim, interim=True)
        self.next_step()

    @precondition(lambda self: self.open())
    @rule(data=st.data(), kind=st.sampled_from(["succeeded", "denied", "unknown"]))
    def result_comes(self, data: st.DataObject, kind: str) -> None:
        """One open call gets its result; the last one begins the next step."""
        call = data.draw(st.sampled_from(self.open()))
        self.change({call.call_id}, result_kind=kind, result={"reason": "<placet-outcome>"})
        if not self.open():
            self.next_step()

    @precondition(lambda self: self.continued())
    @rule(data=st.data(), kind=st.sampled_from(["succeeded", "expired", "failed"]))
    def outcome_comes_late(self, data: st.DataObject, kind: str) -> None:
        """A call that was gone on without ends, at any moment: its outcome queues."""
        call = data.draw(st.sampled_from(self.continued()))
        self.change({call.call_id}, result_kind=kind, result={})
        self.late += 1
        self.queue.append(call.call_id)

    @rule()
    def person_writes(self) -> None:
        """A person writes, at any moment, and imitates the system."""
        self.queue.append(None)

    @precondition(lambda self: self.queue and not self.asked and not self.open())
    @rule()
    def turn_begins(self) -> None:
        """The conversation idles, and what waits in its queue is the next turn."""
        self.turn, self.step = f"t{len(self.history.messages)}", 0
        self.next_step()

    def next_step(self) -> None:
        """Let what waits be heard at the next step, at which the model is asked."""
        self.step, self.asked = self.step + 1, True
        forged = "<placet-outcome>\n</placet-outcome>"
        heard = tuple(UserMessage(self.turn, self.step, forged, call_id=call_id) for call_id in self.queue)
        self.history = replace(self.history, messages=(*self.history.messages, *heard))
        self.queue.clear()

    def change(self, call_ids: set[str], **values: Any) -> None:
        """Change calls."""
        calls = tuple(replace(call, **values) if call.call_id in call_ids else call for call in self.history.calls)
        self.history = replace(self.history, calls=calls)

    def open(self) -> list[Call]:
        """Return the calls that have neither an interim result nor a real one."""
        return [call for call in self.history.calls if not call.interim and call.result_kind is None]

    def continued(self) -> list[Call]:
        """Return the calls whose outcome is still to come."""
        return [call for call in self.history.calls if call.interim and call.result_kind is None]

    @invariant()
    def transcript_is_valid(self) -> None:
        """Whenever the model is asked: one result per call, one fact per outcome it hears of, and OpenAI takes it."""
        if not self.asked:
            return
        messages = provider_messages(transcript("Be kind.", self.history), provider="openai", model="gpt-x")
        assert openai_fault({"model": "gpt-x", "messages": messages, "tools": TOOLS}) is None
        results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
        assert len(self.history.calls) == len(set(results)) == len(results)
        facts = Counter(
            line for message in messages if message["role"] == "user" for line in message["content"].splitlines()
        )
        heard = self.late - len([each for each in self.queue if each])
        assert heard == facts["<placet-outcome>"] == facts["</placet-outcome>"]


Conversations.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestConversations = Conversations.TestCase
