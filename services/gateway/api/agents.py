"""Agents over HTTP: which of them a conversation may be opened with."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from services.gateway.api.callers import CallerOf, DepsOf
from services.gateway.api.errors import described
from services.gateway.api.strict import StrictRoute
from services.gateway.conversations import may_open

router = APIRouter(prefix="/v1/agents", tags=["conversations"], route_class=StrictRoute)


class AgentOut(BaseModel):
    """One agent."""

    name: str
    description: str = Field(description="For people who choose; may be empty.")


class AgentList(BaseModel):
    """The tenant's agents, in the order of their file."""

    items: list[AgentOut]


@router.get("", responses=described(400, 401, 403))
async def list_agents(deps: DepsOf, caller: CallerOf) -> AgentList:
    """List the agents that conversations can be opened with; without a file of agents that is `default` alone."""
    may_open(caller)
    known = deps.agents.of(caller.tenant)
    return AgentList(items=[AgentOut(name=name, description=each.description) for name, each in known.items()])
