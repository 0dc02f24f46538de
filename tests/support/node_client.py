"""A program of `tests/clients`, run by Node.js: a real client library that is told what to do line by line."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.people import PATIENCE_SECONDS
from tests.support.system import ROOT

CLIENTS = ROOT / "tests" / "clients"
#: Longest line that a client may say, in bytes.
LINE_MAX = 1_000_000


def find_node() -> str:
    """Return Node.js: the environment's own, then the machine's; raise AssertionError where there is neither."""
    found = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    assert found, "no Node.js: run `make test`, which installs it"
    return found


@dataclass
class NodeClient:
    """One running client."""

    process: asyncio.subprocess.Process

    async def do(self, what: str, **options: Any) -> dict[str, Any]:
        """Have one command carried out and return what the client says then."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"do": what, **options}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await self.process.stdout.readline()
        assert line, f"the client ended at {what!r}"
        said: dict[str, Any] = json.loads(line)
        return said


@asynccontextmanager
async def node_client(program: str, *arguments: str) -> AsyncIterator[NodeClient]:
    """Run a client while the block runs."""
    process = await asyncio.create_subprocess_exec(
        find_node(),
        str(CLIENTS / program),
        *arguments,
        cwd=CLIENTS,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_MAX,
    )
    try:
        yield NodeClient(process)
    finally:
        process.kill()
        await process.wait()
