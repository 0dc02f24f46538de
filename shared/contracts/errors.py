"""Errors whose type says whose fault it is and what happens next.

A handler raises one of these; the consumer shell acts on the type alone, so no handler ever decides about
acknowledgement, delay or dead letters by itself. Anything else that escapes a handler is a bug: dead letter, alarm.
"""

from __future__ import annotations

from datetime import datetime


class PlacetError(Exception):
    """Base of every error that Placet raises on purpose."""


class Refused(PlacetError):
    """An expected answer: the state or the rules say no. Never retried, never alarms.

    Over HTTP it becomes a problem document with `status`; in a handler it is a log line.
    """

    def __init__(self, title: str, *, status: int = 409, kind: str = "refused", **facts: object) -> None:
        super().__init__(title)
        self.title = title
        #: HTTP status that the gateway answers with, 4xx.
        self.status = status
        #: Stable short name of the refusal, the last part of the problem's `type`.
        self.kind = kind
        #: Extension members for the problem document; JSON values.
        self.facts = facts


class Transient(PlacetError):
    """Something outside is not ready; the event comes again after a delay, a bounded number of times."""


class NotYet(Transient):
    """What the event comes after goes on: it comes again for as long as that takes."""


class Poison(PlacetError):
    """This event can never be handled: dead letter at once, with this reason."""


class SentBeforeRestore(Poison):
    """This is from before the newest restore from a backup, and nobody remembers what it led to: dead letter."""

    def __init__(self, restored_at: datetime) -> None:
        at = restored_at.isoformat(timespec="seconds")
        super().__init__(f"sent before the restore of {at}, so what it asks for may have been done: ask again")


class SecurityAlert(Poison):
    """A forged, replayed or foreign signature: dead letter, a log line at `warning` and a counter."""
