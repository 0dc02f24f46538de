"""The verifier of receipts is handed on alone, and says again what services say: which changes of state there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import placet.approval.states as approval
import placet.executor.states as executor
from placet.agent.rules import FINAL_ANSWER
from placet.contracts.messages import ACCOMPLISH_TOOL
from placet.contracts.messages.approvals import Verb
from placet.contracts.receipts import OWN, STEPS, VERBS, WAYS
from placet.contracts.transitions import Machine
from placet.domain.deciders import Step


def ways(machine: Machine[Any, Any]) -> Iterator[str]:
    """Yield every transition of a machine, as the verifier has them."""
    for (left, event), to_state in machine.transitions.items():
        yield f"{left} {event} {to_state}"


def test_what_leads_on_is_what_the_machines_say() -> None:
    """What a verifier takes for a part of an approval or an execution is what these services can write, and no more."""
    stays = {f"pending {event} pending" for event in [*VERBS, *STEPS, approval.Event.WITHDRAW]}
    said = {"new opened pending", *stays, *ways(approval.MACHINE), *ways(executor.MACHINE)}
    assert said == WAYS


def test_who_and_what_changes_an_approval_that_waits_is_what_the_messages_say() -> None:
    """Verbs of people, steps of the clock, and the tools whose calls no executor takes."""
    steps = get_args(get_type_hints(Step)["kind"])
    assert ({*get_args(Verb)}, {*steps}, {ACCOMPLISH_TOOL, FINAL_ANSWER.name}) == ({*VERBS}, {*STEPS}, {*OWN})
