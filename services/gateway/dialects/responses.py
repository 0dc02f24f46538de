"""Responses: a conversation's log as output items, streamed as the events that the SDK assembles, or whole. Pure.

A call that ran is an `mcp_call`, one that waits an `mcp_approval_request`, as with tools of a remote MCP server: what
OpenAI's clients have for calls that are approved by people and run elsewhere. An item is told when it is certain what
it is, so a call without a card is told with its result. While the model is asked, what else happens waits until its
words are stored, so that the items of a stream have the order of those that are retrieved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from placet.contracts.canonical import readable_text
from placet.gateway.conversations.items import SUCCESSES, Item
from placet.gateway.dialects import changes, openai
from placet.gateway.dialects.changes import Call, Change, Data
from placet.gateway.dialects.conversation_state import ConversationState, Entry

Event = dict[str, Any]
Status = Literal["in_progress", "completed", "failed"]


@dataclass
class ResponseState:
    """A response, as far as it was told."""

    goal: openai.Goal
    response_id: str
    model: str
    #: Seconds since the epoch.
    created: int
    previous_response_id: str | None = None
    #: Where approvals are decided, for a client that is told in words what waits; None for one that knows requests.
    inbox: str | None = None
    log: ConversationState = field(default_factory=ConversationState)
    #: Why the turn failed; empty where it did not.
    failure: str = ""
    #: Which limit ended it, {limit, reason}; empty where none did.
    limit: dict[str, str] = field(default_factory=dict)
    output: list[dict[str, Any]] = field(default_factory=list)
    #: The requests that were told: one for each version of a call that was shown.
    asked: frozenset[str] = frozenset()
    #: What happened while the model is asked.
    later: tuple[Change, ...] = ()
    #: Place of the message that is being written.
    text_at: int = 0
    #: Number of the next event.
    number: int = 0
    done: bool = False

    @property
    def status(self) -> Status:
        """How it stands."""
        return "in_progress" if not self.done else "failed" if self.failure else "completed"

    def copy(self) -> ResponseState:
        """Return another one that has told the same."""
        return replace(self, log=self.log.copy(), output=list(self.output))

    def read(self, entry: Entry) -> list[Event]:
        """Take an entry and return its events."""
        foreign = (changes.CallAnswered, changes.CardMoved, changes.OperatorSpoke) if self._is_asked else ()
        made = self.log.read(entry)
        if not self.goal.is_news(entry, self.log):
            return []
        if isinstance(entry, Item) and entry.type == "approval" and not self._asks(entry.data):
            made = [change for change in made if not isinstance(change, changes.CardMoved)]
        waits = tuple(each for each in made if isinstance(each, foreign))
        events = [event for change in made if change not in waits for event in self._events(change)]
        self.later += waits
        if not self._is_asked:
            later, self.later = self.later, ()
            events += [event for change in later for event in self._events(change)]
        return events

    def begin(self) -> Iterator[Event]:
        """Yield what begins the response."""
        for kind in ("created", "in_progress"):
            yield self._event(f"response.{kind}", response=self.response("in_progress"))

    def settle(self) -> list[Event]:
        """Return what is told last, where nothing follows: who answers, and what waits though it was answered."""
        if self.done or not self.goal.rests(self.log):
            return []
        self.done = True
        held = self.goal.held(self.log)
        asked = self.goal.asked_again
        again = [call for call in self.log.waiting if call.approval_id in asked or (self.log.unanswered and not held)]
        events = [event for call in again if not self.goal.has_voted(call) for event in self._ask(call)]
        if note := openai.voted_note(self.goal.language, again, self.goal.voted):
            events += self._say(f"voted.{self.goal.told}", note)
        alone = self.log.call_of(self.goal.asked_alone)
        if alone and self.log.asks(alone) and not self.goal.has_voted(alone):
            events += self._ask(alone, f"_{self.goal.newest}")
        if self.inbox is not None and not self.failure:
            events += self._say_waits(self.inbox)
        return events + (list(self._say(f"holder.{held.get('revision', 0)}", str(held["text"]))) if held else [])

    def end(self, usage: tuple[int, int] | None) -> Event:
        """Return what ends the response; `usage`: tokens that the model read and wrote, None where nobody knows."""
        return self._event(f"response.{self.status}", response=self.whole(usage))

    def cut(self) -> Event:
        """Return what tells that this is not the end, although nothing more comes."""
        message = "The stream ended early; retrieve the response."
        return self._event("error", code=openai.SERVER_ERROR, message=message, param=None)

    def whole(self, usage: tuple[int, int] | None) -> dict[str, Any]:
        """Return the response as it is retrieved: nothing is in it that the model gave up."""
        kept = [item for item in self.output if item.get("status") != "incomplete"]
        return self.response(self.status, usage) | {"output": kept}

    def response(self, status: Status, usage: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return the response as it stands."""
        error = {"type": openai.SERVER_ERROR, "code": openai.SERVER_ERROR, "message": self.failure, "param": None}
        waiting = [] if status == "in_progress" and not self.output else self.log.waiting
        cards, holder = openai.shown_cards(waiting, self.goal.voted), openai.shown_holder(self.goal.held(self.log))
        return {
            "id": self.response_id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": error if status == "failed" else None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": list(self.output),
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": _usage(*(usage or (0, 0))) if usage or status == "completed" else None,
            "conversation": {"id": self.goal.conversation_id},
            "previous_response_id": self.previous_response_id,
            "placet": {"approvals": cards, "holder": holder, **self.limit},
        }

    @property
    def _is_asked(self) -> bool:
        return bool(self.log.running and self.log.running.asked)

    def _asks(self, card: Data) -> bool:
        """Whether a card asks what can be answered: a vote or a longer deadline has no digest, and asks nothing new."""
        return "digest" in card and card["approval_id"] not in self.goal.over

    def _events(self, change: Change) -> Iterator[Event]:
        match change:
            case changes.Text(_, text_id, text, begins, ends, counts):
                if begins:
                    yield from self._begin_text(text_id)
                if text:
                    yield from self._write(text)
                if ends:
                    yield from self._end_text("completed" if counts else "incomplete")
            case changes.CardMoved(_, call) if call.card["state"] == "pending":
                # An edit is its maker's approval.
                yield from () if call.card.get("kind") and self.goal.has_voted(call) else self._ask(call)
            case changes.CallAnswered():
                yield from self._answer(change)
            case changes.OperatorSpoke(message_id, operator, text):
                yield from self._say(message_id, text, placet={"operator": operator})
            case changes.TurnEnded(_, end):
                yield from self._end_turn(end)

    def _end_turn(self, end: Data) -> Iterator[Event]:
        """Yield the final answer, or why there is none: the Agents SDK looks at the output alone."""
        self.failure, self.limit = openai.failure_of(end, self.goal.language), openai.limit_of(end, self.goal.language)
        if text := openai.final_text(end):
            yield from self._say(f"{end['turn_id']}.final", text)
        if self.failure and end.get("reason"):
            yield from self._say(f"{end['turn_id']}.failed", self.failure)

    # --- texts --------------------------------------------------------------------------------------------------

    def _say(self, text_id: str, text: str, **more: Any) -> Iterator[Event]:
        """Yield a message that is there whole; `more` are members of ours."""
        yield from self._begin_text(text_id, **more)
        yield from self._write(text)
        yield from self._end_text()

    def _say_waits(self, inbox: str) -> Iterator[Event]:
        """Yield the words about what waits, as Chat Completions have them: some clients pass requests over."""
        calls = [call for call in self.log.waiting if not self.goal.has_voted(call)]
        if note := openai.waits_note(self.goal.language, calls, inbox):
            yield from self._say(f"waits.{self.goal.told}", note)

    def _begin_text(self, text_id: str, **more: Any) -> Iterator[Event]:
        name = openai.item_id("msg", self.goal.conversation_id, text_id)
        item = {"id": name, "type": "message", "role": "assistant", "status": "in_progress", "content": [], **more}
        yield self._added(item)
        self.text_at = len(self.output) - 1
        self.output[-1] = {**item, "content": [_part("")]}
        yield self._event("response.content_part.added", **self._part_place(), part=_part(""))

    def _write(self, text: str) -> Iterator[Event]:
        item = self.output[self.text_at]
        self.output[self.text_at] = {**item, "content": [_part(item["content"][0]["text"] + text)]}
        yield self._event("response.output_text.delta", **self._part_place(), delta=text, logprobs=[])

    def _end_text(self, status: str = "completed") -> Iterator[Event]:
        item = self.output[self.text_at]
        (part,) = item["content"]
        yield self._event("response.output_text.done", **self._part_place(), text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **self._part_place(), part=part)
        self.output[self.text_at] = {**item, "status": status}
        yield self._done(self.text_at)

    # --- calls --------------------------------------------------------------------------------------------------

    def _ask(self, call: Call, again: str = "") -> Iterator[Event]:
        """Yield the request to approve a call, once for each version of it that was shown; `again` ends another id."""
        request = openai.request_id(call.card) + again
        if request not in self.asked:
            self.asked |= {request}
            arguments = readable_text(call.card.get("arguments"))
            item = {"id": request, "type": "mcp_approval_request", "name": call.tool, "arguments": arguments}
            yield self._added(item | {"server_label": openai.SERVER_LABEL})
            yield self._done()

    def _answer(self, answered: changes.CallAnswered) -> Iterator[Event]:
        call = answered.call
        arguments = "" if call.arguments is None else readable_text(call.arguments)
        item: dict[str, Any] = {
            "id": openai.item_id("mcp", self.goal.conversation_id, call.call_id),
            "type": "mcp_call",
            "name": call.tool,
            "server_label": openai.SERVER_LABEL,
            "approval_request_id": openai.request_id(call.card) if call.card.get("digest") else None,
            "arguments": "",
            "output": None,
            "error": None,
        }
        yield self._added(item | {"status": "in_progress"})
        place, ran = self._place(), call.kind in SUCCESSES
        yield self._event("response.mcp_call.in_progress", **place)
        yield self._event("response.mcp_call_arguments.delta", **place, delta=arguments)
        yield self._event("response.mcp_call_arguments.done", **place, arguments=arguments)
        yield self._event(f"response.mcp_call.{'completed' if ran else 'failed'}", **place)
        output = {"output": _json(answered.result.get("data"))} if ran else {"error": _error(answered.error)}
        ended = {"status": "completed" if ran else "failed", **output}
        self.output[-1] = {**item, "arguments": arguments, "placet": openai.shown_result(answered), **ended}
        yield self._done()

    # --- events -------------------------------------------------------------------------------------------------

    def _added(self, item: dict[str, Any]) -> Event:
        self.output.append(item)
        return self._event("response.output_item.added", output_index=len(self.output) - 1, item=item)

    def _done(self, index: int = -1) -> Event:
        place = index % len(self.output)
        return self._event("response.output_item.done", output_index=place, item=self.output[place])

    def _place(self, index: int = -1) -> dict[str, Any]:
        place = index % len(self.output)
        return {"item_id": self.output[place]["id"], "output_index": place}

    def _part_place(self) -> dict[str, Any]:
        return self._place(self.text_at) | {"content_index": 0}

    def _event(self, kind: str, **members: Any) -> Event:
        event = {"type": kind, "sequence_number": self.number, **members}
        self.number += 1
        return event


def _error(text: str) -> dict[str, Any]:
    """Return why a call did not succeed, as the API has it since OpenAI's SDKs for Python 3 and for JavaScript 7."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(read: int, written: int) -> dict[str, Any]:
    details: dict[str, Any] = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written, **details}


def _json(value: Any) -> str:
    # Sorted: the database keeps no order of members, and a retrieved item is the same as a told one.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
