"""A database with the agent's tables for each test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.house import create_tables


@pytest.fixture
def agent_url(fresh_database: Callable[[Callable[[str], None]], str]) -> str:
    """Make a database that holds nothing but the agent's empty tables."""
    return fresh_database(create_tables("agent"))
