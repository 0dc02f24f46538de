"""How far approvals are: their votes, counted by the very rules that approval counts by.

One thing only is not known here: a condition that looks at masked arguments is taken as true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.votes import Tally, Vote, last_votes, tally
from placet.gateway.approvals.held import held_of, in_turns
from placet.gateway.identity.store.keys import find_keys
from placet.gateway.store.read import Row, list_votes
from placet.runtime.sql import Connection
from placet.surfaces.texts import text


@dataclass(frozen=True, slots=True)
class Counted:
    """The votes on one approval, and what they come to."""

    tally: Tally
    #: The decisions that count: of everybody the last one. What is over was decided by people as they were then, so
    #: there nobody is judged again.
    votes: tuple[Row, ...]

    def said(self, verb: Literal["approve", "deny", "abstain"]) -> tuple[str, ...]:
        """Return who said this, of those who count; who edited said yes."""
        return tuple(row["person"] for row in self.votes if _vote_of(row).verb == verb)

    def of(self, person: str) -> str:
        """Return what somebody said whose vote counts; empty where they said nothing."""
        return next((_vote_of(row).verb for row in self.votes if row["person"] == person), "")


async def count_votes(
    connection: Connection, tenant: str, rows: Sequence[Row], directory: Directory
) -> dict[str, Counted]:
    """Return by approval id how far approvals of a tenant are as people, groups and keys are now."""
    votes: dict[str, list[Row]] = {row["approval_id"]: [] for row in rows}
    numbers = {row["approval_id"]: row["arguments_revision"] for row in rows}
    for vote in await list_votes(connection, tenant, list(votes)) if rows else ():
        if vote["arguments_revision"] == numbers[vote["approval_id"]]:
            votes[vote["approval_id"]].append(vote)
    used = {each["key_id"] for found in votes.values() for each in found} | given_by(rows)
    directory = directory.without(await revoked(connection, used))
    return {row["approval_id"]: count(row, votes[row["approval_id"]], directory) async for row in in_turns(rows)}


def count(approval: Row, votes: Iterable[Row], directory: Directory) -> Counted:
    """Return how far an approval is; `votes` are about its arguments as they are, in the order they were counted."""
    cast = [(row, _vote_of(row)) for row in votes]
    row_of = {id(vote): row for row, vote in cast}
    last = last_votes(vote for _, vote in cast)
    came = tally(held_of(approval), (vote for _, vote in cast), directory)
    void = {who for who, seats in (approval["seats"] or {}).items() if not seats}
    stand = came.counting if approval["state"] == "pending" else last.keys() - void
    return Counted(
        came,
        tuple(row_of[id(vote)] for person, vote in last.items() if person in stand),
    )


def ways_words(tally: Tally, language: str) -> str:
    """Return how far an approval is, in words: `1 of 2 approvals`; what must all be met is joined by `and`."""
    ways = [
        text(language, "{counted} of {approvals}", counted=each.counted, approvals=each.approvals)
        for each in tally.panels
    ]
    joined = tally.joined(ways, text(language, "or"), text(language, "and"))
    return text(language, "{ways} approvals", ways=joined)


def given_by(rows: Iterable[Row]) -> set[str | None]:
    """Return the keys with which somebody gave their place on an approval to another."""
    return {each["by"].get("key_id") for row in rows for each in row["delegations"]}


async def revoked(connection: Connection, key_ids: Iterable[str | None]) -> frozenset[str]:
    """Return those of these keys that work no more; None is no key."""
    asked = frozenset(key_id for key_id in key_ids if key_id)
    if not asked:
        return asked
    found = await find_keys(connection, asked)
    return asked.difference(key_id for key_id, key in found.items() if key.revoked_at is None)


def _vote_of(row: Row) -> Vote:
    opened_by = row["details"].get("opened_by", "")
    voter = Voter(row["person"], tuple(row["roles"]), row["proof"], row["conversation_id"], row["key_id"], opened_by)
    return Vote(voter, "approve" if row["verb"] == "edit" else row["verb"])
