"""Commits on cards that cannot be opened: in Slack and in mails, entry by entry, and what became of each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.contracts.canonical import sha256_hex
from placet.contracts.messages import COMMIT_TOOL, ApprovalOpened
from placet.domain.card_text import visible
from placet.notifier import drawing
from placet.notifier.cards import Card, PlanLine, as_json, from_json
from placet.notifier.channels import slack_blocks
from placet.notifier.channels.email.links import MailedLink
from placet.notifier.channels.email.mail_templates import Letterhead, Place, letter
from placet.notifier.channels.email.threads import Kind, Told
from placet.notifier.drawing import PLAN_LINES_MAX, Pen
from placet.surfaces import slack as names
from placet.surfaces.plan import Entry, FileChange, Plan, staged_call
from tests.builders import a_call, an_approval_rule
from tests.support.cards import closed, finished, opened, progressed
from tests.support.shown_cards import HOSTILE
from tests.support.slack_rules import message_problems

PEN = Pen("en", "https://placet.example", lambda identity: identity.removeprefix("person:").title())


def a_change(number: int) -> Entry:
    """Return an entry that creates a file."""
    key = f"notes/{number}.md"
    change = FileChange(
        f"c{number}", "files", key, "create", None, 9, added=1, removed=0, binary=False, after=sha256_hex(key)
    )
    return Entry(f"c{number}", number, "write_file", "change", "0" * 64, f"Create {key}", changes=(change,))


def a_mail(number: int) -> Entry:
    """Return a staged call."""
    shown = staged_call(json.dumps({"to": "lin@ex\u0430mple.org", "body": "Hello"}), ("to",))
    return Entry(f"c{number}", number, "send_mail", "call", "0" * 64, "Send a mail", "waiting", "", (), (), *shown)


def a_commit(entries: tuple[Entry, ...]) -> tuple[ApprovalOpened, Card]:
    """Return the news that a commit waits, and its first card."""
    ids = [each.call_id for each in entries]
    arguments = {"workspace_id": "w", "tree_digest": "0" * 64, "entries": ids}
    rule = an_approval_rule(edits=True)
    call = a_call(tool=COMMIT_TOOL, arguments=arguments)
    news = opened(call=call, approval=rule, summary=f"Apply {len(ids)} entries")
    return news, drawing.first_card(news, PEN, (), Plan("w", "open", entries))


def buttons(card: Card) -> list[str]:
    """Return the actions of a card's buttons in Slack, in order."""
    return [
        each["action_id"]
        for block in slack_blocks.blocks(card)
        if block["type"] == "actions"
        for each in block["elements"]
    ]


def parts(card: Card, kind: Kind = Kind.ASKED) -> list[str]:
    """Return both parts of the mail that tells a card."""
    place = Place(
        "<1@example.org>", "ada@example.org", MailedLink("https://placet.example/l/" + "t" * 43, code="K7R4W")
    )
    mail = letter(
        Letterhead("placet@example.org"), card, kind, Told("a" * 64, "pending", "", ("<0@example.org>",)), place
    )
    found = [mail.get_body((part,)) for part in ("plain", "html")]
    return [str(each.get_content()) for each in found if each is not None]


def test_a_commit_is_told_entry_by_entry_and_not_by_ids() -> None:
    """Its sum, each file with its size, each call with its deciding argument and what looks like a trick."""
    _, card = a_commit((a_change(1), a_mail(2)))
    shown = [json.dumps(slack_blocks.blocks(card), ensure_ascii=False), *parts(card)]
    wanted = ("1 created (9 bytes) · 1 call", "create notes/1.md (+1 -0, 9 bytes)", "to: lin@ex", "mixes alphabets")
    assert [] == [(words, text[:40]) for words in wanted for text in shown if words not in text]
    assert not any("tree_digest" in text for text in shown)
    assert "strike" not in shown[0]
    assert [names.DENY, names.APPROVE, names.EDIT, names.MORE] == buttons(card)
    assert card == from_json(as_json(card))


@pytest.mark.parametrize("count", [1, 30, 300])
def test_nobody_approves_in_slack_what_does_not_stand_there(count: int) -> None:
    """A card with all entries has its buttons; one that has no room leads to the page, and says how many more."""
    _, card = a_commit(tuple(map(a_change, range(count))))
    made = slack_blocks.blocks(card)
    assert [] == message_problems(made)
    assert min(count, PLAN_LINES_MAX) == len(card.plan)
    told = json.dumps(made)
    if count <= PLAN_LINES_MAX:
        assert (True, False) == (names.APPROVE in buttons(card), "more entries" in told)
    else:
        assert (False, True) == (names.APPROVE in buttons(card), f"{count - PLAN_LINES_MAX} more entries" in told)
        assert f"{count - PLAN_LINES_MAX} more entries" in parts(card)[0]


def test_what_was_left_out_and_what_became_of_the_rest_is_told() -> None:
    """First crossed out, then with the end of each, its error, and the sum of all."""
    news, card = a_commit((a_change(1), a_change(2), a_mail(3)))
    kept = json.dumps({"workspace_id": "w", "tree_digest": "1" * 64, "entries": ["c1", "c3"]})
    call = news.call.model_copy(update={"shown_arguments": kept, "digest": "b" * 64})
    card = drawing.moved_on(card, progressed(news, 2, kind="edited", call=call), PEN, (), news.expires_at)
    assert (["", "left_out", ""], "1 left out", "b" * 64) == (
        [each.outcome for each in card.plan],
        card.plan_outcome,
        card.digest,
    )
    outcomes = {"c1": "committed", "c2": "left_out", "c3": "failed"}
    entries: list[dict[str, Any]] = [
        {"call_id": name, "tool": "t", "outcome": outcome, "error": "The server said no." if name == "c3" else ""}
        for name, outcome in outcomes.items()
    ]
    card = drawing.over(card, closed(news, "approved", 3), PEN)
    card = drawing.ran(card, finished(news, kind="failed", data={"state": "partly_committed", "entries": entries}))
    shown = [json.dumps(slack_blocks.blocks(card), ensure_ascii=False), *parts(card, Kind.FINISHED)]
    wanted = ("1 committed, 1 left out, 1 failed", "The server said no.")
    assert [] == [(words, text[:40]) for words in wanted for text in shown if words not in text]
    assert list(outcomes.values()) == [each.outcome for each in card.plan]


_hostile = st.one_of(st.text(max_size=200), st.sampled_from([HOSTILE, "<!here>" * 60, "x" * 400, "\n*Approved*"])).map(
    visible
)
_lines = st.builds(
    PlanLine,
    call_id=st.just("c"),
    words=_hostile,
    kind=st.sampled_from(["change", "call"]),
    warnings=st.lists(_hostile, max_size=2),
    outcome=st.sampled_from(["", "left_out", "committed", "failed"]),
    error=_hostile,
)


@settings(deadline=None, max_examples=60)
@given(st.lists(_lines, min_size=1, max_size=PLAN_LINES_MAX), _hostile)
def test_whatever_was_staged_slack_takes_the_card(lines: list[PlanLine], head: str) -> None:
    """Within its limits, and nothing of an entry is read as markup."""
    _, card = a_commit((a_change(1),))
    card = Card(**{**{name: getattr(card, name) for name in card.__slots__}, "plan": lines, "plan_entries": len(lines)})
    made = slack_blocks.blocks(card)
    assert [] == message_problems(made)
    del head
