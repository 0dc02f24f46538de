"""Conditions on who may decide: `approval.condition` in CEL over `person` and `call`.

Policy checks them when the rulebook is loaded; approval asks them about each person who decides. A condition that
gives no answer lets nobody decide. Every number among the arguments is a double: no schema is known where it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from placet.contracts.canonical import NotStrictJson, parse_arguments
from placet.contracts.visitors import rule_name
from placet.domain.cel import STRING, TEXTS, VALUES, ConditionFailed, Environment, Expression, Kind, Variables, list_of
from placet.domain.directory import Directory
from placet.domain.held import CalledFor

#: What a condition may look at. `person.id` is the whole identity: `person:ada`, `visitor:v77`.
VARIABLES: Mapping[str, Kind] = {
    "person.id": STRING,
    "person.name": STRING,
    "person.groups": list_of(STRING),
    "person.attributes": TEXTS,
    "call.tool": STRING,
    "call.agent": STRING,
    "call.tenant": STRING,
    "call.requester": STRING,
    "call.arguments": VALUES,
    "call.labels": TEXTS,
}
#: Compiled conditions kept; a rulebook has a handful.
_COMPILED_MAX = 256
#: Calls whose arguments are kept as conditions take them: many people are asked about one, one after the other.
_ARGUMENTS_MAX = 8


@dataclass(frozen=True, slots=True)
class PersonFacts:
    """What a condition may know about somebody."""

    #: What rules call them: `person:ada`, `visitor:v77`.
    id: str
    name: str = ""
    groups: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, Any]:
        """What a condition finds under the names of its variables."""
        return {
            "person.id": self.id,
            "person.name": self.name,
            "person.groups": list(self.groups),
            "person.attributes": dict(self.attributes),
        }


@dataclass(frozen=True, slots=True)
class PersonCondition:
    """A compiled condition."""

    text: str
    expression: Expression
    #: Whether it looks at anything of the call.
    looks_at_call: bool
    #: The call's arguments that it looks at; None: perhaps at all. Others may be large: an agent chooses them.
    arguments: frozenset[str] | None

    def holds(self, person: PersonFacts, call: CalledFor) -> bool:
        """Tell whether this person may decide this call; raise ConditionFailed where there is no answer."""
        try:
            arguments = None if self.arguments == frozenset() else _arguments(call.arguments, self.arguments)
        except NotStrictJson as error:
            raise ConditionFailed(str(error)) from error
        known = person.variables | _of_call(call)
        return self.expression.holds(_environment().variables(known, beside=arguments))


@lru_cache(maxsize=_COMPILED_MAX)
def compile_person_condition(text: str) -> PersonCondition:
    """Return the compiled `text`; raise ConditionInvalid with every problem."""
    expression = _environment().compile_condition(text)
    return PersonCondition(text, expression, expression.looks_at("call."), expression.fields_of("call.arguments"))


def facts_of(identity: str, directory: Directory) -> PersonFacts:
    """Return what the directory knows about somebody; of whom it does not list, only the identity."""
    person = directory.person(identity)
    if person is None:
        return PersonFacts(identity)
    return PersonFacts(identity, person.name, directory.groups_of(identity), person.attributes)


@cache
def _environment() -> Environment:
    return Environment(VARIABLES)


@lru_cache(maxsize=_ARGUMENTS_MAX)
def _arguments(text: str, names: frozenset[str] | None) -> Variables:
    """Return those of a call's arguments with these names, or all, as conditions see them; raise NotStrictJson."""
    seen = {name: value for name, value in _parsed(text).items() if names is None or name in names}
    return _environment().variables({"call.arguments": _with_doubles(seen)})


@lru_cache(maxsize=_ARGUMENTS_MAX)
def _parsed(text: str) -> Mapping[str, Any]:
    return parse_arguments(text)


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


def _of_call(call: CalledFor) -> dict[str, Any]:
    return {
        "call.tool": call.tool,
        "call.agent": call.agent,
        "call.tenant": call.tenant,
        "call.requester": rule_name(call.requester),
        "call.labels": dict(call.labels),
    }
