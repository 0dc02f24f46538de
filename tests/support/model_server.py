"""A scripted model server that speaks the OpenAI and the Anthropic HTTP API, streaming and not.

It plays a `Script` (see model_script.py), refuses invalid transcripts as strictly as the real providers do,
and writes down every request, so that a test can assert what the provider saw.

In a test:

    async with serving(Script(rules=(...,))) as server:
        ... api_base=server.openai_base or server.anthropic_base ...
        assert server.log.rejected == 0

As a process: `python -m tests.support.model_server --port 8181 --script FILE [--log FILE]`, with
GET /_log -> {"requests": [...], "rejected": n} and POST /_gates/NAME/open beside the two APIs.
"""

import argparse
import asyncio
import json
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import uvicorn

from tests.support import anthropic_wire, openai_wire
from tests.support.anthropic_rules import anthropic_fault
from tests.support.model_script import Answer, Prompter, Script
from tests.support.openai_rules import openai_fault

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Provider:
    """One of the two APIs: how to check, read and write it."""

    name: str
    wire: ModuleType
    fault: Callable[[Any], str | None]
    #: Headers a request must have; the provider answers 401 without.
    needs: tuple[str, ...]


PROVIDERS = {
    "/v1/chat/completions": Provider("openai", openai_wire, openai_fault, ("authorization",)),
    "/v1/messages": Provider("anthropic", anthropic_wire, anthropic_fault, ("x-api-key", "anthropic-version")),
}


@dataclass(frozen=True)
class Request:
    """One request as the provider saw it."""

    provider: str
    #: The JSON body, or None when it was no JSON.
    body: Any
    #: Why it was answered with 400, or None.
    rejected: str | None


@dataclass
class Log:
    """Every request so far, in order of arrival."""

    requests: list[Request] = field(default_factory=list)
    #: JSON lines go here as well.
    path: Path | None = None

    @property
    def rejected(self) -> int:
        """How many requests were invalid."""
        return sum(request.rejected is not None for request in self.requests)

    def add(self, request: Request) -> None:
        """Write one request down."""
        self.requests.append(request)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(request)) + "\n")


@dataclass
class Gate:
    """Holds an answer back: the server says `reached` and waits for `opened`."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)


class ModelServer:
    """The ASGI application and what a test may look at and touch."""

    def __init__(self, script: Script, log: Log | None = None) -> None:
        self.log = log or Log()
        self.gates: defaultdict[str, Gate] = defaultdict(Gate)
        self.url = ""
        #: The keys that it takes; empty: any.
        self.keys: set[str] = set()
        self._prompter = Prompter(script)

    @property
    def openai_base(self) -> str:
        """The api_base for OpenAI clients."""
        return f"{self.url}/v1"

    @property
    def anthropic_base(self) -> str:
        """The api_base for Anthropic clients; they append /v1/messages."""
        return self.url

    @property
    def requests(self) -> list[Request]:
        """Every request so far."""
        return self.log.requests

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        path = scope["path"]
        if path == "/_log":
            await _json(send, 200, {**asdict(self.log), "path": None, "rejected": self.log.rejected})
        elif path.startswith("/_gates/"):
            self.gates[path.split("/")[2]].opened.set()
            await _json(send, 200, {})
        elif path in PROVIDERS:
            await self._model(PROVIDERS[path], scope, await _body(receive), send)
        else:
            await _json(send, 404, {"error": {"message": f"no such path: {path}"}})

    async def _model(self, to: Provider, scope: MutableMapping[str, Any], raw: bytes, send: Send) -> None:
        body = _parsed(raw)
        fault = to.fault(body)
        self.log.add(Request(to.name, body, fault))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if set(to.needs) - headers.keys():
            await _json(send, 401, to.wire.error_body(401, "missing key"))
        elif self.keys and headers[to.needs[0]].removeprefix("Bearer ") not in self.keys:
            await _json(send, 401, to.wire.error_body(401, "wrong key"))
        elif fault:
            await _json(send, 400, to.wire.error_body(400, fault))
        else:
            await self._say(to.wire, body, self._prompter.answer(to.wire.read(body)), send)

    async def _say(self, wire: ModuleType, body: dict[str, Any], answer: Answer, send: Send) -> None:
        streaming = bool(body.get("stream")) and answer.status == 200
        if not streaming or not answer.gate_after:
            await self._wait(answer)
        if answer.status != 200:
            await _json(
                send, answer.status, wire.error_body(answer.status, answer.error, answer.code), answer.retry_after
            )
        elif streaming:
            await self._stream(wire, body, answer, send)
        else:
            await _json(send, 200, wire.whole(body, answer), cut=answer.cut_after is not None)

    async def _stream(self, wire: ModuleType, body: dict[str, Any], answer: Answer, send: Send) -> None:
        await _start(send, 200, "text/event-stream")
        for sent, event in enumerate(wire.events(body, answer)):
            if sent == answer.cut_after:
                if answer.cut_quietly:
                    break
                return  # an answer that is not completed makes the server drop the connection
            if sent == answer.error_after:
                await _more(send, wire.error_event().encode())
                break
            if sent and sent == answer.gate_after:
                await self._wait(answer)
            await _more(send, event.encode())
        await send({"type": "http.response.body", "body": b""})

    async def _wait(self, answer: Answer) -> None:
        if answer.gate is not None:
            gate = self.gates[answer.gate]
            gate.reached.set()
            await gate.opened.wait()


@asynccontextmanager
async def serving(script: Script, *, port: int = 0, log: Log | None = None) -> AsyncIterator[ModelServer]:
    """Run a server in this event loop; port 0 picks a free one."""
    app = ModelServer(script, log)
    listener = socket.create_server(("127.0.0.1", port))
    app.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = _Uvicorn(
        uvicorn.Config(app, log_level="critical", lifespan="off", ws="none", http="h11", timeout_graceful_shutdown=2)
    )
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield app
    finally:
        for gate in app.gates.values():
            gate.opened.set()
        server.stopping.set()
        await running
        listener.close()


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    async def main_loop(self) -> None:
        """Stop at once when told to, instead of looking every now and then."""
        await self.on_tick(0)
        await self.stopping.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the program that runs the server."""
        yield


async def _body(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


async def _json(
    send: Send, status: int, payload: Any, retry_after: str | float | None = None, *, cut: bool = False
) -> None:
    wish = f"{retry_after:g}" if isinstance(retry_after, float) else retry_after
    headers = [(b"retry-after", wish.encode())] if wish is not None else []
    body = json.dumps(payload).encode()
    await _start(send, status, "application/json", headers)
    await _more(send, body[: len(body) // 2] if cut else body)
    if not cut:
        await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, status: int, kind: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    every = [(b"content-type", kind.encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": every})


async def _more(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _main() -> None:
    options = argparse.ArgumentParser(description="Play a script as an OpenAI and Anthropic server.")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--script", type=Path, required=True)
    options.add_argument("--log", type=Path, help="append every request as a JSON line")
    given = options.parse_args()
    async with serving(Script.load(given.script), port=given.port, log=Log(path=given.log)) as server:
        print(f"ready {server.url}", flush=True)  # noqa: T201  whoever started the process waits for this line
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
