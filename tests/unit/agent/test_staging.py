"""What is staged is proposed once, at the end of the turn, and everybody hears what became of each entry."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agent import staging
from placet.agent.conversation import Answer, Conversation
from placet.agent.handlers import _ran
from placet.agent.rules import FINAL_ANSWER, NO_MODEL, RESTORED, Behaviour, Claim, Result, Settlement, offered
from placet.agent.staging import StagedEntry, due, with_propose
from placet.agent.states import Event
from placet.agent.turns import Said
from placet.contracts.canonical import parse_arguments, tree_digest
from placet.contracts.errors import Transient
from placet.contracts.messages import (
    CallsWithdrawn,
    CommitResult,
    ConversationEnded,
    DiscardChanges,
    DiscardWorkspace,
    EntriesDiscarded,
    EntryOutcome,
    Message,
    ProposeChanges,
    Staged,
    StagedCallsDropped,
    StopTurn,
    ToolCall,
    ToolCallProposed,
    WorkspaceExpired,
)
from placet.domain.catalog import Catalog
from placet.domain.house_tools import COMMIT_SPEC, PROPOSE_SPEC
from placet.runtime.work import Cause
from tests.builders import a_posted_message
from tests.support.agents import PAY, SHOP, finished, says
from tests.support.log_rules import LogRules

PLACE = {"tenant": "acme", "conversation_id": "conversation-1"}
BEHAVIOUR = Behaviour("", steps_max=4, final_answer=True)
TOOLS = Catalog([*SHOP.values(), PROPOSE_SPEC, FINAL_ANSWER])
#: Nobody wrote, and no call waited.
NOTHING_MEANWHILE = (False, False)
PAYMENT = ("pay", '{"amount": 299}')
PROPOSED = (PROPOSE_SPEC.name, "{}")
ENDED = (FINAL_ANSWER.name, '{"success": true, "result": "done", "confidence": 1}')


class Talk:
    """One conversation: what the model says and what executors answer, and everything that the agent sent."""

    def __init__(self, **labels: str) -> None:
        self.now = Conversation("conversation-1", "acme")
        self.log = LogRules()
        self.items: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[Message] = []
        self.claims: list[Claim] = []
        self.positions = 0
        self.does("take_message", a_posted_message(**PLACE, labels=labels, text="plan it"), BEHAVIOUR, {})

    def does(self, name: str, *given: Any) -> None:
        """Let something happen."""
        self.now.cause = Cause(id="e1")
        getattr(self.now, name)(*given)
        self.now.finish()
        for kind, data in self.now.items:
            self.log.take(kind, data)
        assert [] == self.log.faults
        self.items += self.now.items
        self.sent += [message for message, _ in self.now.emitted]
        self.claims += self.now.begun
        for buffer in (self.now.items, self.now.begun, self.now.emitted):
            buffer.clear()

    def says(self, *calls: tuple[str, str], text: str = "Well.") -> list[ToolCall]:
        """Let the model answer the newest claim; return the calls that were proposed because of it."""
        before = len(self.sent)
        self.does("settle", self.claims[-1], Said(says(text, *calls), *NOTHING_MEANWHILE, TOOLS, BEHAVIOUR))
        return self.proposed(before)

    def dropped(self) -> list[tuple[str, list[str]]]:
        """Return what policy was told of calls that never take effect."""
        return [(each.outcome, each.call_ids) for each in self.sent if isinstance(each, StagedCallsDropped)]

    def proposed(self, since: int = 0) -> list[ToolCall]:
        """Return the calls that were proposed."""
        return [each.call for each in self.sent[since:] if isinstance(each, ToolCallProposed)]

    def commits(self) -> list[ToolCall]:
        """Return the commits that were proposed."""
        return [call for call in self.proposed() if call.tool == COMMIT_SPEC.name]

    def stages(self, call: ToolCall, decide: Any = "turn", workspace: str = "w1", *, key: str = "") -> None:
        """Let the executor stage a call in the next place, or a change of `key`."""
        self.positions += 1
        staged = Staged(
            workspace_id=workspace,
            position=self.positions,
            kind="change" if key else "call",
            digest=f"{self.positions}" * 64,
            keys=[key] if key else [],
            summary="Pay 299",
            decide=decide,
        )
        news = finished(
            ToolCallProposed(tenant="acme", call=call), kind="staged", data={"summary": "Pay 299"}, staged=staged
        )
        self.does("take_result", _ran(news), BEHAVIOUR)

    def ends(self, call: ToolCall, kind: Any, **more: Any) -> None:
        """Give a call its result."""
        self.does("take_result", Answer(call.call_id, Result(kind, **more)), BEHAVIOUR)

    def staged_calls(self, count: int = 2, decide: Any = "turn") -> list[ToolCall]:
        """Let the model propose payments that are staged."""
        calls = self.says(*[PAYMENT] * count)
        for call in calls:
            self.stages(call, decide)
        return calls

    def asked_while_more_is_staged(self) -> tuple[ToolCall, list[ToolCall]]:
        """Let people be asked about files:a and files:b; later changes of files:a, files:c and a call follow."""
        calls = self.says(PAYMENT, PAYMENT, PAYMENT, PAYMENT, PAYMENT)
        for call, key in zip(calls[:2], ("files:a", "files:b"), strict=True):
            self.stages(call, key=key)
        self.does("stop", StopTurn(**PLACE, turn_id=self.now.turn_id, by="person:ada"))
        self.does("propose_changes", ProposeChanges(**PLACE, by="person:ada"))
        (commit,) = self.commits()
        for call, key in zip(calls[2:], ("files:a", "files:c", ""), strict=True):
            self.stages(call, key=key)
        return commit, calls

    def last(self, call: ToolCall) -> dict[str, Any]:
        """Return the newest item about a call."""
        return [data for kind, data in self.items if kind == "tool_call" and data["call_id"] == call.call_id][-1]

    def fails(self, reason: str = NO_MODEL) -> list[ToolCall]:
        """Let no model answer the newest claim; return the calls that were proposed because of it."""
        before = len(self.sent)
        self.does("settle", self.claims[-1], Settlement(Event.MODEL_FAILED, reason=reason))
        return self.proposed(before)


def a_result(*outcomes: tuple[ToolCall, str], state: Any = "committed") -> Any:
    """Return the data with which an executor ends a commit."""
    entries = [EntryOutcome(call_id=call.call_id, tool=call.tool, outcome=outcome) for call, outcome in outcomes]
    return CommitResult(state=state, entries=entries).model_dump(mode="json")


def test_a_turn_that_staged_something_ends_with_its_proposal() -> None:
    """The house proposes one commit of all entries in order, beside the model's last words; the turn waits for it."""
    talk = Talk()
    calls = talk.staged_calls()
    (commit,) = talk.says(text="That is the plan.")
    arguments = parse_arguments(commit.arguments)
    tree = tree_digest([(calls[0].call_id, "1" * 64), (calls[1].call_id, "2" * 64)])
    assert (COMMIT_SPEC.name, [each.call_id for each in calls], tree, "w1") == (
        commit.tool,
        arguments["entries"],
        arguments["tree_digest"],
        arguments["workspace_id"],
    )
    assert ("waiting", "That is the plan.") == (talk.now.turn and talk.now.turn.state, commit.quote)


def test_what_a_failed_turn_had_staged_is_proposed_and_the_card_says_so() -> None:
    """A question of its own follows the failure, and its words say that the plan may be only a part."""
    talk = Talk()
    calls = talk.staged_calls()
    (commit,) = talk.fails()
    told = [(data["state"], data.get("idle")) for kind, data in talk.items if kind == "turn"]
    assert [("started", None), ("failed", False), ("started", None)] == told
    assert ([each.call_id for each in calls], True) == (
        parse_arguments(commit.arguments)["entries"],
        commit.quote.startswith(f"The turn failed before it was done. {NO_MODEL}"),
    )
    talk.ends(commit, "denied")
    assert ([], None) == (talk.fails(), talk.now.turn)


def test_a_turn_without_steps_left_proposes_what_it_had_staged() -> None:
    """The limit of steps is a failure like others; an attempt of a job has its own end."""
    talk = Talk()
    for _ in range(BEHAVIOUR.steps_max - 1):
        talk.staged_calls(1)
    (commit,) = talk.says(PAYMENT)
    assert (COMMIT_SPEC.name, 3) == (commit.tool, len(parse_arguments(commit.arguments)["entries"]))


@pytest.mark.parametrize("why", ["on request", "restored", "written", "ended"])
def test_a_failed_turn_asks_nobody_where_nobody_should_be(why: str) -> None:
    """Not what its rule proposes on request, what may have happened, what goes on by itself, or has ended."""
    talk = Talk()
    talk.staged_calls(decide="on_request" if why == "on request" else "turn")
    if why == "written":
        talk.does("take_message", a_posted_message(**PLACE, message_id="m2", text="and?"), BEHAVIOUR, {})
    if why == "ended":
        talk.does("end", ConversationEnded(**PLACE, by="person:ada"), ())
    assert [] == talk.fails(RESTORED if why == "restored" else NO_MODEL)


def test_the_model_is_asked_once_more_when_the_commit_has_ended() -> None:
    """It reads what became of each entry, its next answer ends the turn, and nothing is proposed twice."""
    talk = Talk()
    calls = talk.staged_calls()
    (commit,) = talk.says()
    talk.ends(commit, "succeeded", data=a_result((calls[0], "succeeded"), (calls[1], "left_out")))
    assert [] == talk.says(text="Done.")
    assert (None, 1, []) == (talk.now.turn, len(talk.commits()), talk.now.staged)


def test_every_entry_has_its_end_in_the_log() -> None:
    """A frontend that showed `staged` shows what became of it."""
    talk = Talk()
    calls = talk.staged_calls(3)
    (commit,) = talk.says()
    talk.ends(commit, "failed", data=a_result(*zip(calls, ["committed", "left_out", "unknown"], strict=True)))
    found = [talk.last(call) for call in calls]
    assert [
        ("success", "succeeded", "committed"),
        ("error", "denied", "left_out"),
        ("error", "unknown", "unknown"),
    ] == [(data["status"], data["kind"], data["outcome"]) for data in found]


def test_the_model_is_told_that_nothing_has_happened_yet() -> None:
    """Also where the executor does not say it."""
    talk = Talk()
    (call,) = talk.staged_calls(1)
    assert "nothing has happened yet" in talk.last(call)["data"]["note"]


@pytest.mark.parametrize("kind", ["denied", "expired", "refused", "failed", "cancelled"])
def test_a_commit_that_came_to_nothing_is_thrown_away(kind: str) -> None:
    """What people turned down or can never be is discarded once, and the turn's end proposes nothing more."""
    talk = Talk()
    (call,) = talk.staged_calls(1)
    (commit,) = talk.says()
    talk.ends(commit, kind, reason="No.")
    assert [] == talk.says(text="A pity.")
    discarded = [each for each in talk.sent if isinstance(each, DiscardWorkspace)]
    assert (["w1"], None, "discarded", [("discarded", [call.call_id])]) == (
        [each.workspace_id for each in discarded],
        talk.now.turn,
        talk.last(call)["outcome"],
        talk.dropped(),
    )


def test_a_commit_of_unknown_outcome_throws_nothing_away() -> None:
    """Its result was lost: it may have run, so nothing is called discarded and no room comes back."""
    talk = Talk()
    (call,) = talk.staged_calls(1)
    (commit,) = talk.says()
    talk.ends(commit, "unknown", error="Its result was lost.")
    assert ("unknown", [], []) == (talk.last(call)["outcome"], talk.dropped(), talk.now.staged)
    assert not any(isinstance(each, DiscardWorkspace) for each in talk.sent)


def test_policy_hears_what_never_took_effect() -> None:
    """Left out, in conflict or behind a failure: its room comes back. What ran, or may have run, stays counted."""
    talk = Talk()
    kinds = ["committed", "left_out", "conflicted", "refused", "failed", "unknown", "left_out"]
    calls = talk.staged_calls(len(kinds))
    (commit,) = talk.says()
    ends = [
        EntryOutcome(call_id=call.call_id, tool="pay", outcome=kind) for call, kind in zip(calls, kinds, strict=True)
    ]
    data = CommitResult(state="partly_committed", entries=ends).model_dump(mode="json")
    talk.ends(commit, "succeeded", data=data)
    expected = {"left_out": [calls[1], calls[6]], "conflicted": [calls[2]], "refused": [calls[3]]}
    assert {kind: [each.call_id for each in those] for kind, those in expected.items()} == dict(talk.dropped())


@pytest.mark.parametrize("kind", ["denied", "expired", "cancelled", "failed"])
def test_what_was_staged_since_outlives_a_commit_that_came_to_nothing(kind: str) -> None:
    """Only a later change of the same goes with it, and the model hears of that; the rest is proposed."""
    talk = Talk()
    commit, calls = talk.asked_while_more_is_staged()
    talk.ends(commit, kind, reason="Not that.")
    (discarded,) = [each for each in talk.sent if isinstance(each, DiscardWorkspace)]
    assert [each.call_id for each in calls[:3]] == discarded.entries
    ends = [talk.last(call).get("outcome") for call in calls]
    assert ["discarded", "discarded", "discarded", None, None] == ends
    assert staging.FELL in talk.last(calls[2])["error"]
    assert {each.call_id for each in calls[:3]} == {call_id for _, ids in talk.dropped() for call_id in ids}
    (fact,) = talk.now.new_facts
    assert (True, calls[2].call_id) == ('later on "files:a" was thrown away too' in fact["text"], fact["call_id"])
    (again,) = talk.says(text="Then the rest.")
    assert [each.call_id for each in calls[3:]] == parse_arguments(again.arguments)["entries"]


def test_entries_that_rules_deny_by_now_go_alone() -> None:
    """With what stands on them; what nobody refused is proposed again, though the commit was refused as a whole."""
    talk = Talk()
    commit, calls = talk.asked_while_more_is_staged()
    talk.ends(commit, "refused", reason="By now a rule denies it.", entries=(calls[1].call_id,))
    (discarded,) = [each for each in talk.sent if isinstance(each, DiscardWorkspace)]
    assert (calls[1].call_id, [None, "discarded"]) == (
        discarded.entries[0],
        [talk.last(call).get("outcome") for call in calls[:2]],
    )
    (again,) = talk.says(text="Then the rest.")
    gone = set(discarded.entries)
    assert [each.call_id for each in calls if each.call_id not in gone] == parse_arguments(again.arguments)["entries"]


def test_what_stood_on_an_entry_that_was_left_out_goes_with_it() -> None:
    """The executor says so in the commit's result; nobody is asked about it, and the rest is proposed."""
    talk = Talk()
    commit, calls = talk.asked_while_more_is_staged()
    result = a_result((calls[0], "left_out"), (calls[1], "committed"), (calls[2], "left_out"))
    talk.ends(commit, "succeeded", data=result)
    ends = [talk.last(call).get("outcome") for call in calls]
    assert ["left_out", "committed", "left_out", None, None] == ends
    assert [("left_out", [calls[0].call_id, calls[2].call_id])] == talk.dropped()
    (again,) = talk.says(text="Then the rest.")
    assert [each.call_id for each in calls[3:]] == parse_arguments(again.arguments)["entries"]


def test_the_end_of_an_entry_waits_for_the_word_that_it_was_staged() -> None:
    """Executors end what the agent has not heard of yet: it is taken again when that has come."""
    talk = Talk()
    first, second = talk.says(PAYMENT, PAYMENT)
    talk.stages(first, key="files:a")
    fell = EntriesDiscarded(**PLACE, workspace_id="w1", call_ids=[second.call_id])
    with pytest.raises(Transient):
        talk.does("take_discarded", fell)
    talk.stages(second, key="files:a")
    talk.does("take_discarded", fell)
    assert ("discarded", [first.call_id]) == (talk.last(second)["outcome"], [each.call_id for each in talk.now.staged])
    assert [("discarded", [second.call_id])] == talk.dropped()


def test_a_question_about_what_fell_is_withdrawn_and_the_rest_is_proposed_again() -> None:
    """People are asked about nothing that is gone, and nothing else is lost with it."""
    talk = Talk()
    calls = talk.staged_calls()
    (commit,) = talk.says()
    talk.does("take_discarded", EntriesDiscarded(**PLACE, workspace_id="w1", call_ids=[calls[0].call_id]))
    (withdrawn,) = [each for each in talk.sent if isinstance(each, CallsWithdrawn)]
    assert ([commit.call_id], "cancelled") == (withdrawn.call_ids, withdrawn.kind)
    talk.ends(commit, withdrawn.kind, reason=withdrawn.reason)
    (again,) = talk.says()
    assert [calls[1].call_id] == parse_arguments(again.arguments)["entries"]
    assert not any(isinstance(each, DiscardWorkspace) for each in talk.sent)


@pytest.mark.parametrize("kind", ["superseded", "answered"])
def test_what_was_taken_back_is_proposed_again(kind: str) -> None:
    """A message of the user, or words instead of a decision, let the model go on; the turn's end asks again."""
    talk = Talk()
    calls = talk.staged_calls(1)
    (commit,) = talk.says()
    talk.ends(commit, kind, reason="Another room, please.")
    calls += talk.staged_calls(1)
    (again,) = talk.says()
    assert [each.call_id for each in calls] == parse_arguments(again.arguments)["entries"]
    assert not any(isinstance(each, DiscardWorkspace) for each in talk.sent)


def test_a_rule_may_ask_at_once() -> None:
    """With `each` the commit stands beside the step that staged something, and the model goes on with both results."""
    talk = Talk()
    before = len(talk.claims)
    (call,) = talk.staged_calls(1, "each")
    (commit,) = talk.commits()
    assert ((1, 1), before) == ((commit.step, commit.position), len(talk.claims))
    talk.ends(commit, "succeeded", data=a_result((call, "succeeded")))
    assert before + 1 == len(talk.claims)


def test_a_superseded_commit_is_not_proposed_again_before_the_model_has_answered() -> None:
    """Whoever wrote instead of deciding gets an answer first."""
    talk = Talk()
    talk.staged_calls(1, "each")
    talk.ends(talk.commits()[0], "superseded")
    assert 1 == len(talk.commits())
    talk.says()
    assert 2 == len(talk.commits())


def test_a_rule_may_wait_until_somebody_asks() -> None:
    """With `on_request` the turn ends, and the model or a person asks later."""
    talk = Talk()
    (call,) = talk.staged_calls(1, "on_request")
    assert ([], None) == (talk.says(text="Later."), talk.now.turn)
    talk.does("propose_changes", ProposeChanges(**PLACE, by="person:ada"))
    (commit,) = talk.commits()
    assert [call.call_id] == parse_arguments(commit.arguments)["entries"]
    assert ("waiting", "visitor-1") == (talk.now.turn and talk.now.turn.state, commit.requester)
    talk.ends(commit, "succeeded", data=a_result((call, "succeeded")))
    assert [] == talk.says(text="It is done.")


def test_who_asks_in_the_middle_of_a_turn_is_heard_at_its_end() -> None:
    """The model is not interrupted."""
    talk = Talk()
    talk.staged_calls(1, "on_request")
    talk.does("propose_changes", ProposeChanges(**PLACE, by="person:ada"))
    assert [] == talk.commits()
    talk.says()
    assert 1 == len(talk.commits())


def test_nothing_staged_is_nothing_to_propose() -> None:
    """A second click changes nothing."""
    talk = Talk()
    talk.says(text="Hello.")
    before = len(talk.items)
    talk.does("propose_changes", ProposeChanges(**PLACE, by="person:ada"))
    assert (before, None) == (len(talk.items), talk.now.turn)


def test_the_model_may_ask_before_its_turn_ends() -> None:
    """Its `propose_changes` becomes the house's call under its own id, and it goes on with what people decided."""
    talk = Talk()
    (call,) = talk.staged_calls(1)
    (commit,) = talk.says(PROPOSED)
    assert ("call_0", COMMIT_SPEC.name) == (talk.now.new_calls[-1]["provider_call_id"], talk.now.new_calls[-1]["tool"])
    talk.ends(commit, "succeeded", data=a_result((call, "succeeded")))
    assert [] == talk.says(text="Then I go on.")


@pytest.mark.parametrize(("calls", "open_calls"), [((PROPOSED,), 0), ((PROPOSED, PAYMENT), 1)])
def test_asking_for_nothing_or_beside_other_calls_is_refused(calls: Any, open_calls: int) -> None:
    """The results of the others are not there yet; and what is not staged nobody decides."""
    talk = Talk()
    found = talk.says(*calls)
    results = [data["kind"] for kind, data in talk.items if kind == "tool_call" and data.get("kind")]
    assert (["invalid"], open_calls, []) == (results, len(found), talk.commits())


def test_a_final_answer_waits_for_the_decision() -> None:
    """It would speak of what nobody has decided; the model gives it again when it has heard."""
    talk = Talk()
    (call,) = talk.staged_calls(1)
    (commit,) = talk.says(ENDED)
    assert (COMMIT_SPEC.name, 1) == (commit.tool, commit.position)
    talk.ends(commit, "succeeded", data=a_result((call, "succeeded")))
    assert [] == talk.says(ENDED)
    assert "finished" == talk.items[-1][1]["state"]


def test_a_label_that_a_client_chose_makes_no_attempt() -> None:
    """What a conversation stages is proposed, whatever its labels say; attempts are known by their own rows."""
    talk = Talk(job="j1", task="t1", attempt="1")
    talk.staged_calls()
    talk.says(text="Done.")
    assert 1 == len(talk.commits())


def test_what_is_staged_while_people_decide_waits_its_turn() -> None:
    """Nothing is added to what people look at: it is proposed when that has ended."""
    first = StagedEntry("a", "w1", 1, "1" * 64, "turn", "c1", "t", "pay", "m", {}, {})
    second = StagedEntry("b", "w1", 2, "2" * 64, "turn", None, "t", "pay", "m", {}, {})
    assert ([], [second]) == (due([first, second], "turn"), due([second], "turn"))


def test_one_workspace_is_proposed_at_a_time() -> None:
    """A tree is one workspace's."""
    entries = [StagedEntry(each, each, 1, "1" * 64, "turn", None, "t", "pay", "m", {}, {}) for each in ("w2", "w1")]
    assert ["w1"] == [each.workspace_id for each in due(entries, "turn")]


def test_a_person_throws_away_what_is_staged() -> None:
    """Executors and frontends hear of it, and the model with the next message; it is proposed no more."""
    talk = Talk()
    (call,) = talk.staged_calls(1, "on_request")
    talk.says(text="Later.")
    talk.does("discard_changes", DiscardChanges(**PLACE, by="person:ada", reason="Wrong week"))
    discarded = [each for each in talk.sent if isinstance(each, DiscardWorkspace)]
    assert [("w1", "person:ada", [call.call_id])] == [(each.workspace_id, each.by, each.entries) for each in discarded]
    assert "discarded" == talk.last(call)["outcome"]
    assert "person:ada threw away what you had staged" in talk.now.new_facts[0]["text"]
    talk.does("propose_changes", ProposeChanges(**PLACE, by="person:ada"))
    assert [] == talk.commits()


def test_what_expires_is_forgotten_and_said() -> None:
    """Frontends see the end of each entry, the model hears it with the next message, and nobody is asked any more."""
    talk = Talk()
    (call,) = talk.staged_calls(1, "on_request")
    talk.says(text="Later.")
    talk.does("take_expired", WorkspaceExpired(**PLACE, workspace_id="another"))
    assert "staged" == talk.last(call)["kind"]
    talk.does("take_expired", WorkspaceExpired(**PLACE, workspace_id="w1"))
    assert ("discarded", True) == (talk.last(call)["outcome"], "Nobody decided in time" in talk.last(call)["error"])
    assert "nobody decided in time" in talk.now.new_facts[0]["text"]
    assert [[call.call_id]] == [each.call_ids for each in talk.sent if isinstance(each, StagedCallsDropped)]
    talk.does("propose_changes", ProposeChanges(**PLACE, by="person:ada"))
    talk.does("take_expired", WorkspaceExpired(**PLACE, workspace_id="w1"))
    assert ([], 1) == (talk.commits(), len(talk.now.new_facts))


def test_what_expires_while_people_decide_withdraws_the_commit() -> None:
    """Whoever is faster: a commit that is decided already has its end from the executor, and there is one answer."""
    talk = Talk()
    (call,) = talk.staged_calls(1)
    (commit,) = talk.says()
    talk.does("take_expired", WorkspaceExpired(**PLACE, workspace_id="w1"))
    (withdrawn,) = [each for each in talk.sent if isinstance(each, CallsWithdrawn)]
    assert ([commit.call_id], "Nobody decided in time.") == (withdrawn.call_ids, withdrawn.reason)
    assert "staged" == talk.last(call)["kind"]


def test_throwing_away_what_people_decide_withdraws_the_commit_first() -> None:
    """Whoever is faster: a commit that is decided already runs, and says so."""
    talk = Talk()
    talk.staged_calls(1)
    (commit,) = talk.says()
    talk.does("discard_changes", DiscardChanges(**PLACE, by="person:ada"))
    withdrawn = [each for each in talk.sent if isinstance(each, CallsWithdrawn)]
    assert ([[commit.call_id]], False) == (
        [each.call_ids for each in withdrawn],
        any(isinstance(each, DiscardWorkspace) for each in talk.sent),
    )
    talk.ends(commit, "cancelled", reason="Not run.")
    assert any(isinstance(each, DiscardWorkspace) for each in talk.sent)


def test_a_stopped_turn_keeps_what_it_staged() -> None:
    """The stop is true of the turn: what waits is proposed when the next turn ends."""
    talk = Talk()
    (call,) = talk.staged_calls(1)
    (commit,) = talk.says()
    turn_id = talk.now.turn_id
    talk.does("stop", StopTurn(**PLACE, turn_id=turn_id, by="person:ada"))
    talk.ends(commit, "cancelled")
    talk.does("take_message", a_posted_message(**PLACE, message_id="m2", text="go on"), BEHAVIOUR, {})
    (again,) = talk.says()
    assert ([call.call_id], False) == (
        parse_arguments(again.arguments)["entries"],
        any(isinstance(each, DiscardWorkspace) for each in talk.sent),
    )


def test_the_end_of_a_conversation_throws_everything_away() -> None:
    """Nobody will decide there."""
    talk = Talk()
    talk.staged_calls(1, "on_request")
    talk.says(text="Later.")
    talk.does("end", ConversationEnded(**PLACE, by="person:ada"), [])
    assert (["w1"], []) == (
        [each.workspace_id for each in talk.sent if isinstance(each, DiscardWorkspace)],
        talk.now.staged,
    )


def test_what_is_staged_after_the_end_is_thrown_away_too() -> None:
    """A call that was under way when the conversation ended leaves nothing behind."""
    talk = Talk()
    (call,) = talk.says(PAYMENT)
    talk.does("end", ConversationEnded(**PLACE, by="person:ada"), [call.call_id])
    talk.stages(call)
    assert (["w1"], [], "discarded") == (
        [each.workspace_id for each in talk.sent if isinstance(each, DiscardWorkspace)],
        talk.now.staged,
        talk.last(call)["outcome"],
    )


def test_propose_changes_is_offered_where_something_can_be_staged() -> None:
    """By a tool's pack, or because something is staged; an agent without either never hears of it."""
    plain = Behaviour("", steps_max=4, final_answer=False)
    packed = Catalog([PAY.model_copy(update={"stage": "packs:files"})])
    assert [False, True, True] == [
        PROPOSE_SPEC.name in tools for tools in (offered(SHOP, plain), offered(packed, plain), with_propose(SHOP))
    ]
