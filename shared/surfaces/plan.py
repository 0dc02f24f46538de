"""What a card says of a commit: how much it creates, changes and deletes, and every staged entry as a line of its own.

Inbox, chat page, mail, Slack and terminal draw it, so that none of them tells another story. Pure. What an entry says
was written by a model: each text is visible, and a diff keeps its lines in a box of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from placet.contracts.messages import COMMIT_TOOL
from placet.domain.card_text import visible
from placet.domain.cut_diff import HEADERS
from placet.surfaces.card import ROWS_MAX, Argument, Trick, drawn, tricks
from placet.surfaces.texts import number, plural, text

ChangeKind = Literal["create", "change", "delete"]
#: Entries, and lines that they add and remove, of a plan whose diffs are open from the beginning.
SMALL_ENTRIES, SMALL_LINES = 5, 60
#: Characters of one argument of a staged call in a line.
FACT_MAX = 200
#: Rows of one staged call that a card draws, where others before it have not used up those of the whole card.
ENTRY_ROWS_MAX, ENTRY_ROWS_MIN = 40, 4
#: Of a file's permissions, whoever may run it.
EXECUTABLE = 0o111


_OUTCOMES = {
    "committed": "{count} committed",
    "succeeded": "{count} ran",
    "left_out": "{count} left out",
    "conflicted": "{count} in conflict",
    "failed": "{count} failed",
    "refused": "{count} refused",
    "unknown": "{count} unknown",
    "discarded": "{count} discarded",
}


@dataclass(frozen=True, slots=True)
class FileChange:
    """What one entry makes of one key, such as a file; sizes in bytes, None where nothing is there."""

    call_id: str
    pack: str
    key: str
    kind: ChangeKind
    before_size: int | None
    after_size: int | None
    added: int
    removed: int
    binary: bool
    #: SHA-256 before and after.
    before: str | None = None
    after: str | None = None
    #: Permissions of a file; None where a pack knows none.
    before_mode: int | None = None
    after_mode: int | None = None
    #: How its pack says it, where that is not by the extent of a text.
    words: str = ""

    def said(self, locale: str) -> str:
        """Return its extent and size in words, or its pack's own: `+3 -1, 1,204 → 1,260 bytes, mode 644 → 755`."""
        if self.words:
            return self.words
        extent = text(locale, "binary") if self.binary else f"+{self.added} -{self.removed}"
        sizes = [each for each in (self.before_size, self.after_size) if each is not None]
        said = [extent, _bytes(locale, sizes)]
        return ", ".join([*said, text(locale, "mode {mode}", mode=mode)] if (mode := self._mode) else said)

    @property
    def _mode(self) -> str:
        """What becomes of its permissions; empty where nobody has to know."""
        before, after = self.before_mode, self.after_mode
        if after is None or self.kind == "delete":
            return ""
        if self.kind == "create":
            return f"{after:o}" if after & EXECUTABLE else ""
        return "" if before is None or before == after else f"{before:o} → {after:o}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One staged entry: changes that wait (`change`), or a whole call that does (`call`)."""

    call_id: str
    position: int
    tool: str
    kind: str
    digest: str
    summary: str
    #: As the executor's `EntryState`: waiting, kept, left_out, committed, conflicted, succeeded, failed …
    state: str = "waiting"
    error: str = ""
    keys: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    #: Of a staged call: what it would be called with, what its sentence names first; and what looks like a trick in it.
    arguments: tuple[Argument, ...] = ()
    tricks: tuple[Trick, ...] = ()
    #: Values of these arguments that have no row; whoever draws it says so.
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A workspace as people decide about it: its entries in their order."""

    workspace_id: str
    #: As the executor's `WorkspaceState`: open, committing, committed, partly_committed, conflicted, discarded.
    state: str
    entries: tuple[Entry, ...]
    #: Entries that the commit at hand does not have any more: people left them out.
    left_out: tuple[Entry, ...] = ()
    #: Whether Placet was restored from a backup since one of its entries was staged: it may have been made meanwhile.
    restored: bool = False

    @property
    def calls(self) -> tuple[Entry, ...]:
        """The staged calls."""
        return tuple(each for each in self.entries if each.kind == "call")

    @property
    def is_small(self) -> bool:
        """Whether all its diffs together are read at a glance."""
        lines = sum(change.added + change.removed for entry in self.entries for change in entry.changes)
        return len(self.entries) <= SMALL_ENTRIES and lines <= SMALL_LINES

    def counts(self) -> dict[ChangeKind, int]:
        """Return how many keys are created, changed and deleted in the end, whatever happened to them on the way."""
        firsts: dict[tuple[str, str], FileChange] = {}
        lasts: dict[tuple[str, str], FileChange] = {}
        for change in (each for entry in self.entries for each in entry.changes):
            firsts.setdefault((change.pack, change.key), change)
            lasts[change.pack, change.key] = change
        found: dict[ChangeKind, int] = {"create": 0, "change": 0, "delete": 0}
        for place, last in lasts.items():
            first = firsts[place]
            if first.before is None and last.after is not None:
                found["create"] += 1
            elif first.before is not None and last.after is None:
                found["delete"] += 1
            elif (first.before, first.before_mode) != (last.after, last.after_mode):
                found["change"] += 1
        return found

    def size(self) -> int:
        """Return the bytes of everything that would stand there in the end."""
        last = {(each.pack, each.key): each.after_size or 0 for entry in self.entries for each in entry.changes}
        return sum(last.values())

    def headline(self, locale: str) -> str:
        """Return what there is in one line: `2 created, 1 changed, 1 deleted (1,204 bytes) · 2 calls`."""
        counts = self.counts()
        said = [
            plural(locale, "{count} created", "{count} created", counts["create"]) if counts["create"] else "",
            plural(locale, "{count} changed", "{count} changed", counts["change"]) if counts["change"] else "",
            plural(locale, "{count} deleted", "{count} deleted", counts["delete"]) if counts["delete"] else "",
        ]
        said = [each for each in said if each]
        parts = []
        if not said and len(self.calls) < len(self.entries):
            parts.append(text(locale, "no change in the end"))
        if said:
            parts.append(f"{', '.join(said)} ({_bytes(locale, [self.size()])})")
        if self.calls:
            parts.append(plural(locale, "{count} call", "{count} calls", len(self.calls)))
        return " · ".join(parts)

    def outcome(self, locale: str) -> str:
        """Return what became of it in one line: `3 committed, 1 left out, 1 failed`; empty while nothing has."""
        return outcome_of([each.state for each in (*self.entries, *self.left_out)], locale)


def outcome_of(states: Sequence[str], locale: str) -> str:
    """Return what became of entries in one line; states that are no end say nothing."""
    return ", ".join(text(locale, said, count=states.count(name)) for name, said in _OUTCOMES.items() if name in states)


def is_commit(tool: str) -> bool:
    """Tell whether a call runs a workspace."""
    return tool == COMMIT_TOOL


def entries_of(arguments: str | None) -> tuple[str, ...]:
    """Return the ids of the entries that a commit's arguments name, a JSON text; none where it names none."""
    named = _named(arguments, "entries")
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()


def workspace_of(arguments: str | None) -> str:
    """Return the workspace that a commit's arguments name, a JSON text; empty where they name none."""
    found = _named(arguments, "workspace_id")
    return found if isinstance(found, str) else ""


def _named(arguments: str | None, name: str) -> Any:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return None
    return value.get(name) if isinstance(value, dict) else None


def line_of(entry: Entry, locale: str) -> str:
    """Return an entry as one line, for where there are no boxes: what it changes, or what it calls with what."""
    if entry.kind == "change" and len(entry.changes) == 1:
        (change,) = entry.changes
        return f"{text(locale, change.kind)} {change.key} ({change.said(locale)})"
    facts = "; ".join(f"{each.name}: {' '.join(each.text.split())[:FACT_MAX]}" for each in entry.arguments)
    if entry.left_out:
        facts += "; " + plural(locale, "… and {count} more value", "… and {count} more values", entry.left_out)
    words = f"{entry.tool}: {entry.summary}" if entry.kind == "call" else entry.summary
    return f"{words} ({facts})" if facts else words


def staged_call(
    shown: str, critical: Collection[str] = (), most: int = ENTRY_ROWS_MAX
) -> tuple[tuple[Argument, ...], tuple[Trick, ...], int]:
    """Return arguments and tricks of a staged call, from the JSON text that people may see; how many are left out."""
    found = drawn(shown, critical, most=most)
    return found.arguments, tuple(tricks(shown)), found.left_out


def plan_of(
    workspace: Mapping[str, Any],
    entries: Iterable[Mapping[str, Any]],
    changes: Iterable[Mapping[str, Any]],
    proposed: Collection[str],
    critical: Mapping[str, Sequence[str]],
    before: Collection[str] = (),
) -> Plan:
    """Return the plan of a commit from rows of `read.workspaces`, `.workspace_entries` and `.workspace_changes`.

    `proposed` are the entries that the commit has, `before` those that it had before people left some out. `critical`
    names by tool the arguments that its sentence names.
    """
    by_call: dict[str, list[FileChange]] = {}
    for row in changes:
        by_call.setdefault(row["call_id"], []).append(_change(row))
    found = []
    proposed, before, room = frozenset(proposed), frozenset(before), ROWS_MAX
    for row in entries:
        shown = (row["shown_arguments"] or "") if row["kind"] == "call" else ""
        told = staged_call(shown, critical.get(row["tool"], ()), max(ENTRY_ROWS_MIN, min(room, ENTRY_ROWS_MAX)))
        room -= len(told[0])
        found.append(
            Entry(
                row["call_id"],
                row["position"],
                row["tool"],
                row["kind"],
                row["digest"],
                visible(row["summary"]),
                row["state"],
                visible(row["error"] or ""),
                tuple(row["keys"]),
                tuple(by_call.get(row["call_id"], ())),
                *told,
            )
        )
    kept = tuple(each for each in found if each.call_id in proposed)
    others = tuple(each for each in found if each.call_id in before and each.call_id not in proposed)
    return Plan(workspace["workspace_id"], workspace["state"], kept, others)


def closure(entries: Iterable[Entry], left_out: Collection[str]) -> frozenset[str]:
    """Return what is left out with these entries: those that touch what a left out one touches, and theirs in turn."""
    entries = tuple(entries)
    gone = {each.call_id for each in entries if each.call_id in left_out}
    while True:
        keys = {key for each in entries if each.call_id in gone for key in each.keys}
        more = {each.call_id for each in entries if keys.intersection(each.keys)} - gone
        if not more:
            return frozenset(gone)
        gone |= more


def _change(row: Mapping[str, Any]) -> FileChange:
    return FileChange(
        row["call_id"],
        row["pack"],
        visible(row["key"]),
        row["kind"],
        row["base_size"] if row["base_digest"] else None,
        row["after_size"] if row["after_digest"] else None,
        row["added"],
        row["removed"],
        row["binary"],
        row["base_digest"],
        row["after_digest"],
        row["base_mode"] if row["base_digest"] else None,
        row["after_mode"] if row["after_digest"] else None,
        visible(_words(row["key"], row["summary"])),
    )


def _words(key: str, summary: str) -> str:
    """Return a pack's own sentence; empty for the usual one, which says what the card says better."""
    usual = tuple(f"{verb} {key} (" for verb in ("Create", "Change", "Delete"))
    return "" if f"{summary} (".startswith(usual) else summary


def diff_lines(diff: str) -> list[tuple[Literal["same", "added", "removed", "gap"], str]]:
    """Return the lines of a unified diff with what they are; its headers are left out, for the card names the file."""
    found: list[tuple[Literal["same", "added", "removed", "gap"], str]] = []
    lines = diff.split("\n") if diff else []
    for at, line in enumerate(lines):
        if at < HEADERS and line.startswith(("--- ", "+++ ")):
            continue
        if line.startswith(("@@", "\\ ")):
            found.append(("gap", visible(line)))
        elif line.startswith("+"):
            found.append(("added", visible(line[1:])))
        elif line.startswith("-"):
            found.append(("removed", visible(line[1:])))
        else:
            found.append(("same", visible(line[1:])))
    return found


def _bytes(locale: str, sizes: Sequence[int]) -> str:
    """Return sizes one after another in words: `1,204 → 1,260 bytes`."""
    shown = " → ".join(number(locale, each) for each in sizes)
    return plural(locale, "{sizes} byte", "{sizes} bytes", sizes[-1] if sizes else 0, sizes=shown)
