"""The purge as it is done by itself: by one process at a time, whoever else has the same duty."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import structlog
from prometheus_client import Counter, Gauge

from placet.contracts.errors import PlacetError
from placet.contracts.signing import KeysUnusable, Verifier, load_verifier
from placet.deploy.retention.erasing import erase_asked
from placet.deploy.retention.purging import QUERIES, Keep, purge
from placet.deploy.retention.settings import RetentionSettings
from placet.runtime.database import Database, is_outage

log = structlog.get_logger(__name__)

LAST = Gauge(
    "placet_purge_last_seconds",
    "When the last purge here ended that could do all it should, in Unix time; 0: none since the start.",
)
PURGED = Counter("placet_purged_total", "What was purged here, by kind.", ["kind"])
#: Pause before another try while the database is away, in seconds.
OUTAGE_SECONDS = 30.0


class PurgeGoesOnError(PlacetError):
    """Another process purges at this moment."""


async def purge_now(database: Database, keep: Keep, verifier: Verifier | None) -> dict[str, int]:
    """Erase who was asked for and delete what is too old; return how much of each kind went.

    Raises PurgeGoesOnError. Takes two connections: one holds the turn, which goes with the process however it ends.
    """
    async with database.transaction() as turn:
        if not (await turn.run(QUERIES.take_turn))[0]["taken"]:
            raise PurgeGoesOnError("another purge goes on")
        gone = {"persons": await erase_asked(database), **await purge(database, keep, verifier)}
    for kind, count in gone.items():
        PURGED.labels(kind).inc(count)
    if keep.history is None or verifier is not None:
        LAST.set_to_current_time()
    return gone


def verifier_of(keys: Path) -> Verifier | None:
    """Return what checkpoints are verified with; None, and a line of the log, where the folder has no public keys."""
    try:
        return load_verifier(keys)
    except KeysUnusable as error:
        log.warning("retention.no_keys", reason=str(error))
        return None


def keep_of(settings: RetentionSettings) -> Keep:
    """Return how long what is kept."""
    days = {name: getattr(settings, f"retention_{name}_days") for name in Keep.__slots__}
    return Keep(**{name: timedelta(days=number) for name, number in days.items() if number})


async def purge_again_and_again(database: Database, settings: RetentionSettings) -> None:
    """Purge every so often until this is cancelled; never where that is every 0 hours."""
    if not settings.retention_every_hours:
        # Whoever keeps this running would begin it again and again.
        log.warning("retention.off", setting="PLACET_RETENTION_EVERY_HOURS")
        await asyncio.Event().wait()
    while True:
        pause = settings.retention_every_hours * 3_600
        try:
            log.info("retention.purged", **await purge_now(database, keep_of(settings), verifier_of(settings.keys)))
        except PurgeGoesOnError as error:
            log.info("retention.passed_over", reason=str(error))
        except Exception as error:
            if not is_outage(error):
                raise
            log.warning("retention.waiting", error=type(error).__name__)
            pause = min(pause, OUTAGE_SECONDS)
        await asyncio.sleep(pause)
