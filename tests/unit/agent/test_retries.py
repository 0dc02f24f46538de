"""Which failures of a model call are worth another attempt."""

from datetime import UTC, datetime
from typing import Any

import pytest

from placet.agent.model_answer import ModelAnswerCut, StreamCut
from placet.agent.retries import backoff_seconds, judge
from placet.contracts.errors import PlacetError
from placet.runtime.watchdog import TooLong

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


def failing(
    name: str,
    status: int | None = None,
    headers: dict[str, str] | None = None,
    base: str = "",
    text: str = "secret prompt",
) -> Exception:
    """Build an exception as litellm raises it, by its class name (and its parent's)."""
    parent: Any = type(base, (Exception,), {}) if base else Exception
    error: Exception = type(name, (parent,), {})(text)
    error.__dict__.update(status_code=status, litellm_response_headers=headers)
    return error


@pytest.mark.parametrize(
    "error",
    [
        failing("RateLimitError", 429),
        failing("InternalServerError", 500),
        failing("MidStreamFallbackError", 500, base="ServiceUnavailableError"),
        failing("Timeout", 408),
        failing("APIConnectionError", 500),
        failing("APIError", 529),
        TimeoutError(),
        ConnectionResetError(),
        StreamCut("cut"),
    ],
)
def test_transient_failure_is_worth_all_retries(error: Exception) -> None:
    """The next attempt may well succeed."""
    assert judge(error, NOW).retries_max is None


@pytest.mark.parametrize(
    "error",
    [
        failing("BadRequestError", 400),
        failing("BadRequestError", 409, base="APIError"),
        failing("AuthenticationError", 401),
        failing("APIError", 413),
        failing("BudgetExceededError"),
        KeyError("a bug"),
        PlacetError("no such model"),
    ],
)
def test_permanent_failure_is_worth_no_retry(error: Exception) -> None:
    """The same request gets the same answer."""
    assert 0 == judge(error, NOW).retries_max


def with_body(error: Exception, body: object) -> Exception:
    """Give an exception the body that the provider answered."""
    error.__dict__.update(body=body)
    return error


@pytest.mark.parametrize(
    "error",
    [
        failing("ContextWindowExceededError", 400, base="BadRequestError"),
        failing("BadRequestError", 400, text="Your input exceeds the context window of this model."),
        failing("BadRequestError", 400, text='{"error": {"code": "context_length_exceeded"}}'),
        failing("BadRequestError", 400, text="Prompt is too long: 210000 tokens > 200000 maximum"),
        with_body(failing("BadRequestError", 400), {"code": "context_length_exceeded"}),
    ],
)
def test_conversation_that_is_too_long_is_worth_no_retry_and_says_so(error: Exception) -> None:
    """Also where litellm takes it for any other bad request; its reason has no word of the provider."""
    failure = judge(error, NOW)
    assert (0, True, f"{type(error).__name__} (400)") == (failure.retries_max, failure.too_long, failure.reason)


@pytest.mark.parametrize(
    "error",
    [
        failing("BadRequestError", 400),
        with_body(failing("BadRequestError", 400), "no JSON"),
        with_body(failing("BadRequestError", 400), {"code": "invalid_value"}),
        failing("RateLimitError", 429, text="context_length_exceeded"),
    ],
)
def test_other_failure_does_not_say_that_the_conversation_is_too_long(error: Exception) -> None:
    """A person would begin a new conversation for nothing."""
    assert not judge(error, NOW).too_long


def test_answer_cut_at_its_length_is_worth_one_retry() -> None:
    """Once may be chance, twice is the limit being too small."""
    assert 1 == judge(ModelAnswerCut("cut"), NOW).retries_max


@pytest.mark.parametrize(
    ("value", "expected"), [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("Sun, 22 Nov 2026 12:00:30 GMT", 30.0)]
)
def test_retry_after_is_read_as_seconds_or_date(value: str, expected: float) -> None:
    """Both forms are in use."""
    assert expected == judge(failing("RateLimitError", 429, {"Retry-After": value}), NOW).wait_seconds


@pytest.mark.parametrize("value", ["soon", "Mon, 1 Jan 99999999999999999999 00:00:00 GMT"])
def test_unreadable_retry_after_is_no_wish(value: str) -> None:
    """The usual backoff applies then."""
    assert judge(failing("RateLimitError", 429, {"retry-after": value}), NOW).wait_seconds is None


def test_provider_that_asks_for_an_hour_counts_as_unavailable() -> None:
    """A fallback is better than a person who waits an hour."""
    assert 0 == judge(failing("RateLimitError", 429, {"retry-after": "3600"}), NOW).retries_max


def test_reason_names_class_and_status_and_no_word_of_the_provider() -> None:
    """Providers repeat prompts and keys in their error texts."""
    assert "RateLimitError (429)" == judge(failing("RateLimitError", 429), NOW).reason


def test_reason_of_a_local_error_names_its_place() -> None:
    """A bug has to be found by somebody."""
    empty: dict[str, str] = {}
    try:
        empty.pop("missing")
    except KeyError as error:
        reason = judge(error, NOW).reason

    assert reason.startswith("KeyError at test_retries.py:")


def test_backoff_doubles_up_to_its_limit() -> None:
    """Waits grow, and never beyond eight seconds."""
    waits = [backoff_seconds(attempt, 1.0) for attempt in (1, 2, 3, 4, 5, 6, 40)]

    assert [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0] == waits


def test_backoff_is_spread_by_chance() -> None:
    """Replicas that failed together do not come back together."""
    assert (0.25, 0.375) == (backoff_seconds(1, 0.0), backoff_seconds(1, 0.5))


def ended(how: str) -> Exception:
    """Return the watchdog's end of an attempt, as litellm hands it on."""
    taken = failing("MidStreamFallbackError", 500, base="ServiceUnavailableError")
    try:
        raise TooLong("too long")  # noqa: TRY301
    except TooLong as error:
        if how == "bare":
            return error
        setattr(taken, how, error)
    return taken


@pytest.mark.parametrize("how", ["bare", "__cause__", "__context__", "original_exception"])
def test_what_the_watchdog_ended_is_not_tried_again(how: str) -> None:
    """No provider failed, and the same input would keep the loop as long again."""
    failure = judge(ended(how), NOW)
    assert (0, True) == (failure.retries_max, failure.reason.startswith("TooLong at test_retries.py:"))
