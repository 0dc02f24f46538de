"""Whether a file may take its place or go, asked before any file of a commit does: all of them are made, or none."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from placet.tools.files.paths import Parts
from placet.tools.files.tree import Tree
from placet.tools.staging import CannotApply

#: What says of a file that nobody may replace it, whoever may write to its folder.
_FIXED = frozenset({errno.EPERM, errno.EROFS})


def check_writable(tree: Tree, parts: Parts) -> None:
    """Raise CannotApply where a path's folder, or the nearest one above that is there, takes no file and lets none go.

    Nothing is changed. What nobody can know before, such as a full disk, still shows when files take their places.
    """
    for depth in range(len(parts) - 1, -1, -1):
        with suppress(FileNotFoundError), tree.folder(parts[:depth]) as folder:
            if problem := _problem(folder, parts[-1] if depth == len(parts) - 1 else ""):
                path = "/".join(parts)
                raise CannotApply(f"{path!r} could not be written: {os.strerror(problem)}")
            return


def _problem(folder: int, name: str) -> int:
    """Return the number of the error that changing a name in an open folder would meet; 0: none that can be known."""
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
        return errno.EACCES
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False) if name else None
    except FileNotFoundError:
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        return 0
    outer, user = os.fstat(folder), os.geteuid()
    if outer.st_mode & stat.S_ISVTX and user and user not in {outer.st_uid, status.st_uid}:
        return errno.EPERM
    try:
        # Opened for writing, and not written to: of a file that is fixed the system says so.
        os.close(os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder))
    except OSError as error:
        return error.errno if error.errno in _FIXED else 0
    return 0
