"""Very many approvals in a database, copied from one: what an inbox is measured and planned with."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

_COLUMNS = """
    SELECT column_name FROM information_schema.columns WHERE table_schema = 'approval' AND table_name = 'approvals'
"""
_INDEXES = """
    SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'approval' AND indexname LIKE 'ix_approvals_%'
"""


#: What approval's duty does for as many at a time as it finds.
_WORDS = """
    INSERT INTO approval.words (tenant, word, is_open, created_at, approval_id)
    SELECT tenant, word, state = 'pending', created_at, approval_id
    FROM approval.approvals, LATERAL (SELECT DISTINCT unnest(array_remove(string_to_array(trim(searched), ' ') || ARRAY[
        'requester=' || requester, 'rule=' || rule, 'decided_by=' || decided_by], NULL)) AS word) AS words
    WHERE approval_id <> %s
"""


def copy_approval(url: str, template: str, rows: int, changed: Mapping[str, str]) -> None:
    """Copy the approval `template` so many times; `changed` has SQL over `a`, the template, and `n`, from 1 on.

    A changed summary is its own words: letters, digits and single spaces. Indexes are made after the rows, which takes
    a third of the time.
    """
    if "summary" in changed:
        changed = {"searched": f"' ' || lower({changed['summary']}) || ' '", **changed}
    with psycopg.connect(url, autocommit=True) as connection:
        names = [str(row[0]) for row in connection.execute(_COLUMNS)]
        values = [changed.get(name, f"a.{name}") for name in names]
        indexes = connection.execute(_INDEXES).fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX approval.{name}".encode())
        connection.execute("ALTER TABLE approval.words DROP CONSTRAINT pk_words")
        copy = (
            f"INSERT INTO approval.approvals ({', '.join(names)}) SELECT {', '.join(values)}"  # noqa: S608 - ours
            f" FROM approval.approvals a, generate_series(1, {rows}) n WHERE a.approval_id = '{template}'"
        )
        connection.execute(copy.encode())
        connection.execute(_WORDS, [template])
        for _, definition in indexes:
            connection.execute(definition.encode())
        connection.execute(
            "ALTER TABLE approval.words ADD CONSTRAINT pk_words"
            " PRIMARY KEY (tenant, word, is_open, created_at, approval_id)"
        )
        connection.execute("VACUUM ANALYZE approval.approvals, approval.words")
