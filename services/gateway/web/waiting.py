"""What an approval's card says beside the approval itself: who has voted, what is missing, and what may go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from placet.contracts.messages import ApprovalRule
from placet.contracts.messages.approvals import GrantWish
from placet.contracts.messages.jobs import JOB_LABEL
from placet.domain.card_text import NONE
from placet.domain.catalog import Catalog
from placet.domain.directory import Directory
from placet.domain.grants import offered_again
from placet.gateway.approvals.answers import alone
from placet.gateway.approvals.forms import ApprovalOut, approvals_out
from placet.gateway.approvals.mine import decidable
from placet.gateway.approvals.store.comments import count_comments
from placet.gateway.approvals.voting import Counted, count_votes, ways_words
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.store import reading
from placet.gateway.store.read import Row, list_untold
from placet.gateway.web.shown import Shown, shown_calls, tools_of
from placet.gateway.workspaces.plans import plans_of
from placet.runtime.sql import Connection
from placet.surfaces.duty import DutyNow
from placet.surfaces.leaves import tail_of
from placet.surfaces.plan import Plan
from placet.surfaces.texts import text

#: Arguments that a table of differences has at most, and characters of one value in it.
DIFFERING_MAX = 6
VALUE_MAX = 160

#: What cards share that stand together.
Key: TypeAlias = tuple[str | bool, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """One approval with what its card needs."""

    approval: ApprovalOut
    rule: ApprovalRule
    #: The votes on the call as it is now.
    counted: Counted
    #: Whether the viewer may decide it.
    mine: bool
    #: What the viewer has said of it, where that counts: `approve`, `deny` or `abstain`; empty where nothing.
    given: str
    #: Its call as every card shows it.
    shown: Shown
    #: Why it is decided by itself and never in a batch, in English; empty where it may be in one.
    alone: str
    #: Of a commit: its entries; None for any other call.
    plan: Plan | None = None
    #: Who is on duty now of each group that may decide and has an on-call plan; none once it is over.
    on_duty: tuple[str, ...] = ()
    #: How many comments there are on it.
    comments: int = 0
    #: The job whose call it is, of an attempt or of its changes; empty for any other.
    job: str = ""

    @property
    def open(self) -> bool:
        """Whether it still waits."""
        return self.approval.state == "pending"

    @property
    def needed(self) -> bool:
        """Whether it still waits for the viewer."""
        return self.open and self.mine and not self.given

    @property
    def again(self) -> GrantWish | None:
        """The narrowest grant that is offered with its approval; None where there is none."""
        return offered_again(self.rule, self.approval.tool)

    @property
    def hidden(self) -> bool:
        """Whether its call has arguments that nobody may see."""
        return not self.approval.call.arguments_text or any(each.redacted for each in self.shown.arguments)

    @property
    def yes(self) -> tuple[str, ...]:
        """Who said yes, of those whose vote counts."""
        return self.counted.said("approve")

    @property
    def no(self) -> tuple[str, ...]:
        """Who said no, of those whose vote counts."""
        return self.counted.said("deny")

    @property
    def several(self) -> bool:
        """Whether it takes more than one approval by some way, or more than one yes."""
        tally = self.counted.tally
        return len(tally.demanded) > 1 or any(panel.approvals > 1 for panel in tally.panels)

    def needs(self, language: str) -> str:
        """Return what decides it, in words: `1 of 2 approvals`; what must all be met is joined by `and`."""
        if not self.several:
            return text(language, "one approval decides")
        return ways_words(self.counted.tally, language)

    def claimed(self, now: datetime) -> str:
        """Return who said "I'm on it", while that holds."""
        until = self.approval.claimed_until
        return (self.approval.claimed_by or "") if until is not None and now < until else ""


@dataclass(frozen=True, slots=True)
class Group:
    """Approvals on one page that stand together, in its order: of one tool, as a rule with the same sentence."""

    cards: tuple[Waiting, ...]
    #: Arguments in which they differ; none where each would run the same.
    differing: tuple[str, ...] = ()

    @property
    def masked(self) -> bool:
        """Whether they may differ in what nobody may see."""
        return any(card.hidden for card in self.cards)

    @property
    def together(self) -> tuple[Waiting, ...]:
        """Those of them that may be chosen at once: none where a difference does not stand in the table."""
        if self.masked or len(self.differing) > DIFFERING_MAX:
            return ()
        return tuple(card for card in self.cards if card.open and card.mine and not card.alone)

    def values(self, card: Waiting) -> tuple[str, ...]:
        """Return a card's values of the arguments that differ; a long one is cut and names its digest."""
        found = {each.name: each.text for each in card.shown.arguments}
        texts = (found.get(name, NONE) for name in self.differing[:DIFFERING_MAX])
        return tuple(each if len(each) <= VALUE_MAX else each[:VALUE_MAX] + tail_of(each) for each in texts)


async def waiting_of(
    connection: Connection, caller: Caller, rows: Sequence[Row], directory: Directory, tools: Catalog
) -> tuple[Waiting, ...]:
    """Return approvals with the votes on them, in the same order."""
    counted = await count_votes(connection, caller.tenant, rows, directory)
    mine = {row["approval_id"] for row in await decidable(connection, rows, caller, directory)}
    untold = await list_untold(connection, caller.tenant, rows)
    shown = await shown_calls(connection, rows, tools)
    plans = await plans_of(connection, rows, tools)
    comments = await count_comments(connection, caller.tenant, [row["approval_id"] for row in rows])
    duty = DutyNow(directory, caller.language, datetime.now(UTC))
    outs = await approvals_out(rows, directory, untold)
    rules = (ApprovalRule.model_validate(row["approval_rule"]) for row in rows)
    return tuple(
        Waiting(
            out,
            rule,
            counted[out.id],
            out.id in mine,
            counted[out.id].of(caller.person),
            shown[out.id],
            # A batch of the page has one reason for all.
            alone(row, rule, shown[out.id].tricks)
            or ("its rule asks for a reason each time" if rule.reason_required == "always" else "")
            or ("it has more values than a card shows" if shown[out.id].left_out else ""),
            plans.get(out.id),
            duty.of(
                (approver for panel in counted[out.id].tally.panels for approver in panel.approvers),
                directory.excluded(rule.exclude, row["requester"], row["agent"], row["opened_by"]),
            )
            if out.state == "pending"
            else (),
            comments.get(out.id, 0),
            (row["labels"] or {}).get(JOB_LABEL, ""),
        )
        for row, out, rule in zip(rows, outs, rules, strict=True)
    )


async def cards_of(deps: Deps, caller: Caller, rows: Sequence[Row]) -> tuple[Waiting, ...]:
    """Return approvals as `waiting_of` does, for who has no connection open."""
    tools = await tools_of(deps.settings.rulebook)
    async with reading(deps.runtime.database) as connection:
        return await waiting_of(connection, caller, rows, deps.directory(), tools)


def grouped(cards: Iterable[Waiting], *, whole: bool = False) -> tuple[Group, ...]:
    """Return cards, those of one tool with the same sentence brought together where the first of them stood.

    `whole`: whatever their sentences, those too whose differences all stand in one table.
    """
    cards = tuple(cards)
    tables = {kind for kind, group in _groups(cards, _kind).items() if len(group.together) > 1} if whole else set()
    return tuple(_groups(cards, lambda card: kind if (kind := _kind(card)) in tables else _sentence(card)).values())


def _groups(cards: Iterable[Waiting], key: Callable[[Waiting], Key]) -> dict[Key, Group]:
    found: dict[Key, list[Waiting]] = {}
    for card in cards:
        found.setdefault(key(card), []).append(card)
    return {each: Group(tuple(those), _differing(those)) for each, those in found.items()}


def _sentence(card: Waiting) -> Key:
    # Nobody may call those identical of which a card does not show all.
    apart = card.plan is not None or card.shown.left_out > 0
    return card.approval.tool, card.approval.summary, card.approval.id if apart else ""


def _kind(card: Waiting) -> Key:
    """Return what calls share that may differ in short values alone; what is never chosen stands apart."""
    approval, told = card.approval, card.shown.arguments
    # A long value is cut in the table, so there it may not differ.
    given = (each for arg in told for each in (arg.name, arg.text if len(arg.text) > VALUE_MAX else ""))
    return approval.tool, approval.rule, approval.call.schema_digest, card.hidden, bool(card.alone), *given


def _differing(cards: Sequence[Waiting]) -> tuple[str, ...]:
    """Return the arguments that are not the same in all cards, in their order."""
    values = [{each.name: each.text for each in card.shown.arguments} for card in cards]
    names = dict.fromkeys(name for each in values for name in each)
    return tuple(name for name in names if len({each.get(name) for each in values}) > 1)
