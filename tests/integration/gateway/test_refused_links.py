"""Mailed links that are refused: changed, old, guessed, foreign or too weak, they decide nothing and tell nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.gateway.approvals.links import Guesses, Seal
from tests.support.gateway import House, open_house
from tests.support.mailed_links import CODE, PEOPLE, Page, a_link, decided, waiting


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows ada and grace, and soon looks nothing up for whoever guesses."""
    settings = {"gateway_link_misses_max": 5}
    async with open_house(gateway_database_url, tmp_path, directory=lambda: PEOPLE, **settings) as made:
        yield made


async def test_a_changed_call_is_not_decided_with_an_old_link(house: House) -> None:
    """The link is bound to the digest of the call that the mail was about."""
    path = f"/l/{a_link(house.url, waiting(house), digest='f' * 64)}"
    async with house.client() as browser:
        shown = await browser.get(path)
        sent = await browser.post(path, data={"decision": "approve"})
    assert (200, 409, [], False) == (shown.status_code, sent.status_code, decided(house), "299" in shown.text)
    assert "has changed" in shown.text


async def test_a_page_shown_before_an_edit_decides_nothing(house: House) -> None:
    """The seal is of what was shown: another digest or revision in its place breaks it."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        page = Page((await browser.get(path)).text).fields | {"mail_code": CODE, "decision": "approve"}
        for name, value in (
            ("digest", "e" * 64),
            ("revision", "7"),
            ("shown_at", "1"),
            ("seal", "0" * 64),
            ("seal", "é"),
        ):
            answer = await browser.post(path, data=page | {name: value})
            assert 400 == answer.status_code
    assert [] == decided(house)


async def test_the_seal_of_one_link_is_none_for_another(house: House) -> None:
    """What one person's page has in it sends nothing through another person's link."""
    row = waiting(house)
    mine, theirs = (f"/l/{a_link(house.url, row, person)}" for person in ("person:ada", "person:grace"))
    async with house.client() as browser:
        page = Page((await browser.get(mine)).text).fields | {"mail_code": CODE}
        answer = await browser.post(theirs, data=page | {"decision": "approve"})
    assert (400, []) == (answer.status_code, decided(house))


async def test_a_rule_that_wants_more_leads_to_signing_in(house: House) -> None:
    """A link alone identifies and does not authorise: the page shows nothing of the call and takes no decision."""
    row = waiting(house, approval_rule={"min_strength": "web"})
    path = f"/l/{a_link(house.url, row)}"
    async with house.client() as browser:
        shown = await browser.get(path)
        sent = await browser.post(path, data={"decision": "approve"})
    assert (200, 403, []) == (shown.status_code, sent.status_code, decided(house))
    assert (True, False, False) == ("Sign in" in shown.text, row["summary"] in shown.text, "299" in shown.text)


async def test_a_link_of_a_strong_rule_never_tells_what_it_was_about(house: House) -> None:
    """Also when it is over, the page says only how it ended."""
    row = waiting(house, approval_rule={"min_strength": "slack"}, state="expired", closed_at=datetime.now(UTC))
    async with house.client() as browser:
        shown = await browser.get(f"/l/{a_link(house.url, row)}")
    assert (200, True, False) == (shown.status_code, "expired" in shown.text, row["summary"] in shown.text)


async def test_an_old_link_shows_nothing(house: House) -> None:
    """It says that it is too old, and no more."""
    row = waiting(house)
    path = f"/l/{a_link(house.url, row, expires_at=datetime.now(UTC) - timedelta(seconds=1))}"
    async with house.client() as browser:
        shown = await browser.get(path)
        sent = await browser.post(path, data={"decision": "approve"})
    assert (410, 410, False, []) == (shown.status_code, sent.status_code, row["summary"] in shown.text, decided(house))


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ({"state": "approved", "decided_by": "person:grace"}, "Decided by Grace."),
        ({"state": "expired"}, "It expired without a decision; nothing runs."),
    ],
    ids=lambda each: each.get("state") if isinstance(each, dict) else "",
)
async def test_an_old_link_of_a_closed_approval_says_how_it_ended(
    house: House, ended: dict[str, Any], told: str
) -> None:
    """The deadline is over as the approval is: the link tells its end, nothing of the call, and decides nothing."""
    row = waiting(house, closed_at=datetime.now(UTC), **ended)
    path = f"/l/{a_link(house.url, row, expires_at=datetime.now(UTC) - timedelta(seconds=1))}"
    async with house.client() as browser:
        shown = await browser.get(path)
        sent = await browser.post(path, data={"decision": "approve"})
    assert (200, 409, []) == (shown.status_code, sent.status_code, decided(house))
    texts = (told, "This approval is closed.", row["summary"], "your decision")
    assert [True, True, False, False] == [text in shown.text for text in texts]


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}]
)
async def test_another_site_sends_nothing(house: House, headers: dict[str, str]) -> None:
    """A form elsewhere cannot decide, even one that knows the link and the seal."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        page = Page((await browser.get(path)).text).fields | {"mail_code": CODE}
        answer = await browser.post(path, data=page | {"decision": "approve"}, headers=headers)
    assert (403, []) == (answer.status_code, decided(house))


@pytest.mark.parametrize("token", ["x", "x" * 43, "x" * 4000, "%00", "..%2F..%2Fv1", "x" * 42 + "="])
async def test_a_link_that_is_none_of_ours_says_so(house: House, token: str) -> None:
    """Whatever was cut off, guessed or made up gets the same clear page, and nothing else."""
    async with house.client() as browser:
        answers = [await browser.get(f"/l/{token}"), await browser.post(f"/l/{token}", data={"decision": "approve"})]
    assert {404} == {answer.status_code for answer in answers}
    assert [] == decided(house)


async def test_a_link_that_was_forgotten_leads_to_the_inbox(house: House) -> None:
    """Nobody can tell it from one that never was: it may be too old, and nothing says to open the same mail again."""
    async with house.client() as browser:
        shown = await browser.get(f"/l/{'x' * 43}")
    assert [True, True] == [words in shown.text for words in ("too old", "your inbox has what needs your decision")]


async def guessed(browser: httpx.AsyncClient, times: int, **headers: str) -> list[int]:
    """Try links that do not exist; return the statuses."""
    return [(await browser.get(f"/l/{number:043}", headers=headers)).status_code for number in range(times)]


async def test_whoever_guesses_is_soon_told_to_wait(house: House) -> None:
    """After five misses in a minute; whoever has a link behind the same address sees it, and decides with it."""
    row = waiting(house)
    path = f"/l/{a_link(house.url, row)}"
    async with house.client() as browser:
        statuses = await guessed(browser, 7)
        told = await browser.get(f"/l/{0:043}")
        shown = await browser.get(path)
        page = Page(shown.text).fields | {"mail_code": CODE}
        await browser.post(path, data=page | {"decision": "approve"})
    assert ([404] * 5 + [429] * 2, "60", 200, 1) == (
        statuses,
        told.headers["retry-after"],
        shown.status_code,
        len(decided(house)),
    )


@pytest.mark.parametrize(("proxies", "other"), [([], 429), (["127.0.0.0/8"], 404), (["10.0.0.1"], 429)])
async def test_only_a_proxy_that_is_named_tells_addresses(
    gateway_database_url: str, tmp_path: Path, proxies: list[str], other: int
) -> None:
    """Anybody could say that they come from somewhere else."""
    settings: dict[str, Any] = {"gateway_link_misses_max": 5, "gateway_trusted_proxies": proxies}
    async with open_house(gateway_database_url, tmp_path, **settings) as house, house.client() as browser:
        statuses = await guessed(browser, 6, **{"x-forwarded-for": "192.0.2.1"})
        (another,) = await guessed(browser, 1, **{"x-forwarded-for": "192.0.2.2"})
    assert ([404] * 5 + [429], other) == (statuses, another)


async def test_other_addresses_of_the_same_network_are_no_others(gateway_database_url: str, tmp_path: Path) -> None:
    """Whoever has an address of IPv6 has 2⁶⁴ of them: they are counted together, their neighbours are not."""
    settings: dict[str, Any] = {"gateway_link_misses_max": 5, "gateway_trusted_proxies": ["127.0.0.0/8"]}
    async with open_house(gateway_database_url, tmp_path, **settings) as house, house.client() as browser:
        statuses = [
            *await guessed(browser, 5, **{"x-forwarded-for": "2001:db8:0:1::1"}),
            *await guessed(browser, 1, **{"x-forwarded-for": "2001:db8:0:1:ffff::2"}),
            *await guessed(browser, 1, **{"x-forwarded-for": "2001:db8:0:2::1"}),
        ]
    assert [404] * 5 + [429, 404] == statuses


def test_guesses_are_forgotten_after_a_minute() -> None:
    """Counting begins anew with the next minute, and for each address by itself."""
    now = [0.0]
    guesses = Guesses(2, clock=lambda: now[0])
    guesses.miss("a")
    now[0] = 20.5
    guesses.miss("a")
    before = (guesses.too_many("a"), guesses.too_many("b"), guesses.seconds_left("a"))
    now[0] = 61.0
    assert ((True, False, 40), False) == (before, guesses.too_many("a"))


def test_a_seal_lasts_an_hour() -> None:
    """A page that was open for longer is shown anew; one from the future is none."""
    seal = Seal("a" * 64, 1, 1000)
    text = seal.of("token")
    assert [True, True, False, False] == [seal.holds("token", text, now) for now in (1000, 4600, 4601, 999)]
