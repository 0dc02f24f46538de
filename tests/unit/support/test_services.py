"""Which servers tests use, and what is said when a named one does not answer."""

from __future__ import annotations

import pytest

from tests.support import rabbitmq, services

NOBODY = "127.0.0.1:1"
"""Port 1 refuses connections on any machine worth testing on."""


def test_a_named_postgres_that_does_not_answer_is_an_error() -> None:
    """An address in the environment is never replaced by another server in silence."""
    with pytest.raises(services.UnreachableError, match="PLACET_TEST_POSTGRES_URL"):
        services.find_postgres({services.POSTGRES: f"postgresql://me:secret@{NOBODY}/db"})


def test_a_named_broker_that_does_not_answer_is_an_error() -> None:
    """An address in the environment is never replaced by another broker in silence."""
    with pytest.raises(services.UnreachableError, match="PLACET_TEST_RABBITMQ_URL"):
        services.find_rabbitmq({services.RABBITMQ: f"amqp://me:secret@{NOBODY}/"})


@pytest.mark.parametrize(("names", "room"), [(["/"], True), (["/", "placet-test-0af3-1"], False)])
def test_a_broker_with_what_another_run_left_is_not_used(names: list[str], *, room: bool) -> None:
    """A run that died leaves queues whose handles a broker soon lacks; one that goes on needs them."""

    class Known(rabbitmq.CommandLine):
        def vhosts(self) -> list[str]:
            return names

    assert room == rabbitmq.has_room(Known("none"))


def test_passwords_are_not_shown() -> None:
    """What is printed names host, port and database only."""
    expected = "db.example:5432/placet"
    assert expected == services.shown("postgresql://me:secret@db.example:5432/placet?sslmode=require")


def test_a_missing_service_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is not run, the exit code is 1 and one line names the variable that is wrong."""
    monkeypatch.setenv(services.POSTGRES, f"postgresql://me@{NOBODY}/db")
    assert services.main(["false"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
