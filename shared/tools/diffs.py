"""Diffs whose work is bounded, whatever two texts are like. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate

#: Pairs of lines that one diff compares: a second or so. Texts of short lines that come again and again would need
#: many thousand times as many.
STEPS_MAX = 4_000_000
#: Lines from which on difflib passes over the frequent ones.
_LONG = 200


class _Bounded(SequenceMatcher[str]):
    """Finds what two texts share until its steps are used up; what is not looked at by then counts as replaced."""

    def __init__(self, before: Sequence[str], after: Sequence[str], steps: int) -> None:
        super().__init__(None, before, after)
        self._before, self._after, self._steps = before, after, steps
        # Of long texts, a line that is more than a hundredth of all is passed over by difflib.
        most = len(after) // 100 + 1 if len(after) >= _LONG else len(after)
        equal = {line: count for line, count in Counter(after).items() if count <= most}
        #: Steps that all lines up to each of `before` take: one, and one for each equal line of `after`.
        self._taken = list(accumulate((1 + equal.get(line, 0) for line in before), initial=0))

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Return what two parts share at their beginnings or ends, which costs little, or else their longest block."""
        ahi, bhi = len(self._before) if ahi is None else ahi, len(self._after) if bhi is None else bhi
        before, after, most = self._before, self._after, min(ahi - alo, bhi - blo)
        if size := next((at for at in range(most) if before[alo + at] != after[blo + at]), most):
            return Match(alo, blo, size)
        if size := next((at for at in range(most) if before[ahi - 1 - at] != after[bhi - 1 - at]), most):
            return Match(ahi - size, bhi - size, size)
        steps = self._taken[ahi] - self._taken[alo]
        if steps > self._steps:
            return Match(alo, blo, 0)
        self._steps -= steps
        return super().find_longest_match(alo, ahi, blo, bhi)


Opcode = tuple[str, int, int, int, int]


def grouped_opcodes(
    before: Sequence[str], after: Sequence[str], context: int = 3, steps_max: int = STEPS_MAX
) -> Iterator[list[Opcode]]:
    """Yield groups of changes with so many lines of what stays around each, as difflib does; bounded."""
    yield from _Bounded(before, after, steps_max).get_grouped_opcodes(context)


def counts(groups: Iterable[list[Opcode]]) -> tuple[int, int]:
    """Return how many lines groups of changes add, and how many they remove."""
    changed = [each for group in groups for each in group if each[0] != "equal"]
    return sum(each[4] - each[3] for each in changed), sum(each[2] - each[1] for each in changed)


def unified_lines(
    before: Sequence[str], after: Sequence[str], names: tuple[str, str], groups: Iterable[list[Opcode]]
) -> Iterator[str]:
    """Yield the lines of a unified diff of these groups of changes; none where nothing differs.

    It can be applied in any case. Where the lines would take too long to compare it shows more as replaced than need
    be.
    """
    head = [f"--- {names[0]}", f"+++ {names[1]}"]
    for group in groups:
        yield from head
        head = []
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@"
        for tag, old, old_end, new, new_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[old:old_end])
                continue
            yield from (f"-{line}" for line in before[old:old_end])
            yield from (f"+{line}" for line in after[new:new_end])


def _span(start: int, stop: int) -> str:
    """Return a hunk's place as unified diffs say it: from 1, or the line before where it is empty."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
