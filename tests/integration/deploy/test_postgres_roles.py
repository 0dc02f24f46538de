"""Each service's database role on a real PostgreSQL: its own schema, and what is written stays written."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from placet.contracts.topology import SERVICES
from placet.deploy.postgres.prepare import OWNER, Installation
from placet.runtime.database import async_url, metadata, service_tables
from tests.support.postgres import Databases

#: Stand-ins for what migrations make beside the services' tables.
EXTRA = (
    "CREATE SCHEMA tools",
    "CREATE SCHEMA read",
    "CREATE VIEW read.history AS SELECT * FROM agent.history",  # one that PostgreSQL would let through to the table
    "CREATE VIEW read.api_keys AS SELECT key_id, tenant, revoked_at FROM gateway.api_keys",
    "CREATE VIEW read.stops AS SELECT stop_id, reason FROM gateway.stops WHERE resumed_at IS NULL",
    "CREATE VIEW read.restores AS SELECT restored_at, backup_at FROM gateway.restores",
    "CREATE VIEW read.active_rulebook AS SELECT digest FROM policy.activations LIMIT 1",
    "CREATE VIEW read.askers AS SELECT tenant, conversation_id, relayed_by AS people FROM gateway.conversations",
    "CREATE VIEW read.key_makers AS SELECT tenant, person, created_by FROM gateway.api_keys",
    "CREATE VIEW read.answered_calls AS SELECT call_id FROM agent.tool_calls",
    "CREATE VIEW read.approved_calls AS SELECT call_id FROM approval.approvals",
    "CREATE VIEW read.card_times AS SELECT conversation_id, closed_at FROM approval.approvals",
    "CREATE VIEW read.taken_conversations AS SELECT tenant, conversation_id FROM agent.conversations",
    "CREATE TABLE public.alembic_version (version_num text)",
)
WRITES = ("INSERT", "UPDATE", "DELETE")
NEVER = ("TRUNCATE", "REFERENCES", "TRIGGER")
ADD_HISTORY = (
    "INSERT INTO {}.history (tenant, machine, subject_id, event, to_state, actor)"
    " VALUES ('acme', 'test', 's', 'e', 'x', 'a')"
)


def make_tables(url: str) -> None:
    """Make the tables of every service that there is, as its migrations would."""
    for service in SERVICES:
        service_tables(service)
        if find_spec(f"placet.{service}") and find_spec(f"placet.{service}.tables"):
            import_module(f"placet.{service}.tables")
    tables = [table for table in metadata.tables.values() if table.schema in {*SERVICES}]
    engine = sa.create_engine(async_url(url))
    with engine.begin() as connection:
        for schema in sorted({str(table.schema) for table in tables}):
            connection.execute(sa.schema.CreateSchema(schema))
        metadata.create_all(connection, tables=tables)
        for statement in EXTRA:
            connection.execute(sa.text(statement))
    engine.dispose()


@dataclass(frozen=True)
class Ready:
    """A prepared database."""

    installation: Installation

    @contextmanager
    def log_in(self, who: str) -> Iterator[psycopg.Connection]:
        """Connect as a service or as the owner; each statement is its own transaction."""
        with psycopg.connect(self.installation.url_of(who), autocommit=True) as connection:
            yield connection

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Return the rows of a query that the administrator asks."""
        with psycopg.connect(self.installation.admin_url) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def tables(self) -> list[tuple[str, str]]:
        """Return schema and name of everything that holds or shows rows."""
        query = (
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
        )
        return [(str(schema), str(name)) for schema, name in self.rows(query)]

    def rights(self, who: str) -> set[tuple[str, str, str]]:
        """Return (schema, table, right) for every right that a role has, however it came by it."""
        role = self.installation.role_of(who)
        query = (
            "SELECT table_schema, table_name, wanted FROM information_schema.tables, unnest(%s::text[]) AS wanted"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
            " AND has_schema_privilege(%s, table_schema, 'USAGE')"
            " AND has_table_privilege(%s, format('%%I.%%I', table_schema, table_name), wanted)"
        )
        found = self.rows(query, ["SELECT", *WRITES, *NEVER], role, role)
        return {(str(schema), str(name), str(right)) for schema, name, right in found}


@pytest.fixture(scope="module")
def ready(databases: Databases) -> Iterator[Ready]:
    """Prepare a database as the distributed footing does: once new, and again as with every new version."""
    passwords = {who: secrets.token_hex(16) for who in (OWNER, *SERVICES)}
    with databases.fresh(_make_nothing) as url:
        installation = Installation(url, passwords, role_prefix=f"placet_test_{secrets.token_hex(4)}_")
        installation.prepare(make_tables)
        installation.prepare(_make_nothing)
        yield Ready(installation)
    for who in (*SERVICES, OWNER):
        databases._execute("DROP ROLE {}", installation.role_of(who))


def _make_nothing(url: str) -> None:
    del url


def allowed(service: str, schema: str, name: str) -> set[str]:
    """Return the rights that a service should have on a table: the golden rule."""
    if schema == "read":
        keys = service in {"approval", "policy", "executor", "agent"} and name == "api_keys"
        keys |= service in {"executor", "notifier", "agent", "jobs"} and name == "stops"
        keys |= service == "executor" and name in {"answered_calls", "approved_calls"}
        keys |= service == "jobs" and name in {"card_times", "taken_conversations"}
        keys |= service in {"policy", "notifier"} and name in {"askers", "key_makers"}
        keys |= service == "notifier" and name in {"conversations", "jobs", "job_attempts"}
        sees = (
            service == "gateway" or name == "restores" or keys or (service == "approval" and name == "active_rulebook")
        )
        return {"SELECT"} if sees else set()
    if schema != service:
        return set()
    if name == "checkpoints":
        # Of their columns some are written: test_when_a_block_was_sealed_says_the_database.
        return {"SELECT"}
    return {"SELECT", "INSERT"} if name == "history" else {"SELECT", *WRITES}


def test_several_may_prepare_at_once(ready: Ready) -> None:
    """Two machines begin an update together; neither has to be told to try again."""
    with ThreadPoolExecutor() as threads:
        assert [None] * 4 == list(threads.map(ready.installation.prepare, [_make_nothing] * 4))


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_rights_of_the_golden_rule_and_no_other(ready: Ready, service: str) -> None:
    """Own schema read and written, history only added to, `read` for the gateway, which keys work for who asks."""
    wanted = {(schema, name, right) for schema, name in ready.tables() for right in allowed(service, schema, name)}
    assert service in {schema for schema, *_ in wanted}
    assert wanted == ready.rights(service)


@pytest.mark.parametrize("service", SERVICES)
def test_a_unit_of_work_runs_with_its_service_s_rights(ready: Ready, service: str) -> None:
    """Inbox, outbox and history are written by their own service, numbers from identity columns included."""
    outbox = (
        "INSERT INTO {}.outbox (id, exchange, key, batch, mandatory, events) VALUES ('o', 'e', 'k', 1, true, '{{}}')"
    )
    statements = (
        "INSERT INTO {}.inbox (message_id, queue) VALUES ('m', 'q')",
        "DELETE FROM {}.inbox",
        outbox,
        "UPDATE {}.outbox SET due_at = now()",
        "DELETE FROM {}.outbox",
        ADD_HISTORY,
    )
    with ready.log_in(service) as connection:
        done = [connection.execute(sql.SQL(each).format(sql.Identifier(service))).rowcount for each in statements]
    assert [1] * len(statements) == done


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {}.history SET actor = 'nobody'",
        "DELETE FROM {}.history",
        "TRUNCATE {}.history",
        "DROP TABLE {}.history",
        "ALTER TABLE {}.history DISABLE TRIGGER ALL",
        "CREATE TABLE {}.own (id int)",
        "CREATE TABLE public.own (id int)",
        "CREATE TEMPORARY TABLE own (id int)",
        "CREATE SCHEMA own",
    ],
)
def test_nobody_changes_history_or_makes_anything(ready: Ready, service: str, statement: str) -> None:
    """Not even a service its own history: PostgreSQL refuses each way."""
    with ready.log_in(service) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute(sql.SQL(statement).format(sql.Identifier(service)))


def test_when_a_block_was_sealed_says_the_database(ready: Ready) -> None:
    """The gateway adds checkpoints, and says nothing of their age: what is old is purged."""
    add = "INSERT INTO gateway.checkpoints (tenant, number, token{}) VALUES ('acme', 1, 't'{})"
    with ready.log_in("gateway") as connection:
        with pytest.raises(InsufficientPrivilege):
            connection.execute(add.format(", sealed_at", ", '2000-01-01'").encode())
        connection.execute(add.format("", "").encode())
    assert [(True,)] == ready.rows("SELECT sealed_at > now() - interval '1 hour' FROM gateway.checkpoints")


@pytest.mark.parametrize(
    ("service", "statement"),
    [
        ("policy", ADD_HISTORY.format("approval")),
        ("notifier", ADD_HISTORY.format("approval")),
        ("executor", ADD_HISTORY.format("approval")),
        ("executor", "DELETE FROM approval.inbox"),
        ("agent", "INSERT INTO approval.outbox SELECT * FROM approval.outbox"),
        ("agent", "CREATE TABLE tools.own (id int)"),
        ("gateway", "SELECT count(*) FROM approval.history"),
        ("gateway", "DELETE FROM read.history"),
        ("agent", "SELECT count(*) FROM read.history"),
        ("approval", "SELECT count(*) FROM read.history"),
        ("approval", "SELECT secret_hash FROM gateway.api_keys"),
        ("approval", "UPDATE read.api_keys SET revoked_at = NULL"),
        ("policy", "SELECT secret_hash FROM gateway.api_keys"),
        ("policy", "UPDATE read.api_keys SET revoked_at = NULL"),
        ("dead_letters", "DELETE FROM public.alembic_version"),
    ],
)
def test_a_stranger_is_refused(ready: Ready, service: str, statement: str) -> None:
    """What a stolen service role might try on other services' tables."""
    with ready.log_in(service) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute(statement.encode())


def test_the_gateway_reads_through_the_views(ready: Ready) -> None:
    """`read` shows it what the tables behind do not."""
    with ready.log_in("agent") as connection:
        connection.execute(ADD_HISTORY.format("agent").encode())
    with ready.log_in("gateway") as connection:
        row = connection.execute("SELECT count(*) > 0 FROM read.history").fetchone()
    assert (True,) == row


def test_a_view_made_anew_is_readable_at_once(ready: Ready) -> None:
    """A migration drops and makes changed views while gateways run."""
    with ready.log_in(OWNER) as connection:
        connection.execute("DROP VIEW read.history")
        connection.execute("CREATE VIEW read.history AS SELECT * FROM agent.history")
    assert ("read", "history", "SELECT") in ready.rights("gateway")


def test_tools_of_the_executor_keep_tables_of_their_own(ready: Ready) -> None:
    """They make them in the schema `tools`, and may still use them after the next set-up."""
    with ready.log_in("executor") as connection:
        connection.execute("CREATE TABLE tools.own (id int PRIMARY KEY)")
    ready.installation.apply_roles()
    with ready.log_in("executor") as connection:
        connection.execute("INSERT INTO tools.own VALUES (1)")
        connection.execute("DROP TABLE tools.own")


def test_no_role_is_more_than_a_login(ready: Ready) -> None:
    """No superuser, no way around row security, no membership that lends another's rights."""
    roles = [ready.installation.role_of(who) for who in (OWNER, *SERVICES)]
    query = (
        "SELECT rolname, rolcanlogin, rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication,"
        " (SELECT count(*) FROM pg_auth_members WHERE member = pg_roles.oid OR roleid = pg_roles.oid)"
        " FROM pg_roles WHERE rolname = ANY (%s)"
    )
    assert {(role, True, False, 0) for role in roles} == set(ready.rows(query, roles))


def test_everything_belongs_to_the_owner(ready: Ready) -> None:
    """Schemas, tables and views have one owner, who serves no requests."""
    query = (
        "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace::regnamespace::text = ANY (%s)"
        " AND relkind IN ('r', 'v') UNION SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = ANY (%s)"
    )
    schemas = [*SERVICES, "read"]
    assert [(ready.installation.role_of(OWNER),)] == ready.rows(query, schemas, schemas)


def test_everybody_s_rights_are_taken_away(ready: Ready) -> None:
    """A login without a grant of ours cannot even connect."""
    query = (
        "SELECT acl.privilege_type FROM pg_database, aclexplode(datacl) AS acl"
        " WHERE datname = current_database() AND acl.grantee = 0"
    )
    assert [] == ready.rows(query)


def test_a_right_granted_by_hand_does_not_outlive_the_next_run(ready: Ready) -> None:
    """The file says what is allowed; running it makes it so."""
    role = sql.Identifier(ready.installation.role_of("policy"))
    with psycopg.connect(ready.installation.admin_url, autocommit=True) as connection:
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA approval TO {}").format(role))
        connection.execute(sql.SQL("GRANT ALL ON approval.history, policy.history TO {}").format(role))
    ready.installation.apply_roles()
    schemas = {(schema, right) for schema, name, right in ready.rights("policy") if name == "history"}
    assert {("policy", "SELECT"), ("policy", "INSERT")} == schemas


def test_passwords_are_stored_as_scram_verifiers(ready: Ready) -> None:
    """The server never sees the passwords themselves."""
    query = "SELECT count(*) FROM pg_authid WHERE rolname LIKE %s AND rolpassword LIKE 'SCRAM-SHA-256$%%'"
    assert [(len(SERVICES) + 1,)] == ready.rows(query, ready.installation.role_prefix.replace("_", r"\_") + "%")
