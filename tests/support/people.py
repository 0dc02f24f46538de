"""How people and programs talk to Placet in the end-to-end tests: over HTTP, like anybody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_sse import aconnect_sse

from tests.support.http import http_client

#: How long a person waits for something to show up, in seconds.
PATIENCE_SECONDS = 60.0


@dataclass
class Caller:
    """Somebody with a token."""

    url: str
    token: str

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Return the answer to one request, whatever it says."""
        headers = {"authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        async with http_client(self.url, timeout=30) as client:
            return await client.request(method, path, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> Any:
        """Return the JSON of a successful GET."""
        return (await self.request("GET", path, **options)).raise_for_status().json()

    async def post(self, path: str, body: Any = None) -> Any:
        """Return the JSON of a successful POST."""
        return (await self.request("POST", path, json=body)).raise_for_status().json()

    async def decide(self, card: dict[str, Any], verb: str, reason: str = "", **more: Any) -> httpx.Response:
        """Decide a card as it was shown; `more` is what the verb takes beside."""
        body = {"decision": verb, "digest": card["digest"], "reason": reason, **more}
        return await self.request("POST", f"/v1/approvals/{card['approval_id']}/decisions", json=body)


@dataclass
class Visitor(Caller):
    """An end user in one conversation."""

    conversation: str = ""
    items: list[dict[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The conversation's address."""
        return f"/v1/conversations/{self.conversation}"

    async def say(self, text: str, **more: Any) -> None:
        """Post a message."""
        await self.post(f"{self.path}/messages", {"text": text, **more})

    async def events(self, after: str = "") -> AsyncGenerator[dict[str, Any], None]:
        """Yield what the stream sends: {id, type, data}."""
        headers = {"authorization": f"Bearer {self.token}"} | ({"last-event-id": after} if after else {})
        async with (
            http_client(self.url, timeout=httpx.Timeout(30, read=60)) as client,
            aconnect_sse(client, "GET", f"{self.path}/events", headers=headers) as source,
        ):
            async for event in source.aiter_sse():
                if not event.data:  # only a word on when to come back
                    continue
                yield {"id": event.id, "type": event.event, "data": json.loads(event.data)}

    async def see(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next item that is `wanted`, looking on from where the last look ended."""
        last = next((item["id"] for item in reversed(self.items) if item["id"]), "")
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for item in self.events(last):
                self.items.append(item)
                if wanted(item):
                    return item
        raise AssertionError("the stream ended")

    async def see_answer(self) -> str:
        """Return the text of the turn that ends next."""
        start = len(self.items)
        await self.see(is_turn_end)
        texts = [item["data"]["text"] for item in self.items[start:] if is_answer(item)]
        return texts[-1] if texts else ""

    async def see_card(self) -> dict[str, Any]:
        """Return the next card that waits."""
        card: dict[str, Any] = (await self.see(is_card))["data"]
        return card


def is_turn_end(item: dict[str, Any]) -> bool:
    """Whether a turn has ended."""
    return bool(item["type"] == "turn" and item["data"]["state"] not in {"started", "continued", "paused"})


def is_answer(item: dict[str, Any]) -> bool:
    """Whether the agent said something."""
    return bool(item["type"] == "message" and item["data"]["role"] == "assistant" and item["data"]["text"])


def is_card(item: dict[str, Any]) -> bool:
    """Whether an approval waits."""
    return bool(item["type"] == "approval" and item["data"]["state"] == "pending")


def is_result(tool: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a call of `tool` has its result."""
    return lambda item: bool(
        item["type"] == "tool_call" and item["data"]["tool"] == tool and item["data"]["status"] in {"success", "error"}
    )


async def a_visitor(caller: Caller, **options: Any) -> Visitor:
    """Open a conversation and return its visitor."""
    made = await caller.post("/v1/conversations", options)
    return Visitor(caller.url, made["token"], conversation=made["id"])
