"""compose.yaml: every service is there, ready to be asked, stopped in peace, and without a default password."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from placet.contracts.signing import SIGNERS
from placet.contracts.topology import SERVICES
from placet.deploy.example_env import known_names
from placet.deploy.postgres import prepare
from placet.deploy.rabbitmq import definitions
from placet.deploy.rabbitmq.definitions import RULEBOOK, VHOST, pools_of, user_name
from placet.runtime.settings import Settings
from placet.tools import PackSettings
from shop.resources import open_resources

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
CONTAINERS: dict[str, dict[str, Any]] = COMPOSE["services"]
ENV_SH = (ROOT / "deploy" / "env.sh").read_text()
#: Container -> the service in it.
RUNS = {service.replace("_", "-"): service for service in SERVICES} | {"executor-payments": "executor"}
#: Names that are read without a settings class: by the command line, and by the steps before the services.
OTHER_NAMES = {"PLACET_URL", "PLACET_KEY", "PLACET_DATABASE_ADMIN_URL"}


def passwords_asked_for() -> set[str]:
    """Return the variables that compose takes from .env and cannot do without."""
    return set(re.findall(r"\$\{(\w+):\?", TEXT))


def neighbours(networks: list[str]) -> set[str]:
    """Return the containers that stand in one of these networks."""
    return {name for name, each in CONTAINERS.items() if set(networks) & set(each.get("networks", []))}


def test_every_service_runs() -> None:
    """A container per service, and an executor per pool of the rulebook."""
    assert RUNS.keys() <= CONTAINERS.keys()
    pools = [each["environment"].get("PLACET_EXECUTOR_POOLS") for each in CONTAINERS.values() if "environment" in each]
    assert list(pools_of(RULEBOOK)) == sorted(pool for pool in pools if pool)


@pytest.mark.parametrize(("container", "service"), RUNS.items())
def test_a_service_has_its_own_image_user_and_role(container: str, service: str) -> None:
    """And its own password in either URL, so that nobody shares a login."""
    found = CONTAINERS[container]
    assert service == found["build"]["args"]["SERVICE"]
    environment = found["environment"]
    password = f"PASSWORD_{service.upper()}:?"
    assert f"//placet_{service}:${{PLACET_DATABASE_{password}" in environment["PLACET_DATABASE_URL"]
    assert f"//{user_name(service)}:${{PLACET_RABBITMQ_{password}" in environment["PLACET_RABBITMQ_URL"]
    assert environment["PLACET_RABBITMQ_URL"].endswith(f"@rabbitmq:5672/{VHOST}")


@pytest.mark.parametrize(
    ("container", "needed"),
    [
        ("init", definitions.passwords_in),
        ("prepare", prepare.passwords_in),
    ],
)
def test_the_steps_before_know_every_password(container: str, needed: Callable[[Mapping[str, str]], object]) -> None:
    """Those of a service that came later, too: else the first start ends there."""
    assert needed(CONTAINERS[container]["environment"])


@pytest.mark.parametrize("container", RUNS)
def test_a_service_is_given_longer_than_it_drains(container: str) -> None:
    """Whoever stops containers does not kill what still runs in the time it was promised."""
    found = CONTAINERS[container]
    drain = float(found["environment"]["PLACET_DRAIN_SECONDS"])
    assert Settings.model_fields["drain_seconds"].default == drain
    assert float(found["stop_grace_period"].removesuffix("s")) >= 2 * drain


@pytest.mark.parametrize("container", RUNS)
def test_a_service_is_confined(container: str) -> None:
    """Nothing to write to, no capability, no way to gain one; after a crash it comes back."""
    found = CONTAINERS[container]
    assert found["read_only"] is True
    assert (["ALL"], ["no-new-privileges:true"]) == (found["cap_drop"], found["security_opt"])
    assert found["restart"] == "unless-stopped"


@pytest.mark.parametrize("container", [name for name, service in RUNS.items() if service == "executor"])
async def test_the_demos_tools_open_where_nothing_can_be_written(
    container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever pool it serves: with a container's settings the shop makes no folder of its own."""
    (tmp_path / "no-folder").touch()
    monkeypatch.setenv("PLACET_DATA", str(tmp_path / "no-folder"))
    for name, value in CONTAINERS[container]["environment"].items():
        if name.startswith("SHOP_"):
            monkeypatch.setenv(name, value)
    async with open_resources(PackSettings(database_url="postgresql://nowhere.invalid/none")) as opened:
        assert ["shop"] == list(opened)


def test_a_signer_sees_only_its_own_private_key() -> None:
    """Each signer mounts its own volume, executors and agent the public one, the rest none; all read-only."""
    target = "/run/placet/keys:ro"
    mounted = {name: [each for each in CONTAINERS[name].get("volumes", []) if target in each] for name in RUNS}
    signers = {name: [f"keys-{name}:{target}"] for name in SIGNERS}
    verifiers = {name: [f"keys-public:{target}"] for name, service in RUNS.items() if service in {"executor", "agent"}}
    assert {name: [] for name in RUNS} | signers | verifiers == mounted


def test_a_container_is_told_its_own_passwords_alone() -> None:
    """A library that reads the environment of its process finds nobody else's."""
    passwords = {name: set(re.findall(r"PASSWORD_(\w+)", str(CONTAINERS[name]["environment"]))) for name in RUNS}
    assert {name: {service.upper()} for name, service in RUNS.items()} == passwords


def test_who_runs_tools_has_no_way_out() -> None:
    """Into the world go who answers people, asks models, and tells people; a pool of its own, where its tools must."""
    ways = {name: set(CONTAINERS[name]["networks"]) - {"inside", "tools"} for name in RUNS}
    assert [{"internal": True}] * 3 == [COMPOSE["networks"][name] for name in ("inside", "tools", "payments")]
    talking = {name: {"outside"} for name in ("gateway", "agent", "notifier")}
    assert {name: set() for name in RUNS} | talking | {"executor-payments": {"payments"}} == ways


@pytest.mark.parametrize("container", [name for name, service in RUNS.items() if service == "executor"])
def test_a_tool_reaches_broker_and_database_alone(container: str) -> None:
    """The demo's pool its provider too: no other service, nor its metrics, stands in a network of an executor's."""
    reached = neighbours(CONTAINERS[container]["networks"])
    executors = {name for name, service in RUNS.items() if service == "executor"}
    provider = {"payment-provider"} if container == "executor-payments" else set[str]()
    assert {"rabbitmq", "postgres"} | provider == reached - executors


def the_page_s_way_out() -> dict[str, Any]:
    """Return the executor that the page lets out."""
    page = (ROOT / "docs" / "write-a-tool.md").read_text()
    (override,) = re.findall(r"```yaml\n(services:\n  executor-weather:.*?)```\n", page, re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(re.sub(r"!\w+", "", override))["services"]["executor-weather"]
    return found


def test_the_page_s_way_out_knows_no_secret_of_the_closed_executor() -> None:
    """It reads what all do, and a file of its own name as every service does: Compose would add to the other's."""
    page = (ROOT / "docs" / "write-a-tool.md").read_text()
    assert "    env_file: !override\n" in page
    read = {name: [Path(each["path"]).name for each in CONTAINERS[name]["env_file"]] for name in RUNS}
    read["executor-weather"] = [Path(each["path"]).name for each in the_page_s_way_out()["env_file"]]
    assert {name: ["all.env", f"{name}.env"] for name in read} == read


@pytest.mark.parametrize("container", [*RUNS, "purge"])
def test_an_empty_setting_takes_nothing_away_that_the_image_sets(container: str) -> None:
    """Whoever leaves a line of the settings empty means the default, and services without these do not start."""
    image = dict(re.findall(r"(PLACET_\w+)=(\S+)", (ROOT / "deploy" / "Dockerfile").read_text()))
    # Our own rulebook is in the image, and mounted here.
    image["PLACET_RULEBOOK"] = "/etc/placet/rules/rulebook.yaml"
    told = CONTAINERS[container]["environment"]
    lacking = {name for name, value in image.items() if told.get(name) != value}
    assert (set() if container in RUNS else {"PLACET_RULEBOOK"}) == lacking


def test_the_page_s_way_out_leads_to_no_service() -> None:
    """Whoever lets tools out as documented gives them the world, not the other services beside it."""
    networks = the_page_s_way_out()["networks"]
    assert set(networks) <= COMPOSE["networks"].keys()
    assert not COMPOSE["networks"]["way-out"]
    assert neighbours(["tools"]) == neighbours(networks)


def test_nothing_is_published_beyond_this_machine() -> None:
    """Ports of the host are bound to its loopback address only."""
    ports = [port for each in CONTAINERS.values() for port in each.get("ports", [])]
    assert "127.0.0.1:8080:8080" in ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_no_password_has_a_default() -> None:
    """Each password comes from .env, and compose refuses to start without it."""
    used = set(re.findall(r"\$\{(\w*PASSWORD\w*)", TEXT))
    assert used
    assert used == passwords_asked_for()


def test_the_env_script_makes_every_password() -> None:
    """What compose asks for is what `make compose-env` writes."""
    found = re.search(r'services="([A-Z_ ]+)"', ENV_SH)
    assert found is not None
    assert [service.upper() for service in SERVICES] == found[1].split()
    kinds = {f"PLACET_{kind}_PASSWORD_{service.upper()}" for kind in ("DATABASE", "RABBITMQ") for service in SERVICES}
    assert {*kinds, "PLACET_DATABASE_PASSWORD_ADMIN", "PLACET_DATABASE_PASSWORD_OWNER"} == passwords_asked_for()


def test_every_setting_in_compose_exists() -> None:
    """A misspelt name would be ignored in silence."""
    missing = [service for service in SERVICES if not find_spec(f"placet.{service}.settings")]
    named = {name for each in CONTAINERS.values() for name in each.get("environment", {}) if name.startswith("PLACET_")}
    unknown = named - known_names() - OTHER_NAMES - passwords_asked_for()
    owners = {*(service.upper() for service in missing), *(["MODEL"] if "agent" in missing else [])}
    assert {name for name in unknown if name.split("_")[1] not in owners} == set()


def test_the_page_s_folders_of_files_are_one_service_s_each() -> None:
    """Beside what is mounted already, read-only, and none that another container sees."""
    page = (ROOT / "docs" / "deploying.md").read_text()
    (override,) = re.findall(r"```yaml\n(services:\n.*?/etc/placet/files.*?)```\n", page, re.DOTALL)
    mounts = {name: each["volumes"] for name, each in yaml.safe_load(override)["services"].items()}
    files = "${SETTINGS_FOLDER:-./settings}/files"
    assert {name: [f"{files}/{name}:/etc/placet/files:ro"] for name in ("gateway", "notifier", "executor")} == mounts
    assert "/etc/placet/files" not in TEXT
