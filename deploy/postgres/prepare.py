"""Makes a database ready for the distributed footing: roles, migrations as their owner, rights, passwords.

`python -m placet.deploy.postgres.prepare` is the one step that knows the administrator's password; it runs to its end
before any service starts, and again with every new version. Passwords reach the server as SCRAM verifiers, so that no
statement log shows them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql

from placet.contracts.errors import PlacetError
from placet.contracts.topology import SERVICES
from placet.deploy.postgres.redaction import redacted_error

ROLES = Path(__file__).with_name("roles.sql")
OWNER = "owner"
ADMIN_URL = "PLACET_DATABASE_ADMIN_URL"

Migrate = Callable[[str], object]


class NotConfigured(PlacetError):
    """The environment lacks the administrator's URL or somebody's password."""


def passwords_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords of the owner and of each service; raise NotConfigured naming all that are not set."""
    names = {who: f"PLACET_DATABASE_PASSWORD_{who.upper()}" for who in (OWNER, *SERVICES)}
    if missing := [name for name in names.values() if not environment.get(name)]:
        raise NotConfigured(f"not set: {', '.join(missing)}")
    return {who: environment[name] for who, name in names.items()}


@dataclass(frozen=True)
class Installation:
    """One database and its roles. Roles belong to the whole server, so each installation on it has its own prefix."""

    #: URL of the database for an administrator of the server.
    admin_url: str
    #: `owner` and each service -> password.
    passwords: Mapping[str, str]
    role_prefix: str = "placet_"

    def prepare(self, migrate: Migrate) -> None:
        """Bring the database to the newest schema, migrated by its owner, with everybody's rights.

        Of several at once each waits for those before it: PostgreSQL refuses two who change one role or right.
        """
        with psycopg.connect(self.admin_url, autocommit=True) as alone:
            alone.execute("SELECT pg_advisory_lock(hashtext('placet.prepare'))")
            self.apply_roles()
            self.set_passwords()
            migrate(self.url_of(OWNER))
            self.apply_roles()

    def apply_roles(self) -> None:
        """Make missing roles, and set everybody's rights on what is there now."""
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            connection.execute("SELECT set_config('placet.role_prefix', %s, false)", (self.role_prefix,))
            connection.execute(ROLES.read_bytes())

    def set_passwords(self) -> None:
        """Give each role its password."""
        with psycopg.connect(self.admin_url) as connection:
            for who, password in self.passwords.items():
                role = self.role_of(who)
                verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
                change = sql.SQL("ALTER ROLE {} PASSWORD {}")
                connection.execute(change.format(sql.Identifier(role), sql.Literal(verifier.decode())))

    def role_of(self, who: str) -> str:
        """Return the role of a service, or of the owner."""
        return self.role_prefix + who

    def url_of(self, who: str) -> str:
        """Return the URL of the database for a service, or for the owner."""
        parts = urlsplit(self.admin_url)
        place = parts.netloc.rpartition("@")[2]
        login = f"{self.role_of(who)}:{quote(self.passwords[who], safe='')}"
        return parts._replace(netloc=f"{login}@{place}").geturl()


def main() -> int:
    """Prepare the database that the environment names; return the exit code."""
    from placet.deploy.migrations import migrate  # noqa: PLC0415  # needs alembic, which tests of the roles do not

    try:
        admin_url = os.environ.get(ADMIN_URL)
        if not admin_url:
            raise NotConfigured(f"not set: {ADMIN_URL}")
        Installation(admin_url, passwords_in(os.environ)).prepare(migrate)
    except (PlacetError, psycopg.Error) as error:
        sys.stderr.write(f"placet: {redacted_error(error)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
