"""The form by which a person changes a call's arguments in Slack: one input per argument, made from the tool's schema.

Pure. What cannot be edited faithfully in an input is refused here rather than changed by the way: hidden characters,
texts that are too long, more arguments than a modal holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.gateway.slack.interactions import Input
from shared import block_kit as kit
from shared.block_kit import Block
from shared.canonical import NotStrictJson, canonical_text, parse_strictly
from shared.card_text import visible
from shared.catalog import ToolSpec, validate_arguments
from shared.texts import text

#: Inputs of one form; beside them stands the reason.
FIELDS_MAX = 60
#: Longest text that stands in one line, in characters.
LINE_MAX = 80
#: Prefix of the block ids of arguments.
PREFIX = "argument."
REASON = "reason"

#: Kinds of inputs, which are their action ids: how their text becomes a value.
TEXT, JSON, CHOICE = "text", "json", "choice"


@dataclass(frozen=True, slots=True)
class NotHere:
    """Why the arguments cannot be changed in Slack."""

    why: str


def edit_fields(arguments: Mapping[str, Any], spec: ToolSpec | None) -> list[Block] | NotHere:
    """Return one input per argument of the call and of its tool's schema; `spec` None where the tool is unknown."""
    properties: Mapping[str, Any] = spec.parameters.get("properties", {}) if spec else {}
    names = [*arguments, *(name for name in properties if name not in arguments)]
    if len(names) > FIELDS_MAX:
        return NotHere("it has too many arguments for a form in Slack")
    made: list[Block] = []
    for name in names:
        if visible(name) != name or len(PREFIX + name) > 255:  # noqa: PLR2004 - Slack's limit of a block id
            return NotHere("the name of an argument cannot be shown in a form")
        field = _field(name, arguments, properties.get(name))
        if isinstance(field, NotHere):
            return field
        made.append(field)
    return made or NotHere("it has no arguments")


def edited(
    inputs: Sequence[Input], arguments: Mapping[str, Any], spec: ToolSpec | None, locale: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments that a submitted form asks for, and what is wrong with them by block id.

    An input that was left empty leaves its argument out, unless it is the empty text that was there before.
    """
    made, problems = dict(arguments), dict[str, str]()
    for given in inputs:
        name = given.block_id.removeprefix(PREFIX)
        if name == given.block_id:
            continue
        if not given.text and arguments.get(name) != "":
            made.pop(name, None)
            continue
        try:
            made[name] = given.text if given.kind == TEXT else _value(given.text)
        except NotStrictJson as error:
            problems[given.block_id] = kit.cut(
                text(locale, "This is no JSON value: {error}", error=error), kit.ERROR_MAX
            )
    if not problems and spec is not None:
        blocks = {given.block_id for given in inputs}
        for wrong in validate_arguments(spec, made):
            step = wrong.pointer.split("/")[1] if "/" in wrong.pointer else ""
            block = PREFIX + step.replace("~1", "/").replace("~0", "~")
            problems.setdefault(block if block in blocks else REASON, kit.cut(wrong.detail, kit.ERROR_MAX))
    return made, problems


def _field(name: str, arguments: Mapping[str, Any], schema: Any) -> Block | NotHere:
    schema = schema if isinstance(schema, dict) else {}
    value = arguments.get(name)
    choices = [True, False] if schema.get("type") == "boolean" else schema.get("enum")
    if isinstance(choices, list) and (select := _select(choices, value, given=name in arguments)):
        return _input(name, select, schema)
    is_text = isinstance(value, str) if name in arguments else schema.get("type") == "string"
    shown = "" if name not in arguments else str(value) if is_text else _json(value)
    if len(shown) > kit.INPUT_MAX:
        return NotHere("an argument is too long for a form in Slack")
    if any(visible(line) != line for line in shown.split("\n")):
        return NotHere("an argument has hidden characters")
    long = len(shown) > LINE_MAX or "\n" in shown or (not is_text and isinstance(value, dict | list))
    element = {"type": "plain_text_input", "action_id": TEXT if is_text else JSON, "multiline": long}
    return _input(name, element | ({"initial_value": shown} if shown else {}), schema)


def _select(choices: list[Any], value: Any, *, given: bool) -> Block | None:
    """Return a list to choose from; None where Slack cannot show these values."""
    texts = [canonical_text(each) for each in choices]
    fits = len(texts) <= kit.OPTIONS_MAX and all(
        len(each) <= kit.BUTTON_MAX and visible(each) == each for each in texts
    )
    if not texts or not fits:
        return None
    options = [{"text": kit.plain(each, kit.BUTTON_MAX), "value": each} for each in texts]
    chosen = canonical_text(value) if given else ""
    if given and chosen not in texts:
        return None
    element: Block = {"type": "static_select", "action_id": CHOICE, "options": options}
    return element | {"initial_option": options[texts.index(chosen)]} if given else element


def _input(name: str, element: Block, schema: Mapping[str, Any]) -> Block:
    hint = schema.get("description")
    shown = visible(hint) if isinstance(hint, str) else ""
    return kit.input_block(PREFIX + name, name, element, optional=True, hint=shown)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) else None)


def _value(given: str) -> Any:
    value = parse_strictly(given.encode())
    canonical_text(value)
    return value
