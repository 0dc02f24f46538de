"""Edits: an approver changes the arguments. Policy judges the changed call, then it takes the place of the old one.

What was proposed is kept beside what is approved. An edit voids every vote on the arguments before it and counts as
its maker's own approval. A redacted value that an editor leaves as they see it, masked, keeps its stored value; another
value in its place takes its place. What people may see of the new arguments is for policy to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from placet.approval.rules.approval import Approval
from placet.approval.states import EditState
from placet.contracts.canonical import NotStrictJson, canonical_text, parse_arguments
from placet.contracts.errors import PlacetError
from placet.contracts.messages import DecisionClaims, Edited, EditJudged, ToolCall
from placet.contracts.messages.tool_calls import ArgumentsChange
from placet.contracts.permit import digest_of
from placet.domain.card_text import REDACTED, is_redaction
from placet.domain.json_pointer import pointer
from placet.domain.origins import unchanged


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


_ABSENT = object()


def revised(approval: Approval, claims: DecisionClaims) -> tuple[ToolCall | None, str]:
    """Return the call with the arguments that a person wants, or None and why it cannot be."""
    if not (edits := approval.approval_rule.edits) or not claims.arguments:
        nothing = "An edit says what to change: new arguments, or entries of a commit to leave out."
        return None, nothing if edits else "The rule does not allow changing the arguments."
    try:
        wanted = parse_arguments(claims.arguments)
        if canonical_text(wanted) != claims.arguments:
            return None, "The arguments are not in canonical form."
        arguments = canonical_text(_unmasked(approval.call, wanted))
    except NotStrictJson as error:
        return None, f"The arguments are not strict JSON: {error}."
    except _MaskWithoutValue as error:
        return None, f"Nothing is hidden at {error}, so {REDACTED} cannot stand there: write the value itself."
    if arguments == approval.call.arguments:
        return None, "Nothing was changed: at least one argument must get another value."
    before = approval.call.edited
    edited = Edited(
        person=claims.person,
        reason=claims.reason,
        changes=_changes(approval.call),
        proposed=before.proposed if before else approval.call.shown_arguments,
        proposed_digest=before.proposed_digest if before else approval.call.digest,
    )
    origins = unchanged(approval.call.origins, approval.call.arguments, arguments)
    # Nothing of it may be seen until policy has said what.
    call = approval.call.model_copy(update={"arguments": arguments, "shown_arguments": "", "origins": origins})
    digest = digest_of(call)
    edited = edited.model_copy(update={"restored": digest == edited.proposed_digest})
    return call.model_copy(update={"digest": digest, "edited": edited}), ""


def _changes(call: ToolCall) -> list[ArgumentsChange]:
    """Return the edits that a call has behind it."""
    edited = call.edited
    if edited is None or edited.changes:
        return edited.changes if edited else []
    # From before every edit was kept: only the last one is known.
    return [ArgumentsChange(person=edited.person, reason=edited.reason, arguments=call.shown_arguments)]


def shown(call: ToolCall, judged: EditJudged) -> ToolCall | None:
    """Return a changed call with what people may see of it as policy says; None where that is not the call's."""
    text = judged.shown_arguments
    try:
        if text and is_redaction(parse_arguments(text), parse_arguments(call.arguments)):
            return call.model_copy(update={"shown_arguments": text})
    except NotStrictJson:
        return None
    return None


def applied(approval: Approval, call: ToolCall, summary: str) -> Approval:
    """Return the approval with other arguments: a new digest, a new card, and no votes any more."""
    number, revision = approval.arguments_revision + 1, approval.revision + 1
    if (edited := call.edited) is not None:
        last = ArgumentsChange(person=edited.person, reason=edited.reason, arguments=call.shown_arguments)
        kept = {"changes": [*edited.changes, last], "revision": revision}
        call = call.model_copy(update={"edited": edited.model_copy(update=kept)})
    return replace(approval, call=call, summary=summary, arguments_revision=number, revision=revision, seats=None)


def differences(before: ToolCall, after: ToolCall) -> list[dict[str, Any]]:
    """Return where the arguments of two calls differ, each as {at, before?, after?}, in the order of their pointers.

    Lists are compared as wholes. What stands in a difference is what people may see: of a redacted value only that it
    changed.
    """
    sides = (_Side.of(before), _Side.of(after))
    return sorted(_differences((), *sides), key=lambda each: str(each["at"]))


@dataclass(frozen=True, slots=True)
class _Side:
    """A value, and what may be seen of it."""

    real: Any
    shown: Any

    @classmethod
    def of(cls, call: ToolCall) -> _Side:
        return cls(parse_arguments(call.arguments), parse_arguments(call.shown_arguments))

    def at(self, name: str) -> _Side:
        hidden = not isinstance(self.shown, dict)
        return _Side(self.real.get(name, _ABSENT), REDACTED if hidden else self.shown.get(name, _ABSENT))

    @property
    def is_open(self) -> bool:
        """Whether it is an object whose members may be told apart."""
        return isinstance(self.real, dict) and isinstance(self.shown, dict)


def _differences(steps: tuple[str, ...], before: _Side, after: _Side) -> Iterator[dict[str, Any]]:
    if before.is_open and after.is_open:
        for name in before.real.keys() | after.real.keys():
            yield from _differences((*steps, name), before.at(name), after.at(name))
    elif _form(before.real) != _form(after.real):
        values = {"at": pointer(steps), "before": before.shown, "after": after.shown}
        yield {name: value for name, value in values.items() if value is not _ABSENT}


def _form(value: Any) -> str:
    """Return what tells two values apart, empty where there is none: Python takes `[1]` for `[true]`."""
    return "" if value is _ABSENT else canonical_text(value)


class _MaskWithoutValue(PlacetError):
    """A mask stands where nothing is hidden, so it stands for nothing."""


def _unmasked(call: ToolCall, wanted: Any) -> Any:
    """Return `wanted` with the stored values where it has the masks that people are shown."""
    if call.shown_arguments == call.arguments:
        return wanted
    return _filled((), wanted, parse_arguments(call.shown_arguments), parse_arguments(call.arguments))


def _filled(steps: tuple[str, ...], wanted: Any, shown: Any, real: Any) -> Any:
    if wanted == REDACTED:
        if shown != REDACTED:
            raise _MaskWithoutValue(pointer(steps))
        return real
    match wanted:
        case dict():
            pairs = (shown, real) if isinstance(shown, dict) else ({}, {})
            return {
                name: _filled((*steps, name), value, *(each.get(name, _ABSENT) for each in pairs))
                for name, value in wanted.items()
            }
        case list():
            # Which hidden value is meant cannot be told once the list has another length.
            same = isinstance(shown, list) and len(shown) == len(wanted)
            nothing = [_ABSENT] * len(wanted)
            members = zip(wanted, shown if same else nothing, real if same else nothing, strict=True)
            return [_filled((*steps, str(number)), *member) for number, member in enumerate(members)]
        case _:
            return wanted
