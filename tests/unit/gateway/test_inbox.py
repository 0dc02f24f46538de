"""What a caller is to the rules, as far as a list of approvals needs it."""

from __future__ import annotations

from services.gateway.api.inbox import InboxQuery, seat_of
from services.gateway.auth import Caller
from services.gateway.store.inbox import Filters
from shared.directory import Directory, Person
from shared.messages.approvals import Proof

DIRECTORY = Directory(
    people={"ada": Person("ada"), "carl": Person("carl", active=False)},
    groups={"finance": frozenset({"ada", "carl"}), "leads": frozenset({"carl"})},
    owners={"robot": frozenset({"ada"})},
)


def a_caller(person: str = "person:ada", proof: Proof = "api_key", conversation_id: str | None = None) -> Caller:
    """Return somebody who may decide."""
    return Caller("acme", person, proof, frozenset({"decide"}), conversation_id)


def test_a_key_stands_for_its_owner_their_groups_and_operators() -> None:
    """Each name that a rule may use for them, and the agents that four eyes keep them from."""
    seat = seat_of(a_caller(), DIRECTORY)
    assert seat is not None
    assert ({"person:ada", "operators", "group:finance"}, {"robot"}) == (set(seat.names), set(seat.owned_agents))


def test_a_conversations_token_proves_no_name() -> None:
    """A visitor who is called like a person is nobody but the requester, known by the chat only."""
    seat = seat_of(a_caller(proof="conversation_token", conversation_id="c"), DIRECTORY)
    assert seat is not None
    assert (frozenset(), frozenset(), ("link", "chat")) == (seat.names, seat.owned_agents, seat.strengths)


def test_somebody_who_is_not_active_has_no_seat() -> None:
    """Nothing waits for who may decide nothing."""
    assert seat_of(a_caller("person:carl"), DIRECTORY) is None


def test_an_unknown_directory_leaves_a_name_and_no_group() -> None:
    """Without a directory people are known by their keys alone."""
    seat = seat_of(a_caller(), Directory())
    assert seat is not None
    assert {"person:ada", "operators"} == set(seat.names)


def test_another_conversation_does_not_exist_for_a_token() -> None:
    """It is not looked for, so that nothing of it can be told."""
    caller = a_caller(proof="conversation_token", conversation_id="c")
    assert (None, Filters(conversation_id="c")) == (
        InboxQuery(conversation="other").filters(caller),
        InboxQuery().filters(caller),
    )
