"""Mailed links in tests: put there as the notifier would, opened as a person would, and as a scanner does."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import httpx

from tests.support.gateway import insert

#: How often a mail gateway looks at a link before a person does.
SCANS = 10


def a_link(url: str, approval: dict[str, Any], person: str = "person:ada", **changes: Any) -> str:
    """Put a link about an approval where the notifier shows it; return its token."""
    token = secrets.token_urlsafe(32)
    row = {
        "token_hash": hashlib.sha256(token.encode()).hexdigest(),
        **{name: approval[name] for name in ("tenant", "approval_id", "digest", "revision")},
        "person": person,
        "expires_at": datetime.now(UTC) + timedelta(hours=1),
    }
    insert(url, "links", **(row | changes))
    return token


class Page(HTMLParser):
    """The form of a page, as a browser would send it untouched, and what somebody could choose in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        #: Fields that have a value by themselves.
        self.fields: dict[str, str] = {}
        #: Radio buttons: name -> values.
        self.choices: dict[str, list[str]] = {}
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what can be sent."""
        values = dict(attrs)
        name, value = values.get("name") or "", values.get("value") or ""
        self.scripts += tag == "script"
        if tag == "input" and values.get("type") == "radio":
            self.choices.setdefault(name, []).append(value)
            if "checked" in values:
                self.fields[name] = value
        elif tag in {"input", "textarea"} and name:
            self.fields[name] = value


async def choose(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """Open a link, fill the form in and send it, as a browser does that was told to tell no referrer."""
    page = Page((await client.get(path)).text)
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    return await client.post(path, data=page.fields | fields, headers=headers)


async def scan(client: httpx.AsyncClient, path: str) -> list[int]:
    """Do to a link what mail gateways do: look, follow, and send what was found without choosing; return statuses."""
    statuses = []
    for _ in range(SCANS):
        statuses += [(await client.head(path)).status_code]
        shown = await client.get(path)
        followed = [await client.get(each) for each in re.findall(r'(?:href|src)="(/[^"]*)"', shown.text)]
        sent = await client.post(path, data=Page(shown.text).fields, headers={"origin": "null"})
        blind = [
            await client.post(path),
            await client.post(path, data={"decision": "approve"}),
            await client.put(path),
            await client.post(path, content=b"\x00\xff", headers={"content-type": "application/octet-stream"}),
        ]
        statuses += [each.status_code for each in (shown, *followed, sent, *blind)]
    return statuses
