"""An approval by mail, from outside: held, mailed, looked at by a scanner, decided with a link, run, and told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.conftest import migrate
from tests.e2e.conftest import Stage
from tests.e2e.scenes import rulebook
from tests.support.mailed_links import choose, scan
from tests.support.people import Caller, a_visitor
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.smtp_server import MailServer, Received
from tests.support.system import REPLICAS, System, until

GRACE, HOPPER = "grace@example.org", "hopper@example.org"
MAILED = {
    "name": "flags-by-mail",
    "match": {"tool": "set_flag"},
    "effect": "require_approval",
    "reason": "Flags change what customers see.",
    "approval": {"approvers": ["group:releases"], "channels": ["email"]},
}


@pytest.fixture
def system(
    stage: Stage, databases: Databases, virtual_hosts: VirtualHosts, tmp_path: Path, relay: MailServer
) -> Iterator[System]:
    """One of each service, with a relay to mail through."""
    path = rulebook(tmp_path)
    content = yaml.safe_load(path.read_text())
    content["rules"].insert(0, MAILED)
    content["people"] |= {"grace": {"emails": [GRACE]}, "hopper": {"emails": [HOPPER]}}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(tmp_path, database_url, rabbitmq_url, path, dict(stage.environment))
        made.environment |= {
            "PLACET_PUBLIC_URL": made.url,
            "PLACET_EMAIL_HOST": "127.0.0.1",
            "PLACET_EMAIL_PORT": str(relay.port),
            "PLACET_EMAIL_SECURITY": "none",
            "PLACET_EMAIL_FROM": "placet@example.org",
            "PLACET_EMAIL_BOUNCES": "bounces@example.org",
        }
        made.prepare()
        for name in REPLICAS:
            made.add(name)
        try:
            asyncio.run(start(made))
            yield made
        finally:
            made.stop()


async def start(system: System) -> None:
    """Start every process, with patience for a busy machine: it is one system more than the other tests have."""
    for process in system.processes.values():
        process.start()
    for process in system.processes.values():
        await until(process.ready, f"{process.name} is ready", 180)


async def mails(relay: MailServer, recipient: str, count: int) -> list[Received]:
    """Return the mails to somebody once there are so many."""

    async def come() -> bool:
        return len(relay.of(recipient)) >= count

    await until(come, f"{count} mails to {recipient}")
    return relay.of(recipient)


@pytest.fixture
def relay() -> Iterator[MailServer]:
    """A relay that takes everything."""
    with MailServer().running() as running:
        yield running


@pytest.mark.timeout(360)
async def test_a_call_is_approved_by_mail_and_runs_once(stage: Stage, system: System, relay: MailServer) -> None:
    """A scanner opens and sends whatever it finds; a person decides; the call runs; everybody's thread says so."""
    visitor = await a_visitor(Caller(system.url, system.key("chat", person="shop-frontend")))
    await visitor.say("set the flag")
    (asked,), (other,) = await mails(relay, GRACE, 1), await mails(relay, HOPPER, 1)
    async with httpx.AsyncClient(base_url=system.url, timeout=20) as browser:
        await scan(browser, asked.link)
        before = stage.begun("set_flag", visitor.conversation)
        decided = await choose(browser, asked.link, decision="approve", reason="customers wait")
        answer = await visitor.see_answer()
        shown = await browser.get(other.link)
        late = await browser.post(other.link, data={"decision": "deny"})
    assert ([], 303, "The flag is set.") == (before, decided.status_code, answer)
    assert 1 == len(stage.begun("set_flag", visitor.conversation))
    assert (200, True, 409) == (shown.status_code, "approved by grace" in shown.text, late.status_code)
    for recipient, first in ((GRACE, asked), (HOPPER, other)):
        end = (await mails(relay, recipient, 2))[-1]
        assert first.message["Message-ID"] in str(end.message["References"]).split()
    proofs = "SELECT count(*) FROM approval.decisions WHERE proof = 'link' AND person = 'person:grace'"
    assert 1 == system.count(proofs)
    token = asked.link.rpartition("/")[2]
    assert token not in system.logs()
