"""Whether a stop names something that is there: a misspelt one stops nothing and looks as if it did."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from difflib import get_close_matches

import structlog

from placet.contracts.errors import Refused
from placet.domain.catalog import load_catalog
from placet.domain.house_tools import HOUSE_TOOLS
from placet.gateway.http.deps import Deps
from placet.gateway.store import reading, stops
from placet.gateway.store.stops import Stopping

log = structlog.get_logger(__name__)

_HOW = 'Nothing was stopped; "anyway": true, or --anyway, stops it all the same.'


async def check_names(deps: Deps, own_tenant: str, wanted: Stopping) -> None:
    """Raise Refused (422), with the names that are `near`, where a stop names what is not there.

    What cannot be read keeps no stop from being placed.
    """
    try:
        near = await _near(deps, own_tenant, wanted)
    except Exception:
        log.exception("stop.names_unread")
        return
    if near is not None:
        raise _unknown(wanted, {"detail": _HOW, "near": near})


def _unknown(wanted: Stopping, facts: Mapping[str, object]) -> Refused:
    if wanted.tool:
        return Refused("There is no such tool.", status=422, kind="unknown-name", **facts)
    if wanted.agent:
        return Refused("There is no such agent.", status=422, kind="unknown-name", **facts)
    return Refused("There is no such tenant.", status=422, kind="unknown-name", **facts)


async def _near(deps: Deps, own_tenant: str, wanted: Stopping) -> list[str] | None:
    """Return the names that are like the one which is not there; None where it is."""
    if wanted.tool:
        tools = await asyncio.to_thread(load_catalog, deps.settings.rulebook)
        return _like(wanted.tool, [*tools, *HOUSE_TOOLS])
    if wanted.agent:
        known = deps.agents.of(own_tenant)
        if wanted.agent in known or not deps.agents.any_name:
            return _like(wanted.agent, known)
        async with reading(deps.runtime.database) as connection:
            return None if await stops.has_agent(connection, own_tenant, wanted.agent) else _like(wanted.agent, known)
    if wanted.tenant in {None, own_tenant}:
        return None
    async with reading(deps.runtime.database) as connection:
        return _like(str(wanted.tenant), await stops.list_tenants(connection, str(wanted.tenant)))


def _like(name: str, known: Collection[str]) -> list[str] | None:
    return None if name in known else get_close_matches(name, known)
