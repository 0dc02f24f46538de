"""What a form of an approval's page asks for, as the same decision that the API takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import FormData

from placet.contracts.errors import Refused
from placet.contracts.messages import ApprovalRule
from placet.domain.approvers import identity_of
from placet.domain.catalog import load_catalog
from placet.domain.grants import same_again
from placet.domain.yaml_source import RulebookInvalid
from placet.gateway.approvals.argument_fields import (
    ArgumentField,
    NotAnArgument,
    arguments_from,
    arguments_from_json,
    fields_of,
)
from placet.gateway.approvals.forms import VERBS_OF, DecisionIn
from placet.gateway.conversations.items import arguments_value
from placet.gateway.store.read import Row
from placet.gateway.web.render import field
from placet.surfaces.card import ROWS_MAX
from placet.surfaces.texts import LANGUAGES, text

_NUMBER = re.compile(r"[0-9]{1,7}")
#: Begins the name of an argument's field.
ARGUMENT = "argument:"
#: What a form of arguments asks for that decides nothing: the page as it is now, with what was typed.
REDRAW = "redraw"


def wish_of(form: FormData, row: Row, rulebook: Path, language: str = LANGUAGES[0]) -> DecisionIn:
    """Return what a form asks for; raise Refused (400) with what is wrong, told in `language`.

    Reads the rulebook.
    """
    given: dict[str, Any] = {name: field(form, name) for name in ("decision", "digest", "response")}
    if given["decision"] == "deny-and-end":
        given |= {"decision": "deny", "end_turn": True}
    elif given["decision"] == "approve-again":
        given |= {"decision": "approve", "allow_from_now_on": _again(row)}
    given["reason"] = field(form, "reason").strip()
    given["restored_at"] = field(form, "restored_at") or None
    to = field(form, "to").strip()
    given["to"] = identity_of(to) if to and ":" not in to else to
    given["revision"] = _times(field(form, "revision"), 1) or None
    if kind := field(form, "response_kind"):
        given["response_kind"] = kind
    # Buttons that take no time stand in the same form.
    if given["decision"] in VERBS_OF["seconds"] and (minutes := field(form, "minutes")):
        given["seconds"] = _times(minutes, 60)
    if given["decision"] == "edit":
        try:
            given["arguments"] = _arguments(form, row, rulebook)
        except NotAnArgument as error:
            raise Refused(error.said(language), status=400, kind="invalid-request") from error
    if given["decision"] == "approve" and field(form, "from_now_on"):
        given["allow_from_now_on"] = _grant(form)
    try:
        return DecisionIn.model_validate(given)
    except ValidationError as error:
        wrong = "; ".join(f"{str(each['loc'][-1]).replace('_', ' ')}: {each['msg'].lower()}" for each in error.errors())
        raise Refused(
            text(language, "That cannot be sent. {wrong}.", wrong=wrong), status=400, kind="invalid-request"
        ) from error


def _again(row: Row) -> dict[str, Any]:
    """Return the narrowest grant that a rule offers; a whole one where it offers none, which is refused."""
    wish = same_again(ApprovalRule.model_validate(row["approval_rule"]))
    return wish.model_dump(exclude_none=True) if wish else {}


def edit_fields(row: Row, rulebook: Path) -> tuple[ArgumentField, ...]:
    """Return the fields for a call's arguments, by the schema it was checked with.

    None where that is not known, or where there would be more than a page draws: they are edited as JSON then.
    """
    arguments = arguments_value(row["arguments"])
    schema = _schema(row, rulebook)
    fields = fields_of(schema, arguments) if schema is not None and isinstance(arguments, dict) else ()
    return fields if len(fields) <= ROWS_MAX else ()


def _schema(row: Row, rulebook: Path) -> Mapping[str, Any] | None:
    try:
        spec = load_catalog(rulebook).get(row["tool"])
    except (OSError, RulebookInvalid):
        return None
    return spec.parameters if spec is not None and spec.schema_digest == row["schema_digest"] else None


def _arguments(form: FormData, row: Row, rulebook: Path) -> dict[str, Any]:
    if field(form, "as") != "fields":
        return arguments_from_json(field(form, "arguments"))
    fields = edit_fields(row, rulebook)
    typed = {each.name: field(form, ARGUMENT + each.name) for each in fields if ARGUMENT + each.name in form}
    return arguments_from(fields, as_meant(fields, typed), arguments_value(row["arguments"]))


def as_meant(fields: Iterable[ArgumentField], typed: Mapping[str, str]) -> dict[str, str]:
    """Return what came back with a form; of what nobody changed its value, for browsers know one kind of line break."""
    values = {each.name: each.value for each in fields}
    return {
        name: values[name] if in_lines(text) == in_lines(values.get(name, "")) else text for name, text in typed.items()
    }


def in_lines(value: str) -> str:
    """Return a text with one kind of line break."""
    return value.replace("\r\n", "\n").replace("\r", "\n")


def _grant(form: FormData) -> dict[str, Any]:
    wanted: dict[str, Any] = {"scope": field(form, "grant_scope") or "conversation"}
    if uses := field(form, "grant_uses"):
        wanted["uses"] = _times(uses, 1)
    if hours := field(form, "grant_hours"):
        wanted["expires_after_seconds"] = _times(hours, 3600)
    return wanted


def _times(text: str, seconds: int) -> int | str:
    """Return a number of units in seconds; what is no number is left for the form's own check."""
    return int(text) * seconds if _NUMBER.fullmatch(text) else text
