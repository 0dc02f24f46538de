"""Whom a provider's claims mean."""

from __future__ import annotations

import pytest

from placet.domain.directory import Directory, Person
from placet.gateway.identity.sign_in import person_of

FRANK = Person("frank", emails=("frank@example.org",))
OTHERS = ["fran\u212a@example.org", "FRAN\u212a@EXAMPLE.ORG", "frank@example.org\u200b", "\uff46rank@example.org"]


@pytest.mark.parametrize(
    ("email", "person"),
    [("frank@example.org", FRANK), ("FRANK@Example.Org", FRANK), *((each, None) for each in OTHERS)],
)
def test_a_verified_address_means_who_has_it_and_nobody_else(email: str, person: Person | None) -> None:
    """The case of ASCII letters does not count; the Kelvin sign is no k, and whoever has it is another person."""
    claims = {"sub": "x", "email": email, "email_verified": True}
    assert person == person_of(Directory(people={"frank": FRANK}), claims)
