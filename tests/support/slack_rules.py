"""Slack's limits on blocks, as the stub of its Web API enforces them. Each problem is one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Posts whose blocks have more text than this fail with `msg_blocks_too_long`.
MESSAGE_TEXT_MAX = 13_200
_BLOCKS = frozenset({"header", "section", "context", "actions", "rich_text", "divider", "input"})
_RICH = frozenset({"rich_text_section", "rich_text_preformatted", "rich_text_quote", "rich_text_list"})
_ELEMENTS = frozenset({"button", "checkboxes", "overflow", "static_select", "plain_text_input", "number_input"})
_STYLES = frozenset({"bold", "italic", "code", "strike"})


def message_problems(blocks: list[dict[str, Any]]) -> list[str]:
    """Return what Slack would refuse in a message's blocks."""
    problems = [f"{len(blocks)} blocks"] if len(blocks) > 50 else []
    problems += ["an input in a message" for block in blocks if block.get("type") == "input"]
    return problems + [each for block in blocks for each in _block(block)] + _ids(blocks)


def view_problems(view: dict[str, Any]) -> list[str]:
    """Return what Slack would refuse in a modal."""
    blocks = view.get("blocks", [])
    problems = [f"{len(blocks)} blocks"] if not 1 <= len(blocks) <= 100 else []
    problems += list(_plain(view.get("title"), 24, "title"))
    for name in ("submit", "close"):
        problems += list(_plain(view[name], 24, name)) if name in view else []
    if any(block.get("type") == "input" for block in blocks) and "submit" not in view:
        problems.append("inputs without submit")
    problems += ["private_metadata too long"] if len(view.get("private_metadata", "")) > 3000 else []
    return problems + [each for block in blocks for each in _block(block)] + _ids(blocks)


def text_length(value: Any) -> int:
    """Return how many characters of text there are in blocks."""
    if isinstance(value, dict):
        own = len(value["text"]) if isinstance(value.get("text"), str) else 0
        return own + sum(text_length(each) for each in value.values() if not isinstance(each, str))
    return sum(map(text_length, value)) if isinstance(value, list) else 0


def _ids(blocks: list[dict[str, Any]]) -> list[str]:
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    return ["a block_id twice"] if len(set(ids)) < len(ids) else []


def _block(block: dict[str, Any]) -> Iterator[str]:  # noqa: C901, PLR0912 - a table of limits
    kind = block.get("type")
    if kind not in _BLOCKS:
        yield f"unknown block {kind}"
    if len(block.get("block_id", "x")) not in range(1, 256):
        yield "block_id"
    match kind:
        case "header":
            yield from _plain(block.get("text"), 150, "header")
        case "section":
            yield from _section(block)
        case "context":
            elements = block.get("elements", [])
            if not 1 <= len(elements) <= 10:
                yield f"context of {len(elements)}"
            for each in elements:
                yield from _text(each, 2000, "context")
        case "actions":
            elements = block.get("elements", [])
            if not 1 <= len(elements) <= 25:
                yield f"actions of {len(elements)}"
            for each in elements:
                yield from _element(each)
        case "rich_text":
            for each in block.get("elements", []):
                yield from _rich(each)
        case "input":
            yield from _plain(block.get("label"), 2000, "label")
            yield from _element(block.get("element", {}))


def _section(block: dict[str, Any]) -> Iterator[str]:
    fields = block.get("fields", [])
    if "text" not in block and not fields:
        yield "section without text"
    if "text" in block:
        yield from _text(block["text"], 3000, "section")
    if len(fields) > 10:
        yield "more than 10 fields"
    for each in fields:
        yield from _text(each, 2000, "field")


def _rich(element: dict[str, Any]) -> Iterator[str]:
    if element.get("type") not in _RICH:
        yield f"rich text {element.get('type')}"
    for each in element.get("elements", []):
        if each.get("type") in _RICH:
            yield from _rich(each)
        elif each.get("type") == "text":
            if not isinstance(each.get("text"), str) or not each["text"]:
                yield "empty rich text"
            if not set(each.get("style", {})) <= _STYLES:
                yield "unknown style"
        elif each.get("type") != "user":
            yield f"rich text element {each.get('type')}"


def _element(element: dict[str, Any]) -> Iterator[str]:  # noqa: C901 - a table of limits
    if element.get("type") not in _ELEMENTS:
        yield f"unknown element {element.get('type')}"
    if not 1 <= len(element.get("action_id", "")) <= 255:
        yield "action_id"
    if element.get("type") == "button":
        yield from _plain(element.get("text"), 75, "button")
        if len(element.get("value", "x")) not in range(1, 2001):
            yield "button value"
        if element.get("style", "primary") not in {"primary", "danger"}:
            yield "button style"
        if "confirm" in element:
            for name, length in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
                yield from _plain(element["confirm"].get(name), length, f"confirm {name}")
    most = {"static_select": 100, "checkboxes": 10}.get(element.get("type", ""))
    if most is not None and not 1 <= len(element.get("options", [])) <= most:
        yield "options"
    for option in element.get("options", []):
        yield from _plain(option.get("text"), 75, "option")
        if not 1 <= len(option.get("value", "")) <= 150:
            yield "option value"
    if len(element.get("initial_value", "")) > 3000:
        yield "initial_value"


def _plain(text: Any, length: int, what: str) -> Iterator[str]:
    if not isinstance(text, dict) or text.get("type") != "plain_text":
        yield f"{what} is no plain_text"
    else:
        yield from _text(text, length, what)


def _text(text: dict[str, Any], length: int, what: str) -> Iterator[str]:
    if text.get("type") not in {"plain_text", "mrkdwn"}:
        yield f"{what}: {text.get('type')}"
    if not 1 <= len(text.get("text", "")) <= length:
        yield f"{what} of {len(text.get('text', ''))} characters"
