"""States of a conversation's holder: who answers in it. Every change of state is a row of the table below.

The gateway keeps it, because people take conversations over there and must hear at once who was faster; the agent
follows by HolderChanged and asks no model while people hold a conversation.
"""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.transitions import Machine


class State(StrEnum):
    """Who answers, and who moves it on."""

    AGENT = "agent"  # the agent answers; a tool or an operator moves it on
    WAITING = "waiting"  # nobody answers: an operator is awaited, who takes it or gives it back
    OPERATOR = "operator"  # an operator answers, until they or another operator give it back


class Event(StrEnum):
    """What can happen to a conversation's holder."""

    ESCALATED = "escalated"  # a tool handed the conversation over
    TAKEN = "taken"  # an operator took it
    RELEASED = "released"  # an operator gave it back to the agent


MACHINE = Machine(
    name="holder",
    initial=State.AGENT,
    transitions={
        (State.AGENT, Event.ESCALATED): State.WAITING,
        (State.AGENT, Event.TAKEN): State.OPERATOR,
        (State.WAITING, Event.TAKEN): State.OPERATOR,
        (State.WAITING, Event.RELEASED): State.AGENT,
        (State.OPERATOR, Event.RELEASED): State.AGENT,
    },
    final=frozenset(),
    races=frozenset(
        {
            (State.WAITING, Event.ESCALATED),  # a second tool asks for the same
            (State.OPERATOR, Event.ESCALATED),  # an operator was faster than the tool
            (State.OPERATOR, Event.TAKEN),  # two operators at once: one wins
            (State.AGENT, Event.RELEASED),  # two give it back at once
        }
    ),
)
