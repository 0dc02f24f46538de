"""A job as a tool: the call `accomplish` begins a job, whose end is its result. Pure.

Policy judges it like any call. Its permit comes back here: the agent knows what its jobs may use up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from placet.agent.rules import Result, Settlement
from placet.contracts import messages as m
from placet.contracts.canonical import parse_arguments
from placet.contracts.ids import derived_id, own_id
from placet.contracts.messages import ACCOMPLISH_TOOL
from placet.contracts.messages.jobs import DEPTH_LABEL
from placet.domain.agents import AccomplishEntry
from placet.domain.catalog import Catalog
from placet.domain.house_tools import ACCOMPLISH_SPEC

#: What the model reads where its conversation is itself part of as many jobs as may stand in each other.
TOO_DEEP = "Not begun: you are working on a part of a job already, and its parts may not have further jobs done."
#: Votes that a job begins with where how many it needs is worked out later; tokens with which no attempt gets anywhere.
FIRST_VOTES, SHARE_MIN = 2, 100
NOTHING_LEFT = "Not begun: what is left of the tokens and the money that you may use is too little for a job."
#: What it reads where its permit came when the agent had its jobs taken away, or could not be used in time.
NOT_OFFERED = "Not begun: this agent may not have jobs done any more."
TOO_LATE = "Not begun: it was permitted, but its permit ran out before the job could begin."
#: Who cancels a job whose call is withdrawn.
CALLER = "the conversation that asked for it"


def offered(tools: Catalog, offer: AccomplishEntry | None) -> Catalog:
    """Return the tools of an agent, with this one where its profile says so."""
    return tools if offer is None else Catalog([*tools.values(), ACCOMPLISH_SPEC], redacts=tools.redacts)


def job_id(tenant: str, call_id: str) -> str:
    """Return the id of the job that answers a call, the same for every attempt to begin it."""
    return own_id(tenant, derived_id("job-of-call", call_id))


def depth(labels: Mapping[str, str]) -> int:
    """Return how many jobs a conversation is part of, one within the other."""
    told = labels.get(DEPTH_LABEL, "")
    return int(told) if told.isdecimal() and len(told) <= len("999") else 0


def bounded(settlement: Settlement, offer: AccomplishEntry, labels: Mapping[str, str]) -> Settlement:
    """Refuse to begin jobs where the conversation is too deep in jobs already; the model is told why."""
    if depth(labels) < offer.depth_max:
        return settlement
    asked = [call for call in settlement.calls if call.tool == ACCOMPLISH_TOOL and call.result is None]
    if not asked:
        return settlement
    refused = Result("refused", reason=TOO_DEEP)
    return settlement.with_calls(replace(call, result=refused) if call in asked else call for call in settlement.calls)


def budget_of(offer: AccomplishEntry, left: int | None, cost_per_token: float | None = None) -> m.JobBudget | None:
    """Return what a job may use up; None where `left`, what an attempt may give it, or its money is too little for one.

    Its own attempts have shares of which so many fit in as a division and the first votes take. `left` is None where no
    attempt begins it, `cost_per_token` where nothing bounds its money.
    """
    if left is None:
        return m.JobBudget(tokens=offer.tokens, cost=offer.cost, tokens_per_attempt=offer.tokens_per_attempt)
    tokens = min(offer.tokens or left, left)
    share = min(offer.tokens_per_attempt, tokens // (1 + (offer.k or FIRST_VOTES)))
    money = None if cost_per_token is None else tokens * cost_per_token
    cost = min((each for each in (offer.cost, money) if each is not None), default=None)
    if share < SHARE_MIN or cost == 0:
        return None
    return m.JobBudget(tokens=tokens, cost=cost, tokens_per_attempt=share)


def job_of(call: m.ToolCall, author: Mapping[str, str], offer: AccomplishEntry, budget: m.JobBudget) -> m.RunJob:
    """Return the job that a permitted call asks for: of the same agent, in the name of the same person."""
    arguments: dict[str, Any] = parse_arguments(call.arguments)
    return m.RunJob(
        tenant=call.tenant,
        job_id=job_id(call.tenant, call.call_id),
        agent=call.agent,
        author=m.Author.model_validate(author),
        task=arguments["task"],
        context=arguments.get("context", ""),
        plan=m.JobPlan(k=offer.k, attempts_max=offer.attempts_max, tasks_max=offer.tasks_max),
        budget=budget,
        language=call.language,
        labels=call.labels,
        caller=m.JobCaller(conversation_id=call.conversation_id, call_id=call.call_id),
        depth=depth(call.labels) + 1,
    )
