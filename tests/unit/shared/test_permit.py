"""A permit is good for one call, one pool, one purpose, and from two issuers only."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import OKPKey

from placet.contracts.canonical import ARGUMENTS_BYTES_MAX, canonical_text
from placet.contracts.errors import PlacetError, SecurityAlert
from placet.contracts.messages import ToolCall, WorkspaceBase
from placet.contracts.permit import issue_permit, reference_of, verify_permit
from placet.contracts.signing import (
    BadSignature,
    PrivateKey,
    Purpose,
    Signer,
    Verifier,
    create_keys,
    load_signer,
    load_verifier,
)
from tests.builders import NOON, a_call


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the signing keys of every issuer."""
    folder = tmp_path_factory.mktemp("keys")
    create_keys(folder)
    return folder


@pytest.fixture
def verifier(keys: Path) -> Verifier:
    """What an executor verifies with."""
    return load_verifier(keys)


def permit_for(signer: Signer, call: ToolCall, *, pool: str = "payments") -> str:
    """Return a permit that lasts a minute."""
    return issue_permit(signer, call, pool=pool, reference="r", now=NOON, lifetime_seconds=60)


def signed_under(key: PrivateKey, head: Mapping[str, object], claims: Mapping[str, object]) -> str:
    """Return a token with a header of any kind, signed as it should be."""

    def text(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = ".".join(text(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{text(key.curve.sign(signed.encode()).signature)}"


@pytest.mark.parametrize("issuer", ["policy", "approval"])
def test_permits_of_both_issuers_are_good(keys: Path, verifier: Verifier, issuer: str) -> None:
    """Policy and approval may permit, and the permit names its issuer."""
    call = a_call()
    permit = verify_permit(verifier, permit_for(load_signer(keys, issuer), call), call, pool="payments")
    assert (issuer, call.call_id, call.digest) == (permit.iss, permit.sub, permit.digest)


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"amount": 299_000, "currency": "TRY"}},
        {"tool": "refund"},
        {"tenant": "other"},
        {"conversation_id": "other"},
        {"schema_digest": "b" * 64},
        {"call_id": "other"},
        {"requester": "somebody-else"},
        {"message_id": "another-message"},
        {"agent": "another-agent"},
        {"base": WorkspaceBase(conversation_id="of-another-job", entries=9)},
    ],
)
def test_a_permit_fits_no_other_call(keys: Path, verifier: Verifier, change: dict[str, Any]) -> None:
    """Changing any bound field after the permit was issued is found out, also with a fitting digest."""
    call = a_call()
    token = permit_for(load_signer(keys, "approval"), call)
    other = a_call(**{"call_id": call.call_id, **change})
    with pytest.raises(SecurityAlert):
        verify_permit(verifier, token, other, pool="payments")


def test_changed_bytes_under_an_unchanged_digest_are_found_out(keys: Path, verifier: Verifier) -> None:
    """The digest is computed anew from the bytes, not believed."""
    call = a_call()
    token = permit_for(load_signer(keys, "approval"), call)
    forged = call.model_copy(update={"arguments": '{"amount":299000,"currency":"TRY"}'})
    with pytest.raises(SecurityAlert):
        verify_permit(verifier, token, forged, pool="payments")


def test_a_permit_is_for_one_pool(keys: Path, verifier: Verifier) -> None:
    """A permit for another pool is refused."""
    call = a_call()
    with pytest.raises(SecurityAlert):
        verify_permit(verifier, permit_for(load_signer(keys, "policy"), call), call, pool="default")


def test_a_permit_expires_at_its_second(keys: Path, verifier: Verifier) -> None:
    """A permit is good until its expiry and not at it."""
    call = a_call()
    permit = verify_permit(verifier, permit_for(load_signer(keys, "policy"), call), call, pool="payments")
    after = [permit.expired(NOON + timedelta(seconds=seconds)) for seconds in (0, 59, 60)]
    assert after == [False, False, True]


def test_the_gateway_cannot_sign_permits(keys: Path) -> None:
    """A signer refuses a purpose that its issuer has no right to."""
    with pytest.raises(PlacetError):
        load_signer(keys, "gateway").sign(Purpose.PERMIT, {"sub": "x"})


def test_a_token_for_another_purpose_is_no_permit(keys: Path, verifier: Verifier) -> None:
    """A decision signed by the gateway never verifies as a permit."""
    token = load_signer(keys, "gateway").sign(Purpose.DECISION, {"sub": "x"})
    with pytest.raises(BadSignature):
        verifier.verify(Purpose.PERMIT, token)


def test_a_stolen_gateway_key_under_a_forged_header_is_refused(keys: Path, verifier: Verifier) -> None:
    """What a key may sign is judged by its issuer in public.json, not by the token's header."""
    thief = load_signer(keys, "gateway")
    impostor = Signer("policy", thief.key)
    with pytest.raises(BadSignature):
        verifier.verify(Purpose.PERMIT, impostor.sign(Purpose.PERMIT, {"sub": "x"}))


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "eyJhbGciOiJub25lIn0.e30."])
def test_garbage_is_no_signature(verifier: Verifier, token: str) -> None:
    """Garbage and unsigned tokens are refused with the same error."""
    with pytest.raises(BadSignature):
        verifier.verify(Purpose.PERMIT, token)


@pytest.mark.parametrize("character", ["x", '"', "\N{LATIN SMALL LETTER DOTLESS I}", "\N{PARTY POPPER}"])
def test_the_largest_arguments_can_be_signed_and_verified(keys: Path, verifier: Verifier, character: str) -> None:
    """Whatever is written in them, and with everything that may be said beside them."""
    text = canonical_text({"a": ""})
    while len((longer := canonical_text({"a": character * (len(text) + 1_000)})).encode()) <= ARGUMENTS_BYTES_MAX:
        text = longer
    claims = {"arguments": text, "reason": character * 8_000, "said": character * 8_000}
    token = load_signer(keys, "gateway").sign(Purpose.DECISION, claims)
    assert claims | {"iss": "gateway"} == verifier.verify(Purpose.DECISION, token)


def test_what_nobody_signed_is_not_read(keys: Path, verifier: Verifier) -> None:
    """A forger cannot reach the reader behind the signature: no error of its own hides the forgery."""
    head, _, signature = permit_for(load_signer(keys, "policy"), a_call()).split(".")
    nested = base64.urlsafe_b64encode(b"[" * 30_000).rstrip(b"=").decode()
    with pytest.raises(BadSignature):
        verifier.verify(Purpose.PERMIT, f"{head}.{nested}.{signature}")


@pytest.mark.parametrize("part", range(3))
def test_what_is_changed_under_a_header_that_was_good_is_refused(keys: Path, verifier: Verifier, part: int) -> None:
    """A good token opens no door to another one: header, claims and signature are each looked at anew."""
    token = permit_for(load_signer(keys, "policy"), a_call())
    verifier.verify(Purpose.PERMIT, token)
    parts = token.split(".")
    changed = base64.urlsafe_b64decode(parts[part] + "==").replace(b"e", b"f", 1)
    changed = bytes([changed[0] ^ 1]) + changed[1:] if part == 2 else changed
    parts[part] = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
    with pytest.raises(BadSignature):
        verifier.verify(Purpose.PERMIT, ".".join(parts))
    for odd in (f"{token}=", f"{token[:-4]}+{token[-4:]}", f"{token}.x", token.replace(".", "..", 1)):
        with pytest.raises(BadSignature):
            verifier.verify(Purpose.PERMIT, odd)


def test_private_keys_are_readable_by_their_owner_only(keys: Path) -> None:
    """Private keys have mode 600, and public.json holds no private part."""
    modes = {oct(path.stat().st_mode & 0o777) for path in keys.glob("*.private.json")}
    public = json.loads((keys / "public.json").read_text())["keys"]
    assert ({"0o600"}, []) == (modes, [key for key in public if "d" in key])


def test_creating_keys_again_keeps_them(keys: Path) -> None:
    """A second start does not replace keys."""
    assert create_keys(keys) == []


def test_a_permit_is_good_for_its_mode_alone(keys: Path, verifier: Verifier) -> None:
    """What may be staged may not run by the same permit."""
    call = a_call()
    signer = load_signer(keys, "policy")
    staged = issue_permit(signer, call, pool="payments", reference="r", now=NOON, lifetime_seconds=60, mode="stage")
    assert "stage" == verify_permit(verifier, staged, call, pool="payments", modes=("stage",)).mode
    with pytest.raises(SecurityAlert, match="does not fit call"):
        verify_permit(verifier, staged, call, pool="payments")


def test_a_service_speaks_for_its_own_purposes_alone(keys: Path, verifier: Verifier) -> None:
    """Policy's key makes no decision of a person, though the signature itself is right."""
    key = load_signer(keys, "policy").key
    head = {"alg": "Ed25519", "kid": key.kid, "typ": str(Purpose.DECISION)}
    with pytest.raises(BadSignature, match="signed by policy"):
        verifier.verify(Purpose.DECISION, signed_under(key, head, {"iss": "policy"}))


@pytest.mark.parametrize(
    "odd",
    [
        {"alg": "EdDSA"},
        {"alg": "none"},
        {"b64": False, "crit": ["b64"]},
        {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": "AA"}},
        {"typ": ["placet-permit"]},
        {"kid": {}},
        {"kid": "x" * 1_000},
    ],
)
def test_nothing_is_believed_under_another_header_than_ours(
    keys: Path, verifier: Verifier, odd: dict[str, object]
) -> None:
    """Also where the signature is right: no header says how a token is to be verified."""
    key = load_signer(keys, "policy").key
    head = {"alg": "Ed25519", "kid": key.kid, "typ": str(Purpose.PERMIT)}
    assert "policy" == verifier.verify(Purpose.PERMIT, signed_under(key, head, {"iss": "policy"}))["iss"]
    with pytest.raises(BadSignature):
        verifier.verify(Purpose.PERMIT, signed_under(key, head | odd, {"iss": "policy"}))


@pytest.mark.parametrize("head", ["[" * 30_000, "[]", "null", "1", '"alg"', "{}"])
def test_a_header_that_is_none_is_no_signature(verifier: Verifier, head: str) -> None:
    """Whatever JSON it is, and however deep."""
    text = base64.urlsafe_b64encode(head.encode()).rstrip(b"=").decode()
    with pytest.raises(BadSignature):
        verifier.verify(Purpose.PERMIT, f"{text}.e30.AA")
    assert not verifier.names(f"{text}.e30.AA")


def test_another_library_reads_our_keys_and_tokens(keys: Path) -> None:
    """They are Ed25519 in JWS by RFC 7515 and 8037, and a key's id is its thumbprint by RFC 7638."""
    key = OKPKey.import_key(json.loads((keys / "policy.private.json").read_text()))
    token = load_signer(keys, "policy").sign(Purpose.PERMIT, {"sub": "x"})
    read = jws.deserialize_compact(token, key, algorithms=["Ed25519"])
    assert (key.thumbprint(), {"sub": "x", "iss": "policy"}) == (key.kid, json.loads(read.payload))


def test_we_verify_what_another_library_signs(keys: Path, verifier: Verifier) -> None:
    """With the same key, under the same header."""
    key = OKPKey.import_key(json.loads((keys / "policy.private.json").read_text()))
    head = {"alg": "Ed25519", "kid": key.kid, "typ": str(Purpose.PERMIT)}
    token = jws.serialize_compact(head, b'{"sub":"x","iss":"policy"}', key, algorithms=["Ed25519"])
    assert {"sub": "x", "iss": "policy"} == verifier.verify(Purpose.PERMIT, token)


def test_a_permit_names_its_reference_for_the_log(keys: Path) -> None:
    """And one that is none names nothing, instead of stopping who looks."""
    token = permit_for(load_signer(keys, "approval"), a_call())
    assert ["r", "", "", ""] == [reference_of(each) for each in (token, "", "garbage", "a.W10.c")]
