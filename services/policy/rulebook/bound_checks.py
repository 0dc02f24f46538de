"""What the bounds of grants may get wrong although each of its words is right: they could never let anything vary.

Every check yields its problem with the steps to the place that its author has to change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, inf
from typing import Any

from placet.domain.catalog import ToolSpec
from placet.domain.globs import fits_glob
from placet.domain.tool_schema import kinds_at, said_at
from placet.domain.yaml_source import Steps
from placet.policy.rulebook.entries import ApprovalEntry
from placet.policy.rules.conditions import known_steps

_NUMBERS, _TEXTS = frozenset({"number", "integer"}), frozenset({"string"})


def useless_bounds(entry: ApprovalEntry, tools: Sequence[ToolSpec]) -> Iterator[tuple[Steps, str]]:
    """Yield what is wrong with the bounds of an approval for these tools."""
    if entry.grants is None or not tools:
        return
    for index, bound in enumerate(entry.grants.bounds):
        name, _, glob = bound.partition("=")
        path = name.split(".")
        having = {spec.name: spec.parameters for spec in tools if known_steps(path, spec.parameters) == len(path)}
        if not having:
            problem = f"no argument {name!r} in {', '.join(spec.name for spec in tools)}"
        else:
            problem = _wrong_kind(name, glob, tools) or _no_room(name, glob, having)
        if problem:
            yield ("grants", "bounds", index), problem


def _wrong_kind(name: str, glob: str, tools: Sequence[ToolSpec]) -> str:
    """Return in which tool an argument is of another kind: there it would say nothing, and nobody would be told."""
    path = name.split(".")
    wanted = _TEXTS if glob else _NUMBERS
    for spec in tools:
        kinds = kinds_at(spec.parameters, path)
        if kinds & wanted:
            continue
        argument = f"argument {name!r} of {spec.name}"
        if not kinds:
            return f"{argument} is no member of an object: nothing in a list may vary"
        if glob:
            return f"{argument} is no text, so it fits no {glob!r}"
        told = f"{argument} is no number that could be smaller"
        values = _values(said_at(spec.parameters, path))
        if "string" in kinds and (values is None or len(values) > 1):
            return f"{told}; of a text say which may be: '{name}=*…'"
        return f"{told}, so it must always be equal: leave it out"
    return ""


def _no_room(name: str, glob: str, having: Mapping[str, dict[str, Any]]) -> str:
    """Return why an argument could vary in none of the tools that have it; empty where it could in one.

    Only what is said plainly is looked at: values, a least and a most, how long a text may be.
    """
    path = name.split(".")
    problems = [_why_equal(name, tool, glob, said_at(parameters, path)) for tool, parameters in having.items()]
    return problems[0] if all(problems) else ""


def _why_equal(name: str, tool: str, glob: str, said: Mapping[str, Any]) -> str:
    argument, values = f"argument {name!r} of {tool}", _values(said)
    if glob:
        texts = None if values is None else {each for each in values if isinstance(each, str)}
        is_one = texts is not None and len(texts) <= 1
        fits = any(fits_glob(each, glob) for each in texts) if texts is not None else _is_short_enough(glob, said)
        if not is_one:
            return "" if fits else f"{argument} takes no text that fits {glob!r}"
    elif values is not None:
        if len({each for each in values if isinstance(each, int | float) and each >= 0}) > 1:
            return ""
    elif _has_room(said):
        return ""
    of = "text" if glob else "number from 0 on"
    return f"{argument} has room for one {of} at most, so it must always be equal: leave it out"


def _values(said: Mapping[str, Any]) -> Sequence[Any] | None:
    """Return the only values that there may be; None where they are not counted."""
    return [said["const"]] if "const" in said else said.get("enum")


def _is_short_enough(glob: str, said: Mapping[str, Any]) -> bool:
    return len(glob.replace("*", "")) <= float(said.get("maxLength", inf))


def _has_room(said: Mapping[str, Any]) -> bool:
    """Tell whether two numbers from 0 on lie between the least and the most."""
    least, most = max(0, said.get("minimum", 0)), said.get("maximum", inf)
    above, below = said.get("exclusiveMinimum", -1), said.get("exclusiveMaximum", inf)
    if said.get("type") != "integer":
        return bool(max(least, above) < min(most, below))
    second = max(ceil(least), floor(above) + 1) + 1
    return bool(second <= most and second < below)
