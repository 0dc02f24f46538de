"""No table grows without a rule, and the page tells of each table what the rule is."""

from __future__ import annotations

import re
from pathlib import Path

from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.forgetting import NAMING, QUOTING, WRITTEN
from placet.deploy.retention.purging import OF_CONVERSATION
from placet.deploy.retention.rules import OF_EACH, RULES, rule_of

PAGE = (Path(__file__).parents[2] / "docs" / "retention.md").read_text()
#: `| rule | when | tables |`
LINE = re.compile(r"^\| (\w+) \| [^|]+ \| (.+) \|$", re.MULTILINE)
#: Go by a statement of their own, or with what they point to: grants that are spent, and pseudonyms in the statement.
_APART = {"policy.grants", "policy.grant_uses"}
#: Columns that name nobody, whichever table has them: ids, digests, states, what a call does, and what a tool says.
NOBODY = re.compile(
    r"(.*_)?(id|digest|hash|sha256|arguments|state|kind|type|key|before|failure)|addresses|after|agent|answer_to|base"
    r"|bounds|canonical|cards|category|changes|channel|decide|diff|differences|effect|entries|exchange|flags|handover"
    r"|held|holder|joint|journal|keys|labels|language|measure|messages?|method|mode|model|needs|next_message|origins"
    r"|outcome|pack|per|permit_issuer|plan|pool|produces|proof|pseudonym|queue|reference|released_as|resolution|roles"
    r"|rule|scopes?|searched|service|summary|taken_over_by|tenant|terms|thrown_out|tool|topic|traceparent"
    r"|upto|value|verb|veto_on|veto_within|votes|waits_for|webhook|winner|worker|workspace"
)
#: Columns with what one person wrote, whose name stands beside: `tests/integration/deploy/test_erasing.py` tries each.
OWN_WORDS = {
    **{f"{table}.{column}": who for table, who, columns in WRITTEN for column in columns.split()},
    **dict.fromkeys(("approval.decisions.reason", "approval.decisions.signed", "gateway.comments.text"), "person"),
    **dict.fromkeys(("gateway.saved_views.address", "gateway.saved_views.name"), "person"),
    "gateway.stops.reason": "stopped_by",
}
#: What columns with words are called.
PROSE = re.compile(r"(.*_)?(comment|detail|error|note|reason|remark|text|words?)")
#: Columns of these names that Placet or a model writes, and what people say to agents, which goes with where they do.
TOLD = {
    *("agent.facts.text", "agent.messages.text", "agent.turns.reason", "approval.approvals.reason"),
    *("approval.calls.withdrawn_reason", "approval.edits.detail", "approval.words.word"),
    *("dead_letters.dead_letters.reason", "executor.executions.error", "executor.workspace_entries.error"),
    *("gateway.conversations.held_reason", "jobs.attempts.reason", "jobs.jobs.reason", "jobs.tasks.reason"),
    *("jobs.tasks.text", "notifier.deliveries.error", "notifier.webhook_events.error", "policy.grants.void_reason"),
    *("policy.verdicts.model_reason", "policy.verdicts.reason"),
}
#: Columns that may name somebody, and are not looked through: permits, addresses and bare names have statements of
#: their own; the directory's versions are whose house it is.
APART = {
    *("approval.edits.detail", "executor.executions.permit", "gateway.checkpoints.token", "jobs.tasks.text"),
    *("executor.workspace_entries.data", "executor.workspace_entries.permit", "executor.workspace_entries.ui_blocks"),
    *("gateway.api_keys.person", "gateway.conversations.held_reason", "gateway.conversations.visitor"),
    *("gateway.erasures.who", "notifier.deliveries.person", "notifier.deliveries.recipient", "notifier.mails.person"),
    *("notifier.mails.recipient", "policy.activations.source", "policy.grants.subject"),
}


def test_every_table_has_a_rule() -> None:
    """A new table fails here until somebody has said when its rows go."""
    tables = set(metadata.tables)
    assert set() == {each for each in tables if rule_of(each) is None}
    assert set() == {each for each in RULES if each not in tables}


def test_the_page_tells_every_rule() -> None:
    """Each table stands in the row of its rule, and in no other."""
    told = {
        name: set(re.findall(r"`(\w+\.\w+|history|inbox|outbox)`", tables))
        for name, tables in LINE.findall(PAGE)
        if tables != "tables"
    }
    rules = {**RULES, **OF_EACH}
    assert {name: {each for each in rules if rules[each] == name} for name in set(rules.values())} == told


def test_what_goes_with_its_conversation_is_deleted_with_it() -> None:
    """The purge names every table of that rule."""
    deleted = {table for table, *_ in OF_CONVERSATION} | _APART
    ruled = {table for table, rule in RULES.items() if rule == "conversation"}
    assert ruled == deleted - {"executor.workspaces"}


def test_an_erasure_knows_of_every_column_that_has_a_text() -> None:
    """A new column fails here until somebody has said whether Placet names people in it."""
    named = {f"{table}.{column}" for table, columns in NAMING.items() for column in columns.split()}
    texts = {
        f"{table}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if table.name != "history" and column.type.python_type in {str, dict, list, object} and column.computed is None
    }
    nobody = {each for each in texts if NOBODY.fullmatch(each.rpartition(".")[2])}
    assert (set(), set()) == (texts - named - nobody - APART - {*OWN_WORDS}, (named | APART | {*OWN_WORDS}) - texts)
    assert set() == (named | nobody | {*OWN_WORDS}) & APART | named & nobody
    assert set() == {
        table for table, column in QUOTING.items() if f"{table}.{column}" not in texts or table not in NAMING
    }


def test_of_every_column_with_words_somebody_has_said_whose_they_are() -> None:
    """A new one fails here until it is known whether a person writes it: then it goes when they are erased."""
    prose = {
        f"{table}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if table.name != "history" and PROSE.fullmatch(column.name)
    }
    assert (prose - {*OWN_WORDS}, set()) == (TOLD, {*OWN_WORDS} & TOLD)
