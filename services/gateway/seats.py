"""What a caller is to the rules: the names they decide under, and how surely they are known."""

from __future__ import annotations

from services.gateway.auth import Caller
from services.gateway.store.inbox import Seat
from shared.directory import Directory
from shared.messages.approvals import strengths_met


def seat_of(caller: Caller, directory: Directory) -> Seat | None:
    """Return what a caller is to the rules; None for somebody who is not active any more, and decides nothing.

    A conversation's token stands for whoever asked for the call, and proves no name.
    """
    strengths = strengths_met(caller.proof)
    if caller.proof == "conversation_token":
        return Seat(caller.person, frozenset(), strengths, frozenset())
    person = directory.person(caller.person)
    if person is not None and not person.active:
        return None
    groups = {f"group:{name}" for name in directory.groups_of(caller.person)}
    owned = {
        agent for agent, owners in directory.owners.items() if caller.person in {f"person:{each}" for each in owners}
    }
    return Seat(caller.person, frozenset({caller.person, "operators", *groups}), strengths, frozenset(owned))
