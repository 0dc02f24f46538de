"""Trials of rulebooks on real PostgreSQL: policy tries nothing for longer than somebody waits for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psutil
import pytest

from placet.contracts.messages import RulebookTried, TryRulebook
from placet.policy.rules import Rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from placet.policy.store.rulebooks import PAGE_BYTES, past_proposals
from placet.policy.trial_process import NOBODY
from tests.support.house import Replica, a_replica
from tests.support.policy_builders import a_proposal

#: So much to check that it comes to the bound of a check, after about a second.
CHECKS = (
    "tools: {t: {description: T., category: safe_read, parameters: {type: object, properties: {a: {type: array,"
    " items: {type: object, properties: {n: {type: integer}}}}}}}}"
)
LONG = {"tool": "t", "arguments": {"a": [{"n": number} for number in range(90_000)]}}


@pytest.fixture
async def replica(policy_url: str, settings: PolicySettings) -> AsyncIterator[Replica]:
    """A replica that has its rulebook."""
    async with a_replica("policy", policy_url, partial(build, settings), keys=settings.keys) as replica:
        await replica.empty_tables()
        yield replica


async def now(replica: Replica) -> datetime:
    """Return what the clock of the database says."""
    (row,) = await replica.rows("SELECT clock_timestamp() AS now")
    moment: datetime = row["now"]
    return moment


def a_trial(until: datetime | None, **what: Any) -> TryRulebook:
    """Return a trial that somebody waits for until then."""
    fields = {"tenant": "acme", "trial_id": "trial-1", "answer_to": "gateway-1", "kind": "check"}
    return TryRulebook(until=until, **(fields | {"rulebook": "tools: {}"} | what))


async def test_a_trial_that_nobody_waits_for_any_more_is_none(replica: Replica) -> None:
    """Else policy would go on with what the gateway gave up; one that names no time is tried at any."""
    moment = await now(replica)
    times = (moment, moment + timedelta(seconds=60), None)
    answers = [await replica.send(a_trial(until)) for until in times]
    assert [[], [RulebookTried], [RulebookTried]] == [[type(each) for each in answer] for answer in answers]


async def test_a_trial_ends_when_nobody_waits_for_it_any_more(replica: Replica) -> None:
    """It has the time that is left, where that is less than a trial may take."""
    until = await now(replica) + timedelta(seconds=0.9)
    (answer,) = await replica.send(a_trial(until, kind="explain", rulebook=CHECKS, call=LONG))
    assert isinstance(answer, RulebookTried)
    assert re.search(r"more than a trial may: .* 0\.\d+ by the clock", answer.problems[0]["problem"])


async def test_the_past_is_read_in_pages_of_so_many_bytes(replica: Replica, rulebook: Rulebook) -> None:
    """All of it, the newest first, and however large calls are, no more of them at once than policy has room for."""
    large = {"amount": 500, "to": "x" * 60_000}
    proposed = [a_proposal(rulebook, "pay", arguments=large) for _ in range(40)]
    for each in proposed:
        await replica.send(each)
    past = past_proposals(replica.units.database, "acme", await now(replica), timedelta(days=1))
    pages = [page async for page in past]
    assert [each.call.call_id for each in reversed(proposed)] == [
        each.columns["call_id"] for page in pages for each in page
    ]
    sizes = [sum(len(each.facts) for each in page[:-1]) for page in pages]
    assert (True, True) == (len(pages) > 1, max(sizes) < PAGE_BYTES)


async def test_a_trial_that_others_end_says_so(replica: Replica) -> None:
    """It took no more than it may, as far as anybody knows."""
    rules = (f'  - {{name: r{number}, match: {{tool: t}}, when: "true", effect: allow}}' for number in range(1_000))
    slow = a_trial(None, rulebook="\n".join([CHECKS, "rules:", *rules]))
    others = set(psutil.Process().children())
    trying = asyncio.create_task(replica.send(slow))
    while not (begun := set(psutil.Process().children()) - others):  # noqa: ASYNC110 - the system tells nobody
        await asyncio.sleep(0.01)
    begun.pop().kill()
    (answer,) = await trying
    assert isinstance(answer, RulebookTried)
    assert ["the process that tried it was ended before it had an answer"] == [
        each["problem"] for each in answer.problems
    ]


async def test_others_than_the_house_are_told_that_nobody_was_looked_at(replica: Replica) -> None:
    """Whose trial it is, the gateway says; a directory that a text names is the house's to know."""
    text = f"{CHECKS}\ndirectory: people.yaml"
    found = []
    for tenant in ("acme", "default"):
        (answer,) = await replica.send(a_trial(None, rulebook=text, tenant=tenant))
        assert isinstance(answer, RulebookTried)
        found.append([note["problem"] for note in answer.report["notes"]])
    assert [[NOBODY], []] == found


async def test_slow_trials_of_one_tenant_keep_no_other_waiting(replica: Replica) -> None:
    """Two that take seconds came first, and a short one of another tenant is answered before both of them are."""
    rules = (f'  - {{name: r{number}, match: {{tool: t}}, when: "true", effect: allow}}' for number in range(1_000))
    slow = a_trial(None, tenant="evil", rulebook="\n".join([CHECKS, "rules:", *rules]))
    await asyncio.gather(*(replica.send(each) for each in (slow, slow, a_trial(None))))
    assert "evil" == [answer.tenant for answer in replica.all_sent(RulebookTried)][-1]
