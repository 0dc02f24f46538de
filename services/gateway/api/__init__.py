"""The HTTP app: one router per noun, problem documents for every error, limits around everything."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from services.gateway.api import (
    ag_ui,
    agents,
    ai_sdk,
    approvals,
    asyncapi,
    conversations,
    dead_letters,
    deliveries,
    events,
    grants,
    health,
    keys,
    mail,
    openai_chat,
    openai_models,
    openai_responses,
    operators,
    polls,
    rulebook,
    sessions,
    tool_calls,
    webhook_events,
)
from services.gateway.api.errors import MEDIA_TYPE, Problem, answer_with_problems
from services.gateway.api.middleware import Answers, browser_rules
from services.gateway.api.openai_errors import OpenAiErrors
from services.gateway.api.routing import add_routes
from services.gateway.api.strict import BodyLimit
from services.gateway.deps import Deps

#: Asked in this order for the route of a request: what is called most stands first.
_ROUTERS = (
    approvals.router,
    conversations.router,
    agents.router,
    operators.router,
    events.router,
    polls.router,
    tool_calls.router,
    grants.router,
    dead_letters.router,
    deliveries.router,
    webhook_events.router,
    rulebook.router,
    keys.router,
    mail.router,
    sessions.router,
    health.router,
    asyncapi.router,
    ai_sdk.router,
    ag_ui.router,
    openai_chat.router,
    openai_responses.router,
    openai_models.router,
)
_DESCRIPTION = (
    "A self-hosted approval queue between AI agents and the tools they call. Errors are problem documents "
    "(RFC 9457); lists are pages with a cursor; event streams resume after `Last-Event-ID`."
)


def create_app(deps: Deps) -> FastAPI:
    """Return the API on the given parts. Interactive pages are left out: they load scripts from elsewhere."""
    app = FastAPI(
        title="Placet", version="1", description=_DESCRIPTION, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.deps = deps
    add_routes(app, *_ROUTERS)
    answer_with_problems(app)
    settings = deps.settings
    app.add_middleware(BodyLimit, bytes_max=settings.gateway_body_bytes_max)
    if settings.gateway_allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.gateway_allowed_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-type", "last-event-id"],
        )
    app.add_middleware(OpenAiErrors)
    app.add_middleware(Answers, headers=browser_rules(settings.gateway_image_sources))
    _describe_problems(app)
    return app


def _describe_problems(app: FastAPI) -> None:
    """Put the problem document into the OpenAPI document, in place of the validation errors we never send."""
    document = app.openapi

    def with_problems() -> dict[str, Any]:
        schema = document()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs", {}) | {"Problem": problem})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for operation in (each for path in schema["paths"].values() for each in path.values()):
            answers = operation["responses"]
            if MEDIA_TYPE not in answers.get("422", {}).get("content", {}):
                answers.pop("422", None)
        return schema

    app.openapi = with_problems  # type: ignore[method-assign]
