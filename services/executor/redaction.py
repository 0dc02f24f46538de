"""Keeps what people must not see out of what a tool said: it may have repeated an argument. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from placet.contracts.canonical import NotStrictJson, parse_arguments
from placet.contracts.messages import ToolCall
from placet.domain.card_text import REDACTED
from placet.executor.rules import Outcome

#: Shorter values are found in any text by chance; whoever reads one learns nothing of the argument.
SECRET_MIN = 4


def redact_outcome(call: ToolCall, outcome: Outcome) -> Outcome:
    """Return the outcome with every redacted argument masked in its error, its data and its blocks."""
    secrets = secrets_of(call)
    if not secrets:
        return outcome
    blocks = tuple(_masked(block, secrets) for block in outcome.ui_blocks)
    return replace(
        outcome, error=_masked(outcome.error, secrets), data=_masked(outcome.data, secrets), ui_blocks=blocks
    )


def redact_text(call: ToolCall, words: str) -> str:
    """Return what a tool says of its progress with every redacted argument masked."""
    masked: str = _masked(words, secrets_of(call))
    return masked


def secrets_of(call: ToolCall) -> tuple[str, ...]:
    """Return the texts that people must not see, longest first: what the call has where its card has a mask."""
    if call.shown_arguments == call.arguments:
        return ()
    try:
        shown = parse_arguments(call.shown_arguments) if call.shown_arguments else REDACTED
        found = set(_hidden(parse_arguments(call.arguments), shown))
    except NotStrictJson:
        return ()
    return tuple(sorted((each for each in found if len(each) >= SECRET_MIN), key=len, reverse=True))


def _hidden(value: Any, shown: Any) -> Iterator[str]:
    """Yield every value as text whose place is masked, also those within a masked object."""
    if shown == REDACTED:
        yield from _leaves(value)
    elif isinstance(value, dict) and isinstance(shown, dict):
        for name, each in value.items():
            yield from _hidden(each, shown.get(name, REDACTED))
    elif isinstance(value, list) and isinstance(shown, list) and len(value) == len(shown):
        for each, beside in zip(value, shown, strict=True):
            yield from _hidden(each, beside)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)


def _masked(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, dict):
        return {_masked(name, secrets): _masked(each, secrets) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, secrets) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and json.dumps(value) in secrets:
        return REDACTED
    return value
