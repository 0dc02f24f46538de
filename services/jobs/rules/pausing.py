"""How long a job waits for a model that does not answer, and when it stops waiting."""

from __future__ import annotations

from datetime import datetime, timedelta

#: A job in which nobody answered for so long is given up.
SILENCE_MAX = timedelta(minutes=15)
PAUSE_MIN, PAUSE_MAX = timedelta(seconds=1), timedelta(seconds=60)


def pause_after(silent_since: datetime, now: datetime) -> timedelta | None:
    """Return the pause before the next attempt: as long as nobody answered yet, within its bounds; None: give up."""
    silent = now - silent_since
    return None if silent >= SILENCE_MAX else min(max(silent, PAUSE_MIN), PAUSE_MAX)
