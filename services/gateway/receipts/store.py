"""What a receipt is made of: one moment of all services' views, and the places of rows in the chain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placet.contracts.chain import Checkpoint, path, peek_checkpoint, root
from placet.gateway.audit import store as audit
from placet.gateway.store import read
from placet.gateway.store.read import Row
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__)
#: Votes, or changes of state, that a receipt has at most.
ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What services know of one call."""

    call: Row
    schema_digest: str | None
    verdict: Row | None
    approval: Row | None
    votes: Sequence[Mapping[str, Any]]
    execution: Row | None
    #: Empty where there is none, or where it was erased.
    permit: str
    history: Sequence[Mapping[str, Any]]

    @property
    def too_many(self) -> bool:
        """Whether there is more than a receipt may have."""
        return max(len(self.votes), len(self.history)) > ROWS_MAX


async def load_parts(connection: Connection, call: Row) -> Parts:
    """Return what services know of a call."""
    key = {"tenant": call["tenant"], "call_id": call["call_id"]}
    approval = await read.load_approval_of_call(connection, *key.values())
    permit = await connection.run(QUERIES.permit, **key)
    judged = await connection.run(QUERIES.schema_digest, **key)
    votes: Sequence[Mapping[str, Any]] = ()
    if approval is not None:
        about = {"tenant": call["tenant"], "approval_id": approval["approval_id"], "most": ROWS_MAX + 1}
        votes = await connection.run(QUERIES.votes, **about)
    return Parts(
        call=call,
        schema_digest=judged[0]["schema_digest"] if judged else None,
        verdict=await read.load_verdict(connection, *key.values()),
        approval=approval,
        votes=votes,
        execution=await read.load_execution(connection, *key.values()),
        permit=permit[0]["permit"] if permit else "",
        history=await connection.run(QUERIES.history, **key, most=ROWS_MAX + 1),
    )


@dataclass(frozen=True, slots=True)
class Proof:
    """Where a row stands: its block, its place there, and the hashes beside its way to the root."""

    block: Checkpoint
    place: int
    path: Sequence[str]


class ChainChanged(Exception):
    """The rows of a block are not those that were sealed."""


@dataclass
class Chain:
    """One tenant's chain, read as far as it is needed."""

    connection: Connection
    tenant: str
    _blocks: dict[int, Checkpoint] = field(default_factory=dict)
    _leaves: dict[int, tuple[list[bytes], dict[tuple[str, int], int]]] = field(default_factory=dict)
    #: Numbers of the oldest block that is kept, and of the newest one.
    _ends: tuple[int, int] | None = None

    async def prove(self, service: str, row_id: int) -> Proof | None:
        """Return where a row stands; None where it is not sealed yet. Raises ChainChanged."""
        block = await self._block_of(service, row_id)
        if block is None:
            return None
        leaves, places = await self._load(block)
        place = places.get((service, row_id))
        if place is None or len(leaves) != block.rows or root(leaves) != block.root:
            raise ChainChanged(f"block {block.number}")
        return Proof(block, place, path(leaves, place))

    async def erased(self, said: Collection[str]) -> bool:
        """Tell whether sealed erasures name rows by the digests that they keep; raise ChainChanged where none does."""
        if not said:
            return True
        found = await self.connection.run(QUERIES.erasures, tenant=self.tenant, said=sorted(said))
        if {row["said"] for row in found} != set(said):
            raise ChainChanged("a row says that it was erased, and no erasure names it")
        proved = {row["id"]: bool(await self.prove("gateway", row["id"])) for row in found}
        return {row["said"] for row in found if proved[row["id"]]} == set(said)

    async def is_cut(self) -> bool:
        """Tell whether the chain's first blocks were purged."""
        return (await self._found_ends())[0] > 1

    async def _found_ends(self) -> tuple[int, int]:
        if self._ends is None:
            found = (await self.connection.run(QUERIES.ends, tenant=self.tenant))[0]
            self._ends = found["oldest"], found["newest"]
        return self._ends

    async def _block_of(self, service: str, row_id: int) -> Checkpoint | None:
        """Return the first block that goes up to a row: each goes as far as the one before it, or further."""
        oldest, newest = await self._found_ends()
        low, high = oldest, newest + 1
        while low < high:
            middle = (low + high) // 2
            if (await self._block(middle)).upto.get(service, 0) >= row_id:
                high = middle
            else:
                low = middle + 1
        return await self._block(low) if low <= newest else None

    async def _block(self, number: int) -> Checkpoint:
        if number not in self._blocks:
            token = await audit.load_token(self.connection, self.tenant, number)
            if token is None:
                raise ChainChanged(f"block {number} is not there")
            self._blocks[number] = peek_checkpoint(token)
        return self._blocks[number]

    async def _load(self, block: Checkpoint) -> tuple[list[bytes], dict[tuple[str, int], int]]:
        """Return the leaves of a block in their order, and which place each row has."""
        if block.number not in self._leaves:
            rows = [
                ((service, row["id"]), row["leaf"])
                for service in audit.ORDER
                if block.after.get(service, 0) < (upto := block.upto.get(service, 0))
                for row in await self.connection.run(
                    QUERIES.leaves, service=service, tenant=self.tenant, after=block.after.get(service, 0), upto=upto
                )
            ]
            places = {key: place for place, (key, _) in enumerate(rows)}
            self._leaves[block.number] = [leaf for _, leaf in rows], places
        return self._leaves[block.number]
