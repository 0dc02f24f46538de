"""Kills, where the user says how: while a message is answered, their command ends something and brings it back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic, sleep
from typing import TypeVar

import httpx

from placet.cli.verify.scene import Row, Scene, an_id, judged, not_tried, opened, rests

T = TypeVar("T")
_PAUSE_SECONDS = 0.5


def killing(scene: Scene, commands: Sequence[str], agent: str, say: str, patience_seconds: float) -> Iterator[Row]:
    """Yield what became of a message during each command, and of the call that waits then, if one does."""
    for command in commands:
        made = opened(scene.http, scene.key, agent)
        if isinstance(made, Scene):
            yield from _killed(made, command, say, patience_seconds)
        else:
            yield not_tried("kill", command, f"no conversation can be opened: {made.status_code}")


def _killed(scene: Scene, command: str, say: str, patience_seconds: float) -> Iterator[Row]:
    message_id, end = an_id(), monotonic() + patience_seconds
    _patiently(lambda: scene.say(say, message_id).raise_for_status(), end)
    # The user's own command, as they would type it.
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    if done.returncode:
        yield not_tried(
            "kill", command, f"it ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
        return
    _patiently(lambda: scene.say(say, message_id).raise_for_status(), end)
    answered = _patiently(lambda: scene.sees(rests, max(end - monotonic(), 1)), end)
    items = _patiently(lambda: list(scene.items()), end)
    messages = sum(each["type"] == "message" and each["data"].get("message_id") == message_id for each in items)
    begun = sum(each["type"] == "turn" and each["data"]["state"] == "started" for each in items)
    found = f"{messages} message, {begun} turn, {'at rest' if answered else 'not at rest in time'}"
    yield judged("kill", command, found, held=answered and (messages, begun) == (1, 1))
    yield from _waiting(scene, command, end)
    _patiently(lambda: scene.ask("POST", f"{scene.path}/end"), end)


def _waiting(scene: Scene, command: str, end: float) -> Iterator[Row]:
    """Yield whether a call that waits is decided once; it is denied."""
    if not (waits := _patiently(lambda: scene.shown()["approvals"], end)):
        return
    card, attack = waits[0], f"what waits after: {command}"
    deny = {"decision": "deny", "digest": card["digest"], "reason": "placet verify"}
    path = f"/v1/approvals/{card['id']}/decisions"
    token = ""
    for token in (scene.key, scene.token):
        answer = _patiently(partial(scene.ask, "POST", path, token, json=deny), end)
        if answer.status_code != httpx.codes.FORBIDDEN:
            break
    again = _patiently(partial(scene.ask, "POST", path, token, json=deny), end)
    codes = [answer.status_code, again.status_code]
    if codes[0] == httpx.codes.FORBIDDEN:
        yield not_tried("kill", attack, "neither key nor token decides this call alone")
        return
    yield judged("kill", attack, f"denied twice: {codes[0]}, {codes[1]}", held=codes == [200, 409])


def _patiently(ask: Callable[[], T], end: float) -> T:
    """Return an answer of a gateway that may be away; raise httpx.HTTPError where it does not come back in time."""
    while True:
        try:
            found = ask()
            if isinstance(found, httpx.Response) and found.is_server_error:
                found.raise_for_status()
        except httpx.HTTPError:
            if monotonic() > end:
                raise
        else:
            return found
        sleep(_PAUSE_SECONDS)
