"""URLs of databases, brokers and gateways: as they may be told, and with what they log in."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

#: What stands where a secret is.
HIDDEN = "***"
#: Of the URL of a database; nothing of it is quoted.
UNREADABLE = (
    "the URL of the database cannot be read, its port or connect_timeout neither: "
    "write postgresql://user:password@host:5432/database"
)
#: Names of parameters whose values are secrets, `password` and `sslpassword` of libpq among them; `passfile` is a path.
_SECRET = re.compile("pass(?!file)|pwd|secret|token|api_?key|credential", re.IGNORECASE)


class Login(NamedTuple):
    """Whom a URL logs in where; empty where it does not say so."""

    host: str
    user: str
    password: str


def redacted_url(url: str) -> str:
    """Return a URL as logs and lines may have it: without its password and without what is secret in its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    login, _, place = parts.netloc.rpartition("@")
    if "@" in parts.path + parts.query + parts.fragment:
        # A password with a sign in it that has to be escaped ends there.
        return f"{parts.scheme}://{HIDDEN}"
    user, colon, _ = login.partition(":")
    netloc = f"{user}:{HIDDEN}@{place}" if colon else parts.netloc
    asked = [(name, HIDDEN if _SECRET.search(name) else value) for name, value in parse_qsl(parts.query)]
    query = urlencode(asked, safe="*/:,", quote_via=quote)
    return f"{parts.scheme}://{netloc}{parts.path}{query and '?'}{query}"


def with_parameter(url: str, name: str, value: str) -> str:
    """Return a URL with a parameter in its query, where it says nothing about it itself."""
    parts = urlsplit(url)
    if name in dict(parse_qsl(parts.query, keep_blank_values=True)):
        return url
    return parts._replace(query=f"{parts.query}&{name}={value}".lstrip("&")).geturl()


def login_of(url: str) -> Login:
    """Return how a URL logs in; what it does not say before its path may stand in its query, as in libpq's."""
    parts = urlsplit(url)
    asked = dict(parse_qsl(parts.query))
    return Login(
        parts.hostname or asked.get("host", ""),
        parts.username or asked.get("user", ""),
        parts.password or asked.get("password") or asked.get("passfile", ""),
    )
