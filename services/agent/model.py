"""One model and how to reach it: a value, so that settings can be read without the library that asks models."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class ModelSettings(BaseModel):
    """One model and how to reach it; `fallbacks` are tried in order when it cannot answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: `provider/name` as litellm spells it; `python/module:function` is one of own code.
    model: str = Field(min_length=1)
    #: Where the provider answers; None is its public address.
    api_base: str | None = None
    api_key: SecretStr | None = None
    #: One attempt, from the request to the last word.
    timeout_seconds: float = Field(default=60.0, gt=0)
    #: Everything: attempts, waits and fallbacks. Only the first model's number counts.
    total_seconds: float = Field(default=300.0, gt=0)
    #: Further attempts after the first one, for failures that are worth it.
    retries: int = Field(default=2, ge=0, le=10)
    #: Stream the text as it comes; without, it comes in one piece at the end.
    stream: bool = True
    #: None leaves these two to the provider. A model that does not know one refuses the call by its name.
    temperature: float | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    fallbacks: tuple[ModelSettings, ...] = ()

    def chain(self) -> Iterator[ModelSettings]:
        """Yield whom to ask, in order: this model, then its fallbacks with theirs."""
        yield self
        for fallback in self.fallbacks:
            yield from fallback.chain()
