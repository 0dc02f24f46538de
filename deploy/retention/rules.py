"""The rule of every table of every service. Pure; docs/retention.md says the same to people, a test compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

#: How rows go: with their conversation, with their job, with old history, with old dead letters, by themselves once
#: they are used or old, or never because there are few: of what people set up, one for each thing.
Rule = Literal["conversation", "job", "history", "dead_letter", "itself", "few"]

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        (
            *("agent.attempts", "agent.conversations", "agent.facts", "agent.log", "agent.messages"),
            *("agent.pseudonyms", "agent.staged_entries", "agent.steps", "agent.tool_calls", "agent.turns"),
            *("approval.approvals", "approval.calls", "approval.decisions", "approval.edits", "approval.words"),
            *("executor.executions", "gateway.conversations", "notifier.deliveries", "policy.verdicts"),
            *("gateway.comments", "gateway.link_uses", "policy.grant_uses", "policy.grants"),
        ),
        "conversation",
    ),
    **dict.fromkeys(("jobs.attempts", "jobs.jobs", "jobs.log", "jobs.tasks"), "job"),
    "dead_letters.dead_letters": "dead_letter",
    "gateway.checkpoints": "history",
    **dict.fromkeys(
        (
            *("executor.parked", "executor.past_calls", "executor.workspaces", "executor.workspace_blobs"),
            *("executor.workspace_changes", "executor.workspace_entries", "gateway.sessions", "gateway.slack_seen"),
            *("notifier.links", "notifier.mails", "notifier.webhook_events", "policy.counters"),
            *("policy.reservations", "policy.watched_calls"),
        ),
        "itself",
    ),
    **dict.fromkeys(
        (
            *("approval.word_cursor", "gateway.api_keys", "gateway.erasures", "gateway.saved_views", "gateway.sealing"),
            *("gateway.restores", "gateway.stops"),
            *("notifier.paces", "policy.activations"),
        ),
        "few",
    ),
}
#: Of every service.
OF_EACH: Mapping[str, Rule] = {"history": "history", "inbox": "itself", "outbox": "itself"}


def rule_of(table: str) -> Rule | None:
    """Return the rule of `schema.name`; None where nobody has said one."""
    return RULES.get(table) or OF_EACH.get(table.partition(".")[2])
