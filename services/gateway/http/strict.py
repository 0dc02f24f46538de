"""Requests read strictly: what two JSON readers could read differently is no request.

A body must say that it is JSON, which a foreign page's form cannot, and is refused while it streams in as soon as it
is larger than allowed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_strictly
from placet.contracts.errors import Refused
from placet.gateway.http.callers import Identified
from placet.gateway.http.errors import BodyTooLarge, problem, wished

#: Bytes of a body that may be wrong all over: so few have few faults.
TRUSTED_BYTES = 2_000
#: Faults of a larger body that are described; the answer names some of them.
FAULTS_DESCRIBED_MAX = 200
#: Bytes of a body outside of its texts: each of them may be a value, which costs far more than a letter does.
OUTSIDE_TEXTS_MAX = 256 * 1024
#: A text, also one that never ends: it fits wherever one begins, so no byte is looked at twice.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
#: Bytes of a body's type, and of a request's cookies: both are split into parts, each of which takes its time. Names of
#: types have 127 at most (RFC 4288), and beside them stands how letters are written; we set cookies of a few hundred.
TYPE_BYTES_MAX, COOKIE_BYTES_MAX = 256, 8_192
#: Parameters of an address; a page of the inbox has at most a few dozen.
PARAMETERS_MAX = 256


def _refuse_faults(model: TypeAdapter[Any], value: Any) -> None:
    """Raise RequestValidationError where a body has so many faults that to describe each takes long.

    The framework does that, in Python, before anybody is told of a few of them; to count them takes a fraction.
    """
    try:
        model.validate_python(value)
    except ValidationError as error:
        if error.error_count() > FAULTS_DESCRIBED_MAX:
            words = f"more than {FAULTS_DESCRIBED_MAX} things are wrong with it"
            raise RequestValidationError([{"loc": ("body",), "msg": words, "type": "faults"}]) from None


def _refuse_unknown(query: QueryParams, known: set[str]) -> None:
    """Raise Refused (400) for a query parameter that the route does not have, or that is there twice and no list.

    A filter that is spelt wrongly would else list everything.
    """
    given = Counter(name for name, _ in query.multi_items())
    faults = [
        {"detail": "unknown parameter" if name not in known else "given more than once", "parameter": name}
        for name, times in given.items()
        if name not in known or (times > 1 and not name.endswith("[]"))
    ]
    if faults:
        raise Refused("The request is not valid.", status=400, kind="invalid-request", errors=faults)


def _parameters(dependant: Dependant) -> set[str]:
    """Return the query parameters of a route and of everything that it depends on."""
    found = set[str]().union(*map(_parameters, dependant.dependencies))
    for field in dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            found |= set(model.model_fields)
        else:
            found.add(field.alias)
    return found


class StrictRequest(Request):
    """A request whose JSON has one meaning."""

    _value: Any = None
    _parsed = False

    async def json(self) -> Any:
        """Return the body's value; duplicate keys, NaN, lone surrogates and their like are refused with 400."""
        if not self._parsed:
            self._value = _strict_value(await self.body())
            self._parsed = True
        return self._value


class StrictRoute(APIRoute):
    """A route that reads its body strictly, and takes no query parameter that it does not have.

    Not for callers that are no clients of ours and add what they like to an address: probes, scrapers, mail services.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler on strict requests."""
        handle = super().get_route_handler()
        known, body = _parameters(self.dependant), self.body_field
        form = None if body is None else body.field_info.annotation
        model = None if form is None else TypeAdapter[Any](form)
        asked = (each.call for each in self.dependant.dependencies)
        identified = next((each for each in asked if isinstance(each, Identified)), None)

        async def strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
            if model is not None and has_body:
                if identified is not None:
                    # Nothing is parsed for somebody who is not known.
                    request.state.caller = await identified(request)
                if media_type(request) != "application/json":
                    return problem(415, language=wished(request), detail="The body must be application/json.")
                # Here and not in the framework, which would forget what is wrong.
                value = await strict.json()
                if len(await strict.body()) > TRUSTED_BYTES:
                    _refuse_faults(model, value)
            if request.scope["query_string"]:
                _refuse_unknown(request.query_params, known)
            return await handle(strict)

        return strictly


def _strict_value(body: bytes) -> Any:
    if len(body) > OUTSIDE_TEXTS_MAX and len(_TEXT.sub(b"", body)) > OUTSIDE_TEXTS_MAX:
        raise BodyTooLarge(OUTSIDE_TEXTS_MAX, " outside of its texts")
    try:
        value = parse_strictly(body)
        canonical_text(value)
    except NotStrictJson as error:
        raise RequestValidationError([{"loc": ("body",), "msg": f"not JSON: {error}", "type": "json"}]) from error
    return value


def media_type(request: Request) -> str:
    """Return the media type of a request's body, without its parameters; empty where it says none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class BodyLimit:
    """ASGI middleware: stops reading a body that is too large, whether or not it says its size.

    `smaller` has bounds of their own for what begins with a path, `larger` for what is posted to one.
    Nor does it let one of several parts in: these may name any codec of Python's for their texts, some of which take
    minutes. What is dear to split in a head is refused before anything looks at it.
    """

    def __init__(self, app: ASGIApp, bytes_max: int, smaller: Mapping[str, int], larger: Mapping[str, int]) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._smaller = smaller
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a counting `receive`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        smaller = (size for begin, size in self._smaller.items() if scope["path"].startswith(begin))
        bytes_max = next(smaller, self._larger.get(scope["path"], self._bytes_max))
        refusal = _refusal(scope, bytes_max)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        seen = 0

        async def counting() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > bytes_max:
                raise BodyTooLarge(bytes_max)
            return message

        await self._app(scope, counting, send)


def _refusal(scope: Scope, bytes_max: int) -> Response | None:
    """Return what answers a request whose head alone says that it is none for us."""
    if _declared_size(scope) > bytes_max:
        return BodyTooLarge(bytes_max).answer(closing=True)
    kinds, cookies = _values(scope, b"content-type"), _values(scope, b"cookie")
    if sum(map(len, kinds)) > TYPE_BYTES_MAX:
        return problem(415, detail="The type of the body is too long.")
    if any(value.strip().lower().startswith(b"multipart/") for value in kinds):
        return problem(415, detail="No page and no route takes a body of several parts.")
    if scope["query_string"].count(b"&") >= PARAMETERS_MAX:
        return problem(414, detail="The address has too many parameters.")
    if sum(map(len, cookies)) > COOKIE_BYTES_MAX:
        return problem(431, detail="The cookies of this site are too long.")
    return None


def _values(scope: Scope, header: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == header]


def _declared_size(scope: Scope) -> int:
    value = dict(scope["headers"]).get(b"content-length", b"0")
    # Python reads no number of thousands of digits, which may be zeros.
    digits = value.lstrip(b"0")[:20]
    return int(digits) if digits.isdigit() else 0
