"""AG-UI's runs as folds: whatever the agent's log tells, and however its pieces of text come."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.gateway.conversations.items import Item
from placet.gateway.dialects.ag_ui import AgUiState, Goal
from placet.gateway.dialects.conversation_state import Entry, fold, replay
from tests.support.ag_ui_client import Client
from tests.support.conversation_logs import Conversation, conversations


def run(conversation: Conversation, begin: int, page: Client, **more: Any) -> tuple[AgUiState, int]:
    """Have a page run behind so many entries, until the end; return the run's state, and the place after its end."""
    items = [entry for entry in conversation.entries[:begin] if isinstance(entry, Item)]
    goal = Goal("thread", "run", messages=deepcopy(page.posted()), **more)
    state, events = replay(AgUiState(goal), items)
    page.run().read(deepcopy(events))
    for at in range(begin, len(conversation.entries)):
        if state.done:
            return state, at
        entry: Entry = conversation.entries[at]
        state, events = fold(state, entry)
        page.read(deepcopy(events))
    return state, len(conversation.entries)


def runs(conversation: Conversation, begin: int, page: Client) -> None:
    """Have a page run from there to the end of the log, again and again where a run ends before."""
    while True:
        _, at = run(conversation, begin, page)
        if at == len(conversation.entries):
            return
        begin = max(at, begin + 1)


def shown(page: Client, conversation: Conversation) -> Any:
    """Return what a page shows; a text that is still being written counts only as far as it is stored.

    A text that streams stands where it began, and one that is loaded where it was stored: others may come between.
    """
    stored = {each.data["text"] for each in conversation.items if each.type == "message"}
    over = not page.writing
    kept = [
        each
        for each in page.messages
        if over or each["role"] != "assistant" or each.get("content") in stored or "toolCalls" in each
    ]
    order = [each["id"] for each in kept if each["role"] in {"user", "activity"}]
    return order, {each["id"]: json.loads(json.dumps(each, sort_keys=True)) for each in kept}


def live_after(conversation: Conversation, seq: int) -> frozenset[str]:
    """Return of which answers something goes on after an item and all that is told in the same breath."""
    return next((each for at, each in conversation.live.items() if at >= seq and each is not None), frozenset())


@given(conversations(), st.data())
def test_runs_follow_the_protocol_and_end_in_time(conversation: Conversation, data: st.DataObject) -> None:
    """Wherever it begins, a run ends when nothing goes on, and asks for exactly what waits; so does one let go."""
    begin = data.draw(st.integers(0, len(conversation.entries)))
    page = Client()
    state, _ = run(conversation, begin, page, resumes=True)
    if state.done:
        assert frozenset() == live_after(conversation, state.log.seq) if state.log.seq else True
    else:
        assert not (conversation.rests and state.log.settled)
        page.read(state.let_go())
    assert [f"{call.approval_id}.{call.card['digest']}" for call in state.log.waiting] == page.asked


@given(conversations(), st.data())
def test_a_run_that_follows_another_tells_the_rest_and_nothing_twice(
    conversation: Conversation, data: st.DataObject
) -> None:
    """Cut anywhere, the next run's snapshots and events make what a page has that read all of it at once."""
    cut = data.draw(st.integers(0, len(conversation.entries)))
    page, whole = Client(), Client()
    early = Conversation(conversation.entries[:cut], conversation.live)
    runs(early, 0, page)
    runs(conversation, cut, page)
    run(conversation, len(conversation.entries), whole)
    assert shown(whole, conversation) == shown(page, conversation)
    assert whole.state == page.state


@given(conversations())
def test_what_was_streamed_is_what_is_loaded(conversation: Conversation) -> None:
    """Items alone make the messages and the state that items and pieces of text make."""
    live, loaded = Client(), Client()
    runs(conversation, 0, live)
    run(conversation, len(conversation.entries), loaded)
    assert (shown(loaded, conversation), loaded.state) == (shown(live, conversation), live.state)
