"""All SQL of the dead-letter service."""

from __future__ import annotations

from dataclasses import asdict, fields

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.dead_letters.rules import KeptLetter, Letter
from placet.dead_letters.states import State
from placet.dead_letters.tables import DEAD_LETTERS
from placet.runtime.sql import Connection
from placet.runtime.work import Work


async def add_letter(connection: Connection, letter: Letter) -> bool:
    """Store a dead letter as open; tell whether it is new."""
    statement = (
        pg.insert(DEAD_LETTERS)
        .values(**asdict(letter), state=State.OPEN, received_at=sa.func.now())
        .on_conflict_do_nothing()
        .returning(DEAD_LETTERS.c.dead_letter_id)
    )
    return (await connection.execute(statement)).first() is not None


async def load_letter(connection: Connection, dead_letter_id: str) -> KeptLetter | None:
    """Return a dead letter, locked until the transaction ends."""
    c = DEAD_LETTERS.c
    kept = [c[field.name] for field in fields(KeptLetter)]
    statement = sa.select(*kept).where(c.dead_letter_id == dead_letter_id).with_for_update()
    row = (await connection.execute(statement)).mappings().first()
    return KeptLetter(**{**row, "state": State(row["state"])}) if row else None


async def count_open(connection: Connection) -> int:
    """Return how many dead letters of all tenants wait for an operator."""
    statement = (
        sa.select(sa.func.count()).select_from(DEAD_LETTERS).where(DEAD_LETTERS.c.state == sa.literal_column("'open'"))
    )
    count: int = (await connection.execute(statement)).scalar_one()
    return count


async def move_letter(
    work: Work, letter: KeptLetter, to: State, *, again: Letter | None = None, by: str | None = None
) -> None:
    """Change the state of a locked dead letter; `again` is it as it came back, where it is opened again.

    Its body is kept while somebody may still replay it: what was signed in it names people.
    """
    values: dict[str, object] = {"state": to, "resolved_by": by, "resolved_at": work.now, "body": ""}
    if again is not None:
        values |= {"resolved_at": None, "received_at": work.now, "reason": again.reason, "body": again.body}
    same = (DEAD_LETTERS.c.dead_letter_id == letter.dead_letter_id) & (DEAD_LETTERS.c.state == letter.state)
    result = await work.connection.execute(sa.update(DEAD_LETTERS).where(same).values(**values))
    if result.rowcount != 1:
        raise RuntimeError(f"dead letter {letter.dead_letter_id} was not in state {letter.state}")
