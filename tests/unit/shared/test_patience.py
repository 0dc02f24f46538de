"""A broker that says no while a service starts."""

from __future__ import annotations

from aiormq.exceptions import AMQPConnectionError, ConnectionInternalError, InvalidFrameError
from pamqp.commands import Connection
from structlog.testing import capture_logs

from placet.runtime.outages import Outages
from placet.runtime.rabbit import _patiently


async def test_a_start_goes_on_when_the_broker_lets_it() -> None:
    """An internal error (541) and a lost connection are told in two lines and tried again; neither ends the service."""
    errors = [ConnectionInternalError("INTERNAL_ERROR"), AMQPConnectionError("lost"), None]

    async def reach() -> None:
        if error := errors.pop(0):
            raise error

    with capture_logs() as logs:
        await _patiently(reach, Outages("broker.away", "broker.back"))
    assert ([], ["broker.away", "broker.back"]) == (errors, [entry["event"] for entry in logs])


async def test_a_virtual_host_that_is_not_there_is_named_as_the_cause() -> None:
    """The library's error says only that the broker has closed the connection."""
    errors = [InvalidFrameError(f"Expected Connection.OpenOk, got {Connection.Close()!r}"), None]

    async def reach() -> None:
        if error := errors.pop(0):
            raise error

    with capture_logs() as logs:
        await _patiently(reach, Outages("broker.away", "broker.back"))
    assert logs[0]["error"].endswith("; is the virtual host there, for this user?")
