"""How commands tell why a database cannot be asked."""

from __future__ import annotations

import psycopg
import pytest

from placet.deploy.postgres.redaction import redacted_error


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://db/placet?password=hunter2%zz", "the URL of the database cannot be read"),
        ("postgresql://[::1]hunter2:5432/placet", "the URL of the database cannot be read"),
        ("postgresql://placet:x@hunter2@127.0.0.1/placet?connect_timeout=2", "the URL of the database cannot be read"),
        ("postgresql://127.0.0.1:hunter2/ter@127.0.0.1/placet", "the URL of the database cannot be read"),
        ("postgresql://placet:hunter2@/placet?host=/none&connect_timeout=2", "no such file"),
    ],
)
def test_no_password_is_told_of_a_database_that_cannot_be_asked(url: str, told: str) -> None:
    """Not of a URL that cannot be read either, which the driver quotes."""
    with pytest.raises(psycopg.Error) as refused:
        psycopg.connect(url)
    line = redacted_error(refused.value)
    assert (True, False, 1) == (told.lower() in line.lower(), "hunter2" in line, len(line.splitlines()))
