"""The values of a call's arguments that have no parts: in their order, and how people read where each stands. Pure.

There may be tens of thousands in one call, so what is dear is done for those alone that are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, TypeAlias

from placet.domain.card_text import visible

#: Where a value stands: keys and indexes from the top.
Path: TypeAlias = tuple[str, ...]

#: Characters of one step of the path to an argument, which all leaves below it have in their names, and of a name.
STEP_MAX, NAME_MAX = 120, 600


def leaves(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield every value that has no parts, with where it stands; not the whole itself."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [((*path, step), child) for step, child in reversed(value.items())]
        elif isinstance(value, list) and value:
            waiting += [((*path, str(at)), value[at]) for at in range(len(value) - 1, -1, -1)]
        elif path:
            yield path, value


def path_of(pointer: str) -> Path:
    """Return the path that an RFC 6901 JSON pointer names."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


class Names:
    """What the leaves of one call are called; a step that many of them share is looked at once."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[str, bool]] = {}
        self._odd: dict[Path, bool] = {}

    def of(self, path: Path) -> str:
        """Return a path as people read it: long ones are cut, and name their digest."""
        name = ".".join(self._step(step)[0] for step in path)
        return name if len(name) <= NAME_MAX else name[:NAME_MAX] + tail_of(name)

    def is_odd(self, path: Path) -> bool:
        """Tell whether a step has characters that do not show."""
        above, step = path[:-1], path[-1]
        odd = self._odd.get(above)
        if odd is None:
            odd = self._odd[above] = any(self._step(each)[1] for each in above)
        return odd or (not step.isdecimal() and self._step(step)[1])

    def _step(self, step: str) -> tuple[str, bool]:
        found = self._steps.get(step)
        if found is None:
            shown = visible(step)
            short = shown if len(shown) <= STEP_MAX else shown[:STEP_MAX] + tail_of(shown)
            found = self._steps[step] = short, shown != step
        return found


def tail_of(shown: str) -> str:
    """Return what stands behind a value that is cut: its length and digest, so that no two of them look alike."""
    return f"… [{len(shown)}, SHA-256 {sha256(shown.encode()).hexdigest()[:16]}]"
