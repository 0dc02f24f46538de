"""A database for rows that nobody should have written."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest


@pytest.fixture
def database(module_database_url: str) -> Iterator[psycopg.Connection]:
    """Lend a migrated database in which nothing stays that a test does."""
    with psycopg.connect(module_database_url) as connection:
        yield connection
        connection.rollback()
