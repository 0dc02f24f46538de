"""What rules call people: `requester`, `operators`, `person:ada`, `group:leads`. Read and written here alone.

A person's stable identity is an approver of the kind `person`; what visitors are called names none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What stands before the id of a person, and before the name of a group.
PERSON, GROUP = "person:", "group:"
#: Stand for themselves: whoever asked for the call, and whoever has a key that may decide.
REQUESTER, OPERATORS = "requester", "operators"


@dataclass(frozen=True, slots=True)
class Approver:
    """One approver of a rule, taken apart."""

    #: `nobody`: a text that names none; whoever meets it lets nobody in.
    kind: Literal["requester", "operators", "person", "group", "nobody"]
    #: Id of the person or name of the group; empty for the other kinds.
    name: str = ""


def read_approver(text: str) -> Approver:
    """Return what `text` names; never raises."""
    if text == REQUESTER:
        return Approver("requester")
    if text == OPERATORS:
        return Approver("operators")
    if (name := person_id(text)) is not None:
        return Approver("person", name)
    if text.startswith(GROUP) and text != GROUP:
        return Approver("group", text.removeprefix(GROUP))
    return Approver("nobody")


def person_id(identity: str) -> str | None:
    """Return the id in `person:<id>`; None for anybody else."""
    return identity.removeprefix(PERSON) if identity.startswith(PERSON) and identity != PERSON else None


def is_person(identity: str) -> bool:
    """Tell whether an identity is that of a person, listed or not."""
    return person_id(identity) is not None


def name_of(identity: str) -> str:
    """Return how somebody is named where no directory is at hand: `ada` for `person:ada`, anybody else as they are."""
    return person_id(identity) or identity


def group_of(name: str) -> str:
    """Return the approver that means the people of this group."""
    return f"{GROUP}{name}"


def group_in(text: str) -> str:
    """Return the name of the group that an approver means, `operators` too; empty where it means none."""
    named = read_approver(text)
    return named.name if named.kind == "group" else OPERATORS if named.kind == "operators" else ""


def identity_of(person: str) -> str:
    """Return the stable identity of the person with this id."""
    return f"{PERSON}{person}"
