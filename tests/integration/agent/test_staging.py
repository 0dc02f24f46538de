"""Staged calls on real PostgreSQL: remembered over restarts, proposed once, told to the model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet.agent.attempts import PROPOSES_NOTHING
from placet.agent.provider_messages import provider_messages
from placet.agent.rules import FINAL_ANSWER
from placet.contracts.canonical import parse_arguments
from placet.contracts.messages import (
    AttemptRequested,
    Author,
    CallsWithdrawn,
    CommitResult,
    DiscardChanges,
    DiscardWorkspace,
    EntriesDiscarded,
    EntryOutcome,
    Message,
    ProposeChanges,
    Staged,
    StopTurn,
    ToolCallFinished,
    ToolCallProposed,
    WorkspaceBase,
    WorkspaceExpired,
)
from placet.domain.house_tools import COMMIT_SPEC, PROPOSE_SPEC
from tests.builders import a_posted_message
from tests.support.agents import Agent, ScriptedModel, an_agent, finished, refused, says
from tests.support.openai_rules import openai_fault

PAY = ("pay", '{"amount": 299}')
PLACE = {"tenant": "acme", "conversation_id": "conversation-1"}


def staged(proposed: ToolCallProposed, position: int, decide: Any = "turn", *, key: str = "") -> ToolCallFinished:
    """Return the executor's word that a call is in the workspace, or a change of `key`."""
    place = Staged(
        workspace_id="w1",
        position=position,
        kind="change" if key else "call",
        digest=f"{position}" * 64,
        keys=[key] if key else [],
        summary="Pay 299",
        decide=decide,
    )
    return finished(proposed, kind="staged", data={"summary": "Pay 299"}, staged=place)


def committed(proposed: ToolCallProposed, *outcomes: tuple[ToolCallProposed, Any]) -> ToolCallFinished:
    """Return the executor's word that a commit has ended."""
    entries = [
        EntryOutcome(call_id=each.call.call_id, tool=each.call.tool, outcome=outcome) for each, outcome in outcomes
    ]
    return finished(proposed, data=CommitResult(state="committed", entries=entries).model_dump(mode="json"))


async def asked_about_the_first(agent: Agent) -> tuple[ToolCallProposed, ToolCallProposed, ToolCallProposed]:
    """Let people be asked about one of two calls, while the other is under way; return both and the commit."""
    await agent.post(a_posted_message())
    first, second = await agent.came(ToolCallProposed, 2)
    await agent.post(staged(first, 1, key="files:a"))
    await agent.post(StopTurn(**PLACE, turn_id=first.call.turn_id, by="person:ada"))
    await agent.post(ProposeChanges(**PLACE, by="person:ada"))
    _, _, commit = await agent.came(ToolCallProposed, 3)
    return first, second, commit


async def stages_one(agent: Agent) -> ToolCallProposed:
    """Let a turn end that has staged one call, which people are asked about on request; return the call."""
    await agent.post(a_posted_message())
    (payment,) = await agent.came(ToolCallProposed)
    await agent.post(staged(payment, 1, "on_request"))
    await agent.ended()
    return payment


async def test_an_attempt_that_proposes_is_told_no_and_goes_on(agent_url: str) -> None:
    """Its model calls a tool that it is not offered: the call is stored with its answer, and the attempt ends well."""
    calls = (PROPOSE_SPEC.name, "{}"), (FINAL_ANSWER.name, '{"answer": "42"}')
    async with an_agent(agent_url, ScriptedModel([says("", each) for each in calls])) as agent:
        await agent.post(
            AttemptRequested(
                **PLACE,
                message_id="m1",
                job_id="job-1",
                attempt_id="a1",
                agent="default",
                author=Author(kind="person", id="person:ada"),
                text="Do it.",
                answer_schema={"type": "object", "properties": {"answer": {"type": "string"}}},
                tokens_max=100_000,
                base=WorkspaceBase(conversation_id="conversation-2", entries=0),
            )
        )
        (end,) = await agent.ended()
        assert ("finished", {"answer": "42"}) == (end.data["state"], end.data["final_answer"])
        told = agent.rows("SELECT result ->> 'error' FROM agent.tool_calls ORDER BY step")
    assert [(PROPOSES_NOTHING.error,), (None,)] == told


async def test_a_commit_is_proposed_and_told_over_a_restart(agent_url: str) -> None:
    """Another process knows what is staged and what people are asked about; the model reads a valid history."""
    model = ScriptedModel([says("I plan.", PAY, PAY), says("That is the plan."), says("Both are done.")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message())
        first, second = await agent.came(ToolCallProposed, 2)
        assert ([], [0]) == (first.earlier, second.earlier)
        await agent.post(staged(first, 1))
    async with an_agent(agent_url, model) as agent:
        await agent.post(staged(second, 2))
        (commit,) = await agent.came(ToolCallProposed)
        assert [(2,)] == agent.rows("SELECT staged FROM agent.conversations")
    arguments = parse_arguments(commit.call.arguments)
    assert (COMMIT_SPEC.name, [first.call.call_id, second.call.call_id]) == (commit.call.tool, arguments["entries"])
    async with an_agent(agent_url, model) as agent:
        await agent.post(committed(commit, (first, "succeeded"), (second, "left_out")))
        await agent.ended()
        assert [(None, 0)] == agent.rows(
            "SELECT staged, (SELECT count(*) FROM agent.staged_entries) FROM agent.conversations"
        )
        ends = [each.data for each in agent.items("tool_call") if "outcome" in each.data]
    assert [(first.call.call_id, "succeeded"), (second.call.call_id, "left_out")] == [
        (each["call_id"], each["outcome"]) for each in ends
    ]
    asked = model.asked[-1].messages
    sent = provider_messages(asked, provider="openai", model="m")
    assert openai_fault({"model": "m", "messages": sent}) is None
    told = json.loads(asked[-1]["content"])
    assert ["succeeded", "left_out"] == [each["outcome"] for each in told["data"]["entries"]]
    assert "nothing has happened yet" in asked[3]["content"]


async def test_propose_changes_is_offered_while_something_is_staged(agent_url: str) -> None:
    """An agent whose rulebook stages a call learns of it with the first one."""
    model = ScriptedModel([says("", PAY), says("", (PROPOSE_SPEC.name, "{}")), says("Done.")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message())
        (payment,) = await agent.came(ToolCallProposed)
        await agent.post(staged(payment, 1))
        _, commit = await agent.came(ToolCallProposed, 2)
        await agent.post(committed(commit, (payment, "succeeded")))
        await agent.ended()
    offered = [PROPOSE_SPEC.name in [each["function"]["name"] for each in asked.tools] for asked in model.asked]
    assert [False, True, False] == offered


async def test_a_person_asks_for_the_decision_between_turns(agent_url: str) -> None:
    """A turn of its own without a model's step: its commit waits, and then the model speaks."""
    model = ScriptedModel([says("", PAY), says("Later."), says("It is done.")])
    async with an_agent(agent_url, model) as agent:
        payment = await stages_one(agent)
        await agent.post(ProposeChanges(**PLACE, by="person:ada"))
        _, commit = await agent.came(ToolCallProposed, 2)
        await agent.post(committed(commit, (payment, "succeeded")))
        await agent.ended(2)
    asked = model.asked[-1].messages
    sent = provider_messages(asked, provider="openai", model="m")
    assert openai_fault({"model": "m", "messages": sent}) is None
    assert "asked that people decide now" in [each["content"] for each in asked if each["role"] == "user"][-1]
    assert [] == agent.dead


async def test_a_person_throws_away_what_is_staged(agent_url: str) -> None:
    """Executors hear of it, and the model reads it before the next message."""
    model = ScriptedModel([says("", PAY), says("Later."), says("I see.")])
    async with an_agent(agent_url, model) as agent:
        await stages_one(agent)
        await agent.post(DiscardChanges(**PLACE, by="person:ada", reason="Wrong week"))
        (discarded,) = await agent.came(DiscardWorkspace)
        await agent.post(a_posted_message(text="and now?"))
        await agent.ended(2)
    assert ("w1", "person:ada") == (discarded.workspace_id, discarded.by)
    told = [str(each["content"]) for each in model.asked[-1].messages if each["role"] == "user"]
    assert (True, "and now?") == ("threw away what you had staged" in told[-2], told[-1])


async def test_what_stands_on_a_denied_change_goes_with_it_over_a_restart(agent_url: str) -> None:
    """Another process knows what each entry changes: executors hear of both, and the model reads why."""
    model = ScriptedModel([says("", PAY, PAY), says("I see."), says("Nothing waits.")])
    async with an_agent(agent_url, model) as agent:
        first, second, commit = await asked_about_the_first(agent)
        await agent.post(staged(second, 2, key="files:a"))
    async with an_agent(agent_url, model) as agent:
        await agent.post(refused(commit))
        (discarded,) = await agent.came(DiscardWorkspace)
        await agent.post(a_posted_message(text="and now?"))
        await agent.ended(2)
        ends = [each.data["call_id"] for each in agent.items("tool_call") if each.data.get("outcome") == "discarded"]
        assert [] == agent.rows("SELECT call_id FROM agent.staged_entries")
        assert [] == agent.dead
    both = [first.call.call_id, second.call.call_id]
    assert (both, both) == (discarded.entries, ends)
    told = [str(each["content"]) for each in model.asked[-1].messages if each["role"] == "user"]
    assert any('later on "files:a" was thrown away too' in each for each in told)


@pytest.mark.parametrize("end", ["fell", "committed"])
async def test_an_end_that_comes_before_the_word_that_it_was_staged_is_taken_later(agent_url: str, end: str) -> None:
    """What an executor ended meanwhile is forgotten as soon as it is known, and people are never asked about it."""
    model = ScriptedModel([says("", PAY, PAY), says("I see."), says("Nothing waits.")])
    async with an_agent(agent_url, model) as agent:
        first, second, commit = await asked_about_the_first(agent)
        early: Message = EntriesDiscarded(**PLACE, workspace_id="w1", call_ids=[second.call.call_id])
        if end == "committed":
            early = committed(commit, (first, "left_out"), (second, "left_out"))
        await agent.post(early, staged(second, 2, key="files:a"))
        await agent.until(
            lambda: any(
                each.data["call_id"] == second.call.call_id and "outcome" in each.data
                for each in agent.items("tool_call")
            )
        )
        left = agent.rows("SELECT call_id FROM agent.staged_entries")
        assert ([(first.call.call_id,)] if end == "fell" else []) == left
        assert [] == agent.dead


async def test_what_nobody_decided_in_time_is_forgotten(agent_url: str) -> None:
    """Its calls end as discarded, the model reads why before the next message, and nothing is proposed of it."""
    model = ScriptedModel([says("", PAY), says("Later."), says("I see.")])
    async with an_agent(agent_url, model) as agent:
        payment = await stages_one(agent)
        await agent.post(WorkspaceExpired(**PLACE, workspace_id="another"))
        await agent.post(WorkspaceExpired(**PLACE, workspace_id="w1"))
        await agent.came(DiscardWorkspace)
        await agent.post(ProposeChanges(**PLACE, by="person:ada"))
        await agent.post(a_posted_message(text="and now?"))
        await agent.ended(2)
        ends = [each.data for each in agent.items("tool_call") if "outcome" in each.data]
        assert [] == agent.dead
    assert [(payment.call.call_id, "discarded")] == [(each["call_id"], each["outcome"]) for each in ends]
    assert "Nobody decided in time." in ends[0]["error"]
    told = [str(each["content"]) for each in model.asked[-1].messages if each["role"] == "user"]
    assert (True, "and now?") == ("because nobody decided in time" in told[-2], told[-1])
    assert PROPOSE_SPEC.name not in [each["function"]["name"] for each in model.asked[-1].tools]


async def test_a_question_about_what_has_expired_is_withdrawn(agent_url: str) -> None:
    """The commit has one result, which ends its entries; the model reads that nobody decided in time."""
    model = ScriptedModel([says("", PAY), says("The plan."), says("I see.")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(a_posted_message())
        (payment,) = await agent.came(ToolCallProposed)
        await agent.post(staged(payment, 1))
        _, commit = await agent.came(ToolCallProposed, 2)
        await agent.post(WorkspaceExpired(**PLACE, workspace_id="w1"))
        (withdrawn,) = await agent.came(CallsWithdrawn)
        await agent.post(refused(commit, kind=withdrawn.kind, reason=withdrawn.reason))
        await agent.ended()
        ends = [each.data for each in agent.items("tool_call") if "outcome" in each.data]
    assert [commit.call.call_id] == withdrawn.call_ids
    assert [(payment.call.call_id, "discarded")] == [(each["call_id"], each["outcome"]) for each in ends]
    assert "Nobody decided in time" in str(model.asked[-1].messages[-1]["content"])


async def test_a_workspace_of_no_conversation_expires_in_silence(agent_url: str) -> None:
    """That of a job about which nobody was asked: no dead letter, and the next message is taken."""
    model = ScriptedModel([says("Hello.")])
    async with an_agent(agent_url, model) as agent:
        await agent.post(WorkspaceExpired(tenant="acme", conversation_id="of-a-job", workspace_id="w1"))
        await agent.post(a_posted_message())
        await agent.ended()
        assert [] == agent.dead
