"""Wires the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache, partial

import structlog

from placet.agent import handlers, llm, python_model
from placet.agent.budgets import PriceOf
from placet.agent.handlers import Deps
from placet.agent.prices import Prices
from placet.agent.profiles import AskModel, Profiles
from placet.agent.settings import AgentSettings
from placet.agent.worker import Worker
from placet.contracts import messages as m
from placet.contracts.messages import Message
from placet.contracts.signing import load_verifier
from placet.contracts.topology import queue
from placet.domain.catalog import Catalog, load_catalog
from placet.domain.directory_file import DirectoryFile
from placet.runtime.consumer import Once
from placet.runtime.service import Duty, Runtime, Service, Subscription
from placet.runtime.slots import Room, Slots

log = structlog.get_logger(__name__)

#: What comes in which queue.
_TAKEN: Mapping[str, tuple[type[Message], ...]] = {
    "agent.messages": (
        m.MessagePosted,
        m.OperatorSpoke,
        m.HolderChanged,
        m.ConsentAnswered,
        m.ConversationEnded,
        m.StopTurn,
        m.ProposeChanges,
        m.DiscardChanges,
    ),
    "agent.tool-results": (
        m.ToolCallFinished,
        m.ToolCallRefused,
        m.CallResolved,
        m.WorkspaceExpired,
        m.EntriesDiscarded,
        m.AbandonCall,
    ),
    "agent.permits": (m.ToolCallPermitted, m.AbandonCall),
    "agent.approvals": (m.ApprovalOpened, m.ApprovalProgressed, m.ApprovalClosed),
    "agent.attempts": (m.AttemptRequested, m.AttemptWithdrawn, m.ProposeJob, m.CallSurfaced),
    "agent.progress": (m.ToolCallProgressed,),
}

#: Turns that a process claims at most, for each model call that it makes at a time. What waits beyond these waits in
#: the queue, whoever's it is.
CLAIMED_PER_SLOT = 32

Prepare = Callable[[], Awaitable[None]]


def build(settings: AgentSettings, runtime: Runtime) -> Service:
    """Return the agent, ready to run.

    Raises RulebookInvalid (the rulebook, or the file of agents), PlacetError (a model that is a function is not there)
    or ValueError (its tools cannot be offered, or a budget cannot be kept).
    """
    settings.add_own_code()
    catalog = load_catalog(settings.rulebook)
    agents = settings.agents_of(catalog)
    profiles = Profiles(
        agents,
        catalog,
        settings.behaviour,
        lambda entry: partial(llm.ask, settings.model_settings(entry)),
        settings.personal,
        lambda entry: [partial(llm.ask, each) for each in settings.attempt_models(entry)],
    )
    asked = [
        each
        for entry in agents.all().values()
        for model in (settings.model_settings(entry), *settings.attempt_models(entry))
        for each in model.chain()
    ]
    for each in asked:
        python_model.check(each.model)
    prices = Prices(agents, llm.price_of)
    prices.check(settings, agents)
    return _build(settings, runtime, profiles, prices, prepare=partial(llm.prepare, asked))


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
    slots = Slots(settings.agent_slots * CLAIMED_PER_SLOT)
    room = Room(settings.agent_slots, settings.tenant_share)
    worker = Worker(runtime.units, slots, room, profiles, price_of=price_of, lease=lease)
    verifier = cache(partial(load_verifier, settings.keys))
    people = cache(partial(DirectoryFile, settings.rulebook))
    deps = Deps(worker.saving, profiles, runtime.units, verifier, lambda: people().current())
    take = partial(handlers.take, deps=deps)
    return Service(
        name="agent",
        runtime=runtime,
        subscriptions=tuple(
            Subscription(
                queue(name),
                dict.fromkeys(types, Once(partial(take, queue=name), keyed=name in handlers.KEYED)),
                # What only tells does not wait for turns.
                slots.wait_free if name in {"agent.messages", "agent.attempts", "agent.tool-results"} else None,
            )
            for name, types in _TAKEN.items()
        ),
        duties=(Duty("take-over", settings.agent_sweep_seconds, worker.sweep),),
        slots=slots,
        resources=(_model_connections(prepare),),
        drain_seconds=settings.drain_seconds,
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
        try:
            await prepare()
        except Exception:  # noqa: BLE001 - two threads that import at once may be in each other's way, but not twice
            await prepare()
    except Exception as error:  # noqa: BLE001 - whoever asks first tries again, and says what is wrong
        log.warning("model.not_prepared", error=type(error).__name__)
