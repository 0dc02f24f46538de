"""People of the storm: they write, and write again until they are heard, and decide whatever waits."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx
import psycopg

from tests.chaos.model import DENIED
from tests.support.http import http_client

#: What one message makes the model propose: ten calls.
WISH = "4 gated, 1 denied, 1 forbidden, 2 ungated, 1 repeatable, 1 staged"
CALLS_PER_MESSAGE = 10
#: Messages of one conversation, whose transcript grows with each.
MESSAGES_PER_CONVERSATION = 5
PAUSE_SECONDS = 0.2
_HEARD = """
    SELECT m.message_id FROM agent.messages AS m JOIN agent.turns AS t USING (turn_id)
    WHERE m.message_id = ANY (%s) AND t.ended_at IS NOT NULL
"""


@dataclass
class Load:
    """Everybody who talks to the system from outside, and what they were promised."""

    url: str
    database_url: str
    #: Keys of a frontend and of a person who decides.
    frontend: str
    operator: str
    #: Messages that the gateway has accepted.
    accepted: list[str] = field(default_factory=list)
    _open: dict[str, asyncio.Event] = field(default_factory=dict)

    async def talk(self, number: int, over: asyncio.Event) -> None:
        """Have one conversation after the other until `over`; the last turn is waited for."""
        async with http_client(self.url, timeout=10) as client:
            said = 0
            while not over.is_set():
                opened = await self._insist(client, "/v1/conversations", {}, over)
                for _ in range(MESSAGES_PER_CONVERSATION):
                    if opened is None or over.is_set():
                        return
                    message, said = f"storm-{number}-{said}", said + 1
                    body = {"text": WISH, "message_id": message}
                    if await self._insist(client, f"/v1/conversations/{opened['id']}/messages", body, over) is None:
                        return
                    self.accepted.append(message)
                    ended = self._open[message] = asyncio.Event()
                    await ended.wait()

    async def watch(self) -> None:
        """Look whose turns have ended, past every fault between the services and their database."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                async with await psycopg.AsyncConnection.connect(self.database_url) as connection:
                    found = await (await connection.execute(_HEARD, [list(self._open)])).fetchall()
            except psycopg.Error:
                continue
            for (message,) in found:
                self._open.pop(message).set()

    async def decide(self) -> None:
        """Approve what waits, and deny what is called so."""
        async with http_client(self.url, timeout=10, headers={"authorization": f"Bearer {self.operator}"}) as client:
            while True:
                try:
                    answer = await client.get("/v1/approvals", params={"state": "pending", "limit": 100})
                    waiting = answer.json()["items"] if answer.is_success else []
                    await asyncio.gather(*(self._decide(client, each) for each in waiting))
                except (httpx.HTTPError, ValueError, LookupError):
                    # Whoever decides looks again.
                    pass
                await asyncio.sleep(PAUSE_SECONDS)

    async def _decide(self, client: httpx.AsyncClient, card: dict[str, Any]) -> None:
        verb = "deny" if DENIED in json.dumps(card) else "approve"
        body = {"decision": verb, "digest": card["digest"]}
        await client.post(f"/v1/approvals/{card['id']}/decisions", json=body)

    async def _insist(
        self, client: httpx.AsyncClient, path: str, body: dict[str, Any], over: asyncio.Event
    ) -> dict[str, Any] | None:
        """Post until it is accepted, the same each time; None where all is over before."""
        headers = {"authorization": f"Bearer {self.frontend}"}
        while True:
            try:
                answer = await client.post(path, json=body, headers=headers)
                if answer.status_code < HTTPStatus.BAD_REQUEST:
                    found: dict[str, Any] = answer.json()
                    return found
                if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise AssertionError(f"{path}: {answer.status_code} {answer.text}")
            except (httpx.HTTPError, ValueError):
                pass
            if over.is_set():
                return None
            await asyncio.sleep(PAUSE_SECONDS)
