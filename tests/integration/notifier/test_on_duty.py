"""Who gets the mail of a group with an on-call plan and working hours, on real PostgreSQL and a real SMTP server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.contracts.messages import ShownCall
from placet.domain.directory import Directory, Person
from placet.domain.duty import CalendarFile, GroupDuty, Hours, Rotation
from placet.notifier.falling_back import see_to_untold
from tests.builders import a_call
from tests.integration.notifier.mailing import a_mailer, post
from tests.support.approval_news import closed, opened, progressed
from tests.support.smtp_server import MailServer

PEOPLE = {name: Person(name, name.title(), emails=(f"{name}@example.org",)) for name in ("ada", "ben", "cem", "lea")}
GROUPS = {"ops": frozenset({"ada", "ben", "cem"}), "leads": frozenset({"lea", "ben"})}
OPS = {"approvers": ["group:ops"]}
STATES = "SELECT person, state, error FROM notifier.deliveries ORDER BY person"
ALERTED = "SELECT person, state, alerted FROM notifier.deliveries"


@pytest.fixture
def server() -> Iterator[MailServer]:
    """A mail server that keeps what it gets."""
    with MailServer().running() as running:
        yield running


def a_house(**duty: GroupDuty) -> Directory:
    """Return two groups, and when they are on duty."""
    return Directory(people=PEOPLE, groups=GROUPS, duty=duty)


def on_call(*people: str) -> Rotation:
    """Return a plan in which the first of them is on duty for a month."""
    return Rotation(people, datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1), 30)


def closed_now() -> Hours:
    """Return working hours that begin in two hours, on any day."""
    opens = datetime.now(UTC) + timedelta(hours=2)
    return Hours(opens.time(), (opens + timedelta(hours=1)).time(), frozenset(range(7)))


def tomorrow() -> dict[str, Any]:
    """Return what an approval has that waits for a day."""
    return {"expires_at": datetime.now(UTC) + timedelta(days=1)}


def told(server: MailServer) -> list[str]:
    """Return who got mails, in their order."""
    return [str(mail.message["To"]).partition("@")[0] for mail in server.inbox]


async def test_the_mail_and_the_escalation_go_to_who_is_on_duty(notifier_url: str, server: MailServer) -> None:
    """Of three and of two one each; the mail says who is on duty, and a reminder what expires when."""
    house = a_house(ops=GroupDuty(plan=on_call("ada", "ben")), leads=GroupDuty(plan=on_call("lea", "ben")))
    step = {"after_seconds": 60, "approvers": ["group:leads"]}
    async with a_mailer(notifier_url, server, house) as mailer:
        news = opened("email", rule=OPS | {"escalations": [step]})
        await mailer.send(news)
        await post(mailer)
        first = told(server)
        await mailer.send(progressed(news, "escalated", 2, approvers=["group:leads"]))
        await post(mailer)
        later = told(server)
        await mailer.send(progressed(news, "reminded", 3))
        await post(mailer)
        states = {row["person"]: row["state"] for row in await mailer.rows(STATES)}
    texts = [mail.part("plain") for mail in server.inbox]
    assert (["ada"], {"ada", "lea"}) == (first, set(later))
    assert {"ada": "sent", "ben": "asleep", "cem": "asleep", "lea": "sent"} == states
    assert "On duty: Ada until" in texts[0]
    assert f"Update: It is still waiting for a decision and expires {news.expires_at:%b}" in texts[-1]


ASKED_BESIDE = {
    "who wrote in it": ["INSERT INTO read.askers VALUES ('acme', 'conversation-1', '~person:ada')"],
    "who wrote where the job was called": [
        "INSERT INTO read.conversations VALUES ('acme', 'conversation-1', 'j')",
        "INSERT INTO read.jobs VALUES ('acme', 'j', '{\"caller\": {\"conversation_id\": \"outer\"}}')",
        "INSERT INTO read.askers VALUES ('acme', 'outer', 'person:ada')",
    ],
    "who answered in another attempt": [
        "INSERT INTO read.conversations VALUES ('acme', 'conversation-1', 'j')",
        "INSERT INTO read.jobs VALUES ('acme', 'j', '{}')",
        "INSERT INTO read.job_attempts VALUES ('acme', 'j', 'other')",
        "INSERT INTO read.askers VALUES ('acme', 'other', '~person:ada')",
    ],
    "who made the requester's key": ["INSERT INTO read.key_makers VALUES ('acme', 'dora', 'person:ada')"],
}


@pytest.mark.parametrize("rows", ASKED_BESIDE.values(), ids=ASKED_BESIDE)
async def test_who_may_have_asked_is_not_told_and_the_others_are(
    notifier_url: str, server: MailServer, rows: list[str]
) -> None:
    """Four eyes exclude who is on duty: by the news that open it, and by those that ask whole groups again."""
    house = a_house(ops=GroupDuty(plan=on_call("ada")))
    async with a_mailer(notifier_url, server, house) as mailer:
        for row in rows:
            await mailer.execute(row)
        call = a_call(requester="person:dora")
        news = opened("email", rule=OPS | {"exclude": ["requester"]}, call=call)
        await mailer.send(news)
        await post(mailer)
        first = told(server)
        await mailer.send(progressed(news, "escalated", 2, approvers=["group:ops"]))
        await post(mailer)
        for view in ("askers", "conversations", "jobs", "job_attempts", "key_makers"):
            await mailer.execute(f"TRUNCATE read.{view}")
    assert (["ben", "cem"], {"ben", "cem"}) == (sorted(first), set(told(server)))


async def test_mails_follow_the_directory(notifier_url: str, server: MailServer) -> None:
    """Who is not active any more gets nothing more, and whose address is another one now is asked there."""
    late = {"ada": replace(PEOPLE["ada"], active=False), "ben": replace(PEOPLE["ben"], emails=("new@example.org",))}
    news = opened("email", rule=OPS)
    async with a_mailer(notifier_url, server, a_house()) as mailer:
        await mailer.send(news)
        await post(mailer)
    first = told(server)
    async with a_mailer(notifier_url, server, replace(a_house(), people=PEOPLE | late), empty=False) as mailer:
        call = ShownCall(**(news.call.model_dump() | {"arguments": {"amount": 99}, "digest": "ab" * 32}))
        await mailer.send(progressed(news, "edited", 2, call=call, summary="Over 99 TRY?"))
        await post(mailer)
        edited = told(server)[3:]
        await mailer.send(closed(news))
        await post(mailer)
        gone = [row for row in await mailer.rows(STATES) if row["state"] == "given_up"]
    assert ({"ada", "ben", "cem"}, ["cem", "new"], ["cem", "new"]) == (
        set(first),
        sorted(edited),
        sorted(told(server)[5:]),
    )
    why = "whose address it was is not active any more, or has another one"
    assert [("ada", why), ("ben", why)] == [(row["person"], row["error"]) for row in gone]


async def test_who_has_another_address_before_the_mail_went_out_is_asked_there(
    notifier_url: str, server: MailServer
) -> None:
    """The card that was to go to the old one goes to the new one, once, and nobody is alarmed; an end moves nothing."""
    late = {"ben": replace(PEOPLE["ben"], emails=("new@example.org",))}
    news, over = (opened("email", rule={"approvers": ["person:ben"]}) for _ in range(2))
    async with a_mailer(notifier_url, server, a_house()) as mailer:
        await mailer.send(news)
        await mailer.send(over)
        await mailer.send(closed(over))
    async with a_mailer(notifier_url, server, replace(a_house(), people=PEOPLE | late), empty=False) as mailer:
        for _ in range(2):
            await post(mailer)
            await see_to_untold(mailer.units)
        rows = await mailer.rows(
            "SELECT recipient, state, alerted FROM notifier.deliveries ORDER BY approval_id, state"
        )
    states = [(row["recipient"], row["state"], row["alerted"]) for row in rows]
    old = "ben@example.org"
    assert ["new"] == told(server)
    assert [(old, "given_up", False), ("new@example.org", "sent", False), (old, "given_up", False)] == states


async def test_where_the_one_on_duty_cannot_be_reached_the_next_is_told(notifier_url: str, server: MailServer) -> None:
    """The card of the one on duty is given up; the others of the group are there, and are told one by one."""
    house = a_house(ops=GroupDuty(plan=on_call("ada")))
    async with a_mailer(notifier_url, server, house) as mailer:
        await mailer.send(opened("email", rule=OPS))
        server.refusals["ada@example.org"] = ["550 no such user"]
        await post(mailer)
        await see_to_untold(mailer.units)
        await post(mailer)
        assert ["ben"] == told(server)


async def test_whom_an_escalation_lets_decide_is_told_by_it_and_no_sooner(
    notifier_url: str, server: MailServer
) -> None:
    """Until then operators are alarmed; where those on duty of the escalation cannot be reached, the next is told."""
    house = a_house(leads=GroupDuty(plan=on_call("lea", "ben")))
    rule = {"approvers": ["person:ada"], "escalations": [{"after_seconds": 600, "approvers": ["group:leads"]}]}
    async with a_mailer(notifier_url, server, house) as mailer:
        news = opened("email", rule=rule)
        server.refusals |= {f"{name}@example.org": ["550 no such user"] for name in ("ada", "lea")}
        await mailer.send(news)
        for _ in range(2):
            await post(mailer)
            await see_to_untold(mailer.units)
        before = {row["person"]: (row["state"], row["alerted"]) for row in await mailer.rows(ALERTED)}
        await mailer.execute("UPDATE notifier.deliveries SET due_at = now() WHERE state = 'asleep'")
        await mailer.send(progressed(news, "escalated", 2, approvers=["group:leads"]))
        for _ in range(2):
            await post(mailer)
            await see_to_untold(mailer.units)
    assert {"ada": ("given_up", True), "ben": ("asleep", True), "lea": ("asleep", True)} == before
    assert ["ben"] == told(server)


@pytest.mark.parametrize("plan", [CalendarFile("gone.ics"), Rotation(("ada",), datetime(2040, 1, 1), 7)])  # noqa: DTZ001
async def test_where_nobody_is_on_duty_the_whole_group_gets_mail(
    notifier_url: str, server: MailServer, plan: CalendarFile | Rotation
) -> None:
    """More people are asked, not fewer, and the mail says why."""
    async with a_mailer(notifier_url, server, a_house(ops=GroupDuty(plan=plan))) as mailer:
        await mailer.send(opened("email", rule=OPS))
        await post(mailer)
    text = server.inbox[0].part("plain")
    assert ({"ada", "ben", "cem"}, True) == (set(told(server)), "the whole group is asked" in text)


async def test_a_notice_waits_for_working_hours_and_an_escalation_does_not(
    notifier_url: str, server: MailServer
) -> None:
    """Its delivery says what it waits for; an approval that would expire first is told at once."""
    async with a_mailer(notifier_url, server, a_house(ops=GroupDuty(closed_now()))) as mailer:
        patient = opened("email", rule=OPS, **tomorrow())
        await mailer.send(patient)
        await post(mailer)
        waiting, silent = await mailer.rows(STATES), told(server)
        await mailer.send(progressed(patient, "escalated", 2, approvers=["group:ops"]))
        await post(mailer)
        asked = told(server)
        await mailer.send(opened("email", rule=OPS))
        await post(mailer)
    assert {("due", True)} == {(row["state"], row["error"].startswith("working hours begin at")) for row in waiting}
    assert ([], {"ada", "ben", "cem"}, 6) == (silent, set(asked), len(told(server)))
