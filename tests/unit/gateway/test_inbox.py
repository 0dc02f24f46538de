"""What somebody asks of a list of approvals."""

from __future__ import annotations

from placet.contracts.messages.approvals import Proof
from placet.gateway.approvals.filters import InboxQuery
from placet.gateway.approvals.store.inbox import Filters
from placet.gateway.identity.auth import Caller


def a_caller(person: str = "person:ada", proof: Proof = "api_key", conversation_id: str | None = None) -> Caller:
    """Return somebody who may decide."""
    return Caller("acme", person, proof, frozenset({"decide"}), conversation_id)


def test_another_conversation_does_not_exist_for_a_token() -> None:
    """It is not looked for, so that nothing of it can be told."""
    caller = a_caller(proof="conversation_token", conversation_id="c")
    assert (None, Filters(conversation_id="c")) == (
        InboxQuery(conversation="other").filters(caller),
        InboxQuery().filters(caller),
    )
