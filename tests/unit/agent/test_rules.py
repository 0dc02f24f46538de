"""What the agent makes of a model's answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agent.rules import (
    FINAL_ANSWER,
    Behaviour,
    Claim,
    Queued,
    Settlement,
    leading_run,
    offered,
    settle,
    storable,
)
from placet.agent.states import MACHINE, Event, State
from placet.contracts.canonical import call_digest
from placet.contracts.messages.tool_calls import CALLS_PER_STEP_MAX, Category
from placet.domain.catalog import Catalog, ToolSpec
from tests.support.agents import PAY, SEARCH, SHOP, says

CHAT = Behaviour(instructions="", steps_max=10, final_answer=False)
JOB = Behaviour(instructions="", steps_max=10, final_answer=True)
ADA = {"kind": "visitor", "id": "ada"}
BOB = {"kind": "person", "id": "bob"}
DONE = '{"success": true, "result": "bought", "confidence": 0.9}'


def a_claim(**changes: Any) -> Claim:
    """Return the claim of the first step of a turn."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "agent": "assistant",
        "conversation_id": "conversation-1",
        "turn_id": "turn-1",
        "step": 1,
        "fence": 1,
        "message_id": "message-1",
        "author": ADA,
        "cause": {},
    }
    return Claim(**(fields | changes))


def judged(*calls: tuple[str, str], behaviour: Behaviour = CHAT, **changes: Any) -> Settlement:
    """Return what an answer with `calls` means."""
    interrupted = changes.pop("interrupted", None)
    tools = offered(SHOP, behaviour)
    return settle(says("", *calls), a_claim(**changes), tools, behaviour, interrupted=interrupted)


def errors(settlement: Settlement) -> list[str]:
    """Return the error of each call, empty for those that have none."""
    return [call.result.error if call.result else "" for call in settlement.calls]


def test_answer_without_calls_ends_the_turn() -> None:
    """Text alone is the answer."""
    assert Settlement(Event.ANSWERED) == judged()


def test_sound_call_is_proposed_in_canonical_form() -> None:
    """A call that fits its schema is open, and its digest binds the canonical text of its arguments."""
    settlement = judged(("search", '{"text": "shoes", "max_price": 5e2}'))
    (call,) = settlement.calls
    assert (Event.CALLS_PROPOSED, 1) == (settlement.event, settlement.open_calls)
    assert State.WAITING is MACHINE.next_state(State.THINKING, settlement.event)
    assert '{"max_price":500,"text":"shoes"}' == call.arguments
    expected = call_digest(
        tenant="acme",
        conversation_id="conversation-1",
        tool="search",
        schema_digest=SEARCH.schema_digest,
        arguments=call.arguments,
    )
    assert (expected, SEARCH.schema_digest, None) == (call.digest, call.schema_digest, call.result)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "cannot be read"),
        ('{"text": "sho', "cannot be read"),
        ('["shoes"]', "must be a JSON object"),
        ('{"text": "a", "text": "b"}', "duplicate key 'text'"),
        ('{"text": "a", "max_price": NaN}', "NaN"),
        ('{"text": "a", "max_price": 9007199254740993}', "cannot be read"),
        ('{"text": "\\ud800"}', "cannot be read"),
        ("{}", "'text'"),
        ('{"text": 5}', "/text: "),
        ('{"text": "a", "colour": "red"}', "'colour'"),
    ],
)
def test_wrong_arguments_are_answered_at_once(arguments: str, told: str) -> None:
    """Arguments that cannot be read, or do not fit the schema, get a clear error and bother nobody."""
    settlement = judged(("search", arguments))
    (call,) = settlement.calls
    assert call.result is not None
    assert ("invalid", "", Event.CALLS_SETTLED) == (call.result.kind, call.digest, settlement.event)
    assert told in call.result.error


@pytest.mark.parametrize(
    ("tool", "arguments", "shown"),
    [
        ("login", '{"user": "ada", "pin": "4929"}', '{"pin":"•••","user":"ada"}'),
        ("login", '{"user": "ada", "pin": 4929}', ""),
        ("login", '{"user": "ada", "pin": "49', ""),
        ("log_in", '{"pin": "4929"}', ""),
        ("search", '{"text": "shoes"}', '{"text":"shoes"}'),
        ("search", '{"text": ', '{"text": '),
    ],
)
def test_what_people_may_see_of_a_call(tool: str, arguments: str, shown: str) -> None:
    """Redacted values are masked; of a wrong call nothing is shown where it could hold one."""
    pin = {"type": "string"}
    parameters = {"type": "object", "properties": {"user": pin, "pin": pin}, "required": ["user", "pin"]}
    login = ToolSpec(
        name="login", description="Log in.", parameters=parameters, category=Category.UNSAFE_API, redact=["/pin"]
    )
    (call,) = settle(says("", (tool, arguments)), a_claim(), Catalog([*SHOP.values(), login]), CHAT).calls
    assert (shown, False) == (call.shown_arguments, "4929" in str(call.result))


def test_a_number_that_cannot_be_read_is_not_quoted() -> None:
    """A card number beyond 2^53 stays out of the error that people see."""
    (error,) = errors(judged(("search", '{"text": "a", "max_price": 4929123412341234567}')))
    assert "the arguments cannot be read: an integer is beyond 2^53" == error


def test_unknown_tool_is_answered_with_the_known_ones() -> None:
    """The model learns which tools there are."""
    assert ["there is no tool 'delete_all'; the tools are: search, pay"] == errors(judged(("delete_all", "{}")))


def test_huge_garbage_is_kept_in_part() -> None:
    """Names and arguments of any length, with any characters, become something that can be stored."""
    (call,) = judged(("x" * 1000, "\x00\ud800" * 100_000)).calls
    assert (64, 65_536, "\ufffd") == (len(call.tool), len(call.arguments), call.arguments[0])
    assert call.arguments.encode()


def test_calls_keep_their_order_and_their_ids() -> None:
    """Sound and wrong calls stand in the model's order; a repeated step has the same call ids."""
    calls = (("pay", '{"amount": 1}'), ("nope", "{}"), ("search", '{"text": "a"}'))
    first, again = judged(*calls), judged(*calls)
    assert [0, 1, 2] == [call.position for call in first.calls]
    assert ["pay", "nope", "search"] == [call.tool for call in first.calls]
    assert [call.call_id for call in again.calls] == [call.call_id for call in first.calls]
    assert 3 == len({call.call_id for call in first.calls})
    assert 2 == first.open_calls


def test_call_ids_differ_from_step_to_step() -> None:
    """The same call in the next step is another call."""
    call = ("search", '{"text": "a"}')
    assert judged(call, step=1).calls[0].call_id != judged(call, step=2).calls[0].call_id


def test_flood_of_calls_is_cut() -> None:
    """Calls beyond the limit of one message are answered, not proposed."""
    settlement = judged(*[("search", '{"text": "a"}')] * (CALLS_PER_STEP_MAX + 2))
    assert CALLS_PER_STEP_MAX == settlement.open_calls
    assert all("at most 64 calls" in error for error in errors(settlement)[CALLS_PER_STEP_MAX:])


def test_calls_in_the_last_step_fail_the_turn() -> None:
    """Whoever still calls tools in the last step gets answers that say so, and the turn fails with one sentence."""
    settlement = judged(("search", '{"text": "a"}'), ("nope", "{}"), step=10)
    assert (Event.STEPS_EXHAUSTED, 0) == (settlement.event, settlement.open_calls)
    assert State.FAILED is MACHINE.next_state(State.THINKING, settlement.event)
    first, second = errors(settlement)
    assert "not run: the turn has used all its 10 steps" == first
    assert "there is no tool 'nope'" in second
    assert "The assistant stopped after 10 steps without an answer. Nothing more will run." == settlement.reason


def test_final_answer_alone_ends_the_turn() -> None:
    """A valid final answer is the turn's result, and the transcript says that it was accepted."""
    settlement = judged(("final_answer", DONE), behaviour=JOB)
    assert (Event.ANSWERED, 0) == (settlement.event, settlement.open_calls)
    assert {"success": True, "result": "bought", "confidence": 0.9} == settlement.final_answer
    result = settlement.calls[0].result
    assert result is not None
    assert ("succeeded", {"data": "accepted"}) == (result.kind, result.as_json())


def test_final_answer_in_the_last_step_counts() -> None:
    """A final answer needs no further step."""
    assert Event.ANSWERED == judged(("final_answer", DONE), behaviour=JOB, step=10).event


def test_final_answer_beside_other_calls_is_not_accepted() -> None:
    """It would answer without their results; the others go on."""
    settlement = judged(("final_answer", DONE), ("search", '{"text": "a"}'), behaviour=JOB)
    assert Event.CALLS_PROPOSED == settlement.event
    assert ["not accepted: call final_answer alone, after the results of the other calls", ""] == errors(settlement)


def test_two_final_answers_are_none() -> None:
    """Nobody could say which of them is the final one."""
    settlement = judged(("final_answer", DONE), ("final_answer", DONE), behaviour=JOB)
    assert (Event.CALLS_SETTLED, None) == (settlement.event, settlement.final_answer)


def test_final_answer_without_confidence_is_invalid() -> None:
    """The tool's arguments are checked like any other's."""
    settlement = judged(("final_answer", '{"success": true, "result": "x", "confidence": 1.5}'), behaviour=JOB)
    assert Event.CALLS_SETTLED == settlement.event
    assert "/confidence: " in errors(settlement)[0]


def test_final_answer_is_no_tool_of_a_chat() -> None:
    """Where it is not offered it is an unknown tool."""
    assert "there is no tool 'final_answer'" in errors(judged(("final_answer", DONE)))[0]


def test_tool_that_takes_our_name_is_refused() -> None:
    """A catalogue with a tool called final_answer cannot be offered."""
    with pytest.raises(ValueError, match="must not define a tool called 'final_answer'"):
        offered(Catalog([FINAL_ANSWER]), CHAT)


def test_tools_are_offered_in_the_order_of_the_catalogue() -> None:
    """The agent's own tool comes last."""
    assert ["search", "pay", "final_answer"] == list(offered(Catalog([SEARCH, PAY]), JOB))


def test_interrupted_calls_are_superseded_before_they_are_proposed() -> None:
    """Whoever writes again wants the new thing; wrong calls still say what was wrong with them."""
    settlement = judged(("search", '{"text": "a"}'), ("nope", "{}"), interrupted="spoken")
    kinds = [call.result.kind for call in settlement.calls if call.result]
    assert (Event.CALLS_SETTLED, ["superseded", "invalid"]) == (settlement.event, kinds)


def test_leading_run_stops_at_another_author() -> None:
    """One turn answers one person: a message of another one waits for the next turn."""
    authors = {"m1": ADA, "m2": ADA, "m3": BOB, "m4": ADA}
    queued = [Queued(message, message, author, {}) for message, author in authors.items()]
    assert queued[:2] == leading_run(queued)
    assert [] == leading_run(queued, BOB)
    assert [] == leading_run([])


@given(st.recursive(st.text() | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_storable_value_has_nothing_that_postgresql_refuses(value: Any) -> None:
    """No NUL is left, and every text is valid UTF-8; what was fine is left as it was."""
    kept = storable(value)
    text = repr(kept)
    assert "\\x00" not in text.replace("\\\\", "")
    assert kept == storable(kept)


def test_storable_text_joins_the_halves_of_a_pair() -> None:
    """Two halves of one character make it; a lone half is replaced."""
    assert "\U0001f600 \ufffd" == storable("\ud83d\ude00 \ud83d")
