"""A client of AG-UI, as strict as its verifier: what applies events to messages and to the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Event = dict[str, Any]


class Client:
    """A page with AG-UI's client; an event that breaks the protocol's order is an AssertionError."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: Any = None
        self.ended: Event | None = None
        #: The questions that the page has; what a run asks, it keeps until one finishes.
        self.asked: list[str] = []
        self._began = False
        self._open: set[tuple[str, str]] = set()

    def run(self) -> Client:
        """Begin another run with what the page has."""
        self._began, self.ended = False, None
        self._open.clear()
        return self

    def read(self, events: Iterable[Event]) -> Client:
        """Take events."""
        for event in events:
            self._verify(event)
            self._apply(event)
        return self

    @property
    def writing(self) -> bool:
        """Whether a text is being written."""
        return any(what == "TEXT_MESSAGE" for what, _ in self._open)

    def posted(self) -> list[dict[str, Any]]:
        """Return the messages that the page posts: all but activities."""
        return [each for each in self.messages if each["role"] != "activity"]

    def _verify(self, event: Event) -> None:
        kind = event["type"]
        assert self.ended is None or (self.ended["type"], kind) == ("RUN_FINISHED", "RUN_ERROR"), event
        assert self._began or kind in {"RUN_STARTED", "RUN_ERROR"}, event
        if kind == "RUN_STARTED":
            assert not self._began, event
            self._began = True
        names = {"TEXT_MESSAGE": "messageId", "TOOL_CALL": "toolCallId", "STEP": "stepName"}
        subject = next((name for name in names if kind.startswith(name)), "")
        what = (subject, event.get(names.get(subject, ""), ""))
        match kind.removeprefix(subject) if subject else kind:
            case "_START" | "_STARTED":
                assert what not in self._open, event
                self._open.add(what)
            case "_CONTENT" | "_ARGS":
                assert what in self._open, event
            case "_END" | "_FINISHED":
                self._open.remove(what)
            case "RUN_FINISHED":
                assert not self._open, event
                assert event["outcome"]["type"] == "success" or event["outcome"]["interrupts"], event
                self.ended = event
                self.asked = [each["id"] for each in event["outcome"].get("interrupts", ())]
            case "RUN_ERROR":
                self.ended = event

    def _apply(self, event: Event) -> None:
        match event["type"]:
            case "MESSAGES_SNAPSHOT":
                self.messages = [dict(each) for each in event["messages"]]
            case "STATE_SNAPSHOT":
                self.state = event["snapshot"]
            case "STATE_DELTA":
                self._patch(event["delta"])
            case kind if kind.startswith("TOOL_CALL"):
                self._apply_to_call(kind, event)
            case "TEXT_MESSAGE_START":
                name = {"name": event["name"]} if "name" in event else {}
                if not any(each["id"] == event["messageId"] for each in self.messages):
                    self.messages.append({"id": event["messageId"], "role": event["role"], "content": "", **name})
            case "TEXT_MESSAGE_CONTENT":
                self._message(event["messageId"])["content"] += event["delta"]
            case "ACTIVITY_SNAPSHOT":
                activity = {"role": "activity", "activityType": event["activityType"], "content": event["content"]}
                known = [at for at, each in enumerate(self.messages) if each["id"] == event["messageId"]]
                at = known[0] if known else len(self.messages)
                self.messages[at : at + 1] = [{"id": event["messageId"], **activity}]

    def _apply_to_call(self, kind: str, event: Event) -> None:
        match kind:
            case "TOOL_CALL_START":
                self._begin_call(event)
            case "TOOL_CALL_ARGS":
                self._call(event["toolCallId"])["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                members = ("role", "toolCallId", "content", "metadata")
                result = {"id": event["messageId"], **{name: event[name] for name in members}}
                (owner,) = [at for at, each in enumerate(self.messages) if self._has(each, event["toolCallId"])]
                while owner + 1 < len(self.messages) and self.messages[owner + 1]["role"] == "tool":
                    owner += 1
                self.messages.insert(owner + 1, result)

    def _begin_call(self, event: Event) -> None:
        owner = event.get("parentMessageId") or event["toolCallId"]
        if not [each for each in self.messages if each["id"] == owner]:
            self.messages.append({"id": owner, "role": "assistant"})
        function = {"name": event["toolCallName"], "arguments": ""}
        call = {"id": event["toolCallId"], "type": "function", "function": function}
        message = self._message(owner)
        message["toolCalls"] = [*message.get("toolCalls", ()), call]

    def _message(self, message_id: str) -> dict[str, Any]:
        (found,) = [each for each in self.messages if each["id"] == message_id]
        return found

    @staticmethod
    def _has(message: dict[str, Any], call_id: str) -> bool:
        return any(call["id"] == call_id for call in message.get("toolCalls", ()))

    def _call(self, call_id: str) -> dict[str, Any]:
        calls = (call for each in self.messages for call in each.get("toolCalls", ()))
        found: dict[str, Any] = next(call for call in calls if call["id"] == call_id)
        return found

    def _patch(self, delta: list[dict[str, Any]]) -> None:
        for change in delta:
            *path, last = change["path"].removeprefix("/").split("/")
            target = self.state
            for name in path:
                target = target[name]
            target[last] = change["value"]
