"""Who answers in a conversation: what a move makes of it, and what its visitor is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placet.domain.approvers import name_of
from placet.gateway.states import MACHINE, Event, State

#: What the visitor is told of each state, by language; other languages are told in English.
_TOLD: Mapping[str, Mapping[State, str]] = {
    "en": {
        State.WAITING: "A person has been asked to join. Until they do, nobody answers here; you can go on writing.",
        State.OPERATOR: "You are talking to {operator}, a person.",
        State.AGENT: "You are talking to the assistant again.",
    },
    "de": {
        State.WAITING: "Ein Mensch wurde gerufen. Bis er da ist, antwortet hier niemand; Sie können weiterschreiben.",
        State.OPERATOR: "Sie sprechen jetzt mit {operator}, einem Menschen.",
        State.AGENT: "Sie sprechen wieder mit dem Assistenten.",
    },
    "tr": {
        State.WAITING: "Bir temsilci çağrıldı. O gelene kadar burada kimse yanıt vermez; yazmaya devam edebilirsiniz.",
        State.OPERATOR: "Şu anda bir insanla, {operator} ile konuşuyorsunuz.",
        State.AGENT: "Artık yeniden asistanla konuşuyorsunuz.",
    },
}


@dataclass(frozen=True, slots=True)
class Held:
    """Who answers in a conversation now."""

    state: State = MACHINE.initial
    #: How often that has changed.
    revision: int = 0
    #: `person:…` who holds it; empty where no operator does.
    operator: str = ""

    @property
    def by_people(self) -> bool:
        """Whether the agent does not answer."""
        return self.state is not State.AGENT

    def moved(self, event: Event, by: str) -> Held:
        """Return what `event` makes of it; raise ExpectedRace where somebody was faster."""
        state = MACHINE.next_state(self.state, event)
        return Held(state, self.revision + 1, by if state is State.OPERATOR else "")


def told(held: Held, language: str) -> str:
    """Return what the visitor is told of who answers now."""
    return _TOLD.get(language, _TOLD["en"])[held.state].format(operator=name_of(held.operator))


def shown(held: Held, language: str) -> dict[str, Any]:
    """Return what a frontend is told of who answers now: {state, operator, text}."""
    return {"state": held.state.value, "operator": held.operator, "text": told(held, language)}
