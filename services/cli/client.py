"""The gateway's API, and the database beside it, as the command line uses them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from placet.cli.output import fail
from placet.runtime.urls import redacted_url

if TYPE_CHECKING:
    from placet.runtime.database import Database

#: Longest wait for an answer, in seconds; a decision waits up to 5 at the gateway.
TIMEOUT_SECONDS = 15.0
#: What an API key or a token consists of: signs that a header can carry.
_SECRET = re.compile(r"[!-~]+")


def address(data: Path | None = None) -> str:
    """Return the gateway's address: PLACET_URL, or what `placet up` left in its data folder, or its default.

    The folder is `data`, or else PLACET_DATA.
    """
    if url := os.environ.get("PLACET_URL"):
        return url.rstrip("/")
    try:
        return ((data or _data()) / "url").read_text().strip()
    except OSError:
        return "http://127.0.0.1:8080"


def _data() -> Path:
    return Path(os.environ.get("PLACET_DATA", ".data"))


def api_key(data: Path | None = None) -> str:
    """Return the API key: PLACET_KEY, or what `placet up` left in its data folder: `data`, or else PLACET_DATA."""
    if key := os.environ.get("PLACET_KEY"):
        return _a_secret(key, "PLACET_KEY is no API key")
    path = (data or _data()) / "admin.key"
    try:
        return _a_secret(path.read_text().strip(), f"{path} holds no API key")
    except (OSError, UnicodeDecodeError):
        fail(f"no API key: set PLACET_KEY, or PLACET_DATA to the folder of `placet up` (looked for {path})", code=2)


def url_beside(data: Path) -> str:
    """Return the URL of the database of the `placet up` that runs in a folder; end the command where none does."""
    from placet.embedded.local_postgres import running_url

    return running_url(data.resolve() / "postgres") or fail(f"no `placet up` runs in {data}", code=2)


def at_database(url: str, work: Callable[[Database], Coroutine[Any, Any, Any]]) -> Any:
    """Return what is done at a database; what goes wrong there ends the command with one line."""
    import asyncio

    from placet.contracts.errors import PlacetError
    from placet.runtime.database import Database
    from placet.runtime.driver import DatabaseError

    if not url:
        fail(
            "--database or PLACET_DATABASE_URL says where the database is, or --data the folder of `placet up`", code=2
        )

    async def run() -> Any:
        database = Database(url, service="gateway", pool_size=2, answer_seconds=None)
        try:
            return await work(database)
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except (DatabaseError, OSError, PlacetError) as error:
        fail(str(error) or type(error).__name__)


def refuse_no_token(token: str) -> None:
    """End the command where a token was typed that can be none."""
    _a_secret(token, "--token is no token")


def _a_secret(secret: str, otherwise: str) -> str:
    """Return a secret that a header can carry; else end the command with a line that does not show it."""
    if not _SECRET.fullmatch(secret):
        fail(f"{otherwise}: it must be printable ASCII without spaces", code=2)
    return secret


def client(token: str | None = None) -> httpx.Client:
    """Return an HTTP client that sends the API key, or another token."""
    if token:
        refuse_no_token(token)
    headers = {"authorization": f"Bearer {token or api_key()}"}
    return httpx.Client(base_url=address(), headers=headers, timeout=TIMEOUT_SECONDS)


def call(method: str, path: str, *, token: str | None = None, **options: Any) -> Any:
    """Return the JSON answer of one request; a problem document or a lost connection ends the command with one line."""
    try:
        with client(token) as http:
            response = http.request(method, path, **options)
    except httpx.HTTPError as error:
        fail(f"no answer from {redacted_url(address())} (PLACET_URL says where Placet is): {error}")
    if not response.is_success:
        fail(problem_line(response))
    return response.json() if response.content else {}


def problem_line(response: httpx.Response) -> str:
    """Return a problem document as one line."""
    try:
        problem = response.json()
    except ValueError:
        return f"{response.status_code} {response.reason_phrase}"
    parts = [str(problem.get("title", response.reason_phrase)), str(problem.get("detail", ""))]
    extra = [f"{name} {problem[name]}" for name in ("state", "decided_by", "decided_at") if problem.get(name)]
    extra += [f"there are: {', '.join(map(str, problem['agents']))}"] if problem.get("agents") else []
    extra += [f"did you mean: {', '.join(map(str, problem['near']))}"] if problem.get("near") else []
    faults = problem.get("errors", [])
    errors = [f"{each.get('pointer') or each.get('parameter', '')} {each.get('detail', '')}" for each in faults]
    errors += [f"{each['line']}:{each['column']} {each['problem']}" for each in problem.get("problems", [])]
    *others, last = [part.strip() for part in [*parts, *extra, *errors] if part.strip()] or [response.reason_phrase]
    return f"{response.status_code} " + "; ".join([*(part.removesuffix(".") for part in others), last])
