"""Audit on one database, and a queue to which letters go back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from services.audit.service import build
from services.audit.settings import AuditSettings
from tests.support.house import Replica, a_replica, create_tables
from tests.support.postgres import Databases

_create = create_tables("audit")


@pytest.fixture(scope="module")
def audit_url(databases: Databases) -> Iterator[str]:
    """A database for the tests of one module; each finds it empty."""
    with databases.fresh(_create) as url:
        yield url


@pytest.fixture
async def replica(audit_url: str) -> AsyncIterator[Replica]:
    """One process of audit."""
    async with a_replica("audit", audit_url, partial(build, AuditSettings())) as replica:
        await replica.empty_tables()
        yield replica
