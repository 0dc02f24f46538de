"""Which staged changes stand on which: a later change of a key was made from what the earlier one leaves. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, TypeVar


class Entry(Protocol):
    """What is asked of a staged entry."""

    @property
    def call_id(self) -> str:
        """Its call."""
        ...

    @property
    def position(self) -> int:
        """Its place in its workspace."""
        ...

    @property
    def keys(self) -> Sequence[str]:
        """What it changes; a call that waits itself has none."""
        ...


AnEntry = TypeVar("AnEntry", bound=Entry)


def standing_on(entries: Iterable[AnEntry], gone: Collection[str]) -> list[AnEntry]:
    """Return the entries of one workspace that cannot stand without those that are `gone`, in their order.

    They change later what one of these changes, or what one of themselves does.
    """
    lost: set[str] = set()
    found: list[AnEntry] = []
    for each in sorted(entries, key=lambda each: each.position):
        if each.call_id in gone:
            lost.update(each.keys)
        elif lost.intersection(each.keys):
            lost.update(each.keys)
            found.append(each)
    return found
