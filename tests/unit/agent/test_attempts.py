"""Attempts of jobs: they end with one strict answer, and the first wrong step throws them out."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agent import attempts
from placet.agent.conversation import Answer, Conversation
from placet.agent.handlers import _ran
from placet.agent.rules import FINAL_ANSWER, Behaviour, Claim, Result
from placet.agent.turns import Said
from placet.contracts.messages import (
    AttemptCommitted,
    AttemptEnded,
    AttemptRequested,
    AttemptWithdrawn,
    Author,
    DiscardWorkspace,
    Message,
    Staged,
    ToolCall,
    ToolCallProposed,
)
from placet.domain.catalog import Catalog
from placet.runtime.work import Cause
from tests.support.agents import PAY, finished, says

BEHAVIOUR = Behaviour("", steps_max=3, final_answer=False)
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
#: Nobody wrote, and no call waited.
NOTHING_MEANWHILE = (False, False)
DONE = (FINAL_ANSWER.name, '{"answer": "42"}')
PAYMENT = ("pay", '{"amount": 299}')


class Try:
    """One attempt: what its model says and what executors answer, and everything that the agent sent."""

    def __init__(self, conversation_id: str = "c1", **changes: Any) -> None:
        self.now = Conversation(conversation_id, "acme")
        self.sent: list[Message] = []
        self.claims: list[Claim] = []
        fields: dict[str, Any] = {
            "tenant": "acme",
            "conversation_id": conversation_id,
            "message_id": conversation_id,
            "job_id": "job-1",
            "attempt_id": conversation_id,
            "agent": "default",
            "author": Author(kind="person", id="person:ada"),
            "text": "Do it.",
            "labels": {"job": "job-1"},
            "answer_schema": SCHEMA,
            "tokens_max": 1_000,
        }
        self.does("take_attempt", AttemptRequested(**fields | changes), BEHAVIOUR, {})

    def does(self, name: str, *given: Any) -> None:
        """Let something happen."""
        self.now.cause = Cause(id="e1")
        getattr(self.now, name)(*given)
        self.now.finish()
        self.sent += [message for message, _ in self.now.emitted]
        self.claims += self.now.begun
        for buffer in (self.now.items, self.now.begun, self.now.emitted):
            buffer.clear()

    def says(self, *calls: tuple[str, str], text: str = "") -> None:
        """Let the model answer the newest claim."""
        assert self.now.attempt is not None
        tools = attempts.offered(Catalog([PAY]), self.now.attempt)
        self.does("settle", self.claims[-1], Said(says(text, *calls), *NOTHING_MEANWHILE, tools, BEHAVIOUR, 0.25))

    def calls(self) -> list[ToolCall]:
        """Return the calls that were proposed."""
        return [each.call for each in self.sent if isinstance(each, ToolCallProposed)]

    def stages(self, position: int) -> None:
        """Let the executor stage the newest call."""
        digest = f"{position}" * 64
        staged = Staged(workspace_id="w1", position=position, kind="call", digest=digest, summary="Pay")
        proposed = ToolCallProposed(tenant="acme", call=self.calls()[-1])
        news = finished(proposed, kind="staged", data={"summary": "Pay"}, staged=staged)
        self.does("take_result", _ran(news), BEHAVIOUR)

    @property
    def ended(self) -> list[AttemptEnded]:
        """What jobs was told of its end."""
        return [each for each in self.sent if isinstance(each, AttemptEnded)]


def test_an_attempt_ends_once_with_its_answer_and_what_it_used() -> None:
    """The arguments of `final_answer` are the answer; steps, calls, tokens and cost are summed up."""
    attempt = Try()
    attempt.says(PAYMENT)
    attempt.does("take_result", Answer(attempt.calls()[0].call_id, Result("succeeded")), BEHAVIOUR)
    attempt.says(DONE)
    (told,) = attempt.ended
    assert ({"answer": "42"}, [], None, 0) == (told.answer, told.flags, told.tree_digest, told.staged)
    assert (2, 2, 0.5) == (told.steps, told.calls, told.cost)


@pytest.mark.parametrize(
    ("calls", "text", "changes", "flag"),
    [
        ([(FINAL_ANSWER.name, '{"answer": 42}')], "", {}, "malformed_call"),
        ([("nonsense", "{}")], "", {}, "malformed_call"),
        ([DONE, PAYMENT], "", {}, "malformed_call"),
        ([], "It is 42.", {}, "no_final_answer"),
        ([DONE], "", {"tokens_max": 1}, "token_limit"),
        ([DONE], "", {"answer_tokens_max": 1}, "answer_too_long"),
    ],
)
def test_the_first_wrong_step_throws_an_attempt_out(calls: Any, text: str, changes: Any, flag: str) -> None:
    """Nothing is repaired: no model is asked again, no call of the step runs."""
    attempt = Try(**changes)
    attempt.says(*calls, text=text)
    (told,) = attempt.ended
    assert ([flag], None, []) == (told.flags, told.answer, attempt.calls())
    assert 1 == len(attempt.claims)


def test_an_attempt_has_as_many_steps_as_its_agent() -> None:
    """One that proposes calls in its last step has used them all."""
    attempt = Try()
    for _ in range(2):
        attempt.says(PAYMENT)
        attempt.does("take_result", Answer(attempt.calls()[-1].call_id, Result("succeeded")), BEHAVIOUR)
    attempt.says(PAYMENT)
    assert [["step_limit"]] == [each.flags for each in attempt.ended]


def test_a_worker_that_died_is_said() -> None:
    """Its model is asked again: what it said before is paid for and lost."""
    attempt = Try()
    turn = attempt.now.turn
    assert turn is not None
    turn.lost = True
    attempt.does("take_over", turn.turn_id)
    attempt.says(DONE)
    assert [1] == [each.asked_again for each in attempt.ended]


def test_attempts_that_staged_the_same_agree() -> None:
    """By tool and arguments in their order, whatever ids and conversations these have."""
    one, other, less = Try("c1"), Try("c2"), Try("c3")
    for attempt, count in ((one, 2), (other, 2), (less, 1)):
        for position in range(1, count + 1):
            attempt.says(PAYMENT)
            attempt.stages(position)
        attempt.says(DONE)
    digests = [attempt.ended[0].tree_digest for attempt in (one, other, less)]
    assert (digests[0], [2, 2, 1]) == (digests[1], [each.ended[0].staged for each in (one, other, less)])
    assert 2 == len(set(digests))


def test_a_winner_asks_for_what_it_staged_and_says_what_became_of_it() -> None:
    """One call, no further word of the model, and no second end."""
    attempt = Try()
    attempt.says(PAYMENT)
    attempt.stages(1)
    attempt.says(DONE)
    assert ["pay"] == [call.tool for call in attempt.calls()]
    attempt.does("commit_attempt")
    commit = attempt.calls()[-1]
    assert "commit_changes" == commit.tool
    entry = {"call_id": attempt.calls()[0].call_id, "tool": "pay", "outcome": "conflicted", "summary": "Pay"}
    data = {"state": "conflicted", "entries": [entry]}
    attempt.does("take_result", Answer(commit.call_id, Result("failed", data=data)), BEHAVIOUR)
    assert ["conflicted"] == [each.state for each in attempt.sent if isinstance(each, AttemptCommitted)]
    assert (None, 1, 2) == (attempt.now.turn, len(attempt.ended), len(attempt.claims))


def test_a_loser_leaves_nothing_behind() -> None:
    """Withdrawn, its workspace is discarded; nothing can be committed any more."""
    attempt = Try()
    attempt.says(PAYMENT)
    attempt.stages(1)
    attempt.says(DONE)
    attempt.does("take_withdrawn", AttemptWithdrawn(tenant="acme", conversation_id="c1", by="jobs"))
    assert ["w1"] == [each.workspace_id for each in attempt.sent if isinstance(each, DiscardWorkspace)]
    attempt.does("commit_attempt")
    assert ["not_committed"] == [each.state for each in attempt.sent if isinstance(each, AttemptCommitted)]
