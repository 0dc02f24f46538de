"""What `placet verify` says of installations that have holes: none goes by as held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from placet.cli.verify import calls, doors
from placet.cli.verify.scene import Row, Scene, refused

ID = "0" * 32


def _scene(answer: Callable[[httpx.Request], httpx.Response]) -> Scene:
    def at_once(request: httpx.Request) -> httpx.Response:
        made = answer(request)
        made.elapsed = timedelta()
        return made

    http = httpx.Client(base_url="http://placet.test", transport=httpx.MockTransport(at_once))
    return Scene(http, f"placet_{'0' * 16}_{'a' * 43}", ID, "placet_chat_token", "placet_stranger")


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
            card = {"id": "a", "digest": "d", "state": "pending", "call": {"id": "x"}}
            return httpx.Response(200, json={"approvals": [card], "state": "idle"})
        if path.startswith("/v1/tool-calls"):
            return httpx.Response(200, json={"execution": {"state": "succeeded"}})
        return httpx.Response(200, json={"state": "denied"})


def test_decisions_that_count_twice_are_told() -> None:
    """Ten denials that all count, stale ones that do, and a denied call that runs: each is a row."""
    rows = list(calls.deciding(_scene(_Counting()), 1))
    held = [row.attack for row in rows if row.outcome == "held"]
    assert (9, ["what waits after all that"]) == (len(rows), held)
