"""Whom pages suggest by name. The directory is the house's: another tenant is shown its own people alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placet.domain.addresses import without_case
from placet.domain.approvers import identity_of, name_of
from placet.domain.directory import Person
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.store.sessions import people_of
from placet.gateway.store import reading


def meant(typed: str, people: Iterable[Person]) -> str:
    """Return the identity of the one person of that name, or with that id; any other text as it is."""
    name, key = typed.casefold(), without_case(typed)
    found = {each.id for each in people if name == each.name.casefold() or key == without_case(each.id)}
    return identity_of(found.pop()) if len(found) == 1 else typed


async def suggested(deps: Deps, caller: Caller, named: Iterable[object] = ()) -> Sequence[Person]:
    """Return people in the order of their names; `named` are those that the page names anyway, `person:…`."""
    people = caller.people.values()
    if caller.of_house:
        return sorted(people, key=lambda each: each.name)
    async with reading(deps.runtime.database) as connection:
        known = await people_of(connection, caller.tenant)
    known |= {name_of(each) for each in named if isinstance(each, str)}
    return sorted((each for each in people if each.id in known), key=lambda each: each.name)
