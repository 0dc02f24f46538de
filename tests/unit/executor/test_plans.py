"""What a commit may run of a workspace, and what it came to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.contracts.canonical import canonical_text, tree_digest
from placet.contracts.messages import ToolCall
from placet.contracts.messages.tool_calls import Edited
from placet.executor.plans import ANSWER_BYTES_MAX, NOT_APPLIED, Entry, Step, decide, error_of, net, result_of
from tests.builders import a_call


def an_entry(position: int, **changes: Any) -> Entry:
    """Return a waiting change of a file of its own."""
    fields: dict[str, Any] = {
        "call_id": f"call-{position}",
        "position": position,
        "tool": "write_file",
        "kind": "change",
        "digest": f"{position:064x}",
        "keys": [f"files:{position}.txt"],
        "summary": f"Create {position}.txt",
        "on_failure": "stop",
        "state": "waiting",
    }
    return Entry(**(fields | changes))


def a_commit(entries: list[Entry], *, proposed: list[Entry] | None = None, digest: str | None = None) -> ToolCall:
    """Return the commit of entries, of those that were proposed."""
    edited = proposed and Edited(
        person="person:ada", proposed=canonical_text(arguments(proposed)), proposed_digest="0" * 64
    )
    return a_call(tool="commit_changes", arguments=arguments(entries, digest), edited=edited)


def arguments(entries: list[Entry], digest: str | None = None) -> dict[str, Any]:
    """Return the arguments of the commit of entries."""
    tree = tree_digest([(entry.call_id, entry.digest) for entry in entries])
    ids = [entry.call_id for entry in entries]
    return {"workspace_id": "workspace-1", "tree_digest": digest or tree, "entries": ids}


ONE, TWO, THREE = an_entry(1), an_entry(2), an_entry(3)


def test_all_that_is_named_is_let_through() -> None:
    """Nothing was left out, nothing else waits."""
    decision = decide([ONE, TWO], a_commit([ONE, TWO]))
    assert ([ONE, TWO], [], "") == (decision.kept, decision.left_out, decision.problem)


def test_what_people_left_entries_out_of_is_what_they_were_shown_too() -> None:
    """An edit changes which entries run, and never what one of them does."""
    decision = decide([ONE, replace(TWO, digest="f" * 64)], a_commit([TWO], proposed=[ONE, TWO]))
    assert ((), "its digest is not that of what people were shown") == (decision.kept, decision.problem)


def test_only_what_was_proposed_can_be_left_out() -> None:
    """What came after the card is neither let through nor thrown away."""
    decision = decide([ONE, TWO, THREE], a_commit([TWO], proposed=[ONE, TWO]))
    assert ([TWO], [ONE]) == (decision.kept, decision.left_out)


@pytest.mark.parametrize(
    ("entries", "call", "problem"),
    [
        ([ONE], a_commit([ONE, TWO]), "other entries"),
        ([ONE, an_entry(2, state="committed")], a_commit([ONE, TWO]), "other entries"),
        ([ONE, TWO], a_commit([TWO, ONE]), "not in their order"),
        ([ONE, TWO], a_commit([ONE, ONE]), "not in their order"),
        ([ONE, TWO], a_commit([ONE, TWO], digest="0" * 64), "its digest"),
        ([an_entry(1, digest="f" * 64)], a_commit([ONE]), "its digest"),
        ([ONE], a_call(tool="commit_changes", arguments={"entries": []}), "names no entries"),
    ],
)
def test_anything_else_than_what_was_shown_is_refused(entries: list[Entry], call: ToolCall, problem: str) -> None:
    """Another entry, another order, another content: nothing is let through."""
    decision = decide(entries, call)
    assert problem in decision.problem
    assert () == decision.kept


@pytest.mark.parametrize(("kept", "proposed"), [([0], [0, 1]), ([1], [0, 1]), ([1], [1])])
def test_changes_of_one_key_stand_and_fall_together(kept: list[int], proposed: list[int]) -> None:
    """Neither the first nor the last change of a file is let through alone."""
    entries = [an_entry(1, keys=["files:a"]), an_entry(2, keys=["files:a", "files:b"])]
    call = a_commit([entries[place] for place in kept], proposed=[entries[place] for place in proposed])
    assert "'files:a'" in decide(entries, call).problem


def test_a_later_change_of_a_key_may_wait() -> None:
    """What was staged after the card builds on what is let through."""
    entries = [an_entry(1, keys=["files:a"]), an_entry(2, keys=["files:a"])]
    assert [entries[0]] == decide(entries, a_commit(entries[:1])).kept


def a_step(key: str, base: str | None, after: str | None, *, mode: int = 0o644, was: int = 0o644) -> Step:
    """Return what a call made of a key of the pack `files`."""
    return Step("call", "files", key, base, was if base else None, after, len(after or ""), mode if after else None)


def test_only_the_end_of_several_steps_is_made() -> None:
    """From what the first began with to what the last left; what ends as it began is no change."""
    steps = [a_step("a", "1", "2"), a_step("b", None, "x"), a_step("a", "2", "3"), a_step("b", "x", None)]
    (found,) = net(steps)["files"]
    assert ("1", "3", ["call", "call"]) == (found.first.base, found.last.after, found.call_ids)


def test_a_change_of_the_mode_alone_is_one() -> None:
    """The content is the same, and who may run it is not."""
    assert 1 == len(net([a_step("a", "1", "1", mode=0o755)])["files"])


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["committed", "succeeded", "left_out"], "committed"),
        (["committed", "failed"], "partly_committed"),
        (["conflicted", "refused"], "conflicted"),
        (["unknown"], "partly_committed"),
        (["failed", "refused", "left_out"], "discarded"),
    ],
)
def test_a_commit_says_what_it_came_to(states: list[str], expected: str) -> None:
    """What was left out is no failure."""
    result = result_of([an_entry(place, state=state) for place, state in enumerate(states)])
    assert (expected, states) == (result.state, [entry.outcome for entry in result.entries])
    assert (expected == "committed") == (error_of(result) == "")


def test_what_nobody_knows_is_not_said_to_have_had_no_effect() -> None:
    """A tool that broke off may have done its work."""
    said = [
        error_of(result_of([an_entry(0, state="succeeded"), an_entry(1, state=each)])) for each in ("unknown", "failed")
    ]
    assert [True, False] == ["nobody knows" in each for each in said]
    assert [False, True] == ["not the others" in each for each in said]


@pytest.mark.parametrize(
    ("error", "told"), [("The tool ran, but its reply is too long.", True), (f"{NOT_APPLIED}the disk is full.", False)]
)
def test_a_call_that_failed_is_not_said_to_have_had_no_effect(error: str, *, told: bool) -> None:
    """It may have run before; what was not applied did nothing."""
    said = error_of(result_of([an_entry(0, state="failed", error=error)]))
    assert ("0 of 1 entries succeeded", told) == (said.split(",")[0], "its own error says" in said)


def test_an_answer_has_its_bounds() -> None:
    """The data of calls goes into it while there is room; then it is said that it was too long."""
    entries = [an_entry(place, state="succeeded", data="x" * 100_000) for place in range(3)]
    data = [entry.data for entry in result_of(entries).entries]
    assert [str, dict, dict] == [type(each) for each in data]
    assert ANSWER_BYTES_MAX > len(str(data))
