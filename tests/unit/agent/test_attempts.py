"""Attempts of jobs: they end with one strict answer, and the first wrong step throws them out."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from placet.agent import attempts, rules
from placet.agent.accomplish import CALLER
from placet.agent.conversation import Answer, Conversation
from placet.agent.handlers import _ran
from placet.agent.rules import FINAL_ANSWER, TAKEOVERS_MAX, Behaviour, Claim, Result, Settlement, never_ran
from placet.agent.states import Event
from placet.agent.turns import Said
from placet.contracts.canonical import parse_arguments
from placet.contracts.errors import Poison
from placet.contracts.messages import (
    AttemptEnded,
    AttemptRequested,
    AttemptWithdrawn,
    Author,
    CallSurfaced,
    CallsWithdrawn,
    DiscardWorkspace,
    JobCaller,
    JobCommitted,
    MergedEntry,
    Message,
    ProposeJob,
    Staged,
    StagedEffect,
    ToolCall,
    ToolCallProposed,
    ToolCallRefused,
    WorkspaceBase,
    WorkspaceExpired,
)
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.house_tools import PROPOSE_SPEC
from placet.runtime.work import Cause
from tests.builders import a_posted_message
from tests.support.agents import PAY, finished, opened, says

BEHAVIOUR = Behaviour("", steps_max=3, final_answer=False)
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
#: Nobody wrote, and no call waited.
NOTHING_MEANWHILE = (False, False)
BASE = WorkspaceBase(conversation_id="job-conversation", entries=3)
DONE = (FINAL_ANSWER.name, '{"answer": "42"}')
PAYMENT = ("pay", '{"amount": 299}')


def a_request(conversation_id: str, **changes: Any) -> AttemptRequested:
    """Return what jobs asks of an agent."""
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
        "base": BASE,
    }
    return AttemptRequested(**fields | changes)


class Try:
    """One attempt: what its model says and what executors answer, and everything that the agent sent."""

    def __init__(self, conversation_id: str = "c1", **changes: Any) -> None:
        self.now = Conversation(conversation_id, "acme")
        self.sent: list[Message] = []
        self.claims: list[Claim] = []
        self.does("take_attempt", a_request(conversation_id, **changes), BEHAVIOUR, {})

    def does(self, name: str, *given: Any, **named: Any) -> None:
        """Let something happen."""
        self.now.cause = Cause(id="e1")
        getattr(self.now, name)(*given, **named)
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

    def stages(self, position: int, *effects: StagedEffect) -> None:
        """Let the executor stage the newest call; without effects it waits itself."""
        digest = f"{position}" * 64
        waits = [StagedEffect(after=str(self.calls()[-1].arguments))]
        staged = Staged(
            workspace_id="w1",
            position=position,
            kind="change" if effects else "call",
            digest=digest,
            summary="Pay",
            effects=list(effects) or waits,
        )
        proposed = ToolCallProposed(tenant="acme", call=self.calls()[-1])
        news = finished(proposed, kind="staged", data={"summary": "Pay"}, staged=staged)
        self.does("take_result", _ran(news), BEHAVIOUR)

    @property
    def ended(self) -> list[AttemptEnded]:
        """What jobs was told of its end."""
        return [each for each in self.sent if isinstance(each, AttemptEnded)]


def test_a_schema_of_answers_is_not_checked_again() -> None:
    """The gateway has checked it where it came in: here it would keep everybody waiting, for seconds if it is long."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{}] * 6_500}
    attempt = Try(answer_schema=schema).now.attempt
    assert attempt is not None
    begun = process_time()
    tool = attempts.offered(Catalog([PAY]), attempt)[FINAL_ANSWER.name]
    assert process_time() - begun < 0.2
    assert tool == ToolSpec.model_validate(tool.model_dump() | {"parameters": schema})


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


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([(FINAL_ANSWER.name, '{"answer": 42}')], f"{FINAL_ANSWER.name}: /answer: "),
        ([("non\u202esense", "{}")], "non[U+202E]sense: there is no tool "),
        ([DONE, PAYMENT], f"{FINAL_ANSWER.name}: not accepted: call final_answer alone"),
        ([DONE, DONE], f"{FINAL_ANSWER.name}: not accepted: call final_answer alone"),
    ],
)
def test_an_attempt_says_what_was_wrong_with_its_call(calls: Any, why: str) -> None:
    """People read on the job's page what its model would have read."""
    attempt = Try()
    attempt.says(*calls)
    (told,) = attempt.ended
    assert told.reason.startswith(f"It made a call that is not valid. {why}")


def test_an_attempt_whose_agent_nobody_knows_says_so_to_its_job() -> None:
    """At once: the agent was taken out of the file, or the gateway has another one."""
    tried = Try()
    tried.now, tried.sent = Conversation("c2", "acme"), []
    tried.does("take_attempt", a_request("c2", agent="clerk"), None, {})
    (told,) = tried.sent
    assert isinstance(told, AttemptEnded)
    assert (["no_model"], "The agent service knows no agent clerk.", 0) == (told.flags, told.reason, told.input_tokens)
    assert [] == tried.claims[1:]


def test_an_attempt_has_as_many_steps_as_its_agent() -> None:
    """One that proposes calls in its last step has used them all."""
    attempt = Try()
    for _ in range(2):
        attempt.says(PAYMENT)
        attempt.does("take_result", Answer(attempt.calls()[-1].call_id, Result("succeeded")), BEHAVIOUR)
    attempt.says(PAYMENT)
    assert [["step_limit"]] == [each.flags for each in attempt.ended]


def loses_its_worker(attempt: Try) -> None:
    """Let the worker die that asks the model, and another one ask again."""
    turn = attempt.now.turn
    assert turn is not None
    turn.lost = True
    attempt.does("take_over", turn.turn_id)


def test_a_worker_that_died_is_said_and_counted() -> None:
    """Its model is asked again: what it said before is paid for and lost, and counts like what it says then."""
    attempt, undisturbed = Try(), Try()
    loses_its_worker(attempt)
    for each in (attempt, undisturbed):
        each.says(PAYMENT)
        each.does("take_result", Answer(each.calls()[0].call_id, Result("succeeded")), BEHAVIOUR)
        each.says(DONE)
    ((told,), (other,)) = attempt.ended, undisturbed.ended
    assert (1, 0, other.cost) == (told.asked_again, other.asked_again, 0.5)
    assert (1.5, 0.75) == (told.input_tokens / other.input_tokens, told.cost)
    assert told.output_tokens * 2 == other.output_tokens * 3


def test_lost_questions_count_for_the_share_of_an_attempt() -> None:
    """One that has enough for a question is thrown out when it was asked twice."""
    used = Try()
    used.says(DONE)
    share = used.ended[0].input_tokens + used.ended[0].output_tokens
    attempt = Try(tokens_max=share)
    loses_its_worker(attempt)
    attempt.says(DONE)
    assert [["token_limit"]] == [each.flags for each in attempt.ended]


def test_an_attempt_that_kills_every_worker_takes_its_share() -> None:
    """Nobody knows what questions took that have no answer at all."""
    attempt = Try(tokens_max=700)
    for _ in range(TAKEOVERS_MAX + 1):
        loses_its_worker(attempt)
    (told,) = attempt.ended
    assert (["no_model"], 700, TAKEOVERS_MAX + 1) == (told.flags, told.input_tokens, told.asked_again)


def test_calls_that_were_refused_are_counted() -> None:
    """By a rule or an emergency stop: its job says so beside the vote."""
    attempt = Try()
    attempt.says(PAYMENT)
    attempt.does("take_result", Answer(attempt.calls()[0].call_id, Result("refused", reason="Stopped.")), BEHAVIOUR)
    attempt.says(DONE)
    assert [1] == [each.refused for each in attempt.ended]


@pytest.mark.parametrize(
    ("reason", "flags", "said"),
    [
        (rules.NO_MODEL, ["no_model"], "Its model did not answer."),
        (rules.TOO_LONG, ["token_limit"], "It became longer than its model reads."),
    ],
)
def test_a_model_that_is_away_is_told_from_one_that_reads_no_more(reason: str, flags: list[str], said: str) -> None:
    """The first is no fault of the attempt; the second is, and another one may do better."""
    attempt = Try()
    attempt.does("settle", attempt.claims[-1], Settlement(Event.MODEL_FAILED, reason=reason))
    assert [(flags, said)] == [(each.flags, each.reason) for each in attempt.ended]


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


def test_attempts_agree_on_contents_whatever_the_way() -> None:
    """One write, or two of the same file that come to the same; a third content, or an order of calls, is another."""

    def tree(*steps: StagedEffect | None) -> str | None:
        attempt = Try()
        for position, step in enumerate(steps, 1):
            attempt.says(PAYMENT)
            attempt.stages(position, *([step] if step else []))
        attempt.says(DONE)
        return attempt.ended[0].tree_digest

    def change(base: str | None, after: str | None, key: str = "files:a") -> StagedEffect:
        return StagedEffect(key=key, base=base, after=after)

    once, twice = tree(change("old", "new")), tree(change("old", "draft"), change("draft", "new"))
    assert once == twice
    assert once != tree(change("old", "draft"))
    one, other = change(None, "1", "files:a"), change(None, "2", "files:b")
    assert tree(one, other) == tree(other, one)
    assert tree(one, None) == tree(None, one)
    assert tree(one, None) != tree(one)
    assert tree() is tree(change("old", "new"), change("new", "old")) is None


def test_every_call_says_what_its_attempt_stands_on() -> None:
    """Executors read there, and policy knows where what it stages will be committed."""
    attempt = Try()
    attempt.says(PAYMENT)
    assert [BASE] == [call.base for call in attempt.calls()]


def asked(*, conversation_id: str = "job-conversation") -> ProposeJob:
    """Return a job whose two entries wait for people."""
    return ProposeJob(
        tenant="acme",
        conversation_id=conversation_id,
        message_id="job-1",
        job_id="job-1",
        agent="default",
        author=Author(kind="person", id="person:ada"),
        text="Pay twice.",
        said='{"only":{"answer":"done"}}',
        workspace_id="w9",
        entries=[MergedEntry(call_id=f"call-{each}", digest=each * 64) for each in "ab"],
    )


class Question:
    """The conversation in which people decide about a job, and what the agent sent from it."""

    def __init__(self) -> None:
        self.now = Conversation("job-conversation", "acme")
        self.sent: list[Message] = []

    def does(self, name: str, *given: Any) -> None:
        """Let something happen."""
        self.now.cause = Cause(id="e1")
        getattr(self.now, name)(*given)
        self.now.finish()
        self.sent += [message for message, _ in self.now.emitted]
        assert not self.now.begun
        self.now.emitted.clear()

    @property
    def calls(self) -> list[ToolCall]:
        """What was proposed."""
        return [each.call for each in self.sent if isinstance(each, ToolCallProposed)]

    @property
    def told(self) -> list[tuple[str, int, int]]:
        """What jobs was told: state, done, left out."""
        return [(each.state, each.done, each.left_out) for each in self.sent if isinstance(each, JobCommitted)]


def test_people_are_asked_about_a_job_once_and_jobs_hears_what_became_of_it() -> None:
    """One call of all its entries, in the words of whoever wanted it; no model is asked before or after."""
    question = Question()
    question.does("propose_job", asked(), {})
    question.does("propose_job", asked(), {})
    (commit,) = question.calls
    assert ("commit_changes", "person:ada", "job-1") == (commit.tool, commit.requester, commit.labels["job"])
    assert ["call-a", "call-b"] == parse_arguments(commit.arguments)["entries"]
    assert '{"only":{"answer":"done"}}' == commit.quote
    ends = [("call-a", "committed"), ("call-b", "left_out")]
    entries = [{"call_id": each, "tool": "pay", "outcome": outcome, "summary": f"Do {each}"} for each, outcome in ends]
    data = {"state": "committed", "entries": entries}
    question.does("take_result", Answer(commit.call_id, Result("succeeded", data=data)), BEHAVIOUR)
    assert [("committed", 1, 1)] == question.told
    assert ['People left out "Do call-b".'] == [each.reason for each in question.sent if isinstance(each, JobCommitted)]
    assert question.now.turn is None


def test_who_waits_for_a_job_reads_what_its_commit_would_do() -> None:
    """The entries were staged in other conversations: their lines go along with the card."""
    question = Question()
    entries = [MergedEntry(call_id="call-a", digest="a" * 64, tool="write_file", summary="Create a.md")]
    caller = JobCaller(conversation_id="conversation-1", call_id="accomplish-1")
    question.does("propose_job", asked().model_copy(update={"entries": entries, "caller": caller}), {})
    question.does("take_opened", opened(ToolCallProposed(tenant="acme", call=question.calls[0])), BEHAVIOUR)
    told = [each.data for each in question.sent if isinstance(each, CallSurfaced) and each.kind == "tool_call"]
    assert [[{"call_id": "call-a", "tool": "write_file", "summary": "Create a.md"}]] == [
        each["entries"] for each in told
    ]


def test_a_withdrawn_question_says_what_became_of_it() -> None:
    """Its call is withdrawn; the end of that is told. One that is withdrawn before it is asked is never asked."""
    question, early = Question(), Question()
    withdrawn = AttemptWithdrawn(tenant="acme", conversation_id="job-conversation", by="jobs")
    question.does("propose_job", asked(), {})
    question.does("take_withdrawn", withdrawn)
    assert [] == question.told
    question.does("take_result", Answer(question.calls[0].call_id, Result("cancelled")), BEHAVIOUR)
    assert [("not_committed", 0, 0)] == question.told
    early.does("take_withdrawn", withdrawn)
    early.does("propose_job", asked(), {})
    assert ([("not_committed", 0, 0)], []) == (early.told, early.calls)


def test_what_a_person_answered_about_a_job_is_told() -> None:
    """Their words are the reason, for people and for the model whose call the job answers."""
    question = Question()
    question.does("propose_job", asked(), {})
    commit = question.calls[0]
    refused = ToolCallRefused(
        **commit.model_dump(include={"tenant", "call_id", "conversation_id", "tool"}),
        kind="answered",
        reason="Answered.",
        decided_by="person:ada",
        answer_kind="instruction",
        answer="Use folder docs/ instead",
    )
    question.does("take_result", Answer(commit.call_id, never_ran(refused)), BEHAVIOUR)
    (told,) = [each for each in question.sent if isinstance(each, JobCommitted)]
    assert ("not_committed", 'person:ada answered instead: "Use folder docs/ instead".') == (told.state, told.reason)


def test_a_question_about_what_has_expired_is_withdrawn() -> None:
    """Jobs hears of its end; of an attempt nothing is forgotten, whose work waits for its job."""
    question, attempt = Question(), Try()
    question.does("propose_job", asked(), {})
    expired = WorkspaceExpired(tenant="acme", conversation_id="job-conversation", workspace_id="w9")
    question.does("take_expired", expired)
    (withdrawn,) = [each for each in question.sent if isinstance(each, CallsWithdrawn)]
    assert ([question.calls[0].call_id], "Nobody decided in time.") == (withdrawn.call_ids, withdrawn.reason)
    attempt.says(PAYMENT)
    attempt.stages(1)
    attempt.does("take_expired", WorkspaceExpired(tenant="acme", conversation_id="c1", workspace_id="w1"))
    assert ["w1"] == [each.workspace_id for each in attempt.now.staged]


def test_an_attempt_proposes_nothing_itself() -> None:
    """It is not offered `propose_changes`; where its model calls it all the same it is told so, and goes on."""
    attempt = Try()
    assert attempt.now.attempt is not None
    assert ["pay", FINAL_ANSWER.name] == list(attempts.offered(Catalog([PAY, PROPOSE_SPEC]), attempt.now.attempt))
    attempt.says(PAYMENT)
    attempt.stages(1)
    attempt.says((PROPOSE_SPEC.name, "{}"))
    told = [(row["result_kind"], row["result"]) for row in attempt.now.new_calls if row["tool"] == PROPOSE_SPEC.name]
    assert [("invalid", {"error": attempts.PROPOSES_NOTHING.error})] == told
    assert [] == attempt.ended
    attempt.says(DONE)
    assert [([], 1)] == [(each.flags, each.staged) for each in attempt.ended]


def test_a_loser_leaves_nothing_behind() -> None:
    """Withdrawn, its workspace is discarded; nothing can be committed any more."""
    attempt = Try()
    attempt.says(PAYMENT)
    attempt.stages(1)
    attempt.says(DONE)
    attempt.does("take_withdrawn", AttemptWithdrawn(tenant="acme", conversation_id="c1", by="jobs"))
    assert ["w1"] == [each.workspace_id for each in attempt.sent if isinstance(each, DiscardWorkspace)]


def test_an_attempt_that_is_stopped_while_its_model_is_asked_says_what_is_not_counted() -> None:
    """What the question used is known to nobody; jobs and people hear that it is missing."""
    asked, waiting = Try(), Try()
    waiting.says(PAYMENT)
    for each in (asked, waiting):
        each.does("take_withdrawn", AttemptWithdrawn(tenant="acme", conversation_id="c1", by="jobs"))
    ((told,), (other,)) = asked.ended, waiting.ended
    assert (["stopped"], ["stopped"]) == (told.flags, other.flags)
    assert ("Stopped by its job.", f"Stopped by its job. {attempts.UNCOUNTED}") == (other.reason, told.reason)
    (withdrawn,) = [each for each in waiting.sent if isinstance(each, CallsWithdrawn)]
    assert "Not run: its job stopped the turn." == withdrawn.reason


@pytest.mark.parametrize("by", ["person:ada", CALLER])
def test_a_question_about_a_job_that_is_cancelled_says_so(by: str) -> None:
    """No turn was stopped there: somebody cancelled the job that asked."""
    question = Question()
    question.does("propose_job", asked(), {})
    question.does("take_withdrawn", AttemptWithdrawn(tenant="acme", conversation_id="c1", by=by))
    (withdrawn,) = [each for each in question.sent if isinstance(each, CallsWithdrawn)]
    assert f"Not run: {by} cancelled the job." == withdrawn.reason


def test_what_a_winner_staged_waits_on_in_its_job() -> None:
    """Its conversation ends, and nothing of it is thrown away."""
    attempt = Try()
    attempt.says(PAYMENT)
    attempt.stages(1)
    attempt.says(DONE)
    attempt.does("take_withdrawn", AttemptWithdrawn(tenant="acme", conversation_id="c1", by="jobs", merged=True))
    assert ([], [], True) == (
        [each for each in attempt.sent if isinstance(each, DiscardWorkspace)],
        attempt.now.staged,
        attempt.now.ended,
    )


def test_nobody_writes_in_an_attempt() -> None:
    """A frontend's message to it is a dead letter, and neither its log nor its model hears of it."""
    attempt = Try()
    before = len(attempt.claims)
    with pytest.raises(Poison, match="is a job's"):
        attempt.does("take_message", a_posted_message(conversation_id="c1"), BEHAVIOUR, {})
    assert ([], before) == (attempt.now.items, len(attempt.claims))


@pytest.mark.parametrize(
    ("outcomes", "kind", "expected"),
    [
        (["failed", "unknown"], "unknown", ("unknown", 0, 0)),
        (["committed", "unknown"], "unknown", ("partly_committed", 1, 0)),
        (["failed", "refused"], "failed", ("not_committed", 0, 0)),
    ],
)
def test_what_nobody_knows_is_not_told_as_nothing(
    outcomes: list[str], kind: Any, expected: tuple[str, int, int]
) -> None:
    """A staged call of unknown end may have taken effect: its job must not say that nothing did."""
    question = Question()
    question.does("propose_job", asked(), {})
    entries = [{"call_id": f"call-{at}", "tool": "pay", "outcome": each} for at, each in enumerate(outcomes)]
    state = "discarded" if kind == "failed" else "partly_committed"
    result = Result(kind, data={"state": state, "entries": entries})
    question.does("take_result", Answer(question.calls[0].call_id, result), BEHAVIOUR)
    assert [expected] == question.told
