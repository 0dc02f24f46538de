"""Digests: whom many calls wait for gets one mail with a list, and nothing that matters is left out of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage

import pytest

from services.notifier.bounces import give_up
from services.notifier.channels.email import DigestTerms, Post
from services.notifier.channels.email.digests import RETRY_SECONDS, Digests
from services.notifier.channels.email.letters import Letterhead
from services.notifier.channels.email.links import Links
from services.notifier.channels.email.smtp import Relay
from shared.messages import ApprovalOpened
from shared.work import UnitOfWork
from tests.builders import a_call
from tests.integration.notifier.mailing import ADA, DELIVERIES, ONLY_ADA, a_mailer, hurry, post
from tests.support.approval_news import closed, opened, progressed
from tests.support.house import BreakingUnits, Replica
from tests.support.smtp_server import MailServer

LEFT = "SELECT (SELECT count(*) FROM notifier.digests) AS digests, (SELECT count(*) FROM notifier.links) AS links"


@pytest.fixture
def server() -> Iterator[MailServer]:
    """A relay that takes everything."""
    with MailServer().running() as running:
        yield running


@pytest.fixture
async def mailer(notifier_url: str, server: MailServer) -> AsyncIterator[Replica]:
    """A notifier that sends two mails that ask, and a digest of the rest."""
    async with a_mailer(notifier_url, server, email_digest_after=2) as replica:
        yield replica


async def ask(mailer: Replica, count: int) -> list[ApprovalOpened]:
    """Let calls wait for Ada, and send what is due."""
    news = [
        opened("email", rule=ONLY_ADA, call=a_call(arguments={"amount": n}), summary=f"Pay {n} TRY?")
        for n in range(count)
    ]
    await mailer.send(*news)
    await post(mailer)
    return news


async def test_what_comes_on_top_becomes_one_mail_with_a_list(mailer: Replica, server: MailServer) -> None:
    """Two mails of their own, and one that lists the other three, each with its own link."""
    news = await ask(mailer, 5)
    alone = len(server.inbox)
    await hurry(mailer)
    await hurry(mailer)
    digest = server.inbox[-1]
    text = digest.part("plain")
    links = {line.strip() for line in text.splitlines() if "/l/" in line}
    told = [each.summary for each in news if each.summary in text]
    assert (2, 3, 3, 3) == (alone, len(server.inbox), len(links), len(told))
    assert ("Placet: 3 calls wait for your decision", True) == (
        str(digest.message["Subject"]),
        all(each in digest.part("html") for each in told),
    )
    assert [{"digests": 0, "links": 5}] == await mailer.rows(LEFT)
    assert {"sent"} == {row["state"] for row in await mailer.rows(DELIVERIES)}


async def test_what_is_dangerous_stands_alone(mailer: Replica, server: MailServer) -> None:
    """A high-risk call is never one line of a list."""
    await ask(mailer, 3)
    await mailer.send(opened("email", rule=ONLY_ADA | {"min_strength": "web"}, summary="Drop the database?"))
    await post(mailer)
    assert (3, True) == (len(server.inbox), "Drop the database?" in server.inbox[-1].part("plain"))


async def test_a_digest_says_what_is_over_of_what_it_told(mailer: Replica, server: MailServer) -> None:
    """What somebody else decided is listed with its end; what ended before it was told is not."""
    news = await ask(mailer, 5)
    mine = [each.summary for each in news if not any(each.summary in mail.part("plain") for mail in server.inbox)]
    first, second, third = (each for each in news if each.summary in mine)
    await mailer.send(closed(third, "withdrawn", 2))
    await hurry(mailer)
    listed = server.inbox[-1].part("plain")
    await mailer.send(closed(first, "denied", 2, decided_by="person:ben"))
    await post(mailer)
    await hurry(mailer)
    over = server.inbox[-1].part("plain")
    assert (True, True, False) == tuple(each.summary in listed for each in (first, second, third))
    assert (4, True, False, True) == (
        len(server.inbox),
        f"{first.summary}: denied" in over,
        second.summary in over,
        "Over since the last mail" in over,
    )
    subjects = [str(mail.message["Subject"]) for mail in server.inbox[-2:]]
    assert ["Placet: 2 calls wait for your decision", "Placet: 1 call is over that you were told of"] == subjects
    assert "https://placet.example/inbox" in over.splitlines()


async def test_what_gathers_is_not_shown_before_its_digest_is(mailer: Replica, server: MailServer) -> None:
    """A delivery says which revision people have seen; what is over before its digest comes was never sent."""
    first, second, third, fourth = await ask(mailer, 4)
    shown = "SELECT approval_id, state, sent_revision FROM notifier.deliveries"
    gathered = {row["approval_id"] for row in await mailer.rows(shown) if row["sent_revision"] == 0}
    news = next(each for each in (first, second, third, fourth) if each.approval_id in gathered)
    await mailer.send(closed(news, "withdrawn", 2))
    await post(mailer)
    await hurry(mailer)
    states = sorted((row["state"], row["sent_revision"]) for row in await mailer.rows(shown))
    assert (2, [("sent", 1)] * 3 + [("spared", 0)], 3) == (len(gathered), states, len(server.inbox))


async def test_a_digest_lists_nothing_that_its_person_has_voted_on(mailer: Replica, server: MailServer) -> None:
    """What waits for others only does not wait for them."""
    news = await ask(mailer, 4)
    alone = "".join(mail.part("plain") for mail in server.inbox)
    voted, other = (each for each in news if each.summary not in alone)
    await mailer.send(progressed(voted, "voted", 2, person="person:ada"))
    await hurry(mailer)
    listed = server.inbox[-1].part("plain")
    assert (3, False, True) == (len(server.inbox), voted.summary in listed, other.summary in listed)


async def test_a_digest_that_does_not_arrive_is_tried_again_as_the_same_mail(
    mailer: Replica, server: MailServer
) -> None:
    """The same news has the same Message-ID."""
    await ask(mailer, 3)
    server.endings = ["lost"]
    await hurry(mailer)
    await hurry(mailer)
    first, second = server.inbox[2:]
    assert first.message["Message-ID"] == second.message["Message-ID"]
    assert 0 == (await mailer.rows(LEFT))[0]["digests"]


async def test_a_refused_digest_gives_its_cards_up(mailer: Replica, server: MailServer) -> None:
    """Nobody was told, so nobody is taken for told."""
    await ask(mailer, 4)
    server.refusals[ADA] = ["550 gone"]
    await hurry(mailer)
    states = [row["state"] for row in await mailer.rows("SELECT state FROM notifier.deliveries ORDER BY state")]
    assert (["given_up"] * 2 + ["sent"] * 2, 0) == (states, (await mailer.rows(LEFT))[0]["digests"])


async def test_a_digest_that_comes_too_late_gives_its_cards_up(mailer: Replica, server: MailServer) -> None:
    """The next try is behind the deadline of one call: another place is told of it, and the other call waits."""
    await ask(mailer, 3)
    soon = datetime.now(UTC) + timedelta(seconds=4)
    await mailer.send(opened("email", rule=ONLY_ADA, expires_at=soon))
    await post(mailer)
    server.endings = ["lost"]
    await hurry(mailer)
    states = [row["state"] for row in await mailer.rows("SELECT state FROM notifier.deliveries ORDER BY state")]
    assert (["given_up"] + ["sent"] * 3, 1) == (states, (await mailer.rows(LEFT))[0]["digests"])


class Broken(Relay):
    """A relay with a bug."""

    async def send(self, message: EmailMessage, *, sender: str, recipient: str) -> None:
        """Break."""
        del message, sender, recipient
        raise ZeroDivisionError


def digests_of(mailer: Replica, relay: Relay, units: UnitOfWork | None = None) -> Digests:
    """Return what sends the digests of a mailer through `relay`."""
    post = Post(relay, Letterhead("placet@example.org"), Links("https://placet.example", 3600))
    return Digests(units or mailer.units, post, DigestTerms(2, timedelta(minutes=10)), give_up)


async def test_a_digest_that_breaks_is_given_up_in_the_end(mailer: Replica) -> None:
    """A bug is a failed try like any other: after the last one nobody is taken for told."""
    await ask(mailer, 4)
    digests = digests_of(mailer, Broken("127.0.0.1", 25))
    for _ in range(len(RETRY_SECONDS) + 1):
        await mailer.execute("UPDATE notifier.digests SET due_at = now() - interval '1 second'")
        await digests.run_once()
    rows = await mailer.rows("SELECT state, error FROM notifier.deliveries ORDER BY state")
    assert [("given_up", "bug: ZeroDivisionError")] * 2 + [("sent", "")] * 2 == [tuple(row.values()) for row in rows]


async def test_a_round_of_digests_ends_when_all_are_written(mailer: Replica, server: MailServer) -> None:
    """The transaction of one breaks, and the round says so; it does so behind the others."""
    await mailer.send(*(opened("email", rule={"approvers": ["group:finance"]}) for _ in range(3)))
    await post(mailer)
    await mailer.execute("UPDATE notifier.digests SET due_at = now() - interval '1 second'")
    relay, before = Relay("127.0.0.1", server.port, "none"), len(server.inbox)
    with pytest.raises(ZeroDivisionError):
        await digests_of(mailer, relay, BreakingUnits(mailer.units, at=2)).run_once()
    assert (1, [{"digests": 1}]) == (
        len(server.inbox) - before,
        await mailer.rows("SELECT count(*) AS digests FROM notifier.digests"),
    )


async def test_what_is_kept_back_is_counted_in_a_digest(notifier_url: str, server: MailServer) -> None:
    """Cards that are alike and not mailed are counted, in one mail, and told again only when they grow."""
    async with a_mailer(notifier_url, server, notifier_same_max=1) as mailer:
        duties = {duty.name: duty for duty in mailer.service.duties}
        for count in (3, 1):
            for _ in range(count):
                await mailer.send(opened("email", rule=ONLY_ADA, summary="Pay Lin?"))
            for _ in range(2):
                await post(mailer)
                await duties["recount-cards"].run_once()
                await hurry(mailer)
    texts = [mail.part("plain") for mail in server.inbox]
    counted = [re.findall(r"Alike and waiting: (\d+)", text) for text in texts]
    assert [[], ["2"], ["3"]] == counted
    assert all(each in server.inbox[1].part("html") for each in ("Alike and waiting", "Code to type there"))


async def test_the_window_forgets(mailer: Replica, server: MailServer) -> None:
    """After a quiet window people are asked by mails of their own again."""
    await ask(mailer, 3)
    await hurry(mailer)
    await mailer.execute("UPDATE notifier.mails SET made_at = made_at - interval '11 minutes'")
    await ask(mailer, 1)
    assert 4 == len(server.inbox)


async def test_old_mails_are_forgotten(mailer: Replica, server: MailServer) -> None:
    """Links and mails that were over a month ago go; what is younger stays."""
    await ask(mailer, 2)
    await mailer.execute(
        "UPDATE notifier.links SET expires_at = now() - interval '31 days'"
        " WHERE token_hash = (SELECT min(token_hash) FROM notifier.links)"
    )
    await mailer.execute("UPDATE notifier.mails SET made_at = now() - interval '31 days'")
    duty = next(duty for duty in mailer.service.duties if duty.name == "forget-mails")
    await duty.run_once()
    left = "SELECT (SELECT count(*) FROM notifier.mails) AS mails, (SELECT count(*) FROM notifier.links) AS links"
    assert [{"mails": 0, "links": 1}] == await mailer.rows(left)


def test_a_digest_leaves_time_to_decide() -> None:
    """With less than a window left, it comes when half of that is over."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    terms = DigestTerms(2, timedelta(minutes=10))
    deadlines = [None, now + timedelta(hours=1), now + timedelta(minutes=4), now - timedelta(minutes=1)]
    assert [10, 10, 2, 0] == [(terms.due(now, each) - now).total_seconds() / 60 for each in deadlines]
