"""The form by which a person changes a call's arguments in Slack: one input per argument, made from the tool's schema.

Pure. What cannot be edited faithfully in an input is refused here rather than changed by the way: hidden characters,
texts that are too long, more arguments than a modal holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_strictly
from placet.domain.card_text import visible
from placet.domain.catalog import ToolSpec, validate_arguments
from placet.gateway.approvals.argument_fields import ArgumentField, NotAnArgument, fields_of, value_of
from placet.gateway.slack.interactions import Input
from placet.surfaces import block_kit as kit
from placet.surfaces.block_kit import Block
from placet.surfaces.leaves import path_of
from placet.surfaces.plan import Plan, line_of
from placet.surfaces.texts import text

#: Inputs of one form; beside them stands the reason.
FIELDS_MAX = 60
#: Longest text that stands in one line, in characters.
LINE_MAX = 80
#: Prefix of the block ids of arguments.
PREFIX = "argument."
REASON = "reason"
#: The same of the boxes of entries to leave out; how many Slack takes in one input, and how many one form has.
LEAVE_PREFIX, LEAVE = "leave.", "leave"
GROUP, ENTRIES_MAX = 10, 300

#: Kinds of inputs, which are their action ids: how their text becomes a value.
TEXT, JSON, CHOICE = "text", "json", "choice"


class NotHere(Exception):
    """The arguments cannot be changed in Slack; the text says why."""


def edit_fields(arguments: Mapping[str, Any], spec: ToolSpec | None) -> list[Block]:
    """Return one input per argument of the call and of its tool's schema; raise NotHere.

    `spec` is None where the tool is unknown.
    """
    fields = fields_of(spec.parameters if spec else None, arguments)
    if len(fields) > FIELDS_MAX:
        raise NotHere("it has too many arguments for a form in Slack")
    if not fields:
        raise NotHere("it has no arguments")
    return [_input_of(field, arguments) for field in fields]


def leave_fields(plan: Plan, locale: str) -> list[Block]:
    """Return boxes to check for the entries of a commit that are to be left out, in groups as Slack takes them.

    Raise NotHere.
    """
    if len(plan.entries) > ENTRIES_MAX:
        raise NotHere("it has too many entries for a form in Slack")
    made: list[Block] = []
    for start in range(0, len(plan.entries), GROUP):
        group = plan.entries[start : start + GROUP]
        options = [
            {"text": kit.plain(f"{each.position}. {line_of(each, locale)}", kit.BUTTON_MAX), "value": each.call_id}
            for each in group
        ]
        label = text(locale, "Leave out of {first} to {last}", first=group[0].position, last=group[-1].position)
        element = {"type": "checkboxes", "action_id": LEAVE, "options": options}
        made.append(kit.input_block(f"{LEAVE_PREFIX}{start}", label, element, optional=True))
    return made


def edited(
    inputs: Sequence[Input], arguments: Mapping[str, Any], spec: ToolSpec | None, locale: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments that a submitted form asks for, and what is wrong with them by block id.

    An input that was left empty leaves its argument out, unless it is the empty text that was there before.
    """
    made, problems = dict(arguments), dict[str, str]()
    fields = {field.name: field for field in fields_of(spec.parameters if spec else None, arguments)}
    for given in inputs:
        name = given.block_id.removeprefix(PREFIX)
        if name == given.block_id:
            continue
        if not given.text and arguments.get(name) != "":
            made.pop(name, None)
            continue
        try:
            made[name] = _meant(given, fields.get(name))
        except NotAnArgument as error:
            problems[given.block_id] = error.said(locale)
        except NotStrictJson as error:
            problems[given.block_id] = text(locale, "This is not a JSON value: {error}", error=error)
    for name in (each.name for each in fields.values() if each.required and each.name not in made):
        if any(given.block_id == PREFIX + name for given in inputs):
            problems.setdefault(PREFIX + name, text(locale, "{name}: this is needed.", name=name))
    if not problems and spec is not None:
        blocks = {given.block_id for given in inputs}
        for wrong in validate_arguments(spec, made):
            block = PREFIX + next(iter(path_of(wrong.pointer)), "")
            problems.setdefault(block if block in blocks else REASON, wrong.detail)
    return made, {block_id: kit.cut(words, kit.ERROR_MAX) for block_id, words in problems.items()}


def _input_of(field: ArgumentField, arguments: Mapping[str, Any]) -> Block:
    if visible(field.name) != field.name or len(PREFIX + field.name) > 255:  # noqa: PLR2004 - Slack's limit
        raise NotHere("the name of an argument cannot be shown in a form")
    select = _select(field)
    if select is not None:
        return _input(field, select)
    value = arguments.get(field.name)
    is_text = _is_text(field, value)
    shown = "" if field.name not in arguments else str(value) if is_text else _json(value)
    if len(shown) > kit.INPUT_MAX:
        raise NotHere("an argument is too long for a form in Slack")
    if any(visible(line) != line for line in shown.split("\n")):
        raise NotHere("an argument has hidden characters")
    long = len(shown) > LINE_MAX or "\n" in shown or (not is_text and isinstance(value, dict | list))
    element = {"type": "plain_text_input", "action_id": TEXT if is_text else JSON, "multiline": long}
    return _input(field, element | ({"initial_value": shown} if shown else {}))


def _is_text(field: ArgumentField, value: Any) -> bool:
    """Tell whether an input takes a text as it is: a text is edited as one, also where no schema says so."""
    texts = field.kind in {"text", "long"} or (
        field.choices and all(isinstance(each, str) for each in field.choices.values())
    )
    return isinstance(value, str) or (value is None and bool(texts))


def _select(field: ArgumentField) -> Block | None:
    """Return a list to choose from; None where there is none, or Slack cannot show these values."""
    labels = list(field.choices)
    fits = len(labels) <= kit.OPTIONS_MAX and all(
        len(each) <= kit.BUTTON_MAX and visible(each) == each for each in labels
    )
    if not labels or not fits:
        return None
    options = [{"text": kit.plain(each, kit.BUTTON_MAX), "value": each} for each in labels]
    element: Block = {"type": "static_select", "action_id": CHOICE, "options": options}
    return element | {"initial_option": options[labels.index(field.value)]} if field.value in labels else element


def _input(field: ArgumentField, element: Block) -> Block:
    return kit.input_block(PREFIX + field.name, field.name, element, optional=True, hint=visible(field.description))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) else None)


def _meant(given: Input, field: ArgumentField | None) -> Any:
    """Return the value of an input; raise NotAnArgument or NotStrictJson where it has none."""
    if given.kind == TEXT:
        return given.text
    if given.kind == CHOICE and field is not None and field.kind == "choice":
        return value_of(field, given.text)
    value = parse_strictly(given.text.encode())
    canonical_text(value)
    return value
