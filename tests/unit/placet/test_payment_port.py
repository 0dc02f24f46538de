"""The demo payment provider stands beside the gateway's port."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.placet.embedded import Embedded, payment_provider


@pytest.fixture
def taken_port() -> socket.socket:
    """A port that somebody else listens on."""
    return socket.create_server(("127.0.0.1", 0))


async def test_a_taken_port_is_told_in_one_line(tmp_path: Path, taken_port: socket.socket) -> None:
    """The provider takes another port, and whoever started it learns that its links will not last."""
    with taken_port:
        port = taken_port.getsockname()[1]
        said: list[str] = []
        async with payment_provider(Embedded(port - 1, tmp_path, tmp_path / "rulebook.yaml"), said.append) as url:
            assert port != urlsplit(url).port
    expected = f"port {port} is not free: the demo payment provider is at {url}, and its links end with this run"
    assert [expected] == said
