"""The baseline: every table, index, function and trigger as SQL, drawn from the tables of the services.

`python -m placet.deploy.migrations.baseline` writes `baseline.sql`, which the one migration before the first release
runs. From that release on the file stays as it is, and `generate` writes a migration for each change.
"""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.deploy.migrations.metadata import metadata

FILE = Path(__file__).with_name("baseline.sql")
_BETWEEN = "\n;;\n"
"""Stands between two statements: functions have semicolons of their own."""


def schemas() -> list[str]:
    """Return the schemas that hold tables of ours, and `tools`, in which tools may make theirs."""
    return sorted({"tools", *(table.schema for table in metadata.tables.values() if table.schema)})


def drawn() -> str:
    """Return the SQL that creates all that the services own in an empty database."""
    found = [f"CREATE SCHEMA IF NOT EXISTS {schema}" for schema in schemas()]

    def keep(statement: Any, *_: object, **__: object) -> None:
        text = str(statement.compile(dialect=pg.dialect()))  # type: ignore[no-untyped-call]
        found.append("\n".join(line.rstrip() for line in text.replace("\t", "  ").strip().splitlines()))

    # Sorted: in which order modules were imported changes nothing.
    engine = sa.create_mock_engine("postgresql+psycopg://", keep)
    metadata.create_all(engine, tables=metadata.sorted_tables, checkfirst=False)
    # The indexes of a table come in no order of their own.
    runs = groupby(found, key=lambda text: bool(re.match("CREATE (UNIQUE )?INDEX", text)))
    return _BETWEEN.join(text for indexes, run in runs for text in (sorted(run) if indexes else run)) + "\n"


def revision_id() -> str:
    """Return the name of the committed file's schema: until the first release it is another whenever tables change."""
    return f"0001_{sha256(FILE.read_bytes()).hexdigest()[:12]}"


def statements() -> list[str]:
    """Return the statements of the committed file."""
    return FILE.read_text().strip().split(_BETWEEN)


if __name__ == "__main__":
    FILE.write_text(drawn())
