"""Slack's Block Kit as plain values: the few blocks that cards and modals are made of, each within Slack's limits.

Pure. Text that a model or a stranger wrote goes into `plain` or `literal` texts only, where Slack reads no markup, no
mentions, no links and no emoji names. `mrkdwn` is for our own words; what comes from elsewhere is `escaped` in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from placet.domain.card_text import visible

Block = dict[str, Any]

#: Slack's limits, in characters.
HEADER_MAX = 150
SECTION_MAX = 3000
FIELD_MAX = 2000
BUTTON_MAX = 75
TITLE_MAX = 24
INPUT_MAX = 3000
LABEL_MAX = 2000
ERROR_MAX = 2000
#: Slack's limits, in pieces.
FIELDS_MAX = 10
MESSAGE_BLOCKS_MAX = 50
MODAL_BLOCKS_MAX = 100
OPTIONS_MAX = 100


def cut(text: str, length: int) -> str:
    """Return `text`, its end left out where it is longer than `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def escaped(text: str) -> str:
    """Return `text` so that Slack reads no mention, link or date in it; bold and emoji names it still may."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(text: str, length: int) -> Block:
    """Return a text without markup; Slack refuses an empty one, so that becomes a dash."""
    return {"type": "plain_text", "text": cut(text, length) or "-", "emoji": False}


def mrkdwn(text: str, length: int = SECTION_MAX) -> Block:
    """Return a text with Slack's markup, in which Slack makes no links by itself."""
    return {"type": "mrkdwn", "text": cut(text, length) or "-", "verbatim": True}


def header(text: str) -> Block:
    """Return a heading."""
    return {"type": "header", "text": plain(text, HEADER_MAX)}


def section(text: Block) -> Block:
    """Return a paragraph that is never folded away."""
    return {"type": "section", "text": text, "expand": True}


def fields(texts: Sequence[Block]) -> Block:
    """Return short texts in two columns, at most FIELDS_MAX."""
    return {"type": "section", "fields": list(texts[:FIELDS_MAX])}


def context(*texts: Block) -> Block:
    """Return a line in small print, of at most ten texts."""
    return {"type": "context", "elements": list(texts[:10])}


def rich_text(*elements: Block) -> Block:
    """Return rich text made of literal pieces."""
    return {"type": "rich_text", "elements": list(elements)}


def literal(text: str, **style: bool) -> Block:
    """Return a piece of rich text that is shown as it is written; styles are bold, code, italic, strike."""
    piece: Block = {"type": "text", "text": text or "-"}
    on = {name: True for name, wanted in style.items() if wanted}
    return piece | {"style": on} if on else piece


def mention(user: str) -> Block:
    """Return a piece of rich text that calls somebody by their Slack id: whoever sees it, they are notified."""
    return {"type": "user", "user_id": user}


def plainly(pieces: Sequence[Block]) -> str:
    """Return pieces of rich text as what a notification shows of them: escaped, but for who is called."""
    return "".join(
        f"<@{piece['user_id']}>" if piece["type"] == "user" else escaped(piece["text"]) for piece in pieces
    ).strip()


def box(text: str) -> Block:
    """Return literal text in a box, in a type of equal widths: a part of rich text."""
    return {"type": "rich_text_preformatted", "elements": [literal(text)]}


def preformatted(text: str) -> Block:
    """Return literal text in a box as a block of its own."""
    return rich_text(box(text))


def quotation(text: str) -> Block:
    """Return literal text as a quote."""
    return rich_text({"type": "rich_text_quote", "elements": [literal(text)]})


def item(pieces: Sequence[Block]) -> Block:
    """Return a list of one item made of literal pieces: a text that wraps cannot look like the next item."""
    section = {"type": "rich_text_section", "elements": list(pieces)}
    return {"type": "rich_text_list", "style": "bullet", "elements": [section]}


def lists_joined(elements: Sequence[Block]) -> list[Block]:
    """Return parts of rich text with lists that follow each other made one."""
    made: list[Block] = []
    for each in elements:
        if made and each["type"] == made[-1]["type"] == "rich_text_list":
            made[-1] = each | {"elements": [*made[-1]["elements"], *each["elements"]]}
        else:
            made.append(each)
    return made


def button(
    text: str, action_id: str, value: str = "", *, style: Literal["", "primary", "danger"] = "", **more: Any
) -> Block:
    """Return a button; `more` may have `url` and `confirm`."""
    made: Block = {"type": "button", "action_id": action_id, "text": plain(text, BUTTON_MAX)}
    given = {"value": value, "style": style, **more}
    return made | {name: each for name, each in given.items() if each}


def confirm(title: str, text: str, yes: str, no: str) -> Block:
    """Return the question that Slack asks before a button counts."""
    return {
        "title": plain(title, 100),
        "text": plain(text, 300),
        "confirm": plain(yes, 30),
        "deny": plain(no, 30),
    }


def actions(block_id: str, *elements: Block) -> Block:
    """Return a row of buttons."""
    return {"type": "actions", "block_id": cut(block_id, 255), "elements": list(elements)}


def input_block(block_id: str, label: str, element: Block, *, optional: bool = False, hint: str = "") -> Block:
    """Return one input of a modal."""
    made: Block = {
        "type": "input",
        "block_id": cut(block_id, 255),
        "label": plain(label, LABEL_MAX),
        "element": element,
        "optional": optional,
    }
    return made | {"hint": plain(hint, LABEL_MAX)} if hint else made


def modal(title: str, blocks: Sequence[Block], *, close: str, callback_id: str = "", **more: Any) -> Block:
    """Return a modal; one with a `callback_id` can be submitted, by `submit`, and carries `private_metadata`."""
    made: Block = {
        "type": "modal",
        "title": plain(title, TITLE_MAX),
        "close": plain(close, TITLE_MAX),
        "blocks": list(blocks[:MODAL_BLOCKS_MAX]),
    }
    if callback_id:
        made |= {"callback_id": callback_id, "submit": plain(more.pop("submit"), TITLE_MAX), **more}
    return made


def shown_whole(text: str, *, chunk: int = 2500, blocks_max: int = 30) -> tuple[list[Block], bool]:
    """Return a long text of several lines as literal boxes, hidden characters visible; and whether all of it is there.

    A line break stays one; the boxes are cut between characters.
    """
    safe = "\n".join(visible(line) for line in text.split("\n"))
    pieces = [safe[start : start + chunk] for start in range(0, len(safe), chunk)]
    return [preformatted(piece) for piece in pieces[:blocks_max]], len(pieces) <= blocks_max
