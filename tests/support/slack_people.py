"""People in the stub of Slack: they click buttons and submit modals, and Slack sends that on, signed or by socket."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from slack_sdk.signature import SignatureVerifier

from tests.support.http import http_client
from tests.support.slack_server import TEAM, Message, SlackServer

SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
#: How long Slack waits for an answer, in seconds.
ACK_SECONDS = 3.0


@dataclass(frozen=True)
class Reply:
    """What the app answered to an interaction."""

    status: int
    body: str

    @property
    def json(self) -> Any:
        """The body's value; an empty object where there is none."""
        return json.loads(self.body or "{}")


@dataclass
class Door:
    """Where Slack sends interactions: an address of the app, or its socket where that is empty."""

    slack: SlackServer
    url: str = ""
    secret: str = SIGNING_SECRET
    #: How long it waits for an answer; longer than Slack where a test is about something else.
    wait_seconds: float = ACK_SECONDS
    #: Every signed request that was sent, as it was: (body, headers).
    sent: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    async def deliver(self, payload: dict[str, Any]) -> Reply:
        """Send an interaction as Slack does, and return what the app answered in time."""
        if not self.url:
            return await self._by_socket(payload)
        body = urlencode({"payload": json.dumps(payload)})
        return await self.post(body, self.signed(body))

    def signed(self, body: str, *, age_seconds: float = 0) -> dict[str, str]:
        """Return the headers of a request with that body, signed so many seconds ago."""
        timestamp = str(int(time.time() - age_seconds))
        signature = SignatureVerifier(self.secret).generate_signature(timestamp=timestamp, body=body)
        return {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": timestamp,
            "x-slack-signature": str(signature),
        }

    async def post(self, body: str, headers: dict[str, str], *, url: str = "") -> Reply:
        """Send a request, to where interactions go where nothing else is said."""
        self.sent.append((body, headers))
        async with http_client(timeout=self.wait_seconds, trust_env=False) as client:
            answer = await client.post(url or self.url, content=body.encode(), headers=headers)
        return Reply(answer.status_code, answer.text)

    async def tell(self, event: dict[str, Any], **changes: Any) -> Reply:
        """Tell the app of an event, as Slack does; an app that says no is told again."""
        payload = {
            "type": "event_callback",
            "team_id": TEAM,
            "api_app_id": "A0PLACET",
            "event_id": f"Ev{self.slack.number()}",
            "event_time": int(time.time()),
            "event": event,
            **changes,
        }
        if not self.url:
            return await self._by_socket(payload, "events_api")
        body = json.dumps(payload)
        headers = self.signed(body) | {"content-type": "application/json"}
        return await self.post(body, headers, url=self.url.replace("interactions", "events"))

    async def replay(self) -> Reply:
        """Send the last request again, as somebody would who has overheard it."""
        return await self.post(*self.sent[-1])

    async def _by_socket(self, payload: dict[str, Any], kind: str = "interactive") -> Reply:
        await self.slack.until(lambda: self.slack.sockets)
        envelope_id = f"envelope-{self.slack.number()}"
        accepts = kind == "interactive"
        frame = {"type": kind, "envelope_id": envelope_id, "accepts_response_payload": accepts}
        await self.slack.sockets[0].send_json({**frame, "payload": payload})
        await self.slack.until(lambda: envelope_id in self.slack.acks)
        answer = self.slack.acks[envelope_id].get("payload")
        return Reply(200, json.dumps(answer) if answer else "")


@dataclass
class SlackPerson:
    """Somebody in Slack."""

    door: Door
    user: str
    team: str = TEAM
    #: The workspace of the app, where it is not theirs: they came through a shared channel.
    app_team: str = ""

    async def click(self, message: Message, action_id: str, **changes: Any) -> Reply:
        """Press a button of a message as it is now."""
        return await self.door.deliver(self.action(message, action_id, **changes))

    def action(self, message: Message, action_id: str, *, value: str = "") -> dict[str, Any]:
        """Return the interaction of a button; `value` takes the place of the button's own."""
        number = self.door.slack.number()
        pressed = {"type": "button", "action_id": action_id, "action_ts": f"1780000001.{number:06d}", "block_id": "b"}
        return {
            **self._frame("block_actions"),
            "container": {"type": "message", "message_ts": message.ts, "channel_id": message.channel},
            "channel": {"id": message.channel, "name": "ops"},
            "message": {"ts": message.ts, "blocks": message.blocks},
            "response_url": f"{self.door.slack.url}/response/{number}",
            "actions": [{**pressed, "value": value or message.buttons[action_id].get("value", "")}],
        }

    async def reply(self, message: Message, words: str, **changes: Any) -> Reply:
        """Write in the thread of a message; `changes` are other fields of the event."""
        return await self.door.tell(self.written(message, words, **changes))

    def written(self, message: Message, words: str, **changes: Any) -> dict[str, Any]:
        """Return the event of a reply in the thread of a message."""
        ts = f"1780000002.{self.door.slack.number():06d}"
        return {
            "type": "message",
            "user": self.user,
            "team": self.team,
            "channel": message.channel,
            "channel_type": "channel",
            "thread_ts": message.ts,
            "ts": ts,
            "event_ts": ts,
            "client_msg_id": f"client-{ts}",
            "text": words,
            **changes,
        }

    async def submit(self, view: dict[str, Any], values: dict[str, Any]) -> Reply:
        """Submit a modal; `values` are block id -> text, or -> option of a select."""
        return await self.door.deliver(self.submission(view, values))

    def submission(self, view: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """Return the interaction of a submitted modal."""
        state = {}
        for block in view["blocks"]:
            if block["type"] != "input":
                continue
            element, value = block["element"], values.get(block["block_id"], block["element"].get("initial_value"))
            given: dict[str, Any] = {"type": element["type"], "value": value}
            if element["type"] == "checkboxes":
                boxes = [each for each in element["options"] if each["value"] in (value or ())]
                given = {"type": element["type"], "selected_options": boxes}
            elif element["type"] == "static_select":
                chosen = {"value": value} if value is not None else element.get("initial_option")
                given = {"type": element["type"], "selected_option": chosen}
            state[block["block_id"]] = {element["action_id"]: given}
        return {**self._frame("view_submission"), "view": {**view, "state": {"values": state}}, "response_urls": []}

    def _frame(self, kind: str) -> dict[str, Any]:
        return {
            "type": kind,
            "team": {"id": self.app_team or self.team, "domain": "acme"},
            "user": {"id": self.user, "username": "somebody", "name": "somebody", "team_id": self.team},
            "api_app_id": "A0PLACET",
            "trigger_id": f"trigger-{self.door.slack.number()}",
            "is_enterprise_install": False,
        }
