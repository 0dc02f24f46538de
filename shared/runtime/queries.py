"""SQL by name: a `queries.sql` beside a store, read once when the store is imported.

    -- name: load_verdict
    SELECT verdict_id, effect FROM policy.verdicts WHERE tenant = :tenant AND call_id = :call_id

`QUERIES = load_queries(__file__)` and `QUERIES.load_verdict`; parameters are written `:name` (lower case) and given by
name. PostgreSQL prepares each text once per connection. Lists become arrays; dicts, and lists for a `jsonb` parameter,
are sent as JSON; a string for a `jsonb` parameter is JSON text already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HEAD = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
#: A string, which is left as it is, or a parameter that is no cast (`::text`).
_PARAMETER = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_][a-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Query:
    """One statement as PostgreSQL takes it."""

    name: str
    #: As it was written, with `:name`.
    source: str
    #: With $1, $2 and so on.
    text: str
    parameters: tuple[str, ...]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the parameters in their order; raise TypeError unless exactly these were given."""
        if given.keys() != set(self.parameters):
            raise TypeError(f"{self.name} takes {sorted(self.parameters)}, not {sorted(given)}")
        return [given[name] for name in self.parameters]


class Queries:
    """The statements of one file, as attributes."""

    def __init__(self, queries: Mapping[str, Query]) -> None:
        self._queries = dict(queries)

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"queries.sql has no {name}") from None

    def filled(self, piece: str, text: str) -> Queries:
        """Return the same statements with this text in the place of `{piece}`."""
        return Queries(
            {name: query(name, each.source.replace(f"{{{piece}}}", text)) for name, each in self._queries.items()}
        )


def query(name: str, source: str) -> Query:
    """Return the statement `source`, whose parameters are written `:name`."""
    source = _COMMENT.sub("", source).strip().rstrip(";")
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        return f"${numbers.setdefault(found[1], len(numbers) + 1)}"

    text = _PARAMETER.sub(number, source)
    return Query(name, source, text, tuple(numbers))


def load_queries(module: str, file: str = "queries.sql") -> Queries:
    """Return the named statements of `file` beside `module`, which is a module's `__file__`."""
    parts = _HEAD.split(Path(module).with_name(file).read_text())
    names = parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{file} has a name twice")
    return Queries({name: query(name, source) for name, source in zip(names, parts[2::2], strict=True)})
