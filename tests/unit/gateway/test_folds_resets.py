"""A model call that is repeated in the middle of its text, in every dialect's fold: no words of both attempts are one.

The agent says so by a piece without a text, because it does not know the next attempt's yet.
"""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.gateway.conversations.items import Delta, Item
from placet.gateway.dialects.ag_ui import AgUiState
from placet.gateway.dialects.ag_ui import Goal as AgUiGoal
from placet.gateway.dialects.ai_sdk import Goal as AiSdkGoal
from placet.gateway.dialects.ai_sdk import begin
from placet.gateway.dialects.completions import CompletionState
from placet.gateway.dialects.conversation_state import Entry, T, fold
from placet.gateway.dialects.openai import Goal
from placet.gateway.dialects.responses import ResponseState
from tests.support.ag_ui_client import Client
from tests.support.ai_sdk_page import Page
from tests.support.conversation_logs import AT
from tests.support.system import ROOT

#: The text is told up to where the model broke off, and the other one is no longer.
GIVEN_UP, SAID = "half of it", "Not any more."
WRITTEN = Item(1, "message", AT, {"role": "user", "message_id": "u1", "text": "Are you broken?"})
STARTED = Item(2, "turn", AT, {"state": "started", "turn_id": "t1", "message_id": "u1"})
STORED = Item(3, "message", AT, {"role": "assistant", "turn_id": "t1", "message_id": "m1", "step": 1, "text": SAID})
OVER = Item(4, "turn", AT, {"state": "finished", "turn_id": "t1", "reason": "", "open": [], "idle": True})
RESET = Delta("t1", 1, "m1", 0, "", reset=True)


def pieces(text: str, sizes: list[int]) -> list[Delta]:
    """Return a text in pieces of such sizes; the last one has the rest."""
    places = [min(sum(sizes[:at]), len(text)) for at in range(len(sizes) + 1)] + [len(text)]
    cut = [(start, text[start:end]) for start, end in pairwise(places) if start < end]
    return [Delta("t1", 1, "m1", offset, each) for offset, each in cut]


@st.composite
def repeated(draw: st.DrawFn) -> list[Entry]:
    """Draw what a client hears of an answer whose first attempt broke off; pieces may be lost, but for the reset."""
    sizes = st.lists(st.integers(1, 6), max_size=4)
    first, second = (draw(st.permutations(pieces(text, draw(sizes)))) for text in (GIVEN_UP, SAID))
    kept = [[each for each in of_one if draw(st.integers(0, 4))] for of_one in (first, second)]
    return [WRITTEN, STARTED, *kept[0], *[RESET] * draw(st.integers(1, 2)), *kept[1], STORED, OVER]


def told(state: T, entries: list[Entry]) -> tuple[T, list[dict[str, Any]]]:
    """Return the state and what was told of entries, one by one."""
    said = []
    for entry in entries:
        state, events = fold(state, entry)
        said += events
    return state, said


def are_of_one_attempt(texts: list[str]) -> bool:
    """Whether the last text is what was said and each one before it is the beginning of an attempt."""
    return texts[-1] == SAID and all(GIVEN_UP.startswith(each) or SAID.startswith(each) for each in texts)


@given(repeated())
def test_a_completion_separates_attempts_and_holds_the_last_one_where_it_is_whole(entries: list[Entry]) -> None:
    """Words that were streamed cannot be taken back; an answer that is not streamed shows nothing of them."""
    state, chunks = told(CompletionState(Goal("c", 0), "chatcmpl", "default", 0), entries)
    streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert are_of_one_attempt(streamed.split("\n\n"))
    assert (True, SAID) == (state.done, state.completion(None)["choices"][0]["message"]["content"])


@given(repeated())
def test_a_response_has_an_item_for_each_attempt_and_the_last_one_where_it_is_whole(entries: list[Entry]) -> None:
    """In a stream the one that was given up is incomplete."""
    state, events = told(ResponseState(Goal("c", 0), "resp", "default", 0), entries)
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert are_of_one_attempt([item["content"][0]["text"] for item in items])
    assert [*["incomplete"] * (len(items) - 1), "completed"] == [item["status"] for item in items]
    assert [SAID] == [item["content"][0]["text"] for item in state.whole(None)["output"]]


@given(repeated())
def test_a_response_ends_with_the_items_that_are_retrieved(entries: list[Entry]) -> None:
    """Under the ids that they have there, whatever was given up before."""
    items: list[Entry] = [WRITTEN, STARTED, STORED, OVER]
    live, retrieved = (told(ResponseState(Goal("c", 0), "resp", "default", 0), heard)[0] for heard in (entries, items))
    assert retrieved.response("completed")["output"] == live.end(None)["response"]["output"]


@given(repeated(), st.sampled_from(["6", "7"]))
def test_a_page_of_the_ai_sdk_has_a_part_for_each_attempt(entries: list[Entry], version: Any) -> None:
    """No chunk takes a part back, and none has words of both."""
    page = Page(version)
    state, chunks = told(begin(AiSdkGoal(version, message_id="u1")), entries)
    page.read(chunks)
    assert state.done
    assert are_of_one_attempt([part["text"] for part in page.shown if part["type"] == "text"])


@given(repeated())
def test_a_page_of_ag_ui_has_the_message_that_it_would_load(entries: list[Entry]) -> None:
    """A snapshot takes back what was given up, before the next attempt begins."""
    live, loaded = Client(), Client()
    items: list[Entry] = [WRITTEN, STARTED, STORED, OVER]
    for page, heard in ((live, entries), (loaded, items)):
        state, events = told(AgUiState(AgUiGoal("thread", "run", message_id="u1")), heard)
        page.run().read(json.loads(json.dumps(events)))
        assert state.done
    assert loaded.messages == live.messages


def test_a_page_of_ag_ui_shows_nothing_of_a_turn_that_failed_in_the_middle_of_its_words() -> None:
    """As when it is loaded again: what came of it is the run's error."""
    page = Client()
    failed = replace(OVER, id=3, data={**OVER.data, "state": "failed", "reason": "No model answered."})
    entries: list[Entry] = [WRITTEN, STARTED, *pieces(GIVEN_UP, []), failed]
    _, events = told(AgUiState(AgUiGoal("thread", "run", message_id="u1")), entries)
    page.run().read(json.loads(json.dumps(events)))
    assert (["u1"], "RUN_ERROR") == ([each["id"] for each in page.messages], (page.ended or {})["type"])


@given(repeated())
def test_the_example_of_an_amqp_frontend_begins_again_on_a_line_of_its_own(entries: list[Entry]) -> None:
    """And shows the stored text last."""
    example = runpy.run_path(str(ROOT / "examples" / "amqp_frontend.py"))
    screen, shown = example["Screen"]("u1"), ""
    for entry in entries:
        kind, data = ("item", entry.as_json()) if isinstance(entry, Item) else ("delta", entry.data)
        screen, new = example["fold"](screen, kind, data)
        shown += new
    lines = [line.removeprefix("(begins again) ") for line in shown.splitlines() if not line.startswith("-- ")]
    assert are_of_one_attempt(lines)


def test_a_reset_with_the_next_attempts_beginning_counts_once() -> None:
    """The wire allows a text in it: coming twice, it takes nothing back."""
    reset = replace(RESET, text="Not")
    entries: list[Entry] = [WRITTEN, STARTED, *pieces(GIVEN_UP, []), reset, reset, STORED, OVER]
    _, chunks = told(CompletionState(Goal("c", 0), "chatcmpl", "default", 0), entries)
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert [GIVEN_UP, "\n\nNot", " any more."] == texts
