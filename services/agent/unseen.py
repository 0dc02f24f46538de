"""What of a message shows its reader something else than it says: targets behind a link's text, tags, comments. Pure.

Who copies from a page, a mail or a chat pastes its source with it. What is between the brackets of a tag or behind
the text of a link was then never read.
"""

from __future__ import annotations

import re

#: Stands where the source of a page or of a quote begins: what follows was pasted.
PASTED = "\ufdd0"

#: Ends a line so that the next one is quoted where it is.
_BREAK = "\u2028"
#: Each piece is taken as far as it goes, also where its end is missing, so that none is looked at twice.
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    # Of a chat: <mailto:a@b.example|shown>.
    r"|<[^<>|\s]++\|"
    r"|<(?P<name>/?[a-z][a-z0-9]*+)(?P<rest>(?:[\s/](?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+)?)(?P<end>>?)"
    # Of Markdown: [shown](target "title"), and [1]: target.
    r"|\]\((?:[^()<>\"\n\\]++|\\.|\n(?!\n)|<[^<>\n]*+>|\"[^\"\n]*+\"|[<>\"]|\([^()\n]*+\))*+\)?"
    r"|^[ \t]*\[[^\]\n]{1,99}\]:[ \t]*+\S++[ \t]*+(?:[\"'(][^\n]*+)?$"
    # Of forums and wikis: [url=target]shown[/url], [shown|target].
    r"|\[(?P<code>quote|url|email|img|link)\b[^\]\n]*+\]?"
    r"|\[[^\[\]|\n]*+\|[^\[\]\n]*+\]",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
#: Tags that end a line, those within one, and those of quotes and of what a page is or does not show.
_BLOCK = re.compile(
    r"address|article|blockquote|br|d[dlt]|div|footer|form|h[1-6r]|header|li|main|[ou]l|p|section|table|t(?:body|foot|head)|tr"
)
_INLINE = re.compile(
    r"a|abbr|[bisu]|big|center|code|del|em|font|img|ins|kbd|mark|pre|small|span|strike|strong|su[bp]|t[dht]"
)
_QUOTE = re.compile(r"blockquote|body|cite|head|html|q|script|style|template|textarea|title")
_ATTRIBUTE = re.compile(r"\w=[\"']")
#: A tag of those that nobody types: what looks may hide what it holds.
_STYLED = re.compile(r"(?<![^\s\"'])(?:style|class|id|hidden)(?![\w-])", re.IGNORECASE)


def split_unseen(text: str) -> tuple[str, list[str]]:
    """Return a message as it would be shown, and the pieces that would not; PASTED stands where a page begins."""
    if "<" not in text and "[" not in text:
        return text, []
    unseen: list[str] = []

    def shown(found: re.Match[str]) -> str:
        name = (found["name"] or "").lower()
        if name and not _is_tag(name, found["rest"], closed=bool(found["end"])):
            # What it holds may be a link.
            return f"<{found['name']}{_UNSEEN.sub(shown, found['rest'])}{found['end']}"
        unseen.append(found[0])
        return _instead(name, found)

    return _UNSEEN.sub(shown, text), unseen


def _is_tag(name: str, rest: str, *, closed: bool) -> bool:
    if not _is_known(name):
        return _ATTRIBUTE.search(rest) is not None
    return "=" in rest or "hidden" in rest or (closed and not rest.strip(" /"))


def _is_known(name: str) -> bool:
    return any(kind.fullmatch(name.lstrip("/")) for kind in (_BLOCK, _INLINE, _QUOTE))


def _instead(name: str, found: re.Match[str]) -> str:
    """Return what stands for a piece in what is shown."""
    pasted = name and (not _is_known(name) or _QUOTE.fullmatch(name) or _STYLED.search(found["rest"]))
    if pasted or (found["code"] or "").lower() == "quote":
        return f"{_BREAK}{PASTED}"
    if "\n" in found[0]:
        # It may have swallowed the mark of a quoted line.
        return "\n> "
    return _BREAK if _BLOCK.fullmatch(name.lstrip("/")) else " "
