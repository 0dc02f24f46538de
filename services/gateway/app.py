"""The HTTP app: one router per noun, problem documents for every error, limits around everything."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from placet.gateway.admin import erasure_routes as erasures
from placet.gateway.admin import history_routes as history
from placet.gateway.admin import key_routes as keys
from placet.gateway.admin import limit_routes as limits
from placet.gateway.admin import routes as admin
from placet.gateway.admin import rulebook_routes as rulebook
from placet.gateway.admin import session_routes as sessions
from placet.gateway.admin import stop_routes as stops
from placet.gateway.approvals import bounce_routes as mail
from placet.gateway.approvals import comments
from placet.gateway.approvals import routes as approvals
from placet.gateway.approvals import tool_call_routes as tool_calls
from placet.gateway.dialects import ag_ui_routes as ag_ui
from placet.gateway.dialects import ai_sdk_routes as ai_sdk
from placet.gateway.dialects import completions_routes as completions
from placet.gateway.dialects import native_routes as conversations
from placet.gateway.dialects import openai_models
from placet.gateway.dialects import responses_routes as responses
from placet.gateway.dialects.openai_errors import OpenAiErrors
from placet.gateway.http import asyncapi, health
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import answer_with_problems
from placet.gateway.http.middleware import Answers, browser_rules
from placet.gateway.http.routing import add_routes
from placet.gateway.http.strict import BodyLimit
from placet.gateway.insights import routes as insights
from placet.gateway.jobs import routes as jobs
from placet.gateway.openapi import describe
from placet.gateway.operators import routes as operators
from placet.gateway.receipts import routes as receipts
from placet.gateway.workspaces import routes as workspaces

#: Asked in this order for the route of a request: what is called most stands first.
_ROUTERS = (
    approvals.router,
    comments.router,
    conversations.router,
    conversations.agents_router,
    operators.router,
    workspaces.router,
    tool_calls.router,
    receipts.router,
    stops.router,
    erasures.router,
    admin.grants,
    limits.router,
    admin.dead_letters,
    admin.deliveries,
    admin.webhook_events,
    history.router,
    jobs.router,
    rulebook.router,
    insights.router,
    keys.router,
    mail.router,
    sessions.router,
    health.router,
    asyncapi.router,
    ai_sdk.router,
    ag_ui.router,
    completions.router,
    responses.router,
    openai_models.router,
)
_DESCRIPTION = (
    "A self-hosted approval queue between AI agents and the tools they call. Errors are problem documents "
    "(RFC 9457); lists are pages with a cursor; event streams resume after `Last-Event-ID`."
)
#: Largest request body, in bytes.
BODY_BYTES_MAX = 256 * 1024
#: The same by the beginning of a path, of forms that come before it is known who sends them: a key and where to go from
#: there; a vote with its reason and the entries that it leaves out.
FORM_BYTES_MAX = {"/sign-in": 16 * 1024, "/l/": 64 * 1024}
#: The same of what posts a whole history, by its path: nothing of it is read before it is known who sends it.
HISTORY_BYTES_MAX = dict.fromkeys(("/v1/responses", "/v1/chat/completions", "/api/chat", "/agui"), 4 * 1024 * 1024)


def create_app(deps: Deps) -> FastAPI:
    """Return the API on the given parts. Interactive pages are left out: they load scripts from elsewhere."""
    app = FastAPI(title="Placet", version="1", description=_DESCRIPTION, openapi_url=None, redirect_slashes=False)
    app.state.deps = deps
    describe(app)
    add_routes(app, *_ROUTERS)
    answer_with_problems(app)
    settings = deps.settings
    app.add_middleware(BodyLimit, bytes_max=BODY_BYTES_MAX, smaller=FORM_BYTES_MAX, larger=HISTORY_BYTES_MAX)
    app.add_middleware(Answers, headers=browser_rules(settings.gateway_image_sources, settings.public_url))
    if settings.gateway_allowed_origins:
        # Outside of `Answers`: other origins' pages may read what a stopping gateway says as well.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.gateway_allowed_origins,
            allow_methods=["GET", "POST", "DELETE"],
            # Clients' libraries send headers of their own; which pages may call at all is what the origins say.
            allow_headers=["*"],
            expose_headers=["location", "retry-after", "x-should-retry", "placet-conversation", "placet-ignored"],
        )
    app.add_middleware(OpenAiErrors)
    return app
