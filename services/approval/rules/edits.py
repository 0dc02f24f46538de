"""Edits: an approver changes the arguments. Policy judges the changed call, then it takes the place of the old one.

What was proposed is kept beside what is approved. An edit voids every vote on the arguments before it and counts as
its maker's own approval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from services.approval.rules.approval import Approval
from shared.canonical import NotStrictJson, canonical_text, parse_arguments
from shared.messages import DecisionClaims, Edited, ToolCall
from shared.permit import digest_of
from shared.tool_schema import pointer

EditState = Literal["asked", "accepted", "refused"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One wish to change a call's arguments; decided by policy first."""

    edit_id: str
    approval_id: str
    person: str
    state: EditState
    #: Number of the arguments that it changes.
    base_revision: int
    arguments: str
    digest: str
    #: The editor's decision, signed by the gateway: read again when policy has answered.
    signed: str
    #: The gateway instance that waits for the answer.
    answer_to: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two argument records differ; an absent value is left out of `as_json`."""

    #: JSON pointer.
    at: str
    before: Any
    after: Any

    def as_json(self) -> dict[str, Any]:
        """Return {at, before?, after?}."""
        values = {"before": self.before, "after": self.after}
        return {"at": self.at} | {name: value for name, value in values.items() if value is not _ABSENT}


_ABSENT = object()


def revised(approval: Approval, claims: DecisionClaims) -> tuple[ToolCall | None, str]:
    """Return the call with the arguments that a person wants, or None and why it cannot be."""
    if not approval.approval_rule.edits:
        return None, "The rule does not let anybody change the arguments."
    if approval.call.shown_arguments != approval.call.arguments:
        return None, "Some of the arguments may not be seen, so nobody can change them."
    try:
        if canonical_text(parse_arguments(claims.arguments)) != claims.arguments:
            return None, "The arguments are not in canonical form."
    except NotStrictJson as error:
        return None, f"The arguments are not strict JSON: {error}."
    if claims.arguments == approval.call.arguments:
        return None, "Nothing was changed."
    before = approval.call.edited
    edited = Edited(
        person=claims.person,
        reason=claims.reason,
        proposed=before.proposed if before else approval.call.arguments,
        proposed_digest=before.proposed_digest if before else approval.call.digest,
    )
    changed = {"arguments": claims.arguments, "shown_arguments": claims.arguments, "edited": edited}
    call = approval.call.model_copy(update=changed)
    return call.model_copy(update={"digest": digest_of(call)}), ""


def applied(approval: Approval, call: ToolCall, summary: str) -> Approval:
    """Return the approval with other arguments: a new digest, a new card, and no votes any more."""
    number, revision = approval.arguments_revision + 1, approval.revision + 1
    return replace(approval, call=call, summary=summary, arguments_revision=number, revision=revision)


def differences(before: str, after: str) -> list[Difference]:
    """Return where two argument texts differ, in the order of their pointers. Lists are compared as wholes."""
    return sorted(_differences((), parse_arguments(before), parse_arguments(after)), key=lambda each: each.at)


def _differences(steps: tuple[str, ...], before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            yield from _differences((*steps, name), before.get(name, _ABSENT), after.get(name, _ABSENT))
    elif type(before) is not type(after) or before != after:
        yield Difference(pointer(steps), before, after)
