"""A directory as the history of activations keeps it: who there is and who belongs together, no addresses."""

from __future__ import annotations

from placet.contracts.canonical import sha256_hex
from placet.domain.directory import Directory, Person


def outline(directory: Directory) -> str:
    """Return a line for each person, group and agent, sorted: what two versions differ in shows as a line each.

    By what somebody is known (addresses, accounts, attributes) only a digest is kept: a change shows, and nobody reads
    an address here that has left the file.
    """
    lines = [_person_line(person) for _, person in sorted(directory.people.items())]
    for noun, lists in (("group", directory.groups), ("owners of", directory.owners)):
        lines += [f"{noun} {name}: {', '.join(sorted(people)) or 'nobody'}" for name, people in sorted(lists.items())]
    return "".join(f"{line}\n" for line in lines)


def _person_line(person: Person) -> str:
    accounts = [[each.team, each.user] for each in person.slack]
    known_by = [person.name, *person.emails], accounts, list(person.subjects), dict(person.attributes)
    state = "active" if person.active else "not active"
    return f"person {person.id}: {state}, known by {sha256_hex(list(known_by))[:12]}"
