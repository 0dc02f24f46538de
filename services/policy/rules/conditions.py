"""Conditions in CEL: type-checked when the rulebook is loaded, evaluated per call.

Arguments are dynamic for the evaluator, because a rule may serve several tools. So the check does more than the
compiler: names that no tool has are found in the text here, and types are checked as the schemas say (`cel_checks`).
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from placet.contracts.visitors import rule_name
from placet.domain.catalog import ToolSpec
from placet.domain.cel import (
    INT,
    STRING,
    TEXTS,
    VALUES,
    ConditionInvalid,
    Environment,
    Expression,
    Variables,
    check_condition,
)
from placet.domain.origins import by_text
from placet.domain.tool_schema import argument_names, closed
from placet.policy.rules.asking_origins import NAME, looking_at, never_said, origin_of
from placet.policy.rules.call import COUNTERS, CallFacts
from placet.policy.rules.cel_checks import checked_type, type_of
from placet.policy.rules.cel_failures import failures

_VARIABLES = {
    "arguments": VALUES,
    "tool": STRING,
    "category": STRING,
    "agent": STRING,
    "tenant": STRING,
    "requester": STRING,
    "conversation.id": STRING,
    "conversation.labels": TEXTS,
    **{f"history.{name}": INT for name in COUNTERS},
}
#: Comments and strings are consumed first, so that a name inside them is not taken for a use of an argument.
_ARGUMENT_USE = re.compile(
    r"""//[^\n]*
    | (?<![\w.])arguments \s* \. \s* (?P<field>[A-Za-z_]\w*+) (?!\s*\()
    | (?<![\w.])arguments \s* \[ \s* (?P<quote>["']) (?P<index>[^"'\\\n]*) (?P=quote) \s* \]
    | [bB]? (?:[rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')
             |\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    """,
    re.VERBOSE | re.DOTALL,
)
#: One more step into an argument; a method's name is none.
_FURTHER = re.compile(r"\s*\.\s*(?P<field>[A-Za-z_]\w*+)(?!\s*\()")


@dataclass(frozen=True, slots=True)
class CelCondition:
    """A compiled `when`."""

    text: str
    expression: Expression

    @property
    def uses_history(self) -> bool:
        """Tell whether it may ask for a counter of earlier calls."""
        return "history" in self.text

    def holds(self, call: CallFacts, spec: ToolSpec) -> bool:
        """Return the condition's value for `call`; raise ConditionFailed where it has none."""
        variables = _variables(call, spec)
        if NAME not in self.text:
            return self.expression.holds(variables)
        with looking_at(None if call.origins is None else by_text(call.origins, call.arguments)):
            return self.expression.holds(variables)


def compile_condition(text: str, specs: Sequence[ToolSpec]) -> CelCondition:
    """Return the compiled `text` of a rule for the tools `specs`; raise ConditionInvalid with every problem.

    `has(arguments.x)` asks whether an optional argument was given.
    """
    if problems := unknown_arguments(text, specs):
        raise ConditionInvalid(problems)
    expression = _environment().compile(text)
    check_condition(checked_type(text, _VARIABLES, specs))
    if problems := [*failures(expression), *never_said(expression)]:
        raise ConditionInvalid(problems)
    return CelCondition(text, expression)


@cache
def _environment() -> Environment:
    return Environment(_VARIABLES, {NAME: origin_of})


def unknown_arguments(text: str, specs: Sequence[ToolSpec]) -> list[tuple[int, str]]:
    """Return the uses of arguments that none of the tools has, with where in `text` they begin to be wrong."""
    found: list[tuple[int, str]] = []
    for match in _ARGUMENT_USE.finditer(text):
        steps = list(_steps_of(text, match))
        known = [known_steps([step for _, step in steps], spec.parameters) for spec in specs]
        reach = max(known, default=len(steps))
        if reach < len(steps):
            path = ".".join(step for _, step in steps[: reach + 1])
            found.append((steps[reach][0], f"no argument {path!r} in {', '.join(spec.name for spec in specs)}"))
    return found


def _steps_of(text: str, match: re.Match[str]) -> Iterator[tuple[int, str]]:
    """Yield the names that a use of an argument goes through, each with its offset; none for a text or a comment."""
    group = "field" if match["field"] else "index"
    if not match[group]:
        return
    yield match.start(group), match[group]
    further = _FURTHER.match(text, match.end())
    while further:
        yield further.start("field"), further["field"]
        further = _FURTHER.match(text, further.end())


def known_steps(steps: Sequence[str], parameters: Any) -> int:
    """Return how many of `steps` a schema describes; all of them from where on it admits any name."""
    schema = parameters
    for count, step in enumerate(steps):
        if not isinstance(schema, dict) or (count and "properties" not in schema):
            return len(steps)
        names = argument_names(closed(schema))
        if names is None:
            return len(steps)
        if step not in names:
            return count
        schema = schema["properties"][step]
    return len(steps)


def _variables(call: CallFacts, spec: ToolSpec) -> Variables:
    """Return what conditions look at, made once for all of them that ask about a call."""
    known: tuple[ToolSpec, Variables] | None = call.prepared.get("variables")
    if known is None or known[0] is not spec:
        known = call.prepared["variables"] = spec, _environment().variables(_values(call, spec))
    return known[1]


def _values(call: CallFacts, spec: ToolSpec) -> dict[str, Any]:
    return {
        "arguments": _numbers_as_declared(call.arguments, spec.parameters),
        "tool": call.tool,
        "category": spec.category.value,
        "agent": call.agent,
        "tenant": call.tenant,
        "requester": rule_name(call.requester),
        "conversation.id": call.conversation_id,
        "conversation.labels": dict(call.labels),
        **{f"history.{name}": number for name, number in call.history.items()},
    }


def _numbers_as_declared(value: Any, schema: Any) -> Any:
    """Return `value` with 300 as 300.0 where the schema says number, and 2.0 as 2 where it says integer.

    CEL keeps the two apart in arithmetic, JSON does not; without this a condition would depend on how a model
    happened to write the number.
    """
    if not isinstance(schema, dict):
        return value
    if isinstance(value, Mapping):
        below = schema.get("properties", {})
        return {name: _numbers_as_declared(item, below.get(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers_as_declared(item, schema.get("items")) for item in value]
    match type(value), type_of(schema):
        case builtins.int, "number":
            return float(value)
        case builtins.float, "integer" if value.is_integer():
            return int(value)
        case _:
            return value
