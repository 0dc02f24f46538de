"""Trying rulebooks: asked of policy by message, answered to this very instance. Nothing is kept and nothing changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.contracts.messages import RulebookTried, TryRulebook
from placet.contracts.messages.rulebook import TrialKind
from placet.gateway.conversations.access import writing
from placet.gateway.http.awaited import Awaited
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.runtime.work import UnitOfWork

#: Trials that one gateway instance has asked for at the same moment: what they cost is shared out by policy.
TRIALS_MAX = 32
#: Those of one tenant among them: no tenant takes the places of all.
TENANT_TRIALS_MAX = 2


@dataclass
class Trials:
    """Asks policy to try a rulebook, and waits for the answer."""

    units: UnitOfWork
    #: This gateway instance; answers come to its own queue.
    instance: str
    answer_seconds: float
    _awaited: Awaited[RulebookTried] = field(init=False)
    #: Trials under way by tenant.
    _under_way: Counter[str] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        """Prepare the waits."""
        self._awaited = Awaited(self.answer_seconds)

    async def ask(self, caller: Caller, kind: TrialKind, **what: Any) -> dict[str, Any] | None:
        """Return the report of a trial, or None where policy takes too long.

        Raises Refused: 403 (scope), 429 (too many trials at once, of the tenant or of all), 400 (what was sent cannot
        be used, with `problems`).
        """
        caller.need(Scope.ADMIN)
        trial_id = new_id()
        with self._place(caller.tenant), self._awaited.expected(trial_id) as waiting:
            async with writing(self.units, caller) as work:
                until = work.now + timedelta(seconds=self.answer_seconds)
                asked = {"trial_id": trial_id, "answer_to": self.instance, "until": until, "kind": kind}
                work.emit(TryRulebook(tenant=caller.tenant, **asked, **what))
            answer = await self._awaited.answer(waiting)
        if answer is not None and answer.problems:
            title = "What was sent cannot be used."
            raise Refused(title, status=400, kind="rulebook-invalid", problems=answer.problems)
        return answer.report if answer else None

    @contextmanager
    def _place(self, tenant: str) -> Iterator[None]:
        """Take a place for a trial of a tenant; raise Refused where there is none."""
        if self._under_way.total() >= TRIALS_MAX or self._under_way[tenant] >= TENANT_TRIALS_MAX:
            raise Refused("Too many rulebooks are being tried; try again soon.", status=429, kind="busy")
        self._under_way[tenant] += 1
        try:
            yield
        finally:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]

    def answered(self, message: RulebookTried) -> None:
        """Take an answer; one that nobody waits for any more is dropped."""
        self._awaited.answered(message.trial_id, message)

    def close(self) -> None:
        """Let everybody go who waits."""
        self._awaited.close()
