"""The example that scales executors by their queue, and the one for clusters."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from placet.contracts.topology import executor_queue
from placet.executor.settings import ExecutorSettings
from placet.executor.tables import PARKED
from tests.support.executor_processes import Processes

ROOT = Path(__file__).parents[3]
CALLS = 6


async def test_executors_come_while_calls_wait_and_leave_when_none_do(processes: Processes) -> None:
    """F3: six calls that wait ask for three executors; each call runs once; then all are drained."""
    place, ledger = processes.place, processes.place.folder / "ledger"
    calls = [place.call("write_ledger", ledger=str(ledger), hang=False) for _ in range(CALLS)]
    for call in calls:
        await processes.permit(call)
    command = ["examples/autoscale.py", "default", "--calls=2", "--max=3", "--every-seconds=0.2", "--quiet-seconds=1"]
    scaler = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        "--",
        *(sys.executable, "-m", "placet.executor"),
        cwd=ROOT,
        env=os.environ | processes.variables() | {"AUTOSCALE_RABBITMQ_URL": processes.url},
        stdout=PIPE,
    )
    assert scaler.stdout is not None
    said = [line.decode().strip() async for line in _until_none(scaler.stdout)]
    scaler.terminate()
    assert 0 == await scaler.wait()
    answers = {(await processes.answer()).call_id for _ in calls}
    assert ("default: 6 waiting, 0 -> 3 executors", "default: 0 waiting, 3 -> 0 executors") == (said[0], said[-1])
    assert {call.call_id for call in calls} == answers
    assert CALLS == len(ledger.read_text().splitlines())


async def _until_none(lines: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield what the example says, up to where no executor is left; tools write there too."""
    async for line in lines:
        if line.startswith(b"default: "):
            yield line
            if b"-> 0 executors" in line:
                return


def test_the_example_for_clusters_asks_the_pools_queue_and_lets_it_drain() -> None:
    """Queue, pool and grace period are those of the product."""
    deployment, _, scaled = yaml.safe_load_all((ROOT / "deploy/kubernetes/executor-autoscaling.yaml").read_text())
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    given = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    settings = ExecutorSettings(
        executor_pools=given["PLACET_EXECUTOR_POOLS"], drain_seconds=given["PLACET_DRAIN_SECONDS"]
    )
    queue, parked = (trigger["metadata"] for trigger in scaled["spec"]["triggers"])
    assert executor_queue("payments").name == queue["queueName"]
    assert f"{PARKED.fullname} WHERE pool = 'payments'" in parked["query"]
    assert (("payments",), True) == (
        settings.executor_pools,
        settings.drain_seconds < pod["terminationGracePeriodSeconds"],
    )
    assert deployment["metadata"]["name"] == scaled["spec"]["scaleTargetRef"]["name"]
