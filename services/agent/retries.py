"""Which failure of a model call is worth another attempt, and how long to wait for it.

litellm's own retries are off: their number depends on the provider and on what else is installed. The classes
are told apart by name, because importing them would load litellm, and one rule must hold for all providers.

Pure: the failure and the time come in, a judgement goes out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from placet.agent.model_answer import ModelAnswerCut, UnusableAnswer
from placet.contracts.errors import PlacetError
from placet.runtime.retry_after import asked_seconds
from placet.runtime.watchdog import TooLong, place_of

#: Longest a provider may make us wait; whoever asks for more counts as unavailable.
WAIT_SECONDS_MAX = 60.0
BACKOFF_SECONDS = 0.5
BACKOFF_SECONDS_MAX = 8.0
#: Longer failure waits than this many doublings are all the same.
DOUBLINGS_MAX = 10

PERMANENT = {
    "AuthenticationError",
    "BadRequestError",
    "BudgetExceededError",
    "ModelNotMappedError",
    "NotFoundError",
    "PaymentRequiredError",
    "PermissionDeniedError",
    "UnprocessableEntityError",
}
TRANSIENT = {
    "APIConnectionError",
    "BadGatewayError",
    "ClientError",
    "InternalServerError",
    "OSError",
    "RateLimitError",
    "ServiceUnavailableError",
    "Timeout",
    "TransportError",
}
#: What says that a conversation is longer than the model reads, where litellm took it for any other bad request.
TOO_LONG = ("context_length_exceeded", "exceeds the context window", "prompt is too long")
TRANSIENT_STATUS = {408, 409, 425, 429}
SERVER_ERROR = 500


@dataclass(frozen=True)
class Failure:
    """One failed attempt, judged."""

    #: One line that names the kind of failure: no key, no prompt, none of the provider's text.
    reason: str
    #: How many more attempts this kind of failure is worth; None is as many as the settings say.
    retries_max: int | None
    #: The provider's own wish, in seconds, or None.
    wait_seconds: float | None = None
    #: True: the conversation is longer than the model reads, so no later attempt will do either.
    too_long: bool = False


def judge(error: BaseException, now: datetime) -> Failure:
    """Say what an attempt's exception means. `now` is needed where the provider names a date."""
    if ended := _ended_by(error):
        return Failure(_reason(ended), retries_max=0)
    if isinstance(error, ModelAnswerCut):
        return Failure(str(error), retries_max=1)
    if isinstance(error, UnusableAnswer):
        return Failure(str(error), retries_max=None)
    if isinstance(error, PlacetError):
        return Failure(str(error), retries_max=0)
    if _is_too_long(error):
        return Failure(_reason(error), retries_max=0, too_long=True)
    wait = _retry_after(error, now)
    worth_it = _is_transient(error) and (wait is None or wait <= WAIT_SECONDS_MAX)
    return Failure(_reason(error), None if worth_it else 0, wait)


def backoff_seconds(attempt: int, chance: float) -> float:
    """Wait before the attempt after number `attempt` (1, 2 ...); `chance` in [0, 1) spreads replicas."""
    longest = min(BACKOFF_SECONDS * 2.0 ** min(attempt - 1, DOUBLINGS_MAX), BACKOFF_SECONDS_MAX)
    return longest * (0.5 + chance / 2)


def _ended_by(error: BaseException) -> TooLong | None:
    """Return the watchdog's end of the attempt, which litellm may have taken for a failing provider."""
    ahead, seen = [error], set[int]()
    while ahead:
        each = ahead.pop()
        if isinstance(each, TooLong):
            return each
        seen.add(id(each))
        behind = (each.__cause__, each.__context__, getattr(each, "original_exception", None))
        ahead += [one for one in behind if isinstance(one, BaseException) and id(one) not in seen]
    return None


def _is_too_long(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ContextWindowExceededError" in names:
        return True
    body = getattr(error, "body", None)
    code = body.get("code") if isinstance(body, Mapping) else None
    told = f"{code} {error}".lower()
    return "BadRequestError" in names and any(mark in told for mark in TOO_LONG)


def _is_transient(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & PERMANENT:
        return False
    status = getattr(error, "status_code", None)
    by_status = isinstance(status, int) and (status in TRANSIENT_STATUS or status >= SERVER_ERROR)
    return bool(names & TRANSIENT) or ("APIError" in names and by_status)


def _reason(error: BaseException) -> str:
    """Name the class and the status, or the place of an error that no provider sent; never its text."""
    status, place = getattr(error, "status_code", None), place_of(error)
    if status or not place:
        return f"{type(error).__name__} ({status})" if status else type(error).__name__
    return f"{type(error).__name__} at {Path(place).name}"


def _retry_after(error: BaseException, now: datetime) -> float | None:
    headers = {str(name).lower(): str(value) for name, value in _headers(error).items()}
    return asked_seconds(headers.get("retry-after", ""), now)


def _headers(error: BaseException) -> Mapping[Any, Any]:
    answered = getattr(getattr(error, "response", None), "headers", None)
    return getattr(error, "litellm_response_headers", None) or answered or {}
