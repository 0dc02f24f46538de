"""Rulebooks over HTTP, for administrators: try one before it is used, and see which was active since when."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, Strict

from placet.contracts.messages.rulebook import SINCE_SECONDS_MAX, TRIAL_TEXT_MAX, TrialKind
from placet.domain.trials import CasesReport, CheckReport, Explanation, Simulation
from placet.gateway.admin.routes import page
from placet.gateway.admin.store import ACTIVATIONS
from placet.gateway.http.callers import After, CallerOf, DepsOf, Limit
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described, problem
from placet.gateway.http.pages import Page
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.texts import Body, Text

router = APIRouter(prefix="/v1/rulebook", tags=["rulebook"], route_class=StrictRoute)

Yaml = Annotated[Text, Field(min_length=1, max_length=TRIAL_TEXT_MAX)]
_PROBLEMS = described(400, 401, 403, 413, 415, 429, 503, 504)
_ANY_RULEBOOK = "The rulebook's text, YAML; the active one where it is left out."


class CheckIn(Body):
    """A rulebook to check."""

    rulebook: Annotated[
        Yaml,
        Field(
            description="The rulebook's text, YAML. A directory file is not read: the active one counts, and outside "
            "of the house one with nobody in it."
        ),
    ]


class ExplainIn(Body):
    """A call to explain."""

    call: Annotated[
        dict[str, Any],
        Field(
            description="{tool, arguments, agent, tenant, requester, labels, …}; outside of the house of your tenant."
        ),
    ]
    rulebook: Annotated[Yaml | None, Field(description=_ANY_RULEBOOK)] = None


class TestIn(Body):
    """Cases to test."""

    cases: Annotated[Yaml, Field(description="The text of a file of cases, YAML.")]
    rulebook: Annotated[Yaml | None, Field(description=_ANY_RULEBOOK)] = None


class SimulateIn(Body):
    """A rulebook to replay the past against."""

    rulebook: Annotated[Yaml, Field(description="The rulebook's text, YAML.")]
    since_seconds: Annotated[int, Strict(), Field(ge=1, le=SINCE_SECONDS_MAX, description="How far to go back.")] = (
        30 * 86_400
    )


class ActivationOut(BaseModel):
    """One change of the rulebook that policy judges by, or of the directory of people."""

    id: str
    kind: Literal["rulebook", "directory"]
    digest: str
    activated_by: str = Field(description="`file`: the file was changed.")
    activated_at: datetime
    diff: str = Field(
        description="Against the one before of its kind, as unified text. Of a directory: who, without addresses."
    )


class ActivationPage(Page[ActivationOut]):
    """Activations, newest first."""


@router.get("/activations", response_model=ActivationPage, responses=described(400, 401, 403, 503))
async def activations(deps: DepsOf, caller: CallerOf, limit: Limit = 50, after: After = None) -> Any:
    """List which rulebook and which directory were active since when, newest first. For the house's administrators."""
    caller.need(Scope.ADMIN)
    caller.need_house()
    return await page(deps, caller, ACTIVATIONS, limit, after)


@router.post("/check", response_model=CheckReport, responses=_PROBLEMS)
async def check(deps: DepsOf, caller: CallerOf, body: CheckIn) -> Any:
    """Check a rulebook; what is wrong with it is in the report, by line and column."""
    return await _tried(deps, caller, "check", body)


@router.post("/explain", response_model=Explanation, responses=_PROBLEMS)
async def explain(deps: DepsOf, caller: CallerOf, body: ExplainIn) -> Any:
    """Tell which rule decides a call, why none above it did, and who may approve."""
    return await _tried(deps, caller, "explain", body)


@router.post("/test", response_model=CasesReport, responses=_PROBLEMS)
async def test(deps: DepsOf, caller: CallerOf, body: TestIn) -> Any:
    """Try calls with the verdicts that they should get."""
    return await _tried(deps, caller, "test", body)


@router.post("/simulate", response_model=Simulation, responses=_PROBLEMS)
async def simulate(deps: DepsOf, caller: CallerOf, body: SimulateIn) -> Any:
    """Replay past proposals of your tenant against another rulebook; tell what would have been different."""
    return await _tried(deps, caller, "simulate", body)


async def _tried(deps: Deps, caller: Caller, kind: TrialKind, body: Body) -> Response | dict[str, Any]:
    report = await deps.trials.ask(caller, kind, **body.model_dump(exclude_none=True))
    if report is None:
        return problem(504, "Policy did not answer in time.", kind="unanswered")
    return report
