"""Transactions that fail at their very end, as where the database goes away or is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

_FAILING = """
    CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$
"""


@contextmanager
def failing_commits(url: str, table: str) -> Iterator[None]:
    """Let every transaction fail at its end that has written to a table."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FAILING)
        trigger = "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.fail()"
        connection.execute(f"CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON {table} {trigger}")
        yield
        connection.execute("DROP FUNCTION public.fail CASCADE")
