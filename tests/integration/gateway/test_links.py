"""Mailed links: showing never decides, a scanner decides nothing, and one link is good for one decision."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from placet.contracts.canonical import canonical_text
from placet.gateway.approvals.links import CODE_SECONDS, CODES_MAX, Standing
from placet.gateway.web.links import OPENED
from placet.surfaces.texts import moment
from tests.support.gateway import Everybody, House, insert, open_house
from tests.support.late import post_late
from tests.support.mailed_links import CODE, PEOPLE, Page, a_link, choose, decided, scan, waiting
from tests.support.staged_scene import a_busy_turn, commit_arguments, propose, stage
from tests.support.system import until


@pytest.fixture
def everybody() -> Everybody:
    """Who is who."""
    return Everybody(PEOPLE)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path, everybody: Everybody) -> AsyncIterator[House]:
    """One running gateway that knows ada and grace."""
    async with open_house(gateway_database_url, tmp_path, directory=everybody, gateway_link_misses_max=5) as made:
        yield made


def vote_row(approval: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a vote that counted, the `number`-th one on an approval."""
    at = datetime.now(UTC) + timedelta(seconds=number)
    ids = {name: approval[name] for name in ("tenant", "approval_id", "digest", "revision", "conversation_id")}
    counted = {"outcome": "accepted", "arguments_revision": 1, "counted_revision": number, "decided_at": at}
    return {**ids, "roles": [], "details": {}, **counted}


async def test_a_link_shows_the_card_and_decides_once_sent(house: House) -> None:
    """The person reads, chooses and sends; the decision names what was shown, and how they were known."""
    row = waiting(house)
    path = f"/l/{a_link(house.url, row)}"
    async with house.client() as browser:
        shown = await browser.get(path)
        sent = await choose(browser, path, decision="approve", reason="fine")
        after = await browser.get(path)
    (claims,) = house.approvers.claims
    assert (200, 303, path, 200) == (
        shown.status_code,
        sent.status_code,
        sent.headers["location"],
        after.status_code,
    )
    assert [True] * 4 == [text in shown.text for text in (row["summary"], "amount", "299", row["digest"])]
    assert ("person:ada", "approve", "link", row["digest"], 1, "fine", ["operators"]) == (
        claims.person,
        claims.verb,
        claims.proof,
        claims.digest,
        claims.revision,
        claims.reason,
        claims.roles,
    )
    assert "This approval is closed." in after.text
    (told,) = re.findall(r'<p class="quiet">(.*?)</p>', after.text, re.DOTALL)
    assert re.fullmatch(r"Decided by Ada\. [A-Z][^.]* UTC\. Your link sent: approve\.", " ".join(told.split())), told


async def test_a_link_approves_and_allows_the_same_for_an_hour(house: House) -> None:
    """Where the rule offers it the page says what it covers; elsewhere it is no choice, and none that can be sent."""
    terms = {"approvers": ["operators"], "grants": {"uses": 5}}
    offered, plain = waiting(house, approval_rule=terms), waiting(house)
    path, without = (f"/l/{a_link(house.url, row)}" for row in (offered, plain))
    async with house.client() as browser:
        shown, bare = (await browser.get(path)).text, (await browser.get(without)).text
        refused = await choose(browser, without, decision="approve-again")
        sent = await choose(browser, path, decision="approve-again")
        after = (await browser.get(path)).text
    (claims,) = house.approvers.claims
    assert claims.grant is not None
    assert (400, 303, "approve", 3600) == (
        refused.status_code,
        sent.status_code,
        claims.verb,
        claims.grant.expires_after_seconds,
    )
    assert [True, False] == ["Covers this very call" in each for each in (shown, bare)]
    assert "This approval is closed." in after


async def test_a_link_says_that_such_calls_are_stopped(house: House) -> None:
    """The page says why and offers no Approve; whoever sends one gets the reason, and a denial counts."""
    row, why = waiting(house), "Refunds go twice."
    path = f"/l/{a_link(house.url, row)}"
    async with house.client(house.key("admin")) as admin, house.client() as browser:
        (await admin.post("/v1/stops", json={"anyway": True, "tool": row["tool"], "reason": why})).raise_for_status()
        shown = await browser.get(path)
        refused = await choose(browser, path, decision="approve")
        denied = await choose(browser, path, decision="deny")
    assert [True, True, False] == [
        text in shown.text for text in (why, 'value="approve" required disabled', 'value="deny" required disabled')
    ]
    assert (409, True, 303, ["deny"]) == (
        refused.status_code,
        why in refused.text,
        denied.status_code,
        [claims.verb for claims in house.approvers.claims],
    )


@pytest.mark.parametrize(("restored", "status", "verbs"), [("-1 hour", 303, ["approve"]), ("1 hour", 409, [])])
async def test_a_link_s_page_approves_what_it_told_of(
    house: House, restored: str, status: int, verbs: list[str]
) -> None:
    """A page that was shown before a restore does not say that the call may have run since."""
    row = waiting(house, created_at=datetime.now(UTC) - timedelta(hours=2))
    house.query("INSERT INTO gateway.restores VALUES (now() + %s::interval, now() - interval '3 hours')", restored)
    async with house.client() as browser:
        sent = await choose(browser, f"/l/{a_link(house.url, row)}", decision="approve")
    assert (status, verbs) == (sent.status_code, [claims.verb for claims in house.approvers.claims])


async def test_a_mail_scanner_decides_nothing_and_uses_nothing_up(house: House) -> None:
    """It looks, follows every address and sends what it finds, ten times; then the person decides."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as scanner, house.client() as person:
        statuses = await scan(scanner, path)
        before = decided(house)
        answer = await choose(person, path, decision="deny")
    assert ([], 303, [("person:ada", "deny", "link")]) == (before, answer.status_code, decided(house))
    assert [] == [status for status in statuses if status >= 500]


async def test_a_form_without_the_code_of_the_mail_decides_nothing(house: House) -> None:
    """Whoever has the address and fills the form in lacks what only the mail's text has; the page does not say it."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        shown = await browser.get(path)
        answers = [await choose(browser, path, decision="approve", mail_code=code) for code in ("", "test", "B2B2B")]
        before = decided(house)
        right = await choose(browser, path, decision="approve", mail_code=" k7 r4w ")
    assert ([400] * 3, [], 303, False) == (
        [each.status_code for each in answers],
        before,
        right.status_code,
        CODE in shown.text,
    )
    said = ["Type the code that stands beside the link", "That code is wrong.", "That code is wrong."]
    assert [True] * 3 == [words in each.text for words, each in zip(said, answers, strict=True)]


async def test_a_link_rests_after_wrong_codes(house: House) -> None:
    """Who guesses does not get far, and what is no code is no guess; the page says for how long."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        for _ in range(CODES_MAX + 1):
            await choose(browser, path, decision="approve", mail_code="1234")
        page = Page((await browser.get(path)).text).fields | {"decision": "approve"}
        wrong = [(await browser.post(path, data=page | {"mail_code": "B2B2B"})).status_code for _ in range(CODES_MAX)]
        resting = [await browser.get(path), await browser.post(path, data=page | {"mail_code": CODE})]
    assert ([400] * (CODES_MAX - 1) + [429], [429, 429], []) == (
        wrong,
        [each.status_code for each in resting],
        decided(house),
    )
    seconds = int(resting[0].headers["retry-after"])
    told = "accepts a code again after 15 minutes." in resting[0].text
    assert (True, True) == (told, 0 <= CODE_SECONDS - seconds < 60)


async def test_codes_whose_forms_come_late_are_guesses_too(house: House) -> None:
    """However many links were opened before the first form came: the right code behind five wrong ones is no use."""
    path, sent = f"/l/{a_link(house.url, waiting(house))}", asyncio.Event()
    async with house.client() as browser:
        page = Page((await browser.get(path)).text).fields | {"decision": "approve"}
        form, before = {"content-type": "application/x-www-form-urlencoded"}, links_opened()
        bodies = [urlencode(page | {"mail_code": code}).encode() for code in ["B2B2B"] * 2 * CODES_MAX + [CODE]]
        late = [asyncio.create_task(post_late(browser, path, body, form, sent)) for body in bodies]

        async def are_opened() -> bool:
            return links_opened() >= before + len(bodies)

        await until(are_opened, "the links are opened")
        sent.set()
        statuses = [(await each).status_code for each in late]
    assert ([400] * (CODES_MAX - 1) + [429] * (CODES_MAX + 2), []) == (sorted(statuses), decided(house))


def links_opened() -> float:
    """Return how many good links were opened so far."""
    found: float = OPENED.labels(Standing.OPEN)._value.get()
    return found


async def test_a_wrong_code_says_so_and_keeps_what_was_typed(house: House) -> None:
    """The choice and the reason stay; the code is typed anew."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        answer = await choose(browser, path, decision="deny", mail_code="B2B2B", reason="Not before Monday.")
    assert (400, True, True) == (
        answer.status_code,
        "That code is wrong." in answer.text,
        ">Not before Monday.</textarea>" in answer.text,
    )
    assert ['value="deny" required checked'] == re.findall(r'value="\w+" required checked', answer.text)
    assert [] == decided(house)


async def test_a_link_from_before_codes_has_lapsed(house: House) -> None:
    """What was mailed without a code decides nothing."""
    path = f"/l/{a_link(house.url, waiting(house), code_hash='')}"
    async with house.client() as browser:
        assert 410 == (await browser.get(path)).status_code


async def test_a_vote_made_elsewhere_shows_and_may_be_changed(house: House) -> None:
    """The link says how its person decided, each voter once, and takes another decision only from who asks for it."""
    house.approvers.outcome = "accepted"
    rule = {"min_strength": "link", "approvers": ["person:ada", "person:grace"], "approvals": 3}
    row = waiting(house, approval_rule=rule)
    for number, (person, verb) in enumerate([("ada", "deny"), ("grace", "approve"), ("ada", "approve")], 1):
        vote = {"decision_id": f"d{number}", "person": f"person:{person}", "verb": verb, "proof": "web"}
        insert(house.url, "decisions", **vote_row(row, number) | vote)
    path = f"/l/{a_link(house.url, row)}"
    async with house.client() as browser:
        told = await browser.get(path)
        fresh = await browser.post(path, data={"decision": "deny", "mail_code": CODE})
        form = await browser.get(f"{path}?again=1")
        fields = Page(form.text).fields | {"mail_code": CODE, "decision": "deny"}
        changed = await browser.post(path, data=fields)
    assert (200, True, 409, 303) == (
        told.status_code,
        "You decided: approve." in told.text and "<form" not in told.text,
        fresh.status_code,
        changed.status_code,
    )
    (voters,) = re.findall(r"Voted so far: ([^<\n]*)", form.text)
    assert ([("person:ada", "deny", "link")], ["Ada", "Grace"]) == (
        decided(house),
        sorted(map(str.strip, voters.split(","))),
    )


async def test_a_link_names_people_and_groups_as_the_mail_does(house: House) -> None:
    """Who asked, who may decide and who has voted have their names, and no prefixes of ids."""
    row = waiting(
        house,
        requester="person:grace",
        approvers=["group:finance", "person:ada"],
        approval_rule={"min_strength": "link", "approvers": ["group:finance", "person:ada"], "approvals": 2},
    )
    async with house.client() as client:
        page = (await client.get(f"/l/{a_link(house.url, row)}")).text
    told = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "Asked by: Grace ·" in told
    assert "May decide: finance, Ada ·" in told


async def test_a_link_names_whom_an_escalation_asked_too(house: House) -> None:
    """They decide as the first ones do."""
    row = waiting(
        house,
        steps_done=1,
        approval_rule={
            "min_strength": "link",
            "approvers": ["group:finance"],
            "approvals": 2,
            "escalations": [{"after_seconds": 60, "approvers": ["person:grace"], "channels": ["inbox"]}],
        },
    )
    async with house.client() as client:
        page = (await client.get(f"/l/{a_link(house.url, row)}")).text
    assert "Decides: 2 of finance, Grace ·" in " ".join(page.split())


async def test_looking_changes_no_row(house: House) -> None:
    """GET and HEAD leave the database as it was."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    tables = ("gateway.link_uses", "gateway.outbox", "gateway.history")
    async with house.client() as scanner:
        answers = [await scanner.request(method, path) for method in ("GET", "HEAD") * 5]
    assert {200} == {answer.status_code for answer in answers}
    assert [0] * 3 == [house.query(f"SELECT count(*) FROM {table}")[0][0] for table in tables]  # noqa: S608 - ours


async def test_the_page_tells_nobody_where_it_was_and_runs_nothing(house: House) -> None:
    """No referrer, no cache, no frame, no script, nothing chosen beforehand."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        answer = await browser.get(path)
    page = Page(answer.text)
    policy = answer.headers["content-security-policy"]
    assert ("no-referrer", "no-store", "noindex, nofollow") == tuple(
        answer.headers[name] for name in ("referrer-policy", "cache-control", "x-robots-tag")
    )
    assert (True, True, False) == (
        "default-src 'none'" in policy,
        "frame-ancestors 'none'" in policy,
        "script-src" in policy,
    )
    assert (0, {"decision": ["deny", "approve"]}, False) == (page.scripts, page.choices, "decision" in page.fields)


async def test_a_link_is_good_for_one_decision(house: House) -> None:
    """While others must agree, the link that voted votes no more: the same again shows it, another is refused."""
    house.approvers.outcome = "accepted"
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        page = Page((await browser.get(path)).text).fields | {"mail_code": CODE}
        answers = [
            await browser.post(path, data=page | {"decision": decision}) for decision in ("approve", "approve", "deny")
        ]
        shown = await browser.get(path)
    assert ([303, 303, 409], 1) == ([answer.status_code for answer in answers], len(house.approvers.claims))
    assert (200, True) == (shown.status_code, "You decided: approve" in shown.text)


async def test_a_link_whose_vote_an_edit_made_void_says_that_the_call_has_changed(house: House) -> None:
    """Its person approved another call than the one that waits now: for them."""
    house.approvers.outcome = "accepted"
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        await choose(browser, path, decision="approve")
        edited = '{"amount": 104.9, "currency": "TRY"}'
        house.query("UPDATE read.approvals SET arguments = %s, digest = %s, revision = 2", edited, "0" * 64)
        shown = await browser.get(path)
        sent = await choose(browser, path, decision="approve")
    told = "This call has changed." in shown.text, "You decided" in shown.text
    assert ((True, False), 1) == (told, len(house.approvers.claims))
    assert sent.status_code in {303, 409}


async def test_two_clicks_at_once_make_one_decision(house: House) -> None:
    """Whatever the race, the database lets a link decide once."""
    house.approvers.outcome = "accepted"
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        page = Page((await browser.get(path)).text).fields | {"mail_code": CODE}
        wishes = ["approve", "deny"] * 4
        answers = await asyncio.gather(*(browser.post(path, data=page | {"decision": wish}) for wish in wishes))
    assert 1 == len(house.approvers.claims)
    assert {303, 409} == {answer.status_code for answer in answers}


async def test_a_decision_that_did_not_count_gives_the_link_back(house: House) -> None:
    """A missing reason is told on the page, and the link decides when it is there."""
    house.approvers.outcome = "invalid"
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        first = await choose(browser, path, decision="deny")
        house.approvers.outcome = "accepted"
        second = await choose(browser, path, decision="deny", reason="too much")
    assert (400, 303, 2) == (first.status_code, second.status_code, len(house.approvers.claims))


async def test_a_decision_without_an_answer_is_on_its_way(gateway_database_url: str, tmp_path: Path) -> None:
    """Nobody knows yet whether it counted, so the link decides nothing else."""
    people = Everybody(PEOPLE)
    quick = open_house(gateway_database_url, tmp_path, directory=people, gateway_answer_seconds=0.2)
    async with quick as house, house.client() as browser:
        house.approvers.silent = True
        path = f"/l/{a_link(house.url, waiting(house))}"
        page = Page((await browser.get(path)).text).fields | {"mail_code": CODE}
        answers = [await browser.post(path, data=page | {"decision": wish}) for wish in ("approve", "deny")]
    assert ([202, 409], 1) == ([answer.status_code for answer in answers], len(house.approvers.claims))


@pytest.mark.parametrize(
    ("outcome", "ago", "standing", "answer"),
    [
        (None, "1 s", 202, 409),
        (None, "2 min", 200, 303),
        ("stale", "1 s", 200, 303),
        ("accepted", "1 s", 200, 409),
        ("accepted", "2 min", 200, 409),
    ],
)
async def test_a_link_whose_decision_had_no_answer_is_what_became_of_it(
    house: House, outcome: str | None, ago: str, standing: int, answer: int
) -> None:
    """Good again where the vote was refused or is lost, used up where it counted, and on its way in between."""
    row = waiting(house)
    token = a_link(house.url, row)
    use = {"token_hash": hashlib.sha256(token.encode()).hexdigest(), "decision_id": "d", "outcome": "sent"}
    ids = {"tenant": "acme", "approval_id": row["approval_id"], "person": "person:ada", "verb": "approve"}
    house.query(
        "INSERT INTO gateway.link_uses (token_hash, decision_id, outcome, tenant, approval_id, person, verb, used_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, now() - %s::interval)",
        *(*use.values(), *ids.values(), ago),
    )
    if outcome:
        lost = {"counted_revision": 1 if outcome == "accepted" else None, "outcome": outcome, "proof": "link"}
        insert(house.url, "decisions", **vote_row(row, 1) | ids | {"decision_id": "d"} | lost)
    async with house.client() as browser:
        shown = await browser.get(f"/l/{token}")
        sent = await choose(browser, f"/l/{token}", decision="deny")
    assert (standing, answer) == (shown.status_code, sent.status_code)


ESCALATED = {"after_seconds": 60, "approvers": ["person:ada"], "channels": ["inbox"]}
LEFT = {
    "gone": {},
    "inactive": {"ada": replace(PEOPLE.people["ada"], active=False)},
    "at another address": {"ada": replace(PEOPLE.people["ada"], emails=("ada@example.com",))},
}


@pytest.mark.parametrize("change", LEFT)
async def test_the_link_of_somebody_who_left_is_none(house: House, everybody: Everybody, change: str) -> None:
    """Whoever the directory does not list as active, or at the address of the mail, is nobody, however good it was."""
    path = f"/l/{a_link(house.url, waiting(house))}"
    async with house.client() as browser:
        page = Page((await browser.get(path)).text).fields | {"mail_code": CODE}
        everybody.now = replace(PEOPLE, people=LEFT[change])
        answers = [await browser.get(path), await browser.post(path, data=page | {"decision": "approve"})]
    assert ([404, 404], []) == ([answer.status_code for answer in answers], decided(house))


async def test_a_link_shows_no_form_to_who_may_not_decide_any_more(house: House, everybody: Everybody) -> None:
    """Somebody who left the group is known still: nothing of the call is shown to them, and nothing sent for them."""
    row = waiting(house)
    path = f"/l/{a_link(house.url, row)}"
    async with house.client() as browser:
        page = Page((await browser.get(path)).text).fields | {"mail_code": CODE}
        everybody.now = replace(PEOPLE, groups={})
        shown, sent = await browser.get(path), await browser.post(path, data=page | {"decision": "approve"})
    assert (200, 403, []) == (shown.status_code, sent.status_code, decided(house))
    assert [True, False] == [text in shown.text for text in ("You cannot decide this.", row["summary"])]


async def test_who_left_may_not_change_the_vote_that_they_made_elsewhere(house: House, everybody: Everybody) -> None:
    """Asked for or not, no form is shown to them: the vote of somebody who left the group counts no more."""
    rule = {"min_strength": "link", "approvers": ["group:finance"], "approvals": 2}
    row = waiting(house, approval_rule=rule)
    vote = {"decision_id": "d1", "person": "person:ada", "verb": "approve", "proof": "web"}
    insert(house.url, "decisions", **vote_row(row, 1) | vote)
    path = f"/l/{a_link(house.url, row)}?again=1"
    async with house.client() as browser:
        before = await browser.get(path)
        everybody.now = replace(PEOPLE, groups={})
        after = await browser.get(path)
    assert [True, False] == ["<form" in each.text for each in (before, after)]
    assert [True, False] == [words in after.text for words in ("You cannot decide this.", row["summary"])]


@pytest.mark.parametrize(("voters", "forms"), [({}, 1), ({"person:grace": None}, 0)], ids=["not yet", "voted"])
async def test_a_stand_in_whose_giver_has_voted_is_not_asked(house: House, voters: dict[str, None], forms: int) -> None:
    """One place is one vote: the link shows nothing of the call any more, and says why."""
    given = [{"by": {"person": "person:grace", "roles": [], "proof": "web"}, "to": "person:ada", "at": 0}]
    rule = {"min_strength": "link", "approvers": ["person:grace", "person:bob"], "approvals": 2}
    row = waiting(house, approval_rule=rule, delegations=given, voters=voters)
    async with house.client() as browser:
        shown = await browser.get(f"/l/{a_link(house.url, row)}")
    told = [words in shown.text for words in ("<form", row["summary"], "somebody has voted in whose place you could")]
    assert [forms == 1, forms == 1, forms == 0] == told


@pytest.mark.parametrize(
    ("rule", "forms"),
    [
        ({"approvers": ["person:grace"], "veto": ["person:ada"]}, 1),
        ({"approvers": ["person:grace"], "escalations": [ESCALATED]}, 1),
        ({"approvers": ["person:grace"]}, 0),
    ],
    ids=["may veto", "is asked too", "is not asked"],
)
async def test_a_link_has_its_form_for_whoever_may_decide_in_any_way(
    house: House, rule: dict[str, Any], forms: int
) -> None:
    """A veto, an escalation: what a decision would be judged by."""
    path = f"/l/{a_link(house.url, waiting(house, steps_done=1, approval_rule={'min_strength': 'link', **rule}))}"
    async with house.client() as browser:
        page = Page((await browser.get(path)).text)
    assert forms == len(page.choices)


async def test_the_link_of_a_decided_approval_says_how_it_ended(house: House) -> None:
    """Looking is no error; deciding is a conflict."""
    row = waiting(house, state="denied", decided_by="person:grace", closed_at=datetime.now(UTC))
    path = f"/l/{a_link(house.url, row)}"
    async with house.client() as browser:
        shown, looked = await browser.get(path), await browser.head(path)
        sent = await browser.post(path, data={"decision": "approve"})
    assert (200, 200, 409, []) == (shown.status_code, looked.status_code, sent.status_code, decided(house))
    assert (True, True) == ("denied" in shown.text, "Grace" in shown.text)
    # Moments as the mail writes them.
    assert moment("en", row["closed_at"]) in shown.text


async def test_what_is_dangerous_takes_typed_digits(house: House) -> None:
    """Somebody who read the page can type the end of the digest; a program that fills forms does not."""
    row = waiting(house, category="unsafe_exec")
    path = f"/l/{a_link(house.url, row)}"
    async with house.client() as browser:
        first = await choose(browser, path, decision="approve")
        wrong = await choose(browser, path, decision="approve", code="zzzz")
        right = await choose(browser, path, decision="approve", code=row["digest"][-4:].upper())
    assert ([400, 400, 303], 1) == ([each.status_code for each in (first, wrong, right)], len(decided(house)))


async def test_hostile_arguments_stay_text(house: House) -> None:
    """Markup in what a model wrote is shown, not obeyed; what hides is shown as its code point."""
    row = waiting(house, arguments={"note": "<script>alert(1)</script>\u202e", "<b>": "</form><form>"})
    async with house.client() as browser:
        text = (await browser.get(f"/l/{a_link(house.url, row)}")).text
    assert (0, 1, True) == (Page(text).scripts, text.count("<form"), "[U+202E]" in text)


async def test_the_page_speaks_its_person_s_language(house: House, everybody: Everybody) -> None:
    """German for who is down as German, on the page, in what it lacks and at its end; else as the settings say."""
    ada = replace(PEOPLE.people["ada"], language="de-AT")
    everybody.now = replace(PEOPLE, people={**PEOPLE.people, "ada": ada})
    row = waiting(house)
    mine, graces = (f"/l/{a_link(house.url, row, f'person:{name}')}" for name in ("ada", "grace"))
    async with house.client() as browser:
        pages = [(await browser.get(path)).text for path in (mine, graces)]
        lacking = await choose(browser, mine, decision="perhaps")
        await choose(browser, mine, decision="approve")
        over = (await browser.get(mine)).text
    assert ['<html lang="de">', '<html lang="en">'] == [page.splitlines()[1] for page in pages]
    assert ("Entscheidung senden" in pages[0], "Send the decision" in pages[1]) == (True, True)
    assert (400, True) == (lacking.status_code, "Wählen Sie, ob Sie freigeben oder ablehnen." in lacking.text)
    assert "Diese Freigabe ist abgeschlossen." in over


async def test_a_link_shows_a_commit_entry_by_entry(house: House) -> None:
    """Not its ids; diffs, which take a session, are seen after signing in."""
    row = propose(house, stage(house, a_busy_turn(1)))
    async with house.client() as browser:
        page = (await browser.get(f"/l/{a_link(house.url, row)}")).text
    assert (True, True, False, False) == (
        "1 created, 2 changed, 1 deleted" in page,
        "src/total.py" in page,
        "tree_digest" in page,
        "<script" in page,
    )


async def test_a_link_leaves_entries_of_a_commit_out(house: House) -> None:
    """One edit without what is marked, by the link's person; the same form twice is harmless."""
    calls = stage(house, a_busy_turn(1))
    path = f"/l/{a_link(house.url, propose(house, calls))}"
    async with house.client() as browser:
        boxes = Page((await browser.get(path)).text).boxes
        sent = await choose(browser, path, decision="approve", leave=[calls[0], calls[-1]])
        again = await choose(browser, path, decision="approve", leave=[calls[0], calls[-1]])
    assert {"leave": dict.fromkeys(calls, False)} == boxes
    assert ([303, True], [("person:ada", "edit", "link")]) == (
        [sent.status_code, again.status_code in {303, 409}],
        decided(house),
    )
    assert [canonical_text(commit_arguments(calls[1:-1]))] == [claims.arguments for claims in house.approvers.claims]


async def test_a_link_says_what_goes_along_before_anything_is_decided(house: House) -> None:
    """An entry takes along what touches the same: the page marks that too, says so, and decides when sent again."""
    calls = stage(house, a_busy_turn(0))
    path = f"/l/{a_link(house.url, propose(house, calls))}"
    async with house.client() as browser:
        told = await choose(browser, path, decision="approve", leave=calls[0])
        marked = [name for name, checked in Page(told.text).boxes["leave"].items() if checked]
        assert (409, calls[:2], []) == (told.status_code, marked, decided(house))
        sent = await choose(browser, path, decision="approve", leave=marked)
    assert 303 == sent.status_code
    assert [canonical_text(commit_arguments(calls[2:]))] == [claims.arguments for claims in house.approvers.claims]


async def test_a_link_s_page_keeps_what_was_marked(house: House) -> None:
    """After a wrong code, and after a refusal, the same boxes are checked: nobody approves more by sending it again."""
    calls = stage(house, a_busy_turn(1))
    path = f"/l/{a_link(house.url, propose(house, calls))}"
    async with house.client() as browser:
        wrong = await choose(browser, path, decision="approve", leave=calls[-1], mail_code="AAAAA")
        everything = await choose(browser, path, decision="approve", leave=calls)
        strange = await choose(browser, path, decision="approve", leave="nothing")
    kept = [
        [name for name, checked in Page(page.text).boxes["leave"].items() if checked] for page in (wrong, everything)
    ]
    assert ([calls[-1:], calls], []) == (kept, decided(house))
    assert [400, 400, 400] == [each.status_code for each in (wrong, everything, strange)]


async def test_a_link_offers_no_boxes_where_the_rule_has_no_edits(house: House) -> None:
    """As in the inbox."""
    calls = stage(house, a_busy_turn(0))
    row = propose(house, calls, approval_rule={"edits": False})
    async with house.client() as browser:
        assert {} == Page((await browser.get(f"/l/{a_link(house.url, row)}")).text).boxes
