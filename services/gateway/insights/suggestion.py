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


def suggest(rulebook: str, rule: str, tool: str, approved: int, *, in_place: bool = False) -> Suggestion:
    """Return a rulebook with a rule above `rule` that allows its calls of `tool` and no other call.

    Where `in_place`, it takes the place of `rule`, which would never be reached. The new rule copies what `rule`
    matches and its condition. Raises NotSuggested where `rule` is not in the file, and RulebookInvalid where the file
    is no YAML.
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
        **({"when": entry["when"]} if entry.get("when") else {}),
        "effect": "allow",
        "reason": f"People approved all {approved} such calls as they were.",
    }
    # A JSON value is a YAML value, and needs no care for quotes.
    written = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in new.items()]
    indent = " " * dash
    added = [f"{indent}{'- ' if number == 0 else '  '}{line}" for number, line in enumerate(written)]
    end = _end(lines, at, dash) if in_place else at
    old = _place(lines, at, max(end, at + 1))
    changed = [*lines[:at], *added, *lines[end:]]
    diff = "".join(unified_diff(lines, changed, "rulebook", "rulebook", n=2))
    return Suggestion(
        str(new["name"]), "".join(changed), diff, old, "".join(added) + old[len("".join(lines[at:end])) :]
    )


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
    wanted = (_narrowed(entry, tool), entry.get("when"))
    for each in rules[:place]:
        if each.get("effect") == "allow" and (each.get("match"), each.get("when")) == wanted:
            raise NotSuggested("A rule above lets such calls through already.")
    return place


def _narrowed(entry: Mapping[str, Any], tool: str) -> dict[str, Any]:
    match = entry.get("match")
    return {**(match if isinstance(match, dict) else {}), "tool": tool}


def _end(lines: Sequence[str], at: int, dash: int) -> int:
    """Return the line behind a rule that begins at `at`: what is no comment and stands deeper than its dash is its."""
    end = at + 1
    for number in range(at + 1, len(lines)):
        said = lines[number].strip()
        if said and not said.startswith("#"):
            if len(lines[number]) - len(lines[number].lstrip()) <= dash:
                break
            end = number + 1
    return end


def _place(lines: Sequence[str], at: int, end: int) -> str:
    """Return the lines from `at` to `end`, with as many more as make a text that stands once in the file."""
    text = "".join(lines)
    for last in range(end, min(len(lines), end + _PLACE_MAX) + 1):
        if text.count(found := "".join(lines[at:last])) == 1:
            return found
    raise NotSuggested("The file's rules cannot be told apart.")


def _name(rule: str, tool: str, taken: set[str]) -> str:
    said = "".join(each if each.isascii() and (each.isdigit() or each.islower()) else "-" for each in tool.lower())
    base = f"{rule}-{said}"[: NAME_MAX - 4].strip("-")
    names = (base, *(f"{base}-{number}" for number in range(2, _TAKEN_MAX)))
    return next(each for each in names if each not in taken)
