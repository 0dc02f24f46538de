"""Webhooks against a real receiver: signed, known by their id, pinned to the judged address, tried again."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from placet.contracts.messages import RetryWebhookEvent
from placet.notifier.channels import ChannelFailed
from placet.notifier.channels.webhook import Poster, WebhookChannel
from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from placet.notifier.webhook_endpoints import Endpoint
from placet.notifier.webhook_worker import EventWorker
from placet.notifier.worker import Worker
from tests.support.cards import closed, finished, opened
from tests.support.house import BreakingUnits, Replica, a_replica
from tests.support.webhook_server import Receiver, a_receiver, a_tls_receiver

SECRET = "whsec_" + base64.b64encode(b"new" * 8).decode()
OLD = "whsec_" + base64.b64encode(b"old" * 8).decode()
EVENTS = "SELECT type, state, attempt, error FROM notifier.webhook_events ORDER BY created_at, event_id"
#: Moments that are far off, and one that no clock shows.
AGES = ("Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 99999999999999999999 23:59:59 GMT")
HURRY = "UPDATE notifier.webhook_events SET due_at = now() - interval '1 second', lease_until = NULL"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A program that hears webhooks."""
    async with a_receiver() as receiver:
        yield receiver


@pytest.fixture
async def house(notifier_url: str, receiver: Receiver, tmp_path: Path) -> AsyncIterator[Replica]:
    """A notifier with one webhook that hears of everything."""
    file = tmp_path / "webhooks.yaml"
    entry = {"url": f"{receiver.url}/hook", "secrets": [SECRET], "events": ["*"], "private": True}
    file.write_text(json.dumps({"webhooks": {"crm": entry}}))
    settings = NotifierSettings(notifier_webhooks=file)
    async with a_replica("notifier", notifier_url, partial(build, settings)) as replica:
        await replica.empty_tables()
        yield replica


def the_endpoint(receiver: Receiver, *secrets: str, **changes: object) -> Endpoint:
    """Return the receiver as a webhook."""
    fields = {"url": f"{receiver.url}/hook", "secrets": list(secrets or [SECRET]), "private": True}
    return Endpoint.model_validate(fields | changes)


def event_worker(house: Replica, receiver: Receiver) -> EventWorker:
    """Return what posts events."""
    return EventWorker(house.units, {"crm": the_endpoint(receiver)}, Poster())


async def test_every_event_is_heard_once_and_verified(house: Replica, receiver: Receiver) -> None:
    """Opened, closed and finished arrive with signatures that the official library takes; repeats are not heard."""
    news = opened()
    await house.send(news, news)
    await house.send(closed(news))
    await house.send(finished(news))
    worker = event_worker(house, receiver)
    await worker.run_once()
    await worker.run_once()
    told = [Webhook(SECRET).verify(each.body, each.headers) for each in receiver.heard]
    assert ["approval.closed", "approval.opened", "approval.opened", "tool_call.finished"] == sorted(
        each["type"] for each in told
    )
    assert {"sent"} == {row["state"] for row in await house.rows(EVENTS)}


async def test_two_copies_of_one_message_are_one_event(house: Replica, receiver: Receiver) -> None:
    """The inbox knows the second copy; were it not there, the event's id would."""
    news = opened()
    event = (await house.send(news), house.sent[-1])[1]
    await house.execute("TRUNCATE notifier.inbox")
    await house.send_events(event)
    await event_worker(house, receiver).run_once()
    assert 1 == len(receiver.heard)


async def test_an_event_is_tried_again_with_the_same_id_and_bytes(house: Replica, receiver: Receiver) -> None:
    """What failed is told in the row; the receiver knows the second copy by its id."""
    receiver.answers = [(500, {})]
    await house.send(opened())
    worker = event_worker(house, receiver)
    await worker.run_once()
    (row,) = await house.rows(EVENTS)
    assert ("due", 1, "127.0.0.1 answered 500") == (row["state"], row["attempt"], row["error"])
    await worker.run_once()
    assert 1 == len(receiver.heard)
    await house.execute(HURRY)
    await worker.run_once()
    first, second = receiver.heard
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert [("sent", 2)] == [(row["state"], row["attempt"]) for row in await house.rows(EVENTS)]


class Breaking(Poster):
    """A poster with a bug that shows at its first event, while the others are under way."""

    begun = 0

    async def post(self, endpoint: Endpoint, event_id: str, body: str) -> None:
        """Break at the first event."""
        self.begun += 1
        if self.begun == 1:
            raise ZeroDivisionError
        await super().post(endpoint, event_id, body)


async def test_an_event_that_breaks_its_poster_is_tried_again(house: Replica, receiver: Receiver) -> None:
    """A bug is a failed try, which has an end; the other event of the round is posted and written."""
    await house.send(opened(), opened())
    worker = EventWorker(house.units, {"crm": the_endpoint(receiver)}, Breaking())
    await worker.run_once()
    rows = sorted((row["state"], row["error"]) for row in await house.rows(EVENTS))
    assert [("due", "bug: ZeroDivisionError"), ("sent", "")] == rows


async def test_a_round_ends_when_all_of_its_events_are_written(house: Replica, receiver: Receiver) -> None:
    """The transaction of one breaks, and the round says so; it does so behind the others."""
    await house.send(opened(), opened())
    units = BreakingUnits(house.units, at=2)
    with pytest.raises(ZeroDivisionError):
        await EventWorker(units, {"crm": the_endpoint(receiver)}, Breaking()).run_once()
    assert ["due", "sent"] == sorted(row["state"] for row in await house.rows(EVENTS))


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500])
async def test_anything_but_success_is_a_failure(receiver: Receiver, status: int) -> None:
    """A redirect too: it is not followed, or it would lead to where nobody looked."""
    receiver.answers = [(status, {"location": f"{receiver.url}/elsewhere"})]
    with pytest.raises(ChannelFailed) as caught:
        await Poster().post(the_endpoint(receiver), "event-1", "{}")
    assert (["/hook"], False) == ([each.path for each in receiver.heard], caught.value.permanent)


async def test_a_receiver_that_is_gone_is_not_asked_again(house: Replica, receiver: Receiver) -> None:
    """410 ends the tries."""
    receiver.answers = [(410, {})]
    await house.send(opened())
    await event_worker(house, receiver).run_once()
    assert ["given_up"] == [row["state"] for row in await house.rows(EVENTS)]


async def test_a_busy_receiver_says_when_to_come_again(receiver: Receiver) -> None:
    """In seconds, or as a moment."""
    moment = datetime.now(UTC) + timedelta(seconds=90)
    receiver.answers = [(429, {"retry-after": "30"}), (503, {"retry-after": f"{moment:%a, %d %b %Y %H:%M:%S} GMT"})]
    waits: list[float] = []
    for _ in range(2):
        with pytest.raises(ChannelFailed) as caught:
            await Poster().post(the_endpoint(receiver), "event-1", "{}")
        waits.append(caught.value.retry_after or 0)
    assert 30 == waits[0]
    assert 60 < waits[1] <= 90


@pytest.mark.parametrize("asked", ["1000000000000000", "9" * 400, *AGES])
async def test_a_receiver_that_asks_for_ages_is_tried_within_its_usual_time(
    house: Replica, receiver: Receiver, asked: str
) -> None:
    """No more than a quarter of an hour is taken at its word; the other event of the round is settled as well."""
    receiver.answers = [(503, {"retry-after": asked})]
    await house.send(opened(), opened())
    await event_worker(house, receiver).run_once()
    again = "SELECT state, due_at <= now() + interval '15 min' AS soon FROM notifier.webhook_events ORDER BY state"
    assert [("due", True), ("sent", True)] == [tuple(row.values()) for row in await house.rows(again)]


async def test_both_secrets_sign_while_one_takes_the_place_of_another(receiver: Receiver) -> None:
    """A receiver with either of them is content; with neither it is not."""
    await Poster().post(the_endpoint(receiver, SECRET, OLD), "event-1", '{"a":1}')
    (heard,) = receiver.heard
    assert [{"a": 1}] * 2 == [Webhook(each).verify(heard.body, heard.headers) for each in (SECRET, OLD)]
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + base64.b64encode(b"other" * 8).decode()).verify(heard.body, heard.headers)


async def test_an_old_event_is_no_longer_taken(receiver: Receiver) -> None:
    """The time of the try is signed, so what is replayed after five minutes is refused by the receiver's library."""
    old = Poster(clock=lambda: datetime.now(UTC) - timedelta(minutes=6))
    await old.post(the_endpoint(receiver), "event-1", "{}")
    (heard,) = receiver.heard
    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(SECRET).verify(heard.body, heard.headers)


async def test_a_private_receiver_is_refused_unless_it_is_meant(receiver: Receiver) -> None:
    """Nothing is sent there, and no further try is made."""
    with pytest.raises(ChannelFailed) as caught:
        await Poster().post(the_endpoint(receiver, private=False), "event-1", "{}")
    assert (True, []) == (caught.value.permanent, receiver.heard)


async def test_the_judged_address_is_the_one_that_is_reached(receiver: Receiver) -> None:
    """The name is looked up once: a second answer that leads inside is never asked for."""
    answers = [["127.0.0.1"], ["169.254.169.254"]]

    async def look_up(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    port = urlsplit(receiver.url).port
    endpoint = the_endpoint(receiver, url=f"http://rebinding.example:{port}/hook?a=1")
    await Poster(look_up=look_up).post(endpoint, "event-1", "{}")
    (heard,) = receiver.heard
    assert (f"rebinding.example:{port}", [["169.254.169.254"]]) == (heard.headers["host"], answers)


async def test_a_rule_s_webhook_gets_its_cards(house: Replica, receiver: Receiver) -> None:
    """The card as people see it, an id for each of its versions; a webhook that nobody has is given up."""
    news = opened("webhook:crm", "webhook:nobody")
    channel = WebhookChannel({"crm": the_endpoint(receiver)}, Poster())
    worker = Worker(house.units, {"webhook": channel})
    await house.send(news)
    await worker.run_once()
    await house.send(closed(news))
    await worker.run_once()
    told = [Webhook(SECRET).verify(each.body, each.headers)["data"] for each in receiver.heard]
    assert [("pending", 1), ("approved", 2)] == [(each["state"], each["revision"]) for each in told]
    assert 2 == len({each.headers["webhook-id"] for each in receiver.heard})
    states = await house.rows("SELECT recipient, state FROM notifier.deliveries ORDER BY recipient")
    assert [("crm", "sent"), ("nobody", "given_up")] == [tuple(row.values()) for row in states]


async def test_the_certificate_is_judged_by_the_name_and_not_by_the_address(tmp_path: Path) -> None:
    """TLS asks for the host's own certificate, although the connection goes to a pinned address."""

    async def look_up(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async with a_tls_receiver(tmp_path, "hooks.example") as (port, trust):
        poster = Poster(look_up=look_up, trust=trust)
        fields = {"secrets": [SECRET], "private": True}
        named = Endpoint.model_validate(fields | {"url": f"https://hooks.example:{port}/hook"})
        await poster.post(named, "event-1", "{}")
        other = Endpoint.model_validate(fields | {"url": f"https://other.example:{port}/hook"})
        with pytest.raises(ChannelFailed, match="did not answer"):
            await poster.post(other, "event-1", "{}")


async def given_up(house: Replica, receiver: Receiver) -> str:
    """Have an event refused for good; return its id."""
    receiver.answers = [(410, {})]
    await house.send(opened())
    await event_worker(house, receiver).run_once()
    (row,) = await house.rows("SELECT event_id, state FROM notifier.webhook_events")
    assert "given_up" == row["state"]
    return str(row["event_id"])


async def test_an_event_that_was_given_up_is_posted_again_when_an_operator_wants_it(
    house: Replica, receiver: Receiver
) -> None:
    """Once, with the same id and bytes; the history says who wanted it, and a second wish changes nothing."""
    event_id = await given_up(house, receiver)
    wish = RetryWebhookEvent(tenant="acme", event_id=event_id, by="person:grace")
    await house.send(wish)
    await event_worker(house, receiver).run_once()
    await house.send(wish)
    await event_worker(house, receiver).run_once()
    first, second = receiver.heard
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert [("sent", 1, "")] == [(row["state"], row["attempt"], row["error"]) for row in await house.rows(EVENTS)]
    moves = "SELECT from_state, to_state, actor FROM notifier.history WHERE event = 'retried' ORDER BY id"
    assert [("given_up", "due", "person:grace"), ("sent", "sent", "person:grace")] == [
        tuple(row.values()) for row in await house.rows(moves)
    ]


async def test_an_event_of_another_tenant_is_not_posted_again(house: Replica, receiver: Receiver) -> None:
    """The wish is refused; the event stays given up."""
    event_id = await given_up(house, receiver)
    await house.send(RetryWebhookEvent(tenant="rival", event_id=event_id, by="person:eve"))
    assert ([], ["given_up"]) == (house.dead, [row["state"] for row in await house.rows(EVENTS)])
