"""The pages in their reader's language: the directory's word, else the browser's, else English."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, expect

from placet.contracts.permit import MAY_HAVE_RUN
from placet.executor.rules import LOST_TEXT
from placet.gateway.web.render import set_up_was_run
from tests.integration.gateway.test_inbox_page import Form, signed_in
from tests.integration.gateway.test_operators import handed_over, spoken_in
from tests.support.gateway import Everybody, House, open_house
from tests.support.inbox_scene import DIRECTORY, furnish, hold

pytestmark = pytest.mark.timeout(180)

GERMAN, TURKISH = {"accept-language": "de-AT,de;q=0.9,en;q=0.5"}, {"accept-language": "tr"}


@pytest.fixture
def everybody() -> Everybody:
    """Who is who."""
    return Everybody(DIRECTORY)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path, everybody: Everybody) -> AsyncIterator[House]:
    """One running gateway that knows people and groups."""
    async with open_house(gateway_database_url, tmp_path, directory=everybody) as made:
        yield made


@pytest.fixture
async def browser(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which ada is signed in, who may do everything."""
    async with signed_in(house, "ada", "chat", "decide", "operate") as made:
        yield made


def language_of_page(page: httpx.Response) -> str:
    """Return the language that a page says it is in."""
    found = re.search(r'<html lang="([^"]*)"', page.text)
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("state", "kind", "error", "expected"),
    [
        (
            {"state": "denied", "decided_by": "person:grace", "decision_reason": "too much"},
            "denied",
            'The call did not run: a person denied it and said: "too much".',
            "Nicht ausgeführt: Grace hat abgelehnt. “too much”",
        ),
        ({"state": "approved"}, "unknown", LOST_TEXT, "bevor er das Ergebnis melden konnte. Vielleicht ist es"),
        ({"state": "approved"}, "unknown", f"Timed out. {MAY_HAVE_RUN}", "Timed out. Vielleicht ist es geschehen"),
    ],
)
async def test_a_page_says_in_its_language_how_a_call_ended(
    house: House, browser: httpx.AsyncClient, state: dict[str, str], kind: str, error: str, expected: str
) -> None:
    """Not in the words that its model was told; what is a tool's own stays as it is."""
    row = hold(house, "ask", "Ask?", {}, **state, closed_at=datetime.now(UTC))
    place = {name: row[name] for name in ("conversation_id", "call_id")}
    done = {**place, "tool": "ask", "status": "error", "kind": kind, "data": None, "error": error, "ui_blocks": []}
    await house.append(row["conversation_id"], ("tool_call", done))
    page = await browser.get(f"/inbox/{row['approval_id']}", headers=GERMAN)
    said = page.text.partition('id="h-outcome"')[2].partition("</section>")[0]
    assert (True, False) == (expected in said, "a person" in said)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (
            GERMAN,
            (
                "de",
                ["Von mir zu entscheiden", "für lin", "1 von 2 Freigaben: Grace", "Grace kümmert sich", "in 24 Min."],
            ),
        ),
        (
            TURKISH,
            ("tr", ["Kararımı bekleyenler", "isteyen: lin", "1/2 onay: Grace", "Grace ilgileniyor", "24 dk. sonra"]),
        ),
        ({}, ("en", ["Needs my decision", "for lin", "1 of 2 approvals: Grace", "Grace is on it", "in 24 min"])),
        ({"accept-language": "fi"}, ("en", ["Needs my decision"])),
    ],
)
async def test_the_inbox_speaks_the_browser_s_language(
    house: House, browser: httpx.AsyncClient, wish: dict[str, str], expected: tuple[str, list[str]]
) -> None:
    """Words, times and numbers of votes; what nobody here speaks is English."""
    furnish(house)
    page = await browser.get("/inbox", headers=wish)
    language, texts = expected
    assert (language, []) == (language_of_page(page), [text for text in texts if text not in page.text])


async def test_the_directory_s_word_goes_before_the_browser_s(browser: httpx.AsyncClient, everybody: Everybody) -> None:
    """Who is down as Turkish is spoken to in Turkish on every device, also of what goes wrong."""
    ada = replace(DIRECTORY.people["ada"], language="tr")
    everybody.now = replace(DIRECTORY, people={**DIRECTORY.people, "ada": ada})
    page, missing = [await browser.get(path, headers=GERMAN) for path in ("/inbox", "/inbox/nothing-there")]
    assert ["tr", "tr"] == [language_of_page(page), language_of_page(missing)]
    assert (404, True) == (missing.status_code, "Böyle bir onay yok." in missing.text)


@pytest.mark.parametrize(
    ("wish", "texts"),
    [
        (
            GERMAN,
            [
                "Was ausgeführt wird",
                "Warum er zurückgehalten wurde",
                "Läuft ab",
                "2 Freigaben; 1 Ablehnung",
                "</strong> hat freigegeben",
            ],
        ),
        (TURKISH, ["Çalıştırılacak olan", "Neden bekletildi", "Süre sonu", "2 onay; 1 ret", "</strong> onayladı"]),
        ({}, ["What will run", "Why it was held", "Expires", "2 approvals; 1 denial", "</strong> approved"]),
    ],
)
async def test_an_approval_s_page_speaks_it(
    house: House, browser: httpx.AsyncClient, wish: dict[str, str], texts: list[str]
) -> None:
    """The whole story, its forms among it."""
    row = furnish(house)["refund"]
    page = await browser.get(f"/inbox/{row['approval_id']}", headers=wish)
    assert [] == [text for text in texts if text not in page.text]


async def test_a_card_that_changed_is_refused_in_it(house: House, browser: httpx.AsyncClient) -> None:
    """Whoever decides what is not there any more reads why in their language."""
    path = f"/inbox/{furnish(house)['mail']['approval_id']}"
    fields = Form(path, (await browser.get(path)).text).fields
    house.query("UPDATE read.approvals SET digest = %s", "f" * 64)
    page = await browser.post(path, data=fields | {"decision": "approve"}, headers=GERMAN)
    assert (409, True) == (page.status_code, "Nichts wurde entschieden." in page.text)


async def test_a_batch_tells_its_outcomes_in_it(house: House, browser: httpx.AsyncClient) -> None:
    """What is decided by itself says why."""
    row = furnish(house)["deploy"]
    inbox = await browser.get("/inbox", headers=GERMAN)
    fields = Form("/inbox/decisions", inbox.text).fields | {
        "item": f"{row['approval_id']}.{row['digest']}.{row['revision']}",
        "decision": "approve",
    }
    page = await browser.post("/inbox/decisions", data=fields, headers=GERMAN)
    assert "Nicht entschieden: er führt Code aus, darum wird einzeln entschieden." in page.text
    assert "0 von 1 entschieden" in page.text


@pytest.mark.parametrize(
    ("path", "german", "turkish"),
    [
        ("/sign-in", "API-Schlüssel", "API anahtarı"),
        ("/", "Was kann ich für Sie tun?", "Sizin için ne yapabilirim?"),
        ("/ui/approvals", "Nichts wartet auf Sie.", "Kararınızı bekleyen bir şey yok."),
        ("/ui/conversations", "Neue Unterhaltung", "Yeni görüşme"),
        ("/operator", "Keine Unterhaltung braucht gerade Betreuung.", "Yetkili bekleyen görüşme yok."),
        (
            "/inbox?older_than=x",
            "So lässt sich nicht suchen: Alter.",
            "Bu arama yapılamıyor: Yaş.",
        ),
    ],
)
async def test_every_page_speaks_it(browser: httpx.AsyncClient, path: str, german: str, turkish: str) -> None:
    """The door, the chat and its parts, the operators' list, and what a filter cannot mean."""
    pages = [(await browser.get(path, headers=wish)).text for wish in (GERMAN, TURKISH)]
    assert [True, True] == [text in page for text, page in zip((german, turkish), pages, strict=True)]


async def test_an_operator_reads_it_too(house: House, browser: httpx.AsyncClient) -> None:
    """One conversation, with who answers in it."""
    conversation, _ = await spoken_in(house)
    await house.deliver(handed_over(conversation))
    pages = [(await browser.get(f"/operator/{conversation}", headers=wish)).text for wish in (GERMAN, TURKISH)]
    for page, texts in zip(
        pages, (("wartet auf Betreuung", "Übernehmen"), ("yetkili bekliyor", "Devral")), strict=True
    ):
        assert [] == [text for text in texts if text not in page]


async def test_what_a_key_may_not_is_told_in_it(house: House) -> None:
    """With the scope that it lacks."""
    async with signed_in(house, "lin", "chat") as browser:
        page = await browser.get("/inbox", headers=GERMAN)
    assert (403, True) == (page.status_code, "Dafür braucht es die Berechtigung decide." in page.text)


async def test_a_wrong_key_is_refused_in_it(house: House) -> None:
    """Nobody is known there yet: the browser's word counts."""
    url = house.gateways[0].url
    async with httpx.AsyncClient(base_url=url, headers={"origin": url, **GERMAN}) as stranger:
        page = await stranger.post("/sign-in", data={"key": "nothing"})
    assert (401, "de", True) == (
        page.status_code,
        language_of_page(page),
        "Dieser API-Schlüssel ist ungültig." in page.text,
    )


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("de-DE", ("1 ausgewählt", "in 24 Min.", "vor 1 Stunde", "(5) Eingang · Placet")),
        ("tr-TR", ("1 seçildi", "24 dk. sonra", "1 saat önce", "(5) Gelen kutusu · Placet")),
    ],
)
async def test_its_scripts_speak_it_and_nothing_is_cut_off_on_a_phone(
    house: House, module_browser: Browser, language: str, words: tuple[str, str, str, str]
) -> None:
    """What scripts write is in the page's language; words that are longer than English ones find their room."""
    row, chosen = furnish(house)["refund"], ".item input[name=item]"
    context = await module_browser.new_context(locale=language, viewport={"width": 390, "height": 780})
    url = house.gateways[0].url
    key: dict[str, str | float | bool] = {"key": house.key("chat", "decide")}
    await context.request.post(f"{url}/sign-in", form=key, headers={"origin": url}, max_redirects=0)
    page = await context.new_page()
    await page.goto(f"{url}/inbox")
    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    await page.locator(chosen).first.check()
    card = page.locator(f"#item-{row['approval_id']}")
    await expect(page.locator("#chosen")).to_have_text(words[0])
    await expect(card.locator("time[data-due]")).to_have_text(words[1])
    await expect(card.locator("time[data-ago]")).to_have_text(words[2])
    await expect(page).to_have_title(words[3])
    widths = [await page.evaluate("document.documentElement.scrollWidth")]
    for path in (f"/inbox/{row['approval_id']}", "/", "/sign-in"):
        await page.goto(f"{url}{path}")
        widths.append(await page.evaluate("document.documentElement.scrollWidth"))
    await context.close()
    assert [390] * 4 == widths
