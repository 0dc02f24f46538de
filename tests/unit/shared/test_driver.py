"""What services take from a libpq URL, and what they say of one that they cannot follow."""

from __future__ import annotations

import asyncpg
import pytest

from placet.runtime.driver import BadDatabaseUrl, Outage, pool_options, translated


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://placet@db/placet?keepalives=1", "keepalives"),
        ("postgresql://placet@db/placet?channel_binding=require", "channel_binding"),
        ("postgresql://placet@db/placet?sslmod=require", "sslmod"),
        ("postgresql://placet@db/placet?sslmode=sometimes", "verify-full"),
        ("postgresql://placet@db/placet?target_session_attrs=mine", "read-write"),
        ("postgresql://placet@db:many/placet", "port"),
        ("postgresql://placet@db/placet?connect_timeout=soon", "connect_timeout"),
        ("postgresql://placet@db/placet?sslrootcert=system&sslmode=require", "verify-full"),
        ("postgresql://placet@db/placet?sslrootcert=system&sslcert=/mine.pem", "verify-full"),
    ],
)
def test_what_cannot_be_followed_is_told_in_one_line(url: str, told: str) -> None:
    """Nothing that somebody wrote into the URL is left out in silence; it may be what keeps them safe."""
    with pytest.raises(BadDatabaseUrl) as caught:
        pool_options(url, application="placet-test")
    assert (True, 1) == (told in str(caught.value), len(str(caught.value).splitlines()))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://placet:hunter2@db/placet?keepalives=1&sslmod=x",
        "postgresql//placet:hunter2@db/placet",
        "postgresql://placet:hunter2@[db/placet",
    ],
)
def test_no_password_is_told_of_a_url_that_cannot_be_read(url: str) -> None:
    """The line goes to a terminal and to logs."""
    with pytest.raises(BadDatabaseUrl) as caught:
        pool_options(url, application="placet-test")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://postgres@/placet?host=/run/placet",
        "postgresql://one:p%40ss@db-1:5433,db-2/placet?target_session_attrs=read-write",
        "postgresql://placet@db/placet?sslmode=verify-full&sslrootcert=/etc/ca.pem&connect_timeout=3",
        "postgresql://placet@db/placet?sslmode=verify-full&sslrootcert=system",
        "postgresql://placet@db/placet?application_name=mine&options=-c%20lock_timeout%3D5s",
    ],
)
def test_what_operators_write_is_followed(url: str) -> None:
    """Sockets, several servers, certificates, settings of the server."""
    assert pool_options(url, application="placet-test")


def test_a_session_that_the_server_has_ended_is_an_outage() -> None:
    """The connection is open for a moment more; what is asked of it then is no bug of who asks."""
    error = asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")
    assert isinstance(translated(error), Outage)
