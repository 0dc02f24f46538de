"""Clients generated from the API's description: they compile without a warning, read a feed, and decide."""

from __future__ import annotations

import asyncio
import compileall
import importlib
import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType
from pydantic import BaseModel, TypeAdapter

from placet.gateway.conversations.item_models import FeedItem
from placet.gateway.dialects.ai_sdk_history import ChatOut, ChatStopOut
from placet.gateway.dialects.openai_schemas import CompletionOut, ResponseOut
from tests.support.node_client import CLIENTS, find_node
from tests.support.people import Caller, Visitor, a_visitor, is_card, is_turn_end
from tests.support.system import System


@pytest.fixture(scope="session")
def description(system: System, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenAPI document of a running gateway."""
    path = tmp_path_factory.mktemp("description") / "openapi.json"
    path.write_text(httpx.get(f"{system.url}/openapi.json", timeout=60).raise_for_status().text)
    return path


@pytest.fixture(scope="session")
def generated(description: Path) -> Iterator[Any]:
    """A client generated with openapi-python-client, imported."""
    folder = description.parent / "generated_placet"
    sources = ConfigFile(post_hooks=[])
    found = generate(config=Config.from_sources(sources, MetaType.NONE, description, "utf-8", False, folder))  # noqa: FBT003 - its own interface
    assert [] == found
    with warnings.catch_warnings(action="error"):
        assert compileall.compile_dir(folder, quiet=1, force=True)
        sys.path.insert(0, str(folder.parent))
        try:
            yield importlib.import_module("generated_placet")
        finally:
            sys.path.remove(str(folder.parent))


async def waiting(frontend: Caller) -> Visitor:
    """Return a visitor of a conversation in which a call waits."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    await visitor.see(is_card)
    return visitor


async def test_a_python_client_reads_a_feed_and_decides(generated: Any, frontend: Caller, operator: Caller) -> None:
    """Items come as what they are, by their type, before and after the decision, which runs the call."""
    visitor = await waiting(frontend)
    feed = importlib.import_module("generated_placet.api.conversations.poll_v1_conversations_conversation_id_feed_get")
    decide = importlib.import_module("generated_placet.api.approvals.decide_v1_approvals_approval_id_decisions_post")
    models = importlib.import_module("generated_placet.models")
    async with generated.AuthenticatedClient(operator.url, frontend.token) as reader:
        told = await feed.asyncio(visitor.conversation, client=reader)
    (card,) = [item for item in told.items if isinstance(item, models.ApprovalItem)]
    body = models.DecisionIn(decision=models.DecisionInDecision.APPROVE, digest=card.data.digest)
    async with generated.AuthenticatedClient(operator.url, operator.token) as decider:
        done = await decide.asyncio_detailed(card.data.approval_id, client=decider, body=body)
    assert (True, "The shop is green.") == (done.status_code in {200, 202}, await visitor.see_answer())
    async with generated.AuthenticatedClient(operator.url, frontend.token) as reader:
        told = await feed.asyncio(visitor.conversation, client=reader)
    states = [item.data.state.value for item in told.items if isinstance(item, models.ApprovalItem)]
    assert ["pending", "approved"] == states


async def test_every_item_is_as_it_is_described(frontend: Caller, operator: Caller) -> None:
    """All items of conversations with held, denied, edited, failing and free calls, and of one that ended."""
    items: list[dict[str, Any]] = []
    for text in ("deploy the shop", "deploy two", "deploy at once", "everything at once", "show me red shoes"):
        visitor = await a_visitor(frontend)
        await visitor.say(text)
        while is_card(told := await visitor.see(lambda item: is_card(item) or is_turn_end(item))):
            await operator.decide(told["data"], "deny" if "at once" in text else "approve", "So be it.")
        await frontend.request("POST", f"{visitor.path}/end")
        await visitor.see(lambda item: item["type"] == "conversation")
        items += (await frontend.get(f"{visitor.path}/feed"))["items"]
    described = [TypeAdapter(FeedItem).validate_python(item) for item in items]
    assert {"message", "turn", "tool_call", "approval", "conversation"} <= {item.type for item in described}
    unknown = {
        (item["type"], name)
        for item, model in zip(items, described, strict=True)
        for name in item["data"].keys() - type(model.data).model_fields.keys()
    }
    assert set() == unknown


async def test_answers_of_the_dialects_are_as_they_are_described(frontend: Caller) -> None:
    """A response, a completion and a chat, each with a call that waits: no member is there that is not described."""
    asked: dict[str, Any] = {"model": "default", "input": "deploy the shop"}
    response = (await frontend.request("POST", "/v1/responses", json=asked)).json()
    asked = {"model": "default", "messages": [{"role": "user", "content": "deploy the shop"}]}
    completion = (await frontend.request("POST", "/v1/chat/completions", json=asked)).json()
    answers: list[tuple[type[BaseModel], dict[str, Any]]] = [
        (ResponseOut, response),
        (ResponseOut, await frontend.get(f"/v1/responses/{response['id']}")),
        (CompletionOut, completion),
        (ChatOut, await frontend.get(f"/api/chat/{response['conversation']['id']}")),
        (ChatStopOut, (await frontend.request("POST", f"/api/chat/{response['conversation']['id']}/stop")).json()),
    ]
    kept = [(model.model_validate(answer).model_dump(exclude_unset=True), answer) for model, answer in answers]
    assert [answer for _, answer in kept] == [told for told, _ in kept]
    assert [1, 1] == [len(each["placet"]["approvals"]) for each in (response, completion)]


async def test_a_typescript_client_reads_a_feed_and_decides(
    description: Path, frontend: Caller, system: System, tmp_path: Path
) -> None:
    """Types of openapi-typescript hold under `strict`, also with enums, and what is written with them works."""
    visitor = await waiting(frontend)
    token = system.key("chat", "decide", person="grace")
    shutil.copy(CLIENTS / "decide.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(CLIENTS / "node_modules")
    await node(tmp_path, "openapi-typescript/bin/cli.js", str(description), "-o", "api.d.ts")
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    await node(tmp_path, "typescript/bin/tsc", *options, "decide.ts")
    await node(tmp_path, "openapi-typescript/bin/cli.js", str(description), "--enum", "-o", "enums.ts")
    await node(tmp_path, "typescript/bin/tsc", *options, "enums.ts")
    said = await node(tmp_path, None, "decide.js", system.url, token, visitor.conversation)
    assert (1, "The shop is green.") == (len(json.loads(said)), await visitor.see_answer())


async def node(folder: Path, program: str | None, *arguments: str) -> str:
    """Run a program of the test clients' packages, or a script; return what it prints, without a word of warning."""
    command = [str(CLIENTS / "node_modules" / program)] if program else []
    process = await asyncio.create_subprocess_exec(
        find_node(), *command, *arguments, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    assert (0, b"") == (process.returncode, errors), out.decode()
    return out.decode()
