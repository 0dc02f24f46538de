"""RabbitMQ's definitions: what the topology says, and no right more than the golden table."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from placet.contracts.topology import EXCHANGES, MESSAGES, ROUTES, SERVICES
from placet.deploy.rabbitmq.definitions import (
    COMMITTED,
    RULEBOOK,
    PasswordsMissing,
    definitions,
    passwords_in,
    pools_of,
    text_of,
    user_name,
    with_passwords,
)
from placet.deploy.rabbitmq.rights import SENDERS, all_rights

POOLS = ("default", "payments")

#: Service -> exchange -> pattern of the keys it may publish with; retries and dead letters are tested apart.
MAY_PUBLISH = {
    "gateway": {
        "decisions": "^(decide|grant-revoke|dead-letter|delivery-retry|webhook-retry|key-offered|approval-commented"
        "|try-rulebook|resolve\\.(default|payments)|mail-bounced)$",
        "jobs": r"^(job\.run|job\.cancel)$",
        "messages": "^(.+)$",
    },
    "agent": {
        "conversations": r"^(handover\..+|items\..+|delta\..+)$",
        "jobs": r"^(job\.run|job\.cancel|attempt\.surfaced|job\.committed|attempt\.ended)$",
        "tool-calls": r"^(tool-call\.proposed|tool-call\.withdrawn|workspace\.calls-dropped|workspace\.discard)$",
    },
    "policy": {
        "approvals": r"^(approval\.requested|edit\.judged)$",
        "decisions": r"^(tried\..+)$",
        "executions": "^((default|payments)|placet-jobs)$",
        "tool-results": r"^(tool-call\.refused)$",
    },
    "approval": {
        "approvals": r"^(approval\.opened|approval\.progressed|approval\.closed|watched-call\.closed|call\.approved"
        r"|edit\.proposed)$",
        "decisions": r"^(answered\..+|grant-asked)$",
        "executions": "^((default|payments)|placet-jobs)$",
        "tool-results": r"^(tool-call\.refused)$",
    },
    "notifier": {},
    "executor": {
        "conversations": r"^(progress\..+)$",
        "executions": r"^((default|payments))$",
        "jobs": r"^(workspace\.merged)$",
        "tool-results": r"^(tool-call\.finished|tool-call\.refused|tool-call\.resolved|workspace\.expired"
        r"|workspace\.entries-discarded)$",
    },
    "jobs": {
        "conversations": r"^(job\..+)$",
        "jobs": r"^(attempt\.requested|attempt\.withdrawn|job\.propose)$",
        "tool-calls": r"^(workspace\.merge|workspace\.calls-dropped|workspace\.discard)$",
        "tool-results": r"^(tool-call\.finished|tool-call\.refused)$",
    },
    "dead_letters": {"decisions": r"^(abandon\..+)$"},
}
PRIVATE = {"gateway.live.replica-7", "gateway.answers.replica-7"}
MAY_CONSUME = {
    "gateway": {"gateway.handovers", *PRIVATE},
    "agent": {"agent.approvals", "agent.attempts", "agent.messages", "agent.progress", "agent.tool-results"},
    "policy": {"policy.tool-calls", "policy.edits", "policy.grants", "policy.tool-results", "policy.trials"},
    "approval": {"approval.decisions", "approval.edits", "approval.requests", "approval.withdrawals"},
    "notifier": {"notifier.approvals"},
    "executor": {"executor.default", "executor.payments", "workspaces.commands"},
    "jobs": {"jobs.attempts", "jobs.commands"},
    "dead_letters": {"dead-letters.commands", "dead-letters"},
}
QUEUES = {*(name for names in MAY_CONSUME.values() for name in names), "retry.1s", "retry.120s"}


def matching(pattern: str, names: set[str]) -> set[str]:
    """Return the names that RabbitMQ lets through; an empty pattern lets nothing through."""
    return {name for name in names if pattern and re.search(pattern, name)}


def test_the_committed_file_is_what_the_topology_says() -> None:
    """`python -m placet.deploy.rabbitmq.definitions` would change nothing."""
    assert COMMITTED.read_text() == text_of(definitions(pools_of(RULEBOOK)))


def test_the_committed_users_cannot_log_in() -> None:
    """There is one user per service, and no default password."""
    users = json.loads(COMMITTED.read_text())["users"]
    assert [user_name(service) for service in SERVICES] == [user["name"] for user in users]
    assert {""} == {user["password_hash"] for user in users}


def test_every_message_has_a_sender() -> None:
    """The table of senders names each message, and only messages that have a route."""
    assert ROUTES.keys() == SENDERS.keys()
    assert set(MESSAGES.values()) == set(SENDERS)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_publishes_with_its_own_keys_only(service: str) -> None:
    """The golden table: exchange and pattern of keys, for each service."""
    topics = all_rights(POOLS)[service].topics
    written = {name: right.write for name, right in topics.items() if right.write}
    written = {name: pattern for name, pattern in written.items() if name in EXCHANGES and name != "dead-letters"}
    assert MAY_PUBLISH[service] == written


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_writes_to_no_exchange_without_a_rule_for_its_keys(service: str) -> None:
    """RabbitMQ checks keys only where a topic permission exists, so each writable exchange has one."""
    rights = all_rights(POOLS)[service]
    exchanges = {*EXCHANGES, "retry.1s", "retry.5s", "retry.30s", "retry.120s"}
    assert matching(rights.write, exchanges) == set(rights.topics)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_consumes_its_own_queues_only(service: str) -> None:
    """The golden table of queues; nobody may consume what waits for its retry."""
    assert MAY_CONSUME[service] == matching(all_rights(POOLS)[service].read, QUEUES)


@pytest.mark.parametrize("service", SERVICES)
def test_a_retry_or_burial_names_an_own_queue(service: str) -> None:
    """Nobody can bring an event into another's queue by way of a retry, nor bury it in another's name."""
    durable = MAY_CONSUME[service] - PRIVATE
    topics = all_rights(POOLS)[service].topics
    for exchange in ("retry.1s", "retry.5s", "retry.30s", "retry.120s", "dead-letters"):
        assert durable == matching(topics[exchange].write, QUEUES)


def test_only_a_private_queue_of_a_gateway_is_ever_declared() -> None:
    """`configure` is empty but for the queues of a gateway instance, of which gateway.handovers is none."""
    configure = {service: matching(rights.configure, QUEUES) for service, rights in all_rights(POOLS).items()}
    assert {service: (PRIVATE if service == "gateway" else set()) for service in SERVICES} == configure


def test_only_dead_letters_reaches_the_default_exchange() -> None:
    """Its key is the name of any queue, so only the service that replays dead letters has it."""
    writers = [name for name, rights in all_rights(POOLS).items() if matching(rights.write, {"amq.default"})]
    assert ["dead_letters"] == writers


def test_only_the_gateway_binds() -> None:
    """Its private queues take answers to its own instance and the live part of conversations, never decisions."""
    rights = all_rights(POOLS)
    binders = {name: right.read for name, each in rights.items() for right in each.topics.values() if right.read}
    assert ["gateway"] == list(binders)
    keys = {"decide", "dead-letter", "answered.replica-7", "tried.replica-7", "delta.#", "items.#", "handover.#", "#"}
    topics = rights["gateway"].topics
    assert {"answered.replica-7", "tried.replica-7"} == matching(topics["decisions"].read, keys)
    assert {"delta.#", "items.#"} == matching(topics["conversations"].read, keys)


def test_a_password_becomes_a_salted_hash() -> None:
    """The hash is RabbitMQ's: four bytes of salt, then SHA-256 over salt and password."""
    made = with_passwords(definitions(POOLS), {service: f"secret of {service}" for service in SERVICES})
    for service, user in zip(SERVICES, made["users"], strict=True):
        raw = base64.b64decode(user["password_hash"])
        assert hashlib.sha256(raw[:4] + f"secret of {service}".encode()).digest() == raw[4:]


def test_a_missing_password_is_named() -> None:
    """Every variable that is not set is in the one line of the failure; an empty one counts as not set."""
    given: dict[str, Any] = {f"PLACET_RABBITMQ_PASSWORD_{service.upper()}": "x" for service in SERVICES}
    del given["PLACET_RABBITMQ_PASSWORD_AGENT"]
    given["PLACET_RABBITMQ_PASSWORD_DEAD_LETTERS"] = ""
    with pytest.raises(PasswordsMissing, match=r"AGENT, PLACET_RABBITMQ_PASSWORD_DEAD_LETTERS$"):
        passwords_in(given)
