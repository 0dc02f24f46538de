"""Attacks on the doors: who somebody is, what they may send, and what they may see."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator

import httpx

from placet.cli.client import problem_line
from placet.cli.output import fail
from placet.cli.verify.scene import (
    AT_ONCE,
    Row,
    Scene,
    at_once,
    forged_key,
    judged,
    not_tried,
    opened,
    refused,
    rests,
    says,
    soon,
)
from placet.contracts.ids import new_id

_NOBODY = (401,)
#: What does not exist for somebody, and what they have no right to.
_UNSEEN, _NO_RIGHT = (404,), (401, 403, 404)
_OPEN_BRACKETS = 100_000
_LARGE_BYTES = 2_000_000


def forging(scene: Scene) -> Iterator[Row]:
    """Yield what became of proofs that are none."""
    parts = [{"alg": "none"}, {"sub": "admin", "scopes": ["admin", "decide"]}]
    unsigned = ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
    forged = {
        "no key at all": "",
        "a key of our own making": forged_key(),
        "the id of a good key with another secret": forged_key(scene.key),
        "an unsigned token that says it is an administrator": unsigned,
        "a conversation token of our own making": f"placet_chat_{forged_key()[-43:]}",
    }
    for attack, token in forged.items():
        paths = (scene.path, "/v1/approvals", "/v1/keys", "/v1/stops")
        yield refused("forge", attack, [scene.ask("GET", path, token) for path in paths], _NOBODY)
    answer = scene.ask("GET", scene.path, "", headers={"authorization": f"Basic {scene.key}"})
    yield refused("forge", "a good key by another scheme", [answer], _NOBODY)


def reaching(scene: Scene, agent: str) -> Iterator[Row]:
    """Yield what became of a good token where it is good for nothing."""
    paths = ("/v1/keys", "/v1/dead-letters", "/v1/stops", "/v1/deliveries", "/v1/webhook-events")
    attack = "a conversation's token at the doors of administrators"
    yield refused("reach", attack, [scene.ask("GET", path, scene.token) for path in paths], _NO_RIGHT)
    other, attack = opened(scene.http, scene.key, agent), "a conversation's token in another conversation"
    if isinstance(other, httpx.Response):
        yield not_tried("reach", attack, f"no second conversation: {other.status_code}")
        return
    asked = [scene.ask("GET", f"{other.path}{more}", scene.token) for more in ("", "/feed")]
    written = scene.ask("POST", f"{other.path}/messages", scene.token, json={"text": "placet verify"})
    yield refused("reach", attack, [*asked, written], _NO_RIGHT)
    other.ask("POST", f"{other.path}/end")


def strangers(scene: Scene) -> Iterator[Row]:
    """Yield what somebody of another tenant sees, and what is there of ids that nobody has."""
    unknown = [f"/v1/{noun}/{new_id()}" for noun in ("approvals", "conversations", "tool-calls")]
    yield refused("tenant", "ids that nobody has", [scene.ask("GET", path) for path in unknown], _NO_RIGHT)
    attack = "a conversation's id with the key of another tenant"
    if not scene.stranger:
        yield not_tried("tenant", attack, "needs --database, as somebody who may make keys there")
        return
    answers = [
        scene.ask("GET", scene.path, scene.stranger),
        scene.ask("GET", f"{scene.path}/feed", scene.stranger),
        scene.ask("POST", f"{scene.path}/messages", scene.stranger, json={"text": "placet verify"}),
        scene.ask("POST", f"{scene.path}/token", scene.stranger),
        scene.ask("POST", f"{scene.path}/end", scene.stranger),
    ]
    if any(_lacks_a_scope(answer) for answer in answers):
        # Turned away before anybody looked whose the conversation is.
        yield not_tried("tenant", attack, "needs a key with the scope 'chat'")
    else:
        yield refused("tenant", attack, answers, _UNSEEN)


def _lacks_a_scope(answer: httpx.Response) -> bool:
    return answer.status_code == httpx.codes.FORBIDDEN and "scope-missing" in answer.text


def bad_bodies(scene: Scene) -> Iterator[Row]:
    """Yield what became of bodies that two readers could read differently, or that nobody can bear."""
    asked = {"content-type": "application/json"}
    bodies = {
        "one key twice": (b'{"text": "a", "text": "b"}', asked, (400, 422)),
        "a number that is none": (b'{"text": NaN}', asked, (400, 422)),
        "an argument that does not exist": (b'{"text": "a", "confirmed": true}', asked, (400, 422)),
        "brackets without an end": (b"[" * _OPEN_BRACKETS, asked, (400, 413, 422)),
        "two megabytes": (b'{"text": "' + b"a" * _LARGE_BYTES + b'"}', asked, (413,)),
        "a form, as other sites can send it": (b"text=a", {"content-type": "text/plain"}, (400, 415, 422)),
    }
    for attack, (body, headers, by) in bodies.items():
        answer = scene.ask("POST", f"{scene.path}/messages", content=body, headers=headers)
        yield refused("arguments", attack, [answer], by)


#: Of a message that nobody could send.
_NOT_TAKEN = (400, 413, 422)


def replaying(scene: Scene, text: str, patience_seconds: float) -> Iterator[Row]:
    """Yield what became of one message that is sent again and again."""
    message_id = new_id()
    answers = [*at_once(AT_ONCE, lambda: scene.say(text, message_id)), scene.say(text, message_id)]
    if all(answer.status_code in _NOT_TAKEN for answer in answers):
        fail(f"the message of --say is not taken: {problem_line(answers[0])}", code=2)
    yield refused("race", f"one message {AT_ONCE} times at once", answers, (202,))
    yield refused("replay", "the id of a message for another text", [scene.say("another text", message_id)], (409,))
    scene.sees(rests, patience_seconds)
    said = [item["data"] for item in scene.items() if item["type"] == "message"]
    heard = sum(1 for each in said if (each["message_id"], each["role"]) == (message_id, "user"))
    attack, found = "a message that came before", f"{heard} of it in the conversation"
    if heard:
        yield judged("replay", attack, found, held=heard == 1)
    else:
        yield not_tried("replay", attack, f"{found} after {patience_seconds:g} s: the agent has not heard of it yet")


def expiring(scene: Scene) -> Iterator[Row]:
    """Yield what became of proofs whose time is over."""
    made = scene.ask("POST", f"{scene.path}/token")
    attack = "a conversation's token after another took its place"
    if made.is_success:
        late = soon(lambda: scene.ask("GET", scene.path, scene.token), says(401))
        yield refused("expire", attack, [late], _NOBODY)
    else:
        yield not_tried("expire", attack, f"no other token was given: {made.status_code}")
    body = {"person": f"verify-{new_id()[-8:]}", "scopes": ["admin", "decide"]}
    made = scene.ask("POST", "/v1/keys", json=body)
    attacks = ("a key that was made for somebody else, as if it were theirs", "a key after it was revoked")
    if not made.is_success:
        yield not_tried("forge", attacks[0], "needs an administrator's key")
        yield not_tried("expire", attacks[1], "needs an administrator's key")
        return
    key = made.json()["key"]
    answers = [scene.ask("GET", path, key) for path in ("/v1/approvals", "/v1/keys")]
    yield refused("forge", attacks[0], answers, (403,))
    scene.ask("DELETE", f"/v1/keys/{made.json()['id']}")
    late = soon(lambda: scene.ask("GET", "/v1/keys", key), says(401))
    yield refused("expire", attacks[1], [late], _NOBODY)
