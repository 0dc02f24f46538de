"""Every type of feed item is one that the API tells of and that the pages show, or pass over on purpose."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter

from placet.client.models import Job
from placet.client.models import Verb as ClientVerb
from placet.contracts.messages.approvals import Verb
from placet.gateway.conversations.item_models import FeedItem
from placet.gateway.conversations.items import ITEM_TYPES, READ_BY_PEOPLE
from placet.gateway.dialects import native_routes as conversations
from placet.jobs.states import JobState

STATIC = Path(__file__).parent.parent.parent / "services" / "gateway" / "web" / "static"
#: Types that the chat page does not show; none by now.
PASSED_OVER: frozenset[str] = frozenset()


def listed(script: str, name: str) -> list[str]:
    """Return the texts of a constant list of a script."""
    found = re.search(rf"^const {name} = (\[.*?\]);", (STATIC / script).read_text(), re.MULTILINE)
    assert found is not None
    return [str(each) for each in json.loads(found[1])]


def test_the_chat_page_listens_to_every_type() -> None:
    """An event stream is silent about what nobody listens to by name."""
    assert sorted({*ITEM_TYPES, "delta"} - PASSED_OVER) == sorted(listed("app.js", "TYPES"))


def test_the_chat_page_shows_what_it_listens_to() -> None:
    """Each type has a place in the feed."""
    cases = re.findall(r'^      case "(\w+)":', (STATIC / "feed.js").read_text(), re.MULTILINE)
    assert sorted(listed("app.js", "TYPES")) == sorted(cases)


def test_the_operators_page_listens_to_what_it_shows() -> None:
    """It is drawn by the server, which reads items of these types."""
    assert sorted(READ_BY_PEOPLE) == sorted(listed("operator.js", "KINDS"))


@pytest.mark.parametrize("kind", ITEM_TYPES)
def test_the_api_names_every_type(kind: str) -> None:
    """In the description of the event stream, and by a model of its own."""
    (stream,) = (route for route in conversations.router.routes if getattr(route, "name", "") == "follow")
    described = TypeAdapter(FeedItem).json_schema()["discriminator"]["mapping"]
    assert (True, True) == (kind in getattr(stream, "description", ""), kind in described)


def test_the_client_knows_every_state_of_a_job_and_every_verb() -> None:
    """What the server says must be readable, and what it does not take must not be offered."""
    known = (set(get_args(Job.model_fields["state"].annotation)), set(get_args(ClientVerb)))
    assert ({*map(str, JobState)}, set(get_args(Verb))) == known
