"""Seals the history: one block per tenant and round, behind the calls and out of their way.

Ids are given before their transactions commit, so a row may appear behind newer ones. A round remembers the newest id
and who holds the table for writing at that moment; once all of these have ended, no row up to that id can come any
more. Nobody is locked out and nobody waits.

No service writes an id that its sequence has not given. A row beyond it was inserted by somebody else; it is told, and
not followed: whatever the service writes afterwards would come before what is sealed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import monotonic

import structlog
from prometheus_client import Gauge

from placet.contracts.chain import LATE_SECONDS, Checkpoint, peek_checkpoint, read_checkpoint, seal
from placet.contracts.signing import BadSignature, Signer, Verifier
from placet.gateway.audit import store
from placet.runtime import points
from placet.runtime.database import Database
from placet.runtime.sql import Connection

log = structlog.get_logger(__name__)

#: Pause between two rounds, in seconds.
SEAL_EVERY_SECONDS = 5.0
#: Rows of one service that a round seals; the next round follows at once after a full one.
ROWS_MAX = 1_000

#: Newest ids that are remembered of a service: of some hours.
SAMPLES_MAX = 5_000

LAG = Gauge("placet_audit_lag_seconds", "Age of the oldest row of a history that is not sealed; 0: none.")
BEYOND = Gauge(
    "placet_audit_beyond",
    "Ids by which a history's rows, or what is sealed of it, are beyond its sequence.",
    ["service"],
)


_samples = partial(deque[tuple[int, float]], maxlen=SAMPLES_MAX)


@dataclass
class Sealer:
    """Seals whatever can change no more; any number of replicas, of which one seals at a time."""

    database: Database
    signer: Signer
    verifier: Verifier
    monotonic: Callable[[], float] = monotonic
    #: By service: up to which id no row can come any more, and the newest id with those who may add rows before it.
    _final: dict[str, int] = field(default_factory=dict)
    _awaited: dict[str, tuple[int, set[str]]] = field(default_factory=dict)
    #: By service: newest ids, each with when it was first seen here; what the database says of itself may be changed.
    _seen: dict[str, deque[tuple[int, float]]] = field(default_factory=lambda: defaultdict(_samples))
    #: By service: how far checkpoints sign for. That more is sealed says a row that anybody may have written.
    _signed: dict[str, int] = field(default_factory=dict)
    #: What this process sealed last; what that signs for counts while all of it stands.
    _own: Sequence[Checkpoint] = ()
    #: Whether a round has asked how far: what nobody can verify is believed at the beginning alone.
    _has_looked: bool = False
    _told_late: bool = False
    _told_beyond: set[str] = field(default_factory=set)

    async def seal(self) -> int:
        """Do one round; return how many rows it sealed where there are more, else 0."""
        async with self.database.transaction() as connection:
            before = await store.sealed_upto(connection)
            await self._look(connection, await self._proved(connection, before))
            upto = await store.take_upto(connection)
            if upto is None or upto != await self._proved(connection, upto):
                return 0
            leaves: dict[str, list[bytes]] = {}
            full = waited = 0
            for service in store.ORDER:
                final, after = self._final.get(service, 0), upto.get(service, 0)
                if final <= after:
                    continue
                waited = max(waited, self._waited_seconds(service, after))
                rows = await store.load_leaves(connection, service, after, final, ROWS_MAX)
                whole = len(rows) < ROWS_MAX
                upto[service] = final if whole else rows[-1][1]
                full += 0 if whole else len(rows)
                for tenant, _, leaf in rows:
                    leaves.setdefault(tenant, []).append(leaf)
            blocks = [await self._add(connection, tenant, leaves[tenant], upto, waited) for tenant in sorted(leaves)]
            if blocks:
                await store.keep_upto(connection, upto)
                points.reached("audit.sealing")
        self._own = blocks or self._own
        for block in blocks:
            self._take_signed(block.upto)
            # The log is kept elsewhere than the database: what it names cannot be cut off unseen.
            log.info("audit.sealed", tenant=block.tenant, number=block.number, rows=block.rows, digest=block.digest)
        return full

    async def _proved(self, connection: Connection, upto: Mapping[str, int]) -> dict[str, int]:
        """Return how far histories are sealed, as far as a checkpoint signs for what `upto` says of it.

        Where the key that signed the newest was taken back, what they say has to do when a process begins: the next
        block has the new one. Where a block of this process is gone, somebody took it out, or the database fell back to
        an earlier moment: what is remembered is of a time that has not been.
        """

        def proved() -> dict[str, int]:
            return {service: min(row_id, self._signed.get(service, 0)) for service, row_id in upto.items()}

        for block in self._own:
            if await store.load_token(connection, block.tenant, block.number) == block.token:
                continue
            log.error("audit.lost", tenant=block.tenant, number=block.number, digest=block.digest)
            self._own = ()
            for known in (self._signed, self._final, self._awaited):
                known.clear()
        heads = await store.load_heads(connection) if upto != proved() else []
        for token in heads:
            with suppress(BadSignature):
                self._take_signed(read_checkpoint(self.verifier, token).upto)
            if upto == proved():
                break
        if not self._has_looked and upto != proved():
            self._believe([each for each in heads if not self.verifier.names(each)])
        self._has_looked = True
        return proved()

    def _take_signed(self, upto: Mapping[str, int]) -> None:
        self._signed |= {service: max(row_id, self._signed.get(service, 0)) for service, row_id in upto.items()}

    def _believe(self, heads: Sequence[str]) -> None:
        """Go on from checkpoints that nobody can verify, those that can be read."""
        for head in heads:
            with suppress(ValueError, LookupError, TypeError, AttributeError):
                self._take_signed(peek_checkpoint(head).upto)
        if heads:
            log.error("audit.unproved", chains=len(heads), sealed=self._signed)

    async def _look(self, connection: Connection, upto: dict[str, int]) -> None:
        newest = await store.newest(connection, upto)
        LAG.set(max(each.age for each in newest.values()))
        self._tell_beyond(newest, upto)
        # After the newest ids: whoever has taken one of them is seen here, or has ended.
        writers = await store.writers(connection)
        for service, each in newest.items():
            seen, row_id = self._seen[service], each.row_id
            if seen and seen[-1][0] > each.last:
                self._forget(service, each.last)
            if not seen or row_id > seen[-1][0]:
                seen.append((row_id, self.monotonic()))
            writing = writers.get(service, set())
            if service in self._awaited and not self._awaited[service][1] & writing:
                self._final[service] = self._awaited.pop(service)[0]
            if service not in self._awaited:
                if writing:
                    self._awaited[service] = row_id, writing
                else:
                    self._final[service] = row_id

        # Whoever administers the database can keep rows from being sealed, and change them meanwhile; not this line.
        waited = {service: self._waited_seconds(service, upto.get(service, 0)) for service in newest}
        late = max(waited.values()) > LATE_SECONDS
        if late and not self._told_late:
            services = [service for service, seconds in waited.items() if seconds > LATE_SECONDS]
            log.warning("audit.late", seconds=max(waited.values()), services=services)
        self._told_late = late

    def _forget(self, service: str, last: int) -> None:
        """Forget what was beyond the last id of a sequence that went back: rows up to there are still to come."""
        seen = self._seen[service]
        log.error("audit.fell_back", service=service, last=last, seen=seen[-1][0])
        while seen and seen[-1][0] > last:
            seen.pop()
        self._final.pop(service, None)
        self._awaited.pop(service, None)

    def _tell_beyond(self, newest: Mapping[str, store.Newest], upto: Mapping[str, int]) -> None:
        """Say where a history has rows that its service did not write, or is sealed further than that one has come."""
        for service, each in newest.items():
            sealed = upto.get(service, 0)
            beyond = max(each.highest, sealed) - each.last
            BEYOND.labels(service).set(max(beyond, 0))
            if beyond <= 0:
                self._told_beyond.discard(service)
            elif service not in self._told_beyond:
                self._told_beyond.add(service)
                log.error("audit.beyond", service=service, last=each.last, highest=each.highest, sealed=sealed)

    def _waited_seconds(self, service: str, after: int) -> int:
        """Return for how long this process has known a row of a service behind the one with the id `after`."""
        since = next((at for row_id, at in self._seen[service] if row_id > after), self.monotonic())
        return int(self.monotonic() - since)

    async def _add(
        self, connection: Connection, tenant: str, leaves: list[bytes], upto: dict[str, int], waited: int
    ) -> Checkpoint:
        head = await store.load_head(connection, tenant)
        before = peek_checkpoint(head) if head else None
        block = seal(self.signer, tenant, before, leaves, upto, at=datetime.now(UTC), waited_seconds=waited)
        await store.add_block(connection, block)
        return block
