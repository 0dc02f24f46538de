"""Strict assembly: what may become of stream deltas, and what must not."""

from collections.abc import Iterable
from typing import Any

import pytest

from placet.agent.model_answer import (
    ANSWER_MAX,
    Draft,
    ModelAnswer,
    ModelAnswerCut,
    StreamCut,
    UnusableAnswer,
    finished,
)


def piece(index: int | None = 0, call_id: str | None = None, name: str | None = None, text: str = "") -> dict[str, Any]:
    """Build one tool-call fragment as OpenAI streams it; what is None is left out."""
    function = {"arguments": text, **({"name": name} if name is not None else {})}
    head = {"index": index, **({"id": call_id} if call_id is not None else {})}
    return {"tool_calls": [{**head, "function": function}]}


def assembled(deltas: Iterable[dict[str, Any]], finish: str | None = "tool_calls", **options: Any) -> ModelAnswer:
    """Feed deltas to a draft and finish it; made-up ids are made-1, made-2 ..."""
    made = iter(range(1, 100))
    draft = Draft(finish_reason=finish)
    for delta in deltas:
        draft.take(delta)
    return finished(draft, model="openai/x", new_id=lambda: f"made-{next(made)}", **options)


def proposed(answer: ModelAnswer) -> list[tuple[str, str, str]]:
    """Write the calls of an answer as plain tuples."""
    return [(call.provider_call_id, call.name, call.arguments_text) for call in answer.calls]


def test_fragments_of_one_call_are_joined_in_order() -> None:
    """The argument text is what the model wrote, byte for byte."""
    answer = assembled([piece(0, "a", "find"), piece(0, text='{"q": '), piece(0, text='"ü"}')])

    assert [("a", "find", '{"q": "ü"}')] == proposed(answer)


def test_interleaved_calls_are_told_apart_by_index() -> None:
    """Fragments of several calls may come in turns."""
    deltas = [piece(0, "a", "f"), piece(1, "b", "g"), piece(0, text="{}"), piece(1, text="[1"), piece(1, text="]")]

    assert [("a", "f", "{}"), ("b", "g", "[1]")] == proposed(assembled(deltas))


def test_new_id_at_the_same_index_begins_a_new_call() -> None:
    """Two calls sent with one index are two calls, not one with both texts."""
    deltas = [piece(0, "a", "f"), piece(0, text="1"), piece(0, "b", "f"), piece(0, text="2")]

    assert [("a", "f", "1"), ("b", "f", "2")] == proposed(assembled(deltas))


def test_same_id_on_every_fragment_is_one_call() -> None:
    """Some providers repeat id and name with each fragment."""
    deltas = [piece(0, "a", "f", "{"), piece(0, "a", "f", "}")]

    assert [("a", "f", "{}")] == proposed(assembled(deltas))


def test_two_interleaved_ids_at_one_index_stay_apart() -> None:
    """A known id finds its call again, also after another one began."""
    deltas = [piece(0, "a", "f", "1"), piece(0, "b", "g", "2"), piece(0, "a", text="3")]

    assert [("a", "f", "13"), ("b", "g", "2")] == proposed(assembled(deltas))


def test_another_name_without_ids_begins_a_new_call() -> None:
    """Without ids the name is what tells two calls at one index apart."""
    deltas = [piece(0, name="f"), piece(0, text="{}"), piece(0, name="g"), piece(0, text="[]")]

    assert [("made-1", "f", "{}"), ("made-2", "g", "[]")] == proposed(assembled(deltas))


@pytest.mark.parametrize("missing", [None, ""])
def test_missing_id_is_made_up(missing: str | None) -> None:
    """A call without an id is a call; its result needs an id to belong to."""
    answer = assembled([piece(0, missing, "f", "{}"), piece(1, missing, "f", "{}")])

    assert ["made-1", "made-2"] == [call.provider_call_id for call in answer.calls]
    assert ["made-1", "made-2"] == [call["id"] for call in answer.raw["tool_calls"]]


def test_id_that_comes_late_belongs_to_the_call_already_begun() -> None:
    """An id in a later fragment names the call, it does not begin another one."""
    assert [("a", "f", "12")] == proposed(assembled([piece(0, None, "f", "1"), piece(0, "a", text="2")]))


def test_missing_index_continues_the_latest_call() -> None:
    """A provider without indexes still says where a call begins: by its id."""
    deltas = [piece(None, "a", "f"), piece(None, text="1"), piece(None, "b", "g"), piece(None, text="2")]

    assert [("a", "f", "1"), ("b", "g", "2")] == proposed(assembled(deltas))


def test_repeated_ids_become_unique_in_calls_and_raw_alike() -> None:
    """Each result has exactly one call to belong to."""
    answer = assembled([piece(0, "a", "f"), piece(1, "a", "g"), piece(2, "a", "h")])

    assert ["a", "a-2", "a-3"] == [call.provider_call_id for call in answer.calls]
    assert ["a", "a-2", "a-3"] == [call["id"] for call in answer.raw["tool_calls"]]


def test_id_used_earlier_in_the_transcript_is_not_used_again() -> None:
    """Anthropic wants ids unique over the whole transcript; some providers always say call_0."""
    answer = assembled([piece(0, "call_0", "f")], ids_taken={"call_0", "call_0-2"})

    assert ["call_0-3"] == [call.provider_call_id for call in answer.calls]


def test_signature_in_an_id_survives_the_numbering() -> None:
    """A Gemini id ends with a signature that its author checks."""
    answer = assembled([piece(0, "c__thought__sig==", "f"), piece(1, "c__thought__sig==", "f")])

    assert "c-2__thought__sig==" == answer.calls[1].provider_call_id


def test_call_without_argument_text_stays_the_empty_string() -> None:
    """Nothing written is not an empty object: it must fail validation, not run with defaults."""
    answer = assembled([piece(0, "a", "delete_all")])

    assert [("a", "delete_all", "")] == proposed(answer)
    assert "" == answer.raw["tool_calls"][0]["function"]["arguments"]


def test_anthropic_call_without_deltas_means_the_empty_object() -> None:
    """In a whole answer Anthropic's documentation defines no delta as {}."""
    answer = assembled([piece(0, "a", "now")], empty_arguments="{}")

    assert [("a", "now", "{}")] == proposed(answer)


def test_garbage_arguments_pass_untouched() -> None:
    """Whether the text is valid is decided later, by somebody who can answer the model."""
    assert '{"q": oops' == assembled([piece(0, "a", "f", '{"q": oops')]).calls[0].arguments_text


def test_stream_without_finish_reason_is_cut() -> None:
    """A dropped connection looks like an end to most readers."""
    with pytest.raises(StreamCut):
        assembled([piece(0, "a", "delete_all")], finish=None, empty_arguments="{}")


def test_length_limit_makes_the_answer_unusable() -> None:
    """A call that ran into the limit may be half of what the model meant."""
    with pytest.raises(ModelAnswerCut):
        assembled([piece(0, "a", "f", "{}")], finish="length")


def test_content_filter_with_calls_makes_the_answer_unusable() -> None:
    """A filter that stopped the model may have stopped it inside a call."""
    with pytest.raises(ModelAnswerCut):
        assembled([piece(0, "a", "f", "{}")], finish="content_filter")


def test_content_filter_without_any_text_makes_the_answer_unusable() -> None:
    """Nobody is shown an empty answer as if the model had nothing to say."""
    with pytest.raises(ModelAnswerCut):
        assembled([{"content": ""}], finish="content_filter")


def test_a_refusal_is_read_like_any_other_text() -> None:
    """OpenAI's models put it beside the content."""
    streamed = assembled([{"refusal": "I can"}, {"refusal": "not."}], finish="stop")
    whole = assembled([{"provider_specific_fields": {"refusal": "I cannot."}}], finish="stop")
    assert ("I cannot.", "I cannot.", "I cannot.") == (streamed.text, streamed.raw["content"], whole.text)


def test_content_filter_with_text_alone_is_an_answer() -> None:
    """A refusal in words is for the person to read."""
    assert "I must not." == assembled([{"content": "I must not."}], finish="content_filter").text


@pytest.mark.parametrize("finish", ["tool_calls", "function_call"])
def test_announced_calls_that_never_came_make_the_answer_unusable(finish: str) -> None:
    """Showing only the text would hide that the model wanted to act."""
    with pytest.raises(UnusableAnswer):
        assembled([{"content": "One moment."}], finish=finish)


def test_calls_count_even_when_the_finish_reason_is_stop() -> None:
    """Some providers say stop although calls are present."""
    assert [("a", "f", "{}")] == proposed(assembled([piece(0, "a", "f", "{}")], finish="stop"))


def test_calls_of_a_model_without_tools_make_the_answer_unusable() -> None:
    """A history with them would be refused by providers: no tools go with it."""
    with pytest.raises(UnusableAnswer):
        assembled([piece(0, "a", "f", "{}")], calls_allowed=False)


def test_text_is_joined_and_each_delta_answers_with_its_part() -> None:
    """What goes to the reader piece by piece is what the answer holds in the end."""
    draft = Draft(finish_reason="stop")

    parts = [draft.take(delta) for delta in ({"role": "assistant"}, {"content": "Hel"}, {"content": "lo"})]

    assert ["", "Hel", "lo"] == parts
    assert "Hello" == finished(draft, model="m").text


def test_raw_message_of_plain_text_has_no_calls() -> None:
    """An empty list of calls is refused by OpenAI."""
    answer = assembled([{"content": "Hi"}], finish="stop")

    assert {"role": "assistant", "content": "Hi", "origin": "openai/x"} == answer.raw


def test_thinking_is_kept_whole_and_signed_only() -> None:
    """The signed block carries the whole thought; its unsigned pieces are gone, redacted ones stay."""
    signed = {"type": "thinking", "thinking": "hm so", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    blocks = [{"type": "thinking", "thinking": "hm "}, {"type": "thinking", "thinking": "so"}, signed, redacted]

    answer = assembled([*({"thinking_blocks": [block]} for block in blocks), piece(0, "a", "f", "{}")])

    assert [signed, redacted] == answer.raw["thinking_blocks"]


def test_whole_message_ignores_the_index_of_its_calls() -> None:
    """Anthropic's calls carry the index of a content block, which may even repeat."""
    calls = [{"id": i, "index": 2, "function": {"name": "f", "arguments": i}} for i in ("a", "b")]
    draft = Draft(finish_reason="tool_calls")

    draft.take_message({"content": None, "tool_calls": calls})

    assert [("a", "f", "a"), ("b", "f", "b")] == proposed(finished(draft, model="m"))


def test_free_text_call_is_read_like_any_other() -> None:
    """OpenAI's custom calls have no `function`; their text fails validation later."""
    draft = Draft(finish_reason="tool_calls")

    draft.take_message({"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "do it"}}]})

    assert [("a", "f", "do it")] == proposed(finished(draft, model="m"))


@pytest.mark.parametrize(
    "piece",
    [
        {"content": "x" * 1_000},
        {"reasoning_content": "x" * 1_000},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "pay", "arguments": "x" * 1_000}}]},
    ],
)
def test_an_answer_without_end_is_ended(piece: dict[str, Any]) -> None:
    """While it streams: it is never held whole, and is worth nothing."""
    draft = Draft()
    for _ in range(ANSWER_MAX // 1_000):
        draft.take(piece)
    with pytest.raises(ModelAnswerCut, match="the answer has more than 2,000,000 characters"):
        draft.take(piece)
