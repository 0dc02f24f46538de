"""Asking models through litellm, against the scripted server: both providers, streaming and not, all faults."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from placet.agent import llm
from placet.agent.llm import ModelUnavailable
from placet.agent.model import ModelSettings
from placet.agent.model_answer import ModelAnswer
from placet.testing import ScriptedModel
from tests.support.model_script import Answer, Call, Rule, Script
from tests.support.model_server import ModelServer, serving
from tests.support.tool_builders import a_module

pytestmark = [
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class"),  # litellm's types, not ours
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),  # litellm reads deprecated attributes of pydantic
]

USER: dict[str, Any] = {"role": "user", "content": "hi"}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in ("find", "pay")
]
FIND = Call(name="find", arguments={"text": "red shoes", "max_price": 500})
CHUNKS_BEFORE_TEXT = {"openai": 1, "anthropic": 3}

Provider = Literal["openai", "anthropic"]
PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic")


@dataclass
class Asker:
    """Asks one provider of the scripted server and remembers what it heard meanwhile."""

    server: ModelServer
    provider: Provider
    stream: bool
    heard: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    spoken: asyncio.Event = field(default_factory=asyncio.Event)

    def settings(self, **changes: Any) -> ModelSettings:
        """Say how to reach the provider."""
        base = self.server.openai_base if self.provider == "openai" else self.server.anthropic_base
        usual: dict[str, Any] = {"model": f"{self.provider}/scripted", "api_base": base, "api_key": SecretStr("key")}
        return ModelSettings(**{**usual, "stream": self.stream, "timeout_seconds": 20, **changes})

    async def ask(
        self,
        *messages: Mapping[str, Any],
        settings: ModelSettings | None = None,
        tool_choice: Literal["auto", "none"] = "auto",
        tools: list[dict[str, Any]] = TOOLS,
    ) -> ModelAnswer:
        """Ask for an answer."""
        asked = settings or self.settings()
        return await llm.ask(
            asked,
            messages or [USER],
            tools,
            tool_choice=tool_choice,
            on_text=self.on_text,
            on_reset=self.on_reset,
            sleep=self.sleep,
        )

    async def on_text(self, text: str) -> None:
        """Hear a piece of text."""
        self.heard.append(text)
        self.spoken.set()

    async def on_reset(self) -> None:
        """Hear that the text so far is void."""
        self.heard.append("RESET")

    async def sleep(self, seconds: float) -> None:
        """Wait no time at all, and remember how long it should have been."""
        self.waits.append(seconds)


@pytest.fixture
async def closing() -> AsyncIterator[None]:
    """Close litellm's connections before the loop they belong to is gone."""
    yield
    await llm.close()


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> Provider:
    """Run a test for each provider."""
    chosen: Provider = request.param
    return chosen


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Run a test streaming and not."""
    return bool(request.param)


def once(*first: Answer, then: Answer) -> Script:
    """Build a script that fails in some ways and then answers."""
    return Script(rules=(Rule(first=first, answer=then),))


def proposed(answer: ModelAnswer) -> list[tuple[str, str]]:
    """Write the calls of an answer as plain tuples."""
    return [(call.name, call.arguments_text) for call in answer.calls]


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize("told", [-5, 2**31 + 5, 10**30])
async def test_counts_that_no_model_could_reach_spoil_no_answer(provider: Provider, *, stream: bool, told: int) -> None:
    """The provider did not say then; what can be true is kept."""
    async with serving(once(then=Answer(text="Hello.", input_tokens=told, output_tokens=3))) as server:
        answer = await Asker(server, provider, stream).ask()
    assert ("Hello.", 0, 3) == (answer.text, answer.input_tokens, answer.output_tokens)


@pytest.mark.usefixtures("closing")
async def test_text_and_calls_arrive_as_the_model_wrote_them(provider: Provider, *, stream: bool) -> None:
    """Both providers, streaming or not, give the same answer."""
    said = Answer(text="Let me look.", calls=(FIND, Call(name="pay", arguments={})), input_tokens=12, output_tokens=34)
    async with serving(once(then=said)) as server:
        asker = Asker(server, provider, stream)
        answer = await asker.ask()

    arguments = '{"text": "red shoes", "max_price": 500}'
    assert ("Let me look.", "tool_calls", 12, 34) == (
        answer.text,
        answer.finish_reason,
        answer.input_tokens,
        answer.output_tokens,
    )
    assert [("find", arguments), ("pay", "{}")] == proposed(answer)
    assert ["Let", " me", " look."] if stream else ["Let me look."] == asker.heard


@pytest.mark.usefixtures("closing")
async def test_conversation_goes_on_after_results(provider: Provider, *, stream: bool) -> None:
    """The raw message and its results make a transcript the provider takes."""
    script = Script(
        rules=(
            Rule(user="hi", answer=Answer(thinking="hm hm", calls=(FIND, Call(name="pay")))),
            Rule(after_results_of=("find", "pay"), results_contain="denied", answer=Answer(text="Done.")),
        )
    )
    async with serving(script) as server:
        asker = Asker(server, provider, stream)
        first = await asker.ask()
        results = [
            {"role": "tool", "tool_call_id": call.provider_call_id, "content": '{"result": "denied"}'}
            for call in first.calls
        ]
        second = await asker.ask(USER, first.raw, *results)

    assert ("Done.", 0) == (second.text, server.log.rejected)


@pytest.mark.usefixtures("closing")
async def test_history_of_garbage_is_still_taken(provider: Provider) -> None:
    """Arguments and names that no provider accepts are made acceptable on the way out."""
    script = Script(
        rules=(
            Rule(user="hi", answer=Answer(calls=(Call(name="find", arguments='{"q": oops'), Call(name="no such!")))),
            Rule(after_results_of=("*",), answer=Answer(text="Sorry.")),
        )
    )
    async with serving(script) as server:
        asker = Asker(server, provider, stream=True)
        first = await asker.ask()
        results = [{"role": "tool", "tool_call_id": c.provider_call_id, "content": "invalid"} for c in first.calls]
        second = await asker.ask(USER, first.raw, *results)

    assert [("find", '{"q": oops'), ("no such!", "{}")] == proposed(first)
    assert ("Sorry.", 0) == (second.text, server.log.rejected)


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize("quietly", [True, False])
async def test_cut_stream_is_asked_again_and_its_text_taken_back(provider: Provider, *, quietly: bool) -> None:
    """A dropped connection, which looks like an end, never becomes an answer."""
    events = CHUNKS_BEFORE_TEXT[provider] + 1
    cut = Answer(text="Half an answer", cut_after=events, cut_quietly=quietly)
    async with serving(once(cut, then=Answer(text="Whole."))) as server:
        asker = Asker(server, provider, stream=True)
        answer = await asker.ask()

    assert ("Whole.", ["Half", "RESET", "Whole."]) == (answer.text, asker.heard)


@pytest.mark.usefixtures("closing")
async def test_call_cut_before_its_arguments_is_never_proposed(provider: Provider) -> None:
    """The call {} that nobody wrote is the most dangerous one."""
    events = {"openai": 2, "anthropic": 3}[provider]
    cut = Answer(calls=(Call(name="pay", arguments={"amount": 1}),), cut_after=events, cut_quietly=True)
    async with serving(once(cut, cut, cut, then=Answer())) as server:
        asker = Asker(server, provider, stream=True)
        with pytest.raises(ModelUnavailable) as failed:
            await asker.ask()

    assert (3, "the stream ended without a finish reason") == (failed.value.attempts, failed.value.reason)


@pytest.mark.usefixtures("closing")
async def test_error_event_in_mid_stream_is_asked_again(provider: Provider) -> None:
    """An overloaded provider says so in the middle of its answer."""
    broken = Answer(text="Half an answer", error_after=CHUNKS_BEFORE_TEXT[provider] + 1)
    async with serving(once(broken, then=Answer(text="Whole."))) as server:
        asker = Asker(server, provider, stream=True)
        answer = await asker.ask()

    assert ("Whole.", ["Half", "RESET", "Whole."]) == (answer.text, asker.heard)


@pytest.mark.usefixtures("closing")
async def test_body_cut_in_the_middle_is_asked_again(provider: Provider) -> None:
    """The same without streaming: nothing was heard, so nothing is taken back."""
    async with serving(once(Answer(text="Half", cut_after=0), then=Answer(text="Whole."))) as server:
        asker = Asker(server, provider, stream=False)
        answer = await asker.ask()

    assert ("Whole.", ["Whole."]) == (answer.text, asker.heard)


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_transient_status_is_asked_again(provider: Provider, status: int, *, stream: bool) -> None:
    """Exactly one request for each attempt: litellm and its clients do not retry by themselves."""
    async with serving(once(Answer(status=status), then=Answer(text="ok"))) as server:
        asker = Asker(server, provider, stream)
        answer = await asker.ask()

    assert ("ok", 2, 1) == (answer.text, len(server.requests), len(asker.waits))


@pytest.mark.usefixtures("closing")
async def test_retry_after_is_honoured(provider: Provider, *, stream: bool) -> None:
    """The provider knows best when to come back."""
    async with serving(once(Answer(status=429, retry_after=7), then=Answer(text="ok"))) as server:
        asker = Asker(server, provider, stream)
        await asker.ask()

    assert [7.0] == asker.waits


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_permanent_status_is_not_asked_again(provider: Provider, status: int) -> None:
    """The same request would get the same answer."""
    async with serving(once(then=Answer(status=status))) as server:
        asker = Asker(server, provider, stream=True)
        with pytest.raises(ModelUnavailable) as failed:
            await asker.ask()

    assert (1, 1, []) == (failed.value.attempts, len(server.requests), asker.waits)
    assert f"({status})" in failed.value.reason


@pytest.mark.usefixtures("closing")
async def test_answer_cut_at_its_length_is_asked_once_more(provider: Provider, *, stream: bool) -> None:
    """Twice cut means the limit is too small, however many retries there are."""
    async with serving(once(then=Answer(text="Too", calls=(FIND,), finish="length"))) as server:
        asker = Asker(server, provider, stream)
        with pytest.raises(ModelUnavailable) as failed:
            await asker.ask(settings=asker.settings(retries=5))

    assert (2, "the answer was cut at its length limit") == (failed.value.attempts, failed.value.reason)


@pytest.mark.usefixtures("closing")
async def test_next_model_answers_when_the_first_cannot(provider: Provider) -> None:
    """Fallbacks come in order, each with its own retries."""
    script = Script(
        rules=(
            Rule(model="down", answer=Answer(status=500)),
            Rule(model="gone", answer=Answer(status=404)),
            Rule(model="up", answer=Answer(text="Here.")),
        )
    )
    async with serving(script) as server:
        asker = Asker(server, provider, stream=True)
        others = tuple(asker.settings(model=f"{provider}/{name}") for name in ("gone", "up"))
        answer = await asker.ask(settings=asker.settings(model=f"{provider}/down", retries=1, fallbacks=others))

    asked = [request.body["model"] for request in server.requests]
    assert ["down", "down", "gone", "up"] == asked
    assert ("Here.", f"{provider}/up") == (answer.text, answer.model)


@pytest.mark.usefixtures("closing")
async def test_other_provider_takes_over_in_the_middle_of_a_loop() -> None:
    """What only the first provider understands stays behind."""
    script = Script(
        rules=(
            Rule(model="first", after_results_of=("*",), answer=Answer(status=500)),
            Rule(model="first", answer=Answer(calls=(Call(name="find", id="id/with:odd.signs"),))),
            Rule(model="second", after_results_of=("find",), answer=Answer(text="Here.")),
        )
    )
    async with serving(script) as server:
        asker = Asker(server, "openai", stream=True)
        second = Asker(server, "anthropic", stream=True).settings(model="anthropic/second")
        settings = asker.settings(model="openai/first", fallbacks=(second,))
        first = await asker.ask(settings=settings)
        result = {"role": "tool", "tool_call_id": first.calls[0].provider_call_id, "content": "{}"}
        answer = await asker.ask(USER, first.raw, result, settings=settings)

    assert ("Here.", "anthropic/second", 0) == (answer.text, answer.model, server.log.rejected)


@pytest.mark.usefixtures("closing")
async def test_loop_with_thinking_waits_for_its_author() -> None:
    """No other model could continue it, so no other is asked."""
    script = Script(
        rules=(
            Rule(model="thinker", after_results_of=("*",), answer=Answer(status=500)),
            Rule(model="thinker", answer=Answer(thinking="hm", calls=(FIND,))),
        )
    )
    async with serving(script) as server:
        asker = Asker(server, "anthropic", stream=True)
        other = asker.settings(model="anthropic/other")
        settings = asker.settings(model="anthropic/thinker", fallbacks=(other,), retries=0)
        first = await asker.ask(settings=settings)
        result = {"role": "tool", "tool_call_id": first.calls[0].provider_call_id, "content": "{}"}
        with pytest.raises(ModelUnavailable):
            await asker.ask(USER, first.raw, result, settings=settings)

    assert ["thinker", "thinker"] == [request.body["model"] for request in server.requests]


@pytest.mark.usefixtures("closing")
async def test_same_index_with_other_ids_is_two_calls() -> None:
    """What a library would melt into one bogus call."""
    calls = (
        Call(name="find", arguments={"q": 1}, id="a", index=0),
        Call(name="pay", arguments={"q": 2}, id="b", index=0),
    )
    async with serving(once(then=Answer(calls=calls))) as server:
        answer = await Asker(server, "openai", stream=True).ask()

    assert [("find", '{"q": 1}'), ("pay", '{"q": 2}')] == proposed(answer)


@pytest.mark.usefixtures("closing")
async def test_interleaved_fragments_find_their_calls() -> None:
    """Two calls written at the same time."""
    calls = (FIND, Call(name="pay", arguments={"amount": 299, "currency": "TRY"}))
    async with serving(once(then=Answer(calls=calls, interleave=True))) as server:
        answer = await Asker(server, "openai", stream=True).ask()

    expected = [("find", '{"text": "red shoes", "max_price": 500}'), ("pay", '{"amount": 299, "currency": "TRY"}')]
    assert expected == proposed(answer)


@pytest.mark.usefixtures("closing")
async def test_missing_and_repeated_ids_become_unique(provider: Provider, *, stream: bool) -> None:
    """Whatever the provider did about ids, each result will have one call."""
    calls = (Call(name="find", id=""), Call(name="find", id="same"), Call(name="pay", id="same"))
    async with serving(once(then=Answer(calls=calls))) as server:
        answer = await Asker(server, provider, stream).ask()

    ids = [call.provider_call_id for call in answer.calls]
    assert (["same", "same-2"], 3, True) == (ids[1:], len(set(ids)), bool(ids[0]))
    assert ids == [call["id"] for call in answer.raw["tool_calls"]]


@pytest.mark.usefixtures("closing")
@pytest.mark.parametrize(("asked", "expected"), [("openai", ""), ("anthropic", "{}")])
async def test_call_without_argument_text_means_what_its_protocol_says(asked: Provider, expected: str) -> None:
    """For Anthropic no delta is documented as the empty object; for OpenAI it is nothing at all."""
    async with serving(once(then=Answer(calls=(Call(name="pay", arguments=""),)))) as server:
        answer = await Asker(server, asked, stream=True).ask()

    assert [("pay", expected)] == proposed(answer)


@pytest.mark.usefixtures("closing")
async def test_announced_calls_that_never_come_are_asked_for_again(provider: Provider, *, stream: bool) -> None:
    """Finish reason tool_calls without a call is a failure, not an answer."""
    async with serving(once(Answer(text="One moment.", finish="tool_calls"), then=Answer(calls=(FIND,)))) as server:
        answer = await Asker(server, provider, stream).ask()

    assert ["find"] == [call.name for call in answer.calls]


@pytest.mark.usefixtures("closing")
async def test_calls_are_taken_although_the_finish_reason_is_stop(provider: Provider, *, stream: bool) -> None:
    """The calls decide, not the reason."""
    async with serving(once(then=Answer(calls=(FIND,), finish="stop"))) as server:
        answer = await Asker(server, provider, stream).ask()

    assert ["find"] == [call.name for call in answer.calls]


@pytest.mark.usefixtures("closing")
async def test_no_more_calls_is_told_to_the_provider(provider: Provider) -> None:
    """The tools stay on the table, because the history may speak of them."""
    script = Script(rules=(Rule(tool_choice="none", answer=Answer(text="In words then.")),))
    async with serving(script) as server:
        answer = await Asker(server, provider, stream=True).ask(tool_choice="none")

    assert ("In words then.", 2) == (answer.text, len(server.requests[0].body["tools"]))


@pytest.mark.usefixtures("closing")
async def test_calls_in_spite_of_that_are_an_answer(provider: Provider, *, stream: bool) -> None:
    """Its turn ends by the limit of its steps and says so; asking again and again would only cost."""
    async with serving(once(then=Answer(calls=(FIND,)))) as server:
        answer = await Asker(server, provider, stream).ask(tool_choice="none")

    assert (["find"], 1) == ([call.name for call in answer.calls], len(server.requests))


@pytest.mark.usefixtures("closing")
async def test_conversation_without_tools_sends_none(provider: Provider, *, stream: bool) -> None:
    """Nothing about tools is in the request."""
    async with serving(once(then=Answer(text="Hi."))) as server:
        answer = await Asker(server, provider, stream).ask(tools=[])

    assert ("Hi.", False) == (answer.text, bool(server.requests[0].body.keys() & {"tools", "tool_choice"}))


@pytest.mark.usefixtures("closing")
async def test_model_that_never_answers_is_given_up(provider: Provider, *, stream: bool) -> None:
    """The time limit is for the whole attempt, also where a provider dribbles."""
    async with serving(once(then=Answer(text="Too late", gate="never"))) as server:
        asker = Asker(server, provider, stream)
        with pytest.raises(ModelUnavailable) as failed:
            await asker.ask(settings=asker.settings(timeout_seconds=0.2, retries=1))

    assert 2 == failed.value.attempts


@pytest.mark.usefixtures("closing")
async def test_total_limit_ends_everything_and_takes_the_text_back(provider: Provider) -> None:
    """Retries and fallbacks together may not keep a person waiting for ever."""
    stuck = Answer(text="Half an answer", gate="never", gate_after=CHUNKS_BEFORE_TEXT[provider] + 1)
    async with serving(once(then=stuck)) as server:
        asker = Asker(server, provider, stream=True)
        with pytest.raises(ModelUnavailable) as failed:
            await asker.ask(settings=asker.settings(total_seconds=0.5, retries=5))

    assert ("no answer within 0.5 seconds", ["Half", "RESET"]) == (failed.value.reason, asker.heard)


@pytest.mark.usefixtures("closing")
async def test_text_is_heard_before_the_answer_is_whole(provider: Provider) -> None:
    """Deltas reach the reader as they come: the first one is there while the rest is held back."""
    held = Answer(text="First and last", gate="middle", gate_after=CHUNKS_BEFORE_TEXT[provider] + 1)
    async with serving(once(then=held)) as server:
        asker = Asker(server, provider, stream=True)
        asking = asyncio.create_task(asker.ask())
        await server.gates["middle"].reached.wait()
        await asker.spoken.wait()
        heard, done = list(asker.heard), asking.done()
        server.gates["middle"].opened.set()
        answer = await asking

    assert (["First"], False, "First and last") == (heard, done, answer.text)


@pytest.mark.usefixtures("closing")
async def test_failing_listener_is_not_the_models_fault(provider: Provider, *, stream: bool) -> None:
    """Its error goes through as it is, and the model is not asked again."""
    async with serving(once(then=Answer(text="Hi."))) as server:
        asker = Asker(server, provider, stream)

        async def deaf(_: str) -> None:
            raise ConnectionError("the lease is gone")

        with pytest.raises(ConnectionError, match="the lease is gone"):
            await llm.ask(asker.settings(), [USER], TOOLS, on_text=deaf, on_reset=asker.on_reset, sleep=asker.sleep)

    assert 1 == len(server.requests)


@pytest.mark.usefixtures("closing")
async def test_neither_key_nor_prompt_is_in_the_failure(provider: Provider) -> None:
    """The reason goes to logs and to people."""
    async with serving(once(then=Answer(status=400))) as server:
        asker = Asker(server, provider, stream=True)
        with pytest.raises(ModelUnavailable) as failed:
            await asker.ask({"role": "user", "content": "my secret wish"})

    said = f"{failed.value} {failed.value.reason} {asker.settings()!r}"
    assert not [secret for secret in ("secret wish", "'key'") if secret in said]


@pytest.mark.usefixtures("closing")
async def test_neither_prompt_nor_chatter_is_logged(
    provider: Provider, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], *, stream: bool
) -> None:
    """Not even with everything at debug level, and nothing of litellm's own on the terminal."""
    caplog.set_level(logging.DEBUG)
    async with serving(once(Answer(status=500), then=Answer(text="a secret answer"))) as server:
        asker = Asker(server, provider, stream)
        await asker.ask({"role": "user", "content": "my secret wish"})

    said = f"{caplog.text} {''.join(capfd.readouterr())}"
    assert not [word for word in ("secret", "Give Feedback", "Provider List") if word in said]


@pytest.mark.usefixtures("closing")
async def test_cancelled_question_ends_at_once_and_says_nothing(provider: Provider, *, stream: bool) -> None:
    """Whoever cancels knows; a reset would be one message too many."""
    async with serving(once(then=Answer(text="Too late", gate="never"))) as server:
        asker = Asker(server, provider, stream)
        asking = asyncio.create_task(asker.ask())
        await server.gates["never"].reached.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    assert ([], 1) == (asker.heard, len(server.requests))


@pytest.mark.usefixtures("closing")
async def test_model_name_without_provider_is_said_so() -> None:
    """An operator's mistake needs a reason that helps."""
    asker = Asker(ModelServer(Script()), "openai", stream=True)
    with pytest.raises(ModelUnavailable, match="no provider is known for the model name nowhere/x"):
        await asker.ask(settings=ModelSettings(model="nowhere/x"))


async def test_model_name_without_provider_is_said_at_the_start() -> None:
    """Before the first person waits for it in vain."""
    with capture_logs() as lines:
        await llm.prepare([ModelSettings(model="openai/x"), ModelSettings(model="nowhere/x")])
    assert [("model.no_provider", "nowhere/x")] == [(line["event"], line["model"]) for line in lines]


@pytest.mark.usefixtures("closing")
async def test_a_key_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's library says it as if the provider had failed."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asker = Asker(ModelServer(Script()), "openai", stream=True)
    with capture_logs() as lines, pytest.raises(ModelUnavailable):
        await asker.ask(settings=ModelSettings(model="openai/x", api_base="http://127.0.0.1:9/v1", retries=0))
    assert [["OPENAI_API_KEY"]] == [line["not_set"] for line in lines if line["event"] == "model.attempt_failed"]


@pytest.mark.usefixtures("closing")
async def test_server_that_is_not_there_is_a_transient_failure() -> None:
    """A refused connection is tried again, then given up."""
    heard: list[str] = []
    settings = ModelSettings(model="openai/x", api_base="http://127.0.0.1:9/v1", api_key=SecretStr("k"), retries=1)

    async def nothing(*_: Any) -> None:
        heard.append("x")

    with pytest.raises(ModelUnavailable) as failed:
        await llm.ask(settings, [USER], [], on_text=nothing, on_reset=nothing, sleep=nothing)

    assert (2, ["x"]) == (failed.value.attempts, heard)


@pytest.mark.usefixtures("closing")
async def test_demo_model_answers_through_the_same_door(*, stream: bool) -> None:
    """No key, no network: only rules behind litellm."""
    asker = Asker(ModelServer(Script()), "openai", stream)
    tools = [{"type": "function", "function": {"name": "search_products", "parameters": {"type": "object"}}}]
    settings = ModelSettings(model="python/shop.model:reply", stream=stream)

    answer = await asker.ask({"role": "user", "content": "find red shoes under 500"}, tools=tools, settings=settings)

    assert [("search_products", '{"text": "red shoes", "max_price": 500}')] == proposed(answer)
    assert ("I am looking for red shoes up to 500.", 5) == ("".join(asker.heard), answer.input_tokens)


@pytest.mark.usefixtures("closing")
async def test_a_long_stream_lets_others_have_their_turn() -> None:
    """Pieces that have all come at once hold up nobody until the last of them is taken."""
    turns, heard = 0, list[int]()

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def listen(_: str) -> None:
        heard.append(turns)

    async def nothing(*_: Any) -> None:
        return

    with a_module("long_streams_of_a_test", model=ScriptedModel({"content": "word " * 1_000})) as name:
        settings = ModelSettings(model=f"python/{name}:model", stream=True)
        beside = asyncio.create_task(others())
        await llm.ask(settings, [USER], [], on_text=listen, on_reset=nothing)
        beside.cancel()

    gaps = [heard.count(turn) for turn in set(heard)]
    assert (True, True) == (len(heard) > 4 * llm.PIECES_AT_ONCE, max(gaps) <= llm.PIECES_AT_ONCE)


@pytest.mark.usefixtures("closing")
async def test_conversations_side_by_side_get_their_own_answers(provider: Provider) -> None:
    """The server decides from each transcript alone, and so does every answer."""
    rules = tuple(Rule(user=f"wish {n} ", answer=Answer(text=f"answer {n}")) for n in range(8))
    async with serving(Script(rules=rules)) as server:
        asker = Asker(server, provider, stream=True)
        wishes = [{"role": "user", "content": f"wish {n} please"} for n in range(8)]
        answers = await asyncio.gather(*(asker.ask(wish) for wish in wishes))

    assert [f"answer {n}" for n in range(8)] == [answer.text for answer in answers]
