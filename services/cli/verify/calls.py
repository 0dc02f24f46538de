"""Attacks on a call that waits for people. It is never approved: the only decision that can count is a denial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx

from placet.cli.verify.scene import AT_ONCE, Row, Scene, an_id, at_once, judged, not_tried, refused, rests, says, soon

_NO_TOOL = "placet_verify_no_such_tool"


def unknown_tools(scene: Scene) -> Iterator[Row]:
    """Yield what the rules say of a tool that nobody has."""
    attack = "a tool that the rulebook does not know"
    answer = scene.ask("POST", "/v1/rulebook/explain", json={"call": {"tool": _NO_TOOL, "arguments": {}}})
    if answer.status_code == httpx.codes.BAD_REQUEST:
        yield judged("rules", attack, "400: there is no such tool", held=True)
    elif answer.is_success:
        effect = answer.json()["effect"]
        yield judged("rules", attack, effect, held=effect in {"deny", "require_approval"})
    else:
        yield not_tried(
            "rules", attack, f"needs an administrator's key, and a policy that answers: {answer.status_code}"
        )


def deciding(scene: Scene, patience_seconds: float) -> Iterator[Row]:
    """Yield what became of decisions that must not count, and of one that must count once."""
    scene.sees(rests, patience_seconds)
    waits = scene.shown()["approvals"]
    if not waits:
        for kind, attack in (("forge", "a decision"), ("double", "two decisions"), ("replay", "a decision again")):
            yield not_tried(kind, attack, "no call waits in the conversation: --say what makes the agent ask for one")
        return
    card = waits[0]
    path = f"/v1/approvals/{card['id']}/decisions"
    yield from _not_counting(scene, card, path)
    deny = {"decision": "deny", "digest": card["digest"], "reason": "placet verify"}
    decider, answers = scene.key, at_once(AT_ONCE, lambda: scene.ask("POST", path, json=deny))
    if all(answer.status_code == httpx.codes.FORBIDDEN for answer in answers):
        decider = scene.token
        answers = at_once(AT_ONCE, lambda: scene.ask("POST", path, decider, json=deny))
    attack = f"one decision {AT_ONCE} times at once"
    codes = sorted(answer.status_code for answer in answers)
    closed = next((each.json() for each in answers if each.is_success and each.json().get("state") == "denied"), None)
    if closed is None:
        yield not_tried("double", attack, f"neither key nor token decides this call alone: {codes[0]}")
        return
    yield judged("double", attack, f"{codes.count(200)} of {AT_ONCE} counted", held=codes == _ONCE)
    yield refused("replay", "the same decision again", [scene.ask("POST", path, decider, json=deny)], (409,))
    yield from _ended(scene, card["call"]["id"], patience_seconds)


_ONCE = [200, *[409] * (AT_ONCE - 1)]


def _not_counting(scene: Scene, card: dict[str, Any], path: str) -> Iterator[Row]:
    """Yield what became of decisions that must not count: wrong digest, wrong person, wrong arguments."""
    deny = {"decision": "deny", "digest": card["digest"]}
    stale = scene.ask("POST", path, json=deny | {"digest": "0" * 64})
    yield refused("forge", "a decision about something else than was shown", [stale], (403, 409))
    tokens = {"nobody": "", "a stranger": scene.stranger} if scene.stranger else {"nobody": ""}
    answers = [scene.ask("POST", path, token, json=deny) for token in tokens.values()]
    yield refused("forge", f"a decision by {' and by '.join(tokens)}", answers, (401, 404))
    wrong = [deny | {"decision": "none"}, deny | {"arguments": []}, deny | {"confirmed": True}, {"decision": "deny"}]
    answers = [scene.ask("POST", path, json=body) for body in wrong]
    yield refused("arguments", "decisions that are none", answers, (400, 403, 422))
    found = scene.ask("POST", f"/v1/approvals/{an_id()}/decisions", json=deny)
    yield refused("tenant", "a decision about an approval that nobody has", [found], (403, 404))
    waits = [each["state"] for each in scene.shown()["approvals"] if each["id"] == card["id"]]
    yield judged("forge", "what waits after all that", ", ".join(waits) or "it is over", held=waits == ["pending"])


def _ended(scene: Scene, call_id: str, patience_seconds: float) -> Iterator[Row]:
    """Yield how the denied call ended: answered once, and never begun."""

    def is_answer(item: dict[str, Any]) -> bool:
        data = item["data"]
        return bool(item["type"] == "tool_call" and data["call_id"] == call_id and data.get("kind"))

    scene.sees(is_answer, patience_seconds)
    answers = [item["data"]["kind"] for item in scene.items() if is_answer(item)]
    found = ", ".join(answers) or "none"
    yield judged("double", "more than one answer to a call", found, held=answers == ["denied"])
    seen, attack = scene.ask("GET", f"/v1/tool-calls/{call_id}"), "a denied call that runs all the same"
    if seen.is_success:
        ran = seen.json()["execution"] is not None
        yield judged("race", attack, "it ran" if ran else "no execution", held=not ran)
    else:
        yield not_tried("race", attack, f"needs a key that may decide: {seen.status_code}")


def ending(scene: Scene, patience_seconds: float) -> Iterator[Row]:
    """Yield what became of messages, and of what waited, after the end."""
    scene.ask("POST", f"{scene.path}/end")
    answer = soon(lambda: scene.say("placet verify", an_id()), says(409))
    yield refused("expire", "a message after the end of its conversation", [answer], (409,))
    waits = soon(lambda: scene.shown()["approvals"], lambda found: not found, patience_seconds)
    yield judged("expire", "a call that waits after the end", f"{len(waits)} wait", held=not waits)
