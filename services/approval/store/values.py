"""Rows to values and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import RowMapping

from services.approval.rules import Approval, Decision, Edit, Vote
from services.approval.rules.first_step import first_step_after
from services.approval.states import EditState, State
from services.approval.tables import ApprovalRow, DecisionRow, EditRow
from shared import deciders
from shared.canonical import sha256_hex
from shared.database import table_of
from shared.deciders import Delegation, Seats, Voter
from shared.messages import ApprovalRule, DecisionClaims, ToolCall
from shared.words import searched

APPROVALS = table_of(ApprovalRow)
DECISIONS = table_of(DecisionRow)
EDITS = table_of(EditRow)

#: Fields of a call that only pass through on their way to the card.
PASSING = frozenset({"quote"})
CALL_COLUMNS = tuple(name for name in ToolCall.model_fields if name not in PASSING)
#: Columns that hold a field in another form.
_WRITTEN_OTHERWISE = {"approval_rule", "seats", "delegations"}
#: Columns that hold a field of an approval as it is.
_PLAIN_COLUMNS = frozenset(set(Approval.__slots__) & set(APPROVALS.c.keys()) - _WRITTEN_OTHERWISE)
DECISION_COLUMNS = tuple(column.name for column in DECISIONS.c)
#: What only some decisions carry.
_DETAILS = frozenset({"arguments", "response", "response_kind", "to", "seconds", "grant", "said", "opened_by"})
#: What an answer to the model is where nobody says.
_UNCHOSEN: Mapping[str, Any] = {"response_kind": DecisionClaims.model_fields["response_kind"].default}
_CLAIMED = tuple(name for name in DECISION_COLUMNS if name in DecisionClaims.model_fields)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A decision that was handled before, and its answer."""

    approval_id: str
    person: str
    verb: str
    digest: str
    details: dict[str, Any]
    answer: dict[str, Any]

    def is_from(self, claims: DecisionClaims) -> bool:
        """Tell whether `claims` are the same decision, sent again."""
        # A row from before the kind of every answer was kept lacks the one that nobody had chosen.
        details = {**_UNCHOSEN, **self.details} if self.verb == "respond" else self.details
        mine = (self.approval_id, self.person, self.verb, self.digest, details)
        return mine == (claims.approval_id, claims.person, claims.verb, claims.digest, details_of(claims))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a transaction read once it had its locks."""

    #: The database clock.
    now: datetime
    #: Decisions that were handled before, by tenant and decision id.
    earlier: Mapping[tuple[str, str], Earlier]
    #: API keys that work no more, of those that were asked about.
    revoked_keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class Kept:
    """A decision to keep, and the approval before and after it; None where there is none."""

    decision: Decision
    before: Approval | None
    after: Approval | None

    @property
    def changed(self) -> Approval | None:
        """The approval as the decision changes it; None where it changes nothing."""
        return None if self.after is self.before else self.after

    @property
    def changes_more(self) -> bool:
        """Whether it changes more of the approval than closing it does."""
        changed, before = self.changed, self.before
        return changed is not None and (
            before is None or changed.closed_at is None or changed.revision != before.revision
        )


def details_of(claims: DecisionClaims) -> dict[str, Any]:
    """Return what a decision carries beside its verb and reason; what was not given is left out.

    The kind of an answer to the model is always there.
    """
    given = claims.model_dump(mode="json", include=set(_DETAILS), exclude_defaults=True)
    return given | ({"response_kind": claims.response_kind} if claims.verb == "respond" else {})


def decision_values(decision: Decision) -> dict[str, Any]:
    """Return a decision as a row."""
    claims, answered = decision.claims, decision.answered
    return {name: getattr(claims, name) for name in _CLAIMED} | {
        "details": details_of(claims),
        "signed": decision.signed,
        "outcome": answered.outcome,
        "answer": answered.model_dump(mode="json", exclude={"answer_to"}),
        "arguments_revision": decision.arguments_revision,
        "counted_revision": decision.counted_revision,
        "decided_at": decision.at,
    }


def decider_values(approval: Approval) -> dict[str, Any]:
    """Return whom an approval names by now, and the digest of all that says who may decide: what an inbox finds.

    The tool is in it because rules go by tools: who looks for one tool's calls passes over no other's.
    """
    named, rule = list(deciders.named(approval)), approval.approval_rule
    panels = [each.model_dump(mode="json") for each in deciders.panels(approval)]
    limits = rule.model_dump(mode="json", include={"veto", "exclude", "condition", "min_strength"})
    return {
        "deciders": named,
        "deciders_digest": sha256_hex({"tool": approval.call.tool, "named": named, "panels": panels} | limits),
    }


def approval_values(approval: Approval) -> dict[str, Any]:
    """Return an approval as a row, by the names of the columns."""
    values = {name: getattr(approval, name) for name in _PLAIN_COLUMNS}
    return (
        values
        | approval.call.model_dump(exclude=set(PASSING))
        | decider_values(approval)
        | {
            "searched": searched(approval.summary),
            "approval_rule": approval.approval_rule.model_dump(),
            "seats": _seats_value(approval.seats),
            "delegations": [{"by": asdict(each.by), "to": each.to} for each in approval.delegations],
        }
    )


def kept_values(kept: Kept, columns: Sequence[str]) -> dict[str, Any]:
    """Return a decision and these columns of the approval that it changes as one row of JSON.

    The approval's are prefixed, because both have columns of the same names.
    """
    values, changed = decision_values(kept.decision), kept.changed
    if changed is not None:
        # What closes changes plain columns alone, and the others cost more to write down than all else here.
        row = None if _PLAIN_COLUMNS.issuperset(columns) else approval_values(changed)
        new = {name: getattr(changed, name) if row is None else row[name] for name in columns}
        values |= {f"new_{name}": value for name, value in new.items()} | {"changing": changed.approval_id}
    return json_values(values)


def opening_values(opening: Approval) -> dict[str, Any]:
    """Return an approval that opens as one row of JSON, with how long it waits, and until its first step."""
    rule = opening.approval_rule
    waits = timedelta(seconds=rule.expires_after_seconds)
    return json_values(approval_values(opening) | {"waits": waits, "first_step": first_step_after(rule)})


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON that PostgreSQL reads back as the same row."""
    row: dict[str, Any] = to_jsonable_python(values)
    return row


def approval_from(row: RowMapping) -> Approval:
    """Return the approval of a row."""
    kept = dict(row)
    values = {name: kept[name] for name in _PLAIN_COLUMNS}
    values |= {
        "call": ToolCall.model_validate(kept),
        "state": State(kept["state"]),
        "approval_rule": ApprovalRule.model_validate(kept["approval_rule"]),
        "delegations": tuple(_delegation(each) for each in kept["delegations"]),
        "seats": _seats(kept["seats"]),
    }
    return Approval(**values)


def vote_from(row: RowMapping) -> Vote:
    """Return the vote of a counted decision."""
    place = (row["proof"], row["conversation_id"], row["key_id"], row["opened_by"] or "")
    voter = Voter(row["person"], tuple(row["roles"]), *place)
    return Vote(voter, "approve" if row["verb"] == "edit" else row["verb"])


def edit_from(row: RowMapping) -> Edit:
    """Return the edit of a row."""
    return Edit(**{**{name: row[name] for name in Edit.__slots__}, "state": EditState(row["state"])})


def _seats(value: Mapping[str, Sequence[int]] | None) -> Seats | None:
    return None if value is None else {person: frozenset(numbers) for person, numbers in value.items()}


def _seats_value(seats: Seats | None) -> dict[str, list[int]] | None:
    return None if seats is None else {person: sorted(numbers) for person, numbers in seats.items()}


def _delegation(value: Mapping[str, Any]) -> Delegation:
    by = value["by"]
    place = (by["proof"], by["conversation_id"], by.get("key_id"), by.get("opened_by", ""))
    voter = Voter(by["person"], tuple(by["roles"]), *place)
    return Delegation(voter, value["to"])
