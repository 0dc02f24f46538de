"""A rule that would let through what people always approved: the rulebook with it, and the difference. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from placet.domain.yaml_source import parse_yaml

NAME_MAX = 64
_TAKEN_MAX = 100
#: A whole number with as many digits may be an account's.
_LONG = 100_000
#: Values of an argument, at most, that a rule names one by one.
FEW = 5
_WHEN_MAX = 4_000
#: How a condition of `within` begins.
_NAMES = "arguments.all(name, name in "
#: Lines at most that tell the place of a change from every other one.
_PLACE_MAX = 100


class NotSuggested(Exception):
    """There is no rule to suggest; the text says why, in words for the administrator."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A changed rulebook."""

    rule: str
    #: The whole new text.
    rulebook: str
    #: Against the old one, as unified text.
    diff: str
    #: The same as one replacement: a text that the old one has once, and what takes its place.
    old: str
    new: str


def suggest(rulebook: str, rule: str, tool: str, within: str, told: Sequence[str] = ()) -> Suggestion:
    """Return a rulebook with a rule above `rule` that allows its calls of `tool` for which `within` holds.

    The new rule copies what `rule` matches and its condition. Lines of `told` stand above it, for whoever decides about
    the change. Raises NotSuggested where `rule` is not in the file, and RulebookInvalid where the file is no YAML.
    """
    source = parse_yaml("rulebook", rulebook.encode())
    found = _rules(source.data)
    place = _asking(found, rule, tool)
    entry = found[place]
    lines = rulebook.splitlines(keepends=True)
    at = source.line_of(("rules", place)) - 1
    dash = lines[at].find("-")
    if dash < 0 or lines[at][:dash].strip():
        raise NotSuggested("The file's rules do not stand on lines of their own.")
    new: dict[str, Any] = {
        "name": _name(rule, tool, {str(each.get("name")) for each in found}),
        "match": _narrowed(entry, tool),
        "when": _when(entry, within),
        "effect": "allow",
        "reason": "People always approved such calls as they were.",
    }
    _bounded(new["when"])
    written = [f"{key}: {_yaml(value)}\n" for key, value in new.items()]
    indent = " " * dash
    added = [f"{indent}# {line}\n" for line in told]
    added += [f"{indent}{'- ' if number == 0 else '  '}{line}" for number, line in enumerate(written)]
    old = _place(lines, at)
    changed = [*lines[:at], *added, *lines[at:]]
    diff = "".join(unified_diff(lines, changed, "rulebook", "rulebook", n=2))
    return Suggestion(str(new["name"]), "".join(changed), diff, old, "".join(added) + old)


def asks_no_more(rulebook: str, held: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return those of `held`, rules with tools, that a rulebook has and asks nobody about; raise RulebookInvalid."""
    rules, found = _rules(parse_yaml("rulebook", rulebook.encode()).data), set()
    for rule, tool in held:
        try:
            _asking(rules, rule, tool)
        except NotSuggested:
            if any(each.get("name") == rule for each in rules):
                found.add((rule, tool))
    return frozenset(found)


def _rules(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    rules = data.get("rules")
    return [each if isinstance(each, dict) else {} for each in rules] if isinstance(rules, list) else []


def _asking(rules: Sequence[dict[str, Any]], rule: str, tool: str) -> int:
    """Return the place of a rule that asks people about calls of `tool`; raise NotSuggested where none does."""
    place = next((number for number, each in enumerate(rules) if each.get("name") == rule), None)
    if place is None:
        raise NotSuggested("No rule of the file held these calls: the tool's category did.")
    entry = rules[place]
    if entry.get("effect") != "require_approval":
        raise NotSuggested("This rule does not ask for approval any more.")
    match, when = _narrowed(entry, tool), entry.get("when")
    for each in rules[:place]:
        lets = each.get("when") == when or str(each.get("when")).startswith(_when(entry, _NAMES))
        if each.get("effect") == "allow" and each.get("match") == match and lets:
            raise NotSuggested("A rule above lets such calls through already.")
    return place


def within(seen: Sequence[Mapping[str, Any]]) -> str:
    """Return a condition that keeps calls to what these were: their arguments, in the range of their numbers.

    An argument that had few values has one of them. Raises NotSuggested where one had many that are no amounts, such as
    texts, addresses or numbers of accounts: the rule would let any through, also what a mail talked the model into.
    """
    names = _names(seen)
    # Before all calls are looked through for each of them.
    clauses = [_bounded(f"{_NAMES}{_json(names)})")]
    for name in names:
        values = [each[name] for each in seen if name in each]
        clause = _among(f"arguments[{_json(name)}]", values)
        there = f"{_json(name)} in arguments"
        clauses.append(f"(!({there}) || {clause})" if len(values) < len(seen) else f"{there} && {clause}")
    return " && ".join(clauses)


def ranges(seen: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return in words the arguments that `within` lets have any number of a range."""
    found = {name: [each[name] for each in seen if name in each] for name in _names(seen)}
    return [
        f"{name}: {_json(min(values))} – {_json(max(values))}"
        for name, values in found.items()
        if all(map(_is_amount, values)) and min(values) < max(values)
    ]


def _bounded(condition: str) -> str:
    if len(condition) > _WHEN_MAX:
        raise NotSuggested("The approved calls are too few and too long for a rule that lets no others through.")
    return condition


def _names(seen: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({name for each in seen for name in each})


def _among(argument: str, values: Sequence[Any]) -> str:
    different = sorted({_json(each) for each in values})
    if len(different) == 1:
        return f"{argument} == {different[0]}"
    if all(map(_is_amount, values)):
        return f"{argument} >= {_json(min(values))} && {argument} <= {_json(max(values))}"
    if len(different) <= FEW:
        return f"{argument} in [{', '.join(different)}]"
    raise NotSuggested(
        "The approved calls had many texts, addresses or accounts in one argument: a rule would allow any."
    )


def _is_amount(value: Any) -> bool:
    """Tell whether what lies between two such numbers is no other thing: a long whole one may be an account's."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < _LONG or not float(value).is_integer()


def _when(entry: Mapping[str, Any], within: str) -> str:
    return f"({entry['when']}) && {within}" if entry.get("when") else within


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line: a JSON value is one, but a text full of quotes is read better in others."""
    if isinstance(value, str) and '"' in value and value.isprintable():
        return "'{}'".format(value.replace("'", "''"))
    return json.dumps(value, ensure_ascii=False)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _narrowed(entry: Mapping[str, Any], tool: str) -> dict[str, Any]:
    match = entry.get("match")
    return {**(match if isinstance(match, dict) else {}), "tool": tool}


def _place(lines: Sequence[str], at: int) -> str:
    """Return the lines from `at` on, as many as make a text that stands once in the file."""
    text = "".join(lines)
    for last in range(at + 1, min(len(lines), at + 1 + _PLACE_MAX) + 1):
        if text.count(found := "".join(lines[at:last])) == 1:
            return found
    raise NotSuggested("The file's rules cannot be told apart.")


def _name(rule: str, tool: str, taken: set[str]) -> str:
    said = "".join(each if each.isascii() and (each.isdigit() or each.islower()) else "-" for each in tool.lower())
    base = f"{rule}-{said}"[: NAME_MAX - 4].strip("-")
    names = (base, *(f"{base}-{number}" for number in range(2, _TAKEN_MAX)))
    return next(each for each in names if each not in taken)
