"""What every conversation's log keeps to, whatever arrived when: the promises that frontends' folds rely on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENDS = {"finished", "failed", "stopped"}


class LogRules:
    """Reads a conversation's log item by item; `faults` has what is wrong with it."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.messages: set[str] = set()
        self.turn: str | None = None
        self.step = 0
        #: Whether the log says that the running turn waits for people alone.
        self.paused = False
        #: Calls that may still be told of, by ended turn.
        self.ended: dict[str, set[str]] = {}
        self.calls: dict[str, dict[str, Any]] = {}

    def should_rest(self) -> bool:
        """Tell whether the running turn has open calls and each of them waits for people, by what else the log says."""
        waiting = [call for call in self.calls.values() if call["turn_id"] == self.turn and call["open"]]
        return bool(waiting) and all(call["undecided"] for call in waiting)

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        """Read an item."""
        getattr(self, f"_{kind}", lambda _: None)(data)

    def _check(self, fault: str, *, unless: bool) -> None:
        if not unless:
            self.faults.append(fault)

    def _message(self, data: Mapping[str, Any]) -> None:
        self._check(f"message {data['message_id']} twice", unless=data["message_id"] not in self.messages)
        self.messages.add(data["message_id"])
        if data["role"] == "assistant":
            self._check("words of a turn that does not run", unless=data["turn_id"] == self.turn)
            self._check(f"step {data['step']} after {self.step}", unless=data["step"] > self.step)
            unanswered = [call for call in self.calls.values() if call["turn_id"] == self.turn and call["open"]]
            self._check("a step before the results of the last one", unless=not unanswered)
            self._check("words of a turn that rests", unless=not self.paused)
            self.step = data["step"]

    def _turn(self, data: Mapping[str, Any]) -> None:
        state = data["state"]
        if state == "started":
            self._check("a turn begins while one runs", unless=self.turn is None)
            # A person who asks for the decision about what is staged writes no message.
            heard = "message_id" not in data or data["message_id"] in self.messages
            self._check("a turn begins before its message", unless=heard)
            self.turn, self.step, self.paused = data["turn_id"], 0, False
            return
        self._check(f"{state}: another turn runs", unless=data["turn_id"] == self.turn)
        mine = {call_id: call for call_id, call in self.calls.items() if call["turn_id"] == data["turn_id"]}
        if state == "paused":
            self._check("paused twice", unless=not self.paused)
            waiting = {call_id for call_id, call in mine.items() if call["open"]}
            self._check("paused on other calls", unless=waiting == {each["call_id"] for each in data["waiting"]})
        self.paused = state == "paused"
        for call in mine.values():
            call["open"] = call["open"] and state == "paused"
        if state in ENDS:
            unanswered = {call_id for call_id, call in mine.items() if not call["answered"]}
            self._check("other calls are left open", unless=unanswered == set(data["open"]))
            self.ended[data["turn_id"]], self.turn = unanswered, None

    def _tool_call(self, data: Mapping[str, Any]) -> None:
        call_id, status = data["call_id"], data["status"]
        if status == "proposed":
            self._check("proposed twice", unless=call_id not in self.calls)
            self._check("proposed without its words", unless=(data["turn_id"], data["step"]) == (self.turn, self.step))
            fresh = {"open": True, "answered": False, "undecided": False, "revision": 0, "closed": False, "card": False}
            self.calls[call_id] = {"turn_id": data["turn_id"], **fresh}
            return
        if "outcome" in data:
            # The end of what was staged: a second word about a call that has its result, whenever it comes.
            self._check("an end of what was not staged", unless=self.calls[call_id]["answered"])
            return
        call = self._told(data)
        if status in {"success", "error"}:
            self._check("a second result", unless=not call["answered"])
            self._check("idle stands on other results", unless=("idle" in data) == (data["turn_id"] != self.turn))
            call |= {"answered": True, "open": False, "undecided": False}
            self._went_on(data)

    def _approval(self, data: Mapping[str, Any]) -> None:
        call = self._told(data, closing=data["state"] != "pending")
        newer = data["revision"] > call["revision"]
        self._check(
            "an older revision", unless=newer or (data["state"] != "pending" and data["revision"] == call["revision"])
        )
        self._check("news of a closed approval", unless=not call["closed"])
        call["revision"] = data["revision"]
        if data["state"] == "pending":
            self._check("a pending card behind a result", unless=not call["answered"])
            self._check("changed before its card", unless=call["card"] or "approvers" in data)
            call["undecided"] = call["undecided"] or "approvers" in data
            call["card"] = True
            return
        self._check("closed before its card", unless=call["card"] or call["answered"])
        call["closed"], call["undecided"] = True, False
        if not call["answered"]:
            self._went_on(data)

    def _progress(self, data: Mapping[str, Any]) -> None:
        call = self._told(data)
        self._check("progress behind a result", unless=not call["answered"])
        call["undecided"] = False
        self._went_on(data)

    def _went_on(self, data: Mapping[str, Any]) -> None:
        self.paused = self.paused and data["turn_id"] != self.turn

    def _told(self, data: Mapping[str, Any], *, closing: bool = False) -> dict[str, Any]:
        call = self.calls.get(data["call_id"])
        self._check("news of a call before it was proposed", unless=call is not None)
        left = self.ended.get(data["turn_id"], {data["call_id"]})
        self._check("news of a turn that is over", unless=closing or data["call_id"] in left)
        return call or {"answered": False, "undecided": False, "revision": 0, "closed": False, "card": False}
