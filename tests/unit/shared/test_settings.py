"""Names that no service has stop the start; credentials that everybody has are told of."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import pytest
import structlog
from pydantic import SecretStr, ValidationError

from placet.contracts.errors import PlacetError
from placet.contracts.topology import SERVICES
from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from placet.runtime.service import Service, main
from placet.runtime.settings import NAMES, Settings, UnknownSetting, default_credentials, refuse_unknown, what_is_wrong

EXAMPLE = Path(__file__).parents[3] / "deploy" / "example.env"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("PLACET_DATABSE_URL", "PLACET_DATABSE_URL is no setting of Placet, did you mean PLACET_DATABASE_URL?"),
        ("placet_log_levle", "placet_log_levle is no setting of Placet, did you mean PLACET_LOG_LEVEL?"),
        ("PLACET_EXECUTOR_POOL", "PLACET_EXECUTOR_POOL is no setting of Placet, did you mean PLACET_EXECUTOR_POOLS?"),
        ("PLACET_QQQQQQ", "PLACET_QQQQQQ is no setting of Placet"),
    ],
)
def test_a_misspelt_name_stops_the_start(name: str, told: str) -> None:
    """One line says which name it is and which one was probably meant, whichever service reads that."""
    with pytest.raises(UnknownSetting) as refused:
        refuse_unknown({name: "x", "PATH": "/bin", "PLACET_LOG_LEVEL": "info"})
    assert told == str(refused.value)


def test_several_misspelt_names_are_told_together() -> None:
    """Who mends one need not start again to hear of the next."""
    with pytest.raises(UnknownSetting, match=r"PLACET_A is no setting.*; PLACET_B is no setting"):
        refuse_unknown({"PLACET_B": "", "PLACET_A": ""})


def test_names_of_others_are_left_alone() -> None:
    """Settings of every service, the command line's, set-up's and tests' names, and what Kubernetes adds are known."""
    others = ["PLACET_KEY", "PLACET_RABBITMQ_PASSWORD_AGENT", "PLACET_TEST_LEDGER", "PLACET_BENCH_LEDGER", "placet_url"]
    links = [
        "PLACET_WEB_SERVICE_HOST",
        "PLACET_WEB_SERVICE_PORT_HTTP",
        "PLACET_WEB_PORT_80_TCP_ADDR",
        "PLACET_WEB_PORT",
    ]
    refuse_unknown(dict.fromkeys([*NAMES.read_text().split(), *others, *links], ""))


@pytest.mark.parametrize(
    "url",
    [
        "http://broker/",
        "broker:5672",
        "amqp://",
        "amqp://user:secret@:5672",
        "amqp://b:x/",
        "amqp://user:secret/part@b/",
        "amqp://b/?heartbeat=20s",
        "amqp://b/?heartbeat=",
    ],
)
def test_an_address_of_no_broker_is_refused(url: str) -> None:
    """One line says how one is written, and none of the value, in which a password is."""
    with pytest.raises(ValidationError) as refused:
        Settings(rabbitmq_url=SecretStr(url))
    assert (True, False) == (
        "PLACET_RABBITMQ_URL: " in str(what_is_wrong(refused.value)),
        "secret" in str(refused.value),
    )


def test_a_broker_is_asked_for_heartbeats() -> None:
    """A broker that falls silent is noticed: by AMQP's own default it would take minutes."""
    told = [Settings(rabbitmq_url=SecretStr(f"amqp://b/{each}")) for each in ("", "?heartbeat=5")]
    assert ["amqp://b/?heartbeat=20", "amqp://b/?heartbeat=5"] == [s.rabbitmq_url.get_secret_value() for s in told]


@pytest.mark.parametrize(
    ("rabbitmq_url", "database_url", "told"),
    [
        ("amqp://guest:guest@127.0.0.1:5672/", "postgresql://postgres@localhost/placet", []),
        ("amqp://guest:guest@[::1]/", "postgresql://postgres@/placet?host=/run/pg", []),
        ("amqp://guest:guest@broker/", "postgresql://postgres@localhost/placet", ["PLACET_RABBITMQ_URL"]),
        ("amqp://broker", "postgresql://db/placet", ["PLACET_RABBITMQ_URL", "PLACET_DATABASE_URL"]),
        ("amqp://placet:x@broker/", "postgresql://postgres:x@db/placet", []),
        ("amqp://guest:x@broker/", "postgresql://placet_agent@db/placet", []),
        ("amqp://guest:x@broker/", "postgresql://db/placet?user=placet_agent&password=x", []),
        ("amqp://guest:x@broker/", "postgresql://postgres@db/placet?password=x", []),
        ("amqp://guest:x@broker/", "postgresql://postgres@db/placet?passfile=/run/secrets/pgpass", []),
        ("amqp://guest:x@broker/", "postgresql:///placet?user=postgres&host=db", ["PLACET_DATABASE_URL"]),
    ],
)
def test_default_credentials_are_for_this_machine(rabbitmq_url: str, database_url: str, told: list[str]) -> None:
    """Guest and a passwordless postgres are convenient on localhost and worth a warning anywhere else."""
    settings = Settings(rabbitmq_url=SecretStr(rabbitmq_url), database_url=SecretStr(database_url))
    assert told == default_credentials(settings)


def settings_of(service: str) -> type[Settings]:
    """Return the class of a service's settings."""
    found = vars(import_module(f"placet.{service}.settings"))
    made: type[Settings]
    (made,) = (each for name, each in found.items() if name.lower() == f"{service.replace('_', '')}settings")
    return made


@pytest.mark.parametrize("service", SERVICES)
def test_an_empty_value_is_none(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    """Whoever takes the mark off a line of example.env that says nothing changes nothing, in any service."""
    made = settings_of(service)
    plain = made()
    for line in EXAMPLE.read_text().splitlines():
        if found := re.fullmatch(r"#(PLACET_\w+)=", line):
            monkeypatch.setenv(found[1], "")
    assert plain == made()


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_may_be_empty(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    """It is its default then: an empty address of the metrics would be every address of the machine."""
    made = settings_of(service)
    plain = made()
    for name in made.model_fields:
        monkeypatch.setenv(f"PLACET_{name.upper()}", "")
    assert plain == made()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("PLACET_NOTIFIER_CARDS_PER_MINUTE", "slack=5", "PLACET_NOTIFIER_CARDS_PER_MINUTE is no JSON: a list is"),
        ("PLACET_NOTIFIER_WAITING_MAX", "many", "PLACET_NOTIFIER_WAITING_MAX: Input should be a valid integer"),
    ],
)
def test_a_value_that_cannot_be_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, told: str
) -> None:
    """By the variable's own name, and without a traceback."""
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main("notifier", NotifierSettings, build)
    said = capsys.readouterr().err
    assert (2, 1, True) == (ended.value.code, len(said.splitlines()), told in said)


class _Refuses(Service):
    """A service whose resources cannot be opened; nothing else of it is reached."""

    def __init__(self) -> None:
        """Need no runtime."""

    @asynccontextmanager
    async def running(self, *, own_bus: bool = True) -> AsyncIterator[None]:
        """Refuse to start."""
        raise PlacetError(f"the secret A_KEY is missing on {own_bus=}")
        yield


def test_a_start_that_is_refused_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What only the start finds out, such as a missing secret, is no traceback either."""
    with pytest.raises(SystemExit) as ended:
        main("executor", Settings, lambda *_: _Refuses())
    structlog.reset_defaults()
    assert (2, "placet executor: the secret A_KEY is missing on own_bus=True\n") == (
        ended.value.code,
        capsys.readouterr().err,
    )


def test_the_public_address_is_the_one_that_browsers_name() -> None:
    """Whoever writes scheme or host in capitals has the same origin; what follows the host stays."""
    written = ("HTTPS://Placet.Example:8443", "Https://placet.example/Path", "")
    expected = ["https://placet.example:8443", "https://placet.example/Path", ""]
    assert expected == [Settings(public_url=each).public_url for each in written]
