"""The gateway's API keys as approval and policy see them, in a stand-in for the view."""

from __future__ import annotations

import psycopg

from tests.support.house import Replica


def create_keys_view(url: str) -> None:
    """Make the stand-in."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "read"')
        connection.execute('CREATE TABLE "read".api_keys (key_id text, tenant text, revoked_at timestamptz)')
        connection.execute(
            'CREATE TABLE "read".active_rulebook (digest text, directory_digest text, people_since boolean)'
        )
        connection.execute('CREATE TABLE "read".askers (tenant text, conversation_id text, people text, wrote text)')
        connection.execute(
            'CREATE TABLE "read".key_makers'
            " (tenant text, person text, created_by text, taken_over_at timestamptz, revoked_at timestamptz)"
        )


async def add_keys(replica: Replica, *key_ids: str) -> None:
    """Let there be working keys."""
    insert = "INSERT INTO read.api_keys (key_id, tenant) SELECT unnest(CAST(:key_ids AS text[])), 'acme'"
    await replica.execute(insert, key_ids=list(key_ids))


async def revoke(replica: Replica, key_id: str) -> None:
    """Let a key work no more."""
    await replica.execute("UPDATE read.api_keys SET revoked_at = clock_timestamp() WHERE key_id = :id", id=key_id)


async def judge_by(replica: Replica, digest: str, directory: str | None = None, *, since: bool = True) -> None:
    """Let policy judge by this rulebook, and by this directory, which took over before or since."""
    await replica.execute("DELETE FROM read.active_rulebook")
    insert = "INSERT INTO read.active_rulebook VALUES (:digest, :directory, :since)"
    await replica.execute(insert, digest=digest, directory=directory, since=since)
