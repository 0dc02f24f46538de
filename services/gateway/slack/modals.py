"""The modals behind a card's buttons: say why, change the arguments, see everything. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from services.gateway.feed import arguments_value
from services.gateway.slack.edit_form import REASON
from services.gateway.slack.interactions import Place, carried
from services.gateway.store.read import Row
from shared import block_kit as kit
from shared.block_kit import Block
from shared.card_text import visible
from shared.messages.approvals import REASON_MAX
from shared.slack import Subject

#: What a submitted modal does.
APPROVE_FORM, DENY_FORM, EDIT_FORM = "placet_approve_form", "placet_deny_form", "placet_edit_form"

_SUMMARY_MAX = 600
_FACT_MAX = 1000


def reason_modal(verb: str, row: Row, subject: Subject, place: Place, *, required: bool) -> Block:
    """Return the modal that asks why; `verb` is approve or deny."""
    approving = verb == "approve"
    return kit.modal(
        "Approve" if approving else "Deny",
        [_summary(row), _reason("Why?", required=required)],
        close="Back",
        submit="Approve" if approving else "Deny",
        callback_id=APPROVE_FORM if approving else DENY_FORM,
        private_metadata=carried(subject, place),
    )


def edit_modal(row: Row, fields: Sequence[Block], subject: Subject, place: Place) -> Block:
    """Return the modal that changes the arguments; who submits it approves the call as it is then."""
    told = kit.plain("With these arguments you approve it yourself; earlier votes are void.", _FACT_MAX)
    required = row["approval_rule"].get("reason_required") == "always"
    return kit.modal(
        "Edit",
        [_summary(row), kit.context(told), *fields, _reason("Why?", required=required)],
        close="Back",
        submit="Change",
        callback_id=EDIT_FORM,
        private_metadata=carried(subject, place),
    )


def more_modal(row: Row, url: str) -> Block:
    """Return the modal that shows everything: all arguments, the whole digest, who may decide."""
    value = arguments_value(row["arguments"]) if row["arguments"] else None
    text = json.dumps(value, ensure_ascii=False, indent=2) if value is not None else "Nobody may see the arguments."
    shown, whole = kit.shown_whole(text)
    facts = [
        ("State", f"{row['state']}, revision {row['revision']}"),
        ("Asked by", row["requester"]),
        ("Agent", row["agent"]),
        ("Held by rule", row["rule"]),
        ("Why", row["reason"]),
        ("May decide", ", ".join(row["approvers"])),
        ("Decided by", row["decided_by"] or ""),
        ("Digest", row["digest"]),
    ]
    blocks = [_summary(row), *shown]
    if not whole:
        blocks.append(kit.section(kit.plain("There is more than Slack can show.", _FACT_MAX)))
    blocks += [kit.context(kit.plain(f"{label}: {visible(value)}", _FACT_MAX)) for label, value in facts if value]
    if url:
        blocks.append(kit.context(kit.mrkdwn(f"<{kit.escaped(url)}|Open in Placet>")))
    return kit.modal("What would run", blocks, close="Close")


def _summary(row: Row) -> Block:
    return kit.section(kit.plain(visible(row["summary"]) or row["tool"], _SUMMARY_MAX))


def _reason(label: str, *, required: bool) -> Block:
    element: dict[str, Any] = {
        "type": "plain_text_input",
        "action_id": "text",
        "multiline": True,
        "max_length": REASON_MAX,
    }
    return kit.input_block(REASON, label, element, optional=not required)
