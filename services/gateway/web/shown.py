"""What the pages show of a held call: drawn by the very module that draws mails and Slack's cards.

Pages have room, so no value is cut; of very many values a card has the first rows, and its approval's own page all of
them as JSON. The agent's own words are cut everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from placet.contracts.messages import ApprovalRule
from placet.domain.catalog import Catalog, load_catalog
from placet.domain.yaml_source import RulebookInvalid
from placet.gateway.approvals.answers import tricks_of
from placet.gateway.approvals.held import in_turns
from placet.gateway.conversations.store import NO_WORDS, Words, load_words
from placet.gateway.store.read import Row
from placet.runtime.sql import Connection
from placet.surfaces.card import ROWS_MAX, Argument, Trick, critical_arguments, drawn, quoted


@dataclass(frozen=True, slots=True)
class Shown:
    """One held call as a page shows it."""

    #: Those first that the tool's sentence names; each that an edit changed with what it was.
    arguments: tuple[Argument, ...]
    tricks: tuple[Trick, ...]
    #: The agent's own words; empty where it said nothing, or where they may not be seen.
    quote: str
    #: The requester's message that led to it; empty where it may not be seen.
    asked: str
    #: When whoever decides must say why.
    reason_required: Literal["never", "deny", "always"]
    #: Values that have no row: the card says so, and where all of them are.
    left_out: int = 0


def shown_call(row: Row, tools: Catalog, words: Words = NO_WORDS) -> Shown:
    """Return how a row of `read.approvals` is shown, with the words beside it as they were said."""
    critical = critical_arguments(tools, row["tool"], row["schema_digest"])
    proposed = row["edited"]["proposed"] if row["edited"] else None
    found = drawn(row["arguments"], critical, origins=row["origins"], proposed=proposed, most=ROWS_MAX)
    rule = ApprovalRule.model_validate(row["approval_rule"])
    quote, asked = quoted(words.quote), quoted(words.asked)
    return Shown(found.arguments, tuple(tricks_of(row)), quote, asked, rule.reason_required, found.left_out)


async def shown_calls(connection: Connection, rows: Sequence[Row], tools: Catalog) -> dict[str, Shown]:
    """Return by approval id how rows of one tenant are shown, with what the agent said beside each."""
    words, found = await load_words(connection, rows), {}
    async for row in in_turns(rows):
        found[row["approval_id"]] = shown_call(row, tools, words[row["approval_id"]])
    return found


async def tools_of(rulebook: Path) -> Catalog:
    """Return the tools of a rulebook; none where it cannot be read, and then no argument stands before another."""
    return await asyncio.to_thread(_read, rulebook)


def _read(path: Path) -> Catalog:
    try:
        found = path.stat()
        return _loaded(path, found.st_mtime_ns, found.st_size)
    except (OSError, RulebookInvalid):
        return Catalog([])


@lru_cache(maxsize=4)
def _loaded(path: Path, _changed_ns: int, _size: int) -> Catalog:
    """Return the tools of a file, which is read again only once it has changed."""
    return load_catalog(path)
