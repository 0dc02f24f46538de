"""One gated call as operators see it: one trace, one line for each change of a state, the metrics of each service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import migrate
from tests.e2e.conftest import Stage
from tests.e2e.scenes import agents, rulebook
from tests.support.collector import Collector, collecting
from tests.support.http import http_client
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, running, until

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
SERVICES = ("gateway", "agent", "policy", "approval", "notifier", "executor", "dead_letters")
METRICS = {
    "gateway": ["placet_http_requests_total"],
    "agent": ["placet_model_seconds_count", "placet_model_tokens_total"],
    "policy": ["placet_verdicts_total"],
    "approval": [
        "placet_approvals_pending",
        "placet_approvals_oldest_seconds",
        "placet_approvals_ended_total",
        "placet_approval_decided_seconds_count",
    ],
    "notifier": [],
    "executor": ["placet_executor_unknown", "placet_executor_queue_depth", "placet_executor_executions_total"],
    "dead_letters": ["placet_dead_letters_waiting"],
}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """What all services send their spans to."""
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def observed(
    stage: Stage,
    collector: Collector,
    databases: Databases,
    virtual_hosts: VirtualHosts,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[System]:
    """One of each service, with traces."""
    folder = tmp_path_factory.mktemp("observed")
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        named = agents(folder, f"http://127.0.0.1:{stage.model_port}")
        environment = stage.environment | {"PLACET_AGENTS": str(named), "CLERK_MODEL_KEY": "scripted-key"}
        environment |= {"PLACET_OTLP_ENDPOINT": collector.url}
        made = System(folder, database_url, rabbitmq_url, rulebook(folder), environment)
        with running(made, dict.fromkeys(SERVICES, 1)):
            yield made


async def a_gated_call(system: System) -> tuple[Visitor, dict[str, Any]]:
    """Have one call approved and run; return its visitor and its card."""
    visitor = await a_visitor(Caller(system.url, system.key("chat")))
    posted = await visitor.request(
        "POST", f"{visitor.path}/messages", json={"text": "deploy the shop"}, headers=TRACEPARENT
    )
    posted.raise_for_status()
    card = await visitor.see_card()
    operator = Caller(system.url, system.key("decide", person="grace"))
    decision = {"decision": "approve", "digest": card["digest"]}
    place = f"/v1/approvals/{card['approval_id']}/decisions"
    (await operator.request("POST", place, json=decision, headers=TRACEPARENT)).raise_for_status()
    await visitor.see(is_result("deploy"))
    await visitor.see_answer()
    return visitor, card


async def test_a_gated_call_is_one_trace_one_line_a_change_and_in_the_metrics(
    observed: System, collector: Collector
) -> None:
    """Whoever has one of its ids finds all of it."""
    visitor, card = await a_gated_call(observed)
    services = {f"placet-{name}" for name in SERVICES if name != "dead_letters"}
    spans = {"POST /v1/conversations/{conversation_id}/messages", "model openai/scripted", "tool deploy"}

    async def exported() -> bool:
        return services <= collector.services_of(TRACE) and spans <= collector.names_of(TRACE)

    await until(exported, "spans of all services came")
    traces = [collector.traces_of("call_id", card["call_id"]), collector.traces_of("approval_id", card["approval_id"])]
    assert [{TRACE}, {TRACE}] == traces
    lines = [json.loads(line) for line in observed.logs().splitlines() if line.startswith("{")]
    # What the channel `log` shows people is a card, and no line of the service's own.
    # Nor is it any change that a channel of the rulebook is not set up here, or that the history was sealed.
    lines = [
        line for line in lines if line["event"] not in {"approval.card", "audit.sealed", "notifier.channels_not_set_up"}
    ]
    assert {"service", "turn", "tool_call", "verdict", "approval", "execution"} == {
        line["event"].split(".")[0] for line in lines
    }
    told = [line for line in lines if line.get("call_id") == card["call_id"]]
    assert [
        "approval.approve",
        "approval.opened",
        "execution.claimed",
        "execution.succeeded",
        "tool_call.proposed",
        "tool_call.result_came",
        "verdict.given",
    ] == sorted(line["event"] for line in told)
    assert {(TRACE, "info", visitor.conversation)} == {
        (line["trace_id"], line["level"], line["conversation_id"]) for line in told
    }

    # Before it is held a call has no approval.
    later = [line for line in told if line["event"] not in {"tool_call.proposed", "verdict.given"}]
    assert {card["approval_id"]} == {line["approval_id"] for line in later}

    for name, expected in METRICS.items():
        async with http_client() as client:
            port = observed.processes[f"{name}-1"].health_port
            text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        assert [] == [each for each in (*expected, "placet_outbox_age_seconds") if f"\n{each}" not in text], name


def test_a_step_that_takes_too_long_is_counted(
    databases: Databases, virtual_hosts: VirtualHosts, tmp_path: Path
) -> None:
    """A service of its own ends it too; who asked for it is told, and operators see that it happened."""
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(tmp_path, database_url, rabbitmq_url, environment={"PLACET_STEP_SECONDS": "0.05"})
        with running(made, {"gateway": 1}):
            # To draw the whole API for the first time takes several times as long.
            dear = httpx.get(f"{made.url}/openapi.json", timeout=60)
            metrics = httpx.get(f"{made.url}/metrics", timeout=60)
    counted = [line.split() for line in metrics.text.splitlines() if line.startswith("placet_steps_too_long_total")]
    assert (422, 1) == (dear.status_code, len(counted))
    assert float(counted[0][1]) >= 1
