"""Responses and Chat Completions as folds: whatever the agent's log tells, and however its pieces of text come."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.gateway.conversations.items import Item
from placet.gateway.dialects.completions import CompletionState
from placet.gateway.dialects.conversation_state import T, fold, replay
from placet.gateway.dialects.openai import Goal
from placet.gateway.dialects.responses import ResponseState
from tests.support.conversation_logs import Conversation, conversations


def asked(conversation: Conversation, begin: int, state: T) -> tuple[T, list[dict[str, Any]]]:
    """Have a client ask behind so many entries, and listen to the end; return the state, and what it was told."""
    items = [entry for entry in conversation.entries[:begin] if isinstance(entry, Item)]
    state, told = replay(state, items)
    for entry in conversation.entries[begin:]:
        if state.done:
            break
        state, events = fold(state, entry)
        told += events
    return state, told


def goal_of(conversation: Conversation, begin: int, told: int) -> Goal:
    """Return what a client wants that asks behind so many entries and knows the first items."""
    newest = max((entry.id for entry in conversation.entries[:begin] if isinstance(entry, Item)), default=0)
    return Goal("c", min(told, newest), newest)


def a_response(goal: Goal) -> ResponseState:
    """Return a response that has told nothing."""
    return ResponseState(goal, "resp", "default", 0, inbox="")


def a_completion(goal: Goal) -> CompletionState:
    """Return a completion that has told nothing."""
    return CompletionState(goal, "chatcmpl", "default", 0)


def assembled(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the output that the SDK makes of events; one out of order is an AssertionError."""
    output: list[dict[str, Any]] = []
    closed: set[int] = set()
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        at = event.get("output_index", -1)
        assert at not in closed
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert at == len(output)
                output.append({**event["item"], "content": list(event["item"].get("content", ()))})
            case "content_part.added":
                output[at]["content"].append(dict(event["part"]))
            case "output_text.delta":
                output[at]["content"][event["content_index"]]["text"] += event["delta"]
            case "output_text.done":
                assert event["text"] == output[at]["content"][0]["text"]
            case "output_item.done":
                if event["item"]["type"] == "message":
                    assert event["item"]["content"] == output[at]["content"]
                output[at] = event["item"]
                closed.add(at)
    return output


def kept(output: list[dict[str, Any]], conversation: Conversation) -> list[dict[str, Any]]:
    """Return output items but for texts that the model gave up."""
    stored = {each.data["text"] for each in conversation.items if each.type in {"message", "holder"}}
    return [item for item in output if item["type"] != "message" or item["content"][0]["text"] in stored]


@given(conversations(), st.data())
def test_a_response_is_in_order_and_ends_in_time(conversation: Conversation, data: st.DataObject) -> None:
    """Its numbers have no gap, its items close one by one, and it ends when nothing goes on."""
    begin = data.draw(st.integers(0, len(conversation.entries)))
    state, events = asked(conversation, begin, a_response(goal_of(conversation, begin, data.draw(st.integers(0, 20)))))
    output = assembled(events)
    if state.done and state.log.seq:
        # A call that runs on behind its turn keeps nothing.
        sealed = next((seq for seq, live in conversation.live.items() if seq >= state.log.seq and live is not None), 0)
        assert sealed not in conversation.turning
        assert output == state.response("completed")["output"]
    elif not state.done:
        assert not conversation.rests


@given(conversations(), st.data())
def test_a_response_is_retrieved_as_it_was_streamed(conversation: Conversation, data: st.DataObject) -> None:
    """The same items in the same order, whether pieces of text came or only what was stored."""
    at = data.draw(st.integers(0, len(conversation.entries)))
    told = goal_of(conversation, at, 10**9).told
    streamed, _ = asked(conversation, at, a_response(Goal("c", told, newest=10**9)))
    items = Conversation(list(conversation.items), conversation.live)
    loaded, _ = asked(items, 0, a_response(Goal("c", told, newest=10**9)))
    assert kept(loaded.output, conversation) == kept(streamed.output, conversation)


@given(conversations(), st.data())
def test_responses_that_follow_one_another_tell_everything_once(
    conversation: Conversation, data: st.DataObject
) -> None:
    """Each begins where the one before ended, wherever a client asks again."""
    whole, _ = asked(conversation, 0, a_response(Goal("c", 0, newest=10**9)))
    output: list[dict[str, Any]] = []
    told = place = 0
    while place < len(conversation.entries):
        goal = goal_of(conversation, place, told)
        state, _ = asked(conversation, place, a_response(goal))
        if not state.done:
            output += state.output
            break
        output += [item for item in state.output if not item["id"].startswith("msg_c.holder")]
        told = state.log.seq
        after = (at for at, entry in enumerate(conversation.entries) if isinstance(entry, Item) and entry.id > told)
        place = data.draw(st.integers(next(after, len(conversation.entries) - 1) + 1, len(conversation.entries)))
    else:
        state, _ = asked(conversation, place, a_response(goal_of(conversation, place, told)))
        output += [item for item in state.output if not item["id"].startswith("msg_c.holder")]
    names = [item["id"] for item in kept(output, conversation)]
    # A request is repeated to a client that wrote past it.
    names = [name for at, name in enumerate(names) if not (name.startswith("mcpr_") and name in names[:at])]
    assert [item["id"] for item in kept(whole.output, conversation)] == names


@given(conversations(), st.data())
def test_a_completion_has_every_word_once(conversation: Conversation, data: st.DataObject) -> None:
    """Its chunks are its text, which has what the model stored since, and ends when nothing goes on."""
    begin = data.draw(st.integers(0, len(conversation.entries)))
    goal = goal_of(conversation, begin, data.draw(st.integers(0, 20)))
    state, chunks = asked(conversation, begin, a_completion(goal))
    assert state.text == "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    said = [
        item.data["text"]
        for item in conversation.items
        if goal.told < item.id <= state.log.seq and item.type == "message" and item.data["role"] == "assistant"
        if item.data["text"] and not item.data.get("while_waiting")
    ]
    assert [1] * len(said) == [state.text.count(text) for text in said]
    if not state.done:
        assert not conversation.rests
