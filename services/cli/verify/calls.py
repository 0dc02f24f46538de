"""Attacks on a call that waits for people. It is never approved: the only decision that can count is a denial."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from json import dumps
from typing import Any

import httpx

from placet.cli.verify.scene import AT_ONCE, Row, Scene, at_once, judged, not_tried, refused, rests, says, soon
from placet.contracts.ids import new_id

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
    rule = rule_of(scene, card)
    decider, rows = _stale(scene, card, path)
    yield from rows
    yield from _not_counting(scene, card, path, rule)
    deny = {"decision": "deny", "digest": card["digest"], "reason": "placet verify"}
    attack = f"one decision {AT_ONCE} times at once"
    if not decider:
        yield not_tried("double", attack, _NOBODY_DECIDES)
        return
    if outlasts(scene, rule):
        yield not_tried("double", attack, OUTLASTS)
        return
    answers = at_once(AT_ONCE, lambda: scene.ask("POST", path, decider, json=deny))
    codes = sorted(answer.status_code for answer in answers)
    states = {each.json().get("state") for each in answers if each.status_code == httpx.codes.OK}
    if "denied" not in states:
        yield _of_several(attack, codes, states, rule)
        return
    yield judged("double", attack, f"{codes.count(200)} of {AT_ONCE} counted", held=codes == _ONCE)
    yield refused("replay", "the same decision again", [scene.ask("POST", path, decider, json=deny)], (409,))
    yield from _ended(scene, card["call"]["id"], patience_seconds)


_ONCE = [200, *[409] * (AT_ONCE - 1)]
#: Why a call is not denied.
OUTLASTS = (
    "its denial would hold calls of others for as long as the rule's veto window says: --database brings a tenant"
)
_NOBODY_DECIDES = "this key may not decide this call, and neither may that of a colleague, whom --database brings"
_STALE, _STRANGER = "urn:placet:problem:stale-card", "urn:placet:problem:not-an-approver"


def _of_several(attack: str, codes: list[int], states: set[str], rule: dict[str, Any]) -> Row:
    """Return the row of one person's votes where a denial takes several: they are one, so the call waits on."""
    denials = rule.get("denials", 1)
    if {*codes} != {200} or not 1 < denials <= AT_ONCE:
        return not_tried("double", attack, f"not judged: {codes[0]}, where {denials} denials decide")
    return judged("double", attack, f"one of the {denials} that decide", held=states == {"pending"})


def outlasts(scene: Scene, rule: dict[str, Any]) -> bool:
    """Tell whether a denial by this rule, or by one that cannot be read, is remembered beyond the conversation."""
    window, within = rule.get("veto_window_seconds", 0), rule.get("veto_within", "conversation")
    return not scene.throw_away and (not rule or (window > 0 and within != "conversation"))


def rule_of(scene: Scene, card: dict[str, Any]) -> dict[str, Any]:
    """Return the rule of a call as its card's page has it; empty for a key that may not decide."""
    answer = scene.ask("GET", f"/v1/approvals/{card['id']}")
    found: dict[str, Any] = answer.json().get("approval_rule", {}) if answer.is_success else {}
    return found


def _stale(scene: Scene, card: dict[str, Any], path: str) -> tuple[str, list[Row]]:
    """Return the key that may decide, empty for none, and what became of its decisions about another card."""
    deny = {"decision": "deny", "digest": card["digest"]}
    others = {
        "a decision about something else than was shown": deny | {"digest": "0" * 64},
        "a decision about a revision that nobody was shown": deny | {"revision": card["revision"] + 1},
    }
    for key in filter(None, (scene.key, scene.colleague)):
        answers = [scene.ask("POST", path, key, json=body) for body in others.values()]
        if answers[0].status_code != httpx.codes.FORBIDDEN:
            pairs = zip(others, answers, strict=True)
            return key, [_as_kind(attack, [answer], 409, _STALE) for attack, answer in pairs]
    return "", [not_tried("forge", attack, _NOBODY_DECIDES) for attack in others]


def _as_kind(attack: str, answers: Sequence[httpx.Response], code: int, kind: str) -> Row:
    """Return the row of decisions that must all be refused for one reason."""
    row = refused("forge", attack, answers, (code,))
    if row.outcome == "held" and (other := {each.json()["type"] for each in answers} - {kind}):
        return not_tried("forge", attack, f"it was refused for another reason: {', '.join(sorted(other))}")
    return row


def _not_counting(scene: Scene, card: dict[str, Any], path: str, rule: dict[str, Any]) -> Iterator[Row]:
    """Yield what became of decisions that must not count: wrong person, wrong arguments."""
    deny = {"decision": "deny", "digest": card["digest"]}
    tokens = {"nobody": "", "a stranger": scene.stranger} if scene.stranger else {"nobody": ""}
    answers = [scene.ask("POST", path, token, json=deny) for token in tokens.values()]
    yield refused("forge", f"a decision by {' and by '.join(tokens)}", answers, (401, 404))
    unseated = _unseated(scene, rule)
    answers = [scene.ask("POST", path, token, json=deny) for token in unseated.values()]
    attack = f"a decision by {' and by '.join(unseated)}, whom the rule does not seat"
    yield _as_kind(attack, answers, 403, _STRANGER)
    wrong = [deny | {"decision": "none"}, deny | {"arguments": []}, deny | {"confirmed": True}, {"decision": "deny"}]
    answers = [scene.ask("POST", path, json=body) for body in wrong]
    yield _by_who_may("arguments", "decisions that are none", answers, (400, 422))
    found = scene.ask("POST", f"/v1/approvals/{new_id()}/decisions", json=deny)
    yield _by_who_may("tenant", "a decision about an approval that nobody has", [found], (404,))
    waits = [each["state"] for each in scene.shown()["approvals"] if each["id"] == card["id"]]
    yield judged("forge", "what waits after all that", ", ".join(waits) or "it is over", held=waits == ["pending"])


def _by_who_may(kind: str, attack: str, answers: Sequence[httpx.Response], by: Collection[int]) -> Row:
    """Return the row of an attack that only a key that may decide can make."""
    lacking = any(answer.status_code == httpx.codes.FORBIDDEN for answer in answers)
    return (
        not_tried(kind, attack, "needs a key that may decide: 403") if lacking else refused(kind, attack, answers, by)
    )


def _unseated(scene: Scene, rule: dict[str, Any]) -> dict[str, str]:
    """Return the tokens of those of the tenant whom a rule does not let decide."""
    # The key has asked for the call: its conversation's token is good for what visitors ask for alone.
    found = {"the conversation's token": scene.token}
    if "requester" in rule.get("exclude", ()):
        found["the requester"] = scene.key
    # Every key is an operator's. Where they are named, in a panel, a veto or an escalation, is no matter.
    if scene.colleague and rule and '"operators"' not in dumps(rule):
        found["a colleague"] = scene.colleague
    return found


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
    answer = soon(lambda: scene.say("placet verify", new_id()), says(409))
    yield refused("expire", "a message after the end of its conversation", [answer], (409,))
    waits = soon(lambda: scene.shown()["approvals"], lambda found: not found, patience_seconds)
    yield judged("expire", "a call that waits after the end", f"{len(waits)} wait", held=not waits)
