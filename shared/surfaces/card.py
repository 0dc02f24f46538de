"""What a card says of a call, wherever people decide: its arguments in order, what an edit changed, tricks, the quote.

Notifier and gateway draw by it alone, so that mail, Slack and the pages cannot tell two stories. Pure. Arguments and
quotes come from a model: each text is visible, and only the value of an argument may have lines of its own. Whoever
draws it keeps these in a box that no other argument begins in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_arguments
from placet.contracts.messages import ApprovalRule, Panel
from placet.domain.approvers import name_of as plain_name_of
from placet.domain.approvers import read_approver
from placet.domain.card_text import NONE, REDACTED, mixed_scripts, placeholders, visible, visible_lines
from placet.domain.catalog import ToolSpec
from placet.domain.directory import Directory
from placet.domain.grants import AGAIN_SECONDS
from placet.domain.origins import AGENT, QUOTED, USER, Origins, from_tools_alone, is_target
from placet.domain.tool_schema import pointer
from placet.surfaces.texts import plural, text

#: Characters of one step of the path to an argument: all leaves below it have it in their names.
STEP_MAX = 120
#: Longest text of one argument where a card must be short, and of the agent's own words anywhere, in characters.
ARGUMENT_MAX = 1_000
QUOTE_MAX = 600
#: Tricks that one card tells, and characters of a word in them.
TRICKS_MAX = 5
_WORD_MAX = 60
#: Why a call whose arguments have one is decided by itself, for people.
LOOK_TWICE = "something in its arguments needs a second look"
_ROLES = {"requester": "whoever asked", "operators": "operators"}


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


def arguments_of(
    shown: str, critical: Collection[str] = (), longest: int | None = None, origins: Origins | None = None
) -> list[Argument]:
    """Return the arguments of a JSON text that people may see, those first that the tool's sentence names.

    `origins` says where they stood before the call, as far as anybody looked.

    A value longer than `longest` is cut, and names the digest of all of it: no edit of its end goes unseen. What is no
    JSON object has no arguments.
    """
    found = [
        Argument(
            leaf.name,
            _value(leaf.value, longest),
            critical=bool(critical) and _is_critical(".".join(leaf.path), critical),
            redacted=leaf.value == REDACTED,
            places=_places(origins, leaf.path),
        )
        for leaf in _leaves(_parsed(shown), _Leaf())
    ]
    return sorted(found, key=lambda each: not each.critical)


def edited(before: Iterable[Argument], after: Iterable[Argument]) -> Iterator[Argument]:
    """Yield the arguments after an edit, each that differs from what was proposed with what it was then.

    What was taken away follows.
    """
    proposed: dict[str, str] = {
        each.name: each.text if each.changed_from is None else each.changed_from for each in before
    }
    for each in after:
        was = proposed.pop(each.name, "")
        yield each if was == each.text else replace(each, changed_from=was)
    for name, was in proposed.items():
        if was:
            yield Argument(name, NONE, critical=True, changed_from=was)


def tricks(shown: str, origins: Origins | None = None) -> list[Trick]:
    """Return what looks like a trick in the arguments of a JSON text, at most TRICKS_MAX.

    `origins` of a call that acts on the world: an address in it that only tools' outputs named is told too.
    """
    found: list[Trick] = []
    for leaf in _leaves(_parsed(shown), _Leaf()):
        words, name = leaf.value if isinstance(leaf.value, str) else "", leaf.name
        tools = from_tools_alone(_places(origins, leaf.path) or ()) if is_target(words) else []
        if tools:
            found.append(Trick(name, tools=tuple(map(visible, tools))))
        if visible_lines(words) != words or leaf.odd:
            found.append(Trick(name))
        found += [Trick(name, cut(visible(word), _WORD_MAX), tuple(scripts)) for word, scripts in mixed_scripts(words)]
    return found[:TRICKS_MAX]


def quoted(words: str) -> str:
    """Return the agent's own words, or the requester's, as a card quotes them: in their lines, visible and cut."""
    return cut(visible_lines(words[: QUOTE_MAX + 1]), QUOTE_MAX)


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


def tail_of(shown: str) -> str:
    """Return what stands behind a value that is cut: its length and digest, so that no two of them look alike."""
    return f"… [{len(shown)}, SHA-256 {sha256(shown.encode()).hexdigest()[:16]}]"


def cut(words: str, length: int) -> str:
    """Return `words`, its end left out where it is longer than `length` characters."""
    return words if len(words) <= length else words[: length - 1] + "…"


def _is_critical(path: str, critical: Collection[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in critical)


def _parsed(shown: str) -> Any:
    try:
        return parse_arguments(shown) if shown else {}
    except NotStrictJson:
        return {}


def _places(origins: Origins | None, path: Sequence[str]) -> tuple[str, ...] | None:
    found = origins.get(pointer(path)) if origins else None
    return None if found is None else tuple(found)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A value that has no parts, and where it stands."""

    path: tuple[str, ...] = ()
    #: The path as people read it: a long step is cut, and names its digest.
    name: str = ""
    #: Whether a step has characters that do not show.
    odd: bool = False
    value: Any = None

    def below(self, step: str, value: Any) -> _Leaf:
        shown = visible(step)
        short = shown if len(shown) <= STEP_MAX else shown[:STEP_MAX] + tail_of(shown)
        name = f"{self.name}.{short}" if self.path else short
        return _Leaf((*self.path, step), name, self.odd or shown != step, value)


def _leaves(value: Any, at: _Leaf) -> Iterator[_Leaf]:
    """Yield every value that has no parts."""
    if not isinstance(value, dict | list) or not value:
        if at.path:
            yield at
        return
    for step, child in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(child, at.below(str(step), child))


def _value(value: Any, longest: int | None) -> str:
    shown = visible_lines(value) if isinstance(value, str) else visible(canonical_text(value))
    return shown if longest is None or len(shown) <= longest else shown[:longest] + tail_of(shown)
