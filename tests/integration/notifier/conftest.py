"""The notifier on one database, with a channel that the test watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial

import psycopg
import pytest
from pydantic import SecretStr

from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from tests.support.house import Replica, a_replica, create_tables
from tests.support.postgres import Databases

_create_notifier = create_tables("notifier")
#: In place of others' views: nothing is stopped, and nothing staged; nobody asked beside the requester, in no job.
_VIEWS = (
    "CREATE SCHEMA IF NOT EXISTS read",
    "CREATE TABLE IF NOT EXISTS read.stops (tenant text, tool text, agent text, reason text)",
    """CREATE TABLE IF NOT EXISTS read.workspace_entries (
        call_id text, workspace_id text, tenant text, position int, tool text, kind text, digest text, keys text[],
        summary text, state text, error text, shown_arguments text, staged_at timestamptz DEFAULT now(),
        requester text, conversation_id text
    )""",
    "CREATE TABLE IF NOT EXISTS read.askers (tenant text, conversation_id text, people text)",
    """CREATE TABLE IF NOT EXISTS read.key_makers (
        tenant text, person text, created_by text, taken_over_at timestamptz, revoked_at timestamptz
    )""",
    "CREATE TABLE IF NOT EXISTS read.conversations (tenant text, conversation_id text, job_id text)",
    "CREATE TABLE IF NOT EXISTS read.jobs (tenant text, job_id text, spec jsonb)",
    "CREATE TABLE IF NOT EXISTS read.job_attempts (tenant text, job_id text, conversation_id text)",
)


def _create(url: str) -> None:
    _create_notifier(url)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        for statement in _VIEWS:
            connection.execute(statement)


@pytest.fixture(scope="module")
def notifier_url(databases: Databases) -> Iterator[str]:
    """A database for the tests of one module; each finds it empty."""
    with databases.fresh(_create) as url:
        yield url


@pytest.fixture
async def replica(notifier_url: str) -> AsyncIterator[Replica]:
    """One process of the notifier, in an installation that has a channel beside its log."""
    settings = NotifierSettings(notifier_apprise={"somewhere": SecretStr("json://127.0.0.1:9")})
    async with a_replica("notifier", notifier_url, partial(build, settings)) as replica:
        await replica.empty_tables()
        yield replica
