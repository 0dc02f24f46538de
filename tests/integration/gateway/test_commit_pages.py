"""Commits on the pages: counts, diffs on demand, entries left out, and what became of each, in a real browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from placet.contracts.canonical import canonical_text
from placet.gateway.web.render import set_up_was_run
from tests.integration.gateway.test_inbox_browser import AXE, faults_of, is_complaint, signed_in, visit
from tests.support.gateway import House, insert, open_house
from tests.support.inbox_scene import DIRECTORY
from tests.support.staged_scene import (
    CONVERSATION,
    a_busy_turn,
    a_change,
    a_file,
    a_staged_call,
    commit_arguments,
    propose,
    stage,
)

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`"),
]


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 0}
    conversation = {"conversation_id": CONVERSATION, "tenant": "acme", "agent": "default", "language": "en"}
    insert(gateway_database_url, "conversations", **conversation, labels={}, created_at=datetime.now(UTC))
    async with open_house(gateway_database_url, tmp_path, **settings) as made:
        yield made


@pytest.fixture
async def page(house: House, browser: Browser) -> AsyncIterator[Page]:
    """A page, signed in; anything that its console complains about fails the test."""
    complaints: list[str] = []
    made = await signed_in(house, browser)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
    yield made
    assert [] == complaints


@pytest.mark.parametrize("count", [1, 30, 300])
async def test_a_commit_of_any_size_is_read_and_approved_as_a_whole(house: House, page: Page, count: int) -> None:
    """Each entry is a line; the list leads to all of them where it cannot show them."""
    calls = stage(house, [a_change(a_file(f"notes/{n}.md", after=f"# Note {n}\n")) for n in range(count)])
    row = propose(house, calls)
    await visit(house, page, "/inbox")
    await expect(page.locator(".plan-head")).to_contain_text(f"{count} created (")
    if count > 5:
        await expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
        await page.get_by_role("link", name=f"Review all {count} entries and decide").click()
        await expect(page.locator("#connection")).to_have_text("live", timeout=60_000)
        await expect(page.locator(".entry")).to_have_count(count)
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator(".badge.approved").first).to_be_visible()
    (claims,) = house.approvers.claims
    assert ("approve", row["digest"], "") == (claims.verb, claims.digest, claims.arguments)


async def test_a_diff_comes_when_it_is_opened_and_says_what_it_cannot_show(house: House, page: Page) -> None:
    """Added and removed lines by sign; hidden characters by their code point; a binary one by its size."""
    calls = stage(
        house, [a_change(a_file("a\u202eb.txt", base="one\n", after="<b>two</b>\u202e\n")), *a_busy_turn()[-3:]]
    )
    row = propose(house, calls)
    await visit(house, page, f"/inbox/{row['approval_id']}")
    file = page.locator("details.file").first
    await expect(file.locator("summary")).to_contain_text("a[U+202E]b.txt")
    await file.locator("summary").click()
    await expect(file.locator(".diff-lines .added")).to_contain_text("<b>two</b>[U+202E]")
    await expect(file.locator(".diff-lines .removed")).to_contain_text("one")
    await expect(page.locator("p.file")).to_contain_text("binary, 900 → 1,204 bytes")
    await expect(page.locator(".entry .kind.call")).to_have_count(2)
    await expect(page.locator(".entry").nth(2)).to_contain_text("lin@example.org")


@pytest.mark.parametrize("path", ["/inbox", "/"])
async def test_lists_lead_to_where_entries_are_left_out(house: House, page: Page, path: str) -> None:
    """A small plan is approved or denied in the list; its boxes are on its page."""
    row = propose(house, stage(house, [a_change(a_file(f"notes/{n}.md", after="# Note\n")) for n in range(2)]))
    await visit(house, page, path)
    await page.get_by_role("link", name="Leave some out").click()
    await expect(page).to_have_url(re.compile(f"/inbox/{row['approval_id']}$"))
    await expect(page.locator("input[name=leave]").first).to_be_visible()


async def test_leaving_one_out_takes_along_what_touches_the_same(house: House, page: Page) -> None:
    """Said at once, and sent as an edit of exactly what is left, with the digest of that tree."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    await visit(house, page, f"/inbox/{row['approval_id']}")
    boxes = page.locator("input[name=leave]")
    await boxes.nth(1).check()
    await expect(boxes.nth(2)).to_be_checked()
    await expect(page.locator(".closure")).to_have_text("2 left out; 1 more that touch the same were left out too")
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator(".badge.approved").first).to_be_visible()
    (claims,) = house.approvers.claims
    kept = [calls[0], *calls[3:]]
    assert ("edit", row["digest"]) == (claims.verb, claims.digest)
    assert canonical_text(commit_arguments(kept)) == claims.arguments


async def test_without_scripts_what_goes_along_is_said_before_anything_is_decided(
    house: House, browser: Browser
) -> None:
    """The page comes again with more marked; sent once more, it counts."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    page = await signed_in(house, browser, java_script_enabled=False)
    await page.goto(f"{house.gateways[0].url}/inbox/{row['approval_id']}")
    await page.locator("input[name=leave]").nth(1).check()
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("marked now (entries: 1)")
    assert [] == house.approvers.claims
    await expect(page.locator("input[name=leave]").nth(2)).to_be_checked()
    await page.get_by_role("button", name="Approve", exact=True).click()
    assert [canonical_text(commit_arguments([calls[0], *calls[3:]]))] == [
        claims.arguments for claims in house.approvers.claims
    ]


async def test_nothing_left_is_no_approval(house: House, page: Page) -> None:
    """Who leaves everything out is told to deny; what they marked stays so."""
    row = propose(house, stage(house, [a_staged_call("refund", "Refund 12 EUR", {"amount": 12})]))
    await page.goto(f"{house.gateways[0].url}/inbox/{row['approval_id']}")
    await page.locator("input[name=leave]").check()
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("Nothing would be left.")
    await expect(page.locator("input[name=leave]")).to_be_checked()
    assert [] == house.approvers.claims


async def test_a_second_tab_and_somebody_else_s_decision_rest_the_buttons(house: House, browser: Browser) -> None:
    """Two tabs show one commit: decided in one, the other says so and can decide nothing."""
    row = propose(house, stage(house, a_busy_turn(1)))
    path = f"/inbox/{row['approval_id']}"
    first = await signed_in(house, browser)
    second = await first.context.new_page()
    for tab in (first, second):
        await visit(house, tab, path)
    await first.get_by_role("button", name="Deny and discard").click()
    await expect(first.locator(".badge.denied").first).to_be_visible()
    await house.append(CONVERSATION, ("approval", {"approval_id": row["approval_id"], "state": "denied"}))
    await expect(second.locator(".panel .badge").first).to_have_text("denied")
    await expect(second.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


async def test_the_end_of_a_commit_is_told_entry_by_entry(house: House, page: Page) -> None:
    """Committed, run, failed with its error, or left out: each line says it, and so does the sum."""
    calls = stage(house, a_busy_turn(0), state="partly_committed", waiting=0)
    kept = calls[:-1]
    row = propose(house, kept, state="approved", decided_by="person:ada", closed_at="2026-11-23T12:00:00Z")
    original = canonical_text(commit_arguments(calls))
    house.query(
        "UPDATE read.approvals SET edited = %s::jsonb",
        canonical_text({"proposed": original, "proposed_digest": "a" * 64}),
    )
    house.query("UPDATE read.workspace_entries SET state = 'committed' WHERE kind = 'change'")
    sql = "UPDATE read.workspace_entries SET state = %s, error = %s WHERE call_id = %s"
    house.query(sql, "failed", "The mail server said no.", calls[-2])
    house.query(sql, "left_out", "", calls[-1])
    done = {"call_id": row["call_id"], "turn_id": "t", "tool": "commit_changes", "status": "error", "kind": "failed"}
    data = {"state": "partly_committed", "entries": []}
    await house.append(CONVERSATION, ("tool_call", {**done, "data": data, "error": "", "ui_blocks": []}))
    await visit(house, page, f"/inbox/{row['approval_id']}")
    await expect(page.locator(".outcome-of")).to_contain_text("4 committed, 1 left out, 1 failed")
    await expect(page.locator(".entry .badge")).to_have_text(["committed"] * 4 + ["failed"])
    await expect(page.locator(".entry").nth(4)).to_contain_text("The mail server said no.")
    await expect(page.locator(".left-out")).to_contain_text("Left out: 1")


async def test_the_chat_s_card_leaves_out_too(house: House, page: Page) -> None:
    """Where the conversation is, its commit is decided as on its page."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    names = ("approval_id", "call_id", "turn_id", "summary", "tool", "digest", "state")
    await house.append(CONVERSATION, ("approval", {name: row[name] for name in names}))
    await visit(house, page, f"/?conversation={CONVERSATION}")
    card = page.locator(".feed .card")
    await card.locator("input[name=leave]").last.check()
    await card.get_by_role("button", name="Approve", exact=True).click()
    await expect(card.locator(".badge.approved")).to_be_visible()
    assert [canonical_text(commit_arguments(calls[:-1]))] == [claims.arguments for claims in house.approvers.claims]


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is fetched by `make setup`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_commits_are_for_everybody(house: House, browser: Browser, scheme: str) -> None:
    """Axe-core knows no fault of list and page, a diff open and an entry left out; nothing scrolls sideways."""
    row = propose(house, stage(house, a_busy_turn(2)))
    page = await signed_in(house, browser, color_scheme=scheme, viewport={"width": 390, "height": 844})
    found, wide = {}, []
    for path in ("/inbox", f"/inbox/{row['approval_id']}"):
        await page.goto(f"{house.gateways[0].url}{path}")
        if path != "/inbox":
            await page.locator("details.file summary").first.click()
            await expect(page.locator(".diff-lines")).to_be_visible()
            await page.locator("input[name=leave]").first.check()
        found[path] = await faults_of(page)
        wide.append(await page.evaluate("document.documentElement.scrollWidth"))
    assert ({}, [390, 390]) == ({name: faults for name, faults in found.items() if faults}, wide)


@pytest.mark.parametrize(
    ("kind", "outcome", "says"),
    [("failed", "failed", "failed"), ("denied", "left_out", "left out"), ("cancelled", "discarded", "discarded")],
)
async def test_the_chat_tells_what_is_staged_and_what_became_of_it(
    house: House, page: Page, kind: str, outcome: str, says: str
) -> None:
    """A staged call is not done; its end takes the place of that, and the commit lists every entry."""
    call = {"call_id": "c1", "turn_id": "t", "tool": "send_mail"}
    commit = {"call_id": "c2", "turn_id": "t", "tool": "commit_changes"}
    nothing = {"error": "", "ui_blocks": []}
    staged = {"kind": "staged", "status": "success", "data": {"summary": "Send a mail"}} | nothing
    await house.append(
        CONVERSATION,
        ("tool_call", {**call, "arguments": {"to": "lin"}, "status": "proposed"}),
        ("tool_call", {**call, **staged}),
    )
    await visit(house, page, f"/?conversation={CONVERSATION}")
    mail = page.locator(".tool").first
    await expect(mail.locator(".badge").first).to_have_text("staged")
    entries = [
        {"call_id": "c1", "tool": "send_mail", "outcome": "failed", "summary": "Send a mail", "error": "No server."},
        {"call_id": "c0", "tool": "write_file", "outcome": "committed", "summary": "Create a.md", "error": ""},
    ]
    ended: dict[str, Any] = {"kind": kind, "outcome": outcome, "status": "error", "data": None, "error": "No server."}
    done = {"kind": "failed", "status": "error", "data": {"state": "partly_committed", "entries": entries}} | nothing
    await house.append(
        CONVERSATION,
        ("tool_call", {**commit, "arguments": {"entries": ["c1", "c0"]}, "status": "proposed"}),
        ("tool_call", {**call, **ended, "ui_blocks": []}),
        ("tool_call", {**commit, **done}),
    )
    await expect(mail.locator(".badge").first).to_have_text(says)
    await mail.locator("summary").click()
    await expect(mail.locator("pre")).to_have_text(
        ['{\n "to": "lin"\n}', '{\n "summary": "Send a mail"\n}', "No server."]
    )
    await page.locator(".tool").last.locator("summary").click()
    await expect(page.locator(".ended-entries li")).to_have_text(
        ["failed Send a mail No server.", "committed Create a.md"]
    )
