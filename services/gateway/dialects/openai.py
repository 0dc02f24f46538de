"""What both OpenAI dialects tell, and by which ids: everything new in a conversation, until nothing goes on. Pure.

Ids are made of what they stand for, so nothing must be stored to find that again. They are no secrets and no proofs:
what they name is looked up in the caller's tenant, and a decision is bound to the digest in its request's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from placet.gateway.conversations.items import Delta
from placet.gateway.dialects import changes
from placet.gateway.dialects.changes import Call, Data
from placet.gateway.dialects.conversation_state import ConversationState, Entry
from placet.surfaces.texts import text

#: The name under which Placet's tools stand, and how clients declare them: as those of a remote MCP server.
SERVER_LABEL = "placet"
#: The type of what went wrong here, as OpenAI has it.
SERVER_ERROR = "server_error"
_RESPONSE = re.compile(r"resp_([0-9]{1,18})_([0-9a-f-]{36}|0)_([A-Za-z0-9_-]{1,64})")
#: A message or a call of ours; the conversation stands in it, because clients post histories without naming one.
_ITEM = re.compile(r"(?:msg|mcp)_([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_.-]{1,160}")
#: Its last number: clients keep one item of an id, and one that is asked again by itself must be a new one.
_REQUEST = re.compile(r"mcpr_([A-Za-z0-9_-]{1,64})_([0-9a-f]{64})(?:_[0-9]{1,18})?")
#: How many, in the words about a limit.
_COUNT = re.compile(r"\b[0-9]{1,9}(?= steps)")
_CARD_FIELDS = ("call_id", "tool", "summary", "reason", "digest", "revision", "approvers", "expires_at", "staged")
#: Entries of a commit that stand below it in words.
STAGED_MAX = 30
_WAITS: Mapping[str, str] = {
    "en": "This waits for approval:",
    "de": "Das wartet auf Freigabe:",
    "tr": "Bu onay bekliyor:",
}


class Progress(NamedTuple):
    """How far an approval is: in words, `1 of 2 approvals`, and its panels, {approvers, approvals, counted}."""

    words: str
    panels: list[dict[str, Any]]


@dataclass(frozen=True)
class Goal:
    """What a client is told, and what must have happened before that ends."""

    conversation_id: str
    #: Number of the last item that the client knows, and of the newest one when it asked.
    told: int
    newest: int = 0
    #: The client's message that is answered; empty for none.
    message_id: str = ""
    #: Approvals that were decided just now, and those that the client answered but that wait for more people.
    decided: frozenset[str] = frozenset()
    asked_again: frozenset[str] = frozenset()
    #: Approvals that nobody was asked about any more when it asked: it is told only what came of them.
    over: frozenset[str] = frozenset()
    #: The approval that is asked about by itself now, if it still waits; empty for none.
    asked_alone: str = ""
    #: The requests that the client need not answer again, because its vote counts -> how far their approvals are.
    voted: Mapping[str, Progress] = field(default_factory=dict)
    #: Numbers of items that it was told before, behind those that it is told again.
    skipped: range = range(0)
    language: str = "en"
    #: Who answers, {state, operator, text}; empty for the agent. And how often that has changed.
    holder: Data = field(default_factory=dict)
    holder_revision: int = 0

    def is_news(self, entry: Entry, log: ConversationState) -> bool:
        """Whether the client was not told of an entry, which was just read."""
        number = log.seq + isinstance(entry, Delta)
        return number > self.told and number not in self.skipped

    def rests(self, log: ConversationState) -> bool:
        """Whether nothing follows until people decide or write, and all is told that was asked for."""
        if log.seq < max(self.newest, self.told) or (self.message_id and not log.knows(self.message_id)):
            return False
        decided = (log.call_of(approval_id) for approval_id in self.decided)
        return log.rests and not log.lags(self.holder_revision) and all(call is None or call.kind for call in decided)

    def has_voted(self, call: Call) -> bool:
        """Whether the client's vote on a call counts, which waits for others."""
        return request_id(call.card) in self.voted

    def held(self, log: ConversationState) -> Data:
        """Return who answers in the agent's place, {state, operator, text}; empty where the agent does."""
        holder = log.holder or self.holder
        return holder if holder.get("state", "agent") != "agent" else {}


@dataclass(frozen=True, slots=True)
class ResponseId:
    """Where a response begins in a conversation's log."""

    conversation_id: str
    #: Number of the item after which it tells.
    told: int
    #: The user's message that it answers; empty where it follows decisions only.
    message_id: str = ""

    def __str__(self) -> str:
        """Return it as clients know it."""
        return f"resp_{self.told}_{self.message_id or 0}_{self.conversation_id}"


def is_answering(log: ConversationState, message_id: str) -> bool:
    """Tell whether the answer to a message is being made, or waits for people."""
    reply_id = log.replies.get(message_id)
    if reply_id is None:
        return message_id in log.unanswered
    is_made = log.running is not None and log.running.reply_id == reply_id
    return is_made or any(call.reply_id == reply_id and not call.kind for call in log.calls.values())


def parse_response_id(named: str) -> ResponseId | None:
    """Return what a response's id says; None where it is none of ours."""
    match = _RESPONSE.fullmatch(named)
    return ResponseId(match[3], int(match[1]), match[2] if match[2] != "0" else "") if match else None


def request_id(card: Data) -> str:
    """Return the id of an approval request: which approval, and the digest of the call that is shown."""
    return f"mcpr_{card['approval_id']}_{card['digest']}"


def parse_request_id(named: str) -> tuple[str, str] | None:
    """Return the approval's id and the digest that an approval request named; None where it is none of ours."""
    match = _REQUEST.fullmatch(named)
    return (match[1], match[2]) if match else None


def item_id(prefix: str, conversation_id: str, name: str) -> str:
    """Return the id of an output item, which names its conversation; all attempts at a text have the stored one's."""
    return f"{prefix}_{conversation_id}.{name.partition('#')[0]}"


def conversation_of(named: str) -> str:
    """Return the conversation that an output item's id names; empty where it is none of ours."""
    match = _ITEM.fullmatch(named)
    return match[1] if match else ""


def shown_cards(calls: Iterable[Call], voted: Mapping[str, Progress] = MappingProxyType({})) -> list[dict[str, Any]]:
    """Return what a client is told of approvals that wait: its card and ids, and how far those are that it `voted`."""
    told = []
    for call in calls:
        card = {name: call.card[name] for name in _CARD_FIELDS if call.card.get(name) is not None}
        progress = voted.get(request := request_id(call.card))
        panels = {"panels": progress.panels} if progress else {}
        told.append({"id": call.approval_id, "request_id": request} | card | panels)
    return told


def shown_result(answered: changes.CallAnswered) -> dict[str, Any]:
    """Return how a call ended, for clients that want to know more than that it did: {id, tool, kind, …}."""
    call, blocks = answered.call, answered.result.get("ui_blocks")
    told: dict[str, Any] = {"id": call.call_id, "tool": call.tool, "kind": call.kind}
    return told | ({"ui_blocks": blocks} if blocks else {})


def shown_holder(held: Data) -> dict[str, str] | None:
    """Return who answers in the agent's place, {state, operator}; None where the agent does."""
    return {"state": held["state"], "operator": held["operator"]} if held else None


def final_text(end: Data) -> str:
    """Return the text of a turn's final answer; empty where it ended without one."""
    return str((end.get("final_answer") or {}).get("result") or "")


def failure_of(end: Data, language: str) -> str:
    """Return why a turn failed; empty where it did not."""
    return "" if end["state"] == "finished" else _reason_of(end, language) or str(end["state"])


def limit_of(end: Data, language: str) -> dict[str, str]:
    """Return which limit ended a turn and the words about it, {limit, reason}; empty where none did.

    An answer at the last step is whole, so it is completed: SDKs take an incomplete one for a failure.
    """
    return {"limit": str(end["limit"]), "reason": _reason_of(end, language)} if end.get("limit") else {}


def _reason_of(end: Data, language: str) -> str:
    """Return why a turn ended, in a language where its catalogue has that; the agent says it in English."""
    reason = str(end.get("reason") or "")
    # Only a limit's own words have a number to be put in again: others may be a person's.
    if number := _COUNT.search(reason) if end.get("limit") else None:
        return text(language, reason.replace(number[0], "{count}"), count=number[0])
    return text(language, reason) if reason else ""


def waits_note(language: str, calls: Iterable[Call], public_url: str = "") -> str:
    """Return the words about calls that wait, with the page where each is decided; empty where none does.

    A summary has a model's words in it, so it stands as code: a frontend that draws Markdown makes no link of it.
    """
    page = f" {public_url.rstrip('/')}/inbox/" if public_url else ""
    lines: list[str] = []
    for call in calls:
        lines.append(f"- {_code(call.card.get('summary') or call.tool)}" + (page and page + call.approval_id))
        staged = call.card.get("staged") or ()
        lines += [f"  - {_code(each['summary'] or each['tool'])}" for each in staged[:STAGED_MAX]]
        lines += [f"  - … {len(staged) - STAGED_MAX}"] if len(staged) > STAGED_MAX else []
    return "\n".join([_WAITS.get(language, _WAITS["en"]), *lines]) if lines else ""


def voted_note(language: str, calls: Iterable[Call], voted: Mapping[str, Progress]) -> str:
    """Return the words about those of `calls` that wait although the client has voted; empty where none does."""
    known = [(call, progress) for call in calls if (progress := voted.get(request_id(call.card)))]
    lines = [f"- {_code(call.card.get('summary') or call.tool)} ({progress.words})" for call, progress in known]
    return "\n".join([text(language, "Your vote counts. This waits for another person:"), *lines]) if lines else ""


def _code(words: Any) -> str:
    """Return words as Markdown shows code, on one line."""
    return f"`{' '.join(str(words).split()).replace('`', chr(39))}`"
