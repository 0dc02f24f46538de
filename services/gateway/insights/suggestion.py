"""A rule that would let through what people always approved: the rulebook with it, and the difference. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    rules = source.data.get("rules")
    found: list[Any] = rules if isinstance(rules, list) else []
    place = next((n for n, each in enumerate(found) if isinstance(each, dict) and each.get("name") == rule), None)
    if place is None:
        raise NotSuggested("No rule of the file held these calls: the tool's category did.")
    entry: dict[str, Any] = found[place]
    if entry.get("effect") != "require_approval":
        raise NotSuggested("This rule does not ask for approval any more.")
    lines = rulebook.splitlines(keepends=True)
    at = source.line_of(("rules", place)) - 1
    dash = lines[at].find("-")
    if dash < 0 or lines[at][:dash].strip():
        raise NotSuggested("The file's rules do not stand on lines of their own.")
    match = entry.get("match")
    new: dict[str, Any] = {
        "name": _name(rule, tool, {str(each.get("name")) for each in found if isinstance(each, dict)}),
        "match": {**(match if isinstance(match, dict) else {}), "tool": tool},
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
