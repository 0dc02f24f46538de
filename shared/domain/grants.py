"""How far a grant may go: one judgement for who is asked for it, for who keeps it, and for each of its uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from placet.contracts.messages.approvals import ApprovalRule, GrantScope, GrantTerms, GrantWish
from placet.contracts.messages.stage import COMMIT_TOOL
from placet.domain.globs import is_within

#: From narrow to wide.
SCOPES: tuple[GrantScope, ...] = get_args(GrantScope)
#: How long "the same again" is allowed at most, in seconds.
AGAIN_SECONDS = 3600


class Excess(NamedTuple):
    """The first term that a grant goes beyond."""

    term: Literal["scope", "bounds", "unclear", "uses", "expires_after_seconds"]
    #: What it would let vary and the rule does not, or of which that cannot be told, sorted; of `bounds` and `unclear`.
    bounds: tuple[str, ...] = ()


def beyond(
    terms: GrantTerms, *, scope: GrantScope, bounds: Iterable[str] = (), uses: int = 0, seconds: float = 0.0
) -> Excess | None:
    """Return where a grant is wider than the rule's author lets people give it; None where it is not.

    `seconds` is how long it lasts. Where nothing is said of bounds, uses or seconds, they are within the terms.
    """
    if SCOPES.index(scope) > SCOPES.index(terms.scope):
        return Excess("scope")
    lets = {bound: _lets_vary(terms, bound) for bound in sorted(bounds)}
    if wider := tuple(bound for bound, known in lets.items() if known is False):
        return Excess("bounds", wider)
    if unclear := tuple(bound for bound, known in lets.items() if known is None):
        return Excess("unclear", unclear)
    if uses > terms.uses:
        return Excess("uses")
    if seconds > terms.expires_after_seconds:
        return Excess("expires_after_seconds")
    return None


def _lets_vary(terms: GrantTerms, bound: str) -> bool | None:
    """Tell whether the rule lets an argument vary as far as a bound does; None where that cannot be told."""
    if bound in terms.bounds:
        return True
    name, _, glob = bound.partition("=")
    known = [
        is_within(glob, wide) for at, _, wide in (each.partition("=") for each in terms.bounds) if at == name and wide
    ]
    return True in known or (None if None in known else False)


def same_again(rule: ApprovalRule) -> GrantWish | None:
    """Return the narrowest grant that is offered beside an approval: this conversation, for an hour at most.

    Numbers may be smaller where the rule says so; every text stays, so that what was approved for one is for no other.
    None where the rule lets nobody give one, or one person's approval alone would not decide.
    """
    if rule.grants is None or rule.approvals > 1 or rule.alternatives:
        return None
    return GrantWish(
        bounds=[bound for bound in rule.grants.bounds if "=" not in bound],
        uses=rule.grants.uses,
        expires_after_seconds=min(AGAIN_SECONDS, rule.grants.expires_after_seconds),
    )


def offered_again(rule: ApprovalRule, tool: str) -> GrantWish | None:
    """Return the narrowest grant that is offered with the approval of a call; never with that of a commit."""
    return None if tool == COMMIT_TOOL else same_again(rule)
