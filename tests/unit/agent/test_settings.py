"""Settings of the agent."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from services.agent.settings import AgentSettings


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
    """Without any setting the demo model answers, and a message waits for the end of the turn."""
    settings = AgentSettings()
    behaviour = settings.behaviour()
    assert "placet-demo/demo" == settings.model_settings().model
    assert (10, False, False) == (behaviour.steps_max, behaviour.final_answer, behaviour.supersede)


def test_continue_is_refused_clearly() -> None:
    """A mode that does not exist yet stops the start and says what to use."""
    with pytest.raises(ValidationError, match="`continue` is not available yet; use `wait` or `supersede`"):
        AgentSettings.model_validate({"agent_pending": "continue"})
