"""The first API key of an installation, made where no service runs yet.

Synchronous and on a plain connection, because it is called by set-up and by the command line, which have neither an
event loop nor a key to ask the API with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.contracts.ids import is_shortened, own_prefix
from placet.gateway.identity.keys import Scope, checked_key, new_key, parse_secret, same_hash
from placet.gateway.identity.sign_in import ADMIN_PERSON, ADMIN_TENANT

if TYPE_CHECKING:
    import psycopg


def create_key(connection: psycopg.Connection, *, tenant: str, person: str, scopes: Sequence[str]) -> str:
    """Store a new API key and return it, for the only time. The caller commits.

    Raises ValueError where tenant, person or a scope is none, and for a new tenant whose ids could be another's.
    """
    wanted = checked_key(tenant, person, scopes)
    _check_ids(connection, tenant)
    key, kept = new_key()
    connection.execute(
        "INSERT INTO gateway.api_keys (key_id, tenant, person, scopes, secret_hash, created_by,"
        " taken_over_at, taken_over_by) VALUES (%s, %s, %s, %s, %s, 'set-up', now(), 'set-up')",
        (kept.key_id, tenant, person, wanted, kept.secret_hash),
    )
    return key


def _check_ids(connection: psycopg.Connection, tenant: str) -> None:
    """Raise ValueError for a new tenant whose ids could be those of a longer name, or of a shortened one in use."""
    shortened = own_prefix(tenant).removesuffix("_")
    sql = "SELECT DISTINCT tenant FROM gateway.api_keys WHERE tenant IN (%s, %s)"
    known = {name for (name,) in connection.execute(sql, (tenant, shortened))}
    if tenant not in known and (known or is_shortened(tenant)):
        raise ValueError(f"choose another name than {tenant!r}: in ids {shortened!r} stands for a longer one")


def create_admin_key(connection: psycopg.Connection) -> str:
    """Store a new key of the installation's administrator, with every scope, and return it. The caller commits."""
    return create_key(connection, tenant=ADMIN_TENANT, person=ADMIN_PERSON, scopes=list(Scope))


def key_works(connection: psycopg.Connection, key: str) -> bool:
    """Tell whether `key` is an API key that is known and not revoked."""
    parsed = parse_secret(key)
    if parsed is None or not parsed.key_id:
        return False
    row = connection.execute(
        "SELECT secret_hash FROM gateway.api_keys WHERE key_id = %s AND revoked_at IS NULL", (parsed.key_id,)
    ).fetchone()
    return row is not None and same_hash(row[0], parsed.secret_hash)
