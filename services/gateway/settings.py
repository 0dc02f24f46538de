"""Settings of the gateway: where it listens, and the limits of its clients."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from placet.contracts.messages.message import Identifier
from placet.gateway.identity.keys import Scope
from placet.runtime.settings import INTERNAL, LanguageSettings
from placet.surfaces.slack import SlackSettings


class GatewaySettings(SlackSettings, LanguageSettings):
    """The shared settings and the gateway's own."""

    gateway_host: str = Field(default="127.0.0.1", description="Address that the API and the page listen on.")
    gateway_port: int = Field(default=8080, ge=0, le=65535, description="Their port; 0 takes a free one.")
    gateway_metrics: bool = Field(
        default=False,
        description="Whether `/metrics` is answered on the API's own port, which is for everybody.",
    )
    gateway_trusted_proxies: list[str] = Field(
        default_factory=list,
        description="Addresses or networks of proxies in front, `10.0.0.0/8`: what they say of the client's address "
        "(`X-Forwarded-For`) is believed, and nobody else's word.",
    )
    gateway_connections: int = Field(
        default=30_000,
        ge=1,
        description="Connections that may be open at one instance; fewer where the process may open fewer files.",
    )
    gateway_address_connections: int = Field(
        default=12_000,
        ge=1,
        description="Connections that one address, or one /64 of IPv6, may have open at one instance, never more than "
        "half of all; proxies of `PLACET_GATEWAY_TRUSTED_PROXIES` may have any number.",
    )
    gateway_request_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="How long a client may take to send one whole request, and to take any of an answer that waits for "
        "it, in seconds.",
    )
    gateway_allowed_origins: list[str] = Field(
        default_factory=list, description="Origins of chat widgets that may call the API from a browser."
    )
    gateway_image_sources: list[str] = Field(
        default_factory=list, description="Origins that product pictures may come from, beside the gateway itself."
    )
    gateway_agents: list[Identifier] = Field(
        default_factory=lambda: ["default"],
        description="Agents that are listed, and that OpenAI clients may name as their `model`, where no file of "
        "agents says it.",
    )
    gateway_answer_seconds: float = Field(
        default=5.0,
        gt=0,
        le=30,
        description="How long a decision waits for its answer before it says 202.",
    )
    gateway_trial_seconds: float = Field(
        default=30.0,
        gt=0,
        le=300,
        description="How long a rulebook may be tried before it says 504.",
    )
    gateway_heartbeat_seconds: float = Field(
        default=15.0,
        gt=0,
        description="Pause between two signs of life on an event stream that has nothing to say.",
    )
    gateway_undo_seconds: int = Field(
        default=5,
        ge=0,
        le=60,
        description="How long a decision in the inbox can be taken back before it is sent, in seconds; 0: it is sent "
        "at once. The API, links and chats always send at once.",
    )
    gateway_stops_by_another: bool = Field(
        default=False, description="Whether an emergency stop is lifted only by somebody else than who asked for it."
    )
    gateway_insights_names: bool = Field(
        default=False,
        description="Whether insights name the people who decided; otherwise they are person 1, person 2 and so on.",
    )
    gateway_rulebook_agent: str = Field(
        default="",
        description="Agent of the tenant `default` that proposes changes of the rulebook's file, with the tool "
        "`edit_file` on the folder in which the file is; empty: pages show a change, and people copy it.",
    )
    gateway_session_seconds: int = Field(
        default=12 * 3600, ge=60, description="How long a browser stays signed in at most, in seconds."
    )
    gateway_link_misses_max: int = Field(
        json_schema_extra=INTERNAL,
        default=20,
        ge=1,
        description="Mailed links that do not exist which one address may try in a minute.",
    )
    gateway_session_idle_seconds: int = Field(
        default=2 * 3600, ge=60, description="How long it stays signed in while nobody uses it, in seconds."
    )
    gateway_key_messages_per_minute: int = Field(
        default=6000,
        ge=0,
        description="Messages that one API key may post in a minute to one instance; 0: no limit.",
    )
    gateway_person_messages_per_minute: int = Field(
        default=120,
        ge=0,
        description="Messages that one conversation token, or one signed-in person, may post in a minute to one "
        "instance, decisions with the token among them; 0: no limit.",
    )
    gateway_tenant_messages_per_minute: int = Field(
        default=0,
        ge=0,
        description="Messages that all callers of one tenant may post in a minute to one instance; 0: no limit.",
    )
    gateway_tenant_streams: int = Field(
        default=20_000, ge=1, description="Event streams that one tenant may have open at one instance."
    )
    gateway_key_streams: int = Field(
        default=10_000, ge=1, description="Event streams that one API key may have open at one instance."
    )
    gateway_person_streams: int = Field(
        default=50,
        ge=1,
        description="Event streams that a conversation token, or a signed-in person, may have open at one instance.",
    )
    gateway_conversation_streams: int = Field(
        json_schema_extra=INTERNAL,
        default=200,
        ge=1,
        description="Event streams that may be open for one conversation at one instance.",
    )
    gateway_token_seconds: int = Field(
        default=30 * 86_400, ge=60, description="How long a conversation token is good, in seconds."
    )
    gateway_ended_token_seconds: int = Field(
        default=86_400,
        ge=0,
        description="How long the token of a conversation that has ended still reads it, in seconds.",
    )
    gateway_oidc_issuer: str = Field(
        default="", description="Issuer of the OpenID Connect provider that people sign in at; empty: none."
    )
    gateway_oidc_client_id: str = Field(default="", description="Placet's client id there.")
    gateway_oidc_client_secret: SecretStr = Field(
        default=SecretStr(""), description="Its secret; empty for a public client, which PKCE protects alone."
    )
    gateway_oidc_tenant: str = Field(default="default", description="Tenant of the people who sign in there.")
    gateway_oidc_scopes: list[Scope] = Field(
        default_factory=lambda: [Scope.CHAT, Scope.DECIDE], description="What they may do here."
    )

    @field_validator("gateway_trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: list[str]) -> list[str]:
        """Refuse what names no network: it would be believed from everybody, `*`, or from nobody and without a word."""
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError as error:
                raise ValueError(f"{proxy!r} is no address and no network of proxies: {error}") from error
        return proxies

    @model_validator(mode="after")
    def _check_oidc(self) -> Self:
        """Refuse a provider without what it takes: an address taken from a request could lead anybody's code away."""
        if self.gateway_oidc_issuer and not (self.gateway_oidc_client_id and self.public_url):
            raise ValueError("PLACET_GATEWAY_OIDC_ISSUER needs PLACET_GATEWAY_OIDC_CLIENT_ID and PLACET_PUBLIC_URL")
        return self
