"""The form in which a person changes the arguments of a call: on an approval's page, and on its card in the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import FormData

from placet.contracts.canonical import canonical_text
from placet.gateway.approvals.argument_fields import ArgumentField
from placet.gateway.approvals.forms import ApprovalOut
from placet.gateway.store.read import Row
from placet.gateway.web.decision_form import ARGUMENT, edit_fields
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
    #: Whether it is open: somebody has just sent it, and it could not be done.
    open: bool


async def edit_form(
    card: Waiting, approval: ApprovalOut, row: Row, rulebook: Path, typed: FormData | None = None
) -> EditForm | None:
    """Return the form with what somebody `typed`; None where nobody may edit, or not all arguments may be seen."""
    arguments = approval.call.arguments
    if not (card.open and card.rule.edits and isinstance(arguments, dict)) or card.plan is not None:
        return None
    fields = await asyncio.to_thread(edit_fields, row, rulebook)
    values = {each.name: _typed(typed, each) for each in fields}
    sent = typed is not None and field(typed, "decision") == "edit"
    return EditForm(fields, values, canonical_text(arguments), sent)


def _typed(form: FormData | None, argument: ArgumentField) -> str:
    """Return what somebody typed for an argument, so that a mistake costs nobody their words; else what it is."""
    name = f"{ARGUMENT}{argument.name}"
    return field(form, name) if form is not None and name in form else argument.value
