"""SQLAlchemy writes the SQL, psycopg runs it: each statement is compiled once and then sent with nothing in between.

SQLAlchemy's own engine costs as much again per statement as sending it does, and it is sent twenty times per call (see
ADR 0012). What comes back is SQLAlchemy's result, so a store reads the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.dialects.postgresql.psycopg import dialect as psycopg_dialect
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData

Values: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
_Convert: TypeAlias = Callable[[Any], Any]

_DIALECT = psycopg_dialect()  # type: ignore[no-untyped-call]


def records(parameter: str, kinds: Mapping[str, Any]) -> sa.TableValuedAlias:
    """Return the rows that a parameter brings, a JSON array of objects; `kinds` are the types of its columns."""
    columns: list[Any] = [sa.column(name, kind) for name, kind in kinds.items()]
    rows = sa.func.jsonb_to_recordset(sa.bindparam(parameter, type_=pg.JSONB)).table_valued(*columns)
    return rows.render_derived(name=f"brought_{parameter}", with_types=True)


class Rows(IteratorResult[*tuple[Any, ...]]):
    """What a statement returned; read it with `all`, `first`, `one`, `scalars`, `mappings` and their like."""

    def __init__(self, names: Sequence[str], rows: Sequence[Any], rowcount: int) -> None:
        super().__init__(SimpleResultMetaData(names), iter(rows))
        #: Rows that were found or changed.
        self.rowcount = rowcount


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One statement as psycopg takes it."""

    text: bytes
    #: Parameters that a caller must give, each with what turns its value into one that psycopg knows.
    given: tuple[tuple[str, _Convert | None], ...]
    #: Values that stand in the statement itself.
    fixed: Mapping[str, Any]

    def parameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the statement's parameters; raise KeyError for one that is missing."""
        found = dict(self.fixed)
        for name, convert in self.given:
            value = values[name]
            found[name] = value if convert is None else convert(value)
        return found


#: By statement and by the names of the given values, which decide what an INSERT without values inserts.
_COMPILED: WeakKeyDictionary[sa.Executable, dict[tuple[str, ...], _Compiled]] = WeakKeyDictionary()


def _compiled(statement: sa.Executable, names: tuple[str, ...]) -> _Compiled:
    known = _COMPILED.setdefault(statement, {})
    found = known.get(names)
    if found is None:
        found = known[names] = _compile(statement, names)
    return found


def _compile(statement: Any, names: tuple[str, ...]) -> _Compiled:
    keys = list(names) if isinstance(statement, sa.Insert | sa.Update) else None
    compiled = statement.compile(dialect=_DIALECT, column_keys=keys, compile_kwargs={"render_postcompile": True})
    converters: Mapping[str, _Convert] = compiled._bind_processors  # noqa: SLF001 - nothing public tells them
    # A column's own default, where the statement leaves the column out.
    defaults = {column.key: column.default.arg for column in compiled.insert_prefetch}
    given: list[tuple[str, _Convert | None]] = []
    fixed: dict[str, Any] = {}
    for name, value in compiled.params.items():
        convert = converters.get(name)
        bind = compiled.binds.get(name)
        if name in names or (bind is not None and bind.required):
            given.append((name, convert))
        else:
            standing = defaults.get(name, value)
            fixed[name] = standing if convert is None else convert(standing)
    return _Compiled(str(compiled).encode(), tuple(given), fixed)


class Connection:
    """A database connection for stores. Not for two tasks at once."""

    def __init__(self, driver: psycopg.AsyncConnection[Any]) -> None:
        self._driver = driver

    async def execute(self, statement: sa.Executable, values: Values | None = None) -> Rows:
        """Run a statement, once for each of `values` where these are several; return what it returned."""
        if isinstance(values, Sequence):
            return await self._execute_many(statement, values)
        values = values or {}
        compiled = _compiled(statement, tuple(values))
        cursor = await self._driver.execute(compiled.text, compiled.parameters(values))
        if cursor.description is None:
            return Rows((), (), cursor.rowcount)
        names = [column.name for column in cursor.description]
        return Rows(names, await cursor.fetchall(), cursor.rowcount)

    async def _execute_many(self, statement: sa.Executable, values: Sequence[Mapping[str, Any]]) -> Rows:
        compiled = _compiled(statement, tuple(values[0]))
        async with self._driver.cursor() as cursor:
            await cursor.executemany(compiled.text, [compiled.parameters(each) for each in values])
            return Rows((), (), cursor.rowcount)
