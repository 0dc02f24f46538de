"""The scripted model server as tests of other processes use it: started as a program, asked over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.model_script import Answer, Rule, Script
from tests.support.model_server import serving

SCRIPT = """
rules:
  - user: find
    first: [{status: 429, retry_after: 3}]
    answer: {calls: [{name: f, arguments: {a: 1}}]}
  - after_results_of: [f]
    answer: {text: done}
"""
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
HEADERS = {"authorization": "Bearer x", "x-api-key": "x", "anthropic-version": "2023-06-01"}


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Start the server as a program with a script and a log in a folder."""
    (folder / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    options = ["--script", str(folder / "script.yaml"), "--log", str(folder / "log.jsonl")]
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.model_server", *options, stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    try:
        ready = (await program.stdout.readline()).decode().split()
        async with httpx.AsyncClient(base_url=ready[1], headers=HEADERS) as client:
            yield client
    finally:
        program.terminate()
        await program.wait()


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    """Build a Chat Completions body."""
    return {"model": "m", "messages": list(messages), "tools": TOOLS}


async def test_program_plays_its_script_and_writes_its_log(tmp_path: Path) -> None:
    """A whole turn over HTTP: a fault, a call, its result, an answer; and the log knows all of it."""
    user = {"role": "user", "content": "find it"}
    async with started(tmp_path) as client:
        limited = await client.post("/v1/chat/completions", json=request(user))
        called = await client.post("/v1/chat/completions", json=request(user))
        message = called.json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
        done = await client.post("/v1/chat/completions", json=request(user, message, result))
        refused = await client.post("/v1/chat/completions", json=request(user, message, user))
        log = (await client.get("/_log")).json()

    assert [429, 200, 200, 400] == [answer.status_code for answer in (limited, called, done, refused)]
    assert ("3", "done") == (limited.headers["retry-after"], done.json()["choices"][0]["message"]["content"])
    assert "did not have response messages" in refused.json()["error"]["message"]
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert (1, log["requests"]) == (log["rejected"], [json.loads(line) for line in lines])


@pytest.mark.parametrize(("path", "header"), [("/v1/chat/completions", "authorization"), ("/v1/messages", "x-api-key")])
async def test_request_without_key_is_refused(path: str, header: str) -> None:
    """Both providers answer 401."""
    async with serving(Script()) as server, httpx.AsyncClient(base_url=server.url) as client:
        others = {name: value for name, value in HEADERS.items() if name != header}
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        answer = await client.post(path, json=body, headers=others)

    assert 401 == answer.status_code


async def test_gate_holds_an_answer_until_somebody_opens_it() -> None:
    """A test in another process can look at the system while the model thinks."""
    script = Script(rules=(Rule(answer=Answer(text="now", gate="door")),))
    async with serving(script) as server, httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        asking = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        await server.gates["door"].reached.wait()
        waiting = not asking.done()
        await client.post("/_gates/door/open")
        answer = await asking

    assert (True, "now") == (waiting, answer.json()["choices"][0]["message"]["content"])


async def test_unknown_path_is_not_found() -> None:
    """A wrong api_base shows at once."""
    async with serving(Script()) as server, httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.post("/chat/completions", json={})

    assert 404 == answer.status_code
