"""Files beneath one root, never past it.

Each name of a path is opened by itself, relative to the folder before it and without following a link, so that nothing
that others swap in the middle leads out of the root. What is no plain file with one name on the root's own file system
is refused: links of both kinds, devices, pipes, sockets, mounts.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from placet.tools.contract import ToolError
from placet.tools.files.paths import OWN_PREFIX, Parts, fold, is_hidden, is_path
from placet.tools.staging import CannotApply, Content

#: Mode of new files and folders, before the process's umask.
NEW_FILE_MODE, NEW_FOLDER_MODE = 0o644, 0o755
#: What is kept of a file's mode: who may read, write and run it, and nothing that lends somebody's rights. All of it is
#: seen, so that people are told what a change of the file takes away.
MODE_BITS, SEEN_BITS = 0o777, 0o7777
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK_BYTES = 1024 * 1024


class Refused(ToolError):
    """What stands at a path is nothing that the tools touch."""

    def __init__(self, parts: Parts, problem: str) -> None:
        super().__init__(f"{'/'.join(parts)!r} {problem}.", code="refused_path")


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it stands in a folder."""

    path: str
    size: int
    mode: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that was not looked into."""

    path: str


@dataclass(frozen=True, slots=True)
class Tree:
    """All files beneath `path`, a folder that the operators trust."""

    path: Path
    #: Bytes of a file that is read or written, at most.
    bytes_max: int
    #: Patterns of what is not there for the tools.
    hidden: tuple[str, ...] = ()

    @contextmanager
    def folder(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        """Open a folder beneath the root; FileNotFoundError where it or one above is missing, Refused where it is none.

        The descriptor is good within the block. `create` makes what is missing.
        """
        self.check_shown(parts)
        held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            root = os.fstat(held)
            for place, name in enumerate(parts):
                inner = _enter(held, parts[: place + 1], create=create)
                outer, held = held, inner
                try:
                    _check_spelling(outer, name)
                finally:
                    os.close(outer)
                _check_device(parts[: place + 1], os.fstat(held), root)
            yield held
        finally:
            os.close(held)

    def read(self, parts: Parts) -> Content | None:
        """Return a file; None where there is none. ToolError `too_large`, Refused."""
        with self._open(parts) as found:
            if found is None:
                return None
            held, status = found
            self._check_size(parts, status.st_size)
            data = bytearray()
            while chunk := os.read(held, _CHUNK_BYTES):
                data += chunk
                self._check_size(parts, len(data))
            return Content(bytes(data), status.st_mode & SEEN_BITS)

    def digest(self, parts: Parts) -> tuple[str, int] | None:
        """Return SHA-256 and mode of a file of any size; None where there is none. Refused."""
        with self._open(parts) as found:
            if found is None:
                return None
            held, status = found
            digest = sha256()
            while chunk := os.read(held, _CHUNK_BYTES):
                digest.update(chunk)
            return digest.hexdigest(), status.st_mode & SEEN_BITS

    def is_folder(self, parts: Parts) -> bool:
        """Tell whether a folder stands at a path."""
        try:
            with self.folder(parts):
                return True
        except (FileNotFoundError, Refused):
            return False

    def hides(self, parts: Parts) -> bool:
        """Tell whether a path is hidden from the tools."""
        return is_hidden(parts, self.hidden)

    def check_shown(self, parts: Parts) -> None:
        """Raise Refused for a path that is hidden from the tools."""
        if self.hides(parts):
            raise Refused(parts, "is hidden from you: it may hold secrets")

    def check_place(self, parts: Parts) -> None:
        """Raise Refused where no file can be written at a path: of one above, or of a name that differs in case."""
        self.check_shown(parts)
        for depth in range(len(parts)):
            try:
                with self.folder(parts[:depth]) as held:
                    names = os.listdir(held)  # noqa: PTH208 - of a descriptor
                    twin = next((each for each in names if _twins(each, parts[depth])), None)
            except FileNotFoundError:
                return
            if twin is not None:
                raise Refused(parts[: depth + 1], f"differs from {twin!r} in case or form alone")
        if self.is_folder(parts):
            raise Refused(parts, "is a folder")

    def walk(self, parts: Parts, *, depth: int, entries_max: int) -> Iterator[Found | Folder]:
        """Yield the plain files beneath a folder in order of their paths, down to `depth` folders (0: its own).

        Of deeper folders only the path is yielded.

        ToolError `too_many` after `entries_max` files and folders. Links, what is hidden, and names that no path can
        have, such as bytes that are no text, are passed over.
        """
        left = [entries_max]
        with self.folder(parts) as held:
            yield from self._walk(held, parts, depth, left)

    def _walk(self, held: int, parts: Parts, depth: int, left: list[int]) -> Iterator[Found | Folder]:
        with os.scandir(held) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith(OWN_PREFIX))
        for name in names:
            left[0] -= 1
            if left[0] < 0:
                raise ToolError("There are too many files; name a folder.", code="too_many")
            inner = (*parts, name)
            if not is_path("/".join(inner)) or self.hides(inner):
                continue
            try:
                status = os.stat(name, dir_fd=held, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    yield Found("/".join(inner), status.st_size, status.st_mode & MODE_BITS)
                elif stat.S_ISDIR(status.st_mode) and not depth:
                    yield Folder("/".join(inner))
                elif stat.S_ISDIR(status.st_mode):
                    below = _enter(held, inner, create=False)
                    try:
                        yield from self._walk(below, inner, depth - 1, left)
                    finally:
                        os.close(below)
            except (FileNotFoundError, PermissionError, Refused):
                continue

    @contextmanager
    def _open(self, parts: Parts) -> Iterator[tuple[int, os.stat_result] | None]:
        """Open a plain file; None where nothing stands there."""
        self.check_shown(parts)
        try:
            with self.folder(parts[:-1]) as folder:
                _check_spelling(folder, parts[-1])
                held = _open_plain(folder, parts)
        except FileNotFoundError:
            yield None
            return
        try:
            yield held, os.fstat(held)
        finally:
            os.close(held)

    def _check_size(self, parts: Parts, size: int) -> None:
        if size > self.bytes_max:
            text = f"{'/'.join(parts)!r} has more than {self.bytes_max:,} bytes."
            raise ToolError(text, code="too_large")


@dataclass(frozen=True, slots=True)
class Draft:
    """New contents of one commit, in a folder of their own beneath the root until they take their places."""

    tree: Tree
    token: str

    @property
    def name(self) -> str:
        """Name of the folder, at the top of the root."""
        return f"{OWN_PREFIX}{self.token}"

    def write(self, number: int, data: bytes, mode: int) -> None:
        """Write a content as the n-th of the commit, safe on disk; what an earlier attempt wrote is replaced."""
        with self.tree.folder(()) as root:
            with suppress(FileExistsError):
                os.mkdir(self.name, 0o700, dir_fd=root)
            folder = _enter(root, (self.name,), create=False)
        try:
            with suppress(FileNotFoundError):
                os.unlink(str(number), dir_fd=folder)
            held = os.open(str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=folder)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(held, view) :]
                # Not through the umask: a file that is replaced keeps its mode.
                os.fchmod(held, mode & MODE_BITS)
                os.fsync(held)
            finally:
                os.close(held)
        finally:
            os.close(folder)

    def place(self, number: int, parts: Parts, digest: str, base: tuple[str, int | None] | None) -> None:
        """Let the n-th content take the place of its base, in one step; what took its place before is left.

        CannotApply where something else stands there by now: between the comparison and this, or its worker died.
        """
        path = "/".join(parts)
        try:
            found = self.tree.digest(parts)
            if not self._holds(number):
                # It took its place before a crash; what others have made of it since is theirs.
                if found == base:
                    raise CannotApply(f"the new content of {path!r} is gone")
                return
            if found != base and (found is None or found[0] != digest):
                raise CannotApply(f"{path!r} is another file by now")
            with self.tree.folder(()) as root, self.tree.folder(parts[:-1], create=True) as folder:
                drafts = _enter(root, (self.name,), create=False)
                try:
                    os.rename(str(number), parts[-1], src_dir_fd=drafts, dst_dir_fd=folder)
                finally:
                    os.close(drafts)
                os.fsync(folder)
        except (OSError, Refused) as error:
            raise CannotApply(f"{path!r} could not be written: {_words(error)}") from error

    def _holds(self, number: int) -> bool:
        """Tell whether the n-th content has still to take its place."""
        try:
            with self.tree.folder(()) as root:
                drafts = _enter(root, (self.name,), create=False)
                try:
                    os.stat(str(number), dir_fd=drafts, follow_symlinks=False)
                finally:
                    os.close(drafts)
        except FileNotFoundError:
            return False
        return True

    def remove(self, parts: Parts, digest: str) -> None:
        """Remove the file that the change was made from; CannotApply where another one stands there by now."""
        try:
            found = self.tree.digest(parts)
            if found is None:
                return
            if found[0] != digest:
                raise CannotApply(f"{'/'.join(parts)!r} is another file by now")
            with self.tree.folder(parts[:-1]) as folder:
                os.unlink(parts[-1], dir_fd=folder)
                os.fsync(folder)
        except FileNotFoundError:
            return
        except (OSError, Refused) as error:
            raise CannotApply(f"{'/'.join(parts)!r} could not be removed: {_words(error)}") from error

    def clear(self) -> None:
        """Remove the folder with whatever is still in it."""
        with self.tree.folder(()) as root:
            try:
                folder = _enter(root, (self.name,), create=False)
            except FileNotFoundError:
                return
            try:
                for name in os.listdir(folder):  # noqa: PTH208 - of a descriptor
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
            os.rmdir(self.name, dir_fd=root)
            os.fsync(root)


def _enter(folder: int, parts: Parts, *, create: bool) -> int:
    """Open the last of `parts` within the open folder before it."""
    try:
        return os.open(parts[-1], _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(parts[-1], NEW_FOLDER_MODE, dir_fd=folder)
            os.fsync(folder)
        return _enter(folder, parts, create=False)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise Refused(parts, "is no folder") from None
        raise Refused(parts, f"cannot be opened ({_words(error)})") from None


def _open_plain(folder: int, parts: Parts) -> int:
    """Open a plain file for reading; never a device, which may act on being opened, nor a pipe, which would wait."""
    before = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
    _check_plain(parts, before)
    try:
        held = os.open(parts[-1], os.O_RDONLY | _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(parts, f"cannot be opened ({_words(error)})") from None
    try:
        after = os.fstat(held)
        _check_plain(parts, after)
        _check_device(parts, after, os.fstat(folder))
    except BaseException:
        os.close(held)
        raise
    return held


def _check_device(parts: Parts, status: os.stat_result, folder: os.stat_result) -> None:
    if status.st_dev != folder.st_dev:
        raise Refused(parts, "is on another file system")


def _check_plain(parts: Parts, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise Refused(parts, "is a symbolic link")
    if stat.S_ISDIR(status.st_mode):
        raise Refused(parts, "is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(parts, "is no plain file")
    if status.st_nlink > 1:
        raise Refused(parts, "has several names (hard links)")


def _check_spelling(folder: int, name: str) -> None:
    """Raise FileNotFoundError for a name that a folder lacks: some file systems find `Secret` where it says `secret`.

    Only there is another spelling found at all, so that looking costs one question elsewhere.
    """
    other = name.swapcase()
    if other == name:
        return
    try:
        found = [os.stat(each, dir_fd=folder, follow_symlinks=False) for each in (name, other)]
    except FileNotFoundError:
        return
    if os.path.samestat(*found) and name not in os.listdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _twins(there: str, wanted: str) -> bool:
    return there != wanted and fold(there) == fold(wanted)


def _words(error: BaseException) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
