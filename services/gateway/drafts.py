"""Texts that models are writing now: who begins to listen in the middle sees how they began.

Kept in memory and bounded: a draft that is lost costs nothing, because the whole text follows as a message.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from services.gateway.live import Topic, Transient

#: Conversations whose drafts are kept; the one that was quiet for longest goes.
CONVERSATIONS_MAX = 1_000
#: Longest draft that is kept, in characters.
TEXT_MAX = 100_000


class Drafts:
    """The drafts of every conversation, as far as this instance heard them from their beginning."""

    def __init__(self, conversations_max: int = CONVERSATIONS_MAX) -> None:
        self._conversations_max = conversations_max
        self._drafts: OrderedDict[Topic, dict[str, dict[str, Any]]] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether any text is being written."""
        return bool(self._drafts)

    def write(self, topic: Topic, delta: dict[str, Any]) -> None:
        """Add a piece of text, {turn_id, message_id, offset, text, reset}; one that does not join on ends its draft."""
        drafts = self._drafts.setdefault(topic, {})
        self._drafts.move_to_end(topic)
        known = "" if delta["reset"] or not delta["offset"] else drafts.get(delta["message_id"], {}).get("text", "")
        text = known + delta["text"]
        if len(known) == delta["offset"] and len(text) <= TEXT_MAX:
            drafts[delta["message_id"]] = {**delta, "offset": 0, "reset": False, "text": text}
        else:
            drafts.pop(delta["message_id"], None)
        while len(self._drafts) > self._conversations_max:
            self._drafts.popitem(last=False)

    def kept(self, topic: Topic, items: list[dict[str, Any]]) -> None:
        """Forget what became a message, and everything of a turn that is over.

        Of that turn only: the next one may be writing already when the word of the end comes by.
        """
        drafts = self._drafts.get(topic, {})
        for item in items:
            if item["type"] == "message":
                drafts.pop(item["data"].get("message_id", ""), None)
            elif item["type"] == "turn" and item["data"].get("state") != "started":
                for name in [name for name, each in drafts.items() if each["turn_id"] == item["data"].get("turn_id")]:
                    del drafts[name]
        if not drafts:
            self._drafts.pop(topic, None)

    def of(self, topic: Topic) -> list[Transient]:
        """Return the drafts of a conversation, each as one piece from its beginning."""
        return [Transient("delta", draft) for draft in self._drafts.get(topic, {}).values() if draft["text"]]
