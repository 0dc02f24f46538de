"""Pseudonyms with the real database: what a model reads, what everybody else sees, and workers that meet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.agent.personal import Personal
from placet.agent.pseudonymizing import pseudonymize
from placet.agent.pseudonyms import Entry
from placet.agent.rules import Claim
from placet.agent.store import ConversationSnapshot
from placet.agent.store import keep_pseudonyms as keep
from placet.agent.store import load_pseudonyms as load
from placet.agent.transcript import History, UserMessage
from placet.contracts.messages import ConversationDelta, ToolCallProposed
from placet.runtime.database import Database
from placet.runtime.in_process import InProcessBus
from placet.runtime.outbox import Outbox
from placet.runtime.work import UnitOfWork
from tests.builders import a_posted_message
from tests.support.agents import ScriptedModel, an_agent, finished, rows, says

ORIGINALS = ("ada@example.org", "Lovelace", "4111 1111", "171 1234567", "3704 0044")
SAID = (
    "I am Ada Lovelace, ada@example.org, +49 171 1234567, 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, "
    "not person-1@example.invalid"
)


@pytest.fixture
async def units(agent_url: str) -> AsyncIterator[UnitOfWork]:
    """Lend units of work on the agent's tables, with two conversations in them."""
    for name in ("c1", "c2"):
        statement = """
            INSERT INTO agent.conversations (conversation_id, tenant, agent, language, labels, queued, log_seq, version)
            VALUES (%s, 'acme', 'default', 'en', '{}', 0, 0, 0)
        """
        rows(agent_url, statement, name)
    database = Database(agent_url, service="agent")
    yield UnitOfWork(database, Outbox(database, InProcessBus()))
    await database.close()


def a_claim(conversation: str = "c1") -> Claim:
    """Return a claim in a conversation."""
    return Claim("acme", "assistant", conversation, "t", 1, 1, "m", {"kind": "visitor", "id": "ada"}, {"id": "t"})


def a_snapshot(text: str) -> ConversationSnapshot:
    """Return a conversation of one message."""
    history = History((UserMessage("t", 1, text, number=1),), (), ())
    return ConversationSnapshot("default", {}, history, [], "c1")


async def test_the_model_reads_pseudonyms_and_everybody_else_the_data(agent_url: str) -> None:
    """Call, text in pieces, whole text and what is stored have the data; the model never, over two turns."""
    mail, name = "person-2@example.invalid", "Person 1"
    model = ScriptedModel(
        [
            says(f"I look for {name}.", ("search", json.dumps({"text": mail}))),
            says(f"Found {name} at {mail}."),
            says("Bye"),
        ]
    )
    labels = {"name": "Ada Lovelace"}
    async with an_agent(agent_url, model, agent_pseudonyms=True) as agent:
        await agent.post(a_posted_message(conversation_id="c1", text=SAID, labels=labels))
        (proposed,) = await agent.came(ToolCallProposed)
        await agent.post(finished(proposed, data={"ada@example.org": ["Ada Lovelace", 4111111111111111]}))
        await agent.ended(1)
        await agent.post(a_posted_message(conversation_id="c1", text="thanks, ada@example.org"))
        await agent.ended(2)
    assert '{"text":"ada@example.org"}' == proposed.call.arguments
    said = [event.data["text"] for event in agent.items("message", "assistant")]
    assert ["I look for Ada Lovelace.", "Found Ada Lovelace at ada@example.org.", "Bye"] == said
    assert "".join(said) == "".join(delta.text for delta in agent.of(ConversationDelta))
    log = json.dumps([asked.messages for asked in model.asked], ensure_ascii=False)
    assert [] == [each for each in (*ORIGINALS, "4111111111111111") if each in log]
    assert 0 == agent.rows("SELECT count(*) FROM agent.steps WHERE raw->>'content' LIKE '%%example.invalid%%'")[0][0]


async def test_without_the_setting_a_model_sees_everything(agent_url: str, tmp_path: Path) -> None:
    """Off is the default; the file of agents decides for each of them, whatever the setting says."""
    path = tmp_path / "agents.yaml"
    path.write_text("version: 1\nagents:\n  open: {pseudonyms: false}\n  shut: {}\n")
    model = ScriptedModel([says("1"), says("2")])
    async with an_agent(agent_url, model, agents=path, agent_pseudonyms=True) as agent:
        for number, name in enumerate(("open", "shut"), 1):
            await agent.post(a_posted_message(conversation_id=name, agent=name, text="ada@example.org"))
            await agent.ended(number)
    assert ["ada@example.org", "person-1@example.invalid"] == [asked.messages[-1]["content"] for asked in model.asked]


async def test_workers_that_meet_call_a_datum_the_same(units: UnitOfWork) -> None:
    """Two replicas hide one conversation at once: each value is stored once, and both use what is stored."""
    texts = ["ada@example.org and grace@example.org", "grace@example.org and ada@example.org"] * 4
    readable = await asyncio.gather(
        *(pseudonymize(units.database, a_claim(), a_snapshot(text), Personal(), "") for text in texts)
    )
    async with units.database.single() as connection:
        stored = {entry.value: entry.pseudonym for entry in await load(connection, "c1")}
    assert {"ada@example.org", "grace@example.org"} == set(stored)
    expected = [" and ".join(stored[value] for value in text.split(" and ")) for text in texts]
    assert expected == [each.history.messages[0].text for each in readable]


async def test_nothing_is_stored_of_a_worker_that_was_slower(units: UnitOfWork) -> None:
    """What was made from a table that has grown since is refused; conversations share nothing."""
    ada = Entry("ada@example.org", "person-1@example.invalid", "e-mail", "ada@example.org", 1)
    grace = Entry("grace@example.org", "person-1@example.invalid", "e-mail", "grace@example.org", 1)
    kept = []
    for conversation, entry in (("c1", ada), ("c1", grace), ("c2", grace)):
        async with units.database.transaction() as connection:
            kept.append(await keep(connection, "acme", conversation, [entry], known=0))
    async with units.database.single() as connection:
        stored = [await load(connection, conversation) for conversation in ("c1", "c2")]
    assert ([True, False, True], [[ada], [grace]]) == (kept, stored)


async def test_pseudonyms_go_with_their_conversation(units: UnitOfWork, agent_url: str) -> None:
    """Who deletes a conversation deletes what its pseudonyms mean."""
    await pseudonymize(units.database, a_claim(), a_snapshot("ada@example.org"), Personal(), "")
    rows(agent_url, "DELETE FROM agent.conversations WHERE conversation_id = 'c1'")
    assert [(0,)] == rows(agent_url, "SELECT count(*) FROM agent.pseudonyms")


async def test_a_wrong_pattern_stops_the_start(agent_url: str, tmp_path: Path) -> None:
    """The mistake is told by file, line and column."""
    path = tmp_path / "agents.yaml"
    path.write_text('version: 1\nagents:\n  shut:\n    pseudonym_patterns: {customer: "K-([0-9]+"}\n')
    with pytest.raises(Exception, match=r"agents.yaml:4:36: .*missing \)"):
        async with an_agent(agent_url, ScriptedModel([]), agents=path):
            pass
