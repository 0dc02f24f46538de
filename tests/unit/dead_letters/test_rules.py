"""What a dead letter says about itself."""

from __future__ import annotations

import base64
import dataclasses
import json
from contextlib import suppress

import pytest

from placet.contracts.dead_letters import HOUSE_TENANT, UNSENT_TYPE, events_in, unsent
from placet.contracts.messages import AbandonCall, KeyOffered, Message, ToolCallProposed, ToolCallRefused
from placet.contracts.topology import MESSAGES
from placet.dead_letters.rules import abandoned, events_of, letter_from, letters_from, shown
from placet.runtime.bus import Delivery
from placet.runtime.letters import not_replayable
from tests.builders import a_call, a_posted_message, a_result, an_envelope, an_event

OURS = {"x-placet-reason": "poison: bad", "x-placet-message-id": "m1"}


def test_our_own_burial_tells_queue_reason_and_message() -> None:
    """Headers that the consumer shell set are believed."""
    letter = letter_from(Delivery("dead-letters", an_envelope(an_event(a_posted_message())), OURS, "agent.messages"))
    assert ("agent.messages", "agent", "poison: bad", "m1", "acme") == (
        letter.queue,
        letter.service,
        letter.reason,
        letter.message_id,
        letter.tenant,
    )


def test_the_brokers_burial_is_told_by_x_death() -> None:
    """Where the broker buried, its first death names queue and reason."""
    headers = {"x-death": [{"queue": "policy.tool-calls", "reason": "delivery_limit"}]}
    letter = letter_from(Delivery("dead-letters", b"[]", headers, "policy.tool-calls"))
    assert ("policy.tool-calls", "broker: delivery_limit") == (letter.queue, letter.reason)


@pytest.mark.parametrize("body", [b"", b"\x00\xff", b"[1]", b'{"data": 7}', b"[" * 100_000])
def test_any_bytes_make_a_letter_for_the_operators(body: bytes) -> None:
    """Unreadable bytes are kept, without a NUL that PostgreSQL could not store."""
    letter = letter_from(Delivery("dead-letters", body, OURS))
    assert (HOUSE_TENANT, False) == (letter.tenant, "\x00" in letter.body)


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_a_letter_can_be_stored_whatever_its_attributes_are(text: str) -> None:
    """What PostgreSQL keeps in no text is in none of a letter's: else it would come again for ever."""
    body = json.dumps([{"id": text, "type": text, "data": {"tenant": text}}]).encode()
    letter = letter_from(Delivery("dead-letters", body, {"x-placet-reason": text}, text))
    texts = "".join(map(str, dataclasses.astuple(letter)))
    assert texts == texts.replace("\x00", "").encode(errors="ignore").decode()


def test_events_of_several_tenants_are_a_letter_each() -> None:
    """Each tenant sees its own events and no other's; what tells no tenant is the house's."""
    posted = [an_event(a_posted_message(tenant=tenant, text=f"of {tenant}")) for tenant in ("acme", "rival", "acme")]
    items = [*json.loads(an_envelope(*posted)), 7, {"id": "x"}]
    letters = {
        each.tenant: each for each in letters_from(Delivery("q", json.dumps(items).encode(), OURS, "agent.messages"))
    }
    assert {"acme": (True, False), "rival": (False, True), HOUSE_TENANT: (False, False)} == {
        tenant: ("of acme" in each.shown_body, "of rival" in each.shown_body) for tenant, each in letters.items()
    }
    assert [2, 1] == [len(events_of(letters[tenant].body)) for tenant in ("acme", "rival")]
    assert 3 == len({each.dead_letter_id for each in letters.values()})


@pytest.mark.parametrize("depth", range(900, 1000))
def test_what_nests_too_deeply_to_be_taken_apart_is_one_letter_of_the_house(depth: int) -> None:
    """What can just be read and not be written again is kept, and shown to no tenant with another's events."""
    deep = "[" * depth + "]" * depth
    body = f'[{{"data":{{"tenant":"acme"}}}},{{"data":{{"tenant":"rival","x":{deep}}}}}]'.encode()
    letters = letters_from(Delivery("q", body, OURS, "agent.messages"))
    tenants = [each.tenant for each in letters]
    assert tenants in (["acme", "rival"], ["acme", HOUSE_TENANT], [HOUSE_TENANT])
    for each in letters:
        with suppress(ValueError):
            events_of(each.body)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80"])
def test_a_byte_that_is_no_utf8_joins_no_tenants_and_hides_no_secret(bad: bytes) -> None:
    """H9: all reading of a body is of one text, so each tenant sees its own events, and a code is kept nowhere."""
    offered = KeyOffered(tenant="rival", key_id="XX", person="ada", by="person:ben", code="AB2CD-EF3GH")
    body = an_envelope(an_event(a_posted_message(tenant="acme", text="of acme")), an_event(offered))
    letters = letters_from(Delivery("q", body.replace(b"XX", bad), OURS, "notifier.commands"))
    assert {"acme": (True, False), "rival": (False, True)} == {
        each.tenant: ("of acme" in each.shown_body, offered.type_name in each.shown_body) for each in letters
    }
    assert [] == [each for each in letters if offered.code in f"{each.body}{each.shown_body}"]


def test_another_encoding_is_the_houses_alone() -> None:
    """What is JSON only where its bytes are read another way names no tenant, and is shown to nobody."""
    body = an_envelope(*(an_event(a_posted_message(tenant=tenant)) for tenant in ("acme", "rival")))
    (letter,) = letters_from(Delivery("q", body.decode().encode("utf-16"), OURS, "agent.messages"))
    assert (HOUSE_TENANT, True) == (letter.tenant, "no JSON" in letter.shown_body)


def test_what_is_of_one_tenant_stays_one_letter() -> None:
    """As it came, byte for byte, so that the same burial has the same id."""
    for body in (an_envelope(an_event(a_posted_message()), an_event(a_posted_message())), b"no JSON", b"[]", b"7"):
        delivery = Delivery("q", body, OURS, "agent.messages")
        assert [letter_from(delivery)] == letters_from(delivery)


def test_the_same_burial_has_the_same_id_and_another_one_has_not() -> None:
    """A letter that the broker delivers twice is one letter."""
    first, again = (letter_from(Delivery("dead-letters", b"x", OURS)).dead_letter_id for _ in range(2))
    other = letter_from(Delivery("dead-letters", b"y", OURS)).dead_letter_id
    assert (True, False) == (first == again, first == other)


def test_a_replayed_event_keeps_its_id() -> None:
    """What goes back is the event as it was."""
    event = an_event(a_posted_message())
    (text,) = events_of(an_envelope(event).decode())
    assert event.id in text


@pytest.mark.parametrize("body", ["", "[]", "[1]", "7"])
def test_a_body_without_events_cannot_be_replayed(body: str) -> None:
    """Bytes that never were an event are refused with a reason."""
    with pytest.raises(ValueError, match=r"."):
        events_of(body)


def test_a_header_cannot_claim_another_queue() -> None:
    """Where a letter goes back to is the key that the broker checked, not what its sender wrote beside it."""
    headers = {**OURS, "x-placet-queue": "approval.requests", "x-placet-service": "approval"}
    letter = letter_from(Delivery("dead-letters", b"[]", headers, "agent.messages"))
    assert ("agent.messages", "agent") == (letter.queue, letter.service)


def test_a_letter_shows_of_arguments_what_people_may_see() -> None:
    """Real arguments stay in the body that is replayed, wherever in the event they stand."""
    call = a_call(arguments={"pin": "4929", "name": "ada"}, shown_arguments='{"name":"ada","pin":"•••"}')
    body = an_envelope(an_event(ToolCallProposed(tenant="acme", call=call)))
    letter = letter_from(Delivery("dead-letters", body, OURS, "policy.tool-calls"))
    shown = json.loads(letter.shown_body)[0]["data"]["call"]
    assert (True, False) == ("4929" in letter.body, "4929" in letter.shown_body)
    assert (call.shown_arguments, call.digest) == (shown["arguments"], shown["digest"])


@pytest.mark.parametrize("claims", ['{"arguments":"{}"}', '{"by":["person:ada"]}', "no JSON"])
def test_what_is_signed_is_not_shown(claims: str) -> None:
    """An edit's arguments and names of people stand in it in clear, only encoded, where no erasure finds them."""
    signed = f"e30.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.sig"
    letter = shown(json.dumps([{"data": {"decision": signed, "call": {"permit": signed, "tool": "a.b.c"}}}]))
    assert [{"data": {"decision": "•••", "call": {"permit": "•••", "tool": "a.b.c"}}}] == json.loads(letter)


def test_what_no_broker_took_is_shown_like_the_rest() -> None:
    """Its event stands as a text in the letter; where that is cut, only its size is told."""
    event = json.dumps({"data": {"arguments": '{"card":"4111"}', "shown_arguments": '{"card":"•••"}'}})
    letters = [shown(json.dumps([{"type": UNSENT_TYPE, "data": {"body": each}}])) for each in (event, event[:-9])]
    bodies = [json.loads(each)[0]["data"]["body"] for each in letters]
    assert ('{"card":"•••"}', True) == (json.loads(bodies[0])["data"]["arguments"], "no JSON" in bodies[1])


@pytest.mark.parametrize("told", ["", ',"shown_arguments":""', ',"shown_arguments":{"pin":"4929"}'])
def test_arguments_without_a_shown_text_are_masked(told: str) -> None:
    """What nobody rendered for people is not shown to them."""
    assert '[{"data":{"call":{"arguments":"•••"' in shown(f'[{{"data":{{"call":{{"arguments":"4929"{told}}}}}}}]')


@pytest.mark.parametrize("body", ['{"pin": 4929', "[" * 100_000 + "4929", "4929\x00\ud800 "])
def test_what_cannot_be_read_is_not_shown(body: str) -> None:
    """Bytes in which nothing can be found may hold anything."""
    assert (False, True) == ("4929" in shown(body), "no JSON" in shown(body))


def test_a_shown_body_can_be_stored() -> None:
    """Half a character pair, which JSON may spell and PostgreSQL refuses, is replaced."""
    assert '["a?b"]' == shown('["a\\ud800b"]')


@pytest.mark.parametrize("tenants", [(), ("acme", "rival")])
def test_a_secret_is_in_no_part_of_a_letter(tenants: tuple[str, ...]) -> None:
    """H4: a code that only a key's owner is sent is not even kept, wherever in an envelope it was buried."""
    offered = KeyOffered(tenant="acme", key_id="k", person="ada", by="person:ben", code="AB2CD-EF3GH")
    others = [an_event(a_posted_message(tenant=tenant)) for tenant in tenants]
    letters = letters_from(Delivery("q", an_envelope(*others, an_event(offered)), OURS, "notifier.commands"))
    told = "".join(str(value) for letter in letters for value in dataclasses.astuple(letter))
    assert (False, True) == (offered.code in told, offered.type_name in told)
    bare = json.dumps(json.loads(an_envelope(an_event(offered)))[0]).encode()
    assert offered.code not in letters_from(Delivery("q", bare, OURS))[0].body


def test_a_secret_is_a_text_that_may_be_empty() -> None:
    """What is left of such a message is one still, so whoever replays it is told what became of it."""
    secrets = {kind.type_name: kind.secrets for kind in MESSAGES.values() if kind.secrets}
    assert {KeyOffered.type_name: {"code"}} == secrets
    offered = KeyOffered(tenant="acme", key_id="k", person="ada", by="person:ben", code="AB2CD-EF3GH")
    kept = an_event(offered).without_secrets().message
    assert KeyOffered.model_validate(kept.model_dump()) == offered.model_copy(update={"code": ""})


def lost(queue: str, message: Message) -> list[AbandonCall]:
    """Return the calls that a letter with this message ends when it is discarded."""
    return abandoned(queue, an_envelope(an_event(message)).decode(), "person:grace")


def test_a_lost_refusal_never_ran_and_a_lost_result_may_have() -> None:
    """What the model is told depends on what was lost on the way to it."""
    call = a_call()
    ids = {"tenant": "acme", "call_id": call.call_id, "conversation_id": "c", "tool": "t"}
    refused = ToolCallRefused(**ids, kind="denied", reason="no")
    told = [lost("agent.tool-results", message)[0].may_have_run for message in (refused, a_result(call))]
    assert [False, True] == told


def test_a_lost_abandonment_is_given_up_like_what_it_was_sent_for() -> None:
    """Discarding it asks the same queue again."""
    (first,) = lost("agent.tool-results", a_result(a_call()))
    assert [first] == lost("agent.tool-results", first)


@pytest.mark.parametrize(
    ("queue", "body"),
    [
        ("policy.tool-calls", "no JSON"),
        ("policy.tool-calls", "[" * 100_000),
        ("policy.tool-calls", '[7, {}, {"type": "placet.tool-call.proposed.v1", "data": {"call": {}}}]'),
        ("agent.tool-results", '[{"type": "placet.tool-call.finished.v1"}]'),
        ("unknown", "[]"),
    ],
)
def test_what_names_no_call_ends_none(queue: str, body: str) -> None:
    """Broken bytes and half an event are given up alone."""
    assert [] == abandoned(queue, body, "person:grace")


def test_an_event_that_its_consumer_could_not_read_still_names_its_call() -> None:
    """A field that a consumer does not accept leaves the call's own ids readable."""
    body = an_envelope(an_event(ToolCallProposed(tenant="acme", call=a_call(call_id="k")))).decode()
    broken = body.replace('"schema_digest":"aaa', '"schema_digest":"a').replace('"agent":"default"', '"agent":"???"')
    assert ["k"] == [call.call_id for call in abandoned("policy.tool-calls", broken, "person:grace")]


def refused_by_the_broker(message: Message, **changes: str) -> str:
    """Return the body of a letter of an event that the broker refused."""
    letter = unsent(json.loads(an_event(message).to_json()), "agent.tool-results", "[")
    return json.dumps([letter | {"data": letter["data"] | changes}])


def test_what_the_broker_refused_cannot_go_where_its_letter_says() -> None:
    """The queue that such a letter names is not the one that the broker checked: it is never sent there."""
    body = refused_by_the_broker(a_result(a_call()))
    letter = letter_from(Delivery("dead-letters", body.encode(), OURS, "workspaces.commands"))
    assert ("agent.tool-results", "workspaces") == (letter.queue, letter.service)
    for sent in (letter.body, letter.shown_body, f"[{{}},{body[1:]}"):
        with pytest.raises(ValueError, match="refused"):
            events_of(sent)


def test_a_letter_of_an_older_outbox_has_a_type() -> None:
    """During an update an outbox of before writes letters that do not say of which type the event was."""
    body = json.dumps([{"type": UNSENT_TYPE, "data": {"tenant": "acme", "body": "["}}])
    assert UNSENT_TYPE == letter_from(Delivery("dead-letters", body.encode(), OURS, "agent.messages")).message_type


def test_a_refused_event_ends_no_call_of_another_tenant() -> None:
    """Whose letter it is says whose call it may end."""
    own, forged = (refused_by_the_broker(a_result(a_call(call_id="k")), tenant=each) for each in ("acme", "rival"))
    ended = [abandoned("agent.tool-results", body, "person:grace") for body in (own, forged)]
    assert [["k"], []] == [[call.call_id for call in calls] for calls in ended]


def test_a_call_in_the_name_of_another_tenant_is_left_alone() -> None:
    """Who forges an event cannot have another tenant's call ended."""
    forged = ToolCallProposed(tenant="rival", call=a_call())
    assert [] == lost("policy.tool-calls", forged)


@pytest.mark.parametrize("body", ["[]", "7", "[1]", '[{"id":"1"},2]', "null", "{", "\ufffd", "[" * 100_000])
def test_what_is_shown_of_a_body_without_events_holds_none_either(body: str) -> None:
    """The gateway sees no other body, and says by it that a letter cannot be replayed."""
    for seen in (body, shown(body)):
        with pytest.raises(ValueError, match=r"."):
            events_in(seen)


def test_what_a_frontend_may_not_send_is_no_event() -> None:
    """Its letter only tells of it: sent back, it would lose what it says of an attack and be a letter once more."""
    for body in (not_replayable(b"garbage", "acme").decode(), shown(not_replayable(b"[]", "acme").decode())):
        with pytest.raises(ValueError, match="a frontend sent what it may not send"):
            events_in(body)


@pytest.mark.parametrize("body", ['{"arguments":{"pin":1}}', '[{"id":"1"},{"decision":"a.b.c"}]'])
def test_what_is_shown_of_a_body_with_events_holds_as_many(body: str) -> None:
    """Redaction takes values away and never an event."""
    assert len(events_in(body)) == len(events_in(shown(body)))
