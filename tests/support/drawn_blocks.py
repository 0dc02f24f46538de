"""Block Kit drawn as HTML, for the docs: the blocks of a message in Slack's order and weight. A drawing, not Slack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from placet.surfaces.block_kit import Block

_STYLE = """
body{margin:0;padding:20px;background:#fff;color:#1d1c1d;font:15px/1.47 Lato,Helvetica,Arial,sans-serif;width:620px}
.name{font-weight:700;margin-bottom:4px}.app{background:#e8e8e8;color:#616061;font-size:10px;padding:1px 4px;
border-radius:2px;margin:0 6px;font-weight:700}.time{color:#616061;font-size:12px;font-weight:400}
h1{font-size:18px;margin:8px 0}p{margin:8px 0}ul{margin:4px 0;padding-left:22px}
code{background:#f6f6f6;border:1px solid #ddd;border-radius:3px;padding:1px 3px;color:#c01343;font-size:12px}
.fields{display:grid;grid-template-columns:1fr 1fr;gap:6px 16px;margin:8px 0}.context{color:#616061;font-size:12px;
margin:8px 0;display:flex;flex-wrap:wrap;gap:4px 12px}blockquote{margin:8px 0;padding-left:12px;
border-left:4px solid #ddd}.actions{display:flex;gap:8px;margin-top:10px}.button{border:1px solid #bbb;
border-radius:4px;padding:5px 12px;font-weight:700;font-size:13px}.primary{background:#007a5a;border-color:#007a5a;
color:#fff}.danger{color:#e01e5a;border-color:#e01e5a}a{color:#1264a3}
"""
_LINK = re.compile(r"&lt;(https?://[^|&]+)\|([^&]*)&gt;")
_DATE = re.compile(r"&lt;!date\^\d+\^[^|]*\|([^&]*)&gt;")
_TAGS = {"bold": "b", "italic": "i", "strike": "s", "code": "code"}
_PARTS = {"rich_text_section": "{}", "rich_text_quote": "<blockquote>{}</blockquote>"}


def drawn(blocks: Sequence[Block]) -> str:
    """Return a page that shows the blocks of a message; raise KeyError for a block that it cannot draw."""
    name = '<div class="name">Placet<span class="app">APP</span><span class="time">12:00</span></div>'
    body = "".join(_BLOCKS[block["type"]](block) for block in blocks)
    return f'<!doctype html><meta charset="utf-8"><style>{_STYLE}</style>{name}{body}'


def _text(text: Block) -> str:
    shown = escape(text["text"])
    if text["type"] == "plain_text":
        return shown
    # Only our own words are markup there: a link, and a moment that Slack writes as its reader would.
    shown = escape(text["text"].replace("&amp;", "&"))
    return _LINK.sub(r'<a href="\1">\2</a>', _DATE.sub(r"\1", shown))


def _section(block: Block) -> str:
    if "fields" in block:
        return f'<div class="fields">{"".join(f"<div>{_text(each)}</div>" for each in block["fields"])}</div>'
    return f"<p>{_text(block['text'])}</p>"


def _rich(block: Block) -> str:
    return "".join(_part(part) for part in block["elements"])


def _part(part: Block) -> str:
    if part["type"] == "text":
        shown = escape(part["text"])
        for style in part.get("style", {}):
            shown = f"<{_TAGS[style]}>{shown}</{_TAGS[style]}>"
        return shown
    inner = "".join(f"<li>{_part(each)}</li>" if _is_list(part) else _part(each) for each in part["elements"])
    return f"<ul>{inner}</ul>" if _is_list(part) else _PARTS[part["type"]].format(inner)


def _is_list(part: Block) -> bool:
    return bool(part["type"] == "rich_text_list")


def _context(block: Block) -> str:
    return f'<div class="context">{"".join(f"<span>{_text(each)}</span>" for each in block["elements"])}</div>'


def _elements(block: Block) -> list[Block]:
    return list(block["elements"])


def _actions(block: Block) -> str:
    buttons = (
        f'<span class="button {each.get("style", "")}">{_text(each["text"])}</span>' for each in _elements(block)
    )
    return f'<div class="actions">{"".join(buttons)}</div>'


_BLOCKS = {
    "header": lambda block: f"<h1>{_text(block['text'])}</h1>",
    "section": _section,
    "rich_text": _rich,
    "context": _context,
    "actions": _actions,
}
