"""A stub of Slack: its Web API and Socket Mode over real HTTP, with the limits and the bad days that Slack has.

It keeps what an app posted, every version of it; checks tokens and blocks; and answers 429, `ok: false`, an error page
or nothing at all where a test wants it to. `slack_people.py` beside it clicks the buttons.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import WSMsgType, web

from tests.support.slack_rules import MESSAGE_TEXT_MAX, message_problems, text_length, view_problems

BOT_TOKEN = "xoxb-test-token"
APP_TOKEN = "xapp-test-token"
TEAM = "T0ACME"
#: How long a test waits for something in Slack, in seconds.
PATIENCE_SECONDS = 60.0


@dataclass
class Fault:
    """How one call goes wrong. `lost` does what was asked and drops the connection; `away` drops it before."""

    kind: Literal["ratelimited", "error", "lost", "away", "page", "slow"]
    error: str = ""
    retry_after: float = 1
    #: For `slow`: the answer waits for it.
    gate: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Message:
    """One message of the app, with every version it had: (text, blocks, metadata)."""

    channel: str
    ts: str
    thread_ts: str
    versions: list[dict[str, Any]]
    deleted: bool = False

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The blocks as they are now."""
        found: list[dict[str, Any]] = self.versions[-1]["blocks"]
        return found

    @property
    def words(self) -> str:
        """All text of the message as it is now."""
        return json.dumps(self.versions[-1], ensure_ascii=False)

    @property
    def buttons(self) -> dict[str, dict[str, Any]]:
        """The buttons as they are now, by action id."""
        rows = [block["elements"] for block in self.blocks if block["type"] == "actions"]
        return {each["action_id"]: each for row in rows for each in row}


@dataclass
class SlackServer:
    """Everything that happened in the stub."""

    url: str = ""
    #: Channel id -> name, of those that the app is in.
    channels: dict[str, str] = field(default_factory=lambda: {"C0OPS0000": "ops", "C0FINANCE": "finance"})
    tokens: dict[str, str] = field(default_factory=lambda: {BOT_TOKEN: TEAM})
    app_token: str = APP_TOKEN
    messages: list[Message] = field(default_factory=list)
    #: (channel, user, text) of messages that one person alone sees.
    whispers: list[tuple[str, str, str]] = field(default_factory=list)
    #: Bodies sent to response URLs.
    responses: list[dict[str, Any]] = field(default_factory=list)
    #: Modals by their id, as they are now.
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    #: Which part of the calls is answered 429, and the dice for it.
    limited_share: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - dice, no secret
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    #: Of sockets that nobody has asked for yet; a ticket is good for one try, whatever comes of it.
    tickets: set[str] = field(default_factory=set)
    #: Envelope id -> what the app answered.
    acks: dict[str, dict[str, Any]] = field(default_factory=dict)
    _used_triggers: set[str] = field(default_factory=set)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def number(self) -> int:
        """Return the next number, for ids and time stamps."""
        return next(self._numbers)

    def fail(self, method: str, *faults: Fault) -> None:
        """Let the next calls of a method go wrong, one after the other."""
        self.faults[method].extend(faults)

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Return what `condition` gives as soon as it is true; it is asked after every change."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            return await self._changed.wait_for(condition)

    async def changed(self) -> None:
        """Let everybody look again who waits."""
        async with self._changed:
            self._changed.notify_all()

    def cards(self, channel: str = "") -> list[Message]:
        """Return the messages that stand in no thread and are still there."""
        found = (each for each in self.messages if not each.thread_ts and not each.deleted)
        return [each for each in found if channel in {"", each.channel}]

    def thread_of(self, card: Message) -> list[Message]:
        """Return what stands in a card's thread."""
        return [each for each in self.messages if each.thread_ts == card.ts and each.channel == card.channel]

    async def api(self, request: web.Request) -> web.StreamResponse:
        """Answer one call of the Web API."""
        method = request.match_info["method"]
        arguments = await _arguments(request)
        fault = self._fault(method)
        if fault is not None and fault.kind != "lost":
            return await self._go_wrong(request, fault)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        answer = self._answer(method, token, arguments)
        self.calls.append((method, arguments))
        await self.changed()
        if fault is not None:
            return _drop(request)
        return web.json_response(answer)

    def _fault(self, method: str) -> Fault | None:
        if self.faults[method]:
            return self.faults[method].popleft()
        if self.limited_share and self.dice.random() < self.limited_share:
            return Fault("ratelimited", retry_after=0.05)
        return None

    async def _go_wrong(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        await self.changed()
        match fault.kind:
            case "ratelimited":
                headers = {"retry-after": f"{fault.retry_after}"}
                return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)
            case "error":
                return web.json_response({"ok": False, "error": fault.error})
            case "page":
                return web.Response(status=503, text="<html>busy</html>", content_type="text/html")
            case "slow":
                await fault.gate.wait()
        return _drop(request)

    def _answer(self, method: str, token: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if method == "apps.connections.open":
            return self._open_socket() if token == self.app_token else _no("invalid_auth")
        if token not in self.tokens:
            return _no("invalid_auth" if token else "not_authed")
        known: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "auth.test": lambda _: {"ok": True, "team_id": self.tokens[token], "user_id": "U0BOT", "bot_id": "B0BOT"},
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.postEphemeral": self._whisper,
            "views.open": self._open_view,
            "views.update": self._update_view,
            "conversations.list": self._list,
            "conversations.open": lambda given: {"ok": True, "channel": {"id": f"D0{given['users'][2:]}00000"}},
            "conversations.history": self._history,
            "conversations.replies": self._history,
        }
        return known[method](arguments) if method in known else _no("unknown_method")

    def _open_socket(self) -> dict[str, Any]:
        ticket = f"ticket-{self.number()}"
        self.tickets.add(ticket)
        return {"ok": True, "url": f"{self.url.replace('http', 'ws', 1)}/socket?ticket={ticket}"}

    def _post(self, given: dict[str, Any]) -> dict[str, Any]:
        channel = given["channel"]
        if channel not in self.channels and not channel.startswith("D"):
            return _no("channel_not_found")
        if refusal := _refusal(given):
            return refusal
        ts = f"1780000000.{self.number():06d}"
        self.messages.append(Message(channel, ts, given.get("thread_ts", ""), [_version(given)]))
        return {"ok": True, "channel": channel, "ts": ts}

    def _update(self, given: dict[str, Any]) -> dict[str, Any]:
        found = [each for each in self.messages if (each.channel, each.ts) == (given["channel"], given["ts"])]
        if not found or found[0].deleted:
            return _no("message_not_found")
        if refusal := _refusal(given):
            return refusal
        found[0].versions.append(_version(given))
        return {"ok": True, "channel": given["channel"], "ts": given["ts"]}

    def _whisper(self, given: dict[str, Any]) -> dict[str, Any]:
        self.whispers.append((given["channel"], given["user"], given["text"]))
        return {"ok": True, "message_ts": "1"}

    def _open_view(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["trigger_id"] in self._used_triggers:
            return _no("exchanged_trigger_id")
        self._used_triggers.add(given["trigger_id"])
        return self._keep_view(f"V{self.number()}", given["view"])

    def _update_view(self, given: dict[str, Any]) -> dict[str, Any]:
        return self._keep_view(given["view_id"], given["view"])

    def _keep_view(self, view_id: str, view: Any) -> dict[str, Any]:
        made = json.loads(view) if isinstance(view, str) else view
        if problems := view_problems(made):
            return {**_no("invalid_arguments"), "response_metadata": {"messages": problems}}
        self.views[view_id] = {**made, "id": view_id}
        return {"ok": True, "view": self.views[view_id]}

    def _list(self, given: dict[str, Any]) -> dict[str, Any]:
        # One channel a page, so that clients must follow the cursor.
        start = int(given.get("cursor") or 0)
        page = [{"id": each, "name": name} for each, name in list(self.channels.items())[start : start + 1]]
        following = str(start + 1) if start + 1 < len(self.channels) else ""
        return {"ok": True, "channels": page, "response_metadata": {"next_cursor": following}}

    def _history(self, given: dict[str, Any]) -> dict[str, Any]:
        thread = given.get("ts", "")
        found = [each for each in self.messages if each.channel == given["channel"] and not each.deleted]
        shown = [each for each in found if each.thread_ts == thread][-int(given.get("limit", 100)) :]
        return {"ok": True, "messages": [{"ts": each.ts, **each.versions[-1]} for each in reversed(shown)]}

    async def respond(self, request: web.Request) -> web.Response:
        """Take what is sent to a response URL."""
        self.responses.append(await request.json())
        await self.changed()
        return web.Response(text="ok")

    async def socket(self, request: web.Request) -> web.StreamResponse:
        """Serve one Socket Mode connection."""
        ticket = request.query["ticket"]
        if ticket not in self.tickets:
            return web.Response(status=408)
        self.tickets.remove(ticket)
        if self.faults["socket"]:
            return await self._go_wrong(request, self.faults["socket"].popleft())
        made = web.WebSocketResponse(autoping=True)
        await made.prepare(request)
        await made.send_json({"type": "hello", "num_connections": len(self.sockets) + 1})
        self.sockets.append(made)
        await self.changed()
        async for frame in made:
            if frame.type == WSMsgType.TEXT and frame.data.startswith("{"):
                answer = json.loads(frame.data)
                self.acks[answer["envelope_id"]] = answer
                await self.changed()
        self.sockets.remove(made)
        await self.changed()
        return made


@asynccontextmanager
async def slack_server() -> AsyncIterator[SlackServer]:
    """Run a stub in this event loop; `SlackServer.url` is its address, `<url>/api/` its Web API's."""
    slack = SlackServer()
    app = web.Application()
    app.router.add_route("*", "/api/{method}", slack.api)
    app.router.add_post("/response/{number}", slack.respond)
    app.router.add_get("/socket", slack.socket)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    slack.url = f"http://{host}:{port}"
    try:
        yield slack
    finally:
        for faults in slack.faults.values():
            for fault in faults:
                fault.gate.set()
        await asyncio.gather(*(each.close() for each in list(slack.sockets)))
        await runner.cleanup()


async def _arguments(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        given: dict[str, Any] = await request.json()
        return given
    return {**request.query, **await request.post()}


def _drop(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def _version(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given.get(name) for name in ("text", "blocks", "metadata")}


def _refusal(given: Mapping[str, Any]) -> dict[str, Any] | None:
    blocks = given.get("blocks") or []
    if problems := message_problems(blocks):
        return {**_no("invalid_blocks"), "response_metadata": {"messages": problems}}
    return _no("msg_blocks_too_long") if text_length(blocks) > MESSAGE_TEXT_MAX else None


def _no(error: str) -> dict[str, Any]:
    return {"ok": False, "error": error}
