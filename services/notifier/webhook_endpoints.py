"""Which webhooks there are: read from a file of their own, which holds their secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator

from placet.domain.yaml_source import RulebookInvalid, WrittenEntry, read_yaml

#: Bytes of a signing key: fewer are guessed, more are of no use.
KEY_BYTES = range(24, 65)
PREFIX = "whsec_"

EventName = Annotated[
    str, Field(pattern=r"^(\*|approval\.(\*|opened|progressed|closed)|tool_call\.(\*|progressed|finished|refused))$")
]


class Endpoint(WrittenEntry):
    """One webhook."""

    url: Annotated[
        str, Field(max_length=2_000, description="Where it listens: https, or http within your own network.")
    ]
    secrets: Annotated[
        list[SecretStr],
        Field(min_length=1, max_length=5, description="`whsec_…`; several while one takes the place of another."),
    ]
    events: list[EventName] = Field(
        default_factory=list,
        description="What it hears of beside the cards of rules that name it: `approval.*`, `tool_call.finished`, `*`.",
    )
    tenants: list[str] = Field(default_factory=list, description="Of these tenants only; empty: of all.")
    private: bool = Field(default=False, description="True: it may be within your own network.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        parts = urlsplit(url)
        # Asking for the port raises ValueError where it is none.
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.port == 0:
            raise ValueError("a webhook's url is http(s)://host/path, without a user")
        return url

    @field_validator("secrets")
    @classmethod
    def _check_secrets(cls, secrets: list[SecretStr]) -> list[SecretStr]:
        for secret in secrets:
            text = secret.get_secret_value()
            try:
                key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
            except binascii.Error:
                key = b""
            if not text.startswith(PREFIX) or len(key) not in KEY_BYTES:
                raise ValueError(f"a webhook's secret is {PREFIX} and 24 to 64 random bytes in base64")
        return secrets

    def hears(self, event: str, tenant: str) -> bool:
        """Tell whether it hears of events of this type in this tenant."""
        return self.is_of(tenant) and any(fnmatchcase(event, pattern) for pattern in self.events)

    def is_of(self, tenant: str) -> bool:
        """Tell whether it may hear anything of this tenant."""
        return not self.tenants or tenant in self.tenants


class _File(WrittenEntry):
    webhooks: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")], Endpoint]


def load_endpoints(path: Path | None) -> Mapping[str, Endpoint]:
    """Return the webhooks of a file by name, none without a file; raise RulebookInvalid with what is wrong in it."""
    if path is None:
        return {}
    source = read_yaml(path)
    try:
        return _File.model_validate(source.data).webhooks
    except ValidationError as error:
        source.report_validation(error, ())
        raise RulebookInvalid(source.problems) from error
