"""Secrets, callers and sessions: what they look like, what they prove, when they end."""

from __future__ import annotations

import pytest

from placet.contracts.errors import Refused
from placet.contracts.visitors import checked_visitor, visitor_id
from placet.gateway.conversations.rules import author_of
from placet.gateway.conversations.store import Conversation
from placet.gateway.identity.auth import Caller, same_site
from placet.gateway.identity.keys import Scope, checked_key, hash_secret, new_key, new_token, parse_secret
from placet.gateway.identity.sign_in import LINK_SECONDS, LINKS_MAX, OneTimeLinks
from tests.builders import NOON


def a_caller(**changes: object) -> Caller:
    """Return the owner of a key with every scope."""
    known = {"tenant": "acme", "person": "person:ada", "proof": "api_key"}
    fields = {**known, "scopes": frozenset(Scope), "operator": True}
    return Caller(**(fields | changes))  # type: ignore[arg-type]


def a_conversation(visitor: str | None, *, by: str = "person:ada", decides: bool = True) -> Conversation:
    """Return a conversation that was opened for somebody, or for nobody in particular."""
    return Conversation("acme", "c", "default", "en", {}, visitor, NOON, by, opener_decides=decides)


def test_a_key_carries_its_id_and_is_kept_as_a_hash() -> None:
    """What is stored of a key is its id and a hash of its secret, and parsing finds both."""
    key, kept = new_key()
    assert kept == parse_secret(key)
    assert (False, 64) == (kept.secret_hash in key, len(kept.secret_hash))


def test_a_token_is_found_by_its_hash() -> None:
    """A conversation token has no id in it."""
    token = new_token()
    parsed = parse_secret(token)
    assert parsed is not None
    assert ("", hash_secret(token)) == (parsed.key_id, parsed.secret_hash)


@pytest.mark.parametrize(
    "text",
    ["", "placet_", "placet_chat_short", "placet_0123456789abcdef_" + "x" * 44, "placet_0123456789ABCDEF_" + "x" * 43],
)
def test_what_is_no_secret_is_not_looked_up(text: str) -> None:
    """Only texts of the right form reach the database."""
    assert parse_secret(text) is None


@pytest.mark.parametrize("visitor", ["person:ada", "requester", "operators", "", "a b", "x" * 101, "v\n"])
def test_a_visitor_is_never_named_like_somebody_else(visitor: str) -> None:
    """No visitor can be taken for a person, a role, or another conversation's visitor."""
    with pytest.raises(ValueError, match="must be"):
        checked_visitor(visitor)


def test_a_nameless_visitor_is_its_conversations() -> None:
    """Two conversations without a named visitor have two."""
    assert ("v-1", "visitor:c-1", "visitor:c-2") == (
        visitor_id("v-1", "c-1"),
        visitor_id(None, "c-1"),
        visitor_id(None, "c-2"),
    )


def test_scopes_of_a_key_are_told_once_each() -> None:
    """Doubled scopes are one."""
    assert ["chat", "decide"] == checked_key("acme", "ada", ["decide", "chat", "chat"])


def test_a_caller_needs_one_of_the_scopes() -> None:
    """Without any of them the refusal names what is needed."""
    caller = a_caller(scopes=frozenset({Scope.CHAT}))
    caller.need(Scope.CHAT, Scope.DECIDE)
    with pytest.raises(Refused) as refused:
        caller.need(Scope.DECIDE, Scope.ADMIN)
    assert (403, ["decide", "admin"]) == (refused.value.status, refused.value.facts["scopes"])


@pytest.mark.parametrize(
    ("changes", "requester", "roles"),
    [
        ({}, "v-1", ["operators"]),
        ({}, "person:ada", ["operators", "requester"]),
        ({"proof": "web_session"}, "person:ada", ["operators", "requester"]),
        ({"proof": "conversation_token", "person": "v-1", "conversation_id": "c"}, "v-1", ["requester"]),
    ],
)
def test_a_caller_claims_only_what_was_proved(changes: dict[str, object], requester: str, roles: list[str]) -> None:
    """A token is never an operator; a key's owner is the requester only where they asked themselves."""
    assert roles == a_caller(**changes).roles_for(requester)


def test_a_token_sees_one_conversation() -> None:
    """For a token other conversations do not exist; a key sees its tenant's."""
    token = a_caller(proof="conversation_token", conversation_id="c")
    assert (True, False, True) == (token.sees("c"), token.sees("d"), a_caller().sees("d"))


@pytest.mark.parametrize(
    ("proof", "visitor", "wanted", "author"),
    [
        ("conversation_token", "v", "person", "v"),
        ("conversation_token", None, None, "visitor:c"),
        ("api_key", "v", None, "v"),
        ("api_key", "v", "person", "person:ada"),
        ("api_key", None, None, "person:ada"),
        ("api_key", None, "visitor", "visitor:c"),
        ("web_session", "v", None, "person:ada"),
        ("web_session", "v", "visitor", "person:ada"),
    ],
)
def test_who_writes_follows_from_the_proof(proof: str, visitor: str | None, wanted: str | None, author: str) -> None:
    """A8: an operator at the page answers as themselves; only a key relays for a visitor."""
    assert author == author_of(a_caller(proof=proof), a_conversation(visitor), wanted).id


@pytest.mark.parametrize(("by", "decides"), [("person:bob", True), ("person:ada", False), ("v", False)])
def test_a_key_that_decides_asks_in_no_foreign_name(by: str, *, decides: bool) -> None:
    """It writes for a visitor only where its owner counts as them; unasked it writes as its owner."""
    conversation = a_conversation("v", by=by, decides=decides)
    assert "person:ada" == author_of(a_caller(), conversation, None).id
    with pytest.raises(Refused, match="only in a conversation that it opened itself"):
        author_of(a_caller(), conversation, "visitor")


def test_a_key_that_only_relays_writes_for_every_visitor() -> None:
    """It cannot decide, so it cannot be two people."""
    relay = a_caller(scopes=frozenset({Scope.CHAT}))
    assert "v" == author_of(relay, a_conversation("v", by="person:bob"), None).id


@pytest.mark.parametrize(
    ("origin", "host", "public_url", "same"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", "", True),
        ("https://evil.example", "127.0.0.1:8080", "", False),
        ("null", "127.0.0.1:8080", "", False),
        ("", "127.0.0.1:8080", "", False),
        ("", "", "", False),
        ("http://[::", "127.0.0.1:8080", "", False),
        ("http://[::", "[::", "", True),
        ("https://placet.example", "gateway:8080", "https://placet.example/", True),
        ("https://gateway:8080", "gateway:8080", "https://placet.example", False),
    ],
)
def test_only_our_own_pages_are_the_same_site(origin: str, host: str, public_url: str, *, same: bool) -> None:
    """The browser's word for where a request comes from is compared with where we are reached."""
    assert same == same_site(origin, host, public_url)


def test_a_one_time_link_is_good_once_and_for_an_hour() -> None:
    """The second use, a late use, and a guess are refused."""
    now = [0.0]
    links = OneTimeLinks(clock=lambda: now[0])
    token, late = links.add(), links.add()
    first, second, guess = links.take(token), links.take(token), links.take("guess")
    now[0] = LINK_SECONDS
    assert (True, False, False, False) == (first, second, guess, links.take(late))


def test_links_that_nobody_takes_do_not_pile_up() -> None:
    """The oldest link goes when there are too many."""
    links = OneTimeLinks()
    tokens = [links.add() for _ in range(LINKS_MAX + 1)]
    assert (False, True) == (links.take(tokens[0]), links.take(tokens[1]))
