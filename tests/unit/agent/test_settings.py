"""Settings of the agent."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from placet.agent.settings import AgentSettings
from placet.domain.catalog import Catalog
from placet.domain.yaml_source import RulebookInvalid


def test_model_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model, address, key, time-out, retries, streaming and fallbacks are settings; the key is never shown."""
    values = {
        "PLACET_MODEL": "openai/gpt-x",
        "PLACET_MODEL_API_BASE": "http://models.example/v1",
        "PLACET_MODEL_API_KEY": "hush",
        "PLACET_MODEL_TIMEOUT_SECONDS": "7",
        "PLACET_MODEL_RETRIES": "1",
        "PLACET_MODEL_STREAM": "false",
        "PLACET_MODEL_FALLBACKS": '[{"model": "anthropic/claude-x", "api_key": "hush too"}]',
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    settings = AgentSettings()
    model = settings.model_settings()
    assert ("openai/gpt-x", "http://models.example/v1", 7.0, 1, False) == (
        model.model,
        model.api_base,
        model.timeout_seconds,
        model.retries,
        model.stream,
    )
    assert ["anthropic/claude-x"] == [fallback.model for fallback in model.fallbacks]
    assert "hush" not in repr(settings)


def test_defaults_need_no_key() -> None:
    """Without any setting the demo model answers; a turn holds for calls that wait until its requester writes."""
    settings = AgentSettings()
    behaviour = settings.behaviour()
    assert "python/shop.model:reply" == settings.model_settings().model
    assert (10, False) == (behaviour.steps_max, behaviour.final_answer)
    assert ("continue", "hold") == (behaviour.pending, behaviour.while_pending)


@pytest.mark.parametrize("name", ["agent_pending", "agent_while_pending"])
def test_unknown_mode_stops_the_start(name: str) -> None:
    """A misspelt mode is no mode."""
    with pytest.raises(ValidationError, match="Input should be"):
        AgentSettings.model_validate({name: "hurry"})


@pytest.mark.parametrize(
    ("region", "problem"),
    [
        ("UK", "3:25: no numbers of a region 'UK' are known, did you mean 'GB'?"),
        ("XX", "3:25: no numbers of a region 'XX' are known"),
    ],
)
def test_a_region_without_phone_numbers_stops_the_start(tmp_path: Path, region: str, problem: str) -> None:
    """Its national numbers would go to the model in plain, and nobody would notice."""
    path = tmp_path / "agents.yaml"
    settings = AgentSettings(agents=path)
    path.write_text(f"version: 1\nagents:\n  a: {{pseudonym_region: {region}}}\n")
    with pytest.raises(RulebookInvalid) as caught:
        settings.agents_of(Catalog([]))
    assert [f"{path}:{problem}"] == [str(each) for each in caught.value.problems]
