"""Tools for files: list, read, search, write, create, edit, move and delete, beneath one root that they never leave.

`FILES_ROOT` says where the root is, for each tenant and agent if it names them, `FILES_HIDDEN` what they never see.
With `stage: placet.tools.files:FILES` the writing tools can wait: the reading ones then show files as they will be, and
nothing is written before people have said yes to the whole workspace.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from placet.tools.contract import ToolContext, ToolError
from placet.tools.files.pack import FILES, NAME, FilesResources, files_of, in_thread
from placet.tools.files.paths import folder_parts_of, parts_of
from placet.tools.files.settings import FilesSettings
from placet.tools.files.tree import Folder, Found, Tree
from placet.tools.resources import PackSettings
from placet.tools.staging import Change, Waiting

__all__ = [
    "FILES",
    "create_file",
    "delete_file",
    "edit_file",
    "list_files",
    "move_file",
    "open_resources",
    "read_file",
    "search_files",
    "write_file",
]

#: Files that one list names, and lines that one search shows, at most.
LISTED_MAX, HITS_MAX = 1_000, 200
#: Characters of a text, and bytes of anything else, that one read returns at most.
READ_CHARACTERS_MAX, READ_BYTES_MAX = 100_000, 100_000
#: Characters of one hit's line.
LINE_CHARACTERS_MAX = 400
_FOLDERS_MAX = 32


@asynccontextmanager
async def open_resources(settings: PackSettings) -> AsyncIterator[dict[str, object]]:  # noqa: ARG001
    """Read the settings once."""
    yield {NAME: FilesResources(FilesSettings())}


async def list_files(context: ToolContext, *, folder: str = "", depth: int = 0) -> dict[str, Any]:
    """List the files of a folder, and of the folders in it down to `depth`; what waits counts as done.

    `{"files": [{"path", "size", "mode", "waiting"}], "folders": [path], "more"}`; `folders` are those below `depth`,
    `more` is true where some are left out. Links, hidden files and names that are no text are not listed.
    """
    found, below = await _files(context, folder, min(max(depth, 0), _FOLDERS_MAX))
    shown = [{**_shown(path, each), "waiting": isinstance(each, Waiting)} for path, each in found[:LISTED_MAX]]
    if not shown and not below and folder and not await _is_folder(context, folder):
        raise ToolError(f"There is no folder {folder!r}.", code="not_found")
    return {"files": shown, "folders": below[:LISTED_MAX], "more": max(len(found), len(below)) > LISTED_MAX}


async def read_file(
    context: ToolContext, *, path: str, first_line: int = 1, lines: int = 2_000, encoding: str = "text"
) -> dict[str, Any]:
    """Read a file with everything that waits: `{"path", "size", "mode", "sha256", "text", "first_line", "more"}`.

    What is no text has `"binary": true` instead; with the encoding `base64` its first bytes are in `"base64"`.
    """
    content = await FILES.read(path, context)
    if content is None:
        raise ToolError(f"There is no file {path!r}.", code="not_found")
    told: dict[str, Any] = {"path": path, "size": len(content.data), "mode": f"{content.mode or 0:o}"}
    told["sha256"] = content.digest
    if encoding == "base64":
        part = content.data[:READ_BYTES_MAX]
        return {**told, "base64": b64encode(part).decode(), "more": len(part) < len(content.data)}
    try:
        text = content.data.decode()
    except UnicodeDecodeError:
        return {**told, "binary": True}
    if "\x00" in text:
        return {**told, "binary": True}
    every = text.splitlines(keepends=True)
    first = max(first_line, 1)
    part_text = "".join(every[first - 1 : first - 1 + max(lines, 1)])
    cut = part_text[:READ_CHARACTERS_MAX]
    more = len(cut) < len(part_text) or first - 1 + max(lines, 1) < len(every)
    return {**told, "text": cut, "first_line": first, "more": more}


async def search_files(
    context: ToolContext, *, text: str, folder: str = "", name: str = "*", ignore_case: bool = False
) -> dict[str, Any]:
    """Find lines that contain `text`, in files whose name fits the pattern `name`; what waits counts as done.

    `{"hits": [{"path", "line", "text"}], "more"}`; files that are no text are passed over.
    """
    if not text:
        raise ToolError("`text` must be some text.", code="nothing_given")
    wanted = text.casefold() if ignore_case else text
    left = files_of(context).settings.search_bytes_max
    hits: list[dict[str, Any]] = []
    for path, each in (await _files(context, folder, _FOLDERS_MAX))[0]:
        if not fnmatchcase(path.rpartition("/")[2], name) or each.size > files_of(context).settings.bytes_max:
            continue
        left -= each.size
        if left < 0 or len(hits) > HITS_MAX:
            return {"hits": hits[:HITS_MAX], "more": True}
        hits += await _hits(context, path, wanted, ignore_case=ignore_case)
    return {"hits": hits[:HITS_MAX], "more": len(hits) > HITS_MAX}


async def write_file(
    context: ToolContext, *, path: str, content: str, encoding: str = "text", executable: bool | None = None
) -> dict[str, Any]:
    """Write a file's whole content, whether it is there or not; its mode is kept."""
    return await _run(context, "write_file", path=path, content=content, encoding=encoding, executable=executable)


async def create_file(
    context: ToolContext, *, path: str, content: str, encoding: str = "text", executable: bool | None = None
) -> dict[str, Any]:
    """Write a file that is not there yet."""
    return await _run(context, "create_file", path=path, content=content, encoding=encoding, executable=executable)


async def edit_file(context: ToolContext, *, path: str, old: str, new: str, every: bool = False) -> dict[str, Any]:
    """Replace `old` by `new`, character for character; once, or wherever it stands."""
    return await _run(context, "edit_file", path=path, old=old, new=new, every=every)


async def move_file(context: ToolContext, *, path: str, to: str) -> dict[str, Any]:
    """Give a file another path; nothing is overwritten."""
    return await _run(context, "move_file", path=path, to=to)


async def delete_file(context: ToolContext, *, path: str) -> dict[str, Any]:
    """Delete a file."""
    return await _run(context, "delete_file", path=path)


async def _run(context: ToolContext, function: str, **arguments: Any) -> dict[str, Any]:
    changes: Sequence[Change] = await FILES.run(function, arguments, context)
    # Comparing large texts takes a while; what else runs here does not wait for it.
    told = await in_thread(lambda: [FILES.describe(change).summary for change in changes])
    return {"done": told}


async def _files(context: ToolContext, folder: str, depth: int) -> tuple[list[tuple[str, Found | Waiting]], list[str]]:
    """Return the files beneath a folder as they will be, by path, and the folders that lie too deep."""
    parts, tree = folder_parts_of(folder), files_of(context).tree(context)
    prefix = "".join(f"{part}/" for part in parts)
    entries_max = files_of(context).settings.entries_max

    def walked() -> list[Found | Folder]:
        try:
            return list(tree.walk(parts, depth=depth, entries_max=entries_max))
        except FileNotFoundError:
            return []

    standing = await in_thread(walked)
    found: dict[str, Found | Waiting] = {each.path: each for each in standing if isinstance(each, Found)}
    below = {each.path for each in standing if isinstance(each, Folder)}
    waiting: Mapping[str, Waiting] = await context.workspace.under(NAME, prefix)
    for path, each in waiting.items():
        if each.digest is None or tree.hides(tuple(path.split("/"))):
            found.pop(path, None)
        elif path.removeprefix(prefix).count("/") <= depth:
            found[path] = each
        else:
            below.add("/".join(path.split("/")[: len(parts) + depth + 1]))
    return sorted(found.items()), sorted(below)


async def _is_folder(context: ToolContext, folder: str) -> bool:
    return bool(await in_thread(partial(Tree.is_folder, files_of(context).tree(context), folder_parts_of(folder))))


def _shown(path: str, each: Found | Waiting) -> dict[str, Any]:
    return {"path": path, "size": each.size, "mode": f"{each.mode or 0:o}"}


async def _hits(context: ToolContext, path: str, wanted: str, *, ignore_case: bool) -> list[dict[str, Any]]:
    try:
        parts_of(path)
        content = await FILES.read(path, context)
    except ToolError:
        # A file whose name no tool may say, or that has been swapped meanwhile.
        return []
    data = b"" if content is None else content.data

    def lines() -> Iterator[dict[str, Any]]:
        for number, line in enumerate(data.decode().splitlines(), 1):
            if wanted in (line.casefold() if ignore_case else line):
                yield {"path": path, "line": number, "text": line[:LINE_CHARACTERS_MAX]}

    try:
        return [] if b"\x00" in data else list(lines())
    except UnicodeDecodeError:
        return []
