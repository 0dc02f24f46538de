"""Wires the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import structlog

from services.agent import handlers, llm
from services.agent.budgets import PriceOf
from services.agent.handlers import Deps
from services.agent.prices import Prices
from services.agent.profiles import AskModel, Profiles
from services.agent.settings import AgentSettings
from services.agent.worker import Worker
from shared.catalog import Catalog, load_catalog
from shared.consumer import Handler, Together
from shared.messages import (
    AbandonCall,
    ApprovalOpened,
    CallResolved,
    CallsWithdrawn,
    ConversationEnded,
    HolderChanged,
    Message,
    MessagePosted,
    OperatorSpoke,
    StopTurn,
    ToolCallFinished,
    ToolCallRefused,
)
from shared.service import Duty, Runtime, Service, Subscription
from shared.slots import Slots
from shared.topology import queue

log = structlog.get_logger(__name__)

Prepare = Callable[[], Awaitable[None]]


def build(settings: AgentSettings, runtime: Runtime) -> Service:
    """Return the agent, ready to run.

    Raises RulebookInvalid (the rulebook, or the file of agents) or ValueError (its tools cannot be offered, or a budget
    cannot be kept).
    """
    catalog = load_catalog(settings.rulebook)
    agents = settings.agents_of(catalog)
    profiles = Profiles(
        agents,
        catalog,
        settings.behaviour,
        lambda entry: partial(llm.ask, settings.model_settings(entry)),
        settings.personal,
    )
    prices = Prices(agents, llm.price_of)
    prices.check(settings, agents)
    return _build(settings, runtime, profiles, prices, prepare=llm.prepare)


def build_with(
    settings: AgentSettings, runtime: Runtime, ask: AskModel, catalog: Catalog, *, prepare: Prepare | None = None
) -> Service:
    """Return the agent with a given way to ask models and given tools; `prepare` runs beside its start.

    No price is looked up: those that the file of agents says are all there are.
    """
    agents = settings.agents_of(catalog)
    profiles = Profiles(agents, catalog, settings.behaviour, lambda _: ask, settings.personal)
    return _build(settings, runtime, profiles, Prices(agents), prepare=prepare)


def _build(
    settings: AgentSettings, runtime: Runtime, profiles: Profiles, price_of: PriceOf, *, prepare: Prepare | None
) -> Service:
    lease = timedelta(seconds=settings.agent_lease_seconds)
    slots = Slots(settings.agent_slots)
    worker = Worker(runtime.units, slots, profiles, price_of=price_of, lease=lease)
    deps = Deps(worker, lease, profiles)
    messages: dict[type[Message], Handler | Together[Any]] = {
        MessagePosted: Together(partial(handlers.take_messages, deps=deps)),
        ConversationEnded: handlers.end_conversation,
        StopTurn: partial(handlers.stop_turn, deps=deps),
        HolderChanged: partial(handlers.take_holder, deps=deps),
        OperatorSpoke: handlers.take_spoken,
    }
    results: dict[type[Message], Handler | Together[Any]] = {
        ToolCallFinished: Together(partial(handlers.take_finished, deps=deps)),
        ToolCallRefused: Together(partial(handlers.take_refused, deps=deps)),
        AbandonCall: partial(handlers.take_abandoned, deps=deps),
        CallResolved: handlers.take_resolved,
    }
    approvals: dict[type[Message], Handler | Together[Any]] = {
        ApprovalOpened: Together(partial(handlers.take_opened, deps=deps)),
        CallsWithdrawn: partial(handlers.look_again, deps=deps),
    }
    return Service(
        name="agent",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("agent.messages"), messages, slots.wait_free),
            Subscription(queue("agent.tool-results"), results, slots.wait_free),
            Subscription(queue("agent.approvals"), approvals, slots.wait_free),
        ),
        duties=(Duty("take-over", settings.agent_sweep_seconds, worker.sweep),),
        slots=slots,
        resources=(_model_connections(prepare),),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )


@asynccontextmanager
async def _model_connections(prepare: Prepare | None) -> AsyncIterator[None]:
    """Load the model library beside the start, which does not wait for it; close what it keeps open at the end."""
    preparing = asyncio.create_task(_prepare(prepare)) if prepare else None
    try:
        yield
    finally:
        if preparing:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
        await llm.close()


async def _prepare(prepare: Prepare) -> None:
    try:
        await prepare()
    except Exception as error:  # noqa: BLE001 - whoever asks first tries again, and says what is wrong
        log.warning("model.not_prepared", error=type(error).__name__)
