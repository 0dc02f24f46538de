"""People of the storm: they write, and write again until they are heard, and decide whatever waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx
import psycopg

from placet.contracts.ids import new_id
from tests.chaos.model import DENIED
from tests.chaos.report import still_open
from tests.support.http import http_client
from tests.support.system import until

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
    #: Those whose turns have not ended.
    open: dict[str, asyncio.Event] = field(default_factory=dict)
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def going_on(self, conversations: int) -> AsyncIterator[None]:
        """Have so many conversations go on while the block runs; what of all this fails ends the block with it."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._watch()), group.create_task(self._decide_all())]
            tasks += [group.create_task(self._talk()) for _ in range(conversations)]
            yield
            for task in tasks:
                task.cancel()

    async def end(self, seconds: float) -> None:
        """Say nothing new, and return when all has come to its end; AssertionError where it does not in time."""
        self._over.set()

        async def quiet() -> bool:
            return not self.open and not await asyncio.to_thread(still_open, self.database_url)

        await until(quiet, "everything has come to its end", seconds)

    async def _talk(self) -> None:
        """Have one conversation after the other until all is over; the last turn is waited for."""
        async with http_client(self.url, timeout=10) as client:
            while not self._over.is_set():
                opened = await self._insist(client, "/v1/conversations", {})
                for _ in range(MESSAGES_PER_CONVERSATION):
                    if opened is None or self._over.is_set():
                        return
                    # Others have talked here before: the watch must not take their turns for the end of this one.
                    message = new_id()
                    ended = self.open[message] = asyncio.Event()
                    body = {"text": WISH, "message_id": message}
                    if await self._insist(client, f"/v1/conversations/{opened['id']}/messages", body) is None:
                        self.open.pop(message, None)
                        return
                    self.accepted.append(message)
                    await ended.wait()

    async def _watch(self) -> None:
        """Look whose turns have ended, past every fault between the services and their database."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                async with await psycopg.AsyncConnection.connect(self.database_url) as connection:
                    found = await (await connection.execute(_HEARD, [list(self.open)])).fetchall()
            except psycopg.Error:
                continue
            for (message,) in found:
                self.open.pop(message).set()

    async def _decide_all(self) -> None:
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

    async def _insist(self, client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
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
            if self._over.is_set():
                return None
            await asyncio.sleep(PAUSE_SECONDS)
