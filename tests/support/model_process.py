"""The scripted model server as a process of its own, for fixtures that outlive a test's event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.http import http_client
from tests.support.model_script import Script, scripted_model
from tests.support.orphans import end_with_parent
from tests.support.ports import free_port
from tests.support.system import ROOT, until


@dataclass
class ModelProcess:
    """A model that plays a script, and that counts what it was asked: each question is paid for."""

    port: int = field(default_factory=free_port)

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a Placet that asks it."""
        return scripted_model(self.port)

    async def asked(self, words: str) -> list[dict[str, Any]]:
        """Return the questions so far whose user said these words, answered or not."""
        async with http_client() as client:
            log = (await client.get(f"http://127.0.0.1:{self.port}/_log")).json()
        bodies: list[dict[str, Any]] = [each["body"] for each in log["requests"]]
        return [body for body in bodies if any(words in str(each["content"]) for each in _said(body))]

    async def open(self, gate: str) -> None:
        """Let the answers go that wait at a gate of the script, and all that will come there."""
        async with http_client() as client:
            (await client.post(f"http://127.0.0.1:{self.port}/_gates/{gate}/open")).raise_for_status()

    async def is_there(self) -> bool:
        """Tell whether it answers."""
        try:
            await self.asked("")
        except httpx.HTTPError:
            return False
        return True


def _said(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in body["messages"] if each["role"] == "user"]


@contextmanager
def a_model(script: Script, folder: Path) -> Iterator[ModelProcess]:
    """Run a model that plays `script`, whose file is put into `folder`."""
    path, made = folder / "script.json", ModelProcess()
    path.write_text(script.model_dump_json())
    command = [sys.executable, "-m", "tests.support.model_server", "--port", str(made.port), "--script", str(path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(command, cwd=ROOT, env=environment, preexec_fn=end_with_parent)  # noqa: PLW1509 - it only asks the kernel for a signal
    try:
        asyncio.run(until(made.is_there, "the model answers"))
        yield made
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
