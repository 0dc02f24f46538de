"""Lists of administrators among very many rows: each page is a stretch of one index."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from bench.lists import LISTS, NARROWED, fill
from placet.gateway import jobs, operators
from placet.gateway.audit.history import LOOKED_AT
from placet.gateway.store.paging import ROWS_MAX
from placet.runtime.database import Database
from placet.runtime.queries import query

ROWS = 30_000
#: Rows that one page may look at, where as many fit as a page has: more than these were read to be sorted.
SEEN_MAX = 1_000
_SEEN = query(
    "seen", "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint AS rows FROM pg_stat_xact_user_tables"
)


@pytest.mark.parametrize("package", [jobs, operators])
def test_statements_say_the_most_rows_that_a_page_asks_for(package: ModuleType) -> None:
    """A file of SQL cannot name the constant."""
    text = Path(str(package.__file__)).with_name("queries.sql").read_text()
    assert f"LIMIT {ROWS_MAX}\n" in text


@pytest.fixture(scope="module")
def long(module_database_url: str) -> str:
    """Fill every list."""
    fill(module_database_url, ROWS)
    return module_database_url


@pytest.mark.parametrize("name", [name for name in LISTS if name != "history"])
async def test_a_page_looks_at_few_rows_however_many_there_are(long: str, name: str) -> None:
    """By an index, in its order: a page of the newest reads hardly more rows than it shows.

    The history looks through a bounded number of rows by itself, and so does a list of calls that is narrowed: of each
    call it reads four rows.
    """
    database = Database(long, service="gateway")
    try:
        async with database.transaction() as connection:
            await LISTS[name](connection)
            ((seen,),) = await connection.run(_SEEN)
    finally:
        await database.close()
    assert seen <= (4 * LOOKED_AT if name in NARROWED else SEEN_MAX)
