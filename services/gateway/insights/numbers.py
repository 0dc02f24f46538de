"""The numbers of insights, from approvals and votes that were loaded. Pure; times are given, durations are seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil

#: Upper bounds of the histogram of the time to decide, in seconds; what took longer is one more bar.
BOUNDS = (10, 60, 300, 900, 3_600, 14_400, 86_400)
#: Fewest decisions, each an approval as proposed, after which a rule change is suggested.
ALWAYS_MIN = 20
#: Votes of one person that follow each other faster than this, in seconds, are one decision: a batch of the inbox.
TOGETHER_SECONDS = 1.0
#: Characters that a fast reader takes in within a second: twice the usual 250 words a minute.
CHARACTERS_PER_SECOND = 50
#: Ends of approvals that a person decided.
DECIDED = frozenset({"approved", "denied", "answered"})


@dataclass(frozen=True, slots=True)
class Held:
    """One call that waited for people."""

    approval_id: str
    rule: str
    tool: str
    state: str
    edited: bool
    created_at: datetime
    closed_at: datetime | None
    #: Length of its card: the summary and the arguments.
    characters: int
    #: Digest of its arguments.
    said: str = ""


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote that counted."""

    approval_id: str
    person: str
    verb: str
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class RuleNumbers:
    """How calls that one rule held ended, and how long people took to decide them."""

    rule: str
    held: int
    pending: int
    #: Approved as proposed; what was edited and approved stands in `edited`.
    approved: int
    edited: int
    denied: int
    answered: int
    expired: int
    #: Withdrawn before a decision: cancelled, or overtaken by a newer message.
    overtaken: int
    #: Seconds from request to decision within which half and nine tenths were decided; None where none was.
    p50: float | None
    p90: float | None
    #: Decisions by their time: one number per bound of BOUNDS, and one for all above.
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PersonNumbers:
    """What one person decided."""

    person: str
    decisions: int
    approvals: int
    #: Approvals given sooner than a fast reader reads the card.
    unread: int
    #: Most decisions within one clock hour.
    busiest_hour: int


@dataclass(frozen=True, slots=True)
class AlwaysApproved:
    """A tool whose calls one rule held and people always approved as they were."""

    rule: str
    tool: str
    #: Calls; what a batch approved at once is one decision.
    approved: int
    decisions: int
    people: int
    #: How many different arguments they had.
    arguments: int


def waiting(held: Sequence[Held], since: datetime, now: datetime, points: int) -> list[tuple[datetime, int]]:
    """Return how many of these waited at once, at most, up to each of `points` moments and after the one before.

    The moments are evenly apart; the last one is `now`.
    """
    step = (now - since) / points
    changes = [(each.created_at, 1) for each in held]
    changes += [(each.closed_at, -1) for each in held if each.closed_at is not None]
    # Of what happens at one moment, what closes closes first.
    left, found, count = sorted(changes, reverse=True), [], 0
    for at in [*(since + step * number for number in range(1, points)), now]:
        most = count
        while left and left[-1][0] <= at:
            count += left.pop()[1]
            most = max(most, count)
        found.append((at, most))
    return found


def by_rule(held: Iterable[Held]) -> list[RuleNumbers]:
    """Return the numbers of each rule, the one that held most first."""
    rules: dict[str, list[Held]] = defaultdict(list)
    for each in held:
        rules[each.rule].append(each)
    found = [_rule(rule, of_rule) for rule, of_rule in rules.items()]
    return sorted(found, key=lambda each: (-each.held, each.rule))


def _rule(rule: str, held: Sequence[Held]) -> RuleNumbers:
    ends = Counter("edited" if each.state == "approved" and each.edited else each.state for each in held)
    took = sorted(
        (each.closed_at - each.created_at).total_seconds()
        for each in held
        if each.closed_at is not None and each.state in DECIDED
    )
    return RuleNumbers(
        rule=rule,
        held=len(held),
        pending=ends["pending"],
        approved=ends["approved"],
        edited=ends["edited"],
        denied=ends["denied"],
        answered=ends["answered"],
        expired=ends["expired"],
        overtaken=ends["withdrawn"],
        p50=percentile(took, 50),
        p90=percentile(took, 90),
        histogram=histogram(took),
    )


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that `percent` of the sorted values do not exceed; None of no values."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)] if ordered else None


def histogram(values: Iterable[float]) -> tuple[int, ...]:
    """Return how many values are at most each bound of BOUNDS and above the one before, and how many are above all."""
    counts = [0] * (len(BOUNDS) + 1)
    for value in values:
        counts[next((number for number, bound in enumerate(BOUNDS) if value <= bound), len(BOUNDS))] += 1
    return tuple(counts)


def by_person(held: Iterable[Held], votes: Sequence[Vote]) -> list[PersonNumbers]:
    """Return what each person decided, whoever decided most first. `votes` are in the order of time."""
    cards = {each.approval_id: each for each in held}
    people = _by_voter(cards, votes)
    found = [_person(person, theirs, cards) for person, theirs in people.items()]
    return sorted(found, key=lambda each: (-each.decisions, each.person))


def unread(held: Iterable[Held], votes: Iterable[Vote]) -> set[str]:
    """Return the ids of what was approved sooner than a fast reader reads it, by anybody. `votes` are in order."""
    cards = {each.approval_id: each for each in held}
    return {vote.approval_id for theirs in _by_voter(cards, votes).values() for vote in _unread(theirs, cards)}


def _by_voter(cards: Mapping[str, Held], votes: Iterable[Vote]) -> dict[str, list[Vote]]:
    """Return the votes on these cards by who gave them, in their order."""
    people: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        if vote.approval_id in cards:
            people[vote.person].append(vote)
    return people


def _unread(votes: Sequence[Vote], cards: dict[str, Held]) -> list[Vote]:
    """Return the approvals of one person that were given sooner than a fast reader reads the card."""
    found, before = [], None
    for vote in votes:
        card = cards[vote.approval_id]
        # One card is read at a time: not before it was there, nor before the decision on the one before.
        shown_at = card.created_at if before is None else max(card.created_at, before)
        shown = (vote.decided_at - shown_at).total_seconds()
        if vote.verb == "approve" and shown < card.characters / CHARACTERS_PER_SECOND:
            found.append(vote)
        before = vote.decided_at
    return found


def _person(person: str, votes: Sequence[Vote], cards: dict[str, Held]) -> PersonNumbers:
    hours = Counter(vote.decided_at.replace(minute=0, second=0, microsecond=0) for vote in votes)
    approvals = sum(vote.verb == "approve" for vote in votes)
    return PersonNumbers(person, len(votes), approvals, len(_unread(votes, cards)), max(hours.values()))


def by_hour(votes: Iterable[Vote]) -> list[int]:
    """Return how many decisions were made in each hour of the day, UTC, from midnight on."""
    found = Counter(vote.decided_at.astimezone(UTC).hour for vote in votes)
    return [found[hour] for hour in range(24)]


def always_approved(held: Iterable[Held], votes: Iterable[Vote]) -> list[AlwaysApproved]:
    """Return tools of rules whose calls people always approved unedited, in at least ALWAYS_MIN decisions, most first.

    One denied, answered or edited call takes its tool out; expired and overtaken calls say nothing. `votes` are in the
    order of time; the last one on an approval decided it.
    """
    approved: dict[tuple[str, str], list[Held]] = defaultdict(list)
    otherwise: set[tuple[str, str]] = set()
    for each in held:
        if each.state == "approved" and not each.edited:
            approved[each.rule, each.tool].append(each)
        elif each.state in DECIDED:
            otherwise.add((each.rule, each.tool))
    deciding = {vote.approval_id: vote for vote in votes}
    found = [
        _always(*key, calls, [deciding[each.approval_id] for each in calls if each.approval_id in deciding])
        for key, calls in approved.items()
        if key not in otherwise
    ]
    enough = [each for each in found if each.decisions >= ALWAYS_MIN]
    return sorted(enough, key=lambda each: (-each.decisions, -each.approved, each.rule, each.tool))


def _always(rule: str, tool: str, calls: Sequence[Held], deciding: Iterable[Vote]) -> AlwaysApproved:
    """Return how often, by how many and for how many different arguments these calls were approved."""
    cards = {each.approval_id: each for each in calls}
    voters = _by_voter(cards, sorted(deciding, key=lambda vote: vote.decided_at))
    decisions = sum(
        (vote.decided_at - before.decided_at).total_seconds() >= TOGETHER_SECONDS
        for theirs in voters.values()
        for before, vote in pairwise(theirs)
    )
    return AlwaysApproved(
        rule, tool, len(calls), decisions + len(voters), len(voters), len({each.said for each in calls})
    )


def without_names(people: Iterable[PersonNumbers]) -> list[PersonNumbers]:
    """Return the same numbers under `person 1`, `person 2`…, in the order given: for houses that show no names here."""
    return [replace(each, person=f"person {number}") for number, each in enumerate(people, 1)]
