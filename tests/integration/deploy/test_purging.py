"""The purge that is done by itself: what is too old goes, one process at a time does it, and the metrics say so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from placet.deploy.retention.duty import LAST, PURGED, PurgeGoesOnError, keep_of, purge_again_and_again, purge_now
from placet.deploy.retention.settings import RetentionSettings
from placet.runtime.database import Database
from tests.support.system import until

LETTER = """
    INSERT INTO dead_letters.dead_letters VALUES
        (%s, 'acme', 'q', 's', 'r', 'm', 't', '[]', '[]', 'discarded', now(), now() - %s * interval '1 day', 'ada')
"""
LEFT = "SELECT dead_letter_id FROM dead_letters.dead_letters ORDER BY 1"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A whole database with letters that were discarded 400, 364 and 10 days ago."""
    with psycopg.connect(database_url) as connection:
        for days in (400, 364, 10):
            connection.execute(LETTER, (f"letter-{days}", days))
    made = Database(database_url, service="gateway", pool_size=2)
    yield made
    await made.close()


def left(database: Database) -> list[str]:
    """Return the letters that are there."""
    with psycopg.connect(database.url) as connection:
        return [row[0] for row in connection.execute(LEFT)]


async def test_what_is_older_than_the_settings_say_goes_by_itself(database: Database) -> None:
    """One round with the defaults deletes the letter of more than a year ago; the metrics say when, and how many."""
    began, purging = time.time(), asyncio.create_task(purge_again_and_again(database, RetentionSettings()))

    async def ended() -> bool:
        return bool(next(iter(LAST.collect())).samples[0].value >= began)

    await until(ended, "a purge has ended")
    purging.cancel()
    await asyncio.wait({purging})
    assert ["letter-10", "letter-364"] == left(database)
    (letters,) = [
        each.value
        for each in next(iter(PURGED.collect())).samples
        if each.labels == {"kind": "dead_letters"} and each.name.endswith("_total")
    ]
    assert 1 == letters


async def test_two_never_purge_at_once(database: Database) -> None:
    """Who comes while another one purges is told so, and deletes nothing."""
    async with database.transaction() as other:
        await other.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('placet_purge'))"))
        with pytest.raises(PurgeGoesOnError):
            await purge_now(database, keep_of(RetentionSettings()))
    assert 3 == len(left(database))


def test_what_is_kept_for_ever_is_not_named() -> None:
    """A period of 0 days deletes nothing of its kind."""
    keep = keep_of(RetentionSettings(retention_jobs_days=0, retention_history_days=0))
    assert (None, None) == (keep.jobs, keep.history)


@pytest.mark.parametrize(("conversations", "history"), [(365, 364), (0, 365)])
def test_a_history_that_is_shorter_than_conversations_is_refused(conversations: int, history: int) -> None:
    """Receipts of what is kept need it."""
    with pytest.raises(ValidationError, match="PLACET_RETENTION_HISTORY_DAYS"):
        RetentionSettings(retention_conversations_days=conversations, retention_history_days=history)
