"""The import contracts bite: the house keeps each of them, and one wrong line in the real code breaks the one for it.

Lines are planted in a copy of the code, so that a contract which no longer matches any module (a renamed file, a
typing error in a wildcard) is noticed here and not in production.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.linting import Lint, linting

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "pyproject.toml"

VIOLATIONS = [
    ("house", "shared/contracts/signing.py", "import placet.agent.llm"),
    ("house", "shared/domain/votes.py", "import placet.runtime.work"),
    ("house", "shared/runtime/work.py", "import placet.domain.votes"),
    ("house", "shared/domain/votes.py", "import placet.surfaces.card"),
    ("house", "shared/tools/replies.py", "import placet.executor.worker"),
    ("house", "services/approval/handlers.py", "import placet.policy.handlers"),
    ("house", "services/approval/handlers.py", "import placet.cli.main"),
    ("house", "services/notifier/handlers.py", "import placet.deploy.keys"),
    ("house", "services/embedded/system.py", "import placet.cli.main"),
    ("tests-outside", "services/agent/llm.py", "import tests.builders"),
    ("downward-agent", "services/agent/rules.py", "import placet.agent.store"),
    ("downward-agent", "services/agent/states.py", "import placet.agent.rules"),
    ("downward-agent", "services/agent/a_new_room.py", "import placet.agent.states"),
    ("downward-approval", "services/approval/rules/__init__.py", "import placet.approval.store"),
    ("downward-approval", "services/approval/store/__init__.py", "import placet.approval.handlers"),
    ("downward-jobs", "services/jobs/store.py", "import placet.jobs.handlers"),
    ("downward-dead-letters", "services/dead_letters/store.py", "import placet.dead_letters.handlers"),
    ("downward-executor", "services/executor/rules.py", "import placet.executor.worker"),
    ("downward-policy", "services/policy/rules/limits.py", "import placet.policy.store"),
    ("downward-gateway", "services/gateway/conversations/service.py", "import placet.gateway.approvals.consents"),
    ("downward-gateway", "services/gateway/http/callers.py", "import placet.gateway.conversations.store"),
    ("downward-gateway", "services/gateway/a_new_room.py", "import placet.gateway.states"),
    ("downward-notifier", "services/notifier/states.py", "import placet.notifier.rules"),
    ("downward-notifier", "services/notifier/rules.py", "import placet.notifier.store"),
    ("downward-notifier", "services/notifier/a_new_room.py", "import placet.notifier.states"),
    ("messages-bare", "shared/contracts/messages/message.py", "import placet.domain.votes"),
    ("messages-bare", "shared/contracts/messages/message.py", "import sqlmodel"),
    ("pure-core", "services/executor/rules.py", "import placet.runtime.database"),
    ("pure-core", "services/approval/states.py", "import httpx"),
    ("pure-core", "services/gateway/dialects/ai_sdk.py", "import placet.runtime.sql"),
    ("pure-core", "services/agent/transcript.py", "import asyncpg"),
    ("pure-clock", "services/executor/rules.py", "import time"),
    ("pure-clock", "services/policy/rules/limits.py", "from pathlib import Path"),
    ("door-litellm", "services/agent/rules.py", "import litellm"),
    ("door-litellm", "services/embedded/system.py", "import litellm"),
    ("door-crypto", "services/executor/rules.py", "from cryptography.hazmat.primitives import hashes"),
    ("door-crypto", "shared/runtime/database.py", "from joserfc import jws"),
    ("door-cel", "shared/runtime/database.py", "from cel_expr_python import cel"),
    ("no-cycles", "services/policy/rules/limits.py", "from placet.policy.rules import verdicts"),
    ("no-cycles", "services/approval/tables.py", "import placet.approval.store"),
    ("no-cycles", "services/gateway/conversations/items.py", "import placet.gateway.conversations.log"),
    ("door-broker", "services/approval/handlers.py", "from faststream.rabbit import RabbitBroker"),
    ("door-database", "services/approval/handlers.py", "from sqlalchemy import text"),
    ("door-database", "services/embedded/system.py", "import sqlmodel"),
    ("door-login", "services/gateway/identity/auth.py", "import authlib"),
    ("door-mail", "services/approval/handlers.py", "import aiosmtplib"),
    ("door-web", "services/approval/handlers.py", "import fastapi"),
    ("door-places", "services/gateway/app.py", "import apprise"),
    ("door-languages", "services/notifier/drawing.py", "import babel"),
    ("door-calendars", "services/gateway/app.py", "import icalendar"),
    ("door-slack", "services/gateway/app.py", "import slack_sdk"),
    ("door-slack", "services/notifier/drawing.py", "import aiohttp"),
    ("door-person", "services/gateway/app.py", "import typer"),
]


def contracts() -> set[str]:
    """Read the names of the project's contracts."""
    configuration = tomllib.loads(CONFIGURATION.read_text())
    return {contract["id"] for contract in configuration["tool"]["importlinter"]["contracts"]}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code under the project's contracts."""
    folder = tmp_path_factory.mktemp("house")
    (folder / "pyproject.toml").symlink_to(CONFIGURATION)
    shutil.copytree(ROOT / "placet", folder / "placet", symlinks=True)
    for name in ("services", "shared", "deploy"):
        for path in (ROOT / name).rglob("*.py"):
            if "node_modules" not in path.parts:
                copy = folder / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
    return folder


@pytest.fixture(scope="module")
def lint() -> Iterator[Lint]:
    """Return what checks a house; exit code 0 means that the contracts are kept."""
    with linting() as lint:
        yield lint


def test_the_house_keeps_every_contract(house: Path, lint: Lint) -> None:
    """What is imported today breaks nothing."""
    code, printed = lint(house)
    assert (0, True) == (code, f"{len(contracts())} kept, 0 broken" in printed), printed


@pytest.mark.parametrize(("contract", "file", "line"), VIOLATIONS)
def test_one_wrong_import_breaks_the_contract(house: Path, lint: Lint, contract: str, file: str, line: str) -> None:
    """A single import in the wrong place is found by the contract made for it."""
    path = house / file
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    try:
        code, printed = lint(house, contract)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)
    assert (True, True) == (bool(code), "0 kept, 1 broken" in printed), printed


def test_each_contract_is_tried() -> None:
    """No contract stands in pyproject without a violation here that it catches."""
    assert contracts() == {contract for contract, _, _ in VIOLATIONS}
