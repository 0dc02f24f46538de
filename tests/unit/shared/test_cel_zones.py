"""Time zones in conditions: the library opens files by their names, so that only the rulebook names any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.domain.cel import STRING, VALUES, ConditionInvalid, Environment
from placet.domain.cel_cost import _FUNCTIONS
from placet.domain.cel_zones import IN_ZONE

ENVIRONMENT = Environment({"arguments": VALUES, "tool": STRING})
TIME = 'timestamp("2026-01-01T23:30:00Z")'
WRITTEN_OUT = 'takes a time zone that stands here, such as "Europe/Berlin" or "+02:00"'


@pytest.mark.parametrize("function", IN_ZONE)
@pytest.mark.parametrize(
    "zone", ["arguments.zone", "tool", "string(arguments.zone)", '"UTC" + tool', 'true ? "UTC" : tool', '["UTC"][0]']
)
def test_a_zone_never_comes_from_a_call(function: str, zone: str) -> None:
    """By one message of a stranger's the library opened a terminal and waited for ever, with the whole system."""
    with pytest.raises(ConditionInvalid) as refused:
        ENVIRONMENT.compile_condition(f"tool == 'pay' && [1].all(x, {TIME}.{function}({zone}) > x)")
    ((at, said),) = refused.value.problems
    assert (True, f"{function} {WRITTEN_OUT}") == (at > len("tool == 'pay' && "), said)


NONE = ("/dev/ptmx", "file:/dev/ptmx", "../../../dev/ptmx", "libc:UTC", "Fixed/UTC+02:00:00", "Nowhere", "+2", "+25:00")


@pytest.mark.parametrize("zone", [*NONE, "", "America", "Europe/Berlin/", "zone.tab", "Europe//Berlin"])
def test_a_zone_is_one_that_is_known(zone: str) -> None:
    """A path, a prefix of the library's own and what nobody knows are refused where they stand."""
    text = f'{TIME}.getHours("{zone}") > 3'
    with pytest.raises(ConditionInvalid) as refused:
        ENVIRONMENT.compile_condition(text)
    assert [(text.index(f'"{zone}"', len(TIME)), f"no time zone is called {zone!r}")] == refused.value.problems


@pytest.mark.parametrize(
    ("zone", "hour"), [("", 23), ('"UTC"', 23), ('"Europe/Berlin"', 0), ('"+02:00"', 1), ('"-03:30"', 20)]
)
def test_a_zone_that_is_known_is_looked_up(zone: str, hour: int) -> None:
    """Without one it is UTC; else a name, or a distance from it."""
    assert hour == ENVIRONMENT.compile(f"{TIME}.getHours({zone})").value({})


@pytest.mark.parametrize("function", sorted(_FUNCTIONS))
def test_no_function_opens_what_a_call_names(function: str, tmp_path: Path) -> None:
    """However it is called with texts of a call, no function that a condition may call opens a file of that name."""
    path = tmp_path / "named"
    path.write_text("text")
    os.utime(path, (0, 0))
    values: dict[str, object] = {"arguments": {"t": str(path)}, "tool": f"file:{path}"}
    for text in ("arguments.t", "tool"):
        calls = [f"{function}({text})", *(f"{on}.{function}({given})" for on in (text, TIME) for given in ("", text))]
        calls += [f"{text}.{function}({text}, {text})", f"[{text}].{function}({text})", f"{text}.{function}([{text}])"]
        for call in calls:
            answered(call, values)
    seen = path.stat().st_atime
    path.read_text()
    if path.stat().st_atime == 0:
        pytest.skip("files do not tell here when they were read")
    assert 0 == seen


def answered(text: str, values: dict[str, object]) -> None:
    """Evaluate what compiles, whatever comes of it."""
    try:
        ENVIRONMENT.compile(text).decided(values)
    except ConditionInvalid:
        return
