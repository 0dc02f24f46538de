"""Counters of earlier calls that conditions may look at, as `history.<name>`. Counted only if a rule uses them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

#: Name -> what earlier calls of the same tool share with the call, and how far back they count.
COUNTERS: Mapping[str, tuple[Literal["conversation_id", "requester"], timedelta]] = {
    "calls_last_hour": ("conversation_id", timedelta(hours=1)),
    "calls_last_day": ("conversation_id", timedelta(days=1)),
    "requester_calls_last_hour": ("requester", timedelta(hours=1)),
    "requester_calls_last_day": ("requester", timedelta(days=1)),
}
