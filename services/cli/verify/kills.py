"""Kills, where the user says how: while a message is answered, their command ends something and brings it back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic, sleep
from typing import TypeGuard, TypeVar

import httpx

from placet.cli.verify.calls import OUTLASTS, outlasts, rule_of
from placet.cli.verify.scene import Row, Scene, judged, not_tried, opened, rests
from placet.contracts.ids import new_id

T = TypeVar("T")
_PAUSE_SECONDS = 0.5
#: Longest that the user's command may take.
COMMAND_SECONDS = 300


def killing(scene: Scene, commands: Sequence[str], agent: str, say: str, patience_seconds: float) -> Iterator[Row]:
    """Yield what became of a message during each command, and of the call that waits then, if one does."""
    for command in commands:
        made = opened(scene.http, scene.key, agent)
        if isinstance(made, Scene):
            yield from _killed(replace(made, throw_away=scene.throw_away), command, say, patience_seconds)
        else:
            yield not_tried("kill", command, f"no conversation can be opened: {made.status_code}")


def _killed(scene: Scene, command: str, say: str, patience_seconds: float) -> Iterator[Row]:
    try:
        message_id = new_id()
        _patiently(lambda: scene.say(say, message_id), patience_seconds)
        try:
            # The user's own command, as they would type it.
            done = subprocess.run(  # noqa: S602
                command, shell=True, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
            )
        except subprocess.TimeoutExpired:
            yield not_tried("kill", command, f"it had not ended after {COMMAND_SECONDS} s")
            return
        if done.returncode:
            why = f"it ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
            yield not_tried("kill", command, why)
            return
        yield from _survived(scene, command, say, message_id, patience_seconds)
        yield from _waiting(scene, command, patience_seconds)
    except httpx.HTTPError as error:
        if _is_busy(error):
            yield not_tried("kill", command, "the gateway is busy: 429")
            return
        yield judged("kill", command, f"no answer within {patience_seconds:.0f} s: {error}", held=False)
    finally:
        with suppress(httpx.HTTPError):
            scene.ask("POST", f"{scene.path}/end")


def _survived(scene: Scene, command: str, say: str, message_id: str, patience_seconds: float) -> Iterator[Row]:
    """Yield what became of the message, which is posted again in case nobody knows of it."""
    _patiently(lambda: scene.say(say, message_id), patience_seconds)
    answered = _patiently(lambda: scene.sees(rests, patience_seconds), patience_seconds)
    items = _patiently(lambda: list(scene.items()), patience_seconds)
    messages = sum(each["type"] == "message" and each["data"].get("message_id") == message_id for each in items)
    begun = sum(each["type"] == "turn" and each["data"]["state"] == "started" for each in items)
    found = f"{messages} message, {begun} turn, {'at rest' if answered else 'not at rest in time'}"
    yield judged("kill", command, found, held=answered and (messages, begun) == (1, 1))


def _waiting(scene: Scene, command: str, patience_seconds: float) -> Iterator[Row]:
    """Yield whether a call that waits is decided once; it is denied."""
    if not (waits := _patiently(lambda: scene.shown()["approvals"], patience_seconds)):
        return
    card, attack = waits[0], f"what waits after: {command}"
    if outlasts(scene, _patiently(lambda: rule_of(scene, card), patience_seconds)):
        yield not_tried("kill", attack, OUTLASTS)
        return
    deny = {"decision": "deny", "digest": card["digest"], "reason": "placet verify"}
    path = f"/v1/approvals/{card['id']}/decisions"
    for token in (scene.key, scene.token):
        codes = [_once(scene, path, token, deny), _once(scene, path, token, deny)]
        if codes[0] != httpx.codes.FORBIDDEN:
            break
    if codes[0] == httpx.codes.FORBIDDEN:
        yield not_tried("kill", attack, "neither key nor token decides this call alone")
    elif codes[0] not in {httpx.codes.OK, httpx.codes.CONFLICT}:
        # Nobody knows whether it arrived.
        yield not_tried("kill", attack, f"the gateway was not back: {codes[0] or 'no answer'}")
    elif codes[1] == httpx.codes.TOO_MANY_REQUESTS:
        yield not_tried("kill", attack, f"the gateway is busy: {codes[0]}, {codes[1]}")
    else:
        yield judged("kill", attack, f"denied twice: {codes[0]}, {codes[1]}", held=codes == [200, 409])


def _once(scene: Scene, path: str, token: str, body: dict[str, str]) -> int:
    """Return the status of the answer to a decision, 0 where none came: it is not sent again by itself."""
    try:
        return scene.ask("POST", path, token, json=body).status_code
    except httpx.HTTPError:
        return 0


def _patiently(ask: Callable[[], T], patience_seconds: float) -> T:
    """Return an answer of a gateway that may be away, or busy; raise httpx.HTTPError where none comes back in time."""
    end = monotonic() + patience_seconds
    while True:
        try:
            found = ask()
            if isinstance(found, httpx.Response) and (
                found.is_server_error or found.status_code == httpx.codes.TOO_MANY_REQUESTS
            ):
                found.raise_for_status()
        except httpx.HTTPError as error:
            asked = _asked_to_wait(error)
            if monotonic() + asked > end:
                raise
        else:
            return found
        sleep(asked or _PAUSE_SECONDS)


def _is_busy(error: httpx.HTTPError) -> TypeGuard[httpx.HTTPStatusError]:
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.TOO_MANY_REQUESTS


def _asked_to_wait(error: httpx.HTTPError) -> int:
    """Return for how many seconds a busy gateway asks to wait; 0 where it does not say."""
    said = error.response.headers.get("retry-after", "") if _is_busy(error) else ""
    return int(said) if said.isdecimal() else 0
