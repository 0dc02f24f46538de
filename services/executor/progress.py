"""What a running tool may say of its progress, and how often it is told. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from placet.contracts.messages.tool_calls import PROGRESS_TEXT_MAX
from placet.contracts.sizes import text_of

#: How long a call that people were asked about runs before it is told that it does, in seconds: what has ended sooner
#: needs no word in between.
SILENCE_SECONDS = 0.25
#: Shortest pause between two reports of a call, in seconds.
PAUSE_MIN_SECONDS = 1.0
#: Reports made in the time that a call has run so far, at most, once the shortest pause is outgrown.
REPORTS_PER_AGE = 50


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a tool is."""

    #: From 0 to 1; None where the tool cannot say.
    fraction: float | None
    text: str


def progress_of(fraction: object, text: object) -> Progress:
    """Return a report as it can be told, whatever a tool gave for it: cut to its bounds, what is no number is None."""
    number = fraction if isinstance(fraction, int | float) and -math.inf < fraction < math.inf else None
    words = " ".join(text_of(text, 4 * PROGRESS_TEXT_MAX).replace("\x00", "\ufffd").split())
    cut = words if len(words) <= PROGRESS_TEXT_MAX else words[: PROGRESS_TEXT_MAX - 1] + "…"
    return Progress(None if number is None else float(min(max(number, 0), 1)), cut)


def pause_after(age_seconds: float) -> float:
    """Return how long to be silent after a report of a call that has run for so long, in seconds."""
    return max(PAUSE_MIN_SECONDS, age_seconds / REPORTS_PER_AGE)
