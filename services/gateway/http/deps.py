"""What the routes of the API and the pages are given: names only, so that what stands above may use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from placet.contracts.signing import Signer, Verifier
    from placet.domain.agents import Agents
    from placet.domain.directory import Directory
    from placet.gateway.admin.trials import Trials
    from placet.gateway.approvals.consents import Consents
    from placet.gateway.approvals.decisions import Decisions
    from placet.gateway.approvals.links import Guesses
    from placet.gateway.conversations.live import Hub
    from placet.gateway.conversations.log import ConversationLog
    from placet.gateway.conversations.service import Posts
    from placet.gateway.identity.auth import Authenticator
    from placet.gateway.identity.oidc import Provider
    from placet.gateway.identity.rates import Rates
    from placet.gateway.jobs.log import JobLog
    from placet.gateway.operators.service import Operators
    from placet.gateway.settings import GatewaySettings
    from placet.runtime.service import Runtime
    from placet.surfaces.slack import Slack


@dataclass(frozen=True)
class Deps:
    """One gateway instance's parts."""

    settings: GatewaySettings
    runtime: Runtime
    #: Which agents conversations can be opened with.
    agents: Agents
    authenticator: Authenticator
    #: How fast messages, and jobs, may be sent.
    rates: Rates
    posts: Posts
    consents: Consents
    operators: Operators
    decisions: Decisions
    trials: Trials
    #: Signs what people say of calls of unknown outcome.
    signer: Signer
    #: Tells a stop that an administrator lifted from one that was lifted in the database.
    verifier: Verifier
    hub: Hub
    log: ConversationLog
    job_log: JobLog
    #: Who is who now; says what "mine" is, never what is allowed.
    directory: Callable[[], Directory]
    #: The workspaces of tenants; none where the gateway is told of none.
    slack: Slack
    #: Whether consumers run and database and broker answer.
    ready: Callable[[], Awaitable[bool]]
    guesses: Guesses
    #: Wrong codes of mailed links.
    codes: Guesses
    #: Where people sign in who have no key; None: nowhere.
    provider: Provider | None = None
