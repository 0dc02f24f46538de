"""What the routes of the API and the pages are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.gateway.auth import Authenticator
from services.gateway.consents import Consents
from services.gateway.conversations import Posts
from services.gateway.decisions import Decisions
from services.gateway.drafts import Drafts
from services.gateway.links import Guesses
from services.gateway.live import Hub
from services.gateway.oidc import Provider
from services.gateway.operators import Operators
from services.gateway.settings import GatewaySettings
from services.gateway.trials import Trials
from shared.agents import Agents
from shared.directory import Directory
from shared.service import Runtime
from shared.signing import Signer


@dataclass(frozen=True)
class Deps:
    """One gateway instance's parts."""

    settings: GatewaySettings
    runtime: Runtime
    #: Which agents conversations can be opened with.
    agents: Agents
    authenticator: Authenticator
    posts: Posts
    consents: Consents
    operators: Operators
    decisions: Decisions
    trials: Trials
    #: Signs what people say of calls of unknown outcome.
    signer: Signer
    hub: Hub
    drafts: Drafts
    #: Who is who now; says what "mine" is, never what is allowed.
    directory: Callable[[], Directory]
    #: Whether consumers run and database and broker answer.
    ready: Callable[[], Awaitable[bool]]
    guesses: Guesses
    #: Wrong codes of mailed links.
    codes: Guesses
    #: Where people sign in who have no key; None: nowhere.
    provider: Provider | None = None
