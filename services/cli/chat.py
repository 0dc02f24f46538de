"""`placet chat`: a conversation in the terminal, with cards that can be approved where they appear."""

from __future__ import annotations

import json as jsonlib
import threading
import time
from collections.abc import Iterator
from queue import Empty, Queue
from typing import Annotated, Any

import httpx
import typer
from httpx_sse import connect_sse

from placet.cli.client import address, call, client, problem_line, refuse_no_token
from placet.cli.items import Item, asks_for_staged, closed_approval, ends_turn, is_card, lines_of
from placet.cli.output import Json, fail, out, show_json
from placet.cli.workspace import asked_entries, show_entries
from placet.runtime.urls import redacted_url

#: How long to look for news while an approval was left for later, in seconds.
POSTPONED_SECONDS = 3.0
#: Pause before the stream is opened again after it broke.
RECONNECT_SECONDS = 1.0
#: How long a one-shot message waits for the end of its turn, in seconds.
TURN_SECONDS = 120.0


def chat(
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Send this one message, print the answer, stop.")
    ] = None,
    conversation: Annotated[str, typer.Option(help="Go on in this conversation; needs --token.")] = "",
    token: Annotated[str, typer.Option(help="The conversation's token.")] = "",
    language: Annotated[str, typer.Option(help="Language of cards, ISO 639-1.")] = "en",
    agent: Annotated[str, typer.Option(help="Who to talk to; without it the agent `default`.")] = "",
    *,
    json: Json = False,
) -> None:
    """Chat with the agent; cards of waiting calls can be approved or denied right here."""
    if message is not None and not message.strip():
        fail("--message is blank", code=2)
    if conversation and not token:
        fail("--conversation needs --token", code=2)
    if token:
        refuse_no_token(token)
    if conversation and agent:
        fail("a conversation keeps its agent: --agent is for a new one", code=2)
    if json and message is None:
        fail("--json needs --message: it prints what one message led to", code=2)
    if not conversation:
        named = {"agent": agent} if agent else {}
        made = call("POST", "/v1/conversations", json={"language": language, **named})
        conversation, token = made["id"], made["token"]
    session = _Session(conversation, token, json=json)
    if message is not None:
        session.one_shot(message)
    else:
        session.interactive()


class _Session:
    """One conversation on one terminal."""

    def __init__(self, conversation: str, token: str, *, json: bool) -> None:
        self.path = f"/v1/conversations/{conversation}"
        self.token = token
        self.json = json
        self.items: Queue[Item] = Queue()
        #: Approvals that the person at the terminal left for later.
        self.postponed: set[str] = set()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        last = ""
        while True:
            try:
                for item in self._events(last):
                    last = str(item.get("id") or last)
                    self.items.put(item)
            except httpx.HTTPError:
                time.sleep(RECONNECT_SECONDS)

    def _events(self, last: str) -> Iterator[Item]:
        headers = {"last-event-id": last} if last else {}
        with (
            client(self.token) as http,
            connect_sse(
                http, "GET", f"{self.path}/events", headers=headers, timeout=httpx.Timeout(15, read=60)
            ) as source,
        ):
            for event in source.iter_sse():
                if event.data:
                    yield {"id": event.id, "type": event.event, "data": jsonlib.loads(event.data)}

    def one_shot(self, text: str) -> None:
        """Send one message and show what follows, until the turn ends or waits for people."""
        self._say(text)
        shown: list[Item] = []
        while True:
            try:
                item = self.items.get(timeout=TURN_SECONDS)
            except Empty:
                fail("the turn did not end in time")
            shown.append(item)
            if not self.json:
                self._show(item)
            if ends_turn(item) or is_card(item):
                break
        kept = [item for item in shown if item["type"] != "delta"]
        if self.json:
            show_json({"conversation": self.path.rsplit("/", 1)[1], "token": self.token, "items": kept})
        elif is_card(shown[-1]):
            out.print(f"waits: placet approvals approve {shown[-1]['data']['approval_id']}")
            out.print(f"go on: placet chat --conversation {self.path.rsplit('/', 1)[1]} --token {self.token}")

    def interactive(self) -> None:
        """Read lines, send them, show what comes; `/quit` ends."""
        out.print(f"{redacted_url(address())} {self.path} - type a message, /quit to end", style="dim")
        while True:
            try:
                text = typer.prompt("you", prompt_suffix="> ").strip()
            except (EOFError, typer.Abort):
                return
            if text == "/quit":
                return
            if text:
                self._say(text)
                self._until_settled()

    def _until_settled(self) -> None:
        while True:
            try:
                item = self.items.get(timeout=POSTPONED_SECONDS if self.postponed else TURN_SECONDS)
            except Empty:
                out.print("an approval still waits; type on" if self.postponed else "still working", style="dim")
                return
            self._show(item)
            if (over := closed_approval(item)) is not None:
                self.postponed.discard(over)
            if ends_turn(item) or (is_card(item) and not self._ask(item["data"])):
                return

    def _say(self, text: str) -> None:
        call("POST", f"{self.path}/messages", token=self.token, json={"text": text})

    def _ask(self, card: dict[str, Any]) -> bool:
        """Ask the person at the terminal; False leaves the card waiting."""
        answer = ""
        while answer not in {"y", "n", "l"}:
            answer = typer.prompt("approve? [y]es, [n]o, [l]ater", default="l").strip().lower()[:1]
        if answer == "l":
            self.postponed.add(str(card["approval_id"]))
            return False
        verb = "approve" if answer == "y" else "deny"
        body = {"decision": verb, "digest": card["digest"], "revision": card["revision"]}
        with client(self.token) as http:
            response = http.post(f"/v1/approvals/{card['approval_id']}/decisions", json=body)
        if not response.is_success:
            out.print(problem_line(response), style="red")
        return True

    def _show(self, item: Item) -> None:
        """Print an item; of a card that asks for what is staged, its entries too."""
        for text, style in lines_of(item):
            out.print(text, style=style or None)
        if asks_for_staged(item):
            self._show_staged(item["data"])

    def _show_staged(self, card: dict[str, Any]) -> None:
        """Print the entries of a commit; where they are another conversation's, such as a job's, how to see them."""
        with client(self.token) as http:
            answer = http.get(f"{self.path}/workspace")
        entries = asked_entries(answer.json(), card["arguments"]) if answer.is_success else None
        if entries is None:
            out.print(f"    entry by entry: placet approvals show {card['approval_id']}")
            return
        show_entries(entries)
        out.print(f"    diffs: placet workspace diff {self.path.rsplit('/', 1)[1]}")
        out.print(f"    leave some out: placet approvals approve {card['approval_id']} --leave-out ENTRY")
