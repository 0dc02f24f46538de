"""What the log tells of a change, in one line that a machine reads."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
import structlog
from structlog.testing import capture_logs

from placet.runtime.logging import set_up_logging
from placet.runtime.work import Cause, Change, UnitOfWork, Work
from tests.builders import NOON

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave logging as it was."""
    yield
    structlog.reset_defaults()


def written(monkeypatch: pytest.MonkeyPatch, level: str, fmt: str = "json") -> io.BytesIO:
    """Set logging up at a level and return what catches its lines."""
    caught = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(caught, write_through=True))
    set_up_logging(level, fmt)
    return caught


def test_line_tells_who_what_call_approval_conversation_and_trace() -> None:
    """Whoever looks for any of them finds the line."""
    about = {"conversation_id": "c-1"}
    change = Change("acme", "approval", "a-1", "approve", "pending", "approved", "person:ada", "k-1", {"x": 1}, about)
    assert {
        "tenant": "acme",
        "actor": "person:ada",
        "from_state": "pending",
        "to_state": "approved",
        "call_id": "k-1",
        "approval_id": "a-1",
        "conversation_id": "c-1",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
    } == change.line(TRACEPARENT)


def test_what_is_its_call_is_named_once() -> None:
    """An execution has the id of its call."""
    change = Change("acme", "execution", "k-1", "claimed", None, "running", "w", "k-1")
    assert {"tenant", "actor", "from_state", "to_state", "call_id", "trace_id"} == change.line("").keys()


def test_machines_of_two_words_have_one_name() -> None:
    """A key of a line has no hyphen."""
    assert "d-1" == Change("acme", "dead-letter", "d-1", "buried", None, "open", "policy").line("")["dead_letter_id"]


def test_a_line_is_json_with_what_no_json_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that JSON does not know spoils no line."""
    caught = written(monkeypatch, "info")
    structlog.get_logger("test").info("said", what=object(), text="ü", number=1.5)
    line = json.loads(caught.getvalue())
    assert ("said", "info", "ü", 1.5) == (line["event"], line["level"], line["text"], line["number"])


def test_an_error_tells_its_traceback_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames hold keys and what people wrote."""
    caught = written(monkeypatch, "info")
    try:
        json.loads("no-4929")
    except ValueError:
        structlog.get_logger("test").exception("failed")
    (told,) = json.loads(caught.getvalue())["exception"]
    assert ("JSONDecodeError", False) == (told["exc_type"], "no-4929" in json.dumps(told["frames"][1:]))


def far_too_long() -> Exception:
    """Return an error whose text would write out all that it holds, as often as it holds it."""
    value: object = "x-4929"
    for _ in range(40):
        value = [value, value]
    return ValueError(value)


def test_an_error_that_is_far_too_long_tells_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else the event says stays as it is."""
    caught = written(monkeypatch, "info")
    try:
        raise far_too_long()
    except ValueError:
        structlog.get_logger("test").exception("failed", error="told before")
    line = json.loads(caught.getvalue())
    (told,) = line["exception"]
    place = told["frames"][-1]["filename"].rpartition("/")[2]
    assert ("told before", "ValueError", "test_log_lines.py") == (line["error"], told["exc_type"], place)
    assert b"x-4929" not in caught.getvalue()


def test_an_error_that_is_far_too_long_is_told_to_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a console too its kind and its frames stay, and it may come from a library that logs by itself."""
    caught = written(monkeypatch, "info", "console")
    try:
        raise far_too_long()
    except ValueError as error:
        logging.getLogger("library").exception("failed", exc_info=error)
    text = caught.getvalue().decode()
    assert (True, True, False) == ("ValueError" in text, "test_log_lines.py" in text, "x-4929" in text)


def test_levels_below_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are told at info."""
    caught = written(monkeypatch, "warning")
    structlog.get_logger("test").info("said")
    assert b"" == caught.getvalue()


async def test_a_change_that_needs_somebody_is_a_warning() -> None:
    """It is written where the log has no room for other changes."""

    class Outbox:
        def send(self, rows: list[object]) -> None:
            """Send nothing."""

    nobody: Any = None
    units, work = UnitOfWork(nobody, cast("Any", Outbox())), Work(nobody, nobody, now=NOON, cause=Cause())
    begun = Change("acme", "execution", "k-1", "claimed", None, "running", "w", "k-1")
    work.tell(begun, replace(begun, event="gave_up", to_state="unknown", needs_somebody=True))
    with capture_logs() as lines:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        await units.finish(work)
    assert [("execution.gave_up", "warning")] == [(line["event"], line["log_level"]) for line in lines]


def test_a_broker_that_is_away_is_told_by_us_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own lines for each try and each channel are left out; what else it says is written."""
    caught = written(monkeypatch, "info")
    library = logging.getLogger("aiormq.connection")
    library.error("error when creating transport: %r", OSError())
    library.warning("Cancelling cause reader exited abnormally", exc_info=OSError())
    library.error('Unexpected connection close from remote "%s", %r', "amqp://broker", 320)
    logging.getLogger("aiormq.channel").warning("Closing channel %r because RPC call %s cancelled", 1, "Declare")
    library.warning("Connection %r was blocked by: %r", "c", "memory")
    assert ["Connection 'c' was blocked by: 'memory'"] == [
        json.loads(line)["event"] for line in caught.getvalue().splitlines()
    ]


def test_a_line_for_people_has_colours_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file or a journal, `call_id=k-1` is found as it is written."""
    caught = written(monkeypatch, "info", "text")
    structlog.get_logger("t").info("call.proposed", call_id="k-1")
    assert (True, False) == (b"call_id=k-1" in caught.getvalue(), b"\x1b" in caught.getvalue())
