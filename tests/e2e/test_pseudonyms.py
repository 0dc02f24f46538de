"""Personal data: the model's provider reads pseudonyms, and the user, the approver and the tool the data."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Stage
from tests.support.people import Caller, a_visitor
from tests.support.system import System

NAME, MAIL, CARD, PHONE = "Ada Lovelace", "ada@example.org", "4111 1111 1111 1111", "+49 171 1234567"
SAID = f"deploy for me: I am {NAME}, {MAIL}, {CARD}, {PHONE}"


@pytest.mark.parametrize("agent", ["veiled", "veiled-whole", "veiled-clerk"])
async def test_the_provider_reads_pseudonyms_and_everybody_else_the_data(
    system: System, stage: Stage, agent: str
) -> None:
    """Streamed, at once, and over the other provider's protocol: nothing of Ada's is in what the provider got."""
    frontend = Caller(system.url, system.key("chat", tenant="veiled"))
    approver = Caller(system.url, system.key("decide", person="grace", tenant="veiled"))
    visitor = await a_visitor(frontend, agent=agent, labels={"name": NAME})
    before = len(stage.model_log()["requests"])
    await visitor.say(SAID)
    card = await visitor.see_card()
    waiting = json.dumps(await approver.get(f"/v1/approvals/{card['approval_id']}"))
    assert {"service": MAIL, "version": NAME} == card["arguments"]
    assert [True, True, False] == [each in waiting for each in (MAIL, NAME, "person-2")]
    assert 200 == (await approver.decide(card, "approve")).status_code
    assert f"{NAME} is told at {MAIL}, not at person-1." == await visitor.see_answer()
    (begun,) = stage.begun("deploy", visitor.conversation)
    assert MAIL == begun["service"]
    log = json.dumps(stage.model_log()["requests"][before:], ensure_ascii=False)
    assert "person-2@example.invalid" in log
    assert [] == [each for each in (NAME, "Ada", MAIL, CARD, PHONE, "4111", "1234567") if each in log]
