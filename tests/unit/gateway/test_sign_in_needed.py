"""Where somebody is led who is not signed in."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from placet.gateway.web.render import SignInNeeded


@pytest.mark.parametrize(
    ("method", "header", "query", "where"),
    [
        ("GET", (b"referer", b"http://here/stops"), b"a=1", "/sign-in?back=%2Finbox%3Fa%3D1"),
        ("GET", (b"referer", b"http://[::"), b"\xff", "/sign-in"),
        ("POST", (b"referer", b"http://here/stops"), b"", "/sign-in?unsent=1&back=%2Fstops"),
        ("POST", (b"referer", b"http://[::"), b"", "/sign-in?unsent=1"),
    ],
)
def test_an_address_that_is_none_leads_back_nowhere(
    method: str, header: tuple[bytes, bytes], query: bytes, where: str
) -> None:
    """What the browser says of the page that it was at is anybody's word."""
    scope = {"type": "http", "method": method, "scheme": "http", "server": ("here", 80), "path": "/inbox"}
    needed = SignInNeeded(Request(scope | {"query_string": query, "headers": [header]}))
    assert {"location": where} == needed.headers
