"""A small OpenID Connect provider in a process of its own, as strict as a real one and able to lie on request.

`python -m tests.support.oidc_provider` prints its issuer and serves until it is told to stop. Who signs in is what the
form at `/authorize` says; `spoil` there makes the ID token wrong in one way. `PUT /client-secrets` says which
secrets of its client it takes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

import uvicorn
from fastapi import Body, FastAPI, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "placet", "a-secret-of-the-tests"
_PAGE = """<!doctype html><html lang="en"><title>Provider</title><main><h1>Provider</h1><form method="post">
<label>Subject <input name="subject"></label><label>E-mail <input name="email"></label>
<label><input type="checkbox" name="verified" value="1"> verified</label><input type="hidden" name="spoil">
<button>Continue</button></form></main></html>"""


@dataclass(frozen=True)
class Code:
    """What an authorization code stands for, once."""

    asked: dict[str, str]
    claims: dict[str, Any]
    spoil: str


def create_provider(issuer: str) -> FastAPI:
    """Return the provider as an app."""
    app = FastAPI()
    known = {CLIENT_SECRET}
    key, other = (RSAKey.generate_key(2048, {"kid": "one"}) for _ in range(2))
    codes: dict[str, Code] = {}

    @app.get("/.well-known/openid-configuration")
    async def discovery() -> dict[str, Any]:
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/jwks",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }

    @app.put("/client-secrets")
    async def administer(taken: Annotated[list[str], Body()]) -> None:
        known.clear()
        known.update(taken)

    @app.get("/jwks")
    async def keys() -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False)]}

    @app.get("/authorize")
    async def ask(request: Request) -> HTMLResponse:
        _check_question(dict(request.query_params))
        return HTMLResponse(_PAGE)

    @app.post("/authorize")
    async def consent(
        request: Request,
        subject: Annotated[str, Form()] = "",
        email: Annotated[str, Form()] = "",
        verified: Annotated[str, Form()] = "",
        spoil: Annotated[str, Form()] = "",
    ) -> RedirectResponse:
        asked = dict(request.query_params)
        _check_question(asked)
        code = secrets.token_urlsafe(16)
        codes[code] = Code(asked, {"sub": subject, "email": email, "email_verified": bool(verified)}, spoil)
        answer = {"state": asked["state"]} | ({"error": "access_denied"} if spoil == "refuse" else {"code": code})
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 303)

    @app.post("/token")
    async def token(
        request: Request,
        code: Annotated[str, Form()],
        redirect_uri: Annotated[str, Form()],
        code_verifier: Annotated[str, Form()],
    ) -> dict[str, Any]:
        found = codes.pop(code, None)
        if (
            found is None
            or request.headers.get("authorization") not in {_basic(each) for each in known}
            or not _fits(found, code_verifier)
        ):
            raise HTTPException(400, "invalid_grant")
        if redirect_uri != found.asked["redirect_uri"]:
            raise HTTPException(400, "invalid_grant")
        signed = _id_token(issuer, found, key, other)
        return {"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "id_token": signed}

    return app


def _check_question(asked: dict[str, str]) -> None:
    wanted = {"response_type": "code", "client_id": CLIENT_ID, "code_challenge_method": "S256"}
    given = {name: asked.get(name) for name in wanted}
    if given != wanted or not all(asked.get(name) for name in ("state", "nonce", "code_challenge", "redirect_uri")):
        raise HTTPException(400, "invalid_request")


def _basic(secret: str) -> str:
    return "Basic " + base64.b64encode(f"{CLIENT_ID}:{secret}".encode()).decode()


def _fits(code: Code, verifier: str) -> bool:
    hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    return hashed == code.asked["code_challenge"]


def _id_token(issuer: str, code: Code, key: RSAKey, other: RSAKey) -> str:
    now = int(time.time())
    claims = {
        "iss": issuer,
        "aud": CLIENT_ID,
        "iat": now,
        "exp": now + 300,
        "nonce": code.asked["nonce"],
        **code.claims,
    }
    match code.spoil:
        case "nonce":
            claims["nonce"] = "another"
        case "audience":
            claims["aud"] = "somebody-else"
        case "issuer":
            claims["iss"] = "https://evil.example"
        case "expired":
            claims["exp"] = now - 3600
        case "unsigned":
            header, body = (_encoded(part) for part in (b'{"alg":"none"}', json.dumps(claims).encode()))
            return f"{header}.{body}."
    signer = other if code.spoil == "key" else key
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, signer)


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


@contextmanager
def running_provider() -> Iterator[str]:
    """Run a provider while the block runs; yield its issuer."""
    command = [sys.executable, "-m", "tests.support.oidc_provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    """Serve on a free port, and print the issuer once connections are taken."""
    listening = socket.create_server(("127.0.0.1", 0))
    issuer = f"http://127.0.0.1:{listening.getsockname()[1]}"
    sys.stdout.write(f"{issuer}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(create_provider(issuer), log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
