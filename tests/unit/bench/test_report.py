"""How measurements become medians, ratios, a table and JSON."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bench.measurement import Measurement, System, WrongCountError, middle, percentile, verify
from bench.report import figures, in_turns, ratios, table, write


def a_measurement(in_flight: int = 64, calls_per_second: float = 250, **figures: float) -> Measurement:
    """Return a run like the floor's, with the given figures changed."""
    usual = {"decision_to_result_p50_ms": 160.0, "p99_ms": 220.0, "cpu_ms_per_call": 6.0, "recorded_p50_ms": 160.0}
    return Measurement(in_flight, calls_per_second, **(usual | figures))


@pytest.mark.parametrize(
    ("answered", "tool_runs"),
    [
        (1, {"a": 1, "b": 1}),
        (2, {"a": 1}),
        (2, {"a": 1, "b": 2}),
        (2, {"a": 2}),
        (3, {"a": 1, "b": 1, "c": 1}),
    ],
)
def test_a_lost_or_doubled_call_measures_nothing(answered: int, tool_runs: dict[str, int]) -> None:
    """A run counts only if every call was answered and its tool ran exactly once, no more and no other."""
    verify(2, 2, Counter({"a": 1, "b": 1}))
    with pytest.raises(WrongCountError):
        verify(2, answered, Counter(tool_runs))


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5.0), (0.99, 10.0), (1.0, 10.0), (0.1, 1.0), (0.0, 1.0)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    """A percentile is the smallest value that the share of all values do not exceed, never an average."""
    assert expected == percentile([float(value) for value in range(10, 0, -1)], share)


def test_the_middle_run_is_taken_figure_by_figure() -> None:
    """One run with a hiccup does not spoil the median of any figure."""
    runs = [
        a_measurement(calls_per_second=240),
        a_measurement(calls_per_second=10, decision_to_result_p50_ms=9000.0),
        a_measurement(calls_per_second=260, cpu_ms_per_call=5.0),
    ]
    assert a_measurement(calls_per_second=240) == middle(runs)


async def test_systems_are_measured_in_turns() -> None:
    """A machine that slows down meanwhile slows both systems: A B A B, not A A B B."""
    order: list[str] = []

    def a_system(name: str) -> System:
        async def measure(in_flight: int, count: int) -> Measurement:
            order.append(f"{name}{in_flight}x{count}")
            return a_measurement(in_flight)

        return System(name, measure)

    results = await in_turns([a_system("floor"), a_system("placet")], {1: 20, 16: 160}, 2)
    expected = ["floor1x20", "placet1x20"] * 2 + ["floor16x160", "placet16x160"] * 2
    assert expected == order
    assert results == {name: {at: a_measurement(at) for at in (1, 16)} for name in ("floor", "placet")}


def test_ratios_compare_equal_numbers_in_flight() -> None:
    """Each figure is divided by the floor's at the same number of calls in flight."""
    seen = a_measurement(calls_per_second=500, decision_to_result_p50_ms=40.0, cpu_ms_per_call=3.0)
    expected = {
        "gated_64_vs_floor": 2.0,
        "decision_p50_64_vs_floor": 0.25,
        "recorded_p50_64_vs_floor": 1.0,
        "cpu_64_vs_floor": 0.5,
    }
    assert expected == ratios({"floor": {64: a_measurement()}, "placet": {64: seen}}, {"placet": ""}, ["floor"])


def test_several_systems_keep_their_names() -> None:
    """No ratio can be mistaken for another system's, nor for one to the other floor."""
    by = {64: a_measurement()}
    systems = {"floor": by, "fair_floor": by, "placet": by, "embedded": by}
    keys = ratios(systems, {"placet": "", "embedded": "embedded_"}, ["floor", "fair_floor"])
    assert {"gated_64_vs_floor", "embedded_gated_64_vs_floor", "gated_64_vs_fair_floor"} <= keys.keys()


def test_the_table_lines_up() -> None:
    """Every row is as wide as the head, and ratios stand beside their figures."""
    seen = a_measurement(calls_per_second=500)
    lines = table({"floor": {64: a_measurement()}, "placet": {64: seen}}).splitlines()
    assert len({len(line) for line in lines}) == 1
    expected = ["placet", "64", "500", "2.00", "160.0", "1.00", "220.0", "160.0", "1.00", "6.0", "1.00"]
    assert expected == lines[-1].split()


def test_a_result_file_holds_every_figure(tmp_path: Path) -> None:
    """By system and calls in flight; no draft is left beside it."""
    path = tmp_path / "results" / "gated.json"
    write(path, figures({"floor": {64: a_measurement()}}))
    assert json.loads(path.read_text())["floor"]["64"]["calls_per_second"] == 250
    assert [path] == list(path.parent.iterdir())
