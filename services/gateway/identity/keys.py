"""What API keys and conversation tokens look like, and how they are kept.

Pure. Secrets are 256 random bits, so a plain SHA-256 is the right thing at rest: there is nothing to guess that a slow
password hash would protect, and a slow one would tax every request. A key carries its own id so that it is found by
index and compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from placet.contracts.visitors import NAME_PATTERN

_RANDOM = "[A-Za-z0-9_-]{43}"
_KEY = re.compile(f"placet_([0-9a-f]{{16}})_({_RANDOM})")
_TOKEN = re.compile(f"placet_chat_{_RANDOM}")
#: Without what looks alike.
_CODE_LETTERS, _CODE_LENGTH = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789", 10
_NAME = re.compile(NAME_PATTERN)
_TENANT = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")


class Scope(StrEnum):
    """What a key may do within its tenant."""

    CHAT = "chat"  # open conversations, post and read in them
    DECIDE = "decide"  # see approvals and decide them, as an operator
    OPERATE = "operate"  # take conversations over from the agent and answer in them
    ADMIN = "admin"  # keys, other people's sessions and dead letters


@dataclass(frozen=True, slots=True)
class Secret:
    """A bearer secret taken apart."""

    #: Id of an API key; empty for a conversation token, which is found by its hash.
    key_id: str
    secret_hash: str


def new_key(key_id: str = "") -> tuple[str, Secret]:
    """Return a new API key, `placet_<id>_<secret>`, and what is kept of it; the key itself is shown once.

    `key_id` is that of the key whose secret this is to be from now on.
    """
    key_id, secret = key_id or secrets.token_hex(8), secrets.token_urlsafe(32)
    return f"placet_{key_id}_{secret}", Secret(key_id, hash_secret(secret))


def new_token() -> str:
    """Return a new conversation token, `placet_chat_<secret>`."""
    return f"placet_chat_{secrets.token_urlsafe(32)}"


def parse_secret(text: str) -> Secret | None:
    """Return what `text` is a secret for; None where it is none of ours."""
    if match := _KEY.fullmatch(text):
        return Secret(match[1], hash_secret(match[2]))
    return Secret("", hash_secret(text)) if _TOKEN.fullmatch(text) else None


def new_code() -> str:
    """Return a code to take a key over with: ten letters and digits, 50 random bits, in two halves."""
    letters = "".join(secrets.choice(_CODE_LETTERS) for _ in range(_CODE_LENGTH))
    return f"{letters[:5]}-{letters[5:]}"


def hash_code(key_id: str, code: str) -> str:
    """Return what is stored of the code of a key, however somebody writes it: 64 hexadecimal digits."""
    return hash_secret(f"{key_id}:{''.join(each for each in code.upper() if each.isalnum())}")


def hash_secret(secret: str) -> str:
    """Return what is stored of a secret: SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def form_token(cookie: str) -> str:
    """Return what forms of a session's pages carry: 64 hexadecimal digits that nobody makes without its cookie."""
    return hmac.new(cookie.encode(), b"placet-form", hashlib.sha256).hexdigest()


def same_hash(one: str, other: str) -> bool:
    """Compare two hashes in constant time; a text that a client sends in place of one may be anything."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def checked_key(tenant: str, person: str, scopes: Iterable[str]) -> list[str]:
    """Return the scopes of a key to be made, sorted; raise ValueError where tenant, person or a scope is none."""
    wanted = sorted({str(Scope(scope)) for scope in scopes})
    if not wanted:
        raise ValueError("a key needs at least one scope: chat, decide, operate or admin")
    if not _TENANT.fullmatch(tenant):
        raise ValueError(f"{tenant!r} is no tenant name: lower-case letters, digits and hyphens, at most 63")
    if not _NAME.fullmatch(person):
        raise ValueError(f"{person!r} is no person: letters, digits and . _ @ + -, at most 100")
    return wanted
