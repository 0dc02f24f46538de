"""AG-UI: the messages that a client has, and the snapshot that gives it others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Event = dict[str, Any]
Message = dict[str, Any]

#: Type of the activity that follows an approval to its end.
APPROVAL = "placet.approval"
#: Where our part of the state and of metadata is.
OURS = "placet"


class Transcript:
    """The messages that a client has, put together from the very events that it gets, the way it does it."""

    def __init__(self) -> None:
        self._order: list[str] = []
        self._messages: dict[str, Message] = {}
        #: Call -> the message that has it.
        self._owners: dict[str, str] = {}

    def copy(self) -> Transcript:
        """Return another one with the same messages."""
        made = Transcript()
        made._order, made._messages, made._owners = list(self._order), dict(self._messages), dict(self._owners)
        return made

    def add(self, event: Event) -> None:
        """Take one event."""
        message_id = event.get("messageId", "")
        match event["type"]:
            case "TEXT_MESSAGE_START":
                name = {"name": event["name"]} if "name" in event else {}
                begun = self._messages.get(message_id, {}).get("content", "")
                self._put(message_id, {"role": event["role"], "content": begun, **name})
            case "TEXT_MESSAGE_CONTENT":
                self._put(message_id, {"content": self._messages[message_id]["content"] + event["delta"]})
            case "TOOL_CALL_START":
                owner = event.get("parentMessageId") or event["toolCallId"]
                self._owners[event["toolCallId"]] = owner
                function = {"name": event["toolCallName"], "arguments": ""}
                calls = self._messages.get(owner, {}).get("toolCalls", ())
                call = {"id": event["toolCallId"], "type": "function", "function": function}
                self._put(owner, {"role": "assistant", "toolCalls": [*calls, call]})
            case "TOOL_CALL_ARGS":
                self.edit(event["toolCallId"], event["delta"])
            case "TOOL_CALL_RESULT":
                known = {name: event[name] for name in ("role", "toolCallId", "content", "metadata")}
                # Behind the message with the call, after results that it has already: providers want them there.
                at = self._order.index(self._owners[event["toolCallId"]]) + 1
                while at < len(self._order) and self._messages[self._order[at]]["role"] == "tool":
                    at += 1
                self._put(message_id, known, at)
            case "ACTIVITY_SNAPSHOT":
                known = {"role": "activity", "activityType": event["activityType"], "content": event["content"]}
                self._put(message_id, known)

    def drop(self, message_id: str) -> None:
        """Forget a message that has no calls."""
        self._order.remove(message_id)
        del self._messages[message_id]

    def edit(self, call_id: str, arguments: str) -> bool:
        """Replace the arguments of a call; False where there is no such call."""
        owner = self._owners.get(call_id)
        if owner is None:
            return False
        calls = [
            {**call, "function": {**call["function"], "arguments": arguments}} if call["id"] == call_id else call
            for call in self._messages[owner]["toolCalls"]
        ]
        self._put(owner, {"toolCalls": calls})
        return True

    def differs(self, posted: Sequence[Any]) -> bool:
        """Tell whether a client with the messages `posted` lacks something; activities are never posted."""
        messages = self.messages()
        asked = any(message["role"] == "activity" for message in messages)
        return asked or [_core(each) for each in messages] != [_core(each) for each in posted]

    def messages(self) -> list[Message]:
        """Return the messages, each {id, role, …}."""
        return [self._messages[message_id] for message_id in self._order]

    def snapshot(self, *, older: bool) -> Event:
        """Return the event with all messages; activities of other types than ours stay as the client has them.

        `older`: there are messages before these, and it says so.
        """
        ours: dict[str, Any] = {"@ag-ui/client": {"authoritativeActivityTypes": [APPROVAL]}}
        ours |= {OURS: {"older": True}} if older else {}
        return {"type": "MESSAGES_SNAPSHOT", "messages": self.messages(), "metadata": ours}

    def _put(self, message_id: str, members: Message, at: int | None = None) -> None:
        if message_id not in self._messages:
            self._order.insert(len(self._order) if at is None else at, message_id)
        self._messages[message_id] = {"id": message_id, **self._messages.get(message_id, {}), **members}


def _core(message: Any) -> Any:
    """Return what counts of a message, whoever keeps it."""
    if not isinstance(message, dict):
        return None
    names = ("id", "role", "content", "toolCallId", "toolCalls")
    return {name: message[name] for name in names if message.get(name) not in (None, "", [])}
