"""A reply is plain JSON of bounded size that PostgreSQL can keep, or a typed failure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import pytest

from placet.tools import ToolError, ToolOutcomeUnknown, ToolReply
from placet.tools.replies import (
    DEPTH_MAX,
    REPLY_BYTES_MAX,
    TEXT_CHARACTERS_MAX,
    checked_error,
    checked_reply,
    checked_unknown,
)
from placet.tools.ui_blocks import NoticeBlock


@dataclass
class _Point:
    x: int


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("returned", "data"),
    [
        (None, None),
        ("text", "text"),
        ({"a": [1, 2.5, True]}, {"a": [1, 2.5, True]}),
        (_Point(3), {"x": 3}),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        ("the four letters \\u0000 spelled out", "the four letters \\u0000 spelled out"),
    ],
)
def test_value_becomes_the_json_it_stands_for(returned: Any, data: Any) -> None:
    """Values, models and dates come back as JSON values."""
    assert ToolReply(data=data) == checked_reply(returned)


@pytest.mark.parametrize(
    "returned",
    [
        object(),
        float("nan"),
        {"deep": [float("inf")]},
        "\x00",
        {"a\x00b": 1},
        "\\\x00",
        "\ud800",
        deque([object()]),
        _nested(DEPTH_MAX),
        _nested(200),
        _nested(250),
        _nested(100_000),
        ToolReply(ui_blocks=repeat(NoticeBlock(level="info", text="On and on."))),  # type: ignore[arg-type]  # likewise
        ToolReply(ui_blocks=[{"type": "notice"}]),  # type: ignore[list-item]  # the fault under test
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_that_no_json_column_holds_is_a_typed_failure(returned: Any) -> None:
    """The text says that the tool ran, because its effect may have happened."""
    with pytest.raises(ToolError, match=r"^The tool ran, but ") as caught:
        checked_reply(returned)
    assert "reply_invalid" == caught.value.code


@pytest.mark.parametrize("returned", ["\x00", {"a\x00b": 1}])
def test_a_reply_that_the_database_does_not_take_is_refused_for_what_it_has(returned: Any) -> None:
    """It is valid JSON, so nobody is told that it is none."""
    text = r"^The tool ran, but its reply is not storable: a text in it has the character U\+0000\.$"
    with pytest.raises(ToolError, match=text):
        checked_reply(returned)


def test_a_reply_may_be_nested_as_deep_as_its_readers_take() -> None:
    """Deeper ones are refused in words: messages and rows put them into more, and nobody could read those."""
    deepest = _nested(DEPTH_MAX - 2)
    assert deepest == checked_reply(deepest).data
    with pytest.raises(ToolError, match=r"^The tool ran, but its reply is nested deeper than 64 levels\.$"):
        checked_reply([deepest])
    error, unknown = ToolError("No.", data=_nested(DEPTH_MAX)), ToolOutcomeUnknown("Lost.", data=_nested(DEPTH_MAX))
    assert (None, None) == (checked_error(error).data, checked_unknown(unknown).data)


def test_reply_at_the_limit_is_kept_and_one_byte_more_is_refused() -> None:
    """The limit counts UTF-8 bytes of data and blocks together."""
    overhead = len(b'{"data":"","ui_blocks":[]}')
    fits = "ü" * ((REPLY_BYTES_MAX - overhead) // 2)

    assert fits == checked_reply(fits).data
    with pytest.raises(ToolError) as caught:
        checked_reply(fits + "ü")
    assert "reply_too_large" == caught.value.code


def _folded(part: Any) -> Any:
    """Return what holds a part a million million times, as a few lines of YAML can."""
    for _ in range(40):
        part = [part, part]
    return part


@pytest.mark.parametrize(
    "returned",
    [
        _folded(0),
        _Point(_folded(0)),
        "x" * 100 * REPLY_BYTES_MAX,
        ToolReply(ui_blocks=[NoticeBlock(level="info", text="x" * REPLY_BYTES_MAX)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_reply_that_would_be_far_too_large_is_not_written(returned: Any) -> None:
    """It is refused for its size before anything is made of it."""
    with pytest.raises(ToolError) as caught:
        checked_reply(returned)
    assert ("reply_too_large", None) == (caught.value.code, caught.value.__cause__)


def test_what_an_error_holds_is_not_written_either() -> None:
    """Its data is dropped, and what stands for its text is named."""
    error = checked_error(ToolError(_folded(0), data=_folded(0)))
    unknown = checked_unknown(ToolOutcomeUnknown(_folded(0), data=_folded(0)))
    assert ("list", None, "list", None) == (error.text, error.data, unknown.text, unknown.data)


def test_error_is_bounded_and_loses_data_that_is_no_json() -> None:
    """An error reaches the model even when what comes with it cannot."""
    error = checked_error(ToolError("a\x00" + "x" * 10_000, code="c\ud800", data={"bad": object()}))

    assert (TEXT_CHARACTERS_MAX, "ax", "…") == (len(error.text), error.text[:2], error.text[-1])
    assert ("c?", None) == (error.code, error.data)


def test_unknown_outcome_keeps_its_data() -> None:
    """What helps to resolve an unknown outcome is kept with it."""
    unknown = checked_unknown(ToolOutcomeUnknown("Lost.", data={"reference": "r-1"}))
    assert ("Lost.", {"reference": "r-1"}) == (unknown.text, unknown.data)
