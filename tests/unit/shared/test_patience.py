"""A broker that says no while a service starts."""

from __future__ import annotations

from aiormq.exceptions import AMQPConnectionError, ConnectionInternalError
from structlog.testing import capture_logs

from placet.runtime.rabbit import _patiently


async def test_a_start_goes_on_when_the_broker_lets_it() -> None:
    """An internal error (541) and a lost connection are told in two lines and tried again; neither ends the service."""
    errors = [ConnectionInternalError("INTERNAL_ERROR"), AMQPConnectionError("lost"), None]

    async def reach() -> None:
        if error := errors.pop(0):
            raise error

    with capture_logs() as logs:
        await _patiently(reach)
    assert ([], ["broker.away", "broker.back"]) == (errors, [entry["event"] for entry in logs])
