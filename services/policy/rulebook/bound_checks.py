"""What the bounds of grants may get wrong although each of its words is right: they could never let anything vary.

Every check yields its problem with the steps to the place that its author has to change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placet.domain.catalog import ToolSpec
from placet.domain.schema_room import Kind, Room, room_at
from placet.domain.tool_schema import kinds_at
from placet.domain.yaml_source import Steps
from placet.policy.rulebook.entries import ApprovalEntry
from placet.policy.rules.conditions import known_steps
from placet.policy.rules.grants import fits_glob, lengths_of_glob

_KINDS: dict[Kind, set[str]] = {"number": {"number", "integer"}, "string": {"string"}}


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
    wanted = _KINDS["string" if glob else "number"]
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
        room = room_at(spec.parameters, path, "string")
        if room is not None and not _is_one(room):
            return f"{told}; of a text say which may be: '{name}=*…'"
        return f"{told}, so it must always be equal: leave it out"
    return ""


def _no_room(name: str, glob: str, having: Mapping[str, dict[str, object]]) -> str:
    """Return why an argument could vary in none of the tools that have it; empty where it could in one."""
    path, problem = name.split("."), ""
    for tool, parameters in having.items():
        room = room_at(parameters, path, "string" if glob else "number")
        argument = f"argument {name!r} of {tool}"
        if room is None or (_is_one(room) if glob else not room.has_smaller()):
            of = "text" if glob else "number from 0 on"
            problem = problem or f"{argument} has room for one {of} at most, so it must always be equal: leave it out"
        elif glob and not _fits(glob, room):
            problem = problem or f"argument {name!r} of {tool} takes no text that fits {glob!r}"
        else:
            return ""
    return problem


def _is_one(room: Room) -> bool:
    texts = room.texts()
    return texts is not None and len(texts) <= 1


def _fits(glob: str, room: Room) -> bool:
    texts = room.texts()
    if texts is not None:
        return any(fits_glob(text, glob) for text in texts)
    beginning = glob.replace("?", "*").partition("*")[0]
    if beginning == glob:
        return room.takes(glob)
    return room.may_take(beginning, *lengths_of_glob(glob))
