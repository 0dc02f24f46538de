"""The jobs service on one database; who asks and who answers is the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial

import psycopg
import pytest

from placet.jobs.service import build
from placet.jobs.settings import JobsSettings
from tests.support.house import Replica, a_replica, create_tables
from tests.support.postgres import Databases

_create_jobs = create_tables("jobs")
#: In place of approval's view, nobody is asked anything, and of the agent's.
_VIEWS = (
    "CREATE SCHEMA IF NOT EXISTS read",
    "CREATE TABLE IF NOT EXISTS read.card_times (tenant text, conversation_id text, closed_at timestamptz)",
    "CREATE TABLE IF NOT EXISTS read.taken_conversations (tenant text, conversation_id text)",
    "CREATE TABLE IF NOT EXISTS read.stops (stop_id text, tenant text, tool text, agent text, reason text)",
)


def _create(url: str) -> None:
    _create_jobs(url)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        for statement in _VIEWS:
            connection.execute(statement)


@pytest.fixture(scope="module")
def jobs_url(databases: Databases) -> Iterator[str]:
    """A database for the tests of one module; each finds it empty."""
    with databases.fresh(_create) as url:
        yield url


@pytest.fixture
async def replica(jobs_url: str) -> AsyncIterator[Replica]:
    """One process of the jobs service."""
    async with a_replica("jobs", jobs_url, partial(build, JobsSettings())) as replica:
        await replica.empty_tables()
        yield replica
