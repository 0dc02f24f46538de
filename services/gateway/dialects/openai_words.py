"""What a chat is told in words for which its wire has no member: that a call waits for people, that one answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services.gateway.holder import Held, told

_WAITS: Mapping[str, str] = {
    "en": "This waits for approval:",
    "de": "Das wartet auf Zustimmung:",
    "tr": "Bu onay bekliyor:",
}


def waits_note(language: str, cards: Iterable[Mapping[str, Any]], public_url: str = "") -> str:
    """Return the words about calls that wait, with the page where each is decided; empty where none does.

    A summary has a model's words in it, so it stands as code: a frontend that draws Markdown makes no link of it.
    """
    lines = [_line(card, public_url.rstrip("/")) for card in cards]
    return "\n".join([_WAITS.get(language, _WAITS["en"]), *lines]) if lines else ""


def held_note(language: str, held: Held) -> str:
    """Return the words about who answers; empty where the agent does."""
    return told(held, language) if held.by_people else ""


def _line(card: Mapping[str, Any], public_url: str) -> str:
    summary = str(card.get("summary") or card.get("tool") or "").replace("`", "'")
    page = f" {public_url}/inbox/{card['approval_id']}" if public_url else ""
    return f"- `{summary}`{page}"
