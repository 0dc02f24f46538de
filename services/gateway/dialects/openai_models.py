"""The agents, as models that OpenAI's clients may name."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from placet.gateway.dialects.openai_requests import no_model
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.keys import Scope

router = APIRouter(prefix="/v1/models", tags=["openai"], route_class=StrictRoute)


class ModelOut(BaseModel):
    """One agent."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "placet"


class ModelsOut(BaseModel):
    """All agents."""

    object: Literal["list"] = "list"
    data: list[ModelOut]


@router.get("", responses=described(400, 401, 403, 503))
async def list_all(deps: DepsOf, caller: CallerOf) -> ModelsOut:
    """List the agents that may be named as `model`."""
    caller.need(Scope.CHAT)
    return ModelsOut(data=[ModelOut(id=name) for name in deps.agents.of(caller.tenant)])


@router.get("/{model}", responses=described(400, 401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, model: PathId) -> ModelOut:
    """Show one agent."""
    caller.need(Scope.CHAT)
    if model not in deps.agents.of(caller.tenant):
        raise no_model(model)
    return ModelOut(id=model)
