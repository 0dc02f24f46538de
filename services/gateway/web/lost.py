"""Addresses that lead nowhere: a browser gets a page that leads on, a program the problem document."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from placet.gateway.http.errors import wished
from placet.gateway.web.render import error_page
from placet.surfaces.texts import text

#: Where programs speak to us: what they get is no page, whatever they accept.
_API = "/v1/"
_LOST = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


def answer_browsers(app: FastAPI) -> None:
    """Answer browsers that look for a page which is not there with a page; everybody else as before."""
    as_before = app.exception_handlers[HTTPException]

    async def lost(request: Request, error: Exception) -> Response:
        looks = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(_API)
        if looks and isinstance(error, HTTPException) and error.status_code in _LOST:
            language = wished(request)
            return error_page(language, 404, text(language, "There is no such page."))
        answer: Response = await as_before(request, error)  # type: ignore[misc]  # ours, and asynchronous
        return answer

    app.add_exception_handler(HTTPException, lost)
