"""A house with approvals of every sort in it, for tests of the inbox and for its pictures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from placet.domain.directory import Directory, Person
from tests.builders import a_call
from tests.support.gateway import House, an_approval_row, insert

DIRECTORY = Directory(
    people={
        "ada": Person("ada", "Ada", emails=("ada@example.org",)),
        "grace": Person("grace", "Grace", emails=("grace@example.org",)),
    },
    groups={"finance": frozenset({"ada", "grace"}), "operators": frozenset({"ada"})},
)


def hold(house: House, tool: str, summary: str, arguments: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Let a call wait for people; return its row."""
    place = {name: changes.pop(name) for name in ("conversation_id",) if name in changes}
    call = a_call(tool=tool, arguments=arguments, requester=changes.pop("requester", "person:lin"), **place)
    row = an_approval_row(call, summary=summary, **changes)
    insert(house.url, "approvals", **row)
    return row


def vote(house: House, row: dict[str, Any], person: str, verb: str = "approve", reason: str = "") -> None:
    """Let somebody have voted on an approval."""
    insert(
        house.url,
        "decisions",
        decision_id=f"decision-{row['approval_id']}-{person}",
        tenant=row["tenant"],
        approval_id=row["approval_id"],
        person=f"person:{person}",
        verb=verb,
        reason=reason,
        digest=row["digest"],
        revision=row["revision"],
        proof="web_session",
        details={},
        outcome="accepted",
        arguments_revision=1,
        counted_revision=2,
        decided_at=datetime.now(UTC) - timedelta(minutes=2),
    )


def furnish(house: House) -> dict[str, dict[str, Any]]:
    """Fill the inbox as on a busy morning; return the rows by a short name, oldest first."""
    now = datetime.now(UTC)

    def when(minutes: int, left: int) -> dict[str, Any]:
        return {"created_at": now - timedelta(minutes=minutes), "expires_at": now + timedelta(minutes=left)}

    pay = {"amount": 299, "currency": "TRY", "customer": "Lin"}
    deploy = {"service": "checkout", "version": "2026.11.3", "region": "eu-central"}
    two = {"approvers": ["group:finance"], "approvals": 2, "edits": True, "exclude": ["requester"]}
    rows = {
        "mail": hold(
            house,
            "send_mail",
            "Send the offer to lin@example.org?",
            {"to": "lin@example.org", "subject": "Your offer"},
            category="unsafe_write",
            rule="outbound-mail",
            reason="Mail to customers is read first.",
            **when(190, 50),
        ),
        "refund": hold(
            house,
            "refund",
            "Refund 1,250.00 EUR to order 10482?",
            {"amount": 1250, "currency": "EUR", "order": "10482"},
            rule="large-refunds",
            reason="Refunds over 500 EUR need two people of finance.",
            approval_rule=two,
            claimed_by="person:grace",
            claimed_until=now + timedelta(minutes=9),
            **when(95, 25),
        ),
        "deploy": hold(
            house,
            "deploy",
            "Deploy checkout 2026.11.3 to eu-central?",
            deploy,
            category="unsafe_exec",
            rule="production",
            reason="Production is deployed by people.",
            approval_rule={"approvers": ["operators"], "reason_required": "deny"},
            **when(12, 4),
        ),
        "pay": hold(house, "create_pay_link", "Create a payment link over 299 TRY for Lin?", pay, **when(6, 54)),
        "again": hold(house, "create_pay_link", "Create a payment link over 299 TRY for Lin?", pay, **when(3, 57)),
    }
    vote(house, rows["refund"], "grace", reason="The parcel came back unopened.")
    return rows


def proposed(house: House, number: int, count: int, **changes: Any) -> list[dict[str, Any]]:
    """Hold the calls of one answer of the model; return their approvals in its order."""
    rows = []
    for position in range(count):
        call = a_call(call_id=f"c{number}-{position}", turn_id=f"turn-{number}", step=1, position=position, **changes)
        rows.append(an_approval_row(call))
        insert(house.url, "approvals", **rows[-1])
        placed = call.model_dump(include={"call_id", "tenant", "conversation_id", "turn_id", "step", "position"})
        insert(house.url, "tool_calls", **placed)
    return rows
