"""Veto windows: what people denied is not let through when it is asked again. Pure.

A call whose rule has a veto window is watched from the moment it is held, not from its denial: policy hears of the
denial later than the agent may, and in between the same call must not slip through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from placet.contracts.canonical import sha256_hex
from placet.contracts.messages.approvals import ApprovalRule
from placet.domain.card_text import visible
from placet.domain.strictest import strictest
from placet.policy.rules.model import Effect
from placet.policy.rules.verdicts import VETO_WINDOW, Verdict

#: What the model is told where a rule would stage what waits, or was denied.
NOT_STAGED = (
    "The call did not run: the same waits for people, or they denied it lately, and meanwhile it is not staged."
)
#: Denials that people are told of when a call is asked again.
DENIALS_MAX = 3


@dataclass(frozen=True, slots=True)
class Watched:
    """An earlier call of the same tool, in reach of its rule, that waits for people, or that they denied lately."""

    call_id: str
    approval: ApprovalRule
    #: None while it waits, as far as policy knows.
    denied_at: datetime | None = None
    denied_by: str = ""
    #: In the words of who denied it.
    reason: str = ""


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """Return what makes two calls of a tool the same, SHA-256; raise NotStrictJson where they have no such form."""
    return sha256_hex(dict(arguments))


def is_watched(verdict: Verdict) -> bool:
    """Tell whether a call with this verdict is to be remembered."""
    held = verdict.effect is Effect.REQUIRE_APPROVAL
    return held and verdict.approval is not None and verdict.approval.veto_window_seconds > 0


#: What stays as it is for any call.
_OWN: dict[str, Any] = {"grants": None, "judged_again": True, "independent": False}


def terms_of(earlier: Sequence[Watched]) -> ApprovalRule:
    """Return who decides what earlier calls stand in the way of: the people of each, and none of them allows more.

    What the rules of these calls say of how such a call runs is not said of this one, which another rule would let run.
    """
    first = earlier[0].approval
    window = {name: getattr(first, name) for name in ("veto_window_seconds", "veto_on", "veto_within")}
    return strictest([each.approval for each in earlier]).model_copy(update=_OWN | window)


def watched_under(verdict: Verdict, earlier: Sequence[Watched]) -> ApprovalRule | None:
    """Return the terms under which a call is remembered; None where it is not.

    What a window held has those of the first call in its way alone: windows that meet do not add up to one that reaches
    further than each, nor to people who must all say yes to whatever comes after.
    """
    if not is_watched(verdict):
        return None
    return earlier[0].approval if earlier and verdict.rule == VETO_WINDOW else verdict.approval


def held_again(verdict: Verdict, earlier: Sequence[Watched]) -> Verdict:
    """Return the verdict on a call that earlier ones, at least one, stand in the way of.

    What would run is held for the people of each of them, and nobody can allow it from now on. What is held anyway
    stays with the people of its rule. What would be staged is refused: its commit asks others, or nobody, and those who
    denied it must not say yes in their place. What does not run stays as it is.
    """
    match verdict.effect:
        case Effect.ALLOW:
            return replace(
                verdict,
                effect=Effect.REQUIRE_APPROVAL,
                rule=VETO_WINDOW,
                reason=_told(earlier),
                model_reason="",
                approval=terms_of(earlier),
            )
        case Effect.STAGE:
            return replace(
                verdict,
                effect=Effect.DENY,
                rule=VETO_WINDOW,
                reason=_told(earlier),
                model_reason=NOT_STAGED,
                approval=None,
                plan=None,
            )
        case Effect.REQUIRE_APPROVAL if earlier[0].denied_at:
            return replace(verdict, reason=f"{verdict.reason} {_told(earlier)}")
        case _:
            return verdict


def _told(earlier: Sequence[Watched]) -> str:
    """Return what people are told: of denials, which come first, else of what waits."""
    denials = [_denial(each, each.denied_at) for each in earlier if each.denied_at is not None]
    return " ".join(denials[:DENIALS_MAX]) or "Asked again while the same waits for people."


def _denial(earlier: Watched, denied_at: datetime) -> str:
    at = f"{denied_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    words = f': "{visible(earlier.reason)}"' if earlier.reason else ""
    return f"Asked again: {visible(earlier.denied_by)} denied it at {at}{words}."
