"""How far a grant may go: one judgement for who is asked for it, for who keeps it, and for each of its uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from placet.contracts.messages.approvals import ApprovalRule, GrantScope, GrantTerms, GrantWish
from placet.contracts.messages.stage import COMMIT_TOOL

#: From narrow to wide.
SCOPES: tuple[GrantScope, ...] = get_args(GrantScope)
#: How long "the same again" is allowed at most, in seconds.
AGAIN_SECONDS = 3600


class Excess(NamedTuple):
    """The first term that a grant goes beyond."""

    term: Literal["scope", "bounds", "uses", "expires_after_seconds"]
    #: The arguments that it would let vary and the rule does not, sorted; of `bounds` alone.
    bounds: tuple[str, ...] = ()


def beyond(
    terms: GrantTerms, *, scope: GrantScope, bounds: Iterable[str] = (), uses: int = 0, seconds: float = 0.0
) -> Excess | None:
    """Return where a grant is wider than the rule's author lets people give it; None where it is not.

    `seconds` is how long it lasts. Where nothing is said of bounds, uses or seconds, they are within the terms.
    """
    if SCOPES.index(scope) > SCOPES.index(terms.scope):
        return Excess("scope")
    if unknown := set(bounds) - set(terms.bounds):
        return Excess("bounds", tuple(sorted(unknown)))
    if uses > terms.uses:
        return Excess("uses")
    if seconds > terms.expires_after_seconds:
        return Excess("expires_after_seconds")
    return None


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
