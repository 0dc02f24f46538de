"""What a card says of a call, wherever people decide: its arguments in order, what an edit changed, tricks, the quote.

Notifier and gateway draw by it alone, so that mail, Slack and the pages cannot tell two stories. Pure. Arguments and
quotes come from a model: each text is visible, and only the value of an argument may have lines of its own. Whoever
draws it keeps these in a box that no other argument begins in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from placet.contracts.canonical import NotStrictJson, parse_arguments, readable_text
from placet.contracts.messages import ApprovalRule, Panel
from placet.domain.approvers import name_of as plain_name_of
from placet.domain.approvers import read_approver
from placet.domain.card_text import NONE, REDACTED, mixed_scripts, placeholders, visible, visible_lines
from placet.domain.catalog import ToolSpec
from placet.domain.directory import Directory
from placet.domain.grants import AGAIN_SECONDS
from placet.domain.json_pointer import pointer
from placet.domain.origins import AGENT, NOT_LOOKED, QUOTED, USER, Origins, from_tools_alone, is_target
from placet.surfaces.leaves import Names, Path, leaves, path_of, tail_of
from placet.surfaces.texts import plural, text

#: Values of one call that a page draws, each in a row of its own; a call may have tens of thousands.
ROWS_MAX = 200
#: Longest text of one argument where a card must be short, and of the agent's own words anywhere, in characters.
ARGUMENT_MAX = 1_000
QUOTE_MAX = 600
#: Tricks that one card tells, and characters of a word in them.
TRICKS_MAX = 5
_WORD_MAX = 60
#: Why a call whose arguments have one is decided by itself, for people.
LOOK_TWICE = "something in its arguments needs a second look"
#: So many blanks push what follows out of sight.
_PUSHES = re.compile(r"\s{40}")
_ROLES = {"requester": "whoever asked", "operators": "operators"}
#: Why the house itself holds a call, as policy stores it: no rule does, or a rule gives no reason.
HOUSE_REASONS = (
    "The tool acts on the outside world.",
    "The tool changes data.",
    "The tool changes data and cannot be staged.",
    "It has a job done, which cannot be staged.",
    "Staged work takes effect when it is approved.",
)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call, as people may see it."""

    #: Path to the value, steps joined by dots: `customer.name`, `lines.0.price`.
    name: str
    #: The value as text: strings as they are, in their lines, all else as JSON; visible.
    text: str
    #: Whether the tool's own sentence names it; these come first.
    critical: bool = False
    #: True: people must not see the value, `text` stands in its place.
    redacted: bool = False
    #: What it was before people edited it, empty for "not there"; None where it was not edited.
    changed_from: str | None = None
    #: Where it stood before the call, as `placet.domain.origins` has it; None where nobody looked.
    places: tuple[str, ...] | None = None

    def stood(self, locale: str) -> str:
        """Return in a language where it stood before the call: evidence, no proof; empty where that says nothing."""
        places = self.places
        if not places:
            # Most of what a model composes stood nowhere; an address that nobody wrote is news.
            return text(locale, "seen nowhere before") if places is not None and is_target(self.text) else ""
        if places[0] in _STOOD:
            return text(locale, _STOOD[places[0]])
        words = "only seen in the output of {tools}"
        return text(locale, words, tools=", ".join(map(visible, from_tools_alone(places))))


_STOOD = {
    USER: "in the requester's own words",
    AGENT: "in the agent's instructions",
    QUOTED: "only in what the requester quoted or pasted",
    NOT_LOOKED: "nobody looked where it comes from",
}


@dataclass(frozen=True, slots=True)
class Trick:
    """What looks like one in an argument: mixed alphabets, characters that do not show, an address from a tool."""

    #: Path to the argument.
    name: str
    #: The word that mixes alphabets, and these; none where characters do not show.
    word: str = ""
    scripts: tuple[str, ...] = ()
    #: Of an address that nobody but tools named: whose output it was.
    tools: tuple[str, ...] = ()

    def said(self, locale: str) -> str:
        """Return it as a sentence in a language."""
        if self.tools:
            words = "“{name}” was named only in the output of {tools}: the requester did not name it."
            return text(locale, words, name=self.name, tools=", ".join(self.tools))
        if not self.word:
            return text(locale, "“{name}” has invisible characters.", name=self.name)
        words = "“{name}”: the word “{word}” mixes alphabets ({scripts})."
        return text(locale, words, name=self.name, word=self.word, scripts=", ".join(self.scripts))


def critical_arguments(tools: Mapping[str, ToolSpec], tool: str, schema_digest: str) -> list[str]:
    """Return the arguments that the tool's own sentence names; none of a tool that is not known as it was."""
    spec = tools.get(tool)
    if spec is None or spec.schema_digest != schema_digest:
        return []
    return [path for template in (spec.summary or {}).values() for path in placeholders(template)]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a place with little room draws of a call's arguments; whoever draws it says what is left out."""

    arguments: tuple[Argument, ...]
    #: Values that have no row.
    left_out: int = 0


def arguments_of(
    shown: str, critical: Collection[str] = (), longest: int | None = None, origins: Origins | None = None
) -> list[Argument]:
    """Return the arguments of a JSON text that people may see, those first that the tool's sentence names.

    `origins` says where they stood before the call, as far as anybody looked.

    A value longer than `longest` is cut, and names the digest of all of it: no edit of its end goes unseen. What is no
    JSON object has no arguments.
    """
    return list(drawn(shown, critical, longest, origins).arguments)


def drawn(
    shown: str,
    critical: Collection[str] = (),
    longest: int | None = None,
    origins: Origins | None = None,
    *,
    proposed: str | None = None,
    most: int | None = None,
) -> Drawn:
    """Return the arguments as `arguments_of` does, at most `most` of them; each that differs from `proposed` says so.

    Left out is what decides least: not what an edit changed, nor what the sentence names, nor what stood somewhere.
    """
    now, names = _leaves_of(shown), Names()
    changed, gone = _changes(now, proposed, longest) if proposed is not None else ({}, [])
    rows = [*now, *gone]
    first = [tuple(each.split(".")) for each in critical]
    marked = {row for row, (path, _) in enumerate(now) if any(path[: len(each)] == each for each in first)}
    marked.update(range(len(now), len(rows)))
    chosen = list(range(len(rows)))
    if most is not None and len(rows) > most:
        known = set(map(path_of, origins or ()))
        if marked or changed or known:
            chosen.sort(key=lambda row: (rows[row][0] not in changed, row not in marked, rows[row][0] not in known))
        chosen = sorted(chosen[:most])
    # What was taken away comes last.
    chosen.sort(key=lambda row: (row >= len(now), row not in marked))

    def argument(row: int) -> Argument:
        path, value = rows[row]
        if row >= len(now):
            return Argument(names.of(path), NONE, critical=True, changed_from=changed[path])
        places, words = _places(origins, path), _value(value, longest)
        if places is None and origins is not None and path not in changed and is_target(words):
            # There are bounds to what is looked for, and silence would look like its end.
            places = (NOT_LOOKED,)
        return Argument(names.of(path), words, row in marked, value == REDACTED, changed.get(path), places)

    return Drawn(tuple(map(argument, chosen)), len(rows) - len(chosen))


def _changes(
    now: Iterable[tuple[Path, Any]], proposed: str, longest: int | None
) -> tuple[dict[Path, str], list[tuple[Path, Any]]]:
    """Return what each value was that is another than proposed, empty for "not there"; and what is not there now."""
    before = dict(_leaves_of(proposed))
    changed: dict[Path, str] = {}
    for path, value in now:
        # An empty text and nothing look the same.
        was = before.pop(path, "")
        same = type(was) is type(value) and was == value
        if not same and (words := "" if was == "" else _value(was, longest)) != _value(value, longest):
            changed[path] = words
    gone = [(path, value) for path, value in before.items() if value != ""]
    return changed | {path: _value(value, longest) for path, value in gone}, gone


def tricks(shown: str, origins: Origins | None = None) -> list[Trick]:
    """Return what looks like a trick in the arguments of a JSON text, at most TRICKS_MAX.

    `origins` of a call that acts on the world: an address in it that only tools' outputs named is told too.
    """
    found: list[Trick] = []
    names = Names()
    for path, value in _leaves_of(shown):
        if len(found) >= TRICKS_MAX:
            break
        words = value if isinstance(value, str) else ""
        tools = from_tools_alone(_places(origins, path) or ()) if origins and is_target(words) else []
        if tools:
            found.append(Trick(names.of(path), tools=tuple(map(visible, tools))))
        if (words and visible_lines(words) != words) or _PUSHES.search(words.rstrip()) or names.is_odd(path):
            found.append(Trick(names.of(path)))
        found += [
            Trick(names.of(path), cut(visible(word), _WORD_MAX), tuple(scripts))
            for word, scripts in mixed_scripts(words)
        ]
    return found[:TRICKS_MAX]


def quoted(words: str) -> str:
    """Return the agent's own words, or the requester's, as a card quotes them: in their lines, visible and cut."""
    return cut(visible_lines(words[: QUOTE_MAX + 1]), QUOTE_MAX)


def why(locale: str, reason: str) -> str:
    """Return why a call is held: what the house says itself in a language, a rulebook's words as they are; visible."""
    own = next((each for each in HOUSE_REASONS if f"{reason} ".startswith(f"{each} ")), "")
    return visible(text(locale, own) + reason.removeprefix(own) if own else reason)


def needed(rule: ApprovalRule, locale: str, name_of: Callable[[str], str]) -> str:
    """Return what decides, in words: `2 of finance`, alternatives joined by `or`, what must all be met by `and`.

    `name_of` tells a person's name.
    """
    demands = [[Panel(approvers=rule.approvers, approvals=rule.approvals), *rule.alternatives]]
    demands += [each.panels for each in rule.also]
    said = (
        f" {text(locale, 'or')} ".join(way(each.approvers, each.approvals, locale, name_of) for each in ways)
        for ways in demands
    )
    return f" {text(locale, 'and')} ".join(said)


def way(approvers: Iterable[str], approvals: int, locale: str, name_of: Callable[[str], str]) -> str:
    """Return what of one panel decides, in words: `2 of finance`."""
    who = ", ".join(named(each, locale, name_of) for each in approvers)
    return text(locale, "{count} of {who}", count=approvals, who=who)


def again_words(locale: str, seconds: int) -> str:
    """Return what the button says that approves a call and, for so long, the same again."""
    if seconds == AGAIN_SECONDS:
        return text(locale, "Approve, and the same again for an hour")
    if seconds % 60:
        one, many = "Approve, and the same again for {count} second", "Approve, and the same again for {count} seconds"
        return plural(locale, one, many, seconds)
    one, many = "Approve, and the same again for {count} minute", "Approve, and the same again for {count} minutes"
    return plural(locale, one, many, seconds // 60)


def named(approver: str, locale: str, name_of: Callable[[str], str]) -> str:
    """Return whom a rule names, in words: a person's name, a group's, a role's."""
    read = read_approver(approver)
    if read.kind == "person":
        return name_of(approver)
    return visible(read.name) if read.kind == "group" else text(locale, _ROLES.get(read.kind, approver))


def names_in(directory: Directory) -> Callable[[str], str]:
    """Return what tells how others call the person behind an id: by the directory's name, else by the id."""

    def name_of(identity: str) -> str:
        known = directory.person(identity)
        return visible((known and known.name) or plain_name_of(identity))

    return name_of


def cut(words: str, length: int) -> str:
    """Return `words`, its end left out where it is longer than `length` characters."""
    return words if len(words) <= length else words[: length - 1] + "…"


@lru_cache(maxsize=2)
def _leaves_of(shown: str) -> Sequence[tuple[Path, Any]]:
    """Return the values of a JSON text, which is looked at for its arguments and for its tricks."""
    try:
        return tuple(leaves(parse_arguments(shown))) if shown else ()
    except NotStrictJson:
        return ()


def _places(origins: Origins | None, path: Sequence[str]) -> tuple[str, ...] | None:
    found = origins.get(pointer(path)) if origins else None
    return None if found is None else tuple(found)


def _value(value: Any, longest: int | None) -> str:
    shown = visible_lines(value) if isinstance(value, str) else visible(readable_text(value))
    return shown if longest is None or len(shown) <= longest else shown[:longest] + tail_of(shown)
