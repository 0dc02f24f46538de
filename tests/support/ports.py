"""Ports for what tests start."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator
from contextlib import suppress

#: Where the ports begin that Linux gives to connections by itself.
LENT_PORTS_MIN = 32_768
#: Processes of one run of tests that may give out ports at once.
SHARES = 8


def free_port() -> int:
    """Return a port nobody listens on, below those that the kernel lends to whoever connects meanwhile.

    Whoever asked for it listens later: until all were given out it is given to nobody else of the same tests.
    """
    while True:
        port = next(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def lasting_port() -> int:
    """Return a free port that is ours as long as this process lives, also while who listens there is started again.

    Servers set SO_REUSEADDR and may listen beside what is bound here; whoever looks for a free port may not.
    """
    while True:
        held = socket.socket()
        with suppress(OSError):
            held.bind(("127.0.0.1", free_port()))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _HELD.append(held)
            port: int = held.getsockname()[1]
            return port
        held.close()


def _own_ports() -> Iterator[int]:
    """Yield the ports that only this process gives out, the main one or a worker of pytest-xdist, in any order."""
    share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw-1").removeprefix("gw")) + 1
    ports = [LENT_PORTS_MIN - 1 - number for number in range(share % SHARES, 12_000, SHARES)]
    random.SystemRandom().shuffle(ports)
    return itertools.cycle(ports)


_PORTS = _own_ports()
_HELD: list[socket.socket] = []
