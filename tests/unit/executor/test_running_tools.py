"""A loaded tool is called with converted arguments and ends in exactly one typed way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import date
from decimal import Decimal
from functools import wraps
from itertools import count
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, model_serializer
from structlog.testing import capture_logs

from placet.runtime.watchdog import watchdog
from placet.tools import ToolContext, ToolError, ToolOutcomeUnknown, ToolReply
from placet.tools.registry import CRASHED, NEUTRAL_TEXT
from placet.tools.replies import REPLY_BYTES_MAX
from placet.tools.ui_blocks import NoticeBlock
from tests.support.tool_builders import a_context, a_tool


def _use_cpu() -> int:
    end = time.thread_time() + 0.6
    while time.thread_time() < end:
        pass
    return 1


class _Dear(BaseModel):
    """Takes its time to say what it is."""

    @model_serializer
    def made(self) -> int:
        """Return a number, later."""
        return _use_cpu()


async def test_async_function_gets_context_and_converted_arguments() -> None:
    """Arguments arrive as the annotated types, and the context where its annotation stands."""

    async def f(where: ToolContext, *, amount: Decimal, day: date) -> list[Any]:
        return [where.tenant, type(amount).__name__, type(day).__name__, str(amount)]

    tool = a_tool(f, "amount", "day", required=("amount", "day"))
    reply = await tool.run({"amount": 299.9, "day": "2026-02-03"}, a_context(tenant="acme"))

    assert ToolReply(data=["acme", "Decimal", "date", "299.9"]) == reply


async def test_left_out_argument_takes_the_functions_default() -> None:
    """A default belongs to the function."""

    async def f(*, quantity: int = 3) -> int:
        return quantity

    assert 3 == (await a_tool(f, "quantity").run({}, a_context())).data


async def test_blocking_function_runs_beside_the_event_loop() -> None:
    """A plain function runs in a thread of its own, so that the loop stays free."""

    def f() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert False is (await a_tool(f).run({}, a_context())).data


async def test_async_function_behind_a_plain_decorator_is_awaited() -> None:
    """A decorator that hides the coroutine function does not lose its answer."""

    def plain(function: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[int]]:
        @wraps(function)
        def wrapper() -> Awaitable[int]:
            return function()

        return wrapper

    @plain
    async def f() -> int:
        return 7

    assert 7 == (await a_tool(f).run({}, a_context())).data


@pytest.mark.parametrize("blocking", [True, False])
async def test_what_comes_one_by_one_is_made_where_the_function_runs(*, blocking: bool) -> None:
    """Making it is the function's work, so it holds up nobody where the function does not."""

    def in_thread() -> Iterator[bool]:
        return (threading.current_thread() is threading.main_thread() for _ in range(2))

    async def on_loop() -> Iterator[bool]:
        return in_thread()

    reply = await a_tool(in_thread if blocking else on_loop).run({}, a_context())
    assert [not blocking] * 2 == reply.data


async def test_what_comes_one_by_one_without_end_is_too_large() -> None:
    """No more of it is made than a reply can hold."""
    made = count()

    def endless() -> Iterator[int]:
        return made

    with pytest.raises(ToolError) as caught:
        await a_tool(endless).run({}, a_context())
    assert ("reply_too_large", REPLY_BYTES_MAX) == (caught.value.code, next(made))


def test_a_tool_may_take_its_time_and_what_is_made_of_its_reply_may_not() -> None:
    """The loop is the tool's as long as the function runs; who reads its reply ends like anybody else."""

    async def slow() -> int:
        return _use_cpu()

    async def dear() -> _Dear:
        return _Dear()

    async def both() -> tuple[ToolReply, str]:
        with watchdog(0.2), capture_logs():
            reply = await a_tool(slow).run({}, a_context())
            with pytest.raises(ToolError) as caught:
                await a_tool(dear).run({}, a_context())
            return reply, caught.value.code

    assert (ToolReply(data=1), "reply_invalid") == asyncio.run(both())


async def test_arguments_that_do_not_convert_fail_before_the_function_runs() -> None:
    """Every wrong argument is named, without its value, and nothing has run."""
    ran: list[str] = []

    async def f(*, quantity: Annotated[int, Field(ge=1)], label: str) -> None:
        ran.append(f"{quantity} {label}")

    tool = a_tool(f, "quantity", "label", required=("quantity", "label"))
    with pytest.raises(ToolError) as caught:
        await tool.run({"quantity": -7_001, "colour": "secret"}, a_context())

    expected = (
        "Invalid arguments: colour: not an argument of this tool; label: missing; "
        "quantity: Input should be greater than or equal to 1"
    )
    assert (caught.value.text, caught.value.code) == (expected, "invalid_arguments")
    assert [] == ran


async def test_reply_with_blocks_keeps_them_apart_from_the_data() -> None:
    """What the frontend renders does not mix with what the model reads."""
    block = NoticeBlock(level="info", text="Hello")

    async def f() -> ToolReply:
        return ToolReply(data={"n": 1}, ui_blocks=[block])

    reply = await a_tool(f).run({}, a_context())

    expected = {"data": {"n": 1}, "ui_blocks": [{"type": "notice", "level": "info", "text": "Hello"}]}
    assert expected == reply.to_json()


@pytest.mark.parametrize("blocking", [True, False])
async def test_tool_error_keeps_its_text_code_and_data(*, blocking: bool) -> None:
    """What the tool says on purpose reaches the model as it was said."""

    def plain() -> None:
        raise ToolError("Sold out.", code="sold_out", data={"left": 0})

    async def asynchronous() -> None:
        plain()

    with pytest.raises(ToolError) as caught:
        await a_tool(plain if blocking else asynchronous).run({}, a_context())

    assert ("Sold out.", "sold_out", {"left": 0}) == (caught.value.text, caught.value.code, caught.value.data)


async def test_unknown_outcome_stays_unknown() -> None:
    """A tool that cannot vouch for its effect is not turned into a failure."""

    async def f() -> None:
        raise ToolOutcomeUnknown("The bank did not answer.")

    with pytest.raises(ToolOutcomeUnknown, match=r"^The bank did not answer\.$"):
        await a_tool(f).run({}, a_context())


async def test_unknown_outcome_in_a_task_group_outweighs_an_error() -> None:
    """Of several things a tool did at once, the uncertain one decides."""

    async def f() -> None:
        errors = [ToolError("One failed."), ExceptionGroup("inner", [ToolOutcomeUnknown("One is open.")])]
        raise ExceptionGroup("both", errors)

    with pytest.raises(ToolOutcomeUnknown, match=r"^One is open\.$"):
        await a_tool(f).run({}, a_context())


class Departure(BaseException):
    """A tool's own exception that is no Exception."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        Departure(),
        StopIteration(),
        asyncio.CancelledError(),
    ],
)
@pytest.mark.parametrize("blocking", [True, False])
async def test_any_other_exception_fails_with_a_neutral_text_and_a_log_line(
    error: BaseException, *, blocking: bool
) -> None:
    """The model learns nothing of the internals, the log learns everything, and the executor lives on."""

    def plain() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    with capture_logs() as logs, pytest.raises(ToolError) as caught:
        await a_tool(plain if blocking else asynchronous).run({}, a_context(call_id="call-9", fence=2))

    assert (NEUTRAL_TEXT, CRASHED, None) == (caught.value.text, caught.value.code, caught.value.data)
    line = {key: logs[0][key] for key in ("event", "log_level", "tool", "tenant", "call_id", "fence")}
    assert {
        "event": "tool.failed",
        "log_level": "error",
        "tool": "sample",
        "tenant": "acme",
        "call_id": "call-9",
        "fence": 2,
    } == line


async def test_error_of_a_tool_with_secrets_is_logged_without_its_words() -> None:
    """What the exception says may quote an argument; its kind and its place tell operators where to look."""

    def pay(pin: str) -> None:
        raise ValueError(pin)

    with capture_logs() as logs, pytest.raises(ToolError):
        await a_tool(pay, "pin", required=("pin",), redact=("/pin",)).run({"pin": "4929"}, a_context())

    assert ("ValueError", True, False) == (logs[0]["error"], __file__ in logs[0]["place"], "4929" in str(logs))


@pytest.mark.parametrize("blocking", [True, False])
async def test_time_out_of_the_caller_is_not_turned_into_a_failure(*, blocking: bool) -> None:
    """When the executor stops waiting, the cancellation comes through, because the outcome is not known."""
    started, release = threading.Event(), threading.Event()

    def plain() -> None:
        started.set()
        release.wait()

    async def asynchronous() -> None:
        started.set()
        await asyncio.Event().wait()

    running = asyncio.ensure_future(a_tool(plain if blocking else asynchronous).run({}, a_context()))
    await asyncio.to_thread(started.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    release.set()


async def test_late_answer_of_an_abandoned_function_disturbs_nobody() -> None:
    """A blocking function cannot be stopped; what it returns after its call was given up goes nowhere."""
    started, release = threading.Event(), threading.Event()
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))

    threads: list[threading.Thread] = []

    def plain() -> None:
        threads.append(threading.current_thread())
        started.set()
        release.wait()

    running = asyncio.ensure_future(a_tool(plain).run({}, a_context()))
    await asyncio.to_thread(started.wait)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    release.set()
    await asyncio.to_thread(threads[0].join)
    await asyncio.sleep(0)  # one turn of the loop, in which the late answer arrives

    assert threads[0].daemon
    assert [] == complaints
