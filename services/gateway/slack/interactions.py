"""What Slack tells us of a click or a submitted modal, read from its payload. Pure; anything odd is Malformed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placet.contracts.canonical import sha256_hex
from placet.contracts.errors import PlacetError
from placet.surfaces.slack import Subject, parse_subject


class Malformed(PlacetError):
    """The payload is none that Slack sends for our cards."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who did it."""

    #: The workspace of the app, where the card is.
    team: str
    #: The workspace that the user belongs to: another one, where they came through a shared channel.
    home: str
    user: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where the card is."""

    channel: str
    ts: str


@dataclass(frozen=True, slots=True)
class Click:
    """One press of a button."""

    sender: Sender
    subject: Subject
    place: Place
    #: The same for the same press, however often it is told.
    key: str


@dataclass(frozen=True, slots=True)
class Input:
    """What stands in one input of a submitted modal: `kind` is its action id."""

    block_id: str
    kind: str
    text: str
    #: Of checkboxes: the values of those that are checked.
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Submission:
    """One submitted modal."""

    sender: Sender
    subject: Subject
    place: Place
    inputs: tuple[Input, ...]
    key: str

    def chosen(self, prefix: str) -> frozenset[str]:
        """Return what is checked in all inputs whose block begins with `prefix`."""
        return frozenset(each for given in self.inputs if given.block_id.startswith(prefix) for each in given.chosen)

    def text(self, block_id: str) -> str:
        """Return what stands in an input; empty where there is none."""
        return next((each.text for each in self.inputs if each.block_id == block_id), "")


def key_of(payload: Mapping[str, Any]) -> str:
    """Return what tells one interaction from every other: the same for a replay and for a repeated delivery."""
    actions = payload.get("actions")
    action = actions[0] if isinstance(actions, list) and actions and isinstance(actions[0], dict) else {}
    view, sender = _mapping(payload, "view"), read_sender(payload)
    return sha256_hex(
        [
            payload.get("type"),
            sender.team,
            sender.user,
            payload.get("trigger_id"),
            action.get("action_id"),
            action.get("action_ts"),
            view.get("id"),
        ]
    )


def read_click(payload: Mapping[str, Any]) -> Click:
    """Return the press of one of our buttons."""
    container, action = _mapping(payload, "container"), payload["actions"][0]
    subject = parse_subject(text_in(action, "value"))
    if subject is None:
        raise Malformed("the button's value is none of ours")
    place = Place(text_in(container, "channel_id"), text_in(container, "message_ts"))
    return Click(read_sender(payload), subject, place, key_of(payload))


def read_submission(payload: Mapping[str, Any]) -> Submission:
    """Return one of our modals as it was submitted."""
    view = _mapping(payload, "view")
    try:
        carried = json.loads(text_in(view, "private_metadata"))
        subject, place = parse_subject(carried["subject"]), Place(str(carried["channel"]), str(carried["ts"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Malformed("the modal is none of ours") from error
    if subject is None:
        raise Malformed("the modal is about nothing of ours")
    inputs = tuple(
        Input(block_id, kind, _given(element), _checked(element))
        for block_id, elements in _mapping(_mapping(view, "state"), "values").items()
        if isinstance(elements, dict)
        for kind, element in elements.items()
        if isinstance(element, dict)
    )
    return Submission(read_sender(payload), subject, place, inputs, key_of(payload))


def carried(subject: Subject, place: Place) -> str:
    """Return what a modal carries about where it came from."""
    return json.dumps({"subject": subject.text(), "channel": place.channel, "ts": place.ts})


def read_sender(payload: Mapping[str, Any]) -> Sender:
    """Return who sent an interaction."""
    user = _mapping(payload, "user")
    # An app that serves a whole organisation is told no team.
    team = _mapping(payload, "team").get("id") or _mapping(payload, "enterprise").get("id") or ""
    home = user.get("team_id") or team
    return Sender(str(team), str(home), text_in(user, "id"))


def _given(element: Mapping[str, Any]) -> str:
    option = element.get("selected_option")
    value = option.get("value") if isinstance(option, dict) else element.get("value")
    return value if isinstance(value, str) else ""


def _checked(element: Mapping[str, Any]) -> tuple[str, ...]:
    options = element.get("selected_options")
    found = [text_in(each, "value") for each in options if isinstance(each, dict)] if isinstance(options, list) else []
    return tuple(found)


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def text_in(value: Mapping[str, Any], name: str) -> str:
    """Return a text of a payload; empty where there is none."""
    found = value.get(name)
    return found if isinstance(found, str) else ""
