"""Tells of an outage in two lines, one when it begins and one when it is over, however much it keeps from happening."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

import structlog

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Outages:
    """What is away now and then: `began` and `ended` are the events of the two lines."""

    began: str
    ended: str
    #: What both tell beside.
    about: Mapping[str, object] = field(default_factory=dict)
    _missed: int = field(default=0, init=False)
    _since: float = field(default=0.0, init=False)
    _ended_at: float = field(default=0.0, init=False)

    @property
    def on(self) -> bool:
        """Whether one was told that is not over."""
        return self._missed > 0

    def miss(self, since: float | None = None, /, **told: object) -> None:
        """Note that something failed because of it; only the first time is told.

        `since` is when that began to wait for it, by the monotonic clock; None: just now. What began to wait before the
        last outage was over belongs to that one.
        """
        if not self._missed and since is not None and since < self._ended_at:
            return
        if not self._missed:
            self._since = monotonic() if since is None else since
            log.warning(self.began, **self.about, **told)
        self._missed += 1

    def meet(self, **told: object) -> None:
        """Note that it was there."""
        if self._missed:
            log.warning(
                self.ended, **self.about, **told, missed=self._missed, seconds=round(monotonic() - self._since, 1)
            )
            self._missed, self._ended_at = 0, monotonic()
