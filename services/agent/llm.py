"""The only file that knows litellm: ask a model, get one whole answer or one clear failure.

litellm is imported on first use and outside the event loop, because that takes seconds and 190 MB; every
default of it that talks to strangers, reads a `.env`, prints prompts, retries or rewrites the history is off.
A write that a model proposes is only as good as the answer it came in, so an answer that was cut is thrown
away whole and asked for again; text that was already streamed is taken back with `on_reset`.
"""

import asyncio
import logging
import os
import random
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Literal

import structlog
from prometheus_client import Counter, Histogram

from placet.agent.budgets import Price
from placet.agent.model import ModelSettings
from placet.agent.model_answer import Draft, ModelAnswer, finished
from placet.agent.provider_messages import bound_to, call_ids, provider_messages, speaks_anthropic
from placet.agent.python_model import PROVIDER, PythonAnswer
from placet.agent.retries import backoff_seconds, judge
from placet.contracts.errors import PlacetError

log = structlog.get_logger(__name__)

SECONDS = Histogram(
    "placet_model_seconds",
    "How long models took, from request to last word or error.",
    ["model"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120),
)
#: Tokens that a provider may say that one answer took; no model reads as many.
TOKENS_MAX = 1_000_000_000
TOKENS = Counter("placet_model_tokens_total", "Tokens read (input) and written (output) by models.", ["model", "kind"])
ERRORS = Counter("placet_model_errors_total", "Attempts without a usable answer, by kind of error.", ["model", "error"])

#: Pieces of a stream that are taken before others have their turn: many may have come at once.
PIECES_AT_ONCE = 50

#: Errors that litellm raises where a provider's key is not set, among others.
_WITHOUT_KEY = frozenset({"AuthenticationError", "InternalServerError"})

OnText = Callable[[str], Awaitable[None]]
OnReset = Callable[[], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]


class _ListenerError(Exception):
    """`on_text` failed: not the model's fault, so no reason to ask again."""


class _NoProviderError(PlacetError):
    """The settings name a model that litellm cannot place: a mistake of the operator."""


class ModelUnavailable(PlacetError):
    """No model gave a usable answer. The text is fit for a log and for the person who waits."""

    def __init__(self, model: str, attempts: int, reason: str, *, too_long: bool = False) -> None:
        super().__init__(f"{model} gave no answer in {attempts} attempts: {reason}")
        #: The last model that was tried.
        self.model = model
        #: Requests made, over all models.
        self.attempts = attempts
        #: One line, without keys and without a word of the conversation.
        self.reason = reason
        #: True: the conversation is too long, and no model that was tried may answer it later.
        self.too_long = too_long


async def ask(
    settings: ModelSettings,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    *,
    tool_choice: Literal["auto", "none"] = "auto",
    on_text: OnText,
    on_reset: OnReset,
    sleep: Sleep = asyncio.sleep,
) -> ModelAnswer:
    """Ask for one answer to a transcript; raise `ModelUnavailable` when nobody gives one.

    `messages` and `tools` are OpenAI-shaped; give assistant messages back as `ModelAnswer.raw`. `on_text`
    gets text as it comes (all at once when nothing is streamed); `on_reset` says that the text so far is
    void, because its attempt failed; what these two raise goes through to the caller. The calls of an answer
    are not checked against the tools. `sleep` takes seconds.
    """
    asking = _Asking(messages, tools, tool_choice, on_text, on_reset, sleep)
    try:
        async with asyncio.timeout(settings.total_seconds):
            return await asking.ask_all(_models(settings, messages))
    except _ListenerError as failed:
        raise failed.__cause__ or failed from None
    except TimeoutError:
        await asking.take_back()
        ERRORS.labels(asking.model, "Overdue").inc()
        reason = f"no answer within {settings.total_seconds:g} seconds"
        raise ModelUnavailable(asking.model or settings.model, asking.attempts, reason) from None


def price_of(model: str) -> Price | None:
    """Return what litellm's price map says of a model, as the settings name it; None where it says nothing.

    Loads litellm, which takes seconds. The map that comes with it is read; nobody is asked.
    """
    litellm = _litellm()
    try:
        provider, name = _provider(litellm, ModelSettings(model=model))
    except _NoProviderError:
        return None
    if provider == PROVIDER:
        return Price(Decimal(0), Decimal(0))
    for known in (model, f"{provider}/{name}", name):
        entry = litellm.model_cost.get(known) or {}
        read, written = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
        if entry.get("litellm_provider") == provider and read is not None and written is not None:
            return Price(Decimal(str(read)), Decimal(str(written)))
    return None


async def prepare(models: Iterable[ModelSettings]) -> None:
    """Load litellm now, so that the first person does not wait for it, and name models that nobody can be asked for."""
    await asyncio.to_thread(_litellm)
    for settings in {(each.model, each.api_base): each for each in models}.values():
        try:
            await asyncio.to_thread(_placed, settings)
        except _NoProviderError as error:
            log.warning("model.no_provider", model=settings.model, reason=str(error))


async def close() -> None:
    """Close the connections litellm keeps open; call it once when the service stops."""
    if _litellm.cache_info().currsize:
        await _litellm().close_litellm_async_clients()


@dataclass
class _Asking:
    """One question on its way through attempts and models."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    tool_choice: str
    on_text: OnText
    on_reset: OnReset
    sleep: Sleep
    model: str = ""
    attempts: int = 0
    reason: str = ""
    said: bool = False
    #: Whether one of the models found the conversation too long, and whether one of them may answer it later.
    too_long: bool = False
    may_answer_later: bool = False

    async def ask_all(self, models: Sequence[ModelSettings]) -> ModelAnswer:
        for settings in models:
            self.model = settings.model
            answer = await self._ask_one(settings)
            if answer is not None:
                return answer
        too_long = self.too_long and not self.may_answer_later
        raise ModelUnavailable(self.model, self.attempts, self.reason, too_long=too_long)

    async def take_back(self) -> None:
        if self.said:
            self.said = False
            await self.on_reset()

    async def _ask_one(self, settings: ModelSettings) -> ModelAnswer | None:
        """Try one model until it answers (the answer) or is not worth another attempt (None)."""
        for attempt in range(1, settings.retries + 2):
            self.attempts += 1
            try:
                with SECONDS.labels(self.model).time():
                    answer = await self._attempt(settings)
            except _ListenerError:
                raise
            except Exception as error:  # noqa: BLE001  litellm raises anything, bare classes included
                failure = judge(error, datetime.now(UTC))
                kind = type(error).__name__
                ERRORS.labels(self.model, kind).inc()
            else:
                TOKENS.labels(self.model, "input").inc(answer.input_tokens)
                TOKENS.labels(self.model, "output").inc(answer.output_tokens)
                return answer
            await self.take_back()
            self.reason = failure.reason
            told = {"model": self.model, "attempt": attempt, "reason": failure.reason}
            if kind in _WITHOUT_KEY:
                told |= await asyncio.to_thread(_not_set, settings)
            log.warning("model.attempt_failed", **told)
            if failure.retries_max is not None and attempt > failure.retries_max:
                self.too_long |= failure.too_long
                return None
            if attempt <= settings.retries:
                await self._wait(attempt, failure.wait_seconds)
        self.may_answer_later = True
        return None

    async def _wait(self, attempt: int, wish_seconds: float | None) -> None:
        chance = random.random()  # noqa: S311  spreads replicas, guards nothing
        await self.sleep(backoff_seconds(attempt, chance) if wish_seconds is None else wish_seconds)

    async def _attempt(self, settings: ModelSettings) -> ModelAnswer:
        litellm, provider, name = await asyncio.to_thread(_placed, settings)
        copy = provider_messages(self.messages, provider=provider, model=settings.model)
        async with asyncio.timeout(settings.timeout_seconds):
            reply = await litellm.acompletion(
                messages=copy, **_options(settings), **_tool_options(self.tools, self.tool_choice)
            )
            draft = await self._listen(reply) if settings.stream else _whole(reply)
        answer = finished(
            draft,
            model=settings.model,
            empty_arguments="{}" if speaks_anthropic(provider, name) else "",
            ids_taken=call_ids(self.messages),
            # Calls in a last step are for whoever counts the steps to refuse: asking again would fare no better.
            calls_allowed=bool(self.tools),
        )
        if not settings.stream:
            await self._say(answer.text)
        return answer

    async def _say(self, text: str) -> None:
        if text:
            self.said = True
            try:
                await self.on_text(text)
            except Exception as error:
                raise _ListenerError from error

    async def _listen(self, stream: Any) -> Draft:
        """Read a stream to its end. Its last chunk lies about a cut; only the wrapper knows the true end."""
        draft = Draft()
        pieces = 0
        async with aclosing(stream):
            async for delta in _deltas(stream, draft):
                await self._say(draft.take(delta))
                pieces += 1
                if pieces % PIECES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        draft.finish_reason = stream.received_finish_reason
        return draft


def _models(settings: ModelSettings, messages: Sequence[Mapping[str, Any]]) -> list[ModelSettings]:
    """List whom to ask, in order; a tool loop with thinking can only be continued by its author."""
    chain = list(settings.chain())
    author = bound_to(messages)
    return [model for model in chain if model.model == author] or chain


def _options(settings: ModelSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "model": settings.model,
        "api_base": settings.api_base,
        "api_key": settings.api_key.get_secret_value() if settings.api_key else None,
        "timeout": settings.timeout_seconds,
        "num_retries": 0,
        "stream": settings.stream,
        "stream_options": {"include_usage": True} if settings.stream else None,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }
    return {name: value for name, value in options.items() if value is not None}


def _tool_options(tools: Sequence[Mapping[str, Any]], tool_choice: str) -> dict[str, Any]:
    """Offer the tools, also when none may be called: Anthropic refuses a history with calls without them."""
    if not tools:
        return {}
    return {
        "tools": [dict(tool) for tool in tools],
        **({"tool_choice": "none"} if tool_choice == "none" else {}),
    }


def _placed(settings: ModelSettings) -> tuple[Any, str, str]:
    """Give litellm, the provider and its own name of the model; takes time, for some providers sign in to tell."""
    litellm = _litellm()
    return litellm, *_provider(litellm, settings)


def _provider(litellm: Any, settings: ModelSettings) -> tuple[str, str]:
    """Give the provider and its own name of the model."""
    try:
        name, provider, _, _ = litellm.get_llm_provider(settings.model, api_base=settings.api_base)
    except litellm.BadRequestError:
        raise _NoProviderError(f"no provider is known for the model name {settings.model}") from None
    return provider, name


def _not_set(settings: ModelSettings) -> dict[str, list[str]]:
    """Return the variables that litellm looks for to reach a model and does not find, for a log; nothing where none."""
    if not _litellm.cache_info().currsize:
        # It could not be loaded, which is what there is to say.
        return {}
    key = settings.api_key.get_secret_value() if settings.api_key else None
    found = _litellm().validate_environment(settings.model, api_key=key, api_base=settings.api_base)
    return {"not_set": found["missing_keys"]} if found["missing_keys"] else {}


async def _deltas(stream: Any, draft: Draft) -> AsyncIterator[Mapping[str, Any]]:
    async for chunk in stream:
        _count(draft, getattr(chunk, "usage", None))
        for choice in chunk.choices[:1]:
            yield choice.delta.model_dump(exclude_none=True)


def _whole(reply: Any) -> Draft:
    draft = Draft()
    _count(draft, getattr(reply, "usage", None))
    for choice in reply.choices[:1]:
        draft.take_message(choice.message.model_dump(exclude_none=True))
        draft.finish_reason = choice.finish_reason
    return draft


def _count(draft: Draft, usage: Any) -> None:
    if usage is not None:
        draft.input_tokens, draft.output_tokens = map(_tokens, (usage.prompt_tokens, usage.completion_tokens))


def _tokens(told: Any) -> int:
    """Return a provider's count; 0 for what can be none."""
    return told if isinstance(told, int) and 0 <= told <= TOKENS_MAX else 0


@cache
def _litellm() -> Any:
    """Import litellm with every surprising default turned off, and register models that are Python functions."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a price list at import
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # else it reads a .env file at import
    warnings.filterwarnings("ignore", message="Item '.*' on TypedDict class")  # about its types, not our use
    warnings.filterwarnings("ignore", module="litellm")
    import litellm  # noqa: PLC0415  seconds and 190 MB: only who asks a model pays for it

    litellm.suppress_debug_info = True
    litellm.modify_params = False
    litellm.drop_params = False  # a parameter the model does not know is an error, not a silent loss
    litellm.disable_hf_tokenizer_download = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)  # their debug lines hold whole prompts
        logger.handlers.clear()  # they also propagate: each line would come twice
    litellm.custom_provider_map = [{"provider": PROVIDER, "custom_handler": _python_provider(litellm)}]
    module: Any = litellm
    module.utils.custom_llm_setup()
    return module


def _python_provider(litellm: Any) -> Any:
    """Wrap models that are Python functions the way litellm wants its providers."""

    class PythonProvider(litellm.CustomLLM):  # type: ignore[misc]  # the base is known at run time only
        async def acompletion(self, **asked: Any) -> Any:
            answer = await _python_answer(asked)
            choice = {"index": 0, "message": answer.message(), "finish_reason": answer.finish_reason}
            return litellm.ModelResponse(model=asked["model"], choices=[choice], usage=answer.usage())

        async def astreaming(self, **asked: Any) -> Any:
            answer = await _python_answer(asked)
            usage = answer.usage()
            for delta in answer.deltas():
                choice = {"index": 0, "delta": delta}
                yield litellm.ModelResponseStream(model=asked["model"], choices=[choice], usage=usage)
            done = {"index": 0, "delta": {}, "finish_reason": answer.finish_reason}
            yield litellm.ModelResponseStream(model=asked["model"], choices=[done])

    return PythonProvider()


async def _python_answer(asked: Mapping[str, Any]) -> PythonAnswer:
    options = asked.get("optional_params") or {}
    tools, tool_choice = options.get("tools") or [], options.get("tool_choice") or "auto"
    return await PythonAnswer.of(asked["model"].removeprefix(f"{PROVIDER}/"), asked["messages"], tools, tool_choice)
