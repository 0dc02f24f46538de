"""A workspace without an executor: what waits in a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from placet.tools import Change, Content, DecidedChange, Staging, ToolContext, Waiting


@dataclass
class TestedWorkspace:
    """Holds what calls have staged, in order; hand it to calls as `context=tool_context(workspace=…)`."""

    __test__ = False

    #: Name of the pack and the change, in order.
    changes: list[tuple[str, Change]] = field(default_factory=list)

    async def find(self, pack: str, key: str) -> Waiting | None:
        """Return what waits under a key; None where no staged call has touched it."""
        return (await self.under(pack, key)).get(key)

    async def under(self, pack: str, prefix: str) -> Mapping[str, Waiting]:
        """Return what waits under all keys that begin with `prefix`, by key."""
        found = (each for of_pack, each in self.changes if of_pack == pack and each.key.startswith(prefix))
        return {each.key: _waiting(each.after) for each in found}

    async def load(self, waiting: Waiting) -> bytes:
        """Return the content that waits; empty where nothing is left."""
        contents = (each.after for _, each in self.changes if each.after is not None)
        return next((each.data for each in contents if each.digest == waiting.digest), b"")

    async def make(self, pack: Staging, context: ToolContext) -> list[str]:
        """Make the pack's changes as an executor does; return the keys that conflict, and then none is made."""
        decided = self.decided(pack.name)
        await pack.prepare(decided, context)
        if conflicts := await pack.conflicts(decided, context):
            await pack.abandon(context)
            return conflicts
        await pack.apply(decided, context)
        self.changes = [each for each in self.changes if each[0] != pack.name]
        return []

    def decided(self, pack: str) -> list[DecidedChange]:
        """Return what a pack's changes make of each key in the end."""
        decided: dict[str, DecidedChange] = {}
        for change in (each for of_pack, each in self.changes if of_pack == pack):
            decided[change.key] = DecidedChange.of(change, decided.get(change.key))
        return list(decided.values())


def _waiting(content: Content | None) -> Waiting:
    return Waiting(None) if content is None else Waiting(content.digest, len(content.data), content.mode)
