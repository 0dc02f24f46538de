"""Limits of rules over HTTP, for administrators of a tenant: what was counted last, and how much room is left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from placet.domain.limits import Limit, Per, load_limits
from placet.domain.yaml_source import RulebookInvalid
from placet.gateway.admin import store
from placet.gateway.http.callers import After, CallerOf, DepsOf
from placet.gateway.http.callers import Limit as Rows
from placet.gateway.http.errors import described
from placet.gateway.http.pages import Page, cursor_of, next_of
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading

router = APIRouter(prefix="/v1/limits", tags=["grants"], route_class=StrictRoute)


class WindowOut(BaseModel):
    """One limit that a counter is held against."""

    at_most: float
    within_seconds: int
    used: float = Field(description="What the calls of the last `within_seconds` seconds come to.")


class LimitOut(BaseModel):
    """What several calls are counted on together."""

    id: str
    rule: str
    measure: str = Field(description="`count`, or `sum:` and the path of an argument.")
    per: Per
    subject: str = Field(description="The conversation, requester, agent or tenant whose calls are counted.")
    touched_at: datetime = Field(description="When a call last asked for room.")
    windows: list[WindowOut] = Field(description="The rulebook's limits; empty where it has none such any more.")


class LimitPage(Page[LimitOut]):
    """Counters, those used last first."""


@router.get("", response_model=LimitPage, responses=described(400, 401, 403, 503))
async def list_limits(deps: DepsOf, caller: CallerOf, limit: Rows = 50, after: After = None) -> Any:
    """List the counters of your tenant's limits, those used last first."""
    caller.need(Scope.ADMIN)
    cursor, known = cursor_of(after), await asyncio.to_thread(_limits, deps.settings.rulebook)
    async with reading(deps.runtime.database) as connection:
        rows = await store.list_page(connection, store.COUNTERS, caller.tenant, after=cursor, limit=limit + 1)
        asked = [(row["counter_id"], each) for row in rows[:limit] for each in _of(known, row)]
        used = await store.used_of(connection, [(counter_id, each.within_seconds) for counter_id, each in asked])
    windows: dict[str, list[dict[str, Any]]] = {}
    for (counter_id, each), amount in zip(asked, used, strict=True):
        made = {"at_most": float(each.at_most), "within_seconds": each.within_seconds, "used": float(amount)}
        windows.setdefault(counter_id, []).append(made)
    items = [{**row, "id": row["counter_id"], "windows": windows.get(row["counter_id"], [])} for row in rows[:limit]]
    return {"items": items, "next": next_of(rows, limit, "touched_at", "counter_id")}


def _of(known: Mapping[str, tuple[Limit, ...]], row: store.Row) -> list[Limit]:
    return [each for each in known.get(row["rule"], ()) if (each.measure, each.per) == (row["measure"], row["per"])]


def _limits(path: Path) -> Mapping[str, tuple[Limit, ...]]:
    """Return the limits of the rulebook by rule; none where its file cannot be read."""
    try:
        found = path.stat()
        return _loaded(path, found.st_mtime_ns, found.st_size)
    except (OSError, RulebookInvalid):
        return {}


@lru_cache(maxsize=4)
def _loaded(path: Path, _changed_ns: int, _size: int) -> Mapping[str, tuple[Limit, ...]]:
    """Return the limits of a file, which is read again only once it has changed."""
    return load_limits(path)
