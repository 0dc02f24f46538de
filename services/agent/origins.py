"""Where the texts among a call's arguments stood before the call: in whose words, in which tool's output. Pure.

Only what is found says anything. What lets a call through, that its requester named a text, is found strictly: whole,
between boundaries, spelt as it is, and never in what they quoted. What makes people look, that a tool brought it, is
found through disguises too. Bare numbers and single words stand everywhere, so they are never looked for.
"""

from __future__ import annotations

import re
from array import array
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape
from typing import Any
from urllib.parse import unquote

from placet.agent import rules
from placet.agent.quotes import BETWEEN, split_quotes
from placet.agent.rules import CheckedCall
from placet.agent.transcript import History
from placet.contracts.canonical import parse_arguments
from placet.domain.card_text import mixed_scripts, visible
from placet.domain.catalog import Catalog
from placet.domain.normal_form import normalized
from placet.domain.origins import AGENT, QUOTED, TOOL, USER, is_account, texts_in

#: Texts of one call that are looked for, and characters of one of them: a longer one is what the model wrote.
TEXTS_MAX, TEXT_MIN, TEXT_MAX = 32, 6, 512
#: Texts that are looked for among all calls of a step, and places that are tried for them: the agent serves nobody else
#: meanwhile. Of what is beyond nothing is said, and a condition holds it for nowhere.
TEXTS_OF_STEP_MAX, TRIES_MAX = 256, 100_000
#: Characters of each place that are looked through, the newest first.
LOOKED_MAX = 250_000
#: Messages whose quotes are known from an earlier step, and texts that are known without their spaces.
_KNOWN_MAX, _BARE_MAX = 128, 8
#: Tools that are named for one text.
TOOLS_MAX = 5
#: Longest part of the requester's message that goes beside a call, in characters.
ASKED_MAX = 600

_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
#: What belongs to a longer text that goes on before or behind the one that was found.
_BEFORE = frozenset("@%+/#~._-\\")
#: The same of a name that somebody gives: what stands behind these is a part of a link.
_BEFORE_NAMES = _BEFORE | frozenset("=&?")
_GOES_ON = re.compile(r"(?!-{2,3}(?:\s|$))[.:!?'\u2018\u2019]*[\w@%+/=&#~\\-]")
#: What ends a text all the same: an ending that people put behind an address, as in `bob@shop.example'e`.
_ENDING = re.compile(r"['\u2018\u2019][^\W\d_]{1,6}(?![.:!?'\u2018\u2019]*[\w@%+/=&#~\\-])")
#: Behind an account that goes on after a space.
_MORE_DIGITS = re.compile(r" \d{4}(?!\w)")
#: No names of anything: a number with its unit or currency, and a moment.
_NUMBER = re.compile(r"[^a-z]*\d[^a-z]*[a-z]{0,4}\.?|(?:[a-z]{3}|[^\w\s]) ?[\d.,]+|\d{4}-\d\d-\d\d.*")
_MANY_LETTERS = 8
#: In canonical JSON: what begins a text that is no name.
_HAS_TEXT = re.compile(r'[:\[]"|,"(?:[^"\\]|\\.)*"[,\]]')
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")


@dataclass(slots=True)
class _Left:
    """What a step may still look for."""

    texts: int = TEXTS_OF_STEP_MAX
    tries: int = TRIES_MAX


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
            if len(found) == TEXTS_MAX or self._left.texts == 0:
                break
            self._left.texts -= 1
            places = self._places(text, plain)
            if self._left.tries <= 0:
                break
            found[pointer] = places
        return found

    @cached_property
    def _left(self) -> _Left:
        return _Left()

    def _places(self, text: str, plain: str) -> list[str]:
        own, quoted = self._said
        places = []
        if _is_spelt_plainly(text):
            places += [USER] if self._is_named_in(plain, own) else []
            places += [AGENT] if self._is_named_in(plain, self._told) else []
        places += [QUOTED] if self._stands_in(plain, quoted) else []
        tools = [tool for tool, brought in self._brought.items() if self._stands_in(plain, brought)]
        if not places and not tools and (" " not in plain or is_account(plain)):
            tools = [tool for tool, brought in self._disguised.items() if self._stands_in(plain, brought)]
        return places + [f"{TOOL}{tool}" for tool in tools[:TOOLS_MAX]]

    def _stands_in(self, plain: str, text: str) -> bool:
        """Tell whether a text stands in another as a whole, and not as part of a longer address or name."""
        return any(not (before.isalnum() or before in _BEFORE) for before, _ in self._found(plain, text))

    def _is_named_in(self, plain: str, text: str) -> bool:
        """Tell whether a text stands by itself in what somebody wrote: in no link, and beside nothing invisible."""
        account = is_account(plain)
        return any(
            not (before.isalnum() or before in _BEFORE_NAMES)
            and before.isprintable()
            and text[end : end + 1].isprintable()
            and not (account and _MORE_DIGITS.match(text, end))
            for before, end in self._found(plain, text)
        )

    def _found(self, plain: str, text: str) -> Iterator[tuple[str, int]]:
        """Yield the character before a text where it stands in another and ends there, and where it ends."""
        for at, end in _spans(plain, text):
            self._left.tries -= 1
            if self._left.tries <= 0:
                return
            if not _GOES_ON.match(text, end) or _ENDING.match(text, end):
                yield text[at - 1] if at else " ", end

    @cached_property
    def _said(self) -> tuple[str, str]:
        """What the requester wrote: in their own words, and what they quoted."""
        parts = [_split(text) for text in _newest(self.requester)]
        return _as_spelt(BETWEEN.join(own for own, _ in parts)), _plain(BETWEEN.join(quoted for _, quoted in parts))

    @cached_property
    def _told(self) -> str:
        return _as_spelt(self.instructions[:LOOKED_MAX])

    @cached_property
    def _written(self) -> dict[str, str]:
        """What tools returned, as they wrote it, by tool."""
        by_tool: dict[str, list[str]] = {}
        left = LOOKED_MAX
        for tool, value in reversed(self.outputs):
            text = BETWEEN.join(_texts_of(value))[: max(left, 0)]
            left -= len(text)
            by_tool.setdefault(tool, []).append(text)
        return {tool: BETWEEN.join(texts) for tool, texts in reversed(by_tool.items())}

    @cached_property
    def _brought(self) -> dict[str, str]:
        return {tool: _plain(text) for tool, text in self._written.items()}

    @cached_property
    def _disguised(self) -> dict[str, str]:
        """What an output has in base64, with the escapes of links or pages, or with characters that do not show."""
        return {tool: _plain(BETWEEN.join(_undone(text))) for tool, text in self._written.items()}


def beside(call: CheckedCall, before: Before | None) -> dict[str, Any]:
    """Return what a proposal says of what stood before the call."""
    if before is None:
        return {}
    origins = before.origins_of(parse_arguments(call.arguments)) if _HAS_TEXT.search(call.arguments) else {}
    return {"asked": rules.quote(before.asked, call), "origins": origins}


def may_name_secrets(tools: Catalog, called: Iterable[str]) -> bool:
    """Tell whether a call of these names may have arguments that people must not see: its request may name them too."""
    return any(spec.redact if (spec := tools.get(name)) else tools.redacts for name in called)


def says_something(plain: str) -> bool:
    """Tell whether a text is one that does not stand everywhere: no number, no moment, no single word."""
    if is_account(plain):
        return True
    if len(plain) < TEXT_MIN or _NUMBER.fullmatch(plain):
        return False
    letters = sum(map(str.isalpha, plain))
    if " " in plain:
        return letters >= _MANY_LETTERS
    inside = plain.strip("-_.,:;!?#'\"()[]{}<>")
    return letters > 0 and any(not each.isalpha() and each not in "-_'\u2019" for each in inside)


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
    plain = " ".join(normalized("NFKC", text).lower().split())
    return plain if plain.isprintable() else _INVISIBLE.sub("", plain)


def _as_spelt(text: str) -> str:
    """Return a text in lower case and with single spaces, and each of its characters as it was written."""
    return " ".join(normalized("NFC", text).lower().split())


def _is_spelt_plainly(text: str) -> bool:
    """Tell whether a text is what it looks like: nothing invisible, no look-alikes, one alphabet to a word."""
    if text.isascii() and text.isprintable():
        return True
    shown = text.replace("\n", "").replace("\t", "")
    return shown == visible(shown) and normalized("NFKC", text) == text and not any(mixed_scripts(text))


def _spans(plain: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text begins and ends in another, of single spaces; an account with the spaces of either."""
    bare, places = _without_spaces(text) if is_account(plain) else (text, None)
    wanted = plain if places is None else plain.replace(" ", "")
    at = bare.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        yield (at, end) if places is None else (places[at], places[end - 1] + 1)
        at = bare.find(wanted, end)


@lru_cache(maxsize=_BARE_MAX)
def _without_spaces(text: str) -> tuple[str, array[int]]:
    """Return a text without its spaces, and where each of its characters stood."""
    return text.replace(" ", ""), array("I", (at for at, each in enumerate(text) if each != " "))


@lru_cache(maxsize=_KNOWN_MAX)
def _split(text: str) -> tuple[str, str]:
    """Return what `split_quotes` does; messages are looked at again in each step of their conversation."""
    return split_quotes(text)


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
