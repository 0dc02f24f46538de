"""Calls that one person is asked about within a short while, through a real SMTP server: one mail that lists them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from placet.contracts.messages import ApprovalOpened, MailBounced
from tests.builders import a_call
from tests.integration.notifier.mailing import ADA, BEN, DELIVERIES, FINANCE, ONLY_ADA, a_mailer, hurry, post
from tests.support.approval_news import closed, finished, opened, progressed
from tests.support.house import Replica
from tests.support.smtp_server import MailServer

#: What the first mails wait for is over.
WAITED = "UPDATE notifier.deliveries SET due_at = due_at - interval '5 seconds'"
ONLY_BEN = {"approvers": ["person:ben"]}


@pytest.fixture
def server() -> Iterator[MailServer]:
    """A relay that takes everything."""
    with MailServer().running() as running:
        yield running


@pytest.fixture
async def mailer(notifier_url: str, server: MailServer) -> AsyncIterator[Replica]:
    """A notifier whose first mails wait five seconds for others."""
    async with a_mailer(notifier_url, server, email_wait_seconds=5) as replica:
        yield replica


def call(amount: int, rule: dict[str, Any] | None = None, **changes: Any) -> ApprovalOpened:
    """Return the news of one of several calls."""
    made = a_call(arguments={"amount": amount})
    return opened("email", rule=rule or ONLY_ADA, call=made, summary=f"Pay {amount} TRY?", **changes)


def pages(text: str) -> list[str]:
    """Return the approvals whose pages a mail links, in its order."""
    return re.findall(r"https://placet\.example/inbox/([\w-]+)", text)


async def ask(mailer: Replica, *news: ApprovalOpened) -> None:
    """Let calls come, and send what is due once the first of them has waited."""
    await mailer.send(*news)
    await mailer.execute(WAITED)
    await post(mailer)


async def test_calls_within_a_short_while_are_one_mail(mailer: Replica, server: MailServer) -> None:
    """The first waits, the others come along; each has its line and the link to its page, and no link decides."""
    first, second, risky = call(1), call(2), call(3, ONLY_ADA | {"min_strength": "web"})
    await mailer.send(first)
    await post(mailer)
    early = len(server.inbox)
    await mailer.execute(WAITED)
    await mailer.send(second, risky, call(4, ONLY_BEN))
    await post(mailer)
    (mail,) = server.inbox
    ids = [each.approval_id for each in (first, second, risky)]
    assert (0, "Placet: 3 calls need your decision") == (early, mail.message["Subject"])
    for part in ("plain", "html"):
        told = mail.part(part)
        assert (ids, [True] * 3) == (pages(told), [f"Pay {n} TRY?" in told for n in (1, 2, 3)])
        assert (False, False) == ("/l/" in told, "Pay 4 TRY?" in told)
    states = await mailer.rows(DELIVERIES)
    assert [(ADA, "sent")] * 3 + [(BEN, "due")] == [(row["recipient"], row["state"]) for row in states]
    assert ([], 3) == (
        await mailer.rows("SELECT 1 FROM notifier.links"),
        len(await mailer.rows("SELECT 1 FROM notifier.mails")),
    )


async def test_a_call_alone_has_its_mail_as_ever(mailer: Replica, server: MailServer) -> None:
    """It comes when its wait is over, with a link that decides and a code; so has each person's own call."""
    await ask(mailer, call(1), call(2, ONLY_BEN))
    assert [("Placet: Pay 1 TRY?", True, True), ("Placet: Pay 2 TRY?", True, True)] == sorted(
        (str(mail.message["Subject"])[:18], bool(mail.link), bool(mail.code)) for mail in server.inbox
    )


async def test_a_first_mail_waits_no_longer_than_half_of_the_time_left(mailer: Replica) -> None:
    """Five seconds where there is an hour, and at once where the deadline has come."""
    late = opened("email", rule=ONLY_ADA, expires_at=opened().expires_at.replace(year=2000))
    await mailer.send(call(1), late)
    waits = (
        "SELECT due_at - updated_at <= interval '5 s' AS fine, due_at > updated_at AS waits FROM notifier.deliveries"
    )
    found = await mailer.rows(f"{waits} ORDER BY due_at")
    assert [{"fine": True, "waits": False}, {"fine": True, "waits": True}] == found


async def test_news_of_each_call_follows_in_the_thread_of_the_list(mailer: Replica, server: MailServer) -> None:
    """Reminders, ends and results refer to the mail that asked; a reminder has a link that decides."""
    first, second = call(1), call(2)
    await ask(mailer, first, second)
    await mailer.send(progressed(first, "reminded", 2))
    await post(mailer)
    await mailer.send(closed(second, decided_by="person:ben"))
    await post(mailer)
    await mailer.send(finished(second))
    await post(mailer)
    listed, reminder, end, ran = server.inbox
    asked = listed.message["Message-ID"]
    assert [asked] * 3 == [mail.message["In-Reply-To"] for mail in (reminder, end, ran)]
    assert [asked, asked, f"{asked} {end.message['Message-ID']}"] == [
        mail.message["References"] for mail in (reminder, end, ran)
    ]
    assert (True, "", True, False) == (
        "Pay 1 TRY?" in reminder.part("plain") and bool(reminder.link),
        end.link,
        "Pay 2 TRY?" in end.part("plain"),
        "Pay 1 TRY?" in end.part("plain"),
    )


async def test_a_list_that_may_have_arrived_comes_again_as_the_same_mail(mailer: Replica, server: MailServer) -> None:
    """The same Message-ID and the same calls; what has come meanwhile has a mail of its own."""
    server.endings = ["lost"]
    first, second, later = call(1), call(2), call(3)
    await ask(mailer, first, second)
    await mailer.send(later)
    await hurry(mailer)
    lost, *others = server.inbox
    again = next(mail for mail in others if mail.message["Message-ID"] == lost.message["Message-ID"])
    (alone,) = [mail for mail in others if mail is not again]
    ids = [first.approval_id, second.approval_id]
    assert (ids, ids) == (pages(lost.part("plain")), pages(again.part("plain")))
    assert (True, ["sent"] * 3) == (
        "Pay 3 TRY?" in alone.part("plain") and bool(alone.link),
        [row["state"] for row in await mailer.rows(DELIVERIES)],
    )


async def test_a_list_that_is_tried_again_is_whole_whoever_else_is_asked(notifier_url: str, server: MailServer) -> None:
    """A part of it would have the Message-ID of all of it, and mail programs drop the second mail of an id."""
    room: dict[str, Any] = {"email_wait_seconds": 5, "notifier_same_max": 0, "notifier_waiting_max": 0}
    async with a_mailer(notifier_url, server, **room) as mailer:
        server.refusals[ADA] = ["451 later"]
        await ask(mailer, *(call(amount) for amount in range(1, 41)))
        await mailer.send(*(call(amount, ONLY_BEN) for amount in range(1, 31)))
        await hurry(mailer)
        mails = {mail.recipients: len(pages(mail.part("plain"))) for mail in server.inbox}
    assert (2, {(ADA,): 40, (BEN,): 30}) == (len(server.inbox), mails)


async def test_what_was_claimed_before_a_crash_is_the_same_mail_after_it(mailer: Replica, server: MailServer) -> None:
    """A process that dies between sending and recording has its list sent once more, by whoever comes next."""
    await ask(mailer, call(1), call(2))
    # As the dead one left it: claimed, and nothing of what the relay said.
    await mailer.execute(
        "UPDATE notifier.deliveries SET state = 'due', reference = NULL, sent_version = 0, sent_revision = 0,"
        " lease_until = now() - interval '1 second'"
    )
    await post(mailer)
    first, second = server.inbox
    same = ("Message-ID", "Subject")
    assert [first.message[name] for name in same] == [second.message[name] for name in same]
    assert pages(first.part("plain")) == pages(second.part("plain"))


@pytest.mark.parametrize("ending", ["lost", "451 later"])
async def test_a_call_that_changed_is_told_apart_from_the_list_it_stood_in(
    mailer: Replica, server: MailServer, ending: str
) -> None:
    """What was decided before the next try is not asked about but told, if they may know of it; the rest is asked."""
    server.endings = [ending]
    first, second, third = call(1), call(2), call(3)
    await ask(mailer, first, second, third)
    await mailer.send(closed(first, "withdrawn", 2))
    await hurry(mailer)
    told = sorted(pages(mail.part("plain")) for mail in server.inbox)
    first_mails = [[each.approval_id for each in (first, second, third)], [first.approval_id]]
    known = ending == "lost"
    assert sorted([*(first_mails if known else []), [second.approval_id, third.approval_id]]) == told
    states = [row["state"] for row in await mailer.rows(DELIVERIES)]
    assert ["sent", "sent", "sent" if known else "spared"] == sorted(states)


async def test_a_list_that_is_refused_gives_each_of_its_calls_up(mailer: Replica, server: MailServer) -> None:
    """Each delivery has its own state and error; another person's is told."""
    server.refusals[ADA] = ["550 no such user"]
    await ask(mailer, call(1, FINANCE), call(2, FINANCE))
    states = await mailer.rows(DELIVERIES)
    assert [(ADA, "given_up")] * 2 + [(BEN, "sent")] * 2 == [(row["recipient"], row["state"]) for row in states]
    assert ["Placet: 2 calls need your decision"] == [mail.message["Subject"] for mail in server.inbox]


async def test_a_bounce_of_a_list_gives_all_of_its_calls_up(mailer: Replica, server: MailServer) -> None:
    """The id in the envelope's sender finds every approval that the mail was about."""
    await ask(mailer, call(1), call(2))
    mail_id = server.inbox[0].sender.removeprefix("bounces+").removesuffix("@example.org")
    await mailer.send(MailBounced(tenant="acme", mail_id=mail_id, status="5.1.1", reason="no such user"))
    assert ["given_up"] * 2 == [row["state"] for row in await mailer.rows(DELIVERIES)]


async def test_an_escalation_waits_for_nobody(mailer: Replica, server: MailServer) -> None:
    """Who is asked too has a mail at once, and takes no waiting call along; who was asked before is told in time."""
    news = call(1, ONLY_BEN)
    await mailer.send(news, call(2))
    await mailer.send(progressed(news, "escalated", 2, approvers=["person:ada"]))
    await post(mailer)
    told = [(mail.recipients, re.findall(r"Pay \d TRY\?", mail.part("plain"))[0]) for mail in server.inbox]
    assert [((ADA,), "Pay 1 TRY?")] == told
    await mailer.execute(WAITED)
    await post(mailer)
    assert {(ADA,), (BEN,)} == {mail.recipients for mail in server.inbox[1:]}


async def test_a_list_counts_once_against_the_pace_of_its_channel(notifier_url: str, server: MailServer) -> None:
    """Thirty calls at twelve mails a minute, of which two go at once, are one mail."""
    pace: dict[str, Any] = {
        "notifier_cards_per_minute": {"email": 12},
        "notifier_waiting_max": 0,
        "notifier_same_max": 0,
    }
    async with a_mailer(notifier_url, server, email_wait_seconds=5, **pace) as mailer:
        await ask(mailer, *(call(number) for number in range(30)))
    assert ["Placet: 30 calls need your decision"] == [mail.message["Subject"] for mail in server.inbox]


async def test_what_there_is_no_room_for_is_not_listed(notifier_url: str, server: MailServer) -> None:
    """Of calls that wait for one person only so many are mailed, as ever; the rest is kept back."""
    limits: dict[str, Any] = {"notifier_waiting_max": 2, "notifier_same_max": 0}
    async with a_mailer(notifier_url, server, email_wait_seconds=5, **limits) as mailer:
        await ask(mailer, *(call(number) for number in range(4)))
        states = sorted(row["state"] for row in await mailer.rows(DELIVERIES))
    assert (["kept", "kept", "sent", "sent"], ["Placet: 2 calls need your decision"]) == (
        states,
        [mail.message["Subject"] for mail in server.inbox],
    )
