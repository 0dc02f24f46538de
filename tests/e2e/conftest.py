"""One distributed system for all end-to-end tests that do not kill it for good, with a scripted model behind it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import migrate
from tests.e2e.scenes import SCRIPT, agents, rulebook
from tests.support.http import http_client
from tests.support.model_script import scripted_model
from tests.support.orphans import end_with_parent
from tests.support.people import Caller
from tests.support.ports import free_port
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import REPLICAS, ROOT, System, running, until

#: One fault after another on a system of their own takes long: `make test-faults`, as every night should.
collect_ignore = [] if "FAULTS" in os.environ else ["test_faults.py"]


@dataclass
class Stage:
    """What stands around the system: the model, the payment provider, the ledger."""

    folder: Path
    model_port: int
    payments_port: int

    @property
    def environment(self) -> dict[str, str]:
        """Settings that make a system play on this stage."""
        return {
            **scripted_model(self.model_port),
            "SHOP_PAYMENT_URL": f"http://127.0.0.1:{self.payments_port}",
            "PLACET_EXECUTOR_POOLS": "*",
            "PLACET_EXECUTOR_LEASE_SECONDS": "3",
            "PLACET_EXECUTOR_SWEEP_SECONDS": "0.5",
            # A turn whose agent is killed twice ends within the patience of whoever waits for it.
            "PLACET_AGENT_LEASE_SECONDS": "8",
            "PLACET_TEST_LEDGER": str(self.folder / "ledger.jsonl"),
        }

    def ledger(self) -> list[dict[str, Any]]:
        """Return what the tools wrote, in order."""
        path = self.folder / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def begun(self, tool: str, conversation: str) -> list[dict[str, Any]]:
        """Return the begin lines of a tool in a conversation."""
        return [
            line
            for line in self.ledger()
            if (line["what"], line["tool"], line["conversation"]) == ("begin", tool, conversation)
        ]

    def model_log(self) -> dict[str, Any]:
        """Return what the model server saw: requests, and how many transcripts it refused."""
        log: dict[str, Any] = httpx.get(f"http://127.0.0.1:{self.model_port}/_log", timeout=60).json()
        return log


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The scripted model and the demo payment provider, as processes."""
    folder = tmp_path_factory.mktemp("stage")
    script = folder / "script.json"
    script.write_text(SCRIPT.model_dump_json())
    made = Stage(folder, free_port(), free_port())
    commands = [
        ["tests.support.model_server", "--port", str(made.model_port), "--script", str(script)],
        ["shop.provider.server", "--port", str(made.payments_port), "--data", str(folder / "pay")],
    ]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}"}
    running = [
        subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=environment, preexec_fn=end_with_parent)  # noqa: PLW1509 - it only asks the kernel for a signal
        for command in commands
    ]
    try:
        asyncio.run(until(lambda: _answers(made), "the stage is set"))
        yield made
    finally:
        for process in running:
            process.kill()
            process.wait()


async def _answers(stage: Stage) -> bool:
    urls = [f"http://127.0.0.1:{stage.model_port}/_log", f"http://127.0.0.1:{stage.payments_port}/healthz"]
    try:
        async with http_client() as client:
            return all([(await client.get(url)).is_success for url in urls])
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="session")
def system(
    stage: Stage, databases: Databases, virtual_hosts: VirtualHosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """Two agents, two policies, two approvals, three executors, and one of each other service."""
    folder = tmp_path_factory.mktemp("system")
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        # The clerk's model speaks Anthropic's protocol, which has its own address.
        named = agents(folder, f"http://127.0.0.1:{stage.model_port}")
        environment = stage.environment | {"PLACET_AGENTS": str(named), "CLERK_MODEL_KEY": "scripted-key"}
        made = System(folder, database_url, rabbitmq_url, rulebook(folder), environment)
        with running(made, REPLICAS):
            yield made


@pytest.fixture(autouse=True)
def _whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """Look after each test that used the system whether all invariants hold: who broke one is the test that fails."""
    yield
    if "system" in request.fixturenames:
        request.getfixturevalue("system").assert_invariants()


@pytest.fixture(scope="session")
def frontend(system: System) -> Caller:
    """A chat product's backend, with a key for chatting."""
    return Caller(system.url, system.key("chat", person="shop-frontend"))


@pytest.fixture(scope="session")
def desk(system: System) -> Caller:
    """A person who may take conversations over, and decide nothing."""
    return Caller(system.url, system.key("operate", person="ada"))


@pytest.fixture(scope="session")
def operator(system: System) -> Caller:
    """A person who may decide."""
    return Caller(system.url, system.key("decide", person="grace"))
