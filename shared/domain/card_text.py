"""Text for the card that a person decides on: one sentence from a template, with nothing hidden in it.

Arguments come from a model and are hostile until proved otherwise: a right-to-left override can turn an
amount around, a newline can push the truth below the fold. What hides is shown as its code point.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from placet.contracts.canonical import readable_text

#: Longest rendered summary, in characters.
SUMMARY_MAX = 300
#: Longest text that one argument may take in it, so that a long one cannot push the others out.
VALUE_MAX = 120
#: Stands for an argument that was not given.
ABSENT = "…"
#: What stands for an argument that a call does not have, beside one that it has.
NONE = "–"
#: Shown in place of a redacted value.
REDACTED = "•••"

_WORD = re.compile(r"[^\W\d_]+(?:[^\W_]+)*")
#: Alphabets that are written together in one word, and what stands for them.
_TOGETHER = dict.fromkeys(("HAN", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"), "CJK")
#: What Unicode calls the script of characters that belong to all.
_NEUTRAL = {"COMMON", "INHERITED", "Unknown"}
_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\}")
#: A brace with what it seems to hold.
_BRACES = re.compile(r"\{[^{}]*\}?|\}")
#: Unicode categories that print nothing or steer the text: control, format, surrogate, private, unassigned,
#: line and paragraph separators.
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
#: Letters and marks that print as nothing although their category says otherwise.
_HIDDEN = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0}
_HIDDEN |= set(range(0xFE00, 0xFE10)) | set(range(0xE0100, 0xE01F0))
_LOOKS_PRINTED = re.compile("[" + "".join(map(chr, sorted(_HIDDEN))) + "]")
#: The last variation selector where every keyboard writes it: behind a pictogram, and in a keycap.
_OF_EMOJI = re.compile(
    "(?<=[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff])\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)


def printable(text: str) -> str:
    """Return a text with a blank for each character that prints nothing: NUL, halves of characters, line breaks."""
    return "".join(each if each.isprintable() else " " for each in text)


def visible(text: str) -> str:
    """Return `text` with every control, bidirectional and otherwise invisible character as `[U+XXXX]`."""
    if text.isprintable() and (text.isascii() or not _LOOKS_PRINTED.search(text)):
        return text
    of_emoji = {found.start() for found in _OF_EMOJI.finditer(text)}
    return "".join(
        f"[U+{ord(char):04X}]" if is_hidden(char) and at not in of_emoji else char for at, char in enumerate(text)
    )


def visible_lines(text: str) -> str:
    """Return `text` visible, its line breaks left as they are: for a place where they cannot look like its own."""
    return "\n".join(map(visible, text.split("\n")))


def mixed_scripts(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each word of `text` whose letters are of several alphabets, with the names of these.

    One Cyrillic letter among Latin ones looks like nothing and means another address. Alphabets that one
    language writes together (Japanese, Korean, Chinese) count as one.
    """
    if text.isascii():
        return
    for word in _WORD.findall(text):
        scripts = {_TOGETHER.get(name, name) for name in map(_script, word) if name}
        if len(scripts) > 1:
            yield word, sorted(scripts)


def is_redaction(shown: Any, real: Any) -> bool:
    """Tell whether `shown` is the JSON value `real` with nothing but values masked: what people see is what runs."""
    if shown == REDACTED:
        return True
    match shown, real:
        case dict(), dict():
            return shown.keys() == real.keys() and all(is_redaction(shown[name], real[name]) for name in real)
        case list(), list():
            return len(shown) == len(real) and all(map(is_redaction, shown, real))
        case _:
            return type(shown) is type(real) and bool(shown == real)


def placeholders(template: str) -> list[str]:
    """Return the argument paths that a template names, in order: `customer.name` for `{customer.name}`."""
    return _PLACEHOLDER.findall(template)


def loose_braces(template: str) -> Iterator[tuple[int, str]]:
    """Yield what looks like a placeholder and shows no argument: its offset and its text, at most 40 characters.

    Braces have no other meaning in a template, and none can be written as itself.
    """
    for match in _BRACES.finditer(template):
        if not _PLACEHOLDER.fullmatch(match[0]):
            yield match.start(), _cut(match[0], 40)


def render(template: str, arguments: dict[str, Any]) -> str:
    """Return the template with its placeholders filled, visible, at most SUMMARY_MAX characters."""
    text = _PLACEHOLDER.sub(lambda match: _value_text(arguments, match[1]), visible(template))
    return _cut(text, SUMMARY_MAX)


def render_call(tool: str, arguments: dict[str, Any]) -> str:
    """Return `tool(name: value, …)`, the text of a tool without template; at most SUMMARY_MAX characters."""
    parts = [f"{visible(name)}: {_shown(value)}" for name, value in sorted(arguments.items())]
    return _cut(f"{tool}({', '.join(parts)})", SUMMARY_MAX)


def _value_text(arguments: dict[str, Any], path: str) -> str:
    value: Any = arguments
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return _cut(visible(value[: VALUE_MAX + 1]), VALUE_MAX)
    return _cut(visible(readable_text(value)[: VALUE_MAX + 1]), VALUE_MAX)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    """Return the name of a character's alphabet, `Cyrillic`; empty for one that belongs to all."""
    from confusable_homoglyphs.categories import alias  # noqa: PLC0415 - half a megabyte that few services need

    name = str(alias(char))
    return "" if name in _NEUTRAL else name


def is_hidden(char: str) -> bool:
    """Tell whether a character by itself prints nothing or steers the text."""
    return unicodedata.category(char) in _HIDDEN_CATEGORIES or ord(char) in _HIDDEN
