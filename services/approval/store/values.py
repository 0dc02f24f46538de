"""Rows to values and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python

from placet.approval.rules import UNKNOWN, Approval, Decision, Edit, Today, Vote
from placet.approval.states import EditState, State
from placet.approval.tables import APPROVALS, DECISIONS
from placet.contracts.canonical import sha256_hex
from placet.contracts.messages import ApprovalRule, DecisionClaims, StagedCall, ToolCall
from placet.domain import deciders
from placet.domain.deciders import Delegation, Seats, Voter
from placet.domain.words import searched_card

#: Fields of a call that only pass through on their way to the card.
PASSING = frozenset({"asked", "quote"})
#: Columns that hold a field in another form.
_WRITTEN_OTHERWISE = {"approval_rule", "seats", "delegations", "staged"}
#: Columns that hold a field of an approval as it is.
_PLAIN_COLUMNS = tuple(sorted(set(Approval.__slots__) & {each.name for each in APPROVALS.columns} - _WRITTEN_OTHERWISE))
#: What changes where an approval is only closed.
_CLOSING_COLUMNS = ("state", "decided_by", "decision_reason", "result_kind", "answer_kind", "closed_at")
#: What only some decisions carry.
_DETAILS = frozenset(
    {"arguments", "response", "response_kind", "to", "seconds", "grant", "said", "opened_by", "key_made_by"}
)
#: What an answer says that its decision says too, and to whom it went.
_SAID_ANYWAY = frozenset({"tenant", "approval_id", "decision_id", "answer_to"})
#: As plain texts: to write JSON by what SQLAlchemy calls a name takes fifty times as long.
_CLAIMED = tuple(str(each.name) for each in DECISIONS.columns if each.name in DecisionClaims.model_fields)

Row = Mapping[str, Any]


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
        """Tell whether `claims` are the same decision, sent again; who may have asked can be others by then."""
        mine = (self.approval_id, self.person, self.verb, self.digest, _wished(self.details))
        return mine == (claims.approval_id, claims.person, claims.verb, claims.digest, _wished(details_of(claims)))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a decision is judged by, read at one moment."""

    #: The database clock.
    now: datetime
    #: None where the tenant has no such approval.
    approval: Approval | None
    #: Of everybody the last vote on the arguments as they are.
    votes: Sequence[Vote]
    #: API keys that work no more, of those behind the decision, the votes and the delegations.
    revoked_keys: frozenset[str]
    #: Set where the same decision was handled before.
    earlier: Earlier | None
    #: Calls of the same answer of the model that stand before this one, were approved, and may still run.
    before: tuple[str, ...] = ()
    #: What policy judges by.
    today: Today = UNKNOWN
    #: When its maker signed what they said last of this approval and what counted, Unix seconds; 0 for nothing.
    newest: float = 0


def reading_from(row: Row) -> Reading:
    """Return what `read_decisions` found for one decision."""
    approval = approval_from(row) if row["approval_id"] else None
    names = ("said_of", "said_by", "said_verb", "said_digest", "said_details", "said_answer")
    earlier = Earlier(*(row[name] for name in names)) if row["said_of"] else None
    votes = [vote_from(each) for each in row["votes"]]
    return Reading(
        row["now"],
        approval,
        votes,
        frozenset(row["revoked"]),
        earlier,
        tuple(row["earlier"]),
        Today(row["rulebook_now"] or "", row["directory_now"] or "", people_since=bool(row["people_since"])),
        row["newest"],
    )


def _wished(details: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if name not in {"opened_by", "key_made_by"}}


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
        "answer": answered.model_dump(mode="json", exclude=set(_SAID_ANYWAY), exclude_defaults=True),
        "arguments_revision": decision.arguments_revision,
        "counted_revision": decision.counted_revision,
        "decided_at": decision.at,
    }


def decider_values(approval: Approval) -> dict[str, Any]:
    """Return whom an approval names by now, and the digest of all that says who may decide: what an inbox finds.

    The tool is in it because rules go by tools: who looks for one tool's calls passes over no other's.
    """
    named, rule = list(deciders.named(approval)), approval.approval_rule
    who = rule.model_dump(mode="json", include={"veto", "exclude", "condition", "min_strength", "also"}) | {
        "tool": approval.call.tool,
        "agent": approval.call.agent if "agent_owner" in rule.exclude else "",
        "named": named,
        "panels": [each.model_dump(mode="json") for each in deciders.panels(approval)],
    }
    return {"deciders": named, "deciders_digest": sha256_hex(who)}


def approval_values(approval: Approval) -> dict[str, Any]:
    """Return an approval as a row, by the names of the columns."""
    call, seats = approval.call, approval.seats
    return (
        {name: getattr(approval, name) for name in _PLAIN_COLUMNS}
        | call.model_dump(exclude=set(PASSING))
        | decider_values(approval)
        | {
            # Mostly people may see all of them, and no text is kept twice.
            "shown_arguments": None if call.shown_arguments == call.arguments else call.shown_arguments,
            "searched": searched_card(approval.summary, call.shown_arguments),
            "approval_rule": kept_rule(approval.approval_rule),
            "seats": None if seats is None else {person: sorted(numbers) for person, numbers in seats.items()},
            "delegations": [{"by": asdict(each.by), "to": each.to} for each in approval.delegations],
        }
        # Left out where there are none: what commits nothing carries no byte of it.
        | ({"staged": [each.model_dump() for each in approval.staged]} if approval.staged else {})
    )


def kept_rule(rule: ApprovalRule) -> dict[str, Any]:
    """Return a rule as it is kept: what stands at its default is left out, but for how surely people must be known.

    Whoever reads only that column takes a rule that does not say so for one that asks for more.
    """
    return rule.model_dump(mode="json", exclude_defaults=True) | {"min_strength": rule.min_strength}


def kept_values(decision: Decision, before: Approval | None, after: Approval | None, key: str) -> dict[str, Any]:
    """Return a decision, and what it changes of the approval, as one row of JSON; `key` is that of what follows.

    What changes nothing is kept by the same condition: history says which state the approval had.
    """
    values = decision_values(decision) | {"key": key}
    if decision.claims.verb == "cancel" and after is not None and after.state is State.APPROVED:
        values["cancels"] = decision.claims.person
    if before is not None and after is not None and before.closed_at is None:
        values |= {f"new_{name}": getattr(after, name) for name in _CLOSING_COLUMNS} | {
            "changing": after.approval_id,
            "seen_revision": before.revision,
            "in_time": decision.at < before.expires_at,
            # What only closes changes plain columns, and the others cost more to write down than all else here.
            "more": None if after.revision == before.revision else approval_values(after),
        }
    return json_values(values)


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON that PostgreSQL reads back as the same row."""
    row: dict[str, Any] = to_jsonable_python(values)
    return row


def approval_from(row: Row) -> Approval:
    """Return the approval of a row."""
    kept = dict(row)
    kept["shown_arguments"] = kept["shown_arguments"] or kept["arguments"]
    values = {name: kept[name] for name in _PLAIN_COLUMNS}
    values |= {
        "call": ToolCall.model_validate(kept),
        "state": State(kept["state"]),
        "approval_rule": ApprovalRule.model_validate(kept["approval_rule"]),
        "delegations": tuple(map(Delegation.from_json, kept["delegations"])),
        "seats": _seats(kept["seats"]),
    }
    if kept["staged"]:
        values["staged"] = tuple(map(StagedCall.model_validate, kept["staged"]))
    return Approval(**values)


def vote_from(row: Row) -> Vote:
    """Return the vote of a counted decision."""
    place = (row["proof"], row["conversation_id"], row["key_id"], row["opened_by"] or "")
    return Vote(Voter(row["person"], tuple(row["roles"]), *place), "approve" if row["verb"] == "edit" else row["verb"])


def edit_from(row: Row) -> Edit:
    """Return the edit of a row."""
    return Edit(**{**{name: row[name] for name in Edit.__slots__}, "state": EditState(row["state"])})


def _seats(value: Mapping[str, Sequence[int]] | None) -> Seats | None:
    return None if value is None else {person: frozenset(numbers) for person, numbers in value.items()}
