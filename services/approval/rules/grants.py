"""'Allow this from now on': what a person may ask for who approves a call, within the terms of the rule's author."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from placet.approval.rules.approval import Approval
from placet.contracts.canonical import parse_arguments
from placet.contracts.messages import DecisionClaims, GrantAsked, GrantTerms, GrantWish
from placet.domain import votes
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.grants import beyond


def problem(approval: Approval, claims: DecisionClaims, directory: Directory) -> str:
    """Return why a person cannot ask for this grant; empty where they can, and where they ask for none."""
    wish, terms = claims.grant, approval.approval_rule.grants
    if wish is None:
        return ""
    if terms is None:
        return "The rule does not let anybody allow such calls from now on."
    if not votes.approves_alone(approval, Voter.of(claims), directory):
        return "Only somebody whose approval decides alone can allow such calls from now on."
    if listed := _in_lists(parse_arguments(approval.call.arguments), wish.bounds or ()):
        return f"Nothing in a list may vary: {', '.join(listed)}."
    return _beyond(wish, terms)


def asked(grant_id: str, approval: Approval, claims: DecisionClaims) -> GrantAsked | None:
    """Return what policy is asked to remember; None where nothing is. Only an approval that was decided by approving.

    Never by an edit, a denial or an expiry.
    """
    wish, terms = claims.grant, approval.approval_rule.grants
    if wish is None or terms is None or claims.verb != "approve" or approval.closed_at is None:
        return None
    lasts = timedelta(seconds=wish.expires_after_seconds or terms.expires_after_seconds)
    return GrantAsked(
        tenant=approval.call.tenant,
        grant_id=grant_id,
        approval_id=approval.approval_id,
        owner=claims.person,
        key_id=claims.key_id,
        call=approval.call,
        scope=wish.scope,
        bounds=terms.bounds if wish.bounds is None else wish.bounds,
        uses=wish.uses or terms.uses,
        expires_at=approval.closed_at + lasts,
        rule=approval.rule,
        rulebook_digest=approval.rulebook_digest,
    )


def _in_lists(arguments: Any, bounds: Iterable[str]) -> list[str]:
    """Return those of the bounds whose path leads into a list, where nothing may vary."""
    found = []
    for bound in bounds:
        value = arguments
        for name in bound.partition("=")[0].split("."):
            if isinstance(value, list):
                found.append(bound)
                break
            value = value.get(name) if isinstance(value, dict) else None
    return found


def _beyond(wish: GrantWish, terms: GrantTerms) -> str:
    excess = beyond(
        terms,
        scope=wish.scope,
        bounds=wish.bounds or (),
        uses=wish.uses or 0,
        seconds=wish.expires_after_seconds or 0,
    )
    if excess is None:
        return ""
    seconds = terms.expires_after_seconds
    words = {
        "scope": f"The rule lets you allow such calls for this {terms.scope} at most.",
        "bounds": f"The rule does not let {', '.join(excess.bounds)} vary.",
        "unclear": f"Whether the rule lets {', '.join(excess.bounds)} vary cannot be told: take its own words.",
        "uses": f"The rule lets you allow {terms.uses} calls at most.",
        "expires_after_seconds": f"The rule lets you allow such calls for {seconds} seconds at most.",
    }
    return words[excess.term]
