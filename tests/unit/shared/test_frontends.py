"""What a frontend on RabbitMQ may say: the key it published with is believed, its envelope is not."""

from __future__ import annotations

import hashlib
import json

import pytest

from placet.contracts.frontends import frontend_key, frontends_tenant, why_not
from placet.contracts.messages import Author, ConversationEnded, Message, MessagePosted
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_delivery
from tests.builders import a_posted_message, an_envelope, an_event

ENDED = ConversationEnded(tenant="acme", conversation_id="c", by="person:ada")


def written_by(kind: str, author_id: str, **changes: str) -> MessagePosted:
    """Return a message of acme, in conversation acme_c, with this author."""
    author = Author.model_validate({"kind": kind, "id": author_id})
    return a_posted_message(**{"tenant": "acme", "conversation_id": "acme_c", "author": author, **changes})


def labelled(**labels: str) -> MessagePosted:
    """Return a message of acme whose conversation would have these labels."""
    return a_posted_message(tenant="acme", conversation_id="acme_c", labels=labels)


def delivered(key: str, *messages: Message) -> Delivery:
    """Return an envelope as it comes from the agent's queue."""
    body = an_envelope(*(an_event(message) for message in messages))
    return Delivery("agent.messages", body, key=key)


@pytest.mark.parametrize("author_id", ["v-1", "ada@example.org", "visitor:acme_c"])
def test_a_frontend_writes_for_visitors_of_its_tenant(author_id: str) -> None:
    """A name as an opener may give it, or the conversation's own anonymous id."""
    assert why_not(written_by("visitor", author_id), "acme") is None


def test_a_frontend_labels_its_conversations() -> None:
    """As many and as long as over HTTP."""
    assert why_not(labelled(**{f"{n:064}": "x" * 256 for n in range(32)}), "acme") is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (written_by("person", "person:ada"), "for visitors only"),
        (written_by("person", "v-1"), "for visitors only"),
        (written_by("visitor", "person:ada"), "none that a visitor"),
        (written_by("visitor", "group:finance"), "none that a visitor"),
        (written_by("visitor", "visitor:another"), "none that a visitor"),
        (written_by("visitor", "operators"), "none that a visitor"),
        (written_by("visitor", "requester"), "none that a visitor"),
        (written_by("visitor", "v-1\n"), "none that a visitor"),
        (written_by("visitor", "v-1", tenant="globex"), "another tenant"),
        (written_by("visitor", "v-1", conversation_id="globex_c"), "begins with acme_"),
        (written_by("visitor", "v-1", conversation_id="c"), "begins with acme_"),
        (a_posted_message(tenant="acme", conversation_id="acme_c", held_revision=1), "only the gateway"),
        (labelled(job="x"), "labels of jobs"),
        (labelled(attempt="1", team="ops"), "labels of jobs"),
        (labelled(**{f"name-{n}": "" for n in range(33)}), "at most 32 labels"),
        (labelled(**{"": "x"}), "names of 1 to 64"),
        (labelled(**{"n" * 65: "x"}), "names of 1 to 64"),
        (labelled(team="x" * 257), "texts of at most 256"),
        (labelled(team="a\x00b"), "none of them NUL"),
        (ENDED, "sends no placet.conversation.ended.v1"),
    ],
)
def test_a_frontend_claims_to_be_nobody_else(message: Message, why: str) -> None:
    """No person, group, job or other conversation's visitor, no other tenant, also by its ids; no other message."""
    assert why in (why_not(message, "acme") or "")


def test_only_a_frontend_s_key_names_a_tenant() -> None:
    """The keys of our own services, of retries and of replays are nobody's frontend."""
    keys = [frontend_key("acme"), "acme", "frontend", "agent.messages", ""]
    assert ["acme", None, None, None, None] == [frontends_tenant(key) for key in keys]


def test_what_a_service_sends_is_taken_as_it_is() -> None:
    """The gateway has asked who writes before it sends a person's message, or the end of a conversation."""
    sent = [written_by("person", "person:ada"), ENDED]
    events, unreadable = read_delivery(delivered("acme", *sent))
    assert (sent, []) == ([event.message for event in events], unreadable)


def test_what_a_frontend_may_not_say_does_not_spoil_what_it_may() -> None:
    """Of one envelope the good events are handled; each of the others has its reason."""
    good, bad = written_by("visitor", "v-1"), written_by("person", "person:ada")
    events, unreadable = read_delivery(delivered("frontend.acme", bad, good))
    assert [good] == [event.message for event in events]
    assert ["security: a frontend writes for visitors only: nobody proved that a person wrote"] == [
        reason for _, _, reason in unreadable
    ]


def test_an_event_s_id_is_its_tenant_s_own() -> None:
    """What one tenant's frontend calls an event stops no other tenant's event of that name, and repeats its own."""
    ids: dict[str, set[str]] = {}
    for tenant in ("acme", "acme", "globex"):
        message = written_by("visitor", "v-1", tenant=tenant, conversation_id=f"{tenant}_c")
        body = an_envelope(an_event(message, id="posted-m1"))
        ((event,), _) = read_delivery(Delivery("agent.messages", body, key=frontend_key(tenant)))
        ids.setdefault(tenant, set()).add(event.id)
    assert (1, 1, True) == (len(ids["acme"]), len(ids["globex"]), ids["acme"].isdisjoint(ids["globex"]))


def test_a_refused_envelope_is_a_letter_of_the_sender_s_tenant_that_is_no_event() -> None:
    """Sent back to its queue it would be believed, so it can be read there and never handled."""
    forged = written_by("visitor", "v-1", tenant="globex")
    _, [(body, _, _)] = read_delivery(delivered("frontend.acme", forged))
    (letter,) = json.loads(body)
    assert ("placet.frontend.refused.v1", "acme") == (letter["type"], letter["data"]["tenant"])
    assert "globex" == json.loads(letter["data"]["body"])[0]["data"]["tenant"]
    replayed, unreadable = read_delivery(Delivery("agent.messages", body, key="agent.messages"))
    assert ([], 1) == (replayed, len(unreadable))


@pytest.mark.parametrize("body", [b"\xff", b"{}", b'[{"type": "placet.unheard.of.v1"}]'])
def test_garbage_of_a_frontend_is_no_event_in_any_later_version(body: bytes) -> None:
    """What we cannot read today is kept as text: a newer reader must not take it for its own people's word."""
    events, [(kept, _, _)] = read_delivery(Delivery("agent.messages", body, key="frontend.acme"))
    assert ([], {"acme"}) == (events, {letter["data"]["tenant"] for letter in json.loads(kept)})


def test_of_a_long_envelope_its_beginning_is_kept() -> None:
    """However many bytes a frontend sends, its letter is short; two that begin alike are never taken for one."""
    sent = [b"\x00" * 3_000_000, b"\x00" * 2_999_999 + b"\xff"]
    kept = [read_delivery(Delivery("agent.messages", body, key="frontend.acme"))[1][0][0] for body in sent]
    told = [json.loads(body)[0]["data"] for body in kept]
    assert (2, True) == (len(set(kept)), max(map(len, kept)) < 512 * 1024)
    assert [(3_000_000, hashlib.sha256(body).hexdigest()) for body in sent] == [(d["bytes"], d["sha256"]) for d in told]
