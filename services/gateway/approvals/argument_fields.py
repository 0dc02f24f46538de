"""A form for a call's arguments, made from its tool's schema, and what such a form means when it comes back. Pure.

The pages and Slack draw it, each in its own way; which field an argument has and what is typed in it is decided here.

What a plain field cannot hold (objects, lists, values of several types) is edited as JSON, and so is everything where
the schema is not known. Nothing is guessed: a field that was left as it was gives back the very value it showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as made
from typing import Any, Literal

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_strictly, readable_text
from placet.surfaces.texts import text as translated

Kind = Literal["text", "long", "number", "choice", "json"]
#: Longer texts are edited in a larger field.
LONG = 60


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """One argument in a form."""

    name: str
    kind: Kind
    #: As the field shows it; empty where the argument is not given.
    value: str
    required: bool
    description: str = ""
    #: Of a choice: what is shown of each value, and the value.
    choices: Mapping[str, Any] = made(default_factory=dict)


class NotAnArgument(ValueError):
    """What was typed is no value of its argument; the text says which and why, in any language that is spoken here."""

    def __init__(self, words: str, **values: Any) -> None:
        super().__init__(words.format(**values) if values else words)
        self._words, self._values = words, values

    def said(self, locale: str) -> str:
        """Return the text in a language."""
        return translated(locale, self._words, **self._values)


def fields_of(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> tuple[ArgumentField, ...]:
    """Return the fields of a form: the schema's arguments in its order, then others that the call has."""
    schema = schema or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    names = [*properties, *(name for name in arguments if name not in properties)]
    required = set(schema.get("required") or ())
    return tuple(_field(name, properties.get(name), arguments, required=name in required) for name in names)


def arguments_from(
    fields: tuple[ArgumentField, ...], typed: Mapping[str, str], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments that a form means; raise NotAnArgument.

    An empty field means an empty text, or, of another kind, that an argument which need not be given is left out.
    """
    found: dict[str, Any] = {}
    for field in fields:
        text = _lines(typed.get(field.name, field.value))
        if text == _lines(field.value):
            if field.name in arguments:
                found[field.name] = arguments[field.name]
        elif text or field.required or field.kind in {"text", "long"}:
            found[field.name] = value_of(field, text)
    return found


def arguments_from_json(text: str) -> dict[str, Any]:
    """Return the arguments of a JSON text; raise NotAnArgument."""
    value = _json("The arguments", text)
    if not isinstance(value, dict):
        raise NotAnArgument("The arguments must be a JSON object.")
    return value


def _field(name: str, schema: Any, arguments: Mapping[str, Any], *, required: bool) -> ArgumentField:
    schema = schema if isinstance(schema, dict) else {}
    given = name in arguments
    value = arguments.get(name)
    kind, choices = _kind(schema, value, given=given)
    shown = "" if not given else value if isinstance(value, str) and kind != "json" else readable_text(value)
    if kind == "choice" and given:
        shown = next(label for label, each in choices.items() if _same(each, value))
    if kind == "text" and (len(shown) > LONG or "\n" in shown):
        kind = "long"
    return ArgumentField(name, kind, shown, required, str(schema.get("description") or ""), choices)


def _kind(schema: Mapping[str, Any], value: Any, *, given: bool) -> tuple[Kind, Mapping[str, Any]]:
    expected = schema.get("type")
    choices = _choices(schema)
    if choices and (not given or any(_same(each, value) for each in choices.values())):
        return "choice", choices
    if expected == "string" and (not given or isinstance(value, str)):
        return "text", {}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return ("number", {}) if expected in ("number", "integer") and (not given or number) else ("json", {})


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a schema lists, by what is shown of them: texts as they are, where all are texts."""
    listed = schema.get("enum") or ([True, False] if schema.get("type") == "boolean" else None)
    if not isinstance(listed, list):
        return {}
    texts = all(isinstance(each, str) and each for each in listed)
    return {each if texts else readable_text(each): each for each in listed}


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same in JSON, where 1 is not true."""
    return readable_text(one) == readable_text(other)


def value_of(field: ArgumentField, text: str) -> Any:
    """Return what a text means in a field; raise NotAnArgument where it means nothing there."""
    if field.kind in {"text", "long"}:
        return text
    if field.kind == "choice":
        if text not in field.choices:
            raise NotAnArgument("{name}: choose one of {choices}.", name=field.name, choices=", ".join(field.choices))
        return field.choices[text]
    if field.kind == "json":
        return _json(field.name, text)
    try:
        value = _json(field.name, text)
    except NotAnArgument:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAnArgument("{name}: this must be a number.", name=field.name)
    return value


def _json(name: str, text: str) -> Any:
    try:
        value = parse_strictly(text)
        canonical_text(value)
    except NotStrictJson as error:
        raise NotAnArgument("{name}: {error}.", name=name, error=error) from error
    return value


def _lines(text: str) -> str:
    """Return `text` with the line breaks that it had before a browser sent it."""
    return text.replace("\r\n", "\n")
