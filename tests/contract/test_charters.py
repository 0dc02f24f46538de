"""Charters: what a service says it consumes, in the first lines of its package, is what the topology brings it."""

from __future__ import annotations

import re
from importlib import import_module
from types import SimpleNamespace

import pytest

from shared.topology import QUEUES, ROUTES, QueueSpec, executor_queue, key_matches

POOL = "default"
SERVICES = sorted({spec.service for spec in QUEUES} | {"executor"})
SPECS = (*QUEUES, executor_queue(POOL))
_CONSUMES = re.compile(r"Consumes:(.*?)(?:Emits:|Promises:)", re.DOTALL)


def brought(spec: QueueSpec) -> set[str]:
    """Return the names of the messages that the bindings of a queue let in."""
    message = SimpleNamespace(tenant="acme", answer_to="gateway-1", pool=POOL, queue=spec.name)
    return {
        kind.__name__
        for kind, route in ROUTES.items()
        for binding in spec.bindings
        if binding.exchange == route.exchange and key_matches(binding.key, route.key(message))
    }


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_consumes_what_its_charter_says(service: str) -> None:
    """No message more and none less; what comes to one instance alone is left out, because no queue of ours has it."""
    charter = import_module(f"services.{service}").__doc__ or ""
    found = _CONSUMES.search(charter)
    assert found is not None
    told = set(re.findall(r"\w+", found[1])) & {kind.__name__ for kind in ROUTES}
    own = {"ConversationDelta", "DecisionAnswered", "RulebookTried", "FeedAdvanced"}
    assert {name for spec in SPECS if spec.service == service for name in brought(spec)} == told - own
