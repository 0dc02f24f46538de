"""Mails through a real SMTP server: one thread per approval and person, a link each, and what refusals come to."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from placet.contracts.messages import ApprovalOpened, ApprovalProgressed, KeyOffered, MailBounced, ShownCall
from placet.contracts.topology import RETRIES_MAX
from placet.notifier.channels import ChannelFailed
from placet.notifier.falling_back import see_to_untold
from placet.runtime.bus import ATTEMPT_HEADER, Delivery
from placet.runtime.consumer import Consumer, read_envelope
from tests.builders import a_call, an_envelope, an_event
from tests.integration.notifier.mailing import ADA, BEN, DELIVERIES, FINANCE, ONLY_ADA, a_mailer, hurry, post
from tests.support.approval_news import closed, finished, opened, progressed
from tests.support.house import Replica
from tests.support.smtp_server import MailServer, tls

LINKS = "SELECT * FROM notifier.links ORDER BY expires_at"


@pytest.fixture
def server() -> Iterator[MailServer]:
    """A relay that takes everything."""
    with MailServer().running() as running:
        yield running


@pytest.fixture
async def mailer(notifier_url: str, server: MailServer) -> AsyncIterator[Replica]:
    """A notifier that mails through it."""
    async with a_mailer(notifier_url, server) as replica:
        yield replica


def edited(news: ApprovalOpened, person: str = "person:ben") -> ApprovalProgressed:
    """Return the news that a person changed the amount to 99, which voids earlier votes and is theirs."""
    call = a_call(call_id=news.call.call_id, arguments={"amount": 99, "currency": "TRY"})
    shown = ShownCall.model_validate(call.model_dump(include=set(ShownCall.model_fields)))
    return progressed(news, "edited", 2, person=person, call=shown, summary="Over 99 TRY?")


async def test_everybody_who_may_decide_gets_one_mail(mailer: Replica, server: MailServer) -> None:
    """One person each, in two parts that say the same, and nobody's program answers it."""
    news = opened("email", rule=FINANCE)
    await mailer.send(news, news)
    await post(mailer)
    await post(mailer)
    (mail,) = server.of(ADA)
    assert (1, 2) == (len(server.of(BEN)), len(server.inbox))
    headers = ("To", "From", "Auto-Submitted", "X-Auto-Response-Suppress", "X-Placet-Approval")
    assert [ADA, "Placet <placet@example.org>", "auto-generated", "All", news.approval_id] == [
        str(mail.message[name]) for name in headers
    ]
    assert ("multipart/alternative", ["text/plain", "text/html"]) == (
        mail.message.get_content_type(),
        [part.get_content_type() for part in mail.message.iter_parts()],
    )
    for part in ("plain", "html"):
        shown = mail.part(part)
        assert [True] * 5 == [
            text in shown for text in (news.summary, "299", "TRY", news.call.digest[:12], "https://placet.example/l/")
        ]
    assert [True] * 4 == [name not in mail.message for name in ("Cc", "Bcc", "List-Unsubscribe", "Precedence")]


async def test_a_mail_says_that_such_calls_are_stopped_and_a_later_one_that_they_are_not(
    mailer: Replica, server: MailServer
) -> None:
    """As it was when it was sent: nobody opens a page in vain without having been told."""
    news = opened("email", rule=ONLY_ADA)
    other = opened("email", rule=ONLY_ADA, call=a_call(tool="deploy"))
    await mailer.execute("INSERT INTO read.stops VALUES ('acme', :tool, NULL, 'an incident')", tool=news.call.tool)
    for each in (news, other):
        # Mails that are due together go out in any order.
        await mailer.send(each)
        await post(mailer)
    await mailer.execute("DELETE FROM read.stops")
    await mailer.send(progressed(news, "reminded", 2))
    await post(mailer)
    told = [["“an incident”" in mail.part("html"), '"an incident"' in mail.part("plain")] for mail in server.inbox]
    assert [[True, True], [False, False], [False, False]] == told


async def test_a_reminder_is_mailed_once_however_many_calls_are_kept_back_after_it(
    notifier_url: str, server: MailServer
) -> None:
    """The shown card counts them anew each time, which is worth no mail."""
    async with a_mailer(notifier_url, server, notifier_same_max=1) as mailer:
        duties = {duty.name: duty for duty in mailer.service.duties}
        first = opened("email", rule=ONLY_ADA)
        await mailer.send(first)
        await post(mailer)
        await mailer.send(progressed(first, "reminded", 2))
        await post(mailer)
        for _ in range(3):
            await mailer.send(opened("email", rule=ONLY_ADA))
            await post(mailer)
            await duties["recount-cards"].run_once()
            await post(mailer)
        rows = await mailer.rows("SELECT state, card->>'similar' AS similar FROM notifier.deliveries ORDER BY state")
    assert (2, ["kept", "kept", "kept", "sent"], "3") == (
        len(server.inbox),
        [row["state"] for row in rows],
        rows[-1]["similar"],
    )


async def test_a_link_is_for_one_person_and_only_its_hash_is_kept(mailer: Replica, server: MailServer) -> None:
    """Two people have two links; the database could not tell either of them."""
    news = opened("email", rule=FINANCE)
    await mailer.send(news)
    await post(mailer)
    rows = {row["person"]: row for row in await mailer.rows(LINKS)}
    tokens = {person: server.of(f"{person}@example.org")[0].link.rpartition("/")[2] for person in ("ada", "ben")}
    for person, token in tokens.items():
        row = rows[f"person:{person}"]
        assert (hashlib.sha256(token.encode()).hexdigest(), news.call.digest, 1, news.approval_id, "acme") == (
            row["token_hash"],
            row["digest"],
            row["revision"],
            row["approval_id"],
            row["tenant"],
        )
        assert (43, True) == (len(token), row["expires_at"] <= news.expires_at)
        everything = str(await mailer.rows("SELECT d.*, m.* FROM notifier.deliveries d, notifier.mails m"))
        assert (False, False) == (token in str(rows), token in everything)


async def test_a_link_does_not_outlive_its_time(notifier_url: str, server: MailServer) -> None:
    """It is short-lived also where the deadline is far away."""
    async with a_mailer(notifier_url, server, email_link_seconds=60) as mailer:
        await mailer.send(opened("email", rule=ONLY_ADA))
        await post(mailer)
        soon = "SELECT expires_at < now() + interval '61 s' AS soon FROM notifier.links"
        assert [{"soon": True}] == await mailer.rows(soon)


async def test_how_it_ended_follows_in_the_thread(mailer: Replica, server: MailServer) -> None:
    """The same subject, and references to the first mail; whoever decided hears only how it ran."""
    news = opened("email", rule=FINANCE)
    await mailer.send(news)
    await post(mailer)
    # A decision that closes an approval at once leaves its revision as it was.
    await mailer.send(closed(news, revision=1, decided_by="person:ada"))
    await post(mailer)
    await mailer.send(finished(news))
    await post(mailer)
    (asked, ran), (first, second, third) = server.of(ADA), server.of(BEN)
    assert (f"Re: {asked.message['Subject']}", asked.message["Message-ID"]) == (
        ran.message["Subject"],
        ran.message["In-Reply-To"],
    )
    ids = [mail.message["Message-ID"] for mail in (first, second)]
    assert (" ".join(ids), ids[0]) == (third.message["References"], third.message["In-Reply-To"])
    assert (True, True, True) == (
        "approved" in second.part("plain"),
        "succeeded" in third.part("plain"),
        "succeeded" in ran.part("html"),
    )
    assert ["", "", ""] == [mail.link for mail in (ran, second, third)]


async def test_a_vote_is_worth_no_mail_and_a_reminder_is(mailer: Replica, server: MailServer) -> None:
    """What changes nothing for the person is not mailed; a reminder comes into the thread with a link of its own."""
    news = opened("email", rule=ONLY_ADA)
    await mailer.send(news)
    await post(mailer)
    await mailer.send(progressed(news, "voted", 2, person="person:ben"))
    await post(mailer)
    quiet = len(server.inbox)
    await mailer.send(progressed(news, "reminded", 3))
    await post(mailer)
    first, reminder = server.inbox
    assert (1, first.message["Message-ID"], True) == (
        quiet,
        reminder.message["In-Reply-To"],
        reminder.link not in {"", first.link},
    )


async def test_changed_arguments_begin_a_new_thread(mailer: Replica, server: MailServer) -> None:
    """What people were asked about would not run any more: they are asked anew, with the difference and a new link."""
    news = opened("email", rule=ONLY_ADA)
    await mailer.send(news)
    await post(mailer)
    edit = edited(news)
    await mailer.send(edit)
    await post(mailer)
    first, second = server.inbox
    assert (None, None) == (second.message["In-Reply-To"], second.message["References"])
    links = await mailer.rows("SELECT digest FROM notifier.links ORDER BY revision")
    assert edit.call is not None
    assert [news.call.digest, edit.call.digest] == [row["digest"] for row in links]
    assert (True, True, True) == (
        "99 (before: 299)" in second.part("plain"),
        "Over 99 TRY?" in second.part("plain"),
        first.link != second.link,
    )


@pytest.mark.parametrize("slow", [True, False], ids=["slow", "fast"])
async def test_an_edit_that_decides_is_told_in_the_thread(mailer: Replica, server: MailServer, *, slow: bool) -> None:
    """Its maker hears how the call ran; the others too, with what was changed of what they were asked about."""
    news = opened("email", rule=FINANCE)
    await mailer.send(news)
    await post(mailer)
    await mailer.send(edited(news, "person:ada"), closed(news, revision=2, decided_by="person:ada"))
    if slow:
        await post(mailer)
    await mailer.send(finished(news))
    await post(mailer)
    (asked, ran), (first, *later) = server.of(ADA), server.of(BEN)
    assert (asked.message["Message-ID"], True) == (ran.message["References"], "succeeded" in ran.part("plain"))
    assert [first.message["Message-ID"]] * (2 if slow else 1) == [mail.message["In-Reply-To"] for mail in later]
    for mail in (ran, *later):
        told = ("Its arguments have changed since it was proposed.", "299")
        assert [True] * 4 == [words in mail.part(part) for words in told for part in ("plain", "html")]


async def test_who_made_an_edit_is_not_asked_about_it(mailer: Replica, server: MailServer) -> None:
    """It is their vote; the other one is asked, and both hear the end."""
    news = opened("email", rule=FINANCE | {"approvals": 2})
    await mailer.send(news)
    await post(mailer)
    await mailer.send(edited(news, "person:ada"))
    await post(mailer)
    asked = len(server.of(ADA)), len(server.of(BEN))
    await mailer.send(closed(news, decided_by="person:ben"))
    await post(mailer)
    first, end = server.of(ADA)
    assert ((1, 2), first.message["Message-ID"]) == (asked, end.message["In-Reply-To"])


async def test_nobody_hears_the_end_of_what_they_were_never_asked(mailer: Replica, server: MailServer) -> None:
    """A call that was withdrawn before its mail went out is told to nobody."""
    news = opened("email", rule=ONLY_ADA)
    await mailer.send(news)
    await mailer.send(closed(news, "withdrawn", 2))
    await post(mailer)
    assert ([], ["spared"]) == (server.inbox, [row["state"] for row in await mailer.rows(DELIVERIES)])


async def test_what_was_not_mailed_does_not_count_as_shown(mailer: Replica, server: MailServer) -> None:
    """A vote, and an edit of the reader's own that decides, are worth no mail: what was shown is the first revision."""
    news = opened("email", rule=ONLY_ADA)
    await mailer.send(news)
    await post(mailer)
    await mailer.send(edited(news, "person:ada"), closed(news, revision=2, decided_by="person:ada"))
    await post(mailer)
    shown = "SELECT state, revision, sent_revision FROM notifier.deliveries"
    (before,) = await mailer.rows(shown)
    await mailer.send(finished(news))
    await post(mailer)
    (after,) = await mailer.rows(shown)
    assert [("sent", 2, 1), ("sent", 2, 2), 2] == [tuple(before.values()), tuple(after.values()), len(server.inbox)]


async def test_a_busy_relay_is_tried_again_with_the_same_message_id(mailer: Replica, server: MailServer) -> None:
    """Whoever lost the answer sends again, and mail programs tell the repeat; both links decide."""
    server.refusals[ADA] = ["451 try later"]
    server.endings = ["lost"]
    await mailer.send(opened("email", rule=ONLY_ADA))
    await post(mailer)
    waiting = await mailer.rows(DELIVERIES)
    await hurry(mailer)
    await hurry(mailer)
    first, second = server.inbox
    assert [("due", True)] == [(row["state"], "451" in row["error"]) for row in waiting]
    assert (first.message["Message-ID"], True) == (second.message["Message-ID"], first.link != second.link)
    known = {row["token_hash"] for row in await mailer.rows(LINKS)}
    sent = {hashlib.sha256(mail.link.rpartition("/")[2].encode()).hexdigest() for mail in (first, second)}
    assert (True, ["sent"]) == (sent <= known, [row["state"] for row in await mailer.rows(DELIVERIES)])


@pytest.mark.parametrize(("decider", "mails"), [("person:ben", 3), ("person:ada", 2)])
async def test_who_may_have_a_mail_whose_answer_was_lost_is_told_the_end(
    mailer: Replica, server: MailServer, decider: str, mails: int
) -> None:
    """The approval is over before the next try: a mail too many is better than a silent end."""
    server.endings = ["lost"]
    news = opened("email", rule=ONLY_ADA)
    await mailer.send(news)
    await post(mailer)
    await mailer.send(closed(news, decided_by=decider))
    await hurry(mailer)
    await mailer.send(finished(news))
    await hurry(mailer)
    assert mails == len(server.inbox)


async def test_what_the_relay_refused_is_told_no_end(mailer: Replica, server: MailServer) -> None:
    """It said that it has not taken the mail, so nobody can have it."""
    server.refusals[ADA] = ["451 try later"]
    server.endings = ["452 disk full"]
    news = opened("email", rule=ONLY_ADA)
    await mailer.send(news)
    await post(mailer)
    await hurry(mailer)
    waiting = await mailer.rows(DELIVERIES)
    await mailer.send(closed(news, decided_by="person:ben"))
    await hurry(mailer)
    after = await mailer.rows(DELIVERIES)
    assert ([], ["due"], ["spared"]) == (server.inbox, *([row["state"] for row in rows] for rows in (waiting, after)))


@pytest.mark.parametrize("answer", ["550 no such user", "553 not here"])
async def test_a_refused_recipient_is_given_up_at_once(mailer: Replica, server: MailServer, answer: str) -> None:
    """No further try can help; the others have their mails."""
    server.refusals[ADA] = [answer]
    await mailer.send(opened("email", rule=FINANCE))
    await post(mailer)
    assert [(ADA, "given_up", True), (BEN, "sent", False)] == [
        (row["recipient"], row["state"], answer in row["error"]) for row in await mailer.rows(DELIVERIES)
    ]


async def test_what_a_relay_says_in_odd_bytes_is_kept_as_far_as_it_can_be(mailer: Replica, server: MailServer) -> None:
    """No store takes a NUL or half a character, and a try that cannot be settled is made again for ever."""
    server.refusals[ADA] = ["550 no\x00such user"]
    await mailer.send(opened("email", rule=ONLY_ADA))
    await post(mailer)
    (row,) = await mailer.rows(DELIVERIES)
    assert ("given_up", True) == (row["state"], "550 no such user" in row["error"])
    assert "the relay said 550 Empf nger" == str(ChannelFailed("the relay said 550 Empf\udce4nger"))


async def test_a_refused_text_is_given_up_and_a_busy_relay_is_not(mailer: Replica, server: MailServer) -> None:
    """5xx after the text is for good, 4xx is not."""
    server.endings = ["554 looks like spam", "452 disk full"]
    await mailer.send(opened("email", rule=ONLY_ADA))
    await post(mailer)
    await mailer.send(opened("email", rule={"approvers": ["person:ben"]}))
    await post(mailer)
    assert ["given_up", "due"] == [row["state"] for row in await mailer.rows(DELIVERIES)]


async def test_an_address_that_is_none_is_given_up(mailer: Replica, server: MailServer) -> None:
    """A second recipient cannot be smuggled into a directory's address."""
    await mailer.send(opened("email", rule={"approvers": ["person:odd"]}))
    await post(mailer)
    assert ([], ["given_up"]) == (server.inbox, [row["state"] for row in await mailer.rows(DELIVERIES)])


async def test_a_relay_without_tls_gets_no_mail_where_tls_is_asked_for(notifier_url: str, server: MailServer) -> None:
    """Nobody in between can talk the connection out of being safe."""
    async with a_mailer(notifier_url, server, email_security="starttls") as mailer:
        await mailer.send(opened("email", rule=ONLY_ADA))
        await post(mailer)
        (row,) = await mailer.rows(DELIVERIES)
    assert ([], "due", True) == (server.inbox, row["state"], "STARTTLS" in row["error"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("password", "trusts", "mails"), [("right", "it", 1), ("wrong", "it", 0), ("right", "", 0)])
async def test_a_relay_with_tls_and_a_login(
    notifier_url: str, tmp_path: Path, password: str, trusts: str, mails: int
) -> None:
    """Mails go over TLS to a relay whose certificate is trusted, with a login; what is wrong there is nobody's end."""
    context, certificate = tls(tmp_path)
    settings: dict[str, Any] = {
        "email_host": "localhost",
        "email_security": "starttls",
        "email_username": "placet",
        "email_password": SecretStr(password),
        "email_ca_file": certificate if trusts else None,
    }
    with MailServer(login=("placet", "right")).running(tls_context=context, require_starttls=True) as server:
        async with a_mailer(notifier_url, server, **settings) as mailer:
            await mailer.send(opened("email", rule=ONLY_ADA))
            await post(mailer)
            (row,) = await mailer.rows(DELIVERIES)
    assert ([True] * mails, "sent" if mails else "due", False) == (
        [mail.safe for mail in server.inbox],
        row["state"],
        password in row["error"],
    )


async def test_a_rule_that_wants_more_has_no_link_that_decides(mailer: Replica, server: MailServer) -> None:
    """The mail leads to the page of the approval, where people sign in."""
    news = opened("email", rule=ONLY_ADA | {"min_strength": "web"})
    await mailer.send(news)
    await post(mailer)
    (mail,) = server.inbox
    page = f"/inbox/{news.approval_id}"
    assert ("", True, []) == (mail.link, page in mail.part("plain"), await mailer.rows(LINKS))


async def test_arguments_stay_out_of_mails_where_that_is_asked_for(notifier_url: str, server: MailServer) -> None:
    """Mail systems keep copies: an installation may send no arguments at all."""
    async with a_mailer(notifier_url, server, email_arguments=False) as mailer:
        await mailer.send(opened("email", rule=ONLY_ADA, summary="Create a payment link?"))
        await post(mailer)
    (mail,) = server.inbox
    told = mail.part("html") + mail.part("plain")
    # Names and not values: a short number stands in many a random id.
    assert (False, True) == ("amount" in told, "not sent by mail" in told)


async def test_a_bounce_is_given_up_and_the_next_place_is_told(mailer: Replica, server: MailServer) -> None:
    """The id in the envelope's sender finds the approval; with nobody else told, the escalation's place is."""
    step = {"after_seconds": 600, "approvers": ["person:ada"], "channels": ["log"]}
    await mailer.send(opened("email", rule=ONLY_ADA | {"escalations": [step]}))
    await post(mailer)
    (mail,) = server.inbox
    mail_id = mail.sender.removeprefix("bounces+").removesuffix("@example.org")
    assert mail.message["Message-ID"] == f"<{mail_id}@example.org>"
    bounce = MailBounced(tenant="acme", mail_id=mail_id, status="5.1.1", reason="no such user")
    await mailer.send(bounce)
    await mailer.send(bounce)
    await see_to_untold(mailer.units)
    states = "SELECT channel, state, error FROM notifier.deliveries ORDER BY channel"
    assert [("email", "given_up", "the mail came back: 5.1.1 no such user"), ("log", "due", "")] == [
        tuple(row.values()) for row in await mailer.rows(states)
    ]


async def test_a_bounce_says_its_status_once(mailer: Replica, server: MailServer) -> None:
    """A report without words of its own repeats it."""
    await mailer.send(opened("email", rule=ONLY_ADA))
    await post(mailer)
    mail_id = server.inbox[0].message["Message-ID"][1:33]
    await mailer.send(MailBounced(tenant="acme", mail_id=mail_id, status="5.1.1", reason="5.1.1"))
    assert ["the mail came back: 5.1.1"] == [row["error"] for row in await mailer.rows(DELIVERIES)]


async def test_a_bounce_of_another_tenants_mail_means_nothing(mailer: Replica, server: MailServer) -> None:
    """Who hands bounces over for one tenant cannot take another's people off."""
    await mailer.send(opened("email", rule=ONLY_ADA))
    await post(mailer)
    mail_id = server.inbox[0].message["Message-ID"][1:33]
    await mailer.send(MailBounced(tenant="other", mail_id=mail_id))
    assert ["sent"] == [row["state"] for row in await mailer.rows(DELIVERIES)]


async def test_of_calls_that_are_alike_only_so_many_are_mailed(notifier_url: str, server: MailServer) -> None:
    """The rest is kept back, and mailed when one of them is over; what is dangerous always has a mail of its own."""
    async with a_mailer(notifier_url, server, notifier_same_max=2) as mailer:
        calls = [a_call(arguments={"amount": n}) for n in range(4)]
        news = [opened("email", rule=ONLY_ADA, call=call) for call in calls]
        await mailer.send(*news)
        await post(mailer)
        first = len(server.inbox)
        await mailer.send(opened("email", rule=ONLY_ADA | {"min_strength": "web"}, summary="Drop the database?"))
        await post(mailer)
        dangerous = server.inbox[-1].part("plain")
        states = [row["state"] for row in await mailer.rows(DELIVERIES)]
    assert (2, 3, True) == (first, len(server.inbox), "Drop the database?" in dangerous)
    assert {"kept": 2, "sent": 3} == {state: states.count(state) for state in ("kept", "sent")}


async def test_old_mails_are_forgotten(mailer: Replica, server: MailServer) -> None:
    """Links and mails that were over a month ago go; what is younger stays."""
    await mailer.send(opened("email", rule=ONLY_ADA), opened("email", rule=ONLY_ADA))
    await post(mailer)
    await mailer.execute(
        "UPDATE notifier.links SET expires_at = now() - interval '31 days'"
        " WHERE token_hash = (SELECT min(token_hash) FROM notifier.links)"
    )
    await mailer.execute("UPDATE notifier.mails SET made_at = now() - interval '31 days'")
    duty = next(duty for duty in mailer.service.duties if duty.name == "forget-mails")
    await duty.run_once()
    left = "SELECT (SELECT count(*) FROM notifier.mails) AS mails, (SELECT count(*) FROM notifier.links) AS links"
    assert ([{"mails": 0, "links": 1}], 2) == (await mailer.rows(left), len(server.inbox))


async def test_a_code_goes_to_the_owner_of_a_key_alone(mailer: Replica, server: MailServer) -> None:
    """Who made the key is told nothing but is named, and the code is nowhere else."""
    offered = KeyOffered(tenant="acme", key_id="0123456789abcdef", person="ada", by="person:ben", code="AB2CD-EF3GH")
    await mailer.send(offered)
    ((mail,), others) = server.of(ADA), server.of(BEN)
    words = mail.message.get_content()
    assert ("Placet: An API key in your name", [], True, True) == (
        mail.message["Subject"],
        others,
        "placet keys take-over --code AB2CD-EF3GH" in words,
        words.startswith("Ben made the API key 0123456789abcdef"),
    )


async def test_a_code_for_nobody_is_sent_to_nobody(mailer: Replica, server: MailServer) -> None:
    """Who is not listed, or has no address that works, takes a key over in another way."""
    for person in ("nobody", "odd"):
        await mailer.send(KeyOffered(tenant="acme", key_id="k", person=person, by="person:ben", code="AB2CD-EF3GH"))
    assert [] == server.inbox


async def test_a_code_that_cannot_be_sent_is_kept_nowhere(mailer: Replica, server: MailServer) -> None:
    """H4: administrators read dead letters, so one says which key's code was not sent, and not the code."""
    offered = KeyOffered(tenant="acme", key_id="0123456789abcdef", person="ada", by="person:ben", code="AB2CD-EF3GH")
    server.refusals[ADA] = ["451 later"]
    (commands,) = (each for each in mailer.service.subscriptions if each.queue.name == "notifier.commands")
    consumer = Consumer("notifier.commands", commands.handlers, units=mailer.units, bus=mailer.service.runtime.bus)
    await consumer(Delivery("notifier.commands", an_envelope(an_event(offered)), {ATTEMPT_HEADER: RETRIES_MAX}))
    replayed = read_envelope(mailer.buried[0])[0]
    await mailer.send_events(*replayed)
    why = f"the code of key {offered.key_id} "
    assert [True, True] == [
        mailer.dead[0].startswith(f"{RETRIES_MAX} retries: {why}was not sent: "),
        mailer.dead[1] == f"poison: {why}is not kept: revoke the key, and make another",
    ]
    assert ([], False) == (server.inbox, offered.code.encode() in b"".join(mailer.buried))
