"""What an approval's card says beside the approval itself: who has voted, what is missing, and what may go together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from services.gateway.api.approval_details import counted
from services.gateway.api.approval_forms import ApprovalOut, approval_out
from services.gateway.auth import Caller
from services.gateway.mine import decidable
from services.gateway.store.read import Row, list_votes
from shared.directory import Directory
from shared.messages import ApprovalRule
from shared.sql import Connection


@dataclass(frozen=True, slots=True)
class Waiting:
    """One approval with what its card needs."""

    approval: ApprovalOut
    rule: ApprovalRule
    #: Who said yes and no to the call as it is now.
    yes: tuple[str, ...]
    no: tuple[str, ...]
    #: Whether the viewer may decide it.
    mine: bool

    @property
    def open(self) -> bool:
        """Whether it still waits."""
        return self.approval.state == "pending"

    @property
    def alone(self) -> str:
        """Why it is decided by itself and never in a batch; empty where it may be in one."""
        if self.approval.category == "unsafe_exec":
            return "it executes"
        if self.rule.approvals > 1 or self.rule.veto:
            return "its rule asks several people"
        return "its rule asks for a reason each time" if self.rule.reason_required == "always" else ""

    @property
    def needs(self) -> str:
        """What decides it, in words."""
        wanted = f"{len(self.yes)} of {self.rule.approvals}"
        return f"{wanted} approvals" if self.rule.approvals > 1 else "one approval decides"

    def claimed(self, now: datetime) -> str:
        """Return who said "I'm on it", while that holds."""
        until = self.approval.claimed_until
        return (self.approval.claimed_by or "") if until is not None and now < until else ""


@dataclass(frozen=True, slots=True)
class Group:
    """Approvals on one page whose card says the same of the same tool, in the order of the page."""

    cards: tuple[Waiting, ...]

    @property
    def together(self) -> tuple[Waiting, ...]:
        """Those of them that a batch may have."""
        return tuple(card for card in self.cards if card.open and card.mine and not card.alone)


async def waiting_of(
    connection: Connection, caller: Caller, rows: Sequence[Row], directory: Directory
) -> tuple[Waiting, ...]:
    """Return approvals with the votes on them, in the same order."""
    votes: dict[str, list[Row]] = {row["approval_id"]: [] for row in rows}
    for vote in await list_votes(connection, caller.tenant, list(votes)) if rows else ():
        votes[vote["approval_id"]].append(vote)
    voted = [{**row, "voters": [_identity(each) for each in votes[row["approval_id"]]]} for row in rows]
    mine = {row["approval_id"] for row in await decidable(connection, voted, caller, directory)}
    return tuple(_waiting(row, votes[row["approval_id"]], directory, mine) for row in rows)


def grouped(cards: Iterable[Waiting]) -> tuple[Group, ...]:
    """Return cards with those that say the same of the same tool brought together, where the first of them stood."""
    found: dict[tuple[str, str], list[Waiting]] = {}
    for card in cards:
        found.setdefault((card.approval.tool, card.approval.summary), []).append(card)
    return tuple(Group(tuple(each)) for each in found.values())


def _waiting(row: Row, votes: Sequence[Row], directory: Directory, mine: Collection[str]) -> Waiting:
    count = [each for each in counted(votes, row["arguments_revision"]) if each["counts"]]
    yes = tuple(each["person"] for each in count if each["verb"] in {"approve", "edit"})
    no = tuple(each["person"] for each in count if each["verb"] == "deny")
    rule = ApprovalRule.model_validate(row["approval_rule"])
    return Waiting(approval_out(row, directory), rule, yes, no, mine=row["approval_id"] in mine)


def _identity(vote: Row) -> str:
    """Return who counts once, as the approval service names them."""
    return f"visitor:{vote['person']}" if vote["proof"] == "conversation_token" else str(vote["person"])
