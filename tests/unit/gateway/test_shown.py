"""What pages show of a held call: the very card that mail and Slack show, with no value cut."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from placet.contracts.canonical import sha256_hex
from placet.contracts.messages import ApprovalRule
from placet.domain.catalog import Catalog, ToolSpec
from placet.gateway.conversations.store import Words
from placet.gateway.web.shown import Shown, shown_call, shown_calls, tools_of
from placet.notifier import drawing
from placet.notifier.drawing import Pen
from placet.surfaces.card import ARGUMENT_MAX, QUOTE_MAX, ROWS_MAX, arguments_of
from tests.builders import a_call, an_approval_rule
from tests.support.cards import opened

MAIL = ToolSpec(
    name="mail",
    description="Send a mail.",
    category="unsafe_write",
    parameters={"type": "object", "properties": {"body": {"type": "string"}, "to": {"type": "string"}}},
    summary={"en": "Mail {to}?"},
)
TOOLS = Catalog([MAIL])
#: How many times longer eight times as much may take: where it is quadratic, it takes 64 times.
BOUND = 28


def a_row(arguments: dict[str, Any] | str, proposed: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a row of `read.approvals`, as far as it is drawn; an edited one was `proposed` otherwise."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    edited = None if proposed is None else {"proposed": json.dumps(proposed), "proposed_digest": sha256_hex(proposed)}
    rule: ApprovalRule = changes.pop("rule", an_approval_rule())
    row = {"tool": "mail", "schema_digest": MAIL.schema_digest, "arguments": text, "edited": edited, "origins": None}
    return row | {"category": "unsafe_write", "approval_rule": rule.model_dump(mode="json")} | changes


def deep(number: int) -> Any:
    """Return values below thirty steps, each step of them with a long name."""
    value: Any = [0] * (number // 2)
    for step in range(28):
        value = {f"{step}" + "x" * (number // 60): value}
    return value


def named(shown: Shown) -> list[str]:
    """Return the names of the arguments in their order."""
    return [each.name for each in shown.arguments]


def test_pages_show_what_the_other_places_show() -> None:
    """Order, values, tricks and the quote of one call are the same on a page and on the notifier's card."""
    arguments = {"body": "p\u0430y\nnow\u200b", "lines": [{"price": 1}], "to": "ada"}
    call = a_call(
        arguments={},
        tool="mail",
        shown_arguments=json.dumps(arguments),
        quote="Trust me.\u202e",
        asked="Pay ada",
        origins={"/to": ["user"], "/lines/0/price": []},
    )
    card = drawing.first_card(opened(call=call), Pen("de", "", str), ["to"])
    page = shown_call(a_row(arguments, origins=call.origins), TOOLS, Words(call.quote, call.asked))
    assert (card.arguments, card.warnings, card.quote, card.asked) == (
        list(page.arguments),
        [each.said("de") for each in page.tricks],
        page.quote,
        page.asked,
    )


def test_what_the_summary_names_stands_first() -> None:
    """A tool that is no more what it was when the call was checked says nothing of what is critical."""
    arguments = {"body": "Hello", "to": "ada"}
    known, changed = (
        shown_call(a_row(arguments, schema_digest=each), TOOLS) for each in (MAIL.schema_digest, "0" * 64)
    )
    assert (["to", "body"], ["body", "to"]) == (named(known), named(changed))


def test_an_edit_shows_what_each_argument_was() -> None:
    """Changed, added and taken away, whole."""
    long = "x" * (ARGUMENT_MAX + 1)
    shown = shown_call(a_row({"amount": 4, "to": "ada", "note": "n"}, {"amount": 5, "to": "ada", "body": long}), TOOLS)
    assert {"amount": ("4", "5"), "to": ("ada", None), "note": ("n", ""), "body": ("–", long)} == {
        each.name: (each.text, each.changed_from) for each in shown.arguments
    }


def test_a_page_cuts_no_argument_and_cuts_the_quote() -> None:
    """Whoever decides here has nowhere else to look; the agent's words cannot push the card off the screen."""
    shown = shown_call(a_row({"body": "x" * 5_000}), TOOLS, Words("y" * 5_000))
    assert (5_000, QUOTE_MAX, "…") == (len(shown.arguments[0].text), len(shown.quote), shown.quote[-1])


def test_of_very_many_values_a_page_draws_so_many() -> None:
    """The first of them, and how many more there are."""
    shown = shown_call(a_row({"all": list(range(5_000))}), TOOLS)
    assert ([f"all.{at}" for at in range(ROWS_MAX)], 5_000 - ROWS_MAX) == (named(shown), shown.left_out)


def test_what_decides_is_not_what_a_page_leaves_out() -> None:
    """What an edit changed or took away, what the sentence names, and what stood somewhere, wherever they are."""
    many = {f"a{at}": at for at in range(1_000)}
    arguments = many | {"from": "bob@shop.example", "to": "ada", "x": 2}
    origins = {"/from": ["tool:read_inbox"]}
    shown = shown_call(
        a_row(arguments, many | {"from": "bob@shop.example", "to": "ada", "x": 1, "y": 1}, origins=origins), TOOLS
    )
    assert (["to", "a0"], ["from", "x", "y"], ROWS_MAX) == (named(shown)[:2], named(shown)[-3:], len(shown.arguments))
    assert {"x": "1", "y": "1"} == {each.name: each.changed_from for each in shown.arguments if each.changed_from}
    assert (len(arguments) + 1 - ROWS_MAX, (("tool:read_inbox",))) == (shown.left_out, shown.arguments[-3].places)


def test_more_changes_than_there_are_rows_are_counted() -> None:
    """A row for each of so many; the page says how many more there are."""
    shown = shown_call(a_row({"all": [1] * 1_000}, {"all": [0] * 1_500}), TOOLS)
    assert (ROWS_MAX, 1_500 - ROWS_MAX) == (len(shown.arguments), shown.left_out)


@pytest.mark.parametrize("shape", [lambda n: {"a": [0] * n}, lambda n: {"a": ["éа"] * (n // 3)}, deep])
def test_drawing_costs_in_proportion_to_what_is_drawn(shape: Callable[[int], Any]) -> None:
    """Tiny values, words that look like tricks, deep ones: eight times as many take no 28 times as long."""

    def cost(size: int) -> float:
        row = a_row(shape(size), {"b": 1})
        begun = thread_time()
        shown_call(row, TOOLS)
        return thread_time() - begun

    cost(10)
    assert cost(24_000) < BOUND * max(min(cost(3_000) for _ in range(3)), 0.001)


def test_what_is_no_object_has_no_arguments() -> None:
    """The page shows the text itself then; where nothing may be seen there is none."""
    assert [[], [], []] == [named(shown_call(a_row(text), TOOLS)) for text in ("[1]", "{broken", "")]


def test_a_card_knows_when_a_reason_is_needed() -> None:
    """It is the rule's word."""
    assert "deny" == shown_call(a_row({}, rule=an_approval_rule(reason_required="deny")), TOOLS).reason_required


async def test_others_are_served_between_large_calls() -> None:
    """A page may have fifty of them, and draws on the loop that serves everybody."""
    names = ("approval_id", "tenant", "conversation_id", "call_id")
    large = a_row({"all": [0] * 9_000}) | {"arguments_masked": False}
    rows = [large | dict.fromkeys(names, f"a{number}") for number in range(5)]
    turns = 0

    class Silent:
        async def run(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
            return [{"approval_id": row["approval_id"], "quote": "", "asked": ""} for row in rows]

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    connection: Any = Silent()
    found = await shown_calls(connection, rows, TOOLS)
    waiting.cancel()
    assert (5, True) == (len(found), turns >= len(rows))


async def test_tools_are_read_again_once_their_file_has_changed(tmp_path: Path) -> None:
    """A rulebook that is not there or broken names no tool, and breaks no page."""
    book, found = tmp_path / "rulebook.yaml", []
    texts = (None, "tools: {one: {description: d, category: safe_read, parameters: {type: object}}}\nrules: []", "{")
    for second, text in enumerate(texts):
        if text is not None:
            book.write_text(text)
            os.utime(book, (second, second))
        found.append(list(await tools_of(book)))
    assert [[], ["one"], []] == found


def test_a_long_name_is_made_visible_once() -> None:
    """Each value below it had the whole of it in its path: two minutes for a card of 60 kB."""
    begun = thread_time()
    call = a_call(arguments={"a": {"é" * 12_000: [0] * 8_000}})
    names = [each.name for each in arguments_of(call.shown_arguments)]
    assert (8_000, True) == (len(names), max(map(len, names)) < 200)
    assert thread_time() - begun < 1.0
