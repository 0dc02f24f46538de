"""The door of mailed links: GET shows and never decides, POST decides. Works without a script, and runs none.

Mail gateways open links before people do, and some send the forms they find. So a decision takes the seal of a shown
page and a choice that no page makes by itself; what is dangerous takes typed digits too. What a link does not prove
surely enough is decided after signing in.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from prometheus_client import Counter
from pydantic import BaseModel, Field

from services.gateway.api.approval_forms import approval_out
from services.gateway.api.callers import DepsOf
from services.gateway.auth import Caller, same_site
from services.gateway.decisions import Ask, in_words
from services.gateway.deps import Deps
from services.gateway.keys import Scope
from services.gateway.links import (
    GUESS_SECONDS,
    Link,
    Seal,
    Standing,
    Use,
    code_of,
    link_is_enough,
    standing,
    token_hash,
)
from services.gateway.store import reading
from services.gateway.store.links import find_link, find_use
from services.gateway.store.read import Row, list_decisions, load_approval
from services.gateway.texts import Text
from services.gateway.web.render import render
from shared.errors import Refused
from shared.messages.approvals import REASON_MAX
from shared.texts import language_of, text

log = structlog.get_logger(__name__)

router = APIRouter(prefix="/l", include_in_schema=False)

OPENED = Counter("placet_gateway_links_total", "Mailed links opened or sent, by what they were good for.", ["standing"])

#: Votes that a page lists at most.
VOTES_MAX = 50
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-robots-tag": "noindex, nofollow",
}
#: What a link that decides nothing answers: on showing, and on sending.
_STATUSES = {
    Standing.UNKNOWN: (404, 404),
    Standing.LAPSED: (410, 410),
    Standing.OVER: (200, 409),
    Standing.USED: (200, 409),
    Standing.CHANGED: (200, 409),
    Standing.TOO_WEAK: (200, 403),
}


class Vote(BaseModel):
    """What came back from a page. All of it is only a claim until the seal holds."""

    decision: Annotated[str, Field(max_length=16)] = ""
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""
    code: Annotated[str, Field(max_length=16)] = ""
    digest: Annotated[str, Field(max_length=64)] = ""
    revision: Annotated[str, Field(pattern=r"^[0-9]{0,9}$")] = ""
    shown_at: Annotated[str, Field(pattern=r"^[0-9]{0,12}$")] = ""
    seal: Annotated[str, Field(max_length=64)] = ""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A link, and all that is known about it."""

    token: str
    standing: Standing
    link: Link | None = None
    approval: Row | None = None
    use: Use | None = None

    def found(self) -> tuple[Link, Row]:
        """Return link and approval of a link that is good for something."""
        if self.link is None or self.approval is None:
            raise _unknown()
        return self.link, self.approval


@router.api_route("/{token}", methods=["GET", "HEAD"])
async def show(request: Request, deps: DepsOf, token: str) -> Response:
    """Show what waits, or what became of it. Changes nothing, however often and by whomever it is asked."""
    if refusal := _guessing(request, deps):
        return refusal
    opened = await _open(request, deps, token)
    if opened.standing is Standing.OPEN:
        return await _card(deps, opened)
    return _end(deps, opened, _STATUSES[opened.standing][0])


@router.post("/{token}")
async def decide(request: Request, deps: DepsOf, token: str, vote: Annotated[Vote, Form()]) -> Response:
    """Decide with a link; what lacks something is shown again and says what."""
    if refusal := _guessing(request, deps):
        return refusal
    opened = await _open(request, deps, token)
    if opened.use is not None and opened.use.verb == vote.decision:
        return _see(token)
    if opened.standing is not Standing.OPEN:
        return _end(deps, opened, _STATUSES[opened.standing][1])
    if _from_elsewhere(request, deps):
        elsewhere = text(_language(deps, opened.link), "This did not come from this page. Decide here.")
        return await _card(deps, opened, elsewhere, 403)
    if lack := _lack(vote, opened, _language(deps, opened.link)):
        return await _card(deps, opened, lack, 400)
    return await _send(request, deps, opened, vote)


async def _send(request: Request, deps: Deps, opened: _Opened, vote: Vote) -> Response:
    link, approval = opened.found()
    operator = deps.directory().is_operator(link.person)
    caller = Caller(link.tenant, link.person, "link", frozenset({Scope.DECIDE}), operator=operator)
    verb: Any = vote.decision
    ask = Ask(verb, vote.digest, vote.reason.strip(), int(vote.revision))
    try:
        decided = await deps.decisions.decide(caller, approval["approval_id"], ask, link=link.token_hash)
    except Refused as refusal:
        now = await _open(request, deps, opened.token)
        if now.use is not None and now.use.verb == verb:
            return _see(opened.token)
        if now.standing is Standing.OPEN:
            return await _card(deps, now, in_words(refusal, _language(deps, link)), refusal.status)
        return _end(deps, now, 409)
    if decided is None:
        return render("link_sent.html", 202, _HEADERS, **_speaking(deps, link))
    return _see(opened.token)


async def _open(request: Request, deps: Deps, token: str) -> _Opened:
    """Look a link up; a token that is none of ours counts as a guess."""
    hashed, link, approval, use = token_hash(token), None, None, None
    if hashed is not None:
        async with reading(deps.runtime.database) as connection:
            link = await find_link(connection, hashed)
            if link is not None:
                approval = await load_approval(connection, link.tenant, link.approval_id)
                use = await find_use(connection, hashed)
    found = standing(link, approval, use, deps.directory())
    OPENED.labels(found).inc()
    if link is None:
        deps.guesses.miss(_address(request))
    else:
        log.info("link.opened", method=request.method, approval_id=link.approval_id, standing=found)
    return _Opened(token, found, link, approval, use)


async def _card(deps: Deps, opened: _Opened, notice: str = "", status: int = 200) -> HTMLResponse:
    """Show the card with its form, sealed anew."""
    link, approval = opened.found()
    async with reading(deps.runtime.database) as connection:
        rows = await list_decisions(connection, link.tenant, link.approval_id, VOTES_MAX)
    seal = Seal(approval["digest"], approval["revision"], int(time.time()))
    return render(
        "link.html",
        status,
        _HEADERS,
        approval=approval_out(approval),
        person=deps.directory().person(link.person),
        voted=[row["person"] for row in rows if row["counted_revision"] is not None],
        rule=approval["approval_rule"],
        code=code_of(approval),
        seal=seal,
        sealed=seal.of(opened.token),
        notice=notice,
        **_speaking(deps, link),
    )


def _end(deps: Deps, opened: _Opened, status: int) -> HTMLResponse:
    """Show why nothing can be decided with the link; what the link is too weak for, or too old, is not told with it."""
    approval, summary = None, ""
    if opened.standing in {Standing.OVER, Standing.USED} and opened.approval is not None:
        approval = approval_out(opened.approval)
        summary = approval.summary if link_is_enough(opened.approval) else ""
    values = {"standing": opened.standing, "approval": approval, "summary": summary, "use": opened.use}
    return render("link_end.html", status, _HEADERS, **values, **_speaking(deps, opened.link))


def _language(deps: Deps, link: Link | None) -> str:
    """Return the language to speak to whom a link is for; the settings' where nobody said it."""
    person = deps.directory().person(link.person) if link is not None else None
    return language_of(person.language if person else "", deps.settings.notifier_language)


def _speaking(deps: Deps, link: Link | None = None) -> dict[str, Any]:
    """Return what templates need to speak that language."""
    language = _language(deps, link)
    return {"t": partial(text, language), "lang": language}


def _lack(vote: Vote, opened: _Opened, language: str) -> str:
    """Return what a sent page lacks to be counted, for the person; nothing where it lacks nothing."""
    _, approval = opened.found()
    if not (vote.revision and vote.shown_at):
        return text(language, "Read what waits for you, and decide here.")
    seal = Seal(vote.digest, int(vote.revision), int(vote.shown_at))
    if not seal.holds(opened.token, vote.seal, time.time()):
        return text(language, "This page was open for too long. Read it again, and decide.")
    if vote.decision not in {"approve", "deny"}:
        return text(language, "Choose whether you approve or deny.")
    code = code_of(approval)
    if code and vote.code.strip().lower() != code:
        words = "Type the last {count} characters of the digest, {code}."
        return text(language, words, count=len(code), code=code)
    return ""


def _from_elsewhere(request: Request, deps: Deps) -> bool:
    """Tell whether a browser says that another site sent the form. Ours says `null`: it tells no referrer."""
    headers = request.headers
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = headers.get("origin", "null")
    return origin != "null" and not same_site(origin, headers.get("host", ""), deps.settings.public_url)


def _guessing(request: Request, deps: Deps) -> Response | None:
    """Return what is told to an address that tries links that do not exist; None where it may go on."""
    if not deps.guesses.too_many(_address(request)):
        return None
    OPENED.labels("guessing").inc()
    log.warning("link.guessing", address=_address(request))
    headers = {**_HEADERS, "retry-after": str(int(GUESS_SECONDS))}
    return render("link_end.html", 429, headers, standing="guessing", **_speaking(deps))


def _see(token: str) -> Response:
    return RedirectResponse(f"/l/{token}", 303, _HEADERS)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _unknown() -> Refused:
    return Refused("There is no such link.", status=404, kind="not-found")
