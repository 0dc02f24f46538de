"""The signed request for a grant: every field is bound, and only approval may sign one."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.errors import PlacetError, SecurityAlert, SentBeforeRestore
from placet.contracts.permit import issue_permit
from placet.contracts.signed import signed, verify_signed
from placet.contracts.signing import Purpose, create_keys, load_signer, load_verifier
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
    verify_signed(load_verifier(keys), type(asked).model_validate_json(asked.model_dump_json()), None)


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
        verify_signed(load_verifier(keys), asked.model_copy(update=changes), None)


@pytest.mark.parametrize(("seconds", "void"), [(-1, False), (0, True), (1, True)])
def test_what_was_signed_before_a_restore_is_void(keys: Path, seconds: int, *, void: bool) -> None:
    """When it was signed is signed too, so no younger envelope makes it younger."""
    asked = a_grant_request(a_call(), load_signer(keys, "approval"), NOON)
    with pytest.raises(SentBeforeRestore) if void else nullcontext():
        verify_signed(load_verifier(keys), asked, NOON + timedelta(seconds=seconds))


def test_what_was_signed_without_a_time_is_from_before_any_restore(keys: Path) -> None:
    """It counts where nothing was ever restored."""
    asked, signer = a_grant_request(a_call()), load_signer(keys, "approval")
    claims = load_verifier(keys).verify(Purpose.GRANT, signed(asked, signer, NOON).signature)
    old = {name: value for name, value in claims.items() if name != "at"}
    asked = asked.model_copy(update={"signature": signer.sign(Purpose.GRANT, old)})
    verify_signed(load_verifier(keys), asked, None)
    with pytest.raises(SentBeforeRestore):
        verify_signed(load_verifier(keys), asked, NOON - timedelta(days=10_000))


@pytest.mark.parametrize("issuer", ["policy", "gateway"])
def test_only_approval_may_ask_for_grants(keys: Path, issuer: str) -> None:
    """Others' keys are refused when they sign."""
    with pytest.raises(PlacetError, match="may not sign"):
        signed(a_grant_request(a_call()), load_signer(keys, issuer), NOON)


def test_permit_is_no_request_for_a_grant(keys: Path) -> None:
    """A signature for one purpose says nothing for another, though the same key made it."""
    call = a_call()
    permit = issue_permit(
        load_signer(keys, "approval"), call, pool="default", reference="a", now=NOON, lifetime_seconds=60
    )
    asked = a_grant_request(call).model_copy(update={"signature": permit})
    with pytest.raises(SecurityAlert):
        verify_signed(load_verifier(keys), asked, None)
