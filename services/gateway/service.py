"""Wires the gateway: its queues, its private listeners, and the HTTP server that is up before they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from placet.contracts.ids import new_id
from placet.contracts.messages import HandoverRequested
from placet.contracts.signing import Signer, Verifier, load_signer, load_verifier
from placet.contracts.topology import Destination, answers_key, queue, trials_key
from placet.domain.agents import load_agents
from placet.domain.catalog import load_catalog
from placet.domain.directory import Directory
from placet.domain.directory_file import DirectoryFile
from placet.domain.duty_calendar import read_calendar
from placet.gateway import handlers
from placet.gateway.admin.trials import Trials
from placet.gateway.app import create_app
from placet.gateway.approvals.consents import Consents
from placet.gateway.approvals.decisions import Decisions
from placet.gateway.approvals.links import CODE_SECONDS, CODES_MAX, Guesses
from placet.gateway.audit.sealing import SEAL_EVERY_SECONDS, Sealer
from placet.gateway.conversations.live import Hub
from placet.gateway.conversations.log import ConversationLog
from placet.gateway.conversations.service import PostedTexts, Posts
from placet.gateway.conversations.stream_limits import StreamLimits
from placet.gateway.http.deps import Deps
from placet.gateway.http.protocol import BoundedHttp
from placet.gateway.identity.auth import Authenticator
from placet.gateway.identity.rates import Rates
from placet.gateway.identity.sessions import Sessions
from placet.gateway.jobs.log import JobLog
from placet.gateway.operators.service import Operators, escalate
from placet.gateway.settings import GatewaySettings
from placet.gateway.web import add_pages
from placet.runtime.connections import Bounds
from placet.runtime.consumer import one_by_one
from placet.runtime.health import serving
from placet.runtime.service import Duty, Runtime, Service, Subscription

if TYPE_CHECKING:
    from placet.gateway.identity.oidc import Provider

#: Pause between two deletions of what Slack told long ago, in seconds.
SLACK_FORGET_SECONDS = 600.0


@dataclass(frozen=True)
class GatewayService(Service):
    """A service with an HTTP server around it: up first, so that it can say it is not ready; told to go first, too."""

    settings: GatewaySettings = field(kw_only=True)
    app: FastAPI = field(kw_only=True)
    hub: Hub = field(kw_only=True)
    decisions: Decisions = field(kw_only=True)
    trials: Trials = field(kw_only=True)
    _servers: list[uvicorn.Server] = field(default_factory=list)
    _listening: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """Address that the server listens on, once it does."""
        host, port = self._servers[-1].servers[0].sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def listens(self) -> None:
        """Return when the server listens, which is before the service is ready."""
        await self._listening.wait()

    @asynccontextmanager
    async def running(self, *, own_bus: bool = True) -> AsyncIterator[None]:
        """Run while the block runs; at its end let clients go at once, so that they find another instance."""
        settings = self.settings
        where: dict[str, Any] = {"host": settings.gateway_host, "port": settings.gateway_port}
        bounds = Bounds(
            in_all=settings.gateway_connections,
            by_address=settings.gateway_address_connections,
            seconds=settings.gateway_request_seconds,
        )
        read: dict[str, Any] = {"http": BoundedHttp, "bounds": bounds, "proxies": settings.gateway_trusted_proxies}
        async with AsyncExitStack() as listening:
            server = await listening.enter_async_context(serving(self.app, **where, **read))
            self._servers.append(server)
            self._listening.set()
            async with super().running(own_bus=own_bus):
                try:
                    yield
                finally:
                    self._ready.clear()
                    self.hub.close()
                    self.decisions.close()
                    self.trials.close()
                    # Who is being answered still needs the database and the broker.
                    await listening.aclose()


#: Events that wait for one slow client before its stream is closed.
BACKLOG_MAX = 1_000
#: What every instance hears and passes on to its clients; the broker lets it (`deploy/rabbitmq/rights.py`).
LIVE = (
    *(Destination("conversations", key) for key in ("items.#", "delta.#", "job.#")),
    Destination("decisions", "approval-commented"),
)


def build(
    settings: GatewaySettings, runtime: Runtime, directory: Callable[[], Directory] | None = None
) -> GatewayService:
    """Return the gateway, ready to run; raise KeysUnusable where its signing key is missing.

    `directory` says who is who now; without it the rulebook does. Raises RulebookInvalid where that, or the file of
    agents, cannot be used.
    """
    directory = directory or DirectoryFile(settings.rulebook, calendars=read_calendar).current
    # Two instances never share this id: answers and live events come to each one's own queue.
    instance = new_id()
    services: list[GatewayService] = []

    async def ready() -> bool:
        return bool(services) and await services[0].ready()

    deps = _deps(settings, runtime, directory, instance, ready)
    decisions, trials, hub = deps.decisions, deps.trials, deps.hub
    app = create_app(deps)
    add_pages(app)
    duties, resources = _open_to_slack(app, deps)
    answers = tuple(Destination("decisions", key) for key in (answers_key(instance), trials_key(instance)))
    service = GatewayService(
        name="gateway",
        runtime=runtime,
        subscriptions=(Subscription(queue("gateway.handovers"), {HandoverRequested: one_by_one(escalate)}),),
        listeners=(
            (f"gateway.live.{instance}", LIVE, partial(handlers.pass_on, hub=hub)),
            (f"gateway.answers.{instance}", answers, partial(handlers.take_answer, decisions=decisions, trials=trials)),
        ),
        duties=(
            *duties,
            Duty("seal-history", SEAL_EVERY_SECONDS, Sealer(runtime.database, deps.signer, deps.verifier).seal),
        ),
        resources=resources,
        drain_seconds=settings.drain_seconds,
        settings=settings,
        app=app,
        hub=hub,
        decisions=decisions,
        trials=trials,
    )
    services.append(service)
    return service


def _deps(
    settings: GatewaySettings,
    runtime: Runtime,
    directory: Callable[[], Directory],
    instance: str,
    ready: Callable[[], Awaitable[bool]],
) -> Deps:
    """Return what the routes of one instance are given."""
    signer, verifier = load_signer(settings.keys, "gateway"), load_verifier(settings.keys)
    sessions = Sessions(runtime.units, settings.gateway_session_seconds, settings.gateway_session_idle_seconds)
    hub = Hub(BACKLOG_MAX)
    limits = StreamLimits(
        by_key=settings.gateway_key_streams,
        by_person=settings.gateway_person_streams,
        by_conversation=settings.gateway_conversation_streams,
        by_tenant=settings.gateway_tenant_streams,
    )
    rates = Rates(
        settings.gateway_key_messages_per_minute,
        settings.gateway_person_messages_per_minute,
        settings.gateway_tenant_messages_per_minute,
    )
    decisions = Decisions(runtime.units, signer, instance, settings.gateway_answer_seconds, rates)
    trials = Trials(runtime.units, instance, settings.gateway_trial_seconds)
    authenticator = Authenticator(
        runtime.database,
        sessions,
        settings.public_url,
        directory,
        frozenset(settings.gateway_oidc_scopes),
        settings.gateway_ended_token_seconds,
        settings.gateway_oidc_tenant if settings.gateway_oidc_issuer else "",
    )
    agents = load_agents(settings.agents, names=settings.gateway_agents)
    texts = PostedTexts()
    posts = Posts(runtime.units, agents, rates, texts)
    consents = Consents(runtime.units, decisions, directory)
    return Deps(
        settings=settings,
        runtime=runtime,
        agents=agents,
        authenticator=authenticator,
        rates=rates,
        posts=posts,
        consents=consents,
        operators=Operators(runtime.units, texts),
        decisions=decisions,
        trials=trials,
        signer=signer,
        verifier=verifier,
        hub=hub,
        log=ConversationLog(runtime.database, hub, settings.gateway_heartbeat_seconds, authenticator.still, limits),
        job_log=JobLog(runtime.database, hub, settings.gateway_heartbeat_seconds, authenticator.still, limits),
        directory=directory,
        slack=settings.slack(),
        ready=ready,
        guesses=Guesses(settings.gateway_link_misses_max),
        codes=Guesses(CODES_MAX, CODE_SECONDS),
        provider=provider_of(settings, signer, verifier),
    )


def _open_to_slack(app: FastAPI, deps: Deps) -> tuple[tuple[Duty, ...], tuple[AbstractAsyncContextManager[None], ...]]:
    """Let Slack's clicks come in through `app`; return what runs beside it, nothing where no Slack is set up."""
    settings, slack = deps.settings, deps.slack
    if not slack.teams:
        return (), ()
    # Half a second of start-up and some megabytes: only who is in Slack pays for its libraries.
    from placet.gateway.slack.door import SlackDoor, reachable  # noqa: PLC0415
    from placet.gateway.slack.route import add_slack  # noqa: PLC0415

    catalog = partial(load_catalog, settings.rulebook)
    door = SlackDoor(
        reachable(slack),
        settings.slack_api_url,
        settings.public_url,
        deps.runtime.database,
        deps.decisions,
        deps.directory,
        catalog,
        settings.notifier_language,
    )
    add_slack(app, door)
    duties = (Duty("forget-slack", SLACK_FORGET_SECONDS, door.forget_old),)
    if not slack.app_token.get_secret_value():
        return duties, ()
    # Its gauge is there only where it is used: elsewhere it would say that no socket is open.
    from placet.gateway.slack.socket import socket_mode  # noqa: PLC0415

    return duties, (socket_mode(door),)


def provider_of(settings: GatewaySettings, signer: Signer, verifier: Verifier) -> Provider | None:
    """Return the provider that people sign in at; None where there is none."""
    if not settings.gateway_oidc_issuer:
        return None
    # A quarter of a second of start-up and ten megabytes: only who signs in at a provider pays for its library.
    from placet.gateway.identity.oidc import Provider  # noqa: PLC0415

    return Provider(
        settings.gateway_oidc_issuer,
        settings.gateway_oidc_client_id,
        settings.gateway_oidc_client_secret.get_secret_value(),
        f"{settings.public_url.rstrip('/')}/sign-in/oidc/callback",
        signer,
        verifier,
    )
