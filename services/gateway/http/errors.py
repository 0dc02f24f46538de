"""Errors as problem documents (RFC 9457), in one place: every answer that is no success has this form.

A document says what the caller can do about it and nothing about our insides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from placet.contracts.errors import Refused
from placet.domain.json_pointer import pointer
from placet.runtime.database import is_outage
from placet.runtime.driver import DatabaseClosed, DatabaseError
from placet.runtime.watchdog import TooLong
from placet.surfaces.texts import LANGUAGES, accepted, language_of, text

log = structlog.get_logger(__name__)

_TOO_LONG = frozenset({"string_too_long", "too_long"})
_TOO_SHORT = frozenset({"string_too_short", "too_short"})
#: Types of faults of the framework -> what each says to who asks for another language than English.
_FAULTS: Mapping[str, str] = {
    "missing": "is needed",
    "extra_forbidden": "is not known here",
    "greater_than_equal": "should be at least {ge}",
    "less_than_equal": "should be at most {le}",
    "greater_than": "should be more than {gt}",
    "less_than": "should be less than {lt}",
    "string_type": "should be a text",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "list_type": "should be a list",
    "dict_type": "should be an object",
    "model_attributes_type": "should be an object",
    "literal_error": "should be one of these: {expected}",
    "enum": "should be one of these: {expected}",
    "string_pattern_mismatch": "should match the pattern {pattern}",
    "string_too_short": "should be longer",
    "string_too_long": "should have at most {max_length} characters",
    "too_short": "should have at least {min_length} entries",
    "too_long": "should have at most {max_length} entries",
}
MEDIA_TYPE = "application/problem+json"
#: Seconds after which a client may try again while the database is away.
RETRY_AFTER_SECONDS = 2


class Fault(BaseModel):
    """One thing that is wrong with a request."""

    detail: str
    pointer: str | None = Field(default=None, description="JSON pointer into the body, as a URI fragment.")
    parameter: str | None = Field(default=None, description="Name of the query parameter or header.")


class ProblemDocument(BaseModel):
    """A problem document; kinds of problems add members of their own."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`about:blank`, or `urn:placet:problem:<kind>`.")
    title: str
    status: int
    detail: str | None = None
    errors: list[Fault] | None = None


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the problems that a route answers with."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
        }
        for status in statuses
    }


def problem(
    status: int,
    title: str = "",
    *,
    kind: str = "",
    headers: Mapping[str, str] | None = None,
    language: str = LANGUAGES[0],
    **members: Any,
) -> JSONResponse:
    """Return a problem document as an answer; without a kind its title is the status' own phrase."""
    title = title or HTTPStatus(status).phrase
    body = document(status, title, kind, language, **members)
    translated = (body["title"], body.get("detail")) != (title, members.get("detail"))
    extra = {"content-language": language if translated else LANGUAGES[0]}
    if status == HTTPStatus.UNAUTHORIZED:
        extra["www-authenticate"] = 'Bearer realm="placet"'
    return JSONResponse(body, status, {**(headers or {}), **extra}, MEDIA_TYPE)


def document(status: int, title: str, kind: str, language: str, **members: Any) -> dict[str, Any]:
    """Return a problem document.

    Title and detail are in `language` where its catalogue has them; `type` and all other members never change.
    """
    told: dict[str, Any] = {"title": text(language, title)}
    if members.get("decided_by") and language != LANGUAGES[0]:
        told["detail"] = text(language, "Decided by {person}.", person=members["decided_by"])
    elif isinstance(members.get("detail"), str):
        told["detail"] = text(language, members["detail"])
    if "errors" in members:
        told["errors"] = [{**each, "detail": text(language, each["detail"])} for each in members["errors"]]
    return {"type": f"urn:placet:problem:{kind}" if kind else "about:blank", "status": status, **members, **told}


class BodyTooLarge(HTTPException):
    """The body is larger than allowed; the rest of it is not read.

    No `Refused`, because the framework takes any other error while it reads a body for a body of the wrong form.
    """

    def __init__(self, bytes_max: int, where: str = "") -> None:
        super().__init__(413, f"A request body has at most {bytes_max} bytes{where}.")

    def answer(self, *, closing: bool = False) -> JSONResponse:
        """Return its problem document; when `closing`, the connection ends with it, because of what is left unread."""
        return problem(413, self.detail, kind="too-large", headers={"connection": "close"} if closing else None)


def invalid_request(detail: str, **place: str) -> Refused:
    """Return the refusal (400) of a request; `place` is the `pointer`, or the `parameter`, where it is not valid."""
    fault = {"detail": detail, **place}
    return Refused("The request is not valid.", status=400, kind="invalid-request", errors=[fault])


def wished(request: Request) -> str:
    """Return the language that a client asks for first among ours, or English."""
    return language_of(*accepted(request.headers.get("accept-language", "")))


def answer_with_problems(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(BodyTooLarge, _too_large)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(DatabaseError, _database)
    app.add_exception_handler(TooLong, _too_dear)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _bug)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)  # noqa: S101 - what this handler is registered for
    facts: dict[str, Any] = error.facts
    wait = facts.get("retry_after_seconds")
    headers = {} if wait is None else {"retry-after": str(wait)}
    return problem(error.status, error.title, kind=error.kind, headers=headers, language=wished(request), **facts)


async def _too_large(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BodyTooLarge)  # noqa: S101 - what this handler is registered for
    return error.answer()


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - what this handler is registered for
    phrase = HTTPStatus(error.status_code).phrase
    members = {"detail": error.detail} if error.detail and error.detail != phrase else {}
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework names the methods of the first route with this path, and there may be others.
        found = (route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE)
        headers["Allow"] = ", ".join(sorted({method for route in found for method in route.methods}))
    return problem(error.status_code, headers=headers, language=wished(request), **members)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what this handler is registered for
    faults = [{**fault, "loc": _place(fault, error.body)} for fault in error.errors()[:FAULTS_MAX]]
    language = wished(request)
    if any(fault["loc"][0] == "path" for fault in faults):
        # An id that no row can have names nothing that exists.
        return problem(404, "There is no such thing.", kind="not-found", language=language)
    told = [_fault(each["loc"], _wording(each, language)) for each in faults]
    if any(fault["type"] in _TOO_LONG and isinstance(fault["input"], str) for fault in faults):
        return problem(413, "A text is too long.", kind="too-large", language=language, errors=told)
    return problem(400, "The request is not valid.", kind="invalid-request", language=language, errors=told)


async def _database(request: Request, error: Exception) -> JSONResponse:
    if not is_outage(error):
        return await _bug(request, error)
    if isinstance(error, DatabaseClosed):
        return stopping(request)
    title = "The database is away; try again soon."
    return _unavailable(request, title)


def stopping(request: Request) -> JSONResponse:
    """Return the answer (503) to a request that this instance ends no more, because it stops."""
    title = "This server is stopping; try again."
    return _unavailable(request, title)


def _unavailable(request: Request, title: str) -> JSONResponse:
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)}
    return problem(503, title, kind="unavailable", headers=headers, language=wished(request))


async def _too_dear(request: Request, error: Exception) -> JSONResponse:
    log.error("http.too_dear", method=request.method, path=_route(request), exc_info=error)
    title = "To answer this would keep everybody else waiting for too long."
    return problem(422, title, kind="too-dear", language=wished(request))


async def _gone(request: Request, error: Exception) -> Response:
    """Answer nobody: the client left in the midst of what it sent."""
    del request, error
    return Response(status_code=400)


async def _bug(request: Request, error: Exception) -> JSONResponse:
    log.error("http.bug", method=request.method, path=_route(request), exc_info=error)
    return problem(500, "Something went wrong here.", kind="internal", language=wished(request))


def _route(request: Request) -> str:
    """Return the path as the route has it: what stands in a path may be a secret, such as a mailed link's token."""
    return getattr(request.scope.get("route"), "path", "none")


#: Faults that an answer names at most: a body may have one for each of its bytes.
FAULTS_MAX = 20


def _place(fault: Any, body: Any) -> tuple[str | int, ...]:
    """Return where a fault is, of steps that the body has: those between are names of our own checks."""
    where, *steps = fault["loc"]
    if where != "body":
        return tuple(fault["loc"])
    last = steps.pop() if steps and fault["type"] == "missing" else None
    place: list[str | int] = [where]
    for step in steps:
        if (isinstance(body, dict) and step in body) or (isinstance(body, list) and step in range(len(body))):
            place.append(step)
            body = body[step]
    return (*place, *([] if last is None else [last]))


def _wording(fault: Any, language: str) -> str:
    """Return what is wrong in words that fit a text too: pydantic speaks of items where one is too long or empty."""
    context, kind = fault.get("ctx", {}), fault["type"]
    if kind in _TOO_LONG and isinstance(fault["input"], str) and "max_length" in context:
        return text(language, _FAULTS["string_too_long"], **context)
    if kind in _TOO_SHORT and fault["input"] == "":
        return text(language, "must say something")
    if language != LANGUAGES[0] and kind in _FAULTS:
        if "expected" in context:
            # Pydantic joins the last of them in English.
            context = {**context, "expected": str(context["expected"]).replace("' or '", "', '")}
        return text(language, _FAULTS[kind], **context)
    return str(fault["msg"]).removeprefix("Value error, ")


def _fault(where: Sequence[str | int], message: str) -> dict[str, str]:
    if where[0] == "body":
        return {"detail": message, "pointer": f"#{pointer(where[1:])}"}
    return {"detail": message, "parameter": str(where[-1])}
