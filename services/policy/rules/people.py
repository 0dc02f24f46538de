"""A directory as the history of activations keeps it: who there is and who belongs together, no addresses."""

from __future__ import annotations

from collections.abc import Iterator

from placet.contracts.canonical import sha256_hex
from placet.domain.directory import Directory, Person
from placet.domain.duty import WEEKDAYS, GroupDuty, Rotation


def outline(directory: Directory) -> str:
    """Return a line for each person, group and agent, sorted: what two versions differ in shows as a line each.

    By what somebody is known (addresses, accounts, attributes) only a digest is kept: a change shows, and nobody reads
    an address here that has left the file.
    """
    lines = [_person_line(person) for _, person in sorted(directory.people.items())]
    for noun, lists in (("group", directory.groups), ("owners of", directory.owners)):
        lines += [f"{noun} {name}: {', '.join(sorted(people)) or 'nobody'}" for name, people in sorted(lists.items())]
    lines += (line for name, duty in sorted(directory.duty.items()) for line in _duty_lines(name, duty))
    return "".join(f"{line}\n" for line in lines)


def _duty_lines(group: str, duty: GroupDuty) -> Iterator[str]:
    if duty.hours is not None:
        hours = duty.hours
        days = " ".join(WEEKDAYS[day] for day in sorted(hours.days))
        off = "".join(f", not on {day}" for day in sorted(hours.holidays))
        yield f"hours of {group}: {days} {hours.begin:%H:%M}-{hours.end:%H:%M} {hours.zone}{off}"
    if isinstance(duty.plan, Rotation):
        plan = duty.plan
        order = ", ".join(plan.people)
        yield f"on call in {group}: {order}, {plan.days} days each from {plan.starts_at.isoformat(' ')} {plan.zone}"
    elif duty.plan is not None:
        yield f"on call in {group}: calendar {duty.plan.file.rpartition('/')[2]} {duty.plan.zone}"


def _person_line(person: Person) -> str:
    accounts = [[each.team, each.user] for each in person.slack]
    known_by = [person.name, *person.emails], accounts, list(person.subjects), dict(person.attributes)
    state = "active" if person.active else "not active"
    return f"person {person.id}: {state}, known by {sha256_hex(list(known_by))[:12]}"
