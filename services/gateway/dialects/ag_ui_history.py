"""The messages that an AG-UI client has: put together from the very events that it gets, the way it does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Message = dict[str, Any]


class Transcript:
    """Messages in their order, each {id, role, …}."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._by_id: dict[str, Message] = {}
        #: Call id -> the call, and the message that has it.
        self._calls: dict[str, tuple[dict[str, Any], Message]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        match event["type"]:
            case "TEXT_MESSAGE_START":
                message = self._message(event["messageId"], event["role"])
                message.setdefault("content", "")
                message |= {"name": event["name"]} if "name" in event else {}
            case "TEXT_MESSAGE_CONTENT":
                self._by_id[event["messageId"]]["content"] += event["delta"]
            case "TOOL_CALL_START":
                self._begin_call(event)
            case "TOOL_CALL_ARGS":
                self._calls[event["toolCallId"]][0]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                self._answer(event)
            case "ACTIVITY_SNAPSHOT":
                activity = self._message(event["messageId"], "activity")
                activity |= {"activityType": event["activityType"], "content": event["content"]}

    def edit(self, call_id: str, arguments: str) -> bool:
        """Replace the arguments of a call; False where there is no such call."""
        if call_id not in self._calls:
            return False
        self._calls[call_id][0]["function"]["arguments"] = arguments
        return True

    def differs(self, posted: Sequence[Any]) -> bool:
        """Tell whether a client with the messages `posted` lacks something; activities are never posted."""
        asked = any(message["role"] == "activity" for message in self._messages)
        return asked or [_core(each) for each in self._messages] != [_core(each) for each in posted]

    def snapshot(self, activity_type: str) -> dict[str, Any]:
        """Return the event with all messages; activities of other types than ours stay as the client has them."""
        ours = {"@ag-ui/client": {"authoritativeActivityTypes": [activity_type]}}
        return {"type": "MESSAGES_SNAPSHOT", "messages": [_copy(each) for each in self._messages], "metadata": ours}

    def _message(self, message_id: str, role: str) -> Message:
        known = self._by_id.get(message_id)
        if known is None:
            known = self._by_id[message_id] = {"id": message_id, "role": role}
            self._messages.append(known)
        return known

    def _begin_call(self, event: Mapping[str, Any]) -> None:
        owner = self._message(event.get("parentMessageId") or event["toolCallId"], "assistant")
        function = {"name": event["toolCallName"], "arguments": ""}
        call = {"id": event["toolCallId"], "type": "function", "function": function}
        owner.setdefault("toolCalls", []).append(call)
        self._calls[event["toolCallId"]] = call, owner

    def _answer(self, event: Mapping[str, Any]) -> None:
        names = ("role", "toolCallId", "content", "metadata")
        message = {"id": event["messageId"], **{name: event[name] for name in names}}
        # Behind the message with the call, after results that it has already: providers want them there.
        at = next(n for n, each in enumerate(self._messages) if each is self._calls[event["toolCallId"]][1]) + 1
        while at < len(self._messages) and self._messages[at]["role"] == "tool":
            at += 1
        self._messages.insert(at, message)
        self._by_id[message["id"]] = message


def _core(message: Any) -> Any:
    """Return what counts of a message, whoever keeps it."""
    if not isinstance(message, dict):
        return None
    names = ("id", "role", "content", "toolCallId", "toolCalls")
    return {name: message[name] for name in names if message.get(name) not in (None, "", [])}


def _copy(message: Message) -> Message:
    calls = [{**call, "function": dict(call["function"])} for call in message.get("toolCalls", ())]
    return {**message, **({"toolCalls": calls} if calls else {})}
