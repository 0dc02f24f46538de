"""What `placet verify` says of installations that have holes: none goes by as held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from json import loads
from typing import Any

import httpx
import pytest

from placet.cli.verify import calls, doors, kills
from placet.cli.verify.scene import Row, Scene, refused

ID = "0" * 32
CARD = {"id": "a", "digest": "d", "revision": 1, "state": "pending", "requester": "person:me", "call": {"id": "x"}}
UNSEATED = "a decision by the conversation's token and by the requester, whom the rule does not seat"
RULE: dict[str, Any] = {"approvers": ["operators"], "exclude": ["requester"], "denials": 2}


def _scene(answer: Callable[[httpx.Request], httpx.Response]) -> Scene:
    def at_once(request: httpx.Request) -> httpx.Response:
        made = answer(request)
        made.elapsed = timedelta()
        return made

    http = httpx.Client(base_url="http://placet.test", transport=httpx.MockTransport(at_once))
    return Scene(http, f"placet_{'0' * 16}_{'a' * 43}", ID, "placet_chat_token", "placet_stranger", "colleague")


def _open(request: httpx.Request) -> httpx.Response:
    """Answer as a gateway that lets everybody do everything, and hears each message as often as it comes."""
    del request
    item = {"id": 1, "type": "message", "data": {"message_id": ID, "role": "user"}}
    said: dict[str, Any] = {"id": ID, "token": "t", "key": f"placet_{'1' * 16}_x", "effect": "allow", "state": "idle"}
    return httpx.Response(201, json={**said, "items": [item], "approvals": []})


def _rows(scene: Scene, attack: Callable[[Scene], Iterator[Row]]) -> list[Row]:
    return [row for row in attack(scene) if row.outcome != "not tried"]


@pytest.mark.parametrize(
    "attack",
    [
        doors.forging,
        lambda scene: doors.reaching(scene, "default"),
        doors.strangers,
        doors.bad_bodies,
        calls.unknown_tools,
    ],
    ids=["forging", "reaching", "strangers", "bad bodies", "unknown tools"],
)
def test_a_house_without_doors_holds_nothing(attack: Callable[[Scene], Iterator[Row]]) -> None:
    """Every attack that succeeds is a broken row."""
    outcomes = {row.outcome for row in _rows(_scene(_open), attack)}
    assert {"broken"} == outcomes


def test_a_gateway_that_rests_is_no_proof() -> None:
    """Who answers 503 to everything has held nothing."""
    outcomes = {row.outcome for row in doors.forging(_scene(lambda _: httpx.Response(503)))}
    assert {"not tried"} == outcomes


@pytest.mark.parametrize(("kind", "outcome"), [("scope-missing", "not tried"), ("forbidden", "broken")])
def test_a_key_without_a_scope_is_no_stranger(kind: str, outcome: str) -> None:
    """It is turned away at any conversation; who is told that this one is there has learnt something."""
    problem = {"type": f"urn:placet:problem:{kind}"}
    rows = list(doors.strangers(_scene(lambda _: httpx.Response(403, json=problem))))
    assert outcome == rows[-1].outcome


def test_a_refusal_that_takes_long_does_not_hold() -> None:
    """Whoever can make the gateway think for long, without any right, has won."""
    answer = httpx.Response(401)
    answer.elapsed = timedelta(seconds=14)
    assert ("broken", "401, after 14.0 s") == (
        (row := refused("arguments", "a bomb", [answer], [401])).outcome,
        row.found,
    )


class _Counting:
    """A gateway with one waiting call whose decisions count each time, and which runs denied calls."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        path = request.url.path
        if path.endswith("/feed"):
            after = int(request.url.params.get("after", 0))
            items: list[dict[str, Any]] = [
                {"id": 1, "type": "turn", "data": {"state": "paused"}},
                *(
                    {"id": number, "type": "tool_call", "data": {"call_id": "x", "kind": kind}}
                    for number, kind in ((2, "denied"), (3, "succeeded"))
                ),
            ]
            return httpx.Response(200, json={"items": [item for item in items if item["id"] > after]})
        if path.startswith("/v1/conversations"):
            card = CARD
            return httpx.Response(200, json={"approvals": [card], "state": "idle"})
        if path.startswith("/v1/tool-calls"):
            return httpx.Response(200, json={"execution": {"state": "succeeded"}})
        return httpx.Response(200, json={"state": "denied", "approval_rule": RULE})


def test_decisions_that_count_twice_are_told() -> None:
    """Ten denials that all count, stale ones that do, and a denied call that runs: each is a row."""
    rows = list(calls.deciding(_scene(_Counting()), 1))
    held = [row.attack for row in rows if row.outcome == "held"]
    assert (11, ["what waits after all that"]) == (len(rows), held)


def _decided(decision: Callable[[str, dict[str, Any]], httpx.Response], **rule: Any) -> dict[str, tuple[str, str]]:
    """Return the rows about a waiting call of a gateway that answers so to the decisions of a proof."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return decision(request.headers.get("authorization", "").removeprefix("Bearer "), loads(request.content))
        if request.url.path.startswith("/v1/approvals"):
            return httpx.Response(200, json={"approval_rule": RULE | rule})
        return _Counting()(request)

    return {row.attack: (row.outcome, row.found) for row in calls.deciding(_scene(answer), 1)}


def _problem(status: int, kind: str) -> httpx.Response:
    return httpx.Response(status, json={"type": f"urn:placet:problem:{kind}"})


def test_a_refusal_of_who_decides_is_no_proof_of_what_was_shown() -> None:
    """Where nobody here may decide, no row about digests, revisions or double decisions is held."""
    rows = _decided(lambda _, __: _problem(403, "not-an-approver"))
    assert [
        "a decision about something else than was shown",
        "a decision about a revision that nobody was shown",
        "decisions that are none",
        "a decision about an approval that nobody has",
        "one decision 10 times at once",
    ] == [attack for attack, (outcome, _) in rows.items() if outcome == "not tried"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (_problem(403, "not-an-approver"), "held"),
        (_problem(403, "scope-missing"), "not tried"),
        (_problem(409, "stale-card"), "broken"),
        (httpx.Response(200, json={"state": "pending"}), "broken"),
    ],
)
def test_only_the_right_refusal_keeps_the_unseated_out(answer: httpx.Response, outcome: str) -> None:
    """A requester whom the rule excludes, and whose vote is taken or looked at, is a broken row."""
    rows = _decided(lambda _, __: answer)
    assert outcome == rows[UNSEATED][0]


@pytest.mark.parametrize(("approvers", "seen"), [(["group:finance"], "broken"), (["operators"], None)])
def test_a_colleague_is_tried_where_no_operator_may(approvers: list[str], seen: str | None) -> None:
    """Every key is an operator's, so a colleague's vote is an attack only where operators are not named."""
    rows = _decided(
        lambda token, _: _problem(*((409, "stale-card") if token == "colleague" else (403, "not-an-approver"))),
        approvers=approvers,
        exclude=[],
    )
    attack = "a decision by the conversation's token and by a colleague, whom the rule does not seat"
    assert seen == (rows[attack][0] if attack in rows else None)


@pytest.mark.parametrize(("denials", "outcome"), [(2, "held"), (11, "not tried"), (1, "not tried")])
def test_ten_votes_of_one_person_are_judged(denials: int, outcome: str) -> None:
    """Where a second person must deny too, the call waits on; where ten would not be enough, nothing is known."""
    rows = _decided(lambda _, __: httpx.Response(200, json={"state": "pending"}), denials=denials)
    assert outcome == rows["one decision 10 times at once"][0]


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ({"veto_window_seconds": 60, "veto_within": "tenant"}, "not tried"),
        ({"veto_window_seconds": 60, "veto_within": "requester"}, "not tried"),
        ({"veto_window_seconds": 60, "veto_within": "conversation"}, "held"),
        ({"veto_window_seconds": 0, "veto_within": "tenant"}, "held"),
    ],
)
def test_a_denial_that_would_hold_calls_of_others_is_not_made(rule: dict[str, Any], outcome: str) -> None:
    """A veto window beyond the conversation is left alone in a tenant that has customers."""
    made: list[dict[str, Any]] = []

    def heard(_: str, body: dict[str, Any]) -> httpx.Response:
        made.append(body)
        return httpx.Response(200, json={"state": "pending"})

    rows = _decided(heard, **rule)
    denied = [each for each in made if each.get("reason") == "placet verify"]
    assert (outcome, outcome == "held") == (rows["one decision 10 times at once"][0], bool(denied))


def test_another_conflict_is_no_proof_of_what_was_shown() -> None:
    """A 409 that is not about the card says nothing of digests."""
    rows = _decided(lambda _, __: _problem(409, "already-decided"))
    assert "not tried" == rows["a decision about something else than was shown"][0]


@pytest.mark.parametrize(("times", "outcome"), [(0, "not tried"), (1, "held"), (2, "broken")])
def test_a_message_that_nobody_has_heard_of_shows_nothing(times: int, outcome: str) -> None:
    """Only what is there twice is a hole: where the broker is away, a message waits to be heard."""
    said: dict[str, str] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            posted = loads(request.content)
            is_new = posted["text"] == said.setdefault(posted["message_id"], posted["text"])
            return httpx.Response(202 if is_new else 409)
        message_id = next(iter(said))
        items = [
            {"id": number, "type": "message", "data": {"message_id": message_id, "role": "user"}}
            for number in range(1, times + 1)
        ]
        return httpx.Response(200, json={"items": items if request.url.params["after"] == "0" else []})

    *_, row = doors.replaying(_scene(answer), "hello", 0)
    assert outcome == row.outcome


class _Busy:
    """A gateway that keeps one message however often it comes, and first answers to what is said that it is busy."""

    def __init__(self, times: int, retry_after: str) -> None:
        """Be busy so often."""
        self.times, self.retry_after, self.said = times, retry_after, dict[str, Any]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        path = request.url.path
        if path.endswith("/messages"):
            if self.times:
                self.times -= 1
                return httpx.Response(429, headers={"retry-after": self.retry_after})
            self.said = {**loads(request.content), "role": "user"}
            return httpx.Response(202, json={})
        if path.endswith("/feed"):
            kinds = ("message", self.said), ("turn", {"state": "started"}), ("turn", {"state": "finished"})
            items = [{"id": number, "type": kind, "data": data} for number, (kind, data) in enumerate(kinds, 1)]
            after = int(request.url.params.get("after", 0))
            return httpx.Response(200, json={"items": items[after:] if self.said else []})
        return httpx.Response(201, json={"id": ID, "token": "t", "approvals": []})


@pytest.mark.parametrize(
    ("times", "retry_after", "expected"),
    [
        (0, "", ("held", "1 message, 1 turn, at rest")),
        (1, "1", ("held", "1 message, 1 turn, at rest")),
        (1, "soon", ("held", "1 message, 1 turn, at rest")),
        (1, "3600", ("not tried", "the gateway is busy: 429")),
    ],
)
def test_a_kill_waits_for_a_gateway_that_is_busy(times: int, retry_after: str, expected: tuple[str, str]) -> None:
    """As long as it asks to, where that is not too long; a message that nobody took proves nothing."""
    (row,) = kills.killing(_scene(_Busy(times, retry_after)), ["true"], "default", "hello", 20)
    assert expected == (row.outcome, row.found)


def test_a_second_denial_that_nobody_looked_at_is_no_proof() -> None:
    """The gateway was too busy to say whether it counts."""
    codes = iter([200, 429])

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/decisions"):
            return httpx.Response(next(codes))
        if request.method == "GET" and path.startswith("/v1/conversations") and not path.endswith("/feed"):
            return httpx.Response(200, json={"approvals": [CARD]})
        return httpx.Response(200, json={"approval_rule": {"denials": 1}}) if "approvals" in path else busy(request)

    busy = _Busy(0, "")
    rows = {row.attack: (row.outcome, row.found) for row in kills.killing(_scene(answer), ["true"], "default", "x", 20)}
    assert ("not tried", "the gateway is busy: 200, 429") == rows["what waits after: true"]
