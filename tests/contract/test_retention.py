"""No table grows without a rule, and the page tells of each table what the rule is."""

from __future__ import annotations

import re
from pathlib import Path

from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.purging import OF_CONVERSATION
from placet.deploy.retention.rules import OF_EACH, RULES, rule_of

PAGE = (Path(__file__).parents[2] / "docs" / "retention.md").read_text()
#: `| rule | when | tables |`
LINE = re.compile(r"^\| (\w+) \| [^|]+ \| (.+) \|$", re.MULTILINE)
#: Go by a statement of their own, or with what they point to: grants that are spent, and pseudonyms in the statement.
_APART = {"policy.grants", "policy.grant_uses"}


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
