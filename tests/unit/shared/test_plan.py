"""What a card says of a commit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.canonical import canonical_text
from placet.surfaces.plan import (
    ENTRY_ROWS_MAX,
    ENTRY_ROWS_MIN,
    Entry,
    Plan,
    closure,
    diff_lines,
    entries_of,
    line_of,
    plan_of,
    staged_call,
)


def an_entry(number: int, keys: tuple[str, ...]) -> Entry:
    """Return an entry that touches these keys."""
    return Entry(f"c{number}", number, "write", "change", "0" * 64, "", keys=keys)


ENTRIES = st.lists(st.sets(st.sampled_from("abcdef"), max_size=3).map(tuple), max_size=8).map(
    lambda each: [an_entry(number, keys) for number, keys in enumerate(each)]
)


@given(ENTRIES, st.sets(st.integers(0, 7)))
def test_what_is_left_shares_no_key_with_what_is_left_out(entries: list[Entry], wanted: set[int]) -> None:
    """And nothing more is left out than that takes: leaving out what goes anyway changes nothing."""
    asked = {f"c{number}" for number in wanted}
    gone = closure(entries, asked)
    keys = {key for each in entries if each.call_id in gone for key in each.keys}
    assert not any(keys.intersection(each.keys) for each in entries if each.call_id not in gone)
    assert gone >= asked & {each.call_id for each in entries}
    assert gone == closure(entries, gone)


def a_change_row(
    call_id: str,
    key: str,
    before: str | None,
    after: str | None,
    modes: tuple[int, int] = (0o644, 0o644),
    words: str = "",
) -> dict[str, Any]:
    """Return a row of `read.workspace_changes`; a digest is its content."""
    kind = "create" if before is None else "delete" if after is None else "change"
    sizes = {"base_size": len(before or "") or None, "after_size": len(after or "") or None}
    digests = {"base_digest": before, "after_digest": after}
    return {"call_id": call_id, "pack": "files", "key": key, "kind": kind, **sizes, **digests} | {
        "added": 1,
        "removed": 0,
        "binary": False,
        "base_mode": modes[0],
        "after_mode": modes[1],
        "summary": words or f"{kind.capitalize()} {key} (+1 -0)",
    }


def a_plan(changes: list[dict[str, Any]]) -> Plan:
    """Return the plan of entries with one change each."""
    names = ("tool", "kind", "digest", "summary", "state", "error", "shown_arguments")
    values = ("write", "change", "0" * 64, "Write", "waiting", "", "{}")
    rows = [
        {"call_id": each["call_id"], "position": at, "keys": []} | dict(zip(names, values, strict=True))
        for at, each in enumerate(changes, 1)
    ]
    return plan_of({"workspace_id": "w", "state": "open"}, rows, changes, [row["call_id"] for row in rows], {})


def test_a_file_counts_once_by_what_becomes_of_it_in_the_end() -> None:
    """Created and changed is created; created and deleted, or changed back, is nothing."""
    changes = [
        a_change_row("1", "new", None, "x"),
        a_change_row("2", "new", "x", "xy"),
        a_change_row("3", "passing", None, "z"),
        a_change_row("4", "passing", "z", None),
        a_change_row("5", "back", "a", "b"),
        a_change_row("6", "back", "b", "a"),
        a_change_row("7", "old", "q", None),
    ]
    plan = a_plan(changes)
    assert {"create": 1, "change": 0, "delete": 1} == plan.counts()
    assert "1 created, 1 deleted (3 bytes)" == plan.headline("en")


def test_a_diff_is_told_line_by_line_without_its_head() -> None:
    """A line that looks like a head further down is a line."""
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n--- gone\n+++ there\u202e"
    assert [
        ("gap", "@@ -1,2 +1,2 @@"),
        ("same", "same"),
        ("removed", "-- gone"),
        ("added", "++ there[U+202E]"),
    ] == diff_lines(diff)
    assert [] == diff_lines("")


def test_entries_are_read_from_nothing_but_a_list_of_texts() -> None:
    """Whatever stands in the arguments, a card is drawn."""
    texts = ('{"entries": ["a", 1, "b"]}', '{"entries": "a"}', "[]", "x", None)
    assert [("a", "b"), (), (), (), ()] == [entries_of(each) for each in texts]


def test_changes_that_come_to_nothing_are_said() -> None:
    """A file that is written and deleted again: no number would tell it."""
    changes = [a_change_row("c0", "a", None, "new"), a_change_row("c1", "a", "new", None)]
    entries = [
        {"call_id": f"c{each}", "position": each, "tool": "write", "kind": "change", "digest": "0" * 64, "keys": ["a"]}
        | {"summary": "", "state": "waiting", "error": None, "shown_arguments": None}
        for each in range(2)
    ]
    plan = plan_of({"workspace_id": "w", "state": "open"}, entries, changes, ["c0", "c1"], {})
    assert "no change in the end" == plan.headline("en")


def test_a_line_of_a_staged_call_has_all_of_its_arguments() -> None:
    """What its sentence does not name is approved too; what it names stands first."""
    arguments, tricks, _ = staged_call('{"text": "pay \u202e evil", "to": "bob@example.org"}', ["to"])
    entry = Entry("c", 1, "send_mail", "call", "0" * 64, "Send a mail?", arguments=arguments, tricks=tricks)
    line = line_of(entry, "en")
    assert ["to", "text"] == [each.name for each in entry.arguments]
    assert [True, True, True] == [each in line for each in ("to: bob@example.org", "text: pay", "evil")]


def test_staged_calls_of_very_many_values_are_drawn_in_part() -> None:
    """All of them together have so many rows, each at least a few, and a line says how many more there are."""
    shown = canonical_text({f"key{number}": number for number in range(1_000)})
    same = {"tool": "write", "kind": "call", "digest": "0" * 64, "summary": "Write", "state": "waiting", "error": ""}
    rows: list[dict[str, Any]] = [
        {**same, "call_id": f"c{at}", "position": at, "keys": [], "shown_arguments": shown} for at in range(20)
    ]
    plan = plan_of({"workspace_id": "w", "state": "open"}, rows, (), [f"c{at}" for at in range(20)], {})
    drawn = [len(each.arguments) for each in plan.entries]
    assert [ENTRY_ROWS_MAX] * 5 + [ENTRY_ROWS_MIN] * 15 == drawn
    assert [1_000] * 20 == [len(each.arguments) + each.left_out for each in plan.entries]
    assert "… and 996 more values" in line_of(plan.entries[-1], "en")


@pytest.mark.parametrize(
    ("before", "after", "modes", "said"),
    [
        ("x", "x", (0o644, 0o755), "mode 644 → 755"),
        ("x", "y", (0o755, 0o644), "mode 755 → 644"),
        (None, "x", (0o644, 0o755), "mode 755"),
        (None, "x", (0o644, 0o644), ""),
        ("x", "y", (0o644, 0o644), ""),
        ("x", None, (0o755, 0o644), ""),
    ],
)
def test_who_may_run_a_file_is_said(before: str | None, after: str | None, modes: tuple[int, int], said: str) -> None:
    """Also where nothing else of it changes, and then it counts as a change."""
    plan = a_plan([a_change_row("c1", "m.sh", before, after, modes)])
    line = plan.entries[0].changes[0].said("en")
    assert said == (line.partition("mode ")[1] + line.partition("mode ")[2])
    assert "no change in the end" not in plan.headline("en")


def test_a_pack_s_own_words_are_its_line() -> None:
    """A price is no text of so many bytes; the usual sentence says less than the card's own line."""
    rows = [a_change_row("c1", "red", "9.00", "5.00", words="red: 9.00 → 5.00 TRY"), a_change_row("c2", "a", None, "x")]
    assert ["red: 9.00 → 5.00 TRY", "+1 -0, 1 byte"] == [
        change.said("en") for entry in a_plan(rows).entries for change in entry.changes
    ]
