"""One approval's whole story: four argument records, the verdict, votes, edits, timers, cards, and the execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from placet.contracts.messages import ApprovalRule
from placet.domain.directory import Directory
from placet.gateway.approvals.comments import CommentOut, comments_out
from placet.gateway.approvals.forms import ApprovalOut, approvals_out
from placet.gateway.approvals.store.comments import list_comments
from placet.gateway.approvals.voting import Counted, count_votes
from placet.gateway.conversations.items import arguments_value
from placet.gateway.conversations.store import load_words
from placet.gateway.store import read, reading
from placet.gateway.store.read import Row
from placet.runtime.database import Database
from placet.surfaces.card import quoted

#: Rows of one kind that a story shows.
ROWS_MAX = 200


class VerdictOut(BaseModel):
    """What policy said."""

    id: str
    effect: str
    rule: str | None
    reason: str | None
    rulebook_digest: str
    judged_at: datetime


class ExecutionOut(BaseModel):
    """What the executor did."""

    pool: str
    state: str
    fence: int | None = Field(description="Number of the attempt; a result of an older attempt does not count.")
    worker: str | None
    permit_id: str | None
    permit_issuer: str | None
    permit_expires_at: datetime | None = None
    lease_until: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    result_kind: str | None
    digest: str | None = Field(default=None, description="Of exactly what an executor took.")
    error: str | None
    resolution: Literal["ran", "did_not_run"] | None = Field(
        default=None, description="What a person found of an outcome that was answered `unknown`."
    )
    resolved_by: str | None = None
    resolution_note: str = ""
    resolved_at: datetime | None = None


class ChangeOut(BaseModel):
    """One change of a state."""

    at: datetime
    machine: str
    subject_id: str
    event: str
    from_state: str | None
    to_state: str
    actor: str
    message_id: str | None
    detail: Any


class ArgumentsOut(BaseModel):
    """Arguments as they were at one moment."""

    arguments: Any = Field(description="As a JSON value; null where only the digest is known.")
    arguments_text: str | None
    digest: str


class RecordsOut(BaseModel):
    """The four records of what was to run; those of an edited call differ."""

    proposed: ArgumentsOut = Field(description="As the model proposed them.")
    reviewed: ArgumentsOut = Field(description="As they were last shown to people.")
    approved: ArgumentsOut | None = Field(description="As people approved them; null unless they did.")
    executed: ArgumentsOut | None = Field(description="As an executor took them; null where none did.")


class DecisionOut(BaseModel):
    """One decision that a person sent."""

    id: str
    person: str
    decision: str
    reason: str
    digest: str = Field(description="Of the card that they saw.")
    revision: int | None
    proof: str = Field(description="How they were known.")
    details: dict[str, Any]
    outcome: str
    counts: bool = Field(
        description="Whether it is a vote that counts: while it waits by people, groups and keys as they are now; once "
        "it is over, whether it was its maker's last."
    )
    at: datetime


class PanelOut(BaseModel):
    """One way to say yes, and how far it is."""

    approvers: list[str] = Field(description="Whom it names by now; whom an escalation asked too is among them.")
    approvals: int = Field(description="How many approvals decide.")
    counted: int = Field(description="How many count as people, groups and keys are now.")


class EditOut(BaseModel):
    """One wish to change the arguments."""

    id: str
    person: str
    reason: str
    state: str
    differences: list[dict[str, Any]] | None = Field(
        description="Each place that differs: {at, before?, after?}; null unless the edit was accepted."
    )
    before_digest: str
    digest: str
    refusal: str = Field(description="Why it was refused; empty where it was not.")
    rulebook_digest: str | None
    asked_at: datetime
    judged_at: datetime | None


class TimersOut(BaseModel):
    """What the clock does."""

    expires_at: datetime
    next_step_at: datetime | None = Field(description="When the next reminder or escalation is due.")
    steps_done: int


class CardOut(BaseModel):
    """A card that was sent somewhere."""

    channel: str
    recipient: str | None = Field(default=None, description="Who or what is meant there; empty for the log.")
    person: str | None = Field(
        default=None, description="Id of the person in the directory; empty where none is meant."
    )
    state: str
    revision: int
    sent_revision: int | None
    error: str | None = Field(default=None, description="Why it was not shown at the last try.")
    at: datetime


class ApprovalDetailOut(ApprovalOut):
    """One approval with everything that happened to it."""

    approval_rule: dict[str, Any] = Field(description="Who may decide and what decides, as it was when it was held.")
    asked: str = Field(
        description="The requester's message that led to the call, cut; empty where it must not be seen."
    )
    records: RecordsOut
    verdict: VerdictOut | None
    panels: list[PanelOut] | None = Field(
        description="The ways to say yes, of which one is enough; null once it is over."
    )
    decisions: list[DecisionOut]
    edits: list[EditOut]
    delegations: list[dict[str, str]] = Field(description="Who lets whom decide in their place: {by, to}.")
    timers: TimersOut
    cards: list[CardOut]
    comments: list[CommentOut] = Field(description="What people said about it, which decides nothing.")
    execution: ExecutionOut | None = Field(description="Its permit, and how it ran.")
    history: list[ChangeOut]


async def detail_of(database: Database, row: Row, directory: Directory) -> ApprovalDetailOut:
    """Return the whole story of an approval."""
    tenant, approval_id, call_id = row["tenant"], row["approval_id"], row["call_id"]
    async with reading(database) as connection:
        verdict = await read.load_verdict(connection, tenant, call_id)
        execution = await read.load_execution(connection, tenant, call_id)
        counted = (await count_votes(connection, tenant, [row], directory))[approval_id]
        decisions = await read.list_decisions(connection, tenant, approval_id, ROWS_MAX)
        edits = await read.list_edits(connection, tenant, approval_id, ROWS_MAX)
        cards = await read.list_deliveries(connection, tenant, approval_id, ROWS_MAX)
        untold = await read.list_untold(connection, tenant, [row])
        words = await load_words(connection, [row])
        comments = await list_comments(connection, tenant, approval_id)
        history = await read.load_history(connection, tenant, call_id, ROWS_MAX, approval_id)
    (out,) = await approvals_out([row], directory, untold)
    return ApprovalDetailOut.model_validate(
        {
            **out.model_dump(),
            "approval_rule": ApprovalRule.model_validate(row["approval_rule"]).model_dump(mode="json"),
            "asked": quoted(words[approval_id].asked),
            "records": _records(row, execution),
            "verdict": {**verdict, "id": verdict["verdict_id"]} if verdict else None,
            "panels": [asdict(panel) for panel in counted.tally.panels] if row["state"] == "pending" else None,
            "decisions": _decisions(decisions, counted),
            "edits": [{**each, "id": each["edit_id"]} for each in edits],
            "delegations": [{"by": each["by"]["person"], "to": each["to"]} for each in row["delegations"]],
            "timers": dict(row),
            "cards": [{**each, "at": each["updated_at"]} for each in cards],
            "comments": comments_out(comments, row["requester"]),
            "execution": dict(execution) if execution else None,
            "history": [dict(each) for each in history],
        }
    )


def _records(row: Row, execution: Row | None) -> dict[str, Any]:
    now, edited = _record(row["arguments"], row["digest"]), row["edited"]
    ran = None
    if execution is not None and execution["digest"]:
        # An executor runs what its permit's digest binds: the same digest is the same bytes.
        same = execution["digest"] == row["digest"]
        ran = now if same else _record(None, execution["digest"])
    return {
        "proposed": _record(edited["proposed"], edited["proposed_digest"]) if edited else now,
        "reviewed": now,
        "approved": now if row["state"] == "approved" else None,
        "executed": ran,
    }


def _record(text: str | None, digest: str) -> dict[str, Any]:
    return {"arguments": arguments_value(text) if text else None, "arguments_text": text, "digest": digest}


def _decisions(rows: Sequence[Row], counted: Counted) -> list[dict[str, Any]]:
    counting = {row["decision_id"] for row in counted.votes}
    names = {"id": "decision_id", "decision": "verb", "at": "decided_at"}
    return [
        {**row, "counts": row["decision_id"] in counting} | {name: row[column] for name, column in names.items()}
        for row in rows
    ]
