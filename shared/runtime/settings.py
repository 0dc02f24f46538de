"""Settings that every service shares, read from the environment once and passed down.

Names begin with `PLACET_`; a service adds its own in `services/<name>/settings.py`. Secrets are secret types, so that
no log line shows them. A name that no service has is a mistake that stops the start, because its author believes that
it counts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, JsonValue, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from placet.contracts.errors import PlacetError
from placet.contracts.messages import ENVELOPE_EVENTS_MAX
from placet.runtime.urls import login_of, with_parameter

PREFIX = "PLACET_"
#: The names of all settings of all services, one a line; drawn by `python -m placet.deploy.example_env`.
NAMES = Path(__file__).with_name("setting_names.txt")
#: What the command line and the set-up of databases and brokers read beside settings.
OTHER_NAMES = frozenset({"PLACET_URL", "PLACET_KEY", "PLACET_DATA", "PLACET_DATABASE_ADMIN_URL"})
OTHER_PREFIXES = ("PLACET_DATABASE_PASSWORD_", "PLACET_RABBITMQ_PASSWORD_", "PLACET_TEST_", "PLACET_BENCH_")
#: By this variable Kubernetes begins to tell a container of a service whose name begins like our settings.
_LINK = "_SERVICE_HOST"
#: How a value that is no JSON is told.
_FIELD = re.compile(r'field "(\w+)"')
#: A broker that falls silent is noticed within about three of these; by AMQP's own default it would take three minutes.
HEARTBEAT_SECONDS = 20
_LOCAL_HOSTS = frozenset({"", "localhost", "127.0.0.1", "::1"})


class UnknownSetting(PlacetError):
    """The environment names settings that no service has."""


def _as_browsers_say_it(url: str) -> str:
    """Return an address with scheme and host in lower case: so a browser names it as an origin."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{separator}{host.lower()}{slash}{path}" if separator else url


#: Marks a setting that tests and benchmarks turn and nobody else has to: it is read, and in no list of settings.
INTERNAL: dict[str, JsonValue] = {"internal": True}


def _of_a_broker(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        heartbeat = dict(parse_qsl(parts.query, keep_blank_values=True)).get("heartbeat", "0")
        good = parts.scheme in {"amqp", "amqps"} and parts.hostname and parts.port != 0 and heartbeat.isdecimal()
    except ValueError:
        # What Python says of it quotes the value, which may be a password with a character that has to be escaped.
        good = False
    if not good:
        raise ValueError("write amqp://user:password@host:5672/vhost, or with ?heartbeat=SECONDS")
    return SecretStr(with_parameter(url.get_secret_value(), "heartbeat", str(HEARTBEAT_SECONDS)))


class Settings(BaseSettings):
    """Where things are, and how much of them."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    database_url: SecretStr = Field(
        default=SecretStr("postgresql://postgres@127.0.0.1:5432/placet"),
        description="PostgreSQL of this service's role, libpq URL form.",
    )
    database_pool_size: int = Field(default=10, ge=1, le=200, description="Connections kept; as many again under load.")
    rabbitmq_url: Annotated[SecretStr, AfterValidator(_of_a_broker)] = Field(
        default=SecretStr("amqp://guest:guest@127.0.0.1:5672/"),
        description=f"RabbitMQ of this service's user; heartbeat={HEARTBEAT_SECONDS} where it says none.",
    )
    declare_topology: bool = Field(
        default=True,
        description="Declare exchanges and queues at start; off where definitions.json made them.",
    )
    rulebook: Path = Field(default=Path("deploy/rulebook.yaml"), description="Rulebook file with the tool catalogue.")
    tools: Path | None = Field(
        default=None,
        description="Folder of own Python code for executor and agent, such as tools; none: what is installed.",
    )
    agents: Path | None = Field(
        default=None, description="File of agents; none: one agent, as the settings of the agent service say, any name."
    )
    keys: Path = Field(
        default=Path(".data/keys"), description="Folder of signing keys: <issuer>.private.json, public.json."
    )
    public_url: Annotated[str, AfterValidator(_as_browsers_say_it)] = Field(
        default="",
        description="Address that people's browsers use, such as https://placet.example; empty: as they ask for it, "
        "and cards have no link.",
    )
    pool_batches: dict[str, Annotated[int, Field(ge=1, le=ENVELOPE_EVENTS_MAX)]] = Field(
        default_factory=dict,
        description='Executor pool to permits per message, such as {"fast": 16}; other pools get one, so that no '
        "worker hoards slow calls that others could run. For the services that permit calls: policy and approval.",
    )
    tenant_share: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="Part of the slots of one agent or executor that one tenant may use where others work too, and of "
        "a tenant's model calls that one of its agents may; the rest is free for the others at once.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info")
    log_format: Literal["json", "console"] = Field(default="json")
    otlp_endpoint: str = Field(
        default="",
        description="Collector of traces, OTLP over HTTP, such as http://collector:4318; empty: no traces.",
    )
    health_host: str = Field(default="127.0.0.1", description="Address of /healthz, /readyz, /metrics of each service.")
    health_port: int = Field(default=0, ge=0, le=65535, description="Their port; 0 opens none.")
    step_seconds: float = Field(
        default=5.0,
        ge=0,
        description="CPU that a task of the event loop uses without letting others go on, before it is ended: a guard "
        "against input that nobody thought of. Own code of tools and models is not watched; 0: nothing is.",
    )
    drain_seconds: float = Field(default=20.0, gt=0, description="How long a stop waits for what is running.")

    def add_own_code(self) -> None:
        """Let Python find the code in the folder `tools`, behind everything installed; PlacetError without a folder."""
        if self.tools is None:
            return
        folder = self.tools.resolve()
        if not folder.is_dir():
            raise PlacetError(f"PLACET_TOOLS: {folder} is not a folder")
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


class LanguageSettings(Settings):
    """The language of people who have named none."""

    notifier_language: Literal["en", "de", "tr"] = Field(
        default="en",
        description="Language of cards for a place, and of cards, mailed links and Slack's modals for somebody whose "
        "language nobody said.",
    )


def refuse_unknown(environment: Mapping[str, str]) -> None:
    """Raise UnknownSetting, one line, where a variable begins like a setting and is none of any service."""
    known = [*NAMES.read_text().split(), *OTHER_NAMES]
    if unknown := _unknown(environment, known):
        raise UnknownSetting("; ".join(_no_setting(name, known) for name in unknown))


def what_is_wrong(error: ValueError) -> str | None:
    """Return in one line which settings have values that they cannot have, and why; None where it is another error."""
    if isinstance(error, ValidationError) and error.title.endswith("Settings"):
        return "; ".join(map(_fault, error.errors()))
    if isinstance(error, SettingsError):
        found = _FIELD.search(str(error))
        name = f"{PREFIX}{found[1].upper()}" if found else "a setting"
        return f'{name} is no JSON: a list is written like ["a", "b"], a table like {{"a": "b"}}'
    return None


def _fault(error: ErrorDetails) -> str:
    """Return what is wrong with one setting; several that do not fit are named by the text itself."""
    text = error["msg"].removeprefix("Value error, ")
    return f"{PREFIX}{'.'.join(map(str, error['loc'])).upper()}: {text}" if error["loc"] else text


def default_credentials(settings: Settings) -> list[str]:
    """Return the settings that reach another machine with the credentials that every installation begins with."""
    rabbitmq, database = (login_of(url.get_secret_value()) for url in (settings.rabbitmq_url, settings.database_url))
    guest = {rabbitmq.user or "guest", rabbitmq.password or "guest"} == {"guest"}
    trusted = database.user in {"", "postgres"} and not database.password
    found = {"PLACET_RABBITMQ_URL": (rabbitmq, guest), "PLACET_DATABASE_URL": (database, trusted)}
    return [name for name, (url, default) in found.items() if default and not _is_here(url.host)]


def _is_here(host: str) -> bool:
    return host in _LOCAL_HOSTS or host.startswith("/")


def _unknown(environment: Iterable[str], known: Iterable[str]) -> list[str]:
    names = {name for name in environment if name.upper().startswith(PREFIX)}
    linked = tuple(name.removesuffix(_LINK) for name in names if name.endswith(_LINK))
    links = tuple(f"{service}_{part}" for service in linked for part in ("SERVICE_", "PORT"))
    ours = {name for name in names if name.upper() in set(known) or name.upper().startswith(OTHER_PREFIXES)}
    return sorted(name for name in names - ours if not name.startswith(links))


def _no_setting(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name.upper().removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
    return f"{name} is no setting of Placet" + (f", did you mean {PREFIX}{close[0]}?" if close else "")
