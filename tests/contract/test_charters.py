"""Charters: what a service says in the first lines of its package is what it is brought, and what it may send."""

from __future__ import annotations

import re
from importlib import import_module
from types import SimpleNamespace

import pytest

from placet.contracts.messages import JOBS_POOL, ToolCallPermitted
from placet.contracts.topology import QUEUES, ROUTES, QueueSpec, executor_queue, key_matches
from placet.deploy.rabbitmq.rights import SENDERS

POOL = "default"
SERVICES = sorted({spec.service for spec in QUEUES} | {"executor"})
SPECS = (*QUEUES, executor_queue(POOL))
_CONSUMES = re.compile(r"Consumes:(.*?)(?:Emits:|Promises:)", re.DOTALL)
_EMITS = re.compile(r"Emits:(.*?)Promises:", re.DOTALL)


def told(service: str, part: re.Pattern[str]) -> set[str]:
    """Return the names of the messages in one part of a charter."""
    found = part.search(import_module(f"placet.{service}").__doc__ or "")
    assert found is not None
    return set(re.findall(r"\w+", found[1])) & {kind.__name__ for kind in ROUTES}


def brought(spec: QueueSpec) -> set[str]:
    """Return the names of the messages that the bindings of a queue let in."""
    message = SimpleNamespace(tenant="acme", answer_to="gateway-1", pool=POOL, queue=spec.name)
    begins = SimpleNamespace(pool=JOBS_POOL)
    return {
        kind.__name__
        for kind, route in ROUTES.items()
        for binding in spec.bindings
        if binding.exchange == route.exchange
        and any(
            key_matches(binding.key, route.key(each)) for each in (message, *([begins] * (kind is ToolCallPermitted)))
        )
    }


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_consumes_what_its_charter_says(service: str) -> None:
    """No message more and none less; what comes to one instance alone is left out, because no queue of ours has it."""
    own = {"ConversationDelta", "DecisionAnswered", "RulebookTried", "ConversationItems", "JobEvents"}
    consumed = {name for spec in SPECS if spec.service == service for name in brought(spec)}
    assert consumed == told(service, _CONSUMES) - own


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_emits_what_its_charter_says(service: str) -> None:
    """No message more and none less than the broker lets it send."""
    assert {kind.__name__ for kind, senders in SENDERS.items() if service in senders} == told(service, _EMITS)
