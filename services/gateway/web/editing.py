"""The form in which a person changes the arguments of a call: on an approval's page, and on its card in the chat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.datastructures import FormData

from placet.contracts.canonical import canonical_text, readable_text
from placet.gateway.approvals.argument_fields import ArgumentField
from placet.gateway.approvals.forms import ApprovalOut
from placet.gateway.store.read import Row
from placet.gateway.web.decision_form import ARGUMENT, REDRAW, edit_fields, in_lines
from placet.gateway.web.render import field
from placet.gateway.web.waiting import Waiting


@dataclass(frozen=True, slots=True)
class EditForm:
    """What the form shows."""

    #: A field for each argument; none where the schema is not known, and then `json` is edited.
    fields: tuple[ArgumentField, ...]
    #: What stands in the fields, by the arguments' names.
    values: Mapping[str, str]
    json: str
    #: Names of arguments that somebody typed and that somebody else changed meanwhile.
    overtaken: frozenset[str]
    #: Whether it is open: somebody has just sent it, and it could not be done, or means to go on with it.
    open: bool
    #: Why, as it was typed.
    reason: str = ""

    @property
    def drawn(self) -> str:
        """What comes back with the form, so that it is known then which fields were changed in it."""
        return canonical_text({each.name: _mark(each.value) for each in self.fields})


async def edit_form(
    card: Waiting, approval: ApprovalOut, row: Row, rulebook: Path, typed: FormData | None = None
) -> EditForm | None:
    """Return the form with what somebody `typed`; None where nobody may edit, or not all arguments may be seen."""
    arguments = approval.call.arguments
    if not (card.open and card.rule.edits and isinstance(arguments, dict)) or card.plan is not None:
        return None
    fields = await asyncio.to_thread(edit_fields, row, rulebook)
    drawn, typed_in = _drawn(typed), {each.name: _typed(typed, each) for each in fields}
    # What was only shown is not what somebody meant: another's edit of it stays.
    meant = {name: words for name, words in typed_in.items() if words is not None and _mark(words) != drawn.get(name)}
    values = {each.name: meant.get(each.name, each.value) for each in fields}
    overtaken = frozenset(
        each.name for each in fields if each.name in meant and drawn.get(each.name, "") not in {"", _mark(each.value)}
    )
    sent = typed if typed is not None and field(typed, "decision") in {"edit", REDRAW} else None
    reason = field(sent, "reason") if sent is not None else ""
    return EditForm(fields, values, readable_text(arguments), overtaken, sent is not None, reason)


def _typed(form: FormData | None, argument: ArgumentField) -> str | None:
    """Return what came back for an argument, so that a mistake costs nobody their words; None where nothing did."""
    name = f"{ARGUMENT}{argument.name}"
    return field(form, name) if form is not None and name in form else None


def _drawn(form: FormData | None) -> Mapping[str, str]:
    """Return marks of what stood in the fields when they were drawn; none where a form does not say it."""
    try:
        found = json.loads(field(form, "drawn")) if form is not None else {}
    except ValueError:
        return {}
    return {name: mark for name, mark in found.items() if isinstance(mark, str)} if isinstance(found, dict) else {}


def _mark(value: str) -> str:
    """Return what tells one value from another, whatever line breaks a browser sends."""
    return sha256(in_lines(value).encode()).hexdigest()[:16]
