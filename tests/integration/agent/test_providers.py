"""The agent as it is wired in production: through the model library, to providers that refuse invalid transcripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from placet.agent.model import ModelSettings
from placet.agent.rules import NO_MODEL, TOO_LONG
from placet.contracts.messages import ToolCallProposed
from tests.builders import a_posted_message
from tests.support.agents import an_agent, finished, refused
from tests.support.model_script import Script
from tests.support.model_server import ModelServer, serving

CALLS = [
    {"name": "search_products", "arguments": {"text": "shoes"}, "id": "call_1"},
    {"name": "search_products", "arguments": '{"text": "sho', "id": "call_1"},
    {"name": "no such tool!", "arguments": {}},
    {"name": "create_pay_link", "arguments": {"amount": 299, "currency": "TRY"}},
]
SCRIPT = Script.model_validate(
    {
        "rules": [
            {"user": "thanks", "answer": {"text": "You are welcome."}},
            {"user": "go", "first": [{"status": 500}], "answer": {"text": "Hm.", "thinking": "Hm", "calls": CALLS}},
        ],
        "otherwise": {"text": "Here you are."},
    }
)


def model_of(provider: str, server: ModelServer) -> dict[str, Any]:
    """Return the settings that lead to the scripted server."""
    base = {"openai": server.openai_base, "anthropic": server.anthropic_base}[provider]
    return {"model": f"{provider}/scripted", "model_api_base": base, "model_api_key": SecretStr("x")}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_strict_provider_takes_every_request(agent_url: str, provider: str, *, stream: bool) -> None:
    """Repeated ids, garbage arguments, an unknown tool and a denied call leave a transcript that both accept."""
    async with (
        serving(SCRIPT) as server,
        an_agent(agent_url, None, **model_of(provider, server), model_stream=stream) as agent,
    ):
        await agent.post(a_posted_message(text="go"))
        pay, search = sorted(await agent.came(ToolCallProposed, 2), key=lambda proposed: proposed.call.tool)
        await agent.post(refused(pay), finished(search))
        await agent.ended(1)
        await agent.post(a_posted_message(text="thanks"))
        ends = await agent.ended(2)
        assert [None] * 4 == [request.rejected for request in server.requests]
    assert ["finished", "finished"] == [end.data["state"] for end in ends]
    texts = [event.data["text"] for event in agent.items("message", "assistant")]
    assert ["Hm.", "Here you are.", "You are welcome."] == texts
    kinds = [(event.data["tool"], event.data["kind"]) for event in agent.items("tool_call", "success", "error")]
    assert [("search_products", "invalid"), ("no such tool!", "invalid")] == kinds[:2]


async def test_provider_that_is_down_costs_one_turn(agent_url: str) -> None:
    """After the retries the turn fails with a sentence for people; no provider's words get out."""
    async with (
        serving(Script.model_validate({"otherwise": {"status": 401}})) as server,
        an_agent(agent_url, None, **model_of("openai", server), model_retries=0) as agent,
    ):
        await agent.post(a_posted_message(text="go"))
        (end,) = await agent.ended(1)
    assert {"state": "failed", "reason": NO_MODEL} == end.end


def with_key(where: str, key: str, provider: str, server: ModelServer, folder: Path) -> dict[str, Any]:
    """Return settings under which the model is asked with a key of the house, or of the file of agents."""
    house = model_of(provider, server)
    if where == "house":
        return house | {"model_api_key": SecretStr(key)}
    named = {"model": house["model"], "model_api_base": house["model_api_base"], "model_api_key_env": "MODEL_KEY"}
    file = folder / "agents.yaml"
    file.write_text(json.dumps({"version": 1, "agents": {"default": named}}))
    return {"agents": file, "model_retries": 0}


@pytest.mark.parametrize("where", ["house", "agent"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_new_key_of_a_model_takes_the_place_of_the_old_one(
    agent_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, where: str
) -> None:
    """With both at the provider no turn is lost; with the old one taken back only a restarted agent is answered."""
    ends: list[dict[str, Any]] = []
    async with serving(SCRIPT) as server:
        for key, *rounds in (("old", {"old"}, {"new"}), ("new", {"old", "new"}, {"new"})):
            monkeypatch.setenv("MODEL_KEY", key)
            async with an_agent(agent_url, None, **with_key(where, key, provider, server, tmp_path)) as agent:
                for number, taken in enumerate(rounds, 1):
                    server.keys = taken
                    await agent.post(a_posted_message(text="thanks", conversation_id=f"{key}-{number}"))
                    ends.append((await agent.ended(number))[-1].end)
    answered = {"state": "finished", "reason": ""}
    assert [answered, {"state": "failed", "reason": NO_MODEL}, answered, answered] == ends


@pytest.mark.parametrize(
    ("provider", "error", "code"),
    [
        ("openai", "This model's maximum context length is 128000 tokens.", "context_length_exceeded"),
        ("openai", "Your input exceeds the context window of this model.", "context_length_exceeded"),
        ("openai", "Too much.", "context_length_exceeded"),
        ("anthropic", "prompt is too long: 210000 tokens > 200000 maximum", None),
    ],
)
async def test_conversation_that_is_too_long_says_so(
    agent_url: str, provider: str, error: str, code: str | None
) -> None:
    """Writing again would end the same way for ever, so people read that they should begin a new one; asked once."""
    too_long = Script.model_validate({"otherwise": {"status": 400, "error": error, "code": code}})
    async with serving(too_long) as server, an_agent(agent_url, None, **model_of(provider, server)) as agent:
        await agent.post(a_posted_message(text="go"))
        (end,) = await agent.ended(1)
    assert ({"state": "failed", "reason": TOO_LONG}, 1) == (end.end, len(server.requests))


@pytest.mark.parametrize(("status", "reason"), [(400, TOO_LONG), (500, NO_MODEL)])
async def test_conversation_is_too_long_where_no_model_may_answer_it_later(
    agent_url: str, status: int, reason: str
) -> None:
    """A fallback that is down may be back in a moment, and read more than the model that it stands in for."""
    rules = [
        {"model": "small", "answer": {"status": 400, "code": "context_length_exceeded"}},
        {"model": "large", "answer": {"status": status}},
    ]
    async with serving(Script.model_validate({"rules": rules})) as server:
        base = {"api_base": server.openai_base, "api_key": "x", "retries": 0}
        large = ModelSettings.model_validate({"model": "openai/large", **base})
        small = model_of("openai", server) | {"model": "openai/small", "model_fallbacks": [large]}
        async with an_agent(agent_url, None, **small) as agent:
            await agent.post(a_posted_message(text="go"))
            (end,) = await agent.ended(1)
    assert {"state": "failed", "reason": reason} == end.end


async def test_demo_model_needs_no_key(agent_url: str) -> None:
    """With no setting at all the demo model proposes the shop's tools."""
    async with an_agent(agent_url, None) as agent:
        await agent.post(a_posted_message(text="find red shoes under 500"))
        (proposed,) = await agent.came(ToolCallProposed)
    assert ("search_products", '{"max_price":500,"text":"red shoes"}') == (proposed.call.tool, proposed.call.arguments)
