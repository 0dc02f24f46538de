"""What the file tools do to the tree, as changes: made at once, or kept in a workspace until people say yes.

Each of the writing tools is a plan: from its arguments to `Change`s, by what stands in the tree with everything that
waits. Run at once, the same plan is applied on the spot.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from placet.runtime.threads import call_in_thread
from placet.tools.contract import ToolContext, ToolError, ToolOutcomeUnknown
from placet.tools.files.paths import Parts, fold, parts_of
from placet.tools.files.settings import FilesSettings
from placet.tools.files.tree import MODE_BITS, NEW_FILE_MODE, Draft, Tree
from placet.tools.files.writable import check_writable
from placet.tools.staging import CannotApply, Change, Content, DecidedChange, Staging

Result = TypeVar("Result")
_NAME = re.compile(r"[A-Za-z0-9_-]+")

NAME = "files"
"""Under this name the tools find their resources; also the pack's own name."""


@dataclass(frozen=True, slots=True)
class FilesResources:
    """What one executor knows of files."""

    settings: FilesSettings

    def tree(self, context: ToolContext) -> Tree:
        """Return the files of the call's tenant and agent; their folders are made where they are missing."""
        return Tree(_root(self.settings.root, context), self.settings.bytes_max, self.settings.hidden)


def files_of(context: ToolContext) -> FilesResources:
    """Return the resources the context carries."""
    return context.resource(NAME, FilesResources)


def _root(template: str, context: ToolContext) -> Path:
    values = {"{tenant}": context.tenant, "{agent}": context.agent}
    # Tenants and agents have names of letters, digits, `-` and `_`; an agent that has none has no folder.
    if any(name in template and not _NAME.fullmatch(value) for name, value in values.items()):
        raise ToolError("This call has no folder of files.", code="no_root")
    folder = Path("/")
    made = False
    for name in Path(template).parts[1:]:
        folder /= values.get(name, name)
        made = made or name in values
        if made:
            with suppress(FileNotFoundError):
                folder.mkdir(mode=0o700, exist_ok=True)
            if folder.is_symlink():
                raise ToolError("The folder of this call's files is a link.", code="no_root")
    if not folder.is_dir():
        raise ToolError("The root of the files does not exist; its operators can make it.", code="no_root")
    return folder


class Files(Staging):
    """The files of a tenant's agent, under their paths."""

    name: ClassVar[str] = NAME

    async def stage(self, function: str, arguments: Mapping[str, Any], context: ToolContext) -> Sequence[Change]:
        """Return what one of the writing tools would change."""
        plan = _PLANS.get(function)
        if plan is None:
            raise ToolError("This tool changes no files.", code="not_staged")
        return await plan(self, context, **arguments)

    async def read(self, key: str, context: ToolContext) -> Content | None:
        """Return a file with everything that waits; ToolError where the tools may not name or see it."""
        files_of(context).tree(context).check_shown(parts_of(key))
        return await super().read(key, context)

    async def current(self, key: str, context: ToolContext) -> Content | None:
        """Return a file as it stands in the tree."""
        return await in_thread(partial(files_of(context).tree(context).read, parts_of(key)))

    async def standing(self, key: str, context: ToolContext) -> tuple[str, int | None] | None:
        """Return SHA-256 and mode of a file, without keeping it in memory."""
        return await in_thread(partial(files_of(context).tree(context).digest, parts_of(key)))

    def scope(self, context: ToolContext) -> str:
        """Return the path of the root."""
        return str(files_of(context).tree(context).path)

    async def conflicts(self, changes: Sequence[DecidedChange], context: ToolContext) -> list[str]:
        """Return the paths at which another file stands than the changes were made from, or none can be written."""
        return await in_thread(partial(_conflicts, files_of(context).tree(context), changes))

    async def prepare(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Write new contents into a folder of the commit's own, one after the other."""
        draft = self._draft(context)
        await in_thread(draft.clear)
        for number, change in enumerate(changes):
            if change.after is not None:
                mode = NEW_FILE_MODE if change.mode is None else change.mode
                await in_thread(partial(draft.write, number, await change.load(), mode))

    async def apply(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Let new contents take their places, then remove what goes: nothing is lost on the way."""
        await in_thread(partial(_apply, self._draft(context), changes))

    def clashes(self, keys: Sequence[str]) -> list[str]:
        """Return paths of which one is a folder of another, or that differ in case or form alone."""
        return _clashes(keys)

    async def abandon(self, context: ToolContext) -> None:
        """Remove the commit's folder."""
        await in_thread(self._draft(context).clear)

    def _draft(self, context: ToolContext) -> Draft:
        return Draft(files_of(context).tree(context), f"{context.idempotency_key}-{context.fence}")

    async def run(self, function: str, arguments: Mapping[str, Any], context: ToolContext) -> Sequence[Change]:
        """Plan a call and make its changes at once; `context` has no workspace to look at."""
        changes = await self.stage(function, arguments, context)
        decided = [DecidedChange.of(change) for change in changes]
        try:
            await self.prepare(decided, context)
            conflicts = await self.conflicts(decided, context)
        except BaseException as error:
            await self.abandon(context)
            if isinstance(error, CannotApply):
                raise ToolError(f"{error}.", code="not_writable") from error
            raise
        if conflicts:
            await self.abandon(context)
            raise ToolError(f"{conflicts[0]!r} has just been changed by others; read it again.", code="conflict")
        try:
            await self.apply(decided, context)
        except CannotApply as error:
            raise ToolOutcomeUnknown(f"Not all of it could be done: {error}.") from error
        return changes

    async def write_file(
        self, context: ToolContext, *, path: str, content: str, encoding: str = "text", executable: bool | None = None
    ) -> Sequence[Change]:
        """Plan a file's whole content, whether it is there or not."""
        before = await self.read(path, context)
        after = Content(self._decoded(context, content, encoding), _mode(before, executable=executable))
        if before is None:
            await self._check_place(path, context)
        elif before == after:
            raise ToolError(f"{path!r} already has exactly this content.", code="no_change")
        return [Change(path, before, after)]

    async def create_file(
        self, context: ToolContext, *, path: str, content: str, encoding: str = "text", executable: bool | None = None
    ) -> Sequence[Change]:
        """Plan a file that is not there yet."""
        if await self.read(path, context) is not None:
            raise ToolError(f"{path!r} exists already.", code="exists")
        return await self.write_file(context, path=path, content=content, encoding=encoding, executable=executable)

    async def edit_file(
        self, context: ToolContext, *, path: str, old: str, new: str, every: bool = False
    ) -> Sequence[Change]:
        """Plan an exact replacement in a text."""
        before = await self._existing(path, context)
        text = _as_text(path, before)
        if not old or old == new:
            raise ToolError("`old` must be some text, and `new` another one.", code="no_change")
        if not (count := text.count(old)):
            raise ToolError(f"{path!r} does not contain `old`, character for character.", code="not_found")
        if count > 1 and not every:
            wanted = "give more of the text around it, or set `every`"
            raise ToolError(f"{path!r} contains `old` {count} times; {wanted}.", code="ambiguous")
        # Known before it is made: a short `old` and a long `new` would make more than memory holds.
        self._check_size(context, len(before.data) + count * (len(new.encode()) - len(old.encode())))
        return [Change(path, before, Content(text.replace(old, new).encode(), _kept(before)))]

    async def move_file(self, context: ToolContext, *, path: str, to: str) -> Sequence[Change]:
        """Plan another path for a file; nothing is overwritten."""
        before = await self._existing(path, context)
        if await self.read(to, context) is not None:
            raise ToolError(f"{to!r} exists already.", code="exists")
        await self._check_place(to, context)
        return [Change(to, None, Content(before.data, _kept(before))), Change(path, before, None)]

    async def delete_file(self, context: ToolContext, *, path: str) -> Sequence[Change]:
        """Plan that a file goes."""
        return [Change(path, await self._existing(path, context), None)]

    async def _existing(self, path: str, context: ToolContext) -> Content:
        found = await self.read(path, context)
        if found is None:
            raise ToolError(f"There is no file {path!r}.", code="not_found")
        return found

    async def _check_place(self, path: str, context: ToolContext) -> None:
        """Refuse a path that cannot have a file, in the tree or among what waits."""
        parts = parts_of(path)
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if await self.read_plain(above, context):
                text = f"{above!r} is a file, or was one before what waits; decide that first."
                raise ToolError(text, code="refused_path")
        tree = files_of(context).tree(context)
        await in_thread(partial(tree.check_place, parts))
        waiting = [each for each, left in (await context.workspace.under(self.name, "")).items() if left.digest]
        if any(each.startswith(f"{path}/") for each in waiting):
            raise ToolError(f"{path!r} is a folder.", code="refused_path")
        if twin := next(filter(None, (_twin(each, path) for each in waiting)), ""):
            raise ToolError(f"{path!r} differs from {twin!r} in case or form alone.", code="refused_path")

    async def read_plain(self, path: str, context: ToolContext) -> bool:
        """Tell whether a plain file stands at a path, in the tree or among what waits."""
        waiting = await context.workspace.find(self.name, path)
        if waiting is not None and waiting.digest:
            return True
        tree = files_of(context).tree(context)
        return not await in_thread(partial(_free_for_folder, tree, parts_of(path)))

    def _decoded(self, context: ToolContext, content: str, encoding: str) -> bytes:
        if encoding == "base64":
            try:
                data = b64decode(content, validate=True)
            except (NotBase64, ValueError) as error:
                raise ToolError("`content` is no base64.", code="bad_content") from error
        elif encoding == "text":
            data = content.encode()
        else:
            raise ToolError("`encoding` is `text` or `base64`.", code="bad_content")
        self._check_size(context, len(data))
        return data

    def _check_size(self, context: ToolContext, size: int) -> None:
        most = files_of(context).settings.bytes_max
        if size > most:
            raise ToolError(f"A file has at most {most:,} bytes; this would have {size:,}.", code="too_large")


FILES = Files()
"""What the rulebook names: `stage: placet.tools.files:FILES`."""

Plan: TypeAlias = Callable[..., Awaitable[Sequence[Change]]]
_PLANS: Mapping[str, Plan] = {
    "write_file": Files.write_file,
    "create_file": Files.create_file,
    "edit_file": Files.edit_file,
    "move_file": Files.move_file,
    "delete_file": Files.delete_file,
}


async def in_thread(work: Callable[[], Result]) -> Result:
    """Do something with the file system, which may hang, in a thread of its own."""
    done: Result = await call_in_thread(work, name="tool files")
    return done


def _clashes(keys: Sequence[str]) -> list[str]:
    """Return paths of which one is a folder of another, or that differ in case or form alone, in their order."""
    whole, spelled, found = set(keys), dict[str, str](), set[str]()
    owner: dict[str, str] = {}
    for key in keys:
        names = key.split("/")
        for depth in range(1, len(names) + 1):
            above = "/".join(names[:depth])
            if depth < len(names) and above in whole:
                found |= {key, above}
            folded = "/".join(map(fold, names[:depth]))
            if spelled.setdefault(folded, above) != above:
                found |= {key, owner[folded]}
            owner.setdefault(folded, key)
    return [key for key in keys if key in found]


def _others(changes: Sequence[DecidedChange], keys: Collection[str]) -> list[DecidedChange]:
    named = set(keys)
    return [change for change in changes if change.key not in named]


def _conflicts(tree: Tree, changes: Sequence[DecidedChange]) -> list[str]:
    found = _clashes([change.key for change in changes])
    for change in _others(changes, found):
        parts = parts_of(change.key)
        try:
            stands = tree.digest(parts)
            if change.base is None:
                tree.check_place(parts)
        except ToolError:
            found.append(change.key)
            continue
        if stands != change.wanted:
            found.append(change.key)
    if not found:
        # Before the first of them is made: all of them, or none.
        for change in changes:
            check_writable(tree, parts_of(change.key))
    return found


def _apply(draft: Draft, changes: Sequence[DecidedChange]) -> None:
    """Make all changes that can be made: they were decided together, and some may have been made before a crash."""
    failed: dict[str, str] = {}
    for number, change in enumerate(changes):
        if change.after is not None:
            with _noted(failed, change.key):
                draft.place(number, parts_of(change.key), change.after, change.wanted)
    gone = [change for change in changes if change.after is None and change.base is not None]
    if failed:
        # What was moved would be lost.
        failed |= {change.key: "it stays, for not every new content found its place" for change in gone}
    else:
        for change in gone:
            with _noted(failed, change.key):
                draft.remove(parts_of(change.key), change.base or "")
    # Nobody tries again: what has no place now lies in nobody's way.
    draft.clear()
    if failed:
        raise CannotApply(next(iter(failed.values())), failed)


@contextmanager
def _noted(failed: dict[str, str], key: str) -> Iterator[None]:
    try:
        yield
    except CannotApply as error:
        failed[key] = str(error)


def _free_for_folder(tree: Tree, parts: Parts) -> bool:
    """Tell whether a folder stands, or could stand, at a path."""
    try:
        with tree.folder(parts[:-1]) as held:
            os.stat(parts[-1], dir_fd=held, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return tree.is_folder(parts)


def _kept(before: Content | None) -> int:
    """Return the mode that a file has after a change."""
    return NEW_FILE_MODE if before is None or before.mode is None else before.mode & MODE_BITS


def _mode(before: Content | None, *, executable: bool | None) -> int:
    mode = _kept(before)
    if executable is None:
        return mode
    # Whoever may read may run, or nobody may.
    return mode | (mode & 0o444) >> 2 if executable else mode & ~0o111


def _as_text(path: str, content: Content) -> str:
    try:
        return content.data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path!r} is no text in UTF-8; write it whole.", code="binary") from error


def _twin(there: str, path: str) -> str:
    """Return the part of a path that another one differs from in case or form alone; empty where there is none."""
    names = there.split("/")
    for depth, (name, wanted) in enumerate(zip(names, path.split("/"), strict=False), 1):
        if name != wanted:
            return "/".join(names[:depth]) if fold(name) == fold(wanted) else ""
    return ""
