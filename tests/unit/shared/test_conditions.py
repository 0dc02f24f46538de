"""Whether those whose yes is behind a call meet the conditions of its rule still."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.permit import Permit
from placet.domain.conditions import consent_lost
from placet.domain.directory import Directory, Person
from tests.builders import SCHEMA_DIGEST, a_call

SENIOR = '"seniors" in person.groups'
TOOL = 'call.tool == "commit_changes"'


def lost(directory: Directory, **claims: Any) -> bool:
    """Tell whether the yes of ada is lost by a permit of these claims."""
    about = {"iss": "approval", "jti": "j", "sub": "c", "aud": "default", "iat": 1, "exp": 2, "tenant": "acme"}
    about |= {"requester": "u", "agent": "default", "message_id": "m", "digest": SCHEMA_DIGEST, "reference": "r"}
    return consent_lost(Permit(**about, by=["person:ada"], **claims), a_call(), directory)


@pytest.mark.parametrize("text", [SENIOR, 'person.attributes.department == "finance"', "no condition"])
def test_who_meets_a_condition_no_more_has_lost_it(text: str) -> None:
    """Also where what it looks at is absent, or it cannot be read: without an answer it is a no."""
    conditions = {text: ["person:ada"]}
    senior = Directory(people={"ada": Person("ada")}, groups={"seniors": frozenset({"ada"})})
    assert (text != SENIOR, True, False) == (
        lost(senior, conditions=conditions),
        lost(Directory(), conditions=conditions),
        lost(Directory()),
    )


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        ("run", TOOL, True),
        ("staged_call", TOOL, False),
        ("staged_call", f"{SENIOR} && call.arguments.order.total < 5.0", False),
        ("staged_call", '.call . labels["a"] == "b"', False),
        ("staged_call", SENIOR, True),
        ("staged_call", '"call-center" in person.groups', True),
        ("staged_call", 'person.attributes["on call.tool"] == "yes"', True),
        ("staged_call", "person.attributes.call == person.id", True),
        ("staged_call", "person.groups.exists(call, call == person.id)", True),
        ("staged_call", "call me", True),
    ],
)
def test_a_condition_on_a_commit_says_nothing_of_what_it_is_made_of(mode: str, text: str, *, expected: bool) -> None:
    """What it says of people alone holds for each call of the workspace, whatever words stand in it."""
    assert expected == lost(Directory(), mode=mode, conditions={text: ["person:ada"]})


def test_a_condition_needs_no_look_where_somebody_left() -> None:
    """Who is inactive may decide nothing, whatever they meet."""
    assert lost(Directory(people={"ada": Person("ada", active=False)}), conditions={"true": ["person:ada"]})
