"""Who attacks what: the address, the key, the conversation; and what an attack came to, as rows."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Literal, TypeVar

import httpx

T = TypeVar("T")
Outcome = Literal["held", "broken", "not tried"]
#: What is tried at the same moment, and how often.
AT_ONCE = 10
#: How long a revocation may go unseen at another replica, and a request may take that is refused, in seconds.
_SEEN_SECONDS = 5.0
_REFUSED_SECONDS = 5.0
#: Longest that one look at the conversation waits for something new, in seconds.
_LOOK_SECONDS = 5.0
#: What a busy or resting gateway says: nothing is known then.
_NO_ANSWER = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Row:
    """What one attack came to."""

    kind: str
    attack: str
    outcome: Outcome
    #: What was answered, or why it was not tried.
    found: str


def not_tried(kind: str, attack: str, why: str) -> Row:
    """Return the row of an attack that nobody made, and why."""
    return Row(kind, attack, "not tried", why)


def judged(kind: str, attack: str, found: str, *, held: bool) -> Row:
    """Return the row of an attack that was made."""
    return Row(kind, attack, "held" if held else "broken", found)


def refused(kind: str, attack: str, answers: Sequence[httpx.Response], by: Collection[int]) -> Row:
    """Return the row of an attack each of whose answers must be one of the statuses `by`, and soon."""
    codes = [answer.status_code for answer in answers]
    found = ", ".join(f"{codes.count(code)} times {code}" if len(codes) > 1 else str(code) for code in sorted({*codes}))
    if not _NO_ANSWER.isdisjoint(codes):
        return not_tried(kind, attack, f"the gateway is busy: {found}")
    slowest = max(answer.elapsed.total_seconds() for answer in answers)
    if slowest > _REFUSED_SECONDS:
        return judged(kind, attack, f"{found}, after {slowest:.1f} s", held=False)
    return judged(kind, attack, found, held={*codes} <= {*by})


@dataclass(frozen=True, slots=True)
class Scene:
    """A throw-away conversation, and who is in it."""

    http: httpx.Client
    #: Whose conversation it is.
    key: str
    conversation_id: str
    token: str
    #: A key of another tenant; empty where there is none.
    stranger: str = ""
    #: A key of somebody else of the same tenant, whom no rulebook names; empty where there is none.
    colleague: str = ""
    #: Whether nobody but this proof has calls in its tenant.
    throw_away: bool = False

    @property
    def path(self) -> str:
        """The conversation's address."""
        return f"/v1/conversations/{self.conversation_id}"

    def ask(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx.Response:
        """Return the answer to a request with a token: the key by default, none where it is empty."""
        token = self.key if token is None else token
        headers = {**({"authorization": f"Bearer {token}"} if token else {}), **options.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **options)

    def say(self, text: str, message_id: str) -> httpx.Response:
        """Post a message in the conversation."""
        return self.ask("POST", f"{self.path}/messages", json={"text": text, "message_id": message_id})

    def shown(self) -> dict[str, Any]:
        """Return the conversation as its owner sees it."""
        shown: dict[str, Any] = self.ask("GET", self.path).raise_for_status().json()
        return shown

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield all items of the conversation."""
        after = 0
        while items := self._feed(after):
            yield from items
            after = items[-1]["id"]

    def sees(self, wanted: Callable[[dict[str, Any]], bool], patience_seconds: float) -> bool:
        """Tell whether a wanted item comes in time, or is there."""
        end, after = monotonic() + patience_seconds, 0
        while (left := end - monotonic()) > 0:
            items = self._feed(after, min(left, _LOOK_SECONDS))
            if any(map(wanted, items)):
                return True
            after = items[-1]["id"] if items else after
        return False

    def _feed(self, after: int, wait: float = 0) -> list[dict[str, Any]]:
        answer = self.ask("GET", f"{self.path}/feed", params={"after": after, "wait": wait})
        items: list[dict[str, Any]] = answer.raise_for_status().json()["items"]
        return items


def opened(http: httpx.Client, key: str, agent: str) -> Scene | httpx.Response:
    """Return a new conversation of a key, or why there is none."""
    answer = http.post("/v1/conversations", headers={"authorization": f"Bearer {key}"}, json={"agent": agent})
    if answer.status_code != httpx.codes.CREATED:
        return answer
    return Scene(http, key, answer.json()["id"], answer.json()["token"])


def at_once(times: int, ask: Callable[[], httpx.Response]) -> list[httpx.Response]:
    """Return the answers to one request made that often at the same moment."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(times) as threads:
        return [each.result() for each in [threads.submit(ask) for _ in range(times)]]


def soon(ask: Callable[[], T], wanted: Callable[[T], bool], patience_seconds: float = _SEEN_SECONDS) -> T:
    """Return the first wanted answer, or the last one when everybody must have heard of what changed it."""
    end = monotonic() + patience_seconds
    while not wanted(answer := ask()) and monotonic() < end:
        sleep(0.2)
    return answer


def says(code: int) -> Callable[[httpx.Response], bool]:
    """Return what tells whether an answer has this status."""
    return lambda answer: answer.status_code == code


def forged_key(like: str = "") -> str:
    """Return an API key that nobody made, with the id of another one where that is given."""
    parts = like.split("_")
    key_id = parts[1] if like.startswith("placet_") and len(parts) > 2 else secrets.token_hex(8)  # noqa: PLR2004
    return f"placet_{key_id}_{secrets.token_urlsafe(32)}"


def rests(item: dict[str, Any]) -> bool:
    """Tell whether a conversation rests after this item: its turn has ended, or waits for people."""
    return bool(item["type"] == "turn" and item["data"]["state"] not in {"started", "continued"})
