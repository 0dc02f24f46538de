"""roles.sql names the services that there are, and no password."""

from __future__ import annotations

import re

import pytest

from placet.contracts.topology import SERVICES
from placet.deploy.postgres.prepare import ROLES, Installation, NotConfigured, passwords_in


def test_each_service_has_a_role() -> None:
    """The list in the file is the list in the code, in its order."""
    found = re.search(r"services CONSTANT text\[\] := ARRAY\[(.*?)\]", ROLES.read_text())
    assert found is not None
    assert ", ".join(f"'{service}'" for service in SERVICES) == found[1]


def test_no_password_stands_in_the_file() -> None:
    """Passwords come from the environment only."""
    assert not re.search(r"(?i)password\s+'", ROLES.read_text())


def test_a_missing_password_is_named() -> None:
    """Every variable that is not set is in the one line of the failure."""
    with pytest.raises(NotConfigured, match=r"^not set: PLACET_DATABASE_PASSWORD_OWNER, .*_GATEWAY, .*_DEAD_LETTERS$"):
        passwords_in({})


def test_a_role_s_url_is_the_administrator_s_with_another_login() -> None:
    """Host, port, database and options stay."""
    given = Installation("postgresql://postgres:secret@db:5433/placet?sslmode=require", {"agent": "a/b@c"})
    assert given.url_of("agent") == "postgresql://placet_agent:a%2Fb%40c@db:5433/placet?sslmode=require"
