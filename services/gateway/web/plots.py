"""Plots as shapes for SVG: bars and a line in a box. Pure; the words and numbers stand in a table beside each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: The box that a plot is drawn in, in SVG's units.
WIDTH, HEIGHT = 560, 120


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle."""

    x: float
    y: float
    width: float
    height: float


def bars(values: Sequence[int]) -> list[Bar]:
    """Return a bar per value side by side, the largest as high as the box; nothing is as high as nothing."""
    most, room = max([1, *values]), WIDTH / max(1, len(values))
    heights = [HEIGHT * value / most for value in values]
    return [
        Bar(round(room * (number + 0.1), 1), round(HEIGHT - height, 1), round(room * 0.8, 1), round(height, 1))
        for number, height in enumerate(heights)
    ]


def line(values: Sequence[int]) -> str:
    """Return the points of a line over the whole width, as `polyline` takes them."""
    most, steps = max([1, *values]), max(1, len(values) - 1)
    places = ((WIDTH * number / steps, HEIGHT - HEIGHT * value / most) for number, value in enumerate(values))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def shares(values: Sequence[int]) -> list[Bar]:
    """Return a bar per value, one after the other along a line 100 wide: what part of the whole each is."""
    whole, found, x = max(1, sum(values)), [], 0.0
    for value in values:
        width = 100 * value / whole
        found.append(Bar(round(x, 2), 0, round(width, 2), 10))
        x += width
    return found
