"""Finds whose ids begin with that of a person who is erased: `ada lovelace`, where `ada` is.

In a text nothing says where an id ends. Where it stands alone, as a column, a string or a key of JSON, its end is
known: whoever stands so anywhere, or in a version of the directory, is somebody, and nothing of theirs is the erased's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from placet.contracts.topology import SERVICES
from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.forgetting import ANSWERED, NAMING, is_kept, read_json
from placet.deploy.retention.names import pattern_of
from placet.runtime.queries import query
from placet.runtime.sql import Connection

#: Fields and columns in which people, models and Placet write sentences, which may begin with a name.
_PROSE = re.compile(
    r"(.*_)?(answer|asked|comment|content|description|detail|error|goal|instructions?|line|message|note|prompt|quote"
    r"|reason|remark|reply|said|summary|task|text|title|words?)"
)
#: Between the ids of a list that is one string; a wave before one says how they hold it.
_BETWEEN = re.compile(r"(?:^| )~?(?=[a-z]+:)")
#: What an id may be, behind its kind.
_ID = re.compile(r"[a-z]+:[^\x00-\x1f\x7f]{1,128}")
#: Not the end of a string of JSON: an id may go on here.
_GOES_ON = r'(?=.)(?!\\*"\s*(?:[],:}]|$))'
#: Where people are named as the directory has them, without kind.
_BARE = """
    SELECT person AS bare FROM gateway.api_keys UNION SELECT person FROM notifier.mails
    UNION SELECT person FROM notifier.deliveries
    UNION SELECT (regexp_matches(source, '^person (.+): (?:not )?active, known by', 'gn'))[1]
    FROM policy.activations WHERE kind = 'directory'
"""


async def namesakes_of(connection: Connection, identity: str) -> frozenset[str]:
    """Return the identities that are stored anywhere and begin with this one."""
    places = {table: columns.split() for table, columns in NAMING.items()}
    places |= {f"{service}.history": ["actor", "detail"] for service in SERVICES}
    goes_on, found = pattern_of(identity, in_json=True) + _GOES_ON, set[str]()
    for table, names in places.items():
        columns = metadata.tables[table].columns
        told = [
            name if isinstance(columns[name].type, sa.ARRAY) else f"CAST({name} AS text) AS {name}" for name in names
        ]
        wanted = " OR ".join(f"CAST({name} AS text) ~ :goes_on" for name in names)
        statement = f"SELECT {', '.join(told)} FROM {table} WHERE {wanted}"  # noqa: S608
        for row in await connection.run(query("namesakes", statement), goes_on=goes_on):
            for name in names:
                found.update(_ids_in(row[name], name, keeps_data=table in ANSWERED))
    kind = identity.partition(":")[0]
    found.update(f"{kind}:{row['bare']}" for row in await connection.run(query("bare", _BARE)))
    return frozenset(each for each in found if each.startswith(identity) and each != identity and _ID.fullmatch(each))


def _ids_in(value: Any, name: str, *, keeps_data: bool) -> Iterator[str]:
    """Yield what stands alone in a field or column, and may be an id: no sentence, and nothing that names nobody."""
    if isinstance(value, str):
        read = read_json(value)
        if read is not None:
            yield from _ids_in(read, name, keeps_data=keeps_data)
        elif not _PROSE.fullmatch(name):
            yield from _BETWEEN.split(value)
    elif isinstance(value, list):
        for each in value:
            yield from _ids_in(each, name, keeps_data=keeps_data)
    elif isinstance(value, dict):
        for field, each in value.items():
            yield field
            if not is_kept(field, keeps_data=keeps_data):
                yield from _ids_in(each, field, keeps_data=keeps_data)
