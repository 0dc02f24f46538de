"""What rules call people is read in one place, and whoever is not understood there is nobody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placet.domain.approvers import Approver, group_of, identity_of, is_person, name_of, person_id, read_approver
from placet.domain.directory import Directory, Person

ROOT = Path(__file__).parents[3]
#: A text that is a prefix, or begins with one before something that is put in.
PREFIX = re.compile(r"""["'](?:person|group):["'{*]""")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("requester", Approver("requester")),
        ("operators", Approver("operators")),
        ("person:ada", Approver("person", "ada")),
        ("person:ada:b", Approver("person", "ada:b")),
        ("group:leads", Approver("group", "leads")),
        ("ada", Approver("nobody")),
        ("person:", Approver("nobody")),
        ("group:", Approver("nobody")),
        ("Person:ada", Approver("nobody")),
        ("visitor:requester", Approver("nobody")),
        ("", Approver("nobody")),
    ],
)
def test_an_approver_is_one_of_four_kinds_or_nobody(text: str, expected: Approver) -> None:
    """Nothing is guessed: another case, an empty name and a visitor are nobody."""
    assert expected == read_approver(text)


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("person:eve", {"eve"}),
        ("person:joe", {"joe"}),
        ("group:leads", {"ada"}),
        ("group:nobody", set()),
        ("operators", {"bob"}),
        ("requester", set()),
        ("ada", set()),
    ],
)
def test_the_people_behind_an_approver_are_active_members_or_who_is_named(text: str, people: set[str]) -> None:
    """Who is named by themselves is meant in any case; whether they may act is asked of them."""
    everybody = {name: Person(name, active=name != "eve") for name in ("ada", "bob", "eve")}
    groups = {"leads": frozenset({"ada", "eve"}), "operators": frozenset({"bob"})}
    assert people == Directory(people=everybody, groups=groups).behind(text)


@pytest.mark.parametrize(
    ("identity", "found"),
    [
        ("person:ada", (True, "ada", "ada")),
        ("visitor:x", (False, None, "visitor:x")),
        ("person:", (False, None, "person:")),
    ],
)
def test_an_identity_is_a_person_or_somebody_without_an_account(
    identity: str, found: tuple[bool, str | None, str]
) -> None:
    """What it says of a person, and what people are told of anybody."""
    assert found == (is_person(identity), person_id(identity), name_of(identity))


def test_identities_and_groups_are_written_as_they_are_read() -> None:
    """One way there and the same way back."""
    assert ("ada", Approver("group", "leads")) == (person_id(identity_of("ada")), read_approver(group_of("leads")))


def test_nothing_else_takes_them_apart_or_puts_them_together() -> None:
    """The prefixes stand in one module."""
    found = [
        str(path.relative_to(ROOT))
        for folder in ("services", "shared")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if PREFIX.search(path.read_text())
    ]
    assert ["shared/domain/approvers.py"] == found
