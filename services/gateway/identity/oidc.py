"""Signing in at an OpenID Connect provider: code flow with PKCE, state and nonce. The only file that knows Authlib.

What the browser must bring back travels in a signed cookie of its own for ten minutes; what the provider says is
believed only with a signature by its published keys, for this client, this nonce and this issuer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx2
import structlog
from authlib.common.errors import AuthlibBaseError
from authlib.common.security import generate_token
from authlib.integrations.starlette_client import StarletteOAuth2App
from joserfc.errors import JoseError

from placet.contracts.errors import Refused
from placet.contracts.signing import BadSignature, Purpose, Signer, Verifier
from placet.gateway.identity.keys import same_hash
from placet.gateway.identity.sign_in import ATTEMPT_SECONDS

log = structlog.get_logger(__name__)

#: Signatures that only the provider can make; `none` and shared secrets are not among them.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_TIMEOUT_SECONDS = 10.0
_LEEWAY_SECONDS = 30


class LoginFailed(Refused):
    """The provider's answer is not to be believed, or it gave none; the log says which."""

    def __init__(self, why: str) -> None:
        super().__init__("Signing in did not work. Try again.", status=401, kind="login-failed", detail=why)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sign-in on its way."""

    #: Where the browser goes.
    url: str
    #: What it brings back beside the provider's answer.
    cookie: str


@dataclass
class Provider:
    """One OpenID Connect provider, and this client of it."""

    issuer: str
    client_id: str
    client_secret: str
    #: Where the provider sends browsers back to.
    callback: str
    signer: Signer
    verifier: Verifier
    clock: Callable[[], float] = time.time
    _client: Any = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the client; the provider itself is asked when somebody signs in."""
        self._client = StarletteOAuth2App(
            framework=None,
            name="placet",
            client_id=self.client_id,
            client_secret=self.client_secret or None,
            server_metadata_url=f"{self.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid email profile",
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": "client_secret_basic" if self.client_secret else "none",
                "timeout": _TIMEOUT_SECONDS,
            },
        )

    async def begin(self, back: str) -> Attempt:
        """Return where to send a browser that wants to sign in and then go `back`; raise LoginFailed."""
        try:
            await self._metadata()
            made = await self._client.create_authorization_url(self.callback, nonce=generate_token(32))
        except (AuthlibBaseError, httpx2.HTTPError, ValueError) as error:
            raise _failed("provider_away", "The sign-in service does not answer.", error) from error
        kept = {"state": made["state"], "nonce": made["nonce"], "verifier": made["code_verifier"], "back": back}
        ends = int(self.clock()) + ATTEMPT_SECONDS
        return Attempt(made["url"], self.signer.sign(Purpose.LOGIN, {**kept, "exp": ends}))

    async def finish(self, cookie: str, answer: Mapping[str, str]) -> tuple[Mapping[str, Any], str]:
        """Return the claims of who came back, and where they wanted to go; raise LoginFailed."""
        kept = self._kept(cookie)
        if not same_hash(str(kept["state"]), answer.get("state", "")):
            raise _failed("foreign_state", "This sign-in was not begun in this browser.")
        if "error" in answer or not answer.get("code"):
            raise _failed("provider_refused", "The sign-in service refused.", answer.get("error", "no code")[:100])
        try:
            await self._metadata()
            token = await self._client.fetch_access_token(
                redirect_uri=self.callback, code=answer["code"], code_verifier=kept["verifier"]
            )
            claims = await self._client.parse_id_token(token, nonce=kept["nonce"], leeway=_LEEWAY_SECONDS)
        except (AuthlibBaseError, JoseError, httpx2.HTTPError, ValueError, KeyError) as error:
            raise _failed("not_believed", "What the sign-in service said is not to be believed.", error) from error
        if claims is None or not claims.get("nonce") or not claims.get("sub"):
            raise _failed("not_believed", "The sign-in service did not say who you are.")
        return cast("Mapping[str, Any]", claims), str(kept["back"])

    def _kept(self, cookie: str) -> Mapping[str, Any]:
        try:
            kept = self.verifier.verify(Purpose.LOGIN, cookie)
        except BadSignature as error:
            raise _failed("no_attempt", "This sign-in was not begun in this browser.", error) from error
        if self.clock() >= int(str(kept["exp"])):
            raise _failed("too_late", "This sign-in took too long.")
        return kept

    async def _metadata(self) -> None:
        """Read what the provider says of itself; raise ValueError where it is another than the one we trust."""
        metadata = await self._client.load_server_metadata()
        if metadata.get("issuer") != self.issuer:
            # Not kept: what is mended there is found at the next sign-in.
            metadata.clear()
            raise ValueError("the provider names another issuer")
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [each for each in offered if each in ALGORITHMS]


def _failed(event: str, why: str, error: object = "") -> LoginFailed:
    log.warning("login.failed", step=event, error=type(error).__name__ if isinstance(error, Exception) else error)
    return LoginFailed(why)
