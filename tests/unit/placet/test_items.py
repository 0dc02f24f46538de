"""`placet chat`: which items ask the person at the terminal, and what each item says there."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from placet.agent import items as log_items
from placet.cli.items import Item, asks_for_staged, closed_approval, ends_turn, is_card, lines_of
from placet.cli.workspace import asked_entries
from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed
from placet.contracts.messages.approvals import ProgressKind
from tests.builders import a_call
from tests.support.cards import closed, opened, progressed

OPENED = opened(approval_id="a-1")
EDITED = a_call(arguments='{"amount":199}', shown_arguments='{"amount":199}')


def item_of(message: ApprovalOpened | ApprovalProgressed | ApprovalClosed) -> Item:
    """Return the approval item that the agent's log makes of a message, as the event stream brings it."""
    match message:
        case ApprovalOpened():
            return an_item("approval", **log_items.held(message)[1])
        case ApprovalProgressed():
            return an_item("approval", **log_items.approval_progressed(message, "turn-1"))
        case ApprovalClosed():
            return an_item("approval", **log_items.approval_closed(message, "turn-1"))


def an_item(kind: str, /, **data: Any) -> Item:
    """Return an item of the event stream."""
    return {"id": "1", "type": kind, "data": data}


def texts_of(item: Item) -> list[str]:
    """Return the lines that an item is shown by."""
    return [text for text, _ in lines_of(item)]


def test_opened_approval_is_a_card_that_can_be_decided() -> None:
    """It has what a decision needs, and shows what will run."""
    item = item_of(OPENED)
    shown = f'    {OPENED.call.tool} {{"amount": 299, "currency": "TRY"}}'
    assert (True, ["  ? Create a payment link over 299 TRY?", shown]) == (is_card(item), texts_of(item))
    assert {"approval_id", "digest", "revision"} <= item["data"].keys()


def test_a_staged_call_is_no_success_yet() -> None:
    """The terminal says that it is staged; of its end, what became of it."""
    call = {"tool": "write_file", "status": "success"}
    shown = [texts_of(an_item("tool_call", **call, kind=kind)) for kind in ("staged", "succeeded")]
    assert [["  . write_file: staged"], ["  . write_file: success"]] == shown


@pytest.mark.parametrize("kind", sorted(set(get_args(ProgressKind)) - {"edited"}))
def test_progress_of_an_approval_asks_nobody_and_shows_its_note(kind: str) -> None:
    """Votes, reminders, claims and escalations have no digest: a chat that asked there ended with a traceback."""
    item = item_of(progressed(OPENED, 2, kind=kind, note="It moved on."))
    assert (False, ["  . It moved on."]) == (is_card(item), texts_of(item))


def test_edited_approval_draws_its_card_anew() -> None:
    """Its note says who changed it, and the card has the new digest and the new arguments."""
    news = progressed(OPENED, 2, kind="edited", note="Ada changed it.", call=EDITED, summary="Over 199 TRY?")
    item = item_of(news)
    shown = ["  . Ada changed it.", "  ? Over 199 TRY?", '    {"amount": 199}']
    assert (True, EDITED.digest, shown) == (is_card(item), item["data"]["digest"], texts_of(item))


def test_closed_approval_is_no_card_and_says_which_it_was() -> None:
    """What was left for later is over then."""
    item = item_of(closed(OPENED, "denied"))
    assert (False, "a-1", ["  = denied"]) == (is_card(item), closed_approval(item), texts_of(item))


def test_pending_approval_is_not_over() -> None:
    """Neither as a card nor as its progress."""
    assert [None, None] == [closed_approval(item_of(news)) for news in (OPENED, progressed(OPENED, 2))]


@pytest.mark.parametrize(
    ("state", "ends"),
    [("finished", True), ("failed", True), ("started", False), ("paused", False), ("continued", False)],
)
def test_turn_ends_with_any_state_but_those_it_goes_on_from(state: str, *, ends: bool) -> None:
    """A failed or stopped turn gives the prompt back too; one that waits for people does not."""
    assert ends == ends_turn(an_item("turn", state=state))


@pytest.mark.parametrize(
    ("item", "texts"),
    [
        (an_item("message", role="assistant", text="hi\x1b[2J"), ["agent> hi[U+001B][2J"]),
        (an_item("message", role="assistant", text=""), []),
        (an_item("message", role="user", text="hi"), []),
        (
            an_item("message", role="user", taken_as={"decision": "approve", "summary": "Pay?"}),
            ["  = taken as approve: Pay?"],
        ),
        (an_item("tool_call", tool="pay", status="success"), ["  . pay: success"]),
        (an_item("progress", tool="pay", fraction=0.5, text="half"), ["  . pay: 50% half"]),
        (an_item("progress", tool="pay", text="on it"), ["  . pay: on it"]),
        (an_item("progress", tool="pay", fraction=0.5, text=""), ["  . pay: 50%"]),
        (an_item("progress", tool="pay", fraction=None, text="", status="executing"), ["  . pay: runs"]),
        (an_item("delta", text="h"), []),
    ],
)
def test_item_is_shown_by_its_lines(item: Item, texts: list[str]) -> None:
    """What a person typed is not repeated, and nothing that others wrote steers the terminal."""
    assert texts == texts_of(item)


def test_a_commit_is_asked_for_by_its_entries_and_not_by_their_ids() -> None:
    """The sentence stands alone: what it would do is shown line by line, not as digests."""
    arguments = {"workspace_id": "w", "entries": ["e1"], "tree_digest": "a" * 64}
    asked = {
        "approval_id": "a",
        "digest": "b" * 64,
        "state": "pending",
        "tool": "commit_changes",
        "summary": "1 created",
    }
    item = an_item("approval", **asked, arguments=arguments)
    over = an_item("approval", **(asked | {"state": "denied"}), arguments=arguments)
    assert (["  ? 1 created"], True, False) == (texts_of(item), asks_for_staged(item), asks_for_staged(over))
    assert not asks_for_staged(item_of(OPENED))
    workspace = {"id": "w", "entries": [{"id": "e1"}, {"id": "e2"}]}
    assert ([{"id": "e1"}], None) == (
        asked_entries(workspace, arguments),
        asked_entries(workspace | {"id": "v"}, arguments),
    )
