"""The verdict that stands: what the rules say, as far as their limits have room, unless a grant covers the call.

Rules are pure, so they say what a call asks of their limits, and here it is taken under lock, in the transaction that
stores the verdict. A rule without room is left out and the call is judged again: evaluation goes on below it.
"""

from __future__ import annotations

from placet.domain.directory import Directory
from placet.policy import records
from placet.policy.rules import CallFacts, Rulebook, Verdict, grants, judge, watched
from placet.policy.store import grants as grant_store
from placet.policy.store import watched as watched_store
from placet.policy.store.limits import Counters
from placet.runtime.work import Work


def takes_more(first: Verdict, rulebook: Rulebook) -> bool:
    """Tell whether more than the rules decides about a call: earlier calls, limits, grants, or people's denials."""
    windows = rulebook.uses_veto_windows or watched.is_watched(first)
    return bool(rulebook.uses_history or windows or first.demands or grants.usable_terms(first))


async def settle(work: Work, call: CallFacts, first: Verdict, rulebook: Rulebook, counters: Counters) -> Verdict:
    """Return the verdict on a call that stands; `first` is what the rules say. What it takes is taken."""
    verdict = await _within_limits(counters, call, first, rulebook)
    earlier = await watched_store.find(work, call) if rulebook.uses_veto_windows else ()
    if not earlier:
        verdict = await _by_grant(work, call, verdict, rulebook.directory)
    else:
        work.record(*(records.asked_again(call, verdict, each) for each in earlier))
        verdict = watched.held_again(verdict, earlier)
    if terms := watched.watched_under(verdict, earlier):
        await watched_store.add(work, call, terms)
    return verdict


async def _within_limits(counters: Counters, call: CallFacts, verdict: Verdict, rulebook: Rulebook) -> Verdict:
    exhausted: frozenset[str] = frozenset()
    while verdict.demands and not await counters.take(call.call_id, verdict.demands):
        counters.work.record(records.exhausted(call, verdict))
        exhausted |= {verdict.rule}
        verdict = judge(call, rulebook, exhausted)
    return verdict


async def _by_grant(work: Work, call: CallFacts, verdict: Verdict, directory: Directory) -> Verdict:
    terms, spec, approval = grants.usable_terms(verdict), verdict.spec, verdict.approval
    if terms is None or spec is None or approval is None:
        return verdict
    found = await grant_store.find_grants(work, verdict.rule, call, spec, grants.entry_digest(spec))
    found = grants.covering(found, call, approval, terms, directory)
    if found and "requester" in approval.exclude:
        found = grants.of_others(found, call, await grant_store.find_askers(work, call))
    for grant in found:
        uses_left = await grant_store.use_grant(work, grant.grant_id, call.call_id)
        if uses_left is not None:
            work.record(records.grant_used(call, grant, rule=verdict.rule, uses_left=uses_left))
            consent = grants.standing_behind(grant, call, approval, directory)
            return grants.allowed_by(grant, verdict, consent)
    return verdict
