"""Signatures, each for one purpose: the only door to cryptography.

Ed25519 in JWS compact form (RFC 7515, RFC 8037), made and checked by libsodium (docs/decisions/0078). The purpose
stands in the protected header (`typ`), and each public key names its issuer and the purposes it is good for, so a token
made for one purpose never verifies for another and a stolen agent or executor cannot mint permission.
"""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from placet.contracts.errors import PlacetError

_ALGORITHM = "Ed25519"
#: Said of a file that is not there.
_MISSING = (
    "; `placet migrate` makes signing keys for one machine, `python -m placet.deploy.keys` for services that run apart"
)
#: Bytes that claims may have. The largest arguments, written as JSON within JSON, take three times their size; what is
#: said beside them is a tenth of that.
_CLAIMS_MAX = 512 * 1024
#: The same in base64, and characters of the longest header that is read.
_BODY_MAX, _HEAD_MAX = _CLAIMS_MAX * 4 // 3 + 4, 500


class Purpose(StrEnum):
    """What a signature says."""

    PERMIT = "placet-permit"  # this call may run once
    DECISION = "placet-decision"  # this person decided this
    HOLD = "placet-hold"  # these people may let this call run, and nobody else
    GRANT = "placet-grant"  # this person wants such calls allowed from now on
    EDIT = "placet-edit"  # somebody who may wants this call approved with other arguments
    EDIT_VERDICT = "placet-edit-verdict"  # the rulebook lets it be approved so, or does not
    END = "placet-end"  # the approval of this call ended so
    RESOLUTION = "placet-resolution"  # this person says whether a call of unknown outcome ran
    STOP = "placet-stop"  # this administrator stopped such calls
    RESUME = "placet-resume"  # this administrator lifted that stop
    LOGIN = "placet-login"  # this browser went to a provider to sign in
    CHECKPOINT = "placet-checkpoint"  # these rows of the history stood here when they were sealed
    RECEIPT = "placet-receipt"  # this is what was told of a call when somebody asked for its receipt


#: Who may sign what. A key file that claims more is refused when it is loaded.
SIGNERS: Mapping[str, frozenset[Purpose]] = {
    "policy": frozenset({Purpose.PERMIT, Purpose.HOLD, Purpose.EDIT_VERDICT}),
    "approval": frozenset({Purpose.PERMIT, Purpose.GRANT, Purpose.EDIT, Purpose.END}),
    "gateway": frozenset(
        {
            Purpose.DECISION,
            Purpose.LOGIN,
            Purpose.RESOLUTION,
            Purpose.STOP,
            Purpose.RESUME,
            Purpose.CHECKPOINT,
            Purpose.RECEIPT,
        }
    ),
}


class BadSignature(PlacetError):
    """The token is not what it says it is: wrong key, wrong purpose, changed bytes, or no token at all."""


class KeysUnusable(PlacetError):
    """A file of signing keys is missing, or holds no such keys."""


@dataclass(frozen=True)
class PrivateKey:
    """What signs, and the id of the public key that verifies it."""

    kid: str
    curve: SigningKey


@dataclass(frozen=True)
class Signer:
    """Signs claims as one issuer."""

    issuer: str
    key: PrivateKey

    def sign(self, purpose: Purpose, claims: Mapping[str, Any]) -> str:
        """Return the JWS compact form of `claims`; refuse a purpose that the issuer has no right to."""
        if purpose not in SIGNERS[self.issuer]:
            raise PlacetError(f"{self.issuer} may not sign a {purpose}")
        body = json.dumps({**claims, "iss": self.issuer}, separators=(",", ":")).encode()
        if len(body) > _CLAIMS_MAX:
            raise PlacetError(f"a {purpose} of {len(body)} bytes cannot be signed")
        text = f"{_head(self.key.kid, purpose)}.{_base64(body)}"
        return f"{text}.{_base64(self.key.curve.sign(text.encode()).signature)}"


@cache
def _head(kid: str, purpose: Purpose) -> str:
    header = {"alg": _ALGORITHM, "kid": kid, "typ": str(purpose)}
    return _base64(json.dumps(header, separators=(",", ":")).encode())


@lru_cache(maxsize=100)
def _read_head(head: str) -> tuple[str, str]:
    """Return what a token's header says that it is for, and the key that it names; nothing else may stand in it."""
    if len(head) > _HEAD_MAX:
        raise ValueError("too large")
    header = json.loads(_bytes(head))
    if header.keys() != {"alg", "kid", "typ"} or header["alg"] != _ALGORITHM:
        raise ValueError("not a header of ours")
    return header["typ"], header["kid"]


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass(frozen=True)
class Verifier:
    """Verifies tokens with public keys only."""

    #: Key id -> issuer and public key.
    keys: Mapping[str, tuple[str, VerifyKey]]

    def verify(self, purpose: Purpose, token: str) -> dict[str, Any]:
        """Return the claims of a token made for `purpose`, `iss` included; raise BadSignature for any other."""
        try:
            kind, issuer, payload = self._signed(token)
            # Only now: what nobody has signed is not even read.
            claims = json.loads(payload)
        except (CryptoError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadSignature(f"{purpose}: {type(error).__name__}") from error
        if kind != purpose or purpose not in SIGNERS.get(issuer, ()):
            raise BadSignature(f"{purpose}: signed by {issuer} for {kind!r}")
        if not isinstance(claims, dict) or claims.get("iss") != issuer:
            raise BadSignature(f"{purpose}: issuer does not fit the key")
        return claims

    def names(self, token: str) -> bool:
        """Tell whether a token says that one of these keys has signed it; not one of a key that was taken back."""
        try:
            return _read_head(token.partition(".")[0])[1] in self.keys
        except (ValueError, TypeError, AttributeError, RecursionError):
            return False

    def _signed(self, token: str) -> tuple[str, str, bytes]:
        """Return what a token is for, who signed it, and what; raise one of several errors where nobody did."""
        text, _, signature = token.rpartition(".")
        head, _, body = text.partition(".")
        kind, kid = _read_head(head)
        issuer, curve = self.keys[kid]
        if len(body) > _BODY_MAX:
            raise ValueError("too large")
        # One signature has one form; what it is over needs no such care.
        signed = _bytes(signature)
        if _base64(signed) != signature:
            raise ValueError("another form of base64")
        curve.verify(text.encode(), signed)
        return kind, issuer, _bytes(body)


def payload_of(token: str) -> bytes:
    """Return what a token says, unverified: enough to look, and never to believe; raise ValueError or IndexError."""
    return _bytes(token.split(".")[1])


def create_keys(directory: Path, issuers: Iterable[str] = tuple(SIGNERS)) -> list[Path]:
    """Create what is missing in `directory`: `<issuer>.private.json` (mode 600) each, and `public.json` for all.

    Public keys that are there stay, so that what was signed with keys that were replaced verifies. Raises KeysUnusable
    where a file that is there cannot be read.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = [path for issuer in issuers if (path := _create_private(directory, issuer))]
    public = {entry["kid"]: entry for entry in public_keys(directory)}
    for path in sorted((*directory.glob("*.private.json"), *directory.glob("*.next.json"))):
        key = _private_key(path)
        public.setdefault(key.kid, {**_public(key.curve), "kid": key.kid, "iss": path.name.split(".")[0]})
    publish_keys(directory, public.values())
    return made


def public_keys(directory: Path) -> list[dict[str, Any]]:
    """Return what `directory/public.json` holds, none where there is no such file. Raises KeysUnusable."""
    path = directory / "public.json"
    if not path.exists():
        return []
    with _reading(path) as data:
        return [entry for entry in data["keys"] if all(_text(entry, name) for name in ("kid", "iss"))]


def publish_keys(directory: Path, keys: Iterable[Mapping[str, Any]]) -> None:
    """Have `directory/public.json` hold these, but none that was taken back there."""
    gone = taken_back(directory)
    _write(
        directory / "public.json", json.dumps({"keys": [each for each in keys if each["kid"] not in gone]}, indent=1)
    )


def taken_back(directory: Path) -> set[str]:
    """Return the ids of the keys that were taken back; they are kept, so that nothing brings one again.

    Raises KeysUnusable where they cannot be read.
    """
    path = directory / "taken-back.txt"
    try:
        return set(path.read_text().split()) if path.exists() else set()
    except (OSError, UnicodeError) as error:
        raise KeysUnusable(f"cannot read {path}: {error}") from error


def take_back(directory: Path, kids: Iterable[str]) -> None:
    """Note keys as taken back: from then on nothing here verifies by them, also where they are published still."""
    if new := set(kids) - (before := taken_back(directory)):
        _write(directory / "taken-back.txt", "".join(f"{kid}\n" for kid in sorted(before | new)))


def key_id(path: Path) -> str:
    """Return the id of the private key in a file. Raises KeysUnusable."""
    return _private_key(path).kid


def create_next(directory: Path, issuer: str) -> Path:
    """Create `<issuer>.next.json` (mode 600), which is announced among the public keys and signs nothing yet."""
    return _create_key(directory / f"{issuer}.next.json")


def load_signer(directory: Path, issuer: str) -> Signer:
    """Return the signer whose private key lies in `directory`, beside the public keys.

    Raises KeysUnusable where there is none, and where nobody could verify what it signs.
    """
    path = directory / f"{issuer}.private.json"
    signer, purpose = Signer(issuer, _private_key(path)), min(SIGNERS[issuer])
    try:
        load_verifier(directory).verify(purpose, signer.sign(purpose, {}))
    except BadSignature as error:
        raise KeysUnusable(f"{path} does not fit the public keys beside it") from error
    return signer


def load_verifier(directory: Path) -> Verifier:
    """Return the verifier for `directory/public.json`; raise KeysUnusable, also for keys of issuers nobody knows."""
    path, gone = directory / "public.json", taken_back(directory)
    with _reading(path) as data:
        keys = {_text(each, "kid"): (_text(each, "iss"), VerifyKey(_part(each, "x"))) for each in data["keys"]}
        keys = {kid: key for kid, key in keys.items() if kid not in gone}
    unknown = {issuer for issuer, _ in keys.values()} - set(SIGNERS)
    if unknown:
        raise KeysUnusable(f"{path} names unknown issuers: {', '.join(sorted(unknown))}")
    if not keys:
        raise KeysUnusable(f"{path} holds no signing keys")
    return Verifier(keys)


def _private_key(path: Path) -> PrivateKey:
    with _reading(path) as data:
        if _part(data, "x") and "d" not in data:
            raise KeysUnusable(f"{path} holds no private key")
        return PrivateKey(_text(data, "kid"), SigningKey(_part(data, "d")))


def _text(key: Mapping[str, Any], name: str) -> str:
    if not isinstance(text := key[name], str):
        raise TypeError(f"{name} is no text")
    return text


def _part(key: Mapping[str, Any], name: str) -> bytes:
    """Return a number of a key as RFC 8037 has them: `x` is public, `d` is not."""
    if (key["kty"], key["crv"]) != ("OKP", _ALGORITHM):
        raise ValueError(f"a key for {key['crv']}")
    return _bytes(key[name])


def _public(curve: SigningKey) -> dict[str, str]:
    return {"crv": _ALGORITHM, "kty": "OKP", "x": _base64(bytes(curve.verify_key))}


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """Lend what a file of keys holds; whatever is wrong with it is said with its name, and never with its text."""
    try:
        yield json.loads(path.read_text())
    except OSError as error:
        hint = _MISSING if isinstance(error, FileNotFoundError) else ""
        raise KeysUnusable(f"cannot read {path}: {error.strerror}{hint}") from error
    except (LookupError, ValueError, TypeError, RecursionError) as error:
        raise KeysUnusable(f"{path} holds no signing keys") from error


def _create_private(directory: Path, issuer: str) -> Path | None:
    path = directory / f"{issuer}.private.json"
    return None if path.exists() else _create_key(path)


def _create_key(path: Path) -> Path:
    curve = SigningKey.generate()
    public = _public(curve)
    # The id is the key's thumbprint, by RFC 7638.
    kid = _base64(sha256(json.dumps(public, sort_keys=True, separators=(",", ":")).encode()).digest())
    _write(path, json.dumps({**public, "d": _base64(bytes(curve)), "kid": kid}, indent=1), 0o600)
    return path


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
