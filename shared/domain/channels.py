"""Channels that a rulebook names and that an installation does not have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from placet.domain.yaml_source import Steps

#: Parts of a rulebook in which approvals are described.
_PARTS = ("rules", "defaults", "fallback")


def not_set_up(rulebook: Mapping[str, Any], channels: Collection[str]) -> Iterator[tuple[Steps, str]]:
    """Yield place and name of each channel that a rulebook's rules name and that is not among `channels`.

    `channels` has kinds (`slack` stands for every `slack:<name>`) and single channels (`apprise:ops`).
    """
    for part in _PARTS:
        for steps, name in _named(rulebook.get(part), (part,)):
            if name not in channels and name.partition(":")[0] not in channels:
                yield steps, name


def _named(value: Any, steps: Steps) -> Iterator[tuple[Steps, str]]:
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from _named(each, (*steps, at))
    elif isinstance(value, dict):
        for key, each in value.items():
            here = (*steps, key)
            if key == "channels" and isinstance(each, list):
                yield from (((*here, at), name) for at, name in enumerate(each) if isinstance(name, str))
            else:
                yield from _named(each, here)
