"""Insights over HTTP, for administrators of a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from placet.contracts.canonical import canonical_text
from placet.contracts.errors import Refused
from placet.contracts.ids import new_id, own_id
from placet.contracts.messages.rulebook import TRIAL_TEXT_MAX
from placet.domain.card_text import visible
from placet.domain.yaml_source import RulebookInvalid
from placet.gateway.conversations.service import Plan, Writing
from placet.gateway.http.callers import CallerOf, DepsOf
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.insights import numbers
from placet.gateway.insights.store import load_arguments, load_held, load_votes
from placet.gateway.insights.suggestion import (
    NotSuggested,
    Suggestion,
    asks_no_more,
    ranges,
    suggest,
    within,
)
from placet.gateway.store import reading
from placet.gateway.texts import Body

router = APIRouter(prefix="/v1/insights", tags=["insights"], route_class=StrictRoute)

#: Approvals that numbers are made of at most, the newest; and points of the plot of what waited.
HELD_MAX = 5_000
POINTS = 28
#: Different arguments of approved calls, at most, that a suggested rule is kept to; the newest.
ARGUMENTS_MAX = 500
#: How far a suggested change is replayed.
REPLAY_SECONDS = 30 * 86_400

Days = Annotated[int, Query(ge=1, le=90, description="Days to look back.")]
Named = Annotated[str, Query(min_length=1, max_length=128)]


class Waiting(BaseModel):
    """How many calls waited at once, at most, up to a moment and after the one before."""

    at: datetime
    waiting: int


class InsightsOut(BaseModel):
    """The numbers of a tenant's approvals that were asked for within a window."""

    since: datetime = Field(description="From when on the numbers count.")
    until: datetime
    held: int = Field(description="Approvals that they are made of.")
    complete: bool = Field(description=f"Whether these were all; otherwise the newest {HELD_MAX}, from `since` on.")
    named: bool = Field(description="Whether people are named; `PLACET_GATEWAY_INSIGHTS_NAMES`.")
    waiting: list[Waiting]
    rules: list[numbers.RuleNumbers]
    bounds: list[int] = Field(default=list(numbers.BOUNDS), description="Upper bounds of `histogram`, in seconds.")
    people: list[numbers.PersonNumbers]
    hours: list[int] = Field(description="Decisions by hour of the day, UTC, from midnight on.")
    always_approved: list[numbers.AlwaysApproved]


class ProposalIn(Body):
    """Which suggested rule change is proposed."""

    rule: Annotated[str, Field(min_length=1, max_length=128, description="The rule that held the calls.")]
    tool: Annotated[str, Field(min_length=1, max_length=128)]
    id: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")] | None = Field(
        default=None, description="Of the proposal; the same id again is the same proposal."
    )


class ProposalOut(BaseModel):
    """A proposed change: the agent for changes of the rulebook has it, and people are asked."""

    conversation_id: str = Field(description="Where the change is asked about and its end is told.")


class SuggestionOut(BaseModel):
    """A rule change that would let through what people always approved, replayed over the past. Nothing is changed."""

    rule: str = Field(description="Name of the new rule.")
    diff: str = Field(description="Against the rulebook's file, as unified text.")
    simulation: dict[str, Any] = Field(description="As `POST /v1/rulebook/simulate` answers.")
    would_pass: int = Field(description="Held calls of the last 30 days that would have run without asking.")
    held: int = Field(description="Calls of the tool in these days that the rules of these calls held, in all.")
    denied: int = Field(description="How many of all these people denied.")
    edited: int = Field(description="And how many people changed, or answered themselves.")
    decisions: int = Field(description="Decisions by which the approved calls were let through; a batch is one.")
    people: int = Field(description="How many people made them.")
    arguments: int = Field(description="How many different arguments the approved calls had.")
    undecided: int = Field(description="And how many nobody decided: they wait, expired or were withdrawn.")
    unread: int = Field(description="And how many were approved sooner than a fast reader reads the card.")
    ranges: list[str] = Field(description="Arguments that may have any number of a range: `amount: 5 – 90`.")


@router.get("", response_model=InsightsOut, responses=described(400, 401, 403, 503))
async def insights(deps: DepsOf, caller: CallerOf, days: Days = 7) -> Any:
    """Tell how long people take to decide what, and how they decide."""
    caller.need(Scope.ADMIN)
    until = datetime.now(UTC)
    since = until - timedelta(days=days)
    async with reading(deps.runtime.database) as connection:
        held = await load_held(connection, caller.tenant, since, HELD_MAX)
        votes = await load_votes(connection, caller.tenant, held)
    complete = len(held) < HELD_MAX
    since = since if complete else held[0].created_at
    people = numbers.by_person(held, votes)
    names = deps.settings.gateway_insights_names
    return InsightsOut(
        since=since,
        until=until,
        held=len(held),
        complete=complete,
        named=names,
        waiting=[Waiting(at=at, waiting=count) for at, count in numbers.waiting(held, since, until, POINTS)],
        rules=numbers.by_rule(held),
        people=people if names else numbers.without_names(people),
        hours=numbers.by_hour(votes),
        always_approved=numbers.always_approved(held, votes),
    )


@router.get("/suggestion", response_model=SuggestionOut, responses=described(400, 401, 403, 404, 409, 429, 503, 504))
async def suggestion(deps: DepsOf, caller: CallerOf, rule: Named, tool: Named) -> Any:
    """Suggest a rule for calls that were held and always approved unedited, and replay the last 30 days with it."""
    return (await _tried(deps, caller, rule, tool)).out


@router.post("/suggestion", status_code=202, responses=described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504))
async def propose(deps: DepsOf, caller: CallerOf, body: ProposalIn) -> ProposalOut:
    """Have a suggested rule change approved and made: the agent for changes proposes it as a call like any other."""
    tried = await _tried(deps, caller, body.rule, body.tool)
    agent, name = deps.settings.gateway_rulebook_agent, deps.settings.rulebook.name
    if not agent:
        detail = "PLACET_GATEWAY_RULEBOOK_AGENT names the agent that proposes changes of the rulebook."
        raise Refused("Nobody proposes changes of the rulebook.", status=409, kind="no-rulebook-agent", detail=detail)
    made = tried.made
    edit = canonical_text({"path": name, "old": made.old, "new": made.new})
    text = f"Let the rule {made.rule} in {name} allow what {body.rule} held. {' '.join(tried.told)}\n\n{edit}"
    # Whoever administers the house may ask this one agent, whatever else they may write.
    asking = replace(caller, scopes=caller.scopes | {Scope.CHAT})
    proposal_id = f"rulebook-{body.id or new_id()}"
    writing = Writing(text, message_id=proposal_id)
    posted = await deps.posts.post_or_open(asking, own_id(caller.tenant, proposal_id), writing, Plan(agent))
    return ProposalOut(conversation_id=posted.conversation_id)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A suggested change and what the past says of it."""

    made: Suggestion
    out: SuggestionOut
    #: The same in sentences, which stand above the new rule: whoever decides about the change sees them on its card.
    told: list[str]


async def _tried(deps: Deps, caller: Caller, rule: str, tool: str) -> _Tried:
    """Return the change, and what policy says of it; raise Refused (403, 404, 409, 429, 504)."""
    caller.need(Scope.ADMIN)
    caller.need_house()
    since = datetime.now(UTC) - timedelta(seconds=REPLAY_SECONDS)
    async with reading(deps.runtime.database) as connection:
        held = await load_held(connection, caller.tenant, since, HELD_MAX)
        votes = await load_votes(connection, caller.tenant, held)
        found = numbers.always_approved(held, votes)
        always = next((each for each in found if (each.rule, each.tool) == (rule, tool)), None)
        if always is None:
            raise Refused("These calls were not always approved as they were.", status=404, kind="not-found")
        calls = [each for each in held if (each.rule, each.tool, each.state) == (rule, tool, "approved")]
        seen = await load_arguments(connection, caller.tenant, calls, ARGUMENTS_MAX)
    text = await _rulebook(deps)
    made = _suggested(text, always, seen)
    report = await deps.trials.ask(caller, "simulate", rulebook=made.rulebook, since_seconds=REPLAY_SECONDS)
    if report is None:
        raise Refused("Policy did not answer in time.", status=504, kind="unanswered")
    out = _counted(made, report, always, held, numbers.unread(held, votes), ranges(seen))
    told = _in_sentences(always, out)
    made = _suggested(text, always, seen, told)
    return _Tried(made, out.model_copy(update={"diff": made.diff}), told)


def _counted(
    made: Suggestion,
    report: dict[str, Any],
    always: numbers.AlwaysApproved,
    held: Iterable[numbers.Held],
    hasty: Container[str],
    limits: list[str],
) -> SuggestionOut:
    passed = [each for each in report["changes"] if each["after"]["rule"] == made.rule]
    before = {always.rule, *(each["before"]["rule"] for each in passed)}
    ends = [each for each in held if each.tool == always.tool and each.rule in before]
    return SuggestionOut(
        rule=made.rule,
        diff=made.diff,
        simulation=report,
        would_pass=sum(each["count"] for each in passed),
        held=len(ends),
        denied=sum(each.state == "denied" for each in ends),
        edited=sum(each.edited or each.state == "answered" for each in ends),
        decisions=always.decisions,
        people=always.people,
        arguments=always.arguments,
        undecided=sum(each.state not in numbers.DECIDED for each in ends),
        unread=sum(each.approval_id in hasty for each in ends),
        ranges=limits,
    )


def _in_sentences(always: numbers.AlwaysApproved, out: SuggestionOut) -> list[str]:
    by = "1 person" if always.people == 1 else f"{always.people} people"
    why = f"{always.approved} calls with {always.arguments} different arguments, approved as they were by {by}"
    passed = f"Replayed over 30 days: {out.would_pass} would have run without asking"
    ends = f"denied {out.denied}, edited or answered {out.edited}, decided by nobody {out.undecided}"
    free = [f"Any number passes within {', '.join(map(visible, out.ranges))}."] if out.ranges else []
    return [
        f"Suggested for {why} in {always.decisions} decisions.",
        f"Approved faster than the card can be read: {out.unread}.",
        f"{passed}. Such calls held in all: {out.held}; of these {ends}.",
        *free,
    ]


async def asked_no_more(deps: Deps, found: Iterable[numbers.AlwaysApproved]) -> frozenset[tuple[str, str]]:
    """Return the rules, with tools, of the rulebook's file that ask nobody; none where it cannot be read."""
    try:
        text = await asyncio.to_thread(deps.settings.rulebook.read_text, encoding="utf-8")
        return await asyncio.to_thread(asks_no_more, text, [(each.rule, each.tool) for each in found])
    except (OSError, UnicodeDecodeError, RulebookInvalid):
        return frozenset()


async def _rulebook(deps: Deps) -> str:
    try:
        return await asyncio.to_thread(deps.settings.rulebook.read_text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("The rulebook's file cannot be read here.", status=409, kind="no-rulebook") from error


def _suggested(
    text: str, always: numbers.AlwaysApproved, seen: Sequence[Mapping[str, Any]], told: Sequence[str] = ()
) -> Suggestion:
    try:
        made = suggest(text, always.rule, always.tool, within(seen), told)
    except RulebookInvalid as error:
        raise Refused("The rulebook's file cannot be read here.", status=409, kind="no-rulebook") from error
    except NotSuggested as reason:
        raise Refused("There is no rule to suggest.", status=409, kind="no-suggestion", detail=str(reason)) from reason
    if len(made.rulebook) > TRIAL_TEXT_MAX:
        raise Refused("The rulebook is too long to be tried.", status=409, kind="no-suggestion")
    return made
