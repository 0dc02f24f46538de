"""HTTP clients for tests."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

#: Trusts nobody: tests speak plain HTTP, and reading the machine's certificates takes longer than most requests.
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def http_client(url: str = "", **options: Any) -> httpx.AsyncClient:
    """Return a client of what runs at `url`, or of everybody."""
    return httpx.AsyncClient(base_url=url, verify=_TLS, **options)
