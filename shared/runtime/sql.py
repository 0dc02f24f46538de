"""SQLAlchemy writes the SQL, asyncpg runs it: each statement is compiled once and then sent with nothing in between.

SQLAlchemy's own engine costs as much again per statement as sending it does, and it is sent twenty times per call (see
ADR 0012). What comes back is SQLAlchemy's result, so a store reads the same either way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg
import sqlalchemy as sa
from pydantic_core import to_json
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData

from placet.runtime.driver import RAISED, Silence, translated
from placet.runtime.queries import Query

Values: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
_Convert: TypeAlias = Callable[[Any], Any]


def _json(value: Any) -> str:
    """Return JSON; a number that is none stands in it as NaN, so that PostgreSQL refuses it."""
    return to_json(value, inf_nan_mode="constants").decode()


_DIALECT = asyncpg_dialect(json_serializer=_json)  # type: ignore[no-untyped-call]


def records(parameter: str, kinds: Mapping[str, Any]) -> sa.TableValuedAlias:
    """Return the rows that a parameter brings, a JSON array of objects; `kinds` are the types of its columns."""
    columns: list[Any] = [sa.column(name, kind) for name, kind in kinds.items()]
    rows = sa.func.jsonb_to_recordset(sa.bindparam(parameter, type_=pg.JSONB)).table_valued(*columns)
    return rows.render_derived(name=f"brought_{parameter}", with_types=True)


def _names_of(compiled: Any) -> tuple[str, ...]:
    """Return the names of what a compiled statement returns; text may return something, which its rows name."""
    if isinstance(compiled.statement, sa.TextClause):
        return ("?",)
    return tuple(entry.keyname for entry in compiled._result_columns)  # noqa: SLF001 - nothing public tells them


@lru_cache(maxsize=1_000)
def _columns(names: tuple[str, ...]) -> SimpleResultMetaData:
    return SimpleResultMetaData(names)


class Rows(IteratorResult[*tuple[Any, ...]]):
    """What a statement returned; read it with `all`, `first`, `one`, `scalars`, `mappings` and their like."""

    def __init__(self, names: tuple[str, ...], rows: Sequence[Any], rowcount: int) -> None:
        super().__init__(_columns(names), iter(rows))
        #: Rows that were found or changed; -1 where nobody counted.
        self.rowcount = rowcount


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One statement as asyncpg takes it."""

    text: str
    #: Names of its columns; none where it returns no rows, so that rows are counted instead.
    names: tuple[str, ...]
    #: Its parameters in order: a name that the caller must give, with what turns its value into one that asyncpg
    #: knows; or no name, and the value that stands in the statement itself.
    parameters: tuple[tuple[str | None, _Convert | None, Any], ...]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the statement's parameters; raise KeyError for one that is missing."""
        return [
            standing if name is None else given[name] if convert is None else convert(given[name])
            for name, convert, standing in self.parameters
        ]


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
    values = compiled.params
    parameters: list[tuple[str | None, _Convert | None, Any]] = []
    for name in compiled.positiontup or ():
        convert = converters.get(name)
        bind = compiled.binds.get(name)
        if name in names or (bind is not None and bind.required):
            parameters.append((name, convert, None))
        else:
            standing = defaults.get(name, values[name])
            parameters.append((None, None, standing if convert is None else convert(standing)))
    return _Compiled(str(compiled), _names_of(compiled), tuple(parameters))


class Connection:
    """A database connection for stores. Not for two tasks at once."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    async def run(self, query: Query, /, **given: Any) -> list[Any]:
        """Run a statement by name; return asyncpg's records, read by `row["column"]`. Raises DatabaseError."""
        found: list[Any] = await self.told(self._raw.fetch, query.text, *query.values(given))
        return found

    async def told(self, do: Callable[..., Awaitable[Any]], *given: Any) -> Any:
        """Return what asyncpg does, with its errors told as ours; it raises some at once, before anybody waits."""
        try:
            return await do(*given)
        except TimeoutError:
            # What it says later would be nobody's answer.
            self._raw.terminate()
            raise Silence("the server did not answer in time") from None
        except RAISED as error:
            raise translated(error, lost=self._lost()) from None

    def _lost(self) -> bool:
        try:
            closed: bool = self._raw.is_closed()
        except asyncpg.InterfaceError:
            # The pool has taken back what was lost.
            return True
        return closed

    async def execute(self, statement: sa.Executable, values: Values | None = None) -> Rows:
        """Run a statement, once for each of `values` where these are several; return what it returned.

        Raises DatabaseError.
        """
        several = values if isinstance(values, Sequence) else None
        given: Mapping[str, Any] = several[0] if several else values or {}  # type: ignore[assignment]
        compiled = _compiled(statement, tuple(given))
        if several is not None:
            await self.told(self._raw.executemany, compiled.text, [compiled.values(each) for each in several])
            return Rows((), (), -1)
        if not compiled.names:
            status = await self.told(self._raw.execute, compiled.text, *compiled.values(given))
            return Rows((), (), _rowcount(status))
        found = await self.told(self._raw.fetch, compiled.text, *compiled.values(given))
        names = tuple(found[0].keys()) if found else compiled.names
        return Rows(names, [tuple(row) for row in found], len(found))


def _rowcount(status: str) -> int:
    """Read the count at the end of what the server answers: `UPDATE 5`, `INSERT 0 3`."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdecimal() else -1
