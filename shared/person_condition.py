"""Conditions on who may decide: `approval.condition` in CEL over `person` and `call`.

Policy checks them when the rulebook is loaded; approval asks them about each person who decides. A condition that
gives no answer lets nobody decide. Every number among the arguments is a double: no schema is known where it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Protocol

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from shared.canonical import parse_arguments
from shared.directory import Directory
from shared.errors import PlacetError

_STRING, _DYN = cel.Type.STRING, cel.Type.DYN
_TEXTS = cel.Type.Map(_STRING, _STRING)
#: What a condition may look at. `person.id` is the whole identity: `person:ada`, or a visitor's id.
VARIABLES: Mapping[str, Any] = {
    "person.id": _STRING,
    "person.name": _STRING,
    "person.groups": cel.Type.List(_STRING),
    "person.attributes": _TEXTS,
    "call.tool": _STRING,
    "call.agent": _STRING,
    "call.tenant": _STRING,
    "call.requester": _STRING,
    "call.arguments": cel.Type.Map(_STRING, _DYN),
    "call.labels": _TEXTS,
}
#: Compiled conditions kept; a rulebook has a handful.
_COMPILED_MAX = 256
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")


class PersonConditionInvalid(PlacetError):
    """A condition does not compile. `problems` pairs a character offset in its text with what is wrong there."""

    def __init__(self, problems: list[tuple[int, str]]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


class PersonConditionFailed(PlacetError):
    """A condition gave no answer about this person and call."""


class CalledFor(Protocol):
    """What a condition may know about the call."""

    @property
    def tool(self) -> str:
        """Name of the tool."""

    @property
    def agent(self) -> str:
        """Who proposed it."""

    @property
    def tenant(self) -> str:
        """Whose it is."""

    @property
    def requester(self) -> str:
        """Who wrote the message behind it."""

    @property
    def arguments(self) -> str:
        """JSON text."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Of the conversation."""


@dataclass(frozen=True, slots=True)
class PersonFacts:
    """What a condition may know about somebody."""

    #: Stable identity, `person:ada` or a visitor's id.
    id: str
    name: str = ""
    groups: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PersonCondition:
    """A compiled condition."""

    text: str
    expression: cel.Expression

    def holds(self, person: PersonFacts, call: CalledFor) -> bool:
        """Tell whether this person may decide this call; raise PersonConditionFailed where there is no answer."""
        try:
            value = self.expression.eval(data=_activation(person, call)).value()
        except Exception as error:
            raise PersonConditionFailed(str(error) or type(error).__name__) from error
        if value is not True and value is not False:
            raise PersonConditionFailed(str(value))
        return value


@lru_cache(maxsize=_COMPILED_MAX)
def compile_person_condition(text: str) -> PersonCondition:
    """Return the compiled `text`; raise PersonConditionInvalid with every problem."""
    try:
        expression = _environment().compile(text)
    except RuntimeError as error:
        found = _ERROR.findall(str(error))
        problems = [(_offset(text, int(line), int(column)), said) for line, column, said in found]
        raise PersonConditionInvalid(problems or [(0, str(error))]) from error
    if (kind := expression.return_type().name()) != "BOOL":
        raise PersonConditionInvalid([(0, f"the condition must be true or false, but its type is {kind.lower()}")])
    return PersonCondition(text, expression)


def facts_of(identity: str, directory: Directory) -> PersonFacts:
    """Return what the directory knows about somebody; of whom it does not list, only the identity."""
    person = directory.person(identity)
    if person is None:
        return PersonFacts(identity)
    return PersonFacts(identity, person.name, directory.groups_of(identity), person.attributes)


@cache
def _environment() -> cel.Env:
    return cel.NewEnv(variables=dict(VARIABLES), extensions=[ext_strings.ExtStrings()])


def _offset(text: str, line: int, column: int) -> int:
    before = text.split("\n")[: line - 1]
    return sum(len(part) + 1 for part in before) + column - 1


def _with_doubles(value: Any) -> Any:
    """Return `value` with every number as a double, as `49.0` for 49: JSON does not tell the two apart, CEL does."""
    match value:
        case Mapping():
            return {name: _with_doubles(item) for name, item in value.items()}
        case list():
            return [_with_doubles(item) for item in value]
        case int() if not isinstance(value, bool):
            return float(value)
        case _:
            return value


def _activation(person: PersonFacts, call: CalledFor) -> dict[str, Any]:
    return {
        "person.id": person.id,
        "person.name": person.name,
        "person.groups": list(person.groups),
        "person.attributes": dict(person.attributes),
        "call.tool": call.tool,
        "call.agent": call.agent,
        "call.tenant": call.tenant,
        "call.requester": call.requester,
        "call.arguments": _with_doubles(parse_arguments(call.arguments)),
        "call.labels": dict(call.labels),
    }
