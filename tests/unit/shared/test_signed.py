"""The signed request for a grant: every field is bound, and only approval may sign one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.errors import PlacetError, SecurityAlert
from placet.contracts.permit import issue_permit
from placet.contracts.signed import signed, verify_signed
from placet.contracts.signing import create_keys, load_signer, load_verifier
from tests.builders import NOON, a_call
from tests.support.policy_builders import a_grant_request


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everybody's keys."""
    folder = tmp_path_factory.mktemp("keys")
    create_keys(folder)
    return folder


def test_signed_request_is_accepted(keys: Path) -> None:
    """What approval signed, after its way over the wire."""
    asked = a_grant_request(a_call(), load_signer(keys, "approval"))
    verify_signed(load_verifier(keys), type(asked).model_validate_json(asked.model_dump_json()))


@pytest.mark.parametrize(
    "changes",
    [
        {"grant_id": "other"},
        {"approval_id": "other"},
        {"owner": "person:eve"},
        {"scope": "tenant"},
        {"bounds": ["amount", "to"]},
        {"uses": 100},
        {"expires_at": NOON + timedelta(days=365)},
        {"rule": "other"},
        {"rulebook_digest": "c" * 64},
        {"call": a_call()},
        {"tenant": "rival"},
        {"signature": ""},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_changed_request_is_an_attack(keys: Path, changes: dict[str, Any]) -> None:
    """No field can be changed after signing."""
    asked = a_grant_request(a_call(), load_signer(keys, "approval"))
    with pytest.raises(SecurityAlert):
        verify_signed(load_verifier(keys), asked.model_copy(update=changes))


@pytest.mark.parametrize("issuer", ["policy", "gateway"])
def test_only_approval_may_ask_for_grants(keys: Path, issuer: str) -> None:
    """Others' keys are refused when they sign."""
    with pytest.raises(PlacetError, match="may not sign"):
        signed(a_grant_request(a_call()), load_signer(keys, issuer))


def test_permit_is_no_request_for_a_grant(keys: Path) -> None:
    """A signature for one purpose says nothing for another, though the same key made it."""
    call = a_call()
    permit = issue_permit(
        load_signer(keys, "approval"), call, pool="default", reference="a", now=NOON, lifetime_seconds=60
    )
    asked = a_grant_request(call).model_copy(update={"signature": permit})
    with pytest.raises(SecurityAlert):
        verify_signed(load_verifier(keys), asked)
