"""Mailed links in tests: put there as the notifier would, opened as a person would, and as a scanner does."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import httpx

from placet.contracts.ids import new_id
from placet.domain.directory import Directory, Person
from placet.surfaces.link_codes import code_hash
from tests.builders import a_call
from tests.support.gateway import House, an_approval_row, insert

#: What the mail says beside a link of these tests.
CODE = "K7R4W"
#: How often a mail gateway looks at a link before a person does.
SCANS = 10
#: Who may have links, and decide.
PEOPLE = Directory(
    people={name: Person(name, name.title(), (f"{name}@example.org",)) for name in ("ada", "grace")},
    groups={"operators": frozenset({"ada", "grace"}), "finance": frozenset({"ada"})},
)


def waiting(house: House, **changes: Any) -> dict[str, Any]:
    """Return an approval that waits."""
    row = an_approval_row(a_call(call_id=new_id(), arguments=changes.pop("arguments", {"amount": 299})), **changes)
    insert(house.url, "approvals", **row)
    return row


def decided(house: House) -> list[tuple[str, str, str]]:
    """Return who decided what, known how."""
    return [(claims.person, claims.verb, claims.proof) for claims in house.approvers.claims]


def a_link(url: str, approval: dict[str, Any], person: str = "person:ada", **changes: Any) -> str:
    """Put a link about an approval where the notifier shows it; return its token."""
    token = secrets.token_urlsafe(32)
    row = {
        "code_hash": code_hash(token, CODE),
        "token_hash": hashlib.sha256(token.encode()).hexdigest(),
        **{name: approval[name] for name in ("tenant", "approval_id", "digest", "revision")},
        "person": person,
        "recipient": person.removeprefix("person:") + "@example.org",
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
        #: Boxes to check: name -> value -> whether it is checked.
        self.boxes: dict[str, dict[str, bool]] = {}
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
        elif tag == "input" and values.get("type") == "checkbox":
            self.boxes.setdefault(name, {})[value] = "checked" in values
        elif tag in {"input", "textarea"} and name:
            self.fields[name] = value


async def choose(client: httpx.AsyncClient, path: str, **fields: str | list[str]) -> httpx.Response:
    """Open a link, fill the form in and send it, as a browser does that was told to tell no referrer."""
    page = Page((await client.get(path)).text)
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    return await client.post(path, data=page.fields | {"mail_code": CODE} | fields, headers=headers)


async def scan(client: httpx.AsyncClient, path: str) -> list[int]:
    """Do to a link what mail gateways do; return statuses.

    They look, follow, and send what they found: as it was, without looking, and filled in as well as a program can.
    """
    statuses = []
    for _ in range(SCANS):
        statuses += [(await client.head(path)).status_code]
        shown = await client.get(path)
        followed = [await client.get(each) for each in re.findall(r'(?:href|src)="(/[^"]*)"', shown.text)]
        sent = await client.post(path, data=Page(shown.text).fields, headers={"origin": "null"})
        filled = [await client.post(path, data=each, headers={"origin": "null"}) for each in _filled(shown.text)]
        blind = [
            await client.post(path),
            await client.post(path, data={"decision": "approve"}),
            await client.put(path),
            await client.post(path, content=b"\x00\xff", headers={"content-type": "application/octet-stream"}),
        ]
        statuses += [each.status_code for each in (shown, *followed, sent, *filled, *blind)]
    return statuses


def _filled(text: str) -> list[dict[str, str]]:
    """Return a page's form with each choice made, and words of the page, and usual ones, in every field to be typed."""
    page = Page(text)
    typed = [name for name, value in page.fields.items() if not value]
    digest = page.fields.get("digest", "")
    words = ["test", "1234", digest[-4:], digest[:4], "approve", *re.findall(r"\b[A-Za-z]{4}\b", text)[:20]]
    choices = [dict.fromkeys(page.choices, value) for values in page.choices.values() for value in values]
    return [page.fields | choice | dict.fromkeys(typed, word) for choice in choices for word in words]
