"""The page in a real browser: chat, cards, decisions, and nothing that runs what it should only show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalOpened,
    ConversationDelta,
    ConversationEnded,
    HolderChanged,
    StopTurn,
    ToolCall,
    ToolCallFinished,
    ToolCallProgressed,
)
from placet.domain.directory import Directory, Person
from placet.gateway.web.render import set_up_was_run
from placet.tools.ui_blocks import StagedDiffBlock
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.gateway import House, an_approval_row, insert, open_house, said, tool_call, turn

pytestmark = pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture
async def page(house: House, browser: Browser) -> AsyncIterator[Page]:
    """A browser, signed in; anything that its console complains about fails the test."""
    complaints: list[str] = []
    made = await browser.new_page(locale="en-GB")
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    url = house.gateways[0].url
    await made.goto(url)
    await made.get_by_label("API key").fill(house.key("chat", "decide"))
    await made.get_by_role("button", name="Sign in").click()
    await expect(made.locator("#connection")).to_have_text("live")
    yield made
    assert [] == complaints


async def say(page: Page, text: str) -> str:
    """Write a message; return the conversation's id."""
    await page.get_by_placeholder("Write a message").fill(text)
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".said.by-me", has_text=text)).to_be_visible()
    return page.url.split("conversation=")[1]


async def hold(house: House, conversation: str, **changes: Any) -> tuple[ToolCall, str]:
    """Let a call wait for people; return it with its approval's id."""
    call = a_call(conversation_id=conversation, requester="person:ada", **changes)
    row = an_approval_row(call)
    insert(house.url, "approvals", **row)
    opened = {name: row[name] for name in ("approval_id", "revision", "summary", "rule", "reason", "expires_at")}
    await house.append(conversation, tool_call(call))
    await house.deliver(ApprovalOpened(tenant="acme", call=call, approval=an_approval_rule(), **opened))
    return call, row["approval_id"]


async def closed(house: House, call: ToolCall, approval_id: str) -> None:
    """Tell that the approval is over, as the approval service would."""
    over = {"revision": 2, "conversation_id": call.conversation_id, "call_id": call.call_id}
    await house.deliver(
        ApprovalClosed(
            tenant="acme",
            approval_id=approval_id,
            state="approved",
            closed_at=datetime.now(UTC),
            **over,
        )
    )


async def test_a_person_sees_the_main_job(house: House, page: Page) -> None:
    """A message, a card with its arguments, an approval with a reason, and the result, without a reload."""
    conversation = await say(page, "a payment link over 299 TRY")
    call, approval_id = await hold(house, conversation)
    card = page.locator(f"#pane-{approval_id}")
    await expect(card.locator(".arguments > div", has_text="amount")).to_contain_text("299")
    await expect(card.locator(".expiry")).to_contain_text("expires in 59:")
    await expect(page.locator(".tool .badge")).to_have_text("waiting for approval")
    await card.get_by_label("Reason").fill("looks right")
    await card.get_by_role("button", name="Approve", exact=True).click()
    await expect(card.locator(".badge")).to_have_text("approved")
    await closed(house, call, approval_id)
    await house.deliver(
        ToolCallFinished(
            tenant="acme",
            conversation_id=conversation,
            call_id=call.call_id,
            tool=call.tool,
            kind="succeeded",
            attempt=1,
            started_at=NOON,
            finished_at=NOON,
            ui_blocks=[{"type": "payment_link", "url": "https://pay.example/1", "amount": 299, "currency": "TRY"}],
        )
    )
    await expect(page.locator("a.pay")).to_have_attribute("href", "https://pay.example/1")
    await expect(page.locator(".tool .badge")).to_have_text("done")
    await expect(page.locator(f"#chat-{approval_id} .badge")).to_have_text("approved")
    await expect(page.locator("#waiting")).to_contain_text("Nothing needs your decision.")
    (claims,) = house.approvers.claims
    assert ("approve", "looks right", 1, "person:ada") == (claims.verb, claims.reason, claims.revision, claims.person)


async def test_a_card_stays_after_a_reload_with_its_state(house: House, page: Page) -> None:
    """B4: the history shows the card, decided, and offers no buttons."""
    conversation = await say(page, "a payment link")
    call, approval_id = await hold(house, conversation)
    await page.locator(f"#chat-{approval_id}").get_by_role("button", name="Deny", exact=True).click()
    await expect(page.locator(f"#chat-{approval_id} .badge")).to_have_text("denied")
    await closed(house, call, approval_id)
    await page.reload()
    card = page.locator(f"#chat-{approval_id}")
    await expect(card.locator(".badge")).to_have_text("denied")
    await expect(card.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


async def test_a_second_click_is_told_who_was_first(house: House, page: Page) -> None:
    """A card that somebody else decided meanwhile says who, in its place."""
    conversation = await say(page, "a payment link")
    _, approval_id = await hold(house, conversation)
    button = page.locator(f"#pane-{approval_id}").get_by_role("button", name="Approve", exact=True)
    await expect(button).to_be_visible()

    async def decide_first(route: Route) -> None:
        """Delegate to someone else when the click is on its way."""
        house.query("UPDATE read.approvals SET state = 'denied', decided_by = 'person:grace', closed_at = now()")
        await route.continue_()

    await page.route("**/approvals/*/decision*", decide_first)
    await button.click()
    await expect(page.locator(f"#pane-{approval_id} .notice")).to_contain_text("Decided by grace")


async def test_whoever_decides_by_keyboard_stays_among_the_cards(house: House, page: Page) -> None:
    """The pressed button goes with its card: the decided card has the focus, then the next, then the heading."""
    conversation = await say(page, "two payment links")
    first, one = await hold(house, conversation)
    await expect(page.locator(f"#pane-{one}")).to_be_visible()
    second, other = await hold(house, conversation, tool="deploy")
    for call, approval_id, then in ((second, other, f"#pane-{one}"), (first, one, "#pane > summary")):
        await page.locator(f"#pane-{approval_id}").get_by_role("button", name="Deny", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(page.locator(f"#pane-{approval_id}.denied")).to_be_focused()
        await closed(house, call, approval_id)
        await expect(page.locator(f"#pane-{approval_id}")).to_have_count(0)
        await expect(page.locator(then)).to_be_focused()


async def test_a_reason_half_written_survives_a_new_card(house: House, page: Page) -> None:
    """Cards that arrive do not disturb who is writing."""
    conversation = await say(page, "a payment link")
    _, first = await hold(house, conversation)
    await page.locator(f"#pane-{first}").get_by_label("Reason").fill("half a th")
    _, second = await hold(house, conversation, tool="deploy")
    await expect(page.locator(f"#pane-{second}")).to_be_visible()
    await expect(page.locator(f"#pane-{first}").get_by_label("Reason")).to_have_value("half a th")


async def test_a_reason_that_was_not_counted_stays(house: House, page: Page) -> None:
    """The card is drawn anew, because it is another revision's by now, and has what was typed."""
    conversation = await say(page, "a payment link")
    _, approval_id = await hold(house, conversation)
    card = page.locator(f"#pane-{approval_id}")
    await card.get_by_label("Reason").fill("half a th")
    house.approvers.outcome = "stale"
    await card.get_by_role("button", name="Deny", exact=True).click()
    await expect(card.locator(".notice")).to_be_visible()
    await expect(card.get_by_label("Reason")).to_have_value("half a th")


@pytest.mark.parametrize("width", [360, 1440])
async def test_a_long_word_that_was_decided_leaves_the_buttons_in_sight(house: House, page: Page, width: int) -> None:
    """What was decided wraps within the pane, whose other cards stay as wide as it is."""
    conversation = await say(page, "a payment link")
    await hold(house, conversation)
    call = a_call(conversation_id=conversation, requester="person:ada")
    over = {"state": "denied", "closed_at": datetime.now(UTC), "summary": f"Open https://shop.example/{'a' * 110}?"}
    insert(house.url, "approvals", **an_approval_row(call, **over))
    await page.set_viewport_size({"width": width, "height": 900})
    await page.reload()
    await expect(page.locator("#connection")).to_have_text("live")
    await page.evaluate("document.getElementById('pane').open = true")
    await expect(page.locator(".recent li")).to_have_count(1)
    button = page.locator("#waiting button.approve")
    await expect(button).to_be_visible()
    assert await button.evaluate("each => each.getBoundingClientRect().right <= innerWidth")


@pytest.mark.parametrize("pressed", ["", "Enter"])
async def test_a_message_half_written_outlives_the_session(house: House, browser: Browser, pressed: str) -> None:
    """Whether the page went by itself or Send was pressed, it is there after signing in, and gone once it is sent."""
    page = await browser.new_page(locale="en-GB")
    await page.goto(house.gateways[0].url)
    key, sign_in, box = page.get_by_label("API key"), page.get_by_role("button", name="Sign in"), page.locator("#text")
    await key.fill(house.key("chat", "decide"))
    await sign_in.click()
    conversation = await say(page, "hello")
    await box.fill("half a mess")
    await page.context.clear_cookies()
    if pressed:
        await box.press(pressed)
    else:
        await page.locator("#waiting").dispatch_event("refresh")
    await expect(page.get_by_text("Nothing was sent")).to_have_count(1 if pressed else 0)
    await key.fill(house.key("chat", "decide"))
    await sign_in.click()
    await expect(box).to_have_value("half a mess")
    assert conversation == await say(page, "half a message")
    await page.reload()
    await expect(page.locator("#connection")).to_have_text("live")
    await expect(box).to_have_value("")


async def test_text_streams_and_becomes_the_message(house: House, page: Page) -> None:
    """E3, B3: pieces show as they come and the whole replaces them; what is said while a call waits is folded away."""
    conversation = await say(page, "hello")
    of_turn = {"tenant": "acme", "conversation_id": conversation, "turn_id": "turn-1", "step": 1}
    piece = {**of_turn, "message_id": "a-1"}
    await house.deliver(
        ConversationDelta(**piece, offset=0, text="Hel"), ConversationDelta(**piece, offset=3, text="lo")
    )
    await expect(page.locator(".writing")).to_have_text("Hello")
    await house.append(conversation, said("a-1", "Hello, Ada.", "turn-1"))
    await expect(page.locator(".said.by-agent .text")).to_have_text("Hello, Ada.")
    await expect(page.locator(".writing")).to_have_count(0)
    await hold(house, conversation)
    behind = {**of_turn, "message_id": "a-2", "offset": 0}
    await house.deliver(ConversationDelta(**behind, text="One more word."))
    await expect(page.locator(".writing")).to_have_text("One more word.")
    await house.deliver(ConversationDelta(**behind, text="Please", while_waiting=True))
    await expect(page.locator(".writing")).to_have_text("One more word.")
    await house.append(conversation, said("a-2", "Please confirm!", "turn-1", step=2, while_waiting=True))
    await expect(page.locator(".muted summary")).to_be_visible()
    await expect(page.get_by_text("Please confirm!")).to_be_hidden()


async def test_a_running_call_shows_how_far_it_is(house: House, page: Page) -> None:
    """A bar and the tool's words, kept after a reload; gone with the result, which a late report does not take back."""
    conversation = await say(page, "roll it out")
    call = a_call(conversation_id=conversation, requester="person:ada")
    await house.append(conversation, tool_call(call))
    told = {"tenant": "acme", "conversation_id": conversation, "call_id": call.call_id, "tool": call.tool, "attempt": 1}
    await house.deliver(ToolCallProgressed(**told, text="looking around"))
    await expect(page.locator(".progress p")).to_have_text("looking around")
    await house.deliver(ToolCallProgressed(**told, fraction=0.42, text=EVIL))
    await expect(page.locator(".progress p")).to_have_text(f"42 % · {EVIL}")
    await expect(page.locator(".progress progress")).to_have_js_property("value", 0.42)
    await page.reload()
    await expect(page.locator(".progress p")).to_have_text(f"42 % · {EVIL}")
    await house.deliver(ToolCallFinished(**told, kind="succeeded", started_at=NOON, finished_at=NOON))
    await expect(page.locator(".tool .badge")).to_have_text("done")
    await expect(page.locator(".progress")).to_have_count(0)
    await house.deliver(ToolCallProgressed(**told, fraction=0.9))
    await house.append(conversation, tool_call(a_call(call_id="later", conversation_id=conversation)))
    await expect(page.locator(".tool")).to_have_count(2)
    await expect(page.locator(".progress")).to_have_count(0)


async def test_a_staged_difference_is_read_with_and_without_colours(house: House, page: Page) -> None:
    """Signs for eyes, words for ears, and lines from outside are no markup."""
    conversation = await say(page, "change it")
    call = a_call(conversation_id=conversation, requester="person:ada")
    await house.append(conversation, tool_call(call))
    block = StagedDiffBlock.of("etc/app.conf", f"a\n{EVIL}\nz", "a\nnew\nz").model_dump(mode="json")
    told = {"tenant": "acme", "conversation_id": conversation, "call_id": call.call_id, "tool": call.tool, "attempt": 1}
    ended = {"started_at": NOON, "finished_at": NOON}
    await house.deliver(ToolCallFinished(**told, kind="succeeded", ui_blocks=[block], **ended))
    lines = page.locator(".diff li")
    await expect(page.locator(".diff figcaption")).to_have_text("etc/app.conf")
    await expect(lines).to_have_text([" a", f"\u2212removed: {EVIL}", "+added: new", " z"])
    await expect(page.get_by_role("insertion")).to_have_text("new")
    assert "owned" != await page.title()


async def test_a_text_that_is_too_long_is_neither_cut_nor_sent(house: House, page: Page) -> None:
    """The page says so while it is written; what is not too long any more goes out whole."""
    box, fault = page.get_by_placeholder("Write a message"), page.locator("#fault")
    await box.fill("é" * 32_001)
    await expect(fault).to_have_text("At most 32,000 characters: 1 too many.")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".said")).to_have_count(0)
    assert 32_001 == len(await box.input_value())
    await box.fill("😀" * 32_000)
    await expect(fault).to_be_hidden()
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".said.by-me")).to_have_text("😀" * 32_000)


async def test_an_ended_conversation_says_so_and_takes_no_more(house: House, page: Page) -> None:
    """At once and after a reload; what was being written is not sent, and not lost."""
    conversation = await say(page, "that is all")
    box = page.get_by_role("textbox", name="Message")
    await box.fill("one more thing")
    place = {"tenant": "acme", "conversation_id": conversation}
    await house.deliver(ConversationEnded(**place, by="person:ada"))
    await expect(page.locator("#feed .muted")).to_have_text("The conversation has ended.")
    await expect(page.get_by_role("button", name="Send")).to_be_hidden()
    await box.press("Enter")
    await expect(box).to_have_value("one more thing")
    await page.reload()
    await expect(box).to_have_attribute("readonly", "")
    await expect(box).to_have_attribute("placeholder", "The conversation has ended.")
    await expect(page.locator(".said")).to_have_count(1)


async def test_an_answer_stands_where_the_feed_has_it(house: House, page: Page) -> None:
    """What came while it was written is above it, as it is after a reload."""
    conversation = await say(page, "a person, please")
    of_turn = {"tenant": "acme", "conversation_id": conversation, "turn_id": "t", "step": 1}
    await house.deliver(ConversationDelta(**of_turn, message_id="a-1", offset=0, text="I have"))
    await expect(page.locator(".writing")).to_have_text("I have")
    awaited = {"holder": "waiting", "event": "escalated", "revision": 1, "by": "call"}
    place = {"tenant": "acme", "conversation_id": conversation}
    await house.deliver(HolderChanged(**place, **awaited, text="A person has been asked to join."))
    await expect(page.get_by_text("asked to join")).to_be_visible()
    await house.append(conversation, said("a-1", "I have asked somebody."))
    told = ["a person, please", "A person has been asked to join.", "I have asked somebody."]
    shown = page.locator("#feed > .said, #feed > .muted")
    await expect(shown).to_contain_text(told)
    await page.reload()
    await expect(shown).to_contain_text(told)


async def test_an_approved_call_says_that_it_runs(house: House, page: Page) -> None:
    """The badge is never behind the card: waiting, approved, running, done; also where news change places."""
    conversation = await say(page, "roll it out")
    place = {"tenant": "acme", "conversation_id": conversation}
    call, approval_id = await hold(house, conversation)
    await house.append(conversation, turn("started", call.turn_id, message_id="m"))
    badge, status = page.locator(".tool .badge"), page.locator(".thinking")
    await expect(badge).to_have_text("waiting for approval")
    await closed(house, call, approval_id)
    await expect(badge).to_have_text("approved")
    told = {**place, "call_id": call.call_id, "tool": call.tool, "attempt": 1}
    await house.deliver(ToolCallProgressed(**told))
    await expect(badge).to_have_text("running")
    await expect(status).to_have_text("running")
    await expect(page.locator(".progress")).to_have_count(0)
    await closed(house, call, approval_id)
    await page.reload()
    await expect(badge).to_have_text("running")
    await house.deliver(ToolCallFinished(**told, kind="succeeded", started_at=NOON, finished_at=NOON))
    await expect(badge).to_have_text("done")
    await expect(status).to_have_text("thinking")


async def test_nothing_from_outside_is_markup(house: House, page: Page) -> None:
    """Texts, arguments, summaries, results and blocks are shown as they are written, and a script link is no link."""
    conversation = await say(page, EVIL)
    call, approval_id = await hold(house, conversation, arguments={EVIL: EVIL})
    house.query("UPDATE read.approvals SET summary = %s, reason = %s, requester = %s", EVIL, EVIL, EVIL)
    await house.deliver(
        ToolCallFinished(
            tenant="acme",
            conversation_id=conversation,
            call_id=call.call_id,
            tool=call.tool,
            kind="succeeded",
            data={"html": EVIL},
            attempt=1,
            started_at=NOON,
            finished_at=NOON,
            ui_blocks=[
                {"type": "notice", "text": EVIL},
                {"type": "payment_link", "url": "javascript:document.title='owned'", "amount": 1, "currency": "TRY"},
                {"type": "product_carousel", "products": [{"id": EVIL, "name": EVIL, "price": 1, "currency": EVIL}]},
                {"type": EVIL},
            ],
        )
    )
    await expect(page.locator(".blocks .block", has_text="onerror").first).to_be_visible()
    await page.reload()
    await expect(page.locator(f"#pane-{approval_id} .summary")).to_have_text(EVIL)
    await expect(page).to_have_title("(1) Placet")
    assert (0, 0) == (await page.locator("a.pay").count(), await page.locator("img[src=x]").count())


async def test_hidden_characters_of_arguments_are_shown_as_code_points(house: House, page: Page) -> None:
    """What would turn the text around or print nothing stands on the card and in the chat for all to see."""
    conversation = await say(page, "hello")
    _, approval_id = await hold(house, conversation, arguments={"to\u2066": "a\u202eb\u200bc", "in": {"x": "\u0007d"}})
    card = page.locator(f"#pane-{approval_id}")
    argument = card.locator(".arguments > div", has_text="to[U+2066]")
    await expect(argument.locator("dd")).to_have_text("a[U+202E]b[U+200B]c")
    await expect(card.locator(".tricks")).to_contain_text("“to[U+2066]” has invisible characters.")
    inside = page.locator(".tool .inside pre").first
    await expect(inside).to_contain_text('"to[U+2066]": "a[U+202E]b[U+200B]c"')
    assert "\n" in (await inside.text_content() or "")


async def test_the_menu_lists_what_was_just_opened(house: House, page: Page) -> None:
    """The conversations menu lists what was opened on this page, newest first."""
    await say(page, "find red shoes")
    await page.locator("#menu summary").click()
    await expect(page.locator("#recent .title")).to_have_text(["find red shoes"])


async def test_an_answer_is_read_as_markdown_and_never_as_markup(house: House, page: Page) -> None:
    """Lists, tables and code are elements; HTML stays text, no picture is fetched, a link says where it leads."""
    conversation = await say(page, "hello")
    text = (
        f"## Two things\n\n- **one**\n- `two`\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n{EVIL}\n\n"
        "![seen](https://evil.example/pixel.png) [pay](https://evil.example/x) [run](javascript:alert(1))"
    )
    await house.append(conversation, said("a1", text))
    answer = page.locator(".said.by-agent .text")
    await expect(answer.locator("h3")).to_have_text("Two things")
    assert ["one", "two"] == await answer.locator("li").all_text_contents()
    assert ["1", "2"] == await answer.locator("td").all_text_contents()
    await expect(answer.locator("td", has_text="2")).to_have_css("text-align", "right")
    await expect(answer.locator("td", has_text="1")).to_have_css("text-align", "left")
    assert 0 == await answer.locator("img, script").count()
    links = answer.locator("a")
    addresses = [await links.nth(place).get_attribute("href") for place in range(await links.count())]
    assert ["https://evil.example/pixel.png", "https://evil.example/x"] == addresses
    assert {"noopener noreferrer"} == {await links.nth(place).get_attribute("rel") for place in range(2)}
    await expect(answer).to_contain_text("pay (evil.example)")
    await expect(answer).to_contain_text("<script>")
    assert "owned" != await page.title()


async def test_an_answer_of_very_many_marks_is_shown_as_it_was_written(house: House, page: Page) -> None:
    """To look for the other end of each would freeze the page."""
    conversation = await say(page, "hello")
    text = "*a_" * 10_000
    await house.append(conversation, said("a1", text))
    await expect(page.locator(".said.by-agent p.text")).to_have_text(text)


async def test_a_running_turn_can_be_stopped_and_says_who_did(house: House, page: Page) -> None:
    """The button is there while a turn runs; what the model still writes afterwards is not shown."""
    conversation = await say(page, "hello")
    stop = page.get_by_role("button", name="Stop")
    await expect(stop).to_be_hidden()
    place = {"tenant": "acme", "conversation_id": conversation, "turn_id": "t"}
    house.query("UPDATE read.conversations SET turn_id = 't'")
    await house.append(conversation, turn("started", message_id="m"))
    await stop.click()
    while not isinstance(asked := await house.posted.get(), StopTurn):
        pass
    assert StopTurn(**place, by="person:ada") == asked
    await house.append(conversation, turn("stopped", reason="Stopped by person:ada."))
    await expect(page.locator(".ending")).to_have_text("Stopped by ada.")
    await expect(stop).to_be_hidden()
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()


async def test_a_turn_that_used_all_its_steps_says_so(house: House, page: Page) -> None:
    """Behind the answer stands why there is no more of it; a turn that just finished says nothing."""
    conversation = await say(page, "hello")
    why = "The assistant had used all its 2 steps and answered without calling more tools."
    said = {"role": "assistant", "message_id": "a1", "turn_id": "t", "text": "That is all."}
    await house.append(conversation, turn("started", message_id="m"), ("message", said))
    await house.append(conversation, turn("finished", reason=why))
    await expect(page.locator(".ending")).to_have_text(why)
    await expect(page.locator(".ending")).to_be_visible()
    await page.reload()
    await expect(page.locator(".ending")).to_have_text(why)


async def test_people_in_a_conversation_have_their_names(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """Whoever speaks in the agent's place, and whoever stopped it, is called as the directory calls them."""
    people = Directory(people={"grace": Person("grace", "Grace Hopper")})
    async with open_house(gateway_database_url, tmp_path, directory=lambda: people) as house:
        page = await browser.new_page(locale="en-GB")
        await page.goto(house.gateways[0].url)
        await page.get_by_label("API key").fill(house.key("chat", "decide"))
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("#connection")).to_have_text("live")
        conversation = await say(page, "hello")
        author = {"kind": "operator", "id": "person:grace"}
        spoken = {"role": "operator", "message_id": "o1", "text": "Two pairs.", "author": author}
        await house.append(conversation, ("message", spoken), turn("started", message_id="m"))
        await house.append(conversation, turn("stopped", reason="Stopped by person:grace."))
        await expect(page.locator(".by-operator .from")).to_have_text("Grace Hopper")
        await expect(page.locator(".ending")).to_have_text("Stopped by Grace Hopper.")
        await page.close()


async def test_an_address_that_leads_nowhere_is_a_page_for_a_browser(house: House) -> None:
    """It leads on; a program gets its problem document, and so does who asks the API."""
    browser = {"accept": "text/html,*/*;q=0.8", "accept-language": "de"}
    asked = [("/nothing", browser), ("/?conversation=nothing", browser), ("/nothing", {}), ("/v1/nothing", browser)]
    async with house.client(house.key("chat", "decide")) as client:
        answers = [await client.get(path, headers=headers) for path, headers in asked]
    kinds = [each.headers["content-type"].partition(";")[0] for each in answers]
    assert [404] * 4 == [each.status_code for each in answers]
    assert ["text/html", "text/html", "application/problem+json", "application/problem+json"] == kinds
    assert "Diese Seite gibt es nicht." in answers[0].text
