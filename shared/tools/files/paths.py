"""Which paths a tool may name beneath its root. Pure.

A path has one spelling: what is no clean relative path is refused and never tidied up, because the rule that judged the
call read exactly these characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from placet.domain.normal_form import normalized
from placet.tools.contract import ToolError

Parts: TypeAlias = tuple[str, ...]

PATH_BYTES_MAX = 1_024
NAME_BYTES_MAX = 255
DEPTH_MAX = 32
#: Names that begin so are the pack's own.
OWN_PREFIX = ".placet-"
#: Controls, marks that turn text around, surrogates, private and unassigned characters: what no card can show.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def parts_of(path: str) -> Parts:
    """Return the names of a file's path; ToolError `bad_path` where it is none within the root."""
    if problem := _problem(path):
        raise ToolError(f"{path[:200]!r} is no path of a file: {problem}.", code="bad_path")
    return tuple(path.split("/"))


def is_path(path: str) -> bool:
    """Tell whether a tool may name a path."""
    return not _problem(path)


def folder_parts_of(path: str) -> Parts:
    """Return the names of a folder's path; empty text and `.` are the root itself."""
    return () if path in {"", "."} else parts_of(path)


def _problem(path: str) -> str:
    names = path.split("/")
    checks = (
        (not path, "it is empty"),
        (path.startswith("/"), "it must be relative to the root"),
        (any(name in {".", ".."} for name in names), "it must not have '.' or '..' in it"),
        (not all(names), "it has an empty name in it"),
        ("\\" in path, "folders are parted by '/'"),
        (any(unicodedata.category(each) in _UNSEEN for each in path), "it has characters that nobody can see"),
        (normalized("NFC", path) != path, "it is not in Unicode's composed form (NFC)"),
        (any(name != name.strip() for name in names), "a name begins or ends with a space"),
        (any(fold(name).startswith(OWN_PREFIX) for name in names), f"names with {OWN_PREFIX!r} are Placet's own"),
        (len(names) > DEPTH_MAX, f"it is deeper than {DEPTH_MAX} folders"),
    )
    for wrong, text in checks:
        if wrong:
            return text
    if len(path.encode()) > PATH_BYTES_MAX or any(len(name.encode()) > NAME_BYTES_MAX for name in names):
        return "it is too long"
    return ""


def is_hidden(parts: Parts, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern means a path or a folder above it, whatever its case.

    A pattern with a `/` is of whole paths from the root on, any other one of single names.
    """
    names = [fold(name) for name in parts]
    paths = ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]
    return any(fnmatchcase(each, fold(one)) for one in patterns for each in (paths if "/" in one else names))


def fold(name: str) -> str:
    """Return a name as a file system that ignores case and composition would take it."""
    return normalized("NFC", normalized("NFKC", name).casefold())
