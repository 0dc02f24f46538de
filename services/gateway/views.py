"""What others may read of the gateway: nothing. Its feeds are told over HTTP, and its keys to nobody."""

from __future__ import annotations

VIEWS: dict[str, str] = {}
