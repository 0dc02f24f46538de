"""How the changes of a tool pack wait for people: the contract of `stage: module:object` in the rulebook.

A pack that can stage keeps its world as contents under keys (files under paths, prices under product ids). `Staging` is
the base of the object that the rulebook names. Its life in one workspace:

1. `stage` says what a call would change, from `read`: what stands under a key with everything that waits before it.
   Nothing is changed. Placet keeps the changes, and `describe` makes the lines and the diff that people see.
2. When people have said yes: `prepare` does what takes long and shows nowhere, `conflicts` names what is no longer as
   it was when the changes were made, and `apply` makes all changes.
3. `apply` is repeated where its process was killed in the middle, so it takes what is done already for done. `abandon`
   takes back what `prepare` left, where nothing is applied.

While one commit goes through 2 and 3, no other one with the same `scope` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from placet.tools.diffs import counts, grouped_opcodes, unified_lines

if TYPE_CHECKING:
    from placet.tools.contract import ToolContext

#: Lines and characters of one diff that are kept, at most.
DIFF_LINES_MAX = 2_000
DIFF_CHARACTERS_MAX = 64_000
#: Contents of more bytes are told by their size and digest alone: comparing them would take too long.
DIFF_BYTES_MAX = 512 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    """What stands under a key; `mode` where the pack keeps one, such as a file's permissions."""

    data: bytes = field(repr=False)
    mode: int | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the data, 64 hexadecimal digits."""
        return sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """What a call would make of one key: nothing was there where `before` is None, nothing is left where `after` is."""

    key: str
    before: Content | None
    after: Content | None


@dataclass(frozen=True, slots=True)
class Described:
    """A change as people see it."""

    #: One line, such as `Change src/main.py (+3 -1)`.
    summary: str
    #: Unified diff; empty where there is none to read.
    diff: str = ""
    #: True: more would have followed.
    cut: bool = False
    #: True: contents that no diff can show.
    binary: bool = False
    #: Lines of the whole change, also where its diff is cut.
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the last staged call that touched a key leaves under it; `digest` is None where that is nothing."""

    digest: str | None
    size: int = 0
    mode: int | None = None


class Workspace(Protocol):
    """What waits in the conversation's workspace, for tools that read what they may have changed."""

    async def find(self, pack: str, key: str) -> Waiting | None:
        """Return what waits under a key; None where no staged call has touched it."""

    async def under(self, pack: str, prefix: str) -> Mapping[str, Waiting]:
        """Return what waits under all keys that begin with `prefix`, by key."""

    async def load(self, waiting: Waiting) -> bytes:
        """Return the content that waits; empty where nothing is left."""


class NoWorkspace:
    """The workspace of a conversation in which nothing waits."""

    async def find(self, pack: str, key: str) -> Waiting | None:  # noqa: ARG002
        """Return None."""
        return None

    async def under(self, pack: str, prefix: str) -> Mapping[str, Waiting]:  # noqa: ARG002
        """Return nothing."""
        return {}

    async def load(self, waiting: Waiting) -> bytes:  # noqa: ARG002
        """Return nothing."""
        return b""


@dataclass(frozen=True, slots=True)
class DecidedChange:
    """What a decided workspace makes of one key in the end, whatever its entries did on the way."""

    key: str
    #: Digest and mode of what must stand under the key now; None: nothing.
    base: str | None
    base_mode: int | None
    #: Digest, size and mode of what is to stand there; None: nothing.
    after: str | None
    size: int
    mode: int | None
    #: Loads the content, one at a time: a workspace may hold more than memory should.
    load: Callable[[], Awaitable[bytes]] = field(repr=False)

    @classmethod
    def of(cls, change: Change, first: Self | None = None) -> Self:
        """Return what a change that was looked at comes to, with `first` of its key where that had been changed."""
        before, after = change.before, change.after

        async def load() -> bytes:
            return after.data if after else b""

        return cls(
            change.key,
            base=first.base if first else before.digest if before else None,
            base_mode=first.base_mode if first else before.mode if before else None,
            after=after.digest if after else None,
            size=len(after.data) if after else 0,
            mode=after.mode if after else None,
            load=load,
        )

    @property
    def wanted(self) -> tuple[str, int | None] | None:
        """Digest and mode of what must stand under the key now; None: nothing."""
        return None if self.base is None else (self.base, self.base_mode)


class CannotApply(Exception):
    """Changes could not be made, and trying again will not help; the text is for people and for the model.

    `keys` says for each key that was not made why, half a sentence. Where it is empty, the text goes for every change
    that does not stand after all.
    """

    def __init__(self, text: str, keys: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.keys = dict(keys or {})


class Staging(ABC):
    """The object that the rulebook names in `stage`. One object may serve all tools of its pack."""

    #: Short name of the pack: keys are told as `name:key`. Lower case, unique among the packs of an executor.
    name: ClassVar[str]

    @abstractmethod
    async def stage(self, function: str, arguments: Mapping[str, Any], context: ToolContext) -> Sequence[Change]:
        """Return what a call would change, without changing anything; raise ToolError as the tool itself would.

        `function` is the name of the tool's Python function, `arguments` are what it would be called with.
        """

    @abstractmethod
    async def current(self, key: str, context: ToolContext) -> Content | None:
        """Return what really stands under a key now, whatever waits; None: nothing."""

    @abstractmethod
    async def apply(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Make the changes. What is made already stays as it is. CannotApply where not all can be made."""

    def scope(self, context: ToolContext) -> str:
        """Return the name of what commits must not touch at the same time; one tenant's world unless said otherwise."""
        return context.tenant

    async def read(self, key: str, context: ToolContext) -> Content | None:
        """Return what stands under a key with everything that waits in the conversation's workspace."""
        waiting = await context.workspace.find(self.name, key)
        if waiting is None:
            return await self.current(key, context)
        return None if waiting.digest is None else Content(await context.workspace.load(waiting), waiting.mode)

    def describe(self, change: Change) -> Described:
        """Return a change as people see it."""
        return describe(change)

    async def prepare(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Do what takes long and shows nowhere yet; repeated as `apply` is."""
        del changes, context

    async def standing(self, key: str, context: ToolContext) -> tuple[str, int | None] | None:
        """Return digest and mode of what really stands under a key now; None: nothing."""
        found = await self.current(key, context)
        return None if found is None else (found.digest, found.mode)

    async def conflicts(self, changes: Sequence[DecidedChange], context: ToolContext) -> list[str]:
        """Return the keys under which something else stands than the changes were made from."""
        return [each.key for each in changes if await self.standing(each.key, context) != each.wanted]

    def clashes(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys that cannot stand beside another one of them, by their names alone. Pure."""
        del keys
        return []

    async def abandon(self, context: ToolContext) -> None:
        """Take back what `prepare` left, where it left anything."""
        del context


#: What a unified diff says below a last line that no newline ends.
_NO_NEWLINE = "\\ No newline at end of file"
#: Of a file's mode, whoever may run it.
_EXECUTABLE = 0o111


def describe(change: Change) -> Described:
    """Return a change of text as a unified diff, and of anything else by its size."""
    verb = "Create" if change.before is None else "Delete" if change.after is None else "Change"
    sizes = [0 if each is None else len(each.data) for each in (change.before, change.after)]
    texts = [_text(each) for each in (change.before, change.after)]
    if texts[0] is None or texts[1] is None:
        return Described(f"{verb} {change.key} ({_sizes(*sizes)}{_mode(change)})", binary=True)
    names = (f"a/{change.key}" if change.before else "/dev/null", f"b/{change.key}" if change.after else "/dev/null")
    before, after = map(_lines, (texts[0], texts[1]))
    groups = list(grouped_opcodes(before, after))
    added, removed = counts(groups)
    kept = list(islice(unified_lines(before, after, names, groups), DIFF_LINES_MAX + 1))
    cut = len(kept) > DIFF_LINES_MAX
    text = "\n".join(kept[:DIFF_LINES_MAX])
    if len(text) > DIFF_CHARACTERS_MAX:
        text, cut = text[:DIFF_CHARACTERS_MAX], True
    return Described(
        f"{verb} {change.key} (+{added} -{removed}{_mode(change)})", text, cut, added=added, removed=removed
    )


def _text(content: Content | None) -> str | None:
    """Return a content as text; None where it is none, or too much to compare."""
    if content is None:
        return ""
    if len(content.data) > DIFF_BYTES_MAX or b"\x00" in content.data:
        return None
    try:
        return content.data.decode()
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> list[str]:
    """Return the lines of a text; the last says so where no newline ends it, as unified diffs do."""
    lines = text.split("\n")
    if last := lines.pop():
        lines.append(f"{last}\n{_NO_NEWLINE}")
    return lines


def _sizes(before: int, after: int) -> str:
    return f"{before:,} → {after:,} bytes" if before and after else f"{before or after:,} bytes"


def _mode(change: Change) -> str:
    if change.before is None and change.after is not None and (change.after.mode or 0) & _EXECUTABLE:
        return f", mode {change.after.mode:o}"
    if change.before is None or change.after is None or change.before.mode == change.after.mode:
        return ""
    return f", mode {change.before.mode or 0:o} → {change.after.mode or 0:o}"
