"""The schema `read`: what the gateway may see of other services, created anew whenever a service's view text changes.

Views are not migrated step by step: they hold no data, and the text in `services/<name>/views.py` is the truth.
"""

from __future__ import annotations

import hashlib
from importlib import import_module

import sqlalchemy as sa

from placet.contracts.topology import SERVICES

#: `line` is what the audit chain seals of a row: of `said`, who did it and its details, only a salted digest. A row
#: without a salt was erased, and kept that digest in the place of its details: one that says anything else was forged.
_HISTORY = """
    SELECT '{service}' AS service, id, tenant, machine, subject_id, call_id, event, from_state, to_state, actor,
           message_id, at, detail, CAST(salt AS text) AS salt, said,
           CAST(json_build_object(
               'service', '{service}', 'id', id, 'at', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
               'tenant', tenant, 'machine', machine, 'subject_id', subject_id, 'call_id', call_id, 'event', event,
               'from_state', from_state, 'to_state', to_state, 'message_id', message_id,
               'said', CASE
                   WHEN salt IS NULL AND actor = 'erased' AND detail - 'erased' = '{{}}' THEN detail ->> 'erased'
                   WHEN salt IS NULL THEN NULL
                   ELSE encode(sha256(convert_to(CAST(salt AS text) || said, 'UTF8')), 'hex') END
           ) AS text) AS line
    FROM (
        SELECT *, CAST(json_build_object('actor', actor, 'detail', detail) AS text) AS said FROM {service}.history
    ) AS each
"""

#: How far the sequence of a service's history has come: no row that a service wrote has a higher id.
_HISTORY_IDS = """
    SELECT '{service}' AS service, CASE WHEN is_called THEN last_value ELSE 0 END AS last
    FROM {service}.history_id_seq
"""


def views() -> dict[str, str]:
    """Return every view: name -> SELECT."""
    found: dict[str, str] = {}
    for service in SERVICES:
        found |= import_module(f"placet.{service}.views").VIEWS
    found["history"] = " UNION ALL ".join(_HISTORY.format(service=service) for service in SERVICES)
    found["history_ids"] = " UNION ALL ".join(_HISTORY_IDS.format(service=service) for service in SERVICES)
    return found


def create_views(connection: sa.Connection) -> bool:
    """Bring the schema `read` up to date; tell whether anything changed."""
    wanted = views()
    digest = hashlib.sha256(repr(sorted(wanted.items())).encode()).hexdigest()
    connection.execute(sa.text('CREATE SCHEMA IF NOT EXISTS "read"'))
    known = connection.execute(sa.text("SELECT obj_description('read'::regnamespace, 'pg_namespace')")).scalar()
    if known == digest:
        return False
    rights = _rights(connection)
    for name in _existing(connection):
        connection.execute(sa.text(f'DROP VIEW "read"."{name}"'))
    for name, select in wanted.items():
        connection.execute(sa.text(f'CREATE VIEW "read"."{name}" AS {select}'))
    for name, right, role in rights:
        if name in wanted:
            connection.execute(sa.text(f'GRANT {right} ON "read"."{name}" TO "{role}"'))
    connection.execute(sa.text(f"COMMENT ON SCHEMA \"read\" IS '{digest}'"))
    return True


def _rights(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Return who may do what with a view, as (view, right, role): a view made anew is as readable as it was."""
    query = sa.text(
        "SELECT relname, privilege_type, rolname FROM pg_class, aclexplode(relacl) AS acl, pg_roles"
        " WHERE relnamespace = 'read'::regnamespace AND relkind = 'v' AND pg_roles.oid = grantee AND grantee <> relowner"
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def _existing(connection: sa.Connection) -> list[str]:
    query = sa.text("SELECT viewname FROM pg_views WHERE schemaname = 'read'")
    return [row[0] for row in connection.execute(query)]
