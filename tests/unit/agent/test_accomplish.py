"""A job as a tool: it begins when policy has let its call through, once, and not where nobody wants it any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.agent.accomplish import NOT_OFFERED, TOO_LATE, job_id
from placet.agent.conversation import Answer, Conversation
from placet.agent.rules import Behaviour, Result
from placet.agent.states import CallState
from placet.agent.turns import Said
from placet.contracts import messages as m
from placet.contracts.errors import Poison
from placet.domain.agents import AccomplishEntry
from placet.domain.catalog import Catalog
from placet.domain.house_tools import ACCOMPLISH_SPEC
from placet.runtime.work import Cause
from tests.builders import a_posted_message
from tests.support.agents import SHOP, says

PLACE = {"tenant": "acme", "conversation_id": "conversation-1"}
BEHAVIOUR = Behaviour("", steps_max=4, final_answer=False, accomplish=AccomplishEntry(k=2, tokens=1_000))
TOOLS = Catalog([*SHOP.values(), ACCOMPLISH_SPEC])
#: Nobody wrote, and no call waited.
NOTHING_MEANWHILE = (False, False)
WISH = (ACCOMPLISH_SPEC.name, '{"task": "Tidy up."}')


class Talk:
    """One conversation whose model wants a job done."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self.now = Conversation("conversation-1", "acme")
        self.sent: list[m.Message] = []
        self.does("take_message", a_posted_message(**PLACE, text="tidy up"), BEHAVIOUR, {})
        claim = self.now.begun[-1]
        self.does("settle", claim, Said(says("Well.", *(calls or (WISH,))), *NOTHING_MEANWHILE, TOOLS, BEHAVIOUR))
        (self.call, *_) = [each.call for each in self.of(m.ToolCallProposed)]

    def does(self, name: str, *given: Any, **named: Any) -> None:
        """Let something happen."""
        self.now.cause = Cause(id="e1")
        getattr(self.now, name)(*given, **named)
        self.now.finish()
        self.sent += [message for message, _ in self.now.emitted]
        self.now.emitted.clear()

    def of(self, kind: type[Any]) -> list[Any]:
        """Return what was sent of one type."""
        return [each for each in self.sent if isinstance(each, kind)]

    def permitted(
        self, *, behaviour: Behaviour = BEHAVIOUR, refused: str = "", expired: bool = False, **changes: Any
    ) -> None:
        """Let the permit come."""
        call = self.call.model_copy(update=changes)
        permitted = m.ToolCallPermitted(tenant="acme", pool=m.JOBS_POOL, call=call, permit="signed")
        self.does("take_permitted", permitted, behaviour, refused=refused, expired=expired)

    @property
    def state(self) -> tuple[Any, Any]:
        """State and kind of result of the call."""
        call = self.now.calls[self.call.call_id]
        return call.state, call.result_kind


def test_a_job_begins_when_its_call_is_permitted() -> None:
    """Policy is asked like for any call; the job has the arguments that were permitted, also where people edited."""
    talk = Talk()
    assert ([], CallState.OPEN) == (talk.of(m.RunJob), talk.state[0])
    talk.permitted(arguments='{"task":"Tidy up the desk."}')
    (job,) = talk.of(m.RunJob)
    assert (job_id("acme", talk.call.call_id), "Tidy up the desk.", 2, 1_000, 1) == (
        job.job_id,
        job.task,
        job.plan.k,
        job.budget.tokens,
        job.depth,
    )
    assert (talk.call.call_id, "visitor-1") == (job.caller.call_id, job.author.id)


def test_a_permit_that_comes_twice_is_the_same_job() -> None:
    """The id of the job follows from the call's: whoever handles it again begins no other."""
    talk = Talk()
    talk.permitted()
    talk.permitted()
    assert 1 == len({job.job_id for job in talk.of(m.RunJob)})
    talk.does("take_result", Answer(talk.call.call_id, Result("succeeded")), BEHAVIOUR)
    begun = len(talk.of(m.RunJob))
    talk.permitted()
    assert (begun, (CallState.ANSWERED, "succeeded")) == (len(talk.of(m.RunJob)), talk.state)


@pytest.mark.parametrize(
    ("how", "kind", "reason"),
    [
        ({"expired": True}, "expired", TOO_LATE),
        ({"behaviour": replace(BEHAVIOUR, accomplish=None)}, "refused", NOT_OFFERED),
        (
            {"refused": "Nothing was run: such calls are stopped.", "expired": True},
            "refused",
            "Nothing was run: such calls are stopped.",
        ),
    ],
)
def test_what_may_not_begin_any_more_is_answered(how: dict[str, Any], kind: str, reason: str) -> None:
    """A permit that ran out, jobs that were taken away or stopped: no job, and the call has its one result."""
    talk = Talk()
    talk.permitted(**how)
    result = talk.now.calls[talk.call.call_id].result
    assert ([], (CallState.ANSWERED, kind), reason) == (talk.of(m.RunJob), talk.state, result and result["reason"])


def test_a_stop_withdraws_the_question_or_cancels_the_job() -> None:
    """While people think, approval ends it; a job that goes on is cancelled; a permit that comes later too."""
    held, running = Talk(), Talk()
    held.now.calls[held.call.call_id].undecided = True
    running.permitted()
    for talk in (held, running):
        talk.does("stop", m.StopTurn(**PLACE, turn_id=talk.now.turn_id, by="person:ada"))
    assert ([], [job_id("acme", running.call.call_id)]) == (
        held.of(m.CancelJob),
        [each.job_id for each in running.of(m.CancelJob)],
    )
    assert [[held.call.call_id]] == [each.call_ids for each in held.of(m.CallsWithdrawn)]
    held.permitted()
    assert [job_id("acme", held.call.call_id)] == [each.job_id for each in held.of(m.CancelJob)]


def test_a_card_of_its_job_pauses_the_turn() -> None:
    """Who reads the conversation is asked there, so that streams that end at a question end; decided, it goes on."""
    talk = Talk()
    talk.permitted()
    card = {"approval_id": "a1", "call_id": "c1", "turn_id": "theirs", "state": "pending"}
    for state in ("pending", "approved"):
        talk.now.items.clear()
        told = m.CallSurfaced(**PLACE, call_id=talk.call.call_id, kind="approval", data=card | {"state": state})
        talk.does("take_surfaced", told)
        paused = [data["waiting"] for kind, data in talk.now.items if kind == "turn"]
        assert ([[{"call_id": "c1", "approval_id": "a1"}]] if state == "pending" else []) == paused
        assert (state == "pending") is (talk.now.turn is not None and talk.now.turn.paused)


def surfaces(talk: Talk, call_id: str, state: str, *, at: int = 0, kind: Any = "approval") -> list[list[str]]:
    """Tell of a card of the job of a call; return the approvals on which the turn is told to be paused then."""
    talk.now.items.clear()
    told = {"state": state} if kind == "approval" else {"status": state}
    card = {"approval_id": f"a-{call_id}", "call_id": call_id, "turn_id": "theirs", **told}
    caller = talk.of(m.ToolCallProposed)[at].call.call_id
    talk.does("take_surfaced", m.CallSurfaced(**PLACE, call_id=caller, kind=kind, data=card))
    # As a replica reads it that has not heard of the cards.
    talk.now.calls = {each.call_id: replace(each) for each in talk.now.calls.values()}
    return [[each["approval_id"] for each in data["waiting"]] for kind, data in talk.now.items if kind == "turn"]


def is_paused(talk: Talk) -> bool:
    """Tell whether the turn waits for people."""
    return talk.now.turn is not None and talk.now.turn.paused


def test_a_turn_is_paused_until_the_last_card_of_its_job_is_over() -> None:
    """Each card that comes or goes tells anew what people are asked; a vote, or what comes late, tells nothing."""
    talk = Talk()
    talk.permitted()
    told = [surfaces(talk, *each) for each in (("c1", "pending"), ("c2", "pending"), ("c1", "pending"))]
    told += [surfaces(talk, "c1", "approved"), surfaces(talk, "c1", "pending")]
    assert ([[["a-c1"]], [["a-c1", "a-c2"]], [], [["a-c2"]], []], True) == (told, is_paused(talk))
    assert ([], False) == (surfaces(talk, "c2", "denied"), is_paused(talk))


def test_a_result_ends_a_card_whose_end_is_still_to_come() -> None:
    """Nobody is asked any more; the end of the card changes nothing then."""
    talk = Talk()
    talk.permitted()
    surfaces(talk, "c1", "pending")
    surfaces(talk, "c2", "pending")
    assert [["a-c2"]] == surfaces(talk, "c1", "success", kind="tool_call")
    assert ([], True) == (surfaces(talk, "c1", "approved"), is_paused(talk))


def test_the_cards_of_two_jobs_pause_one_turn() -> None:
    """While one job asks, the end of the other one lets nobody wait for a stream that stays open."""
    talk = Talk(WISH, WISH)
    for at in range(2):
        talk.permitted(call_id=talk.of(m.ToolCallProposed)[at].call.call_id)
        surfaces(talk, f"c{at}", "pending", at=at)
    talk.now.items.clear()
    talk.does("take_result", Answer(talk.call.call_id, Result("failed")), BEHAVIOUR)
    paused = [data["waiting"] for kind, data in talk.now.items if kind == "turn"]
    assert ([[{"call_id": "c1", "approval_id": "a-c1"}]], True) == (paused, is_paused(talk))


def test_no_other_call_begins_a_job() -> None:
    """A permit of the agent's for another tool fits no call."""
    talk = Talk(("pay", '{"amount": 299}'))
    with pytest.raises(Poison, match="has no permit of the agent's"):
        talk.permitted()
