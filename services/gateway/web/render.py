"""Templates, who may see them, and what a form of ours must prove."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode, urlsplit
from zlib import crc32

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from placet.contracts.errors import Refused
from placet.domain.directory import Person
from placet.gateway.http.callers import DepsOf
from placet.gateway.http.errors import wished
from placet.gateway.http.protocol import sender_is_known
from placet.gateway.identity.auth import PAGE, Caller, NoCaller, OtherSession
from placet.gateway.identity.keys import same_hash
from placet.gateway.web import words
from placet.gateway.web.script_words import script_words
from placet.surfaces.card import again_words, why
from placet.surfaces.texts import LANGUAGES, dollars, language_of, moment, number, plural, share, text

M = TypeVar("M", bound=BaseModel)

_HERE = Path(__file__).parent
_VENDOR = _HERE / "static" / "vendor"
#: Filters that speak a language.
_SPOKEN = ("ago", "due", "risk", "event", "total", "lasting", "within", "doubted")
#: Whom the page that is being rendered names, by id.
_PEOPLE: ContextVar[Mapping[str, Person]] = ContextVar("people")
#: Colours of initials.
FACES = 6
#: Fields of one form.
FIELDS_MAX = 400
#: Where programs speak to us: what they get is no page, whatever they accept.
_API = "/v1/"
_LOST = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


@cache
def _templates(language: str) -> Environment:
    """Return the templates as they speak one language, its filters too; macros that are imported know it as well."""
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    spoken = {name: partial(getattr(words, name), language=language) for name in _SPOKEN}
    made.filters.update(
        plain=words.plain,
        lined=words.lined,
        indented=words.indented,
        exact=words.exact,
        upper_first=words.upper_first,
        uncounted=words.uncounted,
        who=lambda name: words.who(name, language, _PEOPLE.get({})),
        told=lambda sentence: words.told(sentence, language, _PEOPLE.get({})),
        face=_face,
        again_words=partial(again_words, language),
        why=partial(why, language),
        **spoken,
    )
    made.globals.update(
        lang=language,
        t=partial(_translated, language),
        tn=partial(plural, language),
        at=partial(moment, language),
        number=partial(number, language),
        share=partial(share, language),
        dollars=partial(dollars, language),
        script_words=script_words(language),
        set_up=set_up_was_run,
        page_header=PAGE,
    )
    return made


def _face(name: str) -> Markup:
    """Return the initials of whom a name of a rule or a history names, in a colour of theirs; decoration only."""
    shown = words.who(name, people=_PEOPLE.get({}))
    colour = crc32(name.encode()) % FACES
    return Markup('<span class="face face-{}" aria-hidden="true">{}</span>').format(colour, words.initials(shown))


def _translated(language: str, said: str, **values: Any) -> Markup:
    """Return words in a language with values filled in: escaped, but for those that are markup already."""
    return escape(text(language, said)).format(**values)


def render(
    template: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    /,
    *,
    caller: Caller | None = None,
    language: str = LANGUAGES[0],
    **values: Any,
) -> HTMLResponse:
    """Return a template as an answer: in the language of the `caller` who reads it, else in the one that is given."""
    values.setdefault("now", datetime.now(UTC))
    token = _PEOPLE.set(caller.people if caller else {})
    try:
        templates = _templates(caller.language if caller else language)
        page = templates.get_template(template).render(values, caller=caller)
    finally:
        _PEOPLE.reset(token)
    return HTMLResponse(page, status, headers)


def set_up_was_run() -> bool:
    """Tell whether the vendored scripts are where the page needs them."""
    return (_VENDOR / "htmx.min.js").is_file()


class SignInNeeded(HTTPException):
    """A page was asked for by nobody we know: the browser goes to the sign-in page.

    A part of a page that was made for another session has no place in it: the browser loads the page again.
    """

    def __init__(self, request: Request, *, reload: bool = False) -> None:
        if reload:
            super().__init__(401, headers={"hx-refresh": "true"})
            return
        # A part of a page leads back to the page that asked for it, and so does a form, which was not sent.
        part = "hx-request" in request.headers
        form = request.method != "GET" and request.scope["path"] != "/sign-out"
        asked = _asked(request, part=part)
        told = ({"unsent": "1"} if form else {}) | ({"back": asked} if asked not in {"", "/"} else {})
        where = "hx-redirect" if part else "location"
        super().__init__(401 if part else 303, headers={where: f"/sign-in?{urlencode(told)}" if told else "/sign-in"})


def _asked(request: Request, *, part: bool) -> str:
    """Return path and query of the page that somebody was at; nothing where what the browser says is no address."""
    try:
        own = request.method == "GET" and not part
        page = urlsplit(str(request.url) if own else request.headers.get("hx-current-url" if part else "referer", ""))
    except ValueError:
        return ""
    return f"{page.path}?{page.query}" if page.query else page.path


async def signed_in(request: Request, deps: DepsOf) -> Caller:
    """Return who is signed in; send everybody else to the sign-in page.

    Pages show what is anywhere in a tenant. Who has a conversation's token sees that conversation alone, by the API.
    """
    try:
        caller = await deps.authenticator.caller(request)
    except NoCaller as error:
        raise SignInNeeded(request, reload=isinstance(error, OtherSession)) from error
    sender_is_known(request.scope)
    if caller.conversation_id is not None:
        detail = "It is good for its one conversation, by the API; pages show what is anywhere in the tenant."
        raise Refused(
            "A conversation token cannot sign in to these pages.", status=403, kind="scope-missing", detail=detail
        )
    directory = deps.directory()
    person = directory.person(caller.person)
    # Errors are told in it, too, by whoever catches them.
    request.state.language = language_of(person.language if person else "", wished(request))
    return replace(caller, language=request.state.language, people=directory.people)


SignedIn = Annotated[Caller, Depends(signed_in)]


async def posted(request: Request, caller: SignedIn) -> FormData:
    """Return the fields of a form; raise Refused (403) for one of no page that this session was shown.

    The address that a browser names as a request's origin is checked for every change; this stands behind it. A bearer
    sends its own proof with each request, so that no other site can borrow it.
    """
    form = await request.form(max_files=0, max_fields=FIELDS_MAX)
    if caller.proof == "web_session" and not same_hash(field(form, "form_token"), caller.form_token):
        raise Refused("This form has expired. Reload the page and try again.", status=403, kind="foreign-form")
    return form


Posted = Annotated[FormData, Depends(posted)]


def field(form: FormData, name: str) -> str:
    """Return a text of a form, empty where it is not there, without the NUL character, which no database keeps."""
    value = form.get(name)
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else ""


def form_model(form: FormData, model: type[M]) -> M:
    """Return the fields of a form that a model has; raise RequestValidationError."""
    try:
        return model.model_validate({name: field(form, name) for name in model.model_fields if name in form})
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error


def _language(request: Request) -> str:
    """Return the language of whoever sent a request, as far as it is known who that is."""
    return str(getattr(request.state, "language", "")) or wished(request)


class PageRoute(APIRoute):
    """A route whose errors are pages: what the API says in a problem document, said to a person."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler that answers with a page in any case."""
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                return await handle(request)
            except SignInNeeded:
                raise
            except Refused as refusal:
                language = _language(request)
                title, reason = words.title_of(refusal, language), words.reason_of(refusal, language)
                return error_page(language, refusal.status, title, reason)
            except RequestValidationError as error:
                missing = any(fault["loc"][0] == "path" for fault in error.errors())
                language = _language(request)
                if missing:
                    return error_page(language, 404, text(language, "There is no such thing."))
                return error_page(language, 400, text(language, "That was not valid."))
            except HTTPException as error:
                return error_page(
                    _language(request), error.status_code, HTTPStatus(error.status_code).phrase, str(error.detail)
                )

        return page


def error_page(language: str, status: int, title: str, detail: str = "") -> HTMLResponse:
    """Return the page that says what went wrong, and where to go on."""
    return render(
        "error.html", status, language=language, title=title, detail="" if detail == title else detail, code=status
    )


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
