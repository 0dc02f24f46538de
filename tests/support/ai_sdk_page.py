"""A page of the AI SDK, as strict as the SDK: what reads its chunks, and what validates its messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Chunk = dict[str, Any]

_CHUNKS = {
    "6": {
        *("start", "start-step", "finish-step", "finish", "error", "text-start", "text-delta", "text-end"),
        *("tool-input-available", "tool-approval-request", "tool-output-available", "tool-output-error"),
        "tool-output-denied",
    }
}
_CHUNKS["7"] = _CHUNKS["6"] | {"tool-approval-response"}
_OUTPUTS = {"output-available", "output-error"}


class Page:
    """One message of a page, gone on with chunk by chunk; a chunk that the SDK would not take is an AssertionError."""

    def __init__(self, version: str, message: dict[str, Any] | None = None) -> None:
        self.version = version
        self.message_id = message["id"] if message else ""
        self.parts: list[dict[str, Any]] = [dict(part) for part in message["parts"]] if message else []
        self.ended = False
        self._open: dict[str, dict[str, Any]] = {}
        self._in_step = False
        #: What is gone on with may belong to a step that was told before.
        self._goes_on = bool(message)

    def read(self, chunks: Iterable[Chunk]) -> Page:
        """Take chunks."""
        for chunk in chunks:
            self._read(chunk)
        return self

    @property
    def calls(self) -> dict[str, dict[str, Any]]:
        """The tool parts by call."""
        return {part["toolCallId"]: part for part in self.parts if part["type"] == "dynamic-tool"}

    @property
    def shown(self) -> list[Any]:
        """What a person sees: steps, texts and calls, in their order."""
        call = ("type", "toolCallId", "state", "input", "output", "errorText")
        names = {"text": ("type", "text"), "step-start": ("type",), "dynamic-tool": call}
        wanted = [part for part in self.parts if part["type"] in names]
        return [{name: part[name] for name in names[part["type"]] if name in part} for part in wanted]

    def message(self) -> dict[str, Any]:
        """Return the message as the page posts it."""
        return {"id": self.message_id, "role": "assistant", "parts": self.parts}

    def validate(self, *, decided_elsewhere: bool = False) -> None:
        """Raise AssertionError where the SDK's own validator would refuse the message.

        `decided_elsewhere`: version 6 has no chunk that says how a request ended that the page had shown.
        """
        for part in self.calls.values():
            approval, state = part.get("approval"), part["state"]
            match state:
                case "approval-requested":
                    assert approval, part
                    assert not {"approved", "reason"} & set(approval), part
                case "approval-responded":
                    assert isinstance((approval or {}).get("approved"), bool), part
                case "output-denied":
                    assert approval, part
                    assert approval.get("approved") is False, part
                case _ if state in _OUTPUTS:
                    assert approval is None or approval.get("approved") is True or decided_elsewhere, part

    def _read(self, chunk: Chunk) -> None:
        kind = chunk["type"]
        assert kind.startswith("data-") or kind in _CHUNKS[self.version], chunk
        assert not self.ended or kind == "error" or chunk.get("transient"), chunk
        if kind == "start":
            self.message_id = chunk["messageId"]
            return
        assert self.message_id or chunk.get("transient"), chunk
        match kind:
            case "start-step":
                assert not self._in_step, chunk
                self._in_step = True
                self.parts.append({"type": "step-start"})
            case "finish-step":
                assert self._in_step, chunk
                assert not self._open, chunk
                self._in_step = False
            case "finish":
                assert not self._in_step, chunk
                self.ended = True
            case "text-start":
                assert chunk["id"] not in self._open, chunk
                assert self._in_step or self._goes_on, chunk
                self._open[chunk["id"]] = {"type": "text", "text": ""}
                self.parts.append(self._open[chunk["id"]])
            case "text-delta":
                self._open[chunk["id"]]["text"] += chunk["delta"]
            case "text-end":
                del self._open[chunk["id"]]
            case _ if kind.startswith("data-"):
                self._data(chunk)
            case _ if kind.startswith("tool-"):
                self._tool(kind, chunk)

    def _data(self, chunk: Chunk) -> None:
        if chunk.get("transient"):
            return
        for part in self.parts:
            if (part["type"], part.get("id")) == (chunk["type"], chunk["id"]):
                part["data"] = chunk["data"]
                return
        self.parts.append(dict(chunk))

    def _tool(self, kind: str, chunk: Chunk) -> None:
        calls = self.calls
        if kind == "tool-approval-response":
            part = next(each for each in calls.values() if each.get("approval", {}).get("id") == chunk["approvalId"])
            answer = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
            part |= {"state": "approval-responded", "approval": {**part["approval"], **answer}}
            return
        if kind == "tool-input-available":
            steps = [at for at, part in enumerate(self.parts) if part["type"] == "step-start"]
            here = {part.get("toolCallId") for part in self.parts[steps[-1] if steps else 0 :]}
            # The SDK looks in the newest step alone: elsewhere it would make a second part.
            assert chunk["toolCallId"] not in calls or chunk["toolCallId"] in here, chunk
            if chunk["toolCallId"] not in calls:
                assert self._in_step or self._goes_on, chunk
                self.parts.append({"type": "dynamic-tool", "toolCallId": chunk["toolCallId"]})
            self.calls[chunk["toolCallId"]].update(state="input-available", input=chunk["input"])
            return
        part = calls[chunk["toolCallId"]]
        assert part["state"] not in {*_OUTPUTS, "output-denied"}, chunk
        match kind:
            case "tool-approval-request":
                approval = {"id": chunk["approvalId"], "descriptor": chunk["approvalDescriptor"]}
                part |= {"state": "approval-requested", "approval": approval}
            case "tool-output-available":
                part |= {"state": "output-available", "output": chunk["output"]}
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": chunk["errorText"]}
            case "tool-output-denied":
                part |= {"state": "output-denied"}
