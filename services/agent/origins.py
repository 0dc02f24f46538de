"""Where the texts among a call's arguments stood before the call: in whose words, in which tool's output. Pure.

Only what is found says anything. What lets a call through, that its requester named a text, is found strictly: whole,
between boundaries, spelt as it is, and never in what they quoted. What makes people look, that a tool brought it, is
found through disguises too. Bare numbers and single words stand everywhere, so they are never looked for.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from typing import Any
from unicodedata import is_normalized, normalize
from urllib.parse import unquote

from placet.agent import rules
from placet.agent.rules import CheckedCall
from placet.agent.transcript import History
from placet.contracts.canonical import parse_arguments
from placet.domain.card_text import mixed_scripts, visible
from placet.domain.catalog import Catalog
from placet.domain.origins import AGENT, QUOTED, TOOL, USER, texts_in

#: Texts of one call that are looked for, and characters of one of them: a longer one is what the model wrote.
TEXTS_MAX, TEXT_MIN, TEXT_MAX = 32, 6, 512
#: Characters of each place that are looked through, the newest first.
LOOKED_MAX = 1_000_000
#: Tools that are named for one text.
TOOLS_MAX = 5
#: Longest part of the requester's message that goes beside a call, in characters.
ASKED_MAX = 600

#: Stands between two texts, so that nothing is found half in one and half in the other.
_BETWEEN = " \ufffc "
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
#: What belongs to a longer text that goes on before or behind the one that was found.
_BEFORE = frozenset("@%+/#~._-\\")
#: The same of a name that somebody gives: what stands behind these is a part of a link.
_BEFORE_NAMES = _BEFORE | frozenset("=&?")
_GOES_ON = re.compile(r"[.:!?'\u2019]*[\w@%+/=&#~\\-]")
#: No names of anything: a number with its unit or currency, and a moment.
_NUMBER = re.compile(r"[^a-z]*\d[^a-z]*[a-z]{0,4}\.?|(?:[a-z]{3}|[^\w\s]) ?[\d.,]+|\d{4}-\d\d-\d\d.*")
_MANY_LETTERS = 8
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
#: What stands before each line that somebody quotes, perhaps behind their initials.
_MARKS = ("|", "»", "›", "❯", "│", "┃", "&gt;", ">", "＞")
_MARKED = re.compile(
    rf"(?:{'|'.join(map(re.escape, _MARKS))}|\w{{1,12}}> )"
    # A line of a chat: `[27.11.2026 10:00] Eve: …`.
    r"|\[[^\]]{0,40}\d\d?[:.]\d\d[^\]]{0,20}\]\s?[^:]{1,60}:"
)
#: Tags within which pages and mail programs put what is quoted.
_QUOTE_TAG = re.compile(
    r"<blockquote|<\w[^<>]{0,300}\b(?:gmail_quote|yahoo_quoted|moz-cite-prefix|divRplyFwdMsg)", re.IGNORECASE
)
#: Where a mail begins that somebody passes on: a line between long dashes, or what mail programs write in its place.
_PASSED_ON = re.compile(
    r"[-–—─~*=_]{4,}.*[^\W_].*[-–—─~*=_]{4,}"
    r"|(?:[-–—─~*=_]{2,}|[—─] ?)\W*(?:begin |anfang )?\W*"
    r"(?:original|forwarded|ursprüngliche|weitergeleitete|orijinal|özgün|iletilen)\b.*"
    r"|(?:begin|start|anfang|début|inicio|início|inizio|begin van)\b[^@]{0,40}\b(?:forward|weitergeleitet|transf|reenvi"
    r"|encaminh|reencaminh|inoltr|doorgestuurd)[^@]{0,40}:",
    re.IGNORECASE,
)
#: What stands above a mail that somebody quotes: `Ada wrote:` in the languages that are known; in any, an address and
#: little else, or one with a day or its time.
_WROTE = re.compile(
    r".{3,300}\b(?:wrote|writes|said|sent|yazdı)\s?:"
    r"|.{3,300}\b(?:schrieb|écrit|escribió|escreveu|scritto|schreef|skrev|napisała?|napsala?|kirjoitti|написала?|írta"
    r"|έγραψε)\b.{0,100}:"
    r"|<?[^\s<>@]+@[^\s<>@]+>?(?:\s[^\s@]+){1,2}\s?:"
    r"|(?=.*(?:(?<!\d)20\d\d(?!\d)|(?<!\d)\d\d?[:.]\d\d(?!\d))).{0,300}<[^<>@\s]+@[^<>@\s]+>[^<>@]{0,60}:",
    re.IGNORECASE,
)
#: Whose mail it is, as pages show it: a name with an address, and below it when it came.
_SHOWN_SENDER = re.compile(r"[^<>@:]{0,80}<[^<>@\s]+@[^<>@\s]+>")
#: Lines of a head that are known by nothing but an address and a moment.
FIELDS_MIN = 3
#: What a requester begins their own wish for a mail with.
_RECIPIENT = re.compile(r"\W*(?:to|b?cc|an|kime|para|à|a|aan|recipients?|empfänger|alıcı)\W*[:：]", re.IGNORECASE)
_TIME = re.compile(r"(?<!\d)\d\d?[:.]\d\d(?!\d)")
_NAME = re.compile(r"(?:[^\W\d_a-zß-öø-ÿ][\w.'\u2019-]*\s*,?\s*){0,4}<[^<>@\s]+@[^<>@\s]+>[^<>@]{0,60}:")
#: Lines that an attribution is broken into at most: mail programs fold long ones.
_FOLDED_MAX = 3
#: A line of a head: up to three words, a colon and a text.
_FIELD = re.compile(r"\W*[^\W\d_][^\s:：,;!?<>@]*(?:\s[^\s:：,;!?<>@]+){0,2}\s?[:：](?!//)\s*\S")
_ADDRESS = re.compile(r"[^\s@<>]@[^\s@<>]")
_SENDER = re.compile(
    r"\W*(?:from|sender|return-path|von|kimden|gönderen|de|da|van|od|från|fra|от)\W*[:：]", re.IGNORECASE
)
_GOES_ON_WITH = re.compile(
    r"\W*(?:to|b?cc|reply-to|received|message-id|sent|date|subject|an|gesendet|datum|betreff|kime|gönderildi|tarih|konu|para|a|à|al?le|aan"
    r"|till?|do|asunto|assunto|objet|oggetto|onderwerp|emne|ämne|temat|fecha|data|enviad[oa]|envoyé|inviato|verzonden"
    r"|кому|тема)\W*[:：]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Before:
    """What stood in a conversation before a call, as far as it is evidence."""

    #: What the requester wrote, in its order, and the message of the turn that they wrote last.
    requester: Sequence[str]
    asked: str
    #: What tools returned, each with the tool's name.
    outputs: Sequence[tuple[str, Any]]
    #: What the agent was told to be.
    instructions: str

    @classmethod
    def of(cls, history: History, requester: str, turn_id: str, instructions: str, *, secret: bool = False) -> Before:
        """Return what stood before the next call of a turn; with `secret` people do not see what was asked."""
        mine = [each for each in history.messages if each.call_id is None and each.author == requester]
        said = [(each.number, each.text) for each in mine]
        said += [(each.number, each.text) for each in history.spoken if each.author == requester]
        asked = next((each.text for each in reversed(mine) if each.turn_id == turn_id), "")
        outputs = [
            (call.tool, call.result[part])
            for call in history.calls
            if call.result
            for part in ("data", "error")
            if call.result.get(part)
        ]
        return cls([text for _, text in sorted(said)], "" if secret else asked[:ASKED_MAX], outputs, instructions)

    def origins_of(self, arguments: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the places where each text among the arguments stood, by pointer; without those that say nothing."""
        found: dict[str, list[str]] = {}
        for pointer, text in texts_in(arguments):
            if len(text) > TEXT_MAX or not says_something(plain := _plain(text)):
                continue
            if len(found) == TEXTS_MAX:
                break
            found[pointer] = self._places(text, plain)
        return found

    def _places(self, text: str, plain: str) -> list[str]:
        own, quoted = self._said
        places = []
        if _is_spelt_plainly(text):
            places += [USER] if _is_named_in(plain, own) else []
            places += [AGENT] if _is_named_in(plain, self._told) else []
        places += [QUOTED] if _stands_in(plain, quoted) else []
        tools = [tool for tool, brought in self._brought.items() if _stands_in(plain, brought)]
        if not places and not tools and " " not in plain:
            tools = [tool for tool, brought in self._disguised.items() if _stands_in(plain, brought)]
        return places + [f"{TOOL}{tool}" for tool in tools[:TOOLS_MAX]]

    @cached_property
    def _said(self) -> tuple[str, str]:
        """What the requester wrote: in their own words, and what they quoted."""
        parts = [split_quotes(text) for text in _newest(self.requester)]
        return _as_spelt(_BETWEEN.join(own for own, _ in parts)), _plain(_BETWEEN.join(quoted for _, quoted in parts))

    @cached_property
    def _told(self) -> str:
        return _as_spelt(self.instructions[:LOOKED_MAX])

    @cached_property
    def _written(self) -> dict[str, str]:
        """What tools returned, as they wrote it, by tool."""
        by_tool: dict[str, list[str]] = {}
        left = LOOKED_MAX
        for tool, value in reversed(self.outputs):
            text = _BETWEEN.join(_texts_of(value))[: max(left, 0)]
            left -= len(text)
            by_tool.setdefault(tool, []).append(text)
        return {tool: _BETWEEN.join(texts) for tool, texts in reversed(by_tool.items())}

    @cached_property
    def _brought(self) -> dict[str, str]:
        return {tool: _plain(text) for tool, text in self._written.items()}

    @cached_property
    def _disguised(self) -> dict[str, str]:
        """What an output has in base64, with the escapes of links or pages, or with characters that do not show."""
        return {tool: _plain(_BETWEEN.join(_undone(text))) for tool, text in self._written.items()}


def beside(call: CheckedCall, before: Before | None) -> dict[str, Any]:
    """Return what a proposal says of what stood before the call."""
    if before is None:
        return {}
    origins = before.origins_of(parse_arguments(call.arguments)) if '":"' in call.arguments else {}
    return {"asked": rules.quote(before.asked, call), "origins": origins}


def may_name_secrets(tools: Catalog, called: Iterable[str]) -> bool:
    """Tell whether a call of these names may have arguments that people must not see: its request may name them too."""
    return any(spec.redact if (spec := tools.get(name)) else tools.redacts for name in called)


def says_something(plain: str) -> bool:
    """Tell whether a text is one that does not stand everywhere: no number, no moment, no single word."""
    if len(plain) < TEXT_MIN or _NUMBER.fullmatch(plain):
        return False
    letters = sum(map(str.isalpha, plain))
    if " " in plain:
        return letters >= _MANY_LETTERS
    inside = plain.strip("-_.,:;!?#'\"()[]{}<>")
    return letters > 0 and any(not each.isalpha() and each not in "-_'\u2019" for each in inside)


def split_quotes(text: str) -> tuple[str, str]:
    """Return a person's own words, and what they quote or pass on in a message as mail programs mark it."""
    if not any(mark in text for mark in (*_MARKS, "<", ":", "：", *"-–—─~*=_")):
        return text, ""
    own: list[str] = []
    quoted: list[str] = []
    written = list(_lines(text))
    lines, heads = [line.strip() for line in written], _heads(written)
    to_the_end, begun = False, 0
    for at, line in enumerate(lines):
        begun = max(begun - 1, 0)
        to_the_end = to_the_end or at in heads or bool(_QUOTE_TAG.search(line))
        is_quoted = to_the_end or begun > 0 or bool(_MARKED.match(line))
        if not is_quoted and (begun := _begins_quote(lines[at : at + _FOLDED_MAX])):
            # Below `Ada wrote:` stands either what is marked line by line, or nothing but her mail.
            is_quoted = True
            below = filter(None, lines[at + begun : at + begun + 8])
            to_the_end = not _MARKED.match(next(below, ""))
        (quoted if is_quoted else own).append(line.lstrip("> ") if is_quoted else line)
        if is_quoted and own and own[-1] != _BETWEEN:
            own.append(_BETWEEN)
    return "\n".join(own), "\n".join(quoted)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, also those that end in a way of their own: these are quoted with the one before.

    What nobody sees, such as marks of direction, hides no mark and no colon.
    """
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        marked = False
        for piece in line.splitlines() or [""]:
            seen = piece if piece.isascii() else "".join(each for each in piece if unicodedata.category(each) != "Cf")
            yield f"> {seen}" if marked else seen
            marked = marked or bool(_MARKED.match(seen.strip()))


def _begins_quote(lines: Sequence[str]) -> int:
    """Return how many of these lines say that a mail follows; 0 where the first one begins nothing."""
    if _PASSED_ON.fullmatch(lines[0][:400]):
        return 1
    if _SHOWN_SENDER.fullmatch(lines[0][:400]) and any(map(_TIME.search, lines[1:])):
        return 1
    for number, line in enumerate(lines, 1):
        told = " ".join(lines[:number])[:400].replace("：", ":")
        if told.endswith(":") and (_WROTE.fullmatch(told) or _NAME.fullmatch(told)):
            return number
        if not line:
            break
    return 0


def _heads(lines: Sequence[str]) -> set[int]:
    """Return at which lines the head of a mail begins; a folded line goes on with the one before."""
    found: set[int] = set()
    fields: list[int] = []
    for at, line in enumerate([*lines, "."]):
        if _MARKED.match(line.lstrip()):
            # What is marked begins nothing below it.
            fields = []
        elif _FIELD.match(line[:400]):
            fields.append(at)
            if _SENDER.match(line) and any(map(_GOES_ON_WITH.match, lines[at + 1 : at + 1 + _FOLDED_MAX])):
                found.add(at)
        elif line.strip() and line[0] not in " \t":
            if _is_head([lines[each] for each in fields]):
                found.add(fields[0])
            fields = []
    return found


def _is_head(fields: Sequence[str]) -> bool:
    """Tell whether neighbouring lines `Word: text` are a mail's head: by its words, or in any language by what it has.

    That is an address and a moment among three lines or more, or a name with its address above others: what a requester
    fills in themselves rarely has them.
    """
    if any(map(_SENDER.match, fields)) and any(map(_GOES_ON_WITH.match, fields)):
        return True
    named = bool(fields) and "<" in fields[0] and not _RECIPIENT.match(fields[0])
    dated = len(fields) >= FIELDS_MIN and any(map(_TIME.search, fields))
    return (dated or (named and len(fields) > 1)) and any(map(_ADDRESS.search, fields))


def _newest(texts: Sequence[str]) -> list[str]:
    """Return the last texts, LOOKED_MAX characters of them at most."""
    kept: list[str] = []
    left = LOOKED_MAX
    for text in reversed(texts):
        if left <= 0:
            break
        kept.append(text[:left])
        left -= len(text)
    return kept[::-1]


def _plain(text: str) -> str:
    """Return a text in one spelling: lower case, compatible characters as one, nothing invisible, single spaces."""
    if not text.isascii():
        text = normalize("NFKC", text)
    plain = " ".join(text.lower().split())
    return plain if plain.isprintable() else _INVISIBLE.sub("", plain)


def _as_spelt(text: str) -> str:
    """Return a text in lower case and with single spaces, and each of its characters as it was written."""
    return " ".join((text if text.isascii() else normalize("NFC", text)).lower().split())


def _is_spelt_plainly(text: str) -> bool:
    """Tell whether a text is what it looks like: nothing invisible, no look-alikes, one alphabet to a word."""
    if text.isascii() and text.isprintable():
        return True
    shown = text.replace("\n", "").replace("\t", "")
    return shown == visible(shown) and is_normalized("NFKC", text) and not any(mixed_scripts(text))


def _stands_in(plain: str, text: str) -> bool:
    """Tell whether a text stands in another as a whole, and not as part of a longer address or name."""
    return any(not (before.isalnum() or before in _BEFORE) for before, _ in _found(plain, text))


def _is_named_in(plain: str, text: str) -> bool:
    """Tell whether a text stands by itself in what somebody wrote: in no link, and beside nothing invisible."""
    return any(
        not (before.isalnum() or before in _BEFORE_NAMES) and before.isprintable() and after.isprintable()
        for before, after in _found(plain, text)
    )


def _found(plain: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the characters before and behind a text where it stands in another and ends there."""
    at = text.find(plain)
    while at >= 0:
        end = at + len(plain)
        if not _GOES_ON.match(text, end):
            yield text[at - 1] if at else " ", text[end : end + 1] or " "
        at = text.find(plain, end)


def _texts_of(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, names included."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case Mapping() as entries:
                waiting += reversed(list(entries.values()))
                yield from entries
            case list() as elements:
                waiting += reversed(elements)


def _undone(text: str) -> Iterator[str]:
    yield _INVISIBLE.sub("", text)
    if "%" in text or "&" in text:
        yield unescape(unquote(text))
    for found in _ENCODED.findall(text):
        bare = found.rstrip("=").translate({ord("-"): "+", ord("_"): "/"})
        try:
            yield b64decode(bare + "=" * (-len(bare) % 4)).decode()
        except ValueError:
            continue
