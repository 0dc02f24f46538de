"""The modals behind a card's buttons: say why, change the arguments, see everything; in the person's language. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from placet.contracts.messages.approvals import REASON_MAX
from placet.domain.card_text import visible
from placet.gateway.conversations.items import arguments_value
from placet.gateway.slack.edit_form import REASON
from placet.gateway.slack.interactions import Click, carried
from placet.gateway.store.read import Row
from placet.surfaces import block_kit as kit
from placet.surfaces.block_kit import Block
from placet.surfaces.card import named, why
from placet.surfaces.plan import is_commit
from placet.surfaces.texts import text

#: What a submitted modal does.
APPROVE_FORM, DENY_FORM, EDIT_FORM = "placet_approve_form", "placet_deny_form", "placet_edit_form"

_SUMMARY_MAX = 600
_FACT_MAX = 1000


def reason_modal(verb: str, row: Row, click: Click, locale: str, *, required: bool) -> Block:
    """Return the modal that asks why; `verb` is approve or deny."""
    approving = verb == "approve"
    name = text(locale, "Approve") if approving else text(locale, "Deny")
    return kit.modal(
        name,
        [_summary(row), _reason(locale, required=required)],
        close=text(locale, "Back"),
        submit=name,
        callback_id=APPROVE_FORM if approving else DENY_FORM,
        private_metadata=carried(click.subject, click.place),
    )


def edit_modal(row: Row, fields: Sequence[Block], click: Click, locale: str) -> Block:
    """Return the modal that changes the arguments, of a commit by leaving entries out.

    Who submits it approves the call as it is then.
    """
    if is_commit(row["tool"]):
        name, submit = text(locale, "Leave some out"), text(locale, "Approve")
        told = text(
            locale,
            "Checked entries are discarded, and the rest is approved. "
            "Those that touch the same things go together: check all of them.",
        )
    else:
        name, submit = text(locale, "Edit"), text(locale, "Change")
        told = text(locale, "With these arguments you approve it yourself; earlier votes are void.")
    required = row["approval_rule"].get("reason_required") == "always"
    return kit.modal(
        name,
        [_summary(row), kit.context(kit.plain(told, _FACT_MAX)), *fields, _reason(locale, required=required)],
        close=text(locale, "Back"),
        submit=submit,
        callback_id=EDIT_FORM,
        private_metadata=carried(click.subject, click.place),
    )


def more_modal(row: Row, url: str, locale: str, name_of: Callable[[str], str]) -> Block:
    """Return the modal that shows everything: all arguments, the whole digest, who may decide."""
    shown, whole = kit.shown_whole(_arguments(row, locale))
    state = f"{text(locale, row['state'])}, {text(locale, 'revision')} {row['revision']}"
    facts = [
        (text(locale, "State"), state),
        (text(locale, "Asked by"), name_of(row["requester"])),
        (text(locale, "Agent"), row["agent"]),
        (text(locale, "Held by rule"), row["rule"]),
        (text(locale, "Why"), why(locale, row["reason"])),
        (text(locale, "May decide"), ", ".join(named(each, locale, name_of) for each in row["approvers"])),
        (text(locale, "Decided by"), name_of(row["decided_by"]) if row["decided_by"] else ""),
        (text(locale, "Digest"), row["digest"]),
    ]
    blocks = [_summary(row), *shown]
    if row["state"] == "pending" and row.get("restored_at"):
        words = "Placet was restored from a backup after this was asked. See first whether it has run in the meantime."
        blocks.insert(0, kit.section(kit.plain(f"⚠ {text(locale, words)}", _FACT_MAX)))
    if not whole:
        blocks.append(kit.section(kit.plain(text(locale, "There is more than Slack can show."), _FACT_MAX)))
    blocks += [kit.context(kit.plain(f"{label}: {visible(value)}", _FACT_MAX)) for label, value in facts if value]
    if url:
        blocks.append(kit.context(kit.mrkdwn(f"<{kit.escaped(url)}|{text(locale, 'Open in Placet')}>")))
    return kit.modal(text(locale, "What would run"), blocks, close=text(locale, "Close"))


def _arguments(row: Row, locale: str) -> str:
    if not row["arguments"]:
        return text(locale, "The arguments are hidden from everyone.")
    return json.dumps(arguments_value(row["arguments"]), ensure_ascii=False, indent=2)


def _summary(row: Row) -> Block:
    return kit.section(kit.plain(visible(row["summary"]) or row["tool"], _SUMMARY_MAX))


def _reason(locale: str, *, required: bool) -> Block:
    element: dict[str, Any] = {
        "type": "plain_text_input",
        "action_id": "text",
        "multiline": True,
        "max_length": REASON_MAX,
    }
    return kit.input_block(REASON, text(locale, "Why?"), element, optional=not required)
