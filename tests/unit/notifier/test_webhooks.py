"""Webhooks: which there are, where they may lead, and what they hear."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.messages import ToolCallRefused
from placet.domain.yaml_source import RulebookInvalid
from placet.notifier import webhook_events
from placet.notifier.channels import ChannelFailed
from placet.notifier.channels.webhook_targets import Names, address_of, is_allowed
from placet.notifier.look_ups import LookUps
from placet.notifier.webhook_endpoints import Endpoint, load_endpoints
from tests.builders import NOON, a_call
from tests.support.cards import closed, finished, opened

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
PRIVATE = ["127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "::1", "fd00::1", "fec0::1"]
NEVER = ["169.254.169.254", "0.0.0.0", "::", "224.0.0.1", "fe80::1", "fe80::1%eth0", "255.255.255.255", "ff02::1"]  # noqa: S104
DISGUISED = ["::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "64:ff9b::a9fe:a9fe"]


def an_endpoint(**changes: Any) -> Endpoint:
    """Return a webhook that hears of everything."""
    return Endpoint.model_validate({"url": "https://example.org/hook", "secrets": [SECRET], "events": ["*"]} | changes)


def test_webhooks_are_read_from_a_file(tmp_path: Path) -> None:
    """By name, with what stands there and nothing else."""
    file = tmp_path / "webhooks.yaml"
    file.write_text(f"webhooks:\n  crm:\n    url: https://example.org/hook\n    secrets: [{SECRET}]\n")
    (name,) = found = load_endpoints(file)
    assert ("crm", "https://example.org/hook", []) == (name, found[name].url, found[name].events)
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    "line",
    [
        "url: ftp://example.org/hook",
        "url: https://ada:pw@example.org/hook",
        "url: https:///hook",
        "secrets: [whsec_dG9vIHNob3J0]",
        "secrets: [plain]",
        "secrets: []",
        "events: [approval.everything]",
        "nonsense: 1",
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path: Path, line: str) -> None:
    """A wrong webhook stops the start; its secret is not told."""
    file = tmp_path / "webhooks.yaml"
    entry = {"url": "url: https://example.org/hook", "secrets": f"secrets: [{SECRET}]"}
    entry[line.split(":", maxsplit=1)[0]] = line
    file.write_text("webhooks:\n  crm:\n" + "".join(f"    {each}\n" for each in entry.values()))
    with pytest.raises(RulebookInvalid) as caught:
        load_endpoints(file)
    assert str(file) in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_reached_only_where_that_is_meant(address: str) -> None:
    """What is inside stays inside unless the webhook says `private`."""
    assert (False, True) == (is_allowed(address, private=False), is_allowed(address, private=True))


@pytest.mark.parametrize("address", NEVER)
def test_what_is_no_host_is_never_reached(address: str) -> None:
    """Metadata services, broadcasts and nowhere stay shut whatever the webhook says."""
    assert (False, False) == (is_allowed(address, private=False), is_allowed(address, private=True))


@pytest.mark.parametrize("address", DISGUISED)
def test_a_disguised_address_is_judged_by_what_it_stands_for(address: str) -> None:
    """An IPv6 address that leads to an IPv4 one is no way around."""
    assert not is_allowed(address, private=False)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_like_the_plain_one(address: Any) -> None:
    """For every IPv4 address there is."""
    mapped = f"::ffff:{address}"
    assert [is_allowed(str(address), private=each) for each in (False, True)] == [
        is_allowed(mapped, private=each) for each in (False, True)
    ]


async def test_one_private_address_among_public_ones_spoils_all() -> None:
    """A name that answers with both wants to be tried until the wrong one is taken."""

    async def look_up(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(ChannelFailed) as caught:
        await address_of("example.org", 443, look_up, private=False)
    assert caught.value.permanent


@pytest.mark.parametrize(("address", "advised"), [("10.0.0.1", True), ("169.254.169.254", False)])
async def test_advice_is_given_where_it_helps(address: str, *, advised: bool) -> None:
    """What stays shut also where private addresses are meant is not said to open by that."""

    async def look_up(_host: str, _port: int) -> list[str]:
        return [address]

    with pytest.raises(ChannelFailed) as caught:
        await address_of("example.org", 443, look_up, private=False)
    assert advised == ("private: true" in str(caught.value))


async def test_a_name_whose_servers_are_silent_keeps_no_other() -> None:
    """However many ask for it, and whoever gives up: it is asked for once, and others have their answer meanwhile."""
    answer, asked = threading.Event(), []

    def resolve(host: str) -> list[str]:
        asked.append(host)
        if host == "silent.example":
            answer.wait()
        return ["93.184.216.34"]

    names = Names(resolve)
    waiting = [asyncio.create_task(names.look_up("silent.example", 443)) for _ in range(64)]
    try:
        async with asyncio.timeout(10):
            assert ["93.184.216.34"] == await names.look_up("quick.example", 443)
        waiting.pop().cancel()
        assert ["quick.example", "silent.example"] == sorted(asked)
    finally:
        answer.set()
    assert [["93.184.216.34"]] * 63 == await asyncio.gather(*waiting)


async def test_a_name_is_asked_for_again_once_it_was_answered() -> None:
    """No answer is kept, neither good nor bad."""
    answers: list[list[str]] = [[], ["93.184.216.34"]]

    def resolve(_host: str) -> list[str]:
        if not (found := answers.pop(0)):
            raise OSError(-3, "Temporary failure in name resolution")
        return found

    names = Names(resolve)
    with pytest.raises(OSError, match="Temporary"):
        await names.look_up("example.org", 443)
    assert ["93.184.216.34"] == await names.look_up("example.org", 443)


async def test_a_look_up_that_fails_when_nobody_waits_is_heard() -> None:
    """No traceback of the event loop's is left for who reads the log."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
    begun, answer = asyncio.Event(), asyncio.Event()

    async def look_up() -> str:
        begun.set()
        await answer.wait()
        raise OSError("no answer")

    look_ups = LookUps[str]()
    waiting = asyncio.create_task(look_ups.find("a", look_up))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    answer.set()
    for _ in range(5):
        await asyncio.sleep(0)
    # Its frames hold the look-up.
    del waiting
    gc.collect()
    assert [] == complaints


async def test_a_name_without_an_address_is_tried_again() -> None:
    """A resolver that is away comes back."""

    async def look_up(_host: str, _port: int) -> list[str]:
        raise OSError(-3, "Temporary failure in name resolution")

    with pytest.raises(ChannelFailed) as caught:
        await address_of("example.org", 443, look_up, private=False)
    assert not caught.value.permanent


def test_a_webhook_hears_of_its_events_and_tenants_only() -> None:
    """Patterns are of whole names; without tenants all are meant."""
    endpoint = an_endpoint(events=["approval.*", "tool_call.finished"], tenants=["acme"])
    names = ["approval.opened", "approval.closed", "tool_call.finished", "tool_call.refused"]
    assert [True, True, True, False] == [endpoint.hears(name, "acme") for name in names]
    assert not endpoint.hears("approval.opened", "rival")
    assert not an_endpoint(events=[]).hears("approval.opened", "acme")


def test_an_event_says_no_more_than_people_may_see() -> None:
    """Arguments as they are shown, no result, no edited or executed arguments, no error text of a tool."""
    call = a_call(arguments={"card": "4111", "name": "Ada"}, shown_arguments='{"card":"•••","name":"Ada"}')
    news = opened(call=call)
    secret = {"data": {"token": "tok-1"}, "error": "tok-1", "executed": '{"card":"4111"}'}
    refused = ToolCallRefused(
        tenant="acme", call_id="c", conversation_id="c", tool="pay", kind="denied", reason="4111 is no number"
    )
    for message in (news, closed(news), finished(news, **secret), refused):
        ((event),) = webhook_events.heard(message, "m", {"crm": an_endpoint()}, NOON)
        told = json.loads(event.body)
        assert (event.type, "acme", NOON.isoformat()) == (told["type"], told["data"]["tenant"], told["timestamp"])
        assert "4111" not in event.body
        assert "tok-1" not in event.body


def test_an_event_has_one_id_for_each_webhook() -> None:
    """The same message handled again is the same event; two webhooks hear two."""
    endpoints = {"crm": an_endpoint(), "erp": an_endpoint()}
    first, again = (
        [event.event_id for event in webhook_events.heard(opened(), "message-1", endpoints, NOON)] for _ in range(2)
    )
    assert (2, first) == (len(set(first)), again)
    assert not any("." in event_id for event_id in first)


@given(st.uuids().map(str))
def test_waits_grow_and_end(event_id: str) -> None:
    """Each wait is longer than the one before, at most a fifth above the schedule, and there are nine."""
    waits = [webhook_events.wait_before(event_id, attempt) for attempt in range(1, 11)]
    assert waits[-1] is None
    known = [wait for wait in waits if wait is not None]
    assert all(earlier < later for earlier, later in pairwise(known))
    assert all(base <= wait <= base * 1.2 for base, wait in zip(webhook_events.RETRY_SECONDS, known, strict=True))
