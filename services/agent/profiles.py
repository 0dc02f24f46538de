"""What each agent is made of: how it behaves, which tools it is offered, and whom it asks.

Made once at the start from the settings and the file of agents. An agent that is not here does not exist, and nothing
else answers in its place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

from placet.agent import accomplish
from placet.agent.model_answer import ModelAnswer
from placet.agent.personal import Personal
from placet.agent.rules import Behaviour, offered
from placet.domain.agents import AgentEntry, Agents
from placet.domain.catalog import Catalog


class AskModel(Protocol):
    """Asks a model for one answer; `llm.ask` with its settings bound is one."""

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        tool_choice: Literal["auto", "none"],
        on_text: Callable[[str], Awaitable[None]],
        on_reset: Callable[[], Awaitable[None]],
    ) -> ModelAnswer:
        """Return one whole answer, or raise ModelUnavailable."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One agent."""

    behaviour: Behaviour
    #: What it is offered; a call of anything else is invalid.
    tools: Catalog
    ask: AskModel
    #: Labels of its conversations; what their opener says goes first.
    labels: Mapping[str, str]
    #: What its model never sees but by pseudonyms; None: it sees everything.
    personal: Personal | None = None
    #: Whom attempts of jobs ask, in turn; empty: whom everybody asks.
    variants: Sequence[AskModel] = ()

    def ask_as(self, variant: int) -> AskModel:
        """Return whom the attempt of this number asks."""
        return self.variants[variant % len(self.variants)] if self.variants else self.ask


class Profiles:
    """Every agent, by tenant and name."""

    def __init__(
        self,
        agents: Agents,
        catalog: Catalog,
        behaviour: Callable[[AgentEntry], Behaviour],
        ask: Callable[[AgentEntry], AskModel],
        personal: Callable[[AgentEntry], Personal | None] = lambda _: None,
        variants: Callable[[AgentEntry], Sequence[AskModel]] = lambda _: (),
    ) -> None:
        """Make them; raise ValueError where a tool of the rulebook takes the name of ours."""
        self._agents = agents
        self._made = {
            id(entry): Profile(
                found := behaviour(entry),
                accomplish.offered(offered(given(catalog, entry.tools), found), entry.accomplish),
                ask(entry),
                entry.labels,
                personal(entry),
                variants(entry),
            )
            for entry in agents.all().values()
        }

    def find(self, tenant: str, agent: str) -> Profile | None:
        """Return a tenant's agent; None where it has none of that name."""
        entry = self._agents.find(tenant, agent)
        return None if entry is None else self._made[id(entry)]


def given(catalog: Catalog, patterns: Sequence[str]) -> Catalog:
    """Return the tools that any of these globs matches."""
    return catalog.part(name for name in catalog if any(fnmatchcase(name, pattern) for pattern in patterns))
