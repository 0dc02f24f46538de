"""Conditions on who may decide, asked of one person: by approval at each vote, where a call is claimed once more."""

from __future__ import annotations

from placet.contracts.errors import PlacetError
from placet.contracts.permit import Permit
from placet.domain.directory import Directory
from placet.domain.held import CalledFor


def looks_at_call(text: str) -> bool:
    """Tell whether a condition looks at the call: a group or an attribute may have that word in its name.

    One that does not compile nobody meets, whatever the call.
    """
    if "call" not in text:
        return False
    # As below.
    from placet.domain.person_condition import compile_person_condition  # noqa: PLC0415

    try:
        return compile_person_condition(text).looks_at_call
    except PlacetError:
        return False


def holds(text: str, identity: str, directory: Directory, call: CalledFor) -> bool:
    """Tell whether somebody meets a condition. An empty one everybody meets, one without an answer nobody."""
    if not text:
        return True
    # CEL weighs 8 MB: only where a rule has such a condition.
    from placet.domain.person_condition import compile_person_condition, facts_of  # noqa: PLC0415

    try:
        return compile_person_condition(text).holds(facts_of(identity, directory), call)
    except PlacetError:
        return False


def consent_lost(permit: Permit, call: CalledFor, directory: Directory) -> bool:
    """Tell whether somebody whose yes is behind a call may decide nothing any more, as the directory is now.

    Of a staged call people approved the commit: what their condition says of a call it does not say of this one.
    """
    if directory.has_lost(permit.by, permit.groups, permit.listed):
        return True
    return any(
        not holds(text, person, directory, call)
        for text, people in permit.conditions.items()
        if permit.mode != "staged_call" or not looks_at_call(text)
        for person in people
    )
