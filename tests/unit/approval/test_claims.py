"""A decision counts only as the gateway signed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placet.approval.rules import read_claims
from placet.contracts.errors import SecurityAlert
from placet.contracts.signing import Purpose, Signer, Verifier, create_keys, load_signer, load_verifier
from tests.support.approval_builders import a_decision, an_approval, some_claims


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the signing keys of every issuer."""
    folder = tmp_path_factory.mktemp("keys")
    create_keys(folder)
    return folder


@pytest.fixture
def verifier(keys: Path) -> Verifier:
    """What approval verifies with."""
    return load_verifier(keys)


@pytest.fixture
def gateway(keys: Path) -> Signer:
    """The only signer of decisions."""
    return load_signer(keys, "gateway")


def test_a_signed_decision_is_read_as_it_was_signed(gateway: Signer, verifier: Verifier) -> None:
    """Every claim comes back."""
    claims = some_claims(an_approval(), reason="fine by me")
    assert claims == read_claims(a_decision(gateway, claims), verifier)


@pytest.mark.parametrize(
    "around",
    [{"tenant": "other"}, {"approval_id": "another"}, {"decision_id": "another"}],
    ids=lambda each: next(iter(each)),
)
def test_a_decision_in_a_message_for_something_else_is_an_alert(
    gateway: Signer, verifier: Verifier, around: dict[str, Any]
) -> None:
    """A signed decision cannot be carried over to another approval, tenant or id."""
    with pytest.raises(SecurityAlert, match="signed for another"):
        read_claims(a_decision(gateway, some_claims(an_approval()), **around), verifier)


def test_a_decision_signed_with_an_unknown_key_is_an_alert(verifier: Verifier, tmp_path: Path) -> None:
    """Only the gateway's own key counts."""
    create_keys(tmp_path)
    forged = a_decision(load_signer(tmp_path, "gateway"), some_claims(an_approval()))
    with pytest.raises(SecurityAlert, match="forged"):
        read_claims(forged, verifier)


def test_a_permit_is_no_decision(keys: Path, gateway: Signer, verifier: Verifier) -> None:
    """A token that another service signed for another purpose decides nothing."""
    claims = some_claims(an_approval())
    token = load_signer(keys, "policy").sign(Purpose.PERMIT, claims.model_dump())
    with pytest.raises(SecurityAlert, match="forged"):
        read_claims(a_decision(gateway, claims, decision=token), verifier)


def test_a_login_of_the_gateway_is_no_decision(gateway: Signer, verifier: Verifier) -> None:
    """The gateway's other signatures decide nothing either."""
    claims = some_claims(an_approval())
    token = gateway.sign(Purpose.LOGIN, claims.model_dump())
    with pytest.raises(SecurityAlert, match="forged"):
        read_claims(a_decision(gateway, claims, decision=token), verifier)


@pytest.mark.parametrize("token", ["", "a.b.c", "{}", "ä"])
def test_garbage_is_an_alert(gateway: Signer, verifier: Verifier, token: str) -> None:
    """What is no token at all is treated as a forgery."""
    with pytest.raises(SecurityAlert, match="forged"):
        read_claims(a_decision(gateway, some_claims(an_approval()), decision=token), verifier)


def test_signed_claims_of_another_shape_are_an_alert(gateway: Signer, verifier: Verifier) -> None:
    """A signature over something that is no decision is not completed by guessing."""
    claims = some_claims(an_approval())
    token = gateway.sign(Purpose.DECISION, claims.model_dump(exclude={"digest"}))
    with pytest.raises(SecurityAlert, match="forged"):
        read_claims(a_decision(gateway, claims, decision=token), verifier)


def test_a_reason_loses_what_the_database_cannot_store(gateway: Signer, verifier: Verifier) -> None:
    """A NUL in a person's words does not stop the decision."""
    claims = some_claims(an_approval(), reason="no\x00pe")
    assert read_claims(a_decision(gateway, claims), verifier).reason == "nope"
