"""One turn from a person's message to the end of the model's answer."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agent.llm import ModelUnavailable
from placet.agent.rules import NO_MODEL
from placet.contracts.messages import CallResolved, ConversationDelta, ToolCallProposed
from placet.domain.catalog import Catalog
from tests.builders import NOON, a_posted_message, an_event
from tests.support.agents import ScriptedModel, an_agent, finished, says

DONE = '{"success": true, "result": "bought", "confidence": 0.9}'


async def test_message_in_new_conversation_is_answered(agent_url: str) -> None:
    """A conversation nobody created is created by its first message, and the turn ends with the model's text."""
    model = ScriptedModel([says("Hello out there")])
    async with an_agent(agent_url, model, agent_instructions="Be kind.") as agent:
        await agent.post(a_posted_message(text="hi", message_id="m1"))
        await agent.ended()
        log = agent.log(a_posted_message().conversation_id)
    assert ["message user", "turn started", "message assistant", "turn finished"] == [
        f"{item.type} {item.what}" for item in log
    ]
    assert ["hi", None, "Hello out there", None] == [item.data.get("text") for item in log]
    assert [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}] == model.asked[0].messages
    assert "Hello out there" == "".join(delta.text for delta in agent.of(ConversationDelta))
    assert [(None, 0)] == agent.rows("SELECT turn_id, queued FROM agent.conversations")
    assert [("finished", 1)] == agent.rows("SELECT state, step FROM agent.turns")


async def test_conversation_without_tools_is_a_plain_chat(agent_url: str) -> None:
    """Where there are no tools none are offered, and a second message is asked with the whole history."""
    model = ScriptedModel([says("Hello"), says("Fine")])
    async with an_agent(agent_url, model, catalog=Catalog([]), agent_instructions="") as agent:
        await agent.post(a_posted_message(text="hi"))
        await agent.ended(1)
        await agent.post(a_posted_message(text="how are you?"))
        await agent.ended(2)
    assert [[], []] == [asked.tools for asked in model.asked]
    assert ["hi", "Hello", "how are you?"] == [message["content"] for message in model.asked[1].messages]
    assert [] == agent.of(ToolCallProposed)


async def test_everything_that_follows_is_in_the_thread_of_the_message(agent_url: str) -> None:
    """Correlation and trace of the user's message stand on all that it caused, also on transient pieces."""
    cause = an_event(a_posted_message())
    async with an_agent(agent_url, ScriptedModel([says("Hm", ("search", '{"text": "a"}'))])) as agent:
        await agent.post_events(cause)
        await agent.came(ToolCallProposed)
    assert {cause.correlation_id} == {event.correlation_id for event in agent.seen}
    assert {cause.id} == {event.causation_id for event in agent.seen}
    assert {cause.traceparent[3:35]} == {event.traceparent[3:35] for event in agent.seen}


async def test_same_message_again_has_no_effect(agent_url: str) -> None:
    """A message id that was seen before is the same message, whether the conversation idles or not."""
    message = a_posted_message(message_id="m1")
    model = ScriptedModel([says("Hello"), says("", ("search", '{"text": "a"}'))])
    async with an_agent(agent_url, model) as agent:
        await agent.post(message)
        await agent.ended()
        await agent.post(message)
        assert [(None, 0)] == agent.rows("SELECT turn_id, queued FROM agent.conversations")
        await agent.post(a_posted_message(message_id="m2"))
        await agent.came(ToolCallProposed)
        await agent.post(message)
        assert [(0,)] == agent.rows("SELECT queued FROM agent.conversations WHERE turn_id IS NOT NULL")
    assert [] == agent.dead
    assert 2 == len(model.asked)
    assert [("m1",), ("m2",)] == agent.rows("SELECT message_id FROM agent.messages ORDER BY number")


async def test_used_message_id_with_another_text_is_buried(agent_url: str) -> None:
    """A text must not vanish because its sender repeats an id."""
    async with an_agent(agent_url, ScriptedModel([says("Hello")])) as agent:
        await agent.post(a_posted_message(message_id="m1", text="one"))
        await agent.ended()
        await agent.post(a_posted_message(message_id="m1", text="two"))
    assert ["poison: message id m1 was used before for another text"] == agent.dead


async def test_message_of_another_tenant_is_buried(agent_url: str) -> None:
    """A conversation belongs to the tenant of its first message; nothing of another one gets in."""
    async with an_agent(agent_url, ScriptedModel([says("Hello")])) as agent:
        await agent.post(a_posted_message(tenant="acme"))
        await agent.ended()
        await agent.post(a_posted_message(tenant="evil"))
    assert ["poison: conversation conversation-1 belongs to another tenant than evil"] == agent.dead
    assert [("acme",)] == agent.rows("SELECT DISTINCT tenant FROM agent.messages")


async def test_first_message_decides_agent_language_and_labels(agent_url: str) -> None:
    """Rules and cards go by what the first message said, whatever later ones say."""
    call = ("search", '{"text": "a"}')
    async with an_agent(agent_url, ScriptedModel([says("Hello"), says("", call)])) as agent:
        await agent.post(a_posted_message(agent="shop", language="tr", labels={"channel": "web"}))
        await agent.ended()
        await agent.post(a_posted_message(agent="other", language="de", labels={}, message_id="m2"))
        (proposed,) = await agent.came(ToolCallProposed)
    call_ = proposed.call
    assert ("shop", "tr", {"channel": "web"}) == (call_.agent, call_.language, call_.labels)
    assert ("m2", "visitor-1") == (call_.message_id, call_.requester)


@pytest.mark.parametrize("failure", [ModelUnavailable("m", 3, "RateLimitError (429)"), KeyError("a bug")])
async def test_turn_without_a_model_fails_and_the_next_message_works(agent_url: str, failure: Exception) -> None:
    """A person gets one neutral sentence, and the conversation idles with a transcript that goes on."""
    model = ScriptedModel([failure, says("Hello again")])
    async with an_agent(agent_url, model, agent_instructions="") as agent:
        await agent.post(a_posted_message(text="hi"))
        (end,) = await agent.ended(1)
        await agent.post(a_posted_message(text="still there?"))
        await agent.ended(2)
    assert {"state": "failed", "reason": NO_MODEL} == end.end
    assert ["hi", "still there?"] == [message["content"] for message in model.asked[1].messages]
    assert [("failed", 0), ("finished", 0)] == agent.rows(
        "SELECT state, takeovers FROM agent.turns ORDER BY started_at"
    )


async def test_wrong_calls_are_answered_at_once_and_the_model_is_asked_again(agent_url: str) -> None:
    """Garbage arguments and unknown tools get their results in their order; nobody else hears of them."""
    model = ScriptedModel([says("Hm", ("search", '{"text": '), ("rm", "{}"), ("pay", "{}")), says("Sorry")])
    async with an_agent(agent_url, model, agent_instructions="") as agent:
        await agent.post(a_posted_message())
        await agent.ended()
    answered = [event.data for event in agent.items("tool_call", "success", "error")]
    assert [("search", "invalid"), ("rm", "invalid"), ("pay", "invalid")] == [(p["tool"], p["kind"]) for p in answered]
    assert "'amount'" in answered[2]["error"]
    assert ["user", "assistant", "tool", "tool", "tool"] == [message["role"] for message in model.asked[1].messages]
    assert [] == agent.of(ToolCallProposed)
    assert [("invalid", '{"text": ')] == agent.rows(
        "SELECT result_kind, arguments FROM agent.tool_calls WHERE tool = 'search'"
    )


async def test_turn_ends_after_its_last_step(agent_url: str) -> None:
    """The last step is asked without the right to call; a model that calls all the same ends the turn as failed."""
    model = ScriptedModel([says("", ("rm", "{}")), says("", ("search", '{"text": "a"}'))])
    async with an_agent(agent_url, model, agent_max_steps=2) as agent:
        await agent.post(a_posted_message())
        (end,) = await agent.ended()
    assert ["auto", "none"] == [asked.tool_choice for asked in model.asked]
    assert "failed" == end.data["state"]
    assert "stopped after 2 steps" in end.data["reason"]
    assert "all its 2 steps" in agent.items("tool_call", "success", "error")[1].data["error"]
    assert [] == agent.of(ToolCallProposed)


async def test_final_answer_ends_the_turn_with_its_payload(agent_url: str) -> None:
    """The tool is offered where the setting says so; its arguments are the turn's result."""
    model = ScriptedModel([says("Done", ("final_answer", DONE)), says("Bye")])
    async with an_agent(agent_url, model, agent_final_answer=True) as agent:
        await agent.post(a_posted_message())
        (end,) = await agent.ended(1)
        await agent.post(a_posted_message())
        await agent.ended(2)
    assert ["search", "pay", "final_answer"] == [tool["function"]["name"] for tool in model.asked[0].tools]
    answer = {"success": True, "result": "bought", "confidence": 0.9}
    assert {"state": "finished", "reason": "", "final_answer": answer} == end.end
    assert '{"result": "succeeded", "data": "accepted"}' == model.asked[1].messages[-2]["content"]
    assert [(answer,), (None,)] == agent.rows("SELECT final_answer FROM agent.turns ORDER BY started_at")


async def test_text_with_a_character_that_cannot_be_stored_is_no_stumbling_block(agent_url: str) -> None:
    """NUL and lone surrogates are replaced, from people and from models alike."""
    async with an_agent(
        agent_url, ScriptedModel([says("a\x00b\ud800", ("s\x00", "\x00"), ids=["\x00"]), says()])
    ) as agent:
        await agent.post(a_posted_message(text="hi\x00"))
        (end,) = await agent.ended()
    assert "finished" == end.data["state"]
    assert "a\ufffdb\ufffd" == agent.items("message", "assistant")[0].data["text"]
    assert [("hi\ufffd",)] == agent.rows("SELECT text FROM agent.messages")


async def test_every_move_is_in_the_history(agent_url: str) -> None:
    """Each change of a turn and of a call says from where to where, and belongs to its message."""
    event = an_event(a_posted_message())
    async with an_agent(agent_url, ScriptedModel([says("", ("rm", "{}")), says("Hello")])) as agent:
        await agent.post_events(event)
        await agent.ended()
    assert [
        ("turn", "started", None, "thinking", event.id),
        ("turn", "calls_settled", "thinking", "thinking", event.id),
        ("tool_call", "proposed", None, "answered", event.id),
        ("turn", "answered", "thinking", "finished", event.id),
    ] == agent.rows("SELECT machine, event, from_state, to_state, message_id FROM agent.history ORDER BY id")


def a_resolution(proposed: ToolCallProposed, **changes: Any) -> CallResolved:
    """Return what a person found out about a call."""
    fields = {"outcome": "ran", "note": "The link is there.", "by": "person:ada", "resolved_at": NOON} | changes
    names = {"tenant": proposed.tenant, "call_id": proposed.call.call_id, "tool": proposed.call.tool}
    return CallResolved.model_validate({**names, "conversation_id": proposed.call.conversation_id, **fields})


async def test_what_a_person_found_out_is_read_with_the_next_message(agent_url: str) -> None:
    """It begins no turn and changes no result; twice is once, and it is read again with every later message."""
    calls = ("", ("pay", '{"amount": 299}'))
    model = ScriptedModel([says(*calls), says("Nobody knows."), says("Good."), says("Yes.")])
    async with an_agent(agent_url, model, agent_instructions="") as agent:
        await agent.post(a_posted_message(text="pay"))
        (proposed,) = await agent.came(ToolCallProposed)
        await agent.post(finished(proposed, kind="unknown", data=None, error="Lost."))
        await agent.ended(1)
        await agent.post(a_resolution(proposed))
        await agent.post(a_resolution(proposed, outcome="did_not_run"))
        assert 2 == len(model.asked)
        await agent.post(a_posted_message(text="and?"))
        await agent.ended(2)
        await agent.post(a_posted_message(text="sure?"))
        await agent.ended(3)
        assert [("unknown",)] == agent.rows("SELECT result_kind FROM agent.tool_calls")
    news, asked = [message["content"] for message in model.asked[2].messages[-2:]]
    assert "it did run" in news
    assert "The link is there." in news
    assert "and?" == asked
    assert model.asked[2].messages == model.asked[3].messages[: len(model.asked[2].messages)]


async def test_news_of_a_call_that_was_never_proposed_there_is_buried(agent_url: str) -> None:
    """Nobody puts words into another conversation."""
    async with an_agent(agent_url, ScriptedModel([says("", ("pay", '{"amount": 299}'))])) as agent:
        await agent.post(a_posted_message())
        (proposed,) = await agent.came(ToolCallProposed)
        await agent.post(a_resolution(proposed, conversation_id="other"))
        assert [(0,)] == agent.rows("SELECT count(*) FROM agent.facts")
        assert 1 == len(agent.dead)
