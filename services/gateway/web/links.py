"""The door of mailed links: GET shows and never decides, POST decides. Works without a script, and runs none.

Mail gateways open links before people do, and some fill in and send the forms they find. So a decision takes the seal
of a shown page, a choice, and the code that stands in the mail's text beside the link; what is dangerous takes digits
of the digest too. What a link does not prove surely enough is decided after signing in.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from prometheus_client import Counter
from pydantic import BaseModel, Field

from placet.contracts.errors import Refused
from placet.contracts.messages import ApprovalRule, GrantWish
from placet.contracts.messages.approvals import REASON_MAX
from placet.domain.grants import offered_again
from placet.gateway.approvals.decisions import Ask, in_words
from placet.gateway.approvals.forms import approval_out
from placet.gateway.approvals.links import Link, Seal, Standing, Use, code_of, link_is_enough, standing, token_hash
from placet.gateway.approvals.mine import decidable
from placet.gateway.approvals.store.links import find_link, find_use
from placet.gateway.approvals.voting import Counted, count_votes
from placet.gateway.http.callers import DepsOf
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller, same_site
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.read import Row, load_approval
from placet.gateway.texts import Text
from placet.gateway.web.plans import MoreIsLeftOut, left_in, without_left_out
from placet.gateway.web.render import FIELDS_MAX, form_model, render
from placet.gateway.web.shown import Shown, shown_calls, tools_of
from placet.gateway.workspaces.plans import plans_of
from placet.runtime.connections import whoever_has
from placet.surfaces.card import named, names_in, way
from placet.surfaces.link_codes import CODE_LENGTH, code_hash, is_code
from placet.surfaces.plan import Plan
from placet.surfaces.texts import language_of, moment, text

log = structlog.get_logger(__name__)

router = APIRouter(prefix="/l", include_in_schema=False)

OPENED = Counter("placet_gateway_links_total", "Mailed links opened or sent, by what they were good for.", ["standing"])

#: What a vote is called: who edited said yes to what they made of it.
_VERBS: dict[str, str] = {"edit": "approve"}
#: An approval with the narrowest grant that its rule offers.
AGAIN = "approve-again"
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
    Standing.SENT: (202, 409),
    Standing.USED: (200, 409),
    Standing.VOTED: (200, 409),
    Standing.RESTING: (429, 429),
    Standing.CHANGED: (200, 409),
    Standing.NOT_ASKED: (200, 403),
    Standing.TOO_WEAK: (200, 403),
}


class Vote(BaseModel):
    """What came back from a page. All of it is only a claim until the seal holds."""

    decision: Annotated[str, Field(max_length=16)] = ""
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""
    #: That stands in the mail.
    mail_code: Annotated[str, Field(max_length=32)] = ""
    #: End of the digest, where a call is dangerous.
    code: Annotated[str, Field(max_length=16)] = ""
    #: That the person knows that they voted already, and means to change it.
    again: Annotated[str, Field(max_length=1)] = ""
    digest: Annotated[str, Field(max_length=64)] = ""
    revision: Annotated[str, Field(pattern=r"^[0-9]{0,9}$")] = ""
    shown_at: Annotated[str, Field(pattern=r"^[0-9]{0,12}$")] = ""
    seal: Annotated[str, Field(max_length=64)] = ""

    @property
    def verb(self) -> str:
        """What it is as a decision: the same again is an approval."""
        return "approve" if self.decision == AGAIN else self.decision


@dataclass(frozen=True, slots=True)
class _Opened:
    """A link, and all that is known about it."""

    token: str
    standing: Standing
    link: Link | None = None
    approval: Row | None = None
    use: Use | None = None
    #: How far the approval is; None where it does not wait.
    counted: Counted | None = None
    #: Its call as every card shows it; None where it does not wait.
    shown: Shown | None = None
    #: Of a commit: its entries.
    plan: Plan | None = None
    #: Entries of it that its person has marked to be left out.
    left: frozenset[str] = frozenset()

    @property
    def again(self) -> GrantWish | None:
        """The narrowest grant that is offered with an approval; None where there is none."""
        if self.approval is None:
            return None
        return offered_again(ApprovalRule.model_validate(self.approval["approval_rule"]), self.approval["tool"])

    @property
    def vote(self) -> Use | None:
        """What the link's person has voted so far, by whatever way."""
        return _vote_of(self.link, self.counted)

    def found(self) -> tuple[Link, Row]:
        """Return link and approval of a link that is good for something."""
        if self.link is None or self.approval is None:
            raise Refused("There is no such link.", status=404, kind="not-found")
        return self.link, self.approval


@router.api_route("/{token}", methods=["GET", "HEAD"])
async def show(request: Request, deps: DepsOf, token: str, again: Annotated[str, Query(max_length=1)] = "") -> Response:
    """Show what waits, or what became of it. Changes nothing, however often and by whomever it is asked."""
    guessing = deps.guesses.too_many(_whoever_asks(request))
    opened = await _open(request, deps, token)
    # A link of ours is always good: many people share one address, and no token is found by trying.
    if guessing and opened.link is None:
        return _guessing(request, deps)
    if opened.standing is Standing.OPEN or (opened.standing is Standing.VOTED and again):
        return _card(deps, opened)
    return _end(deps, opened, _STATUSES[opened.standing][0])


@router.post("/{token}")
async def decide(request: Request, deps: DepsOf, token: str) -> Response:
    """Decide with a link; what lacks something is shown again and says what."""
    guessing = deps.guesses.too_many(_whoever_asks(request))
    opened = await _open(request, deps, token)
    # A link of ours is always good: many people share one address, and no token is found by trying.
    if guessing and opened.link is None:
        return _guessing(request, deps)
    link = opened.link
    if link is None:
        return _end(deps, opened, _STATUSES[opened.standing][1])
    # Nothing is parsed for somebody who has no link of ours.
    form = await request.form(max_files=0, max_fields=FIELDS_MAX)
    vote, opened = form_model(form, Vote), replace(opened, left=left_in(form))
    if opened.use is not None and opened.use.verb == vote.verb:
        return _see(token)
    if opened.standing is not Standing.OPEN and not (opened.standing is Standing.VOTED and vote.again):
        return _end(deps, opened, _STATUSES[opened.standing][1])
    if deps.codes.too_many(link.token_hash):
        # Of those that were sent at once, or whose form came late, no more are compared than of others.
        return _end(deps, replace(opened, standing=Standing.RESTING), _STATUSES[Standing.RESTING][1])
    language, status = _language(deps, link), 400
    if _from_elsewhere(request, deps):
        lack, status = text(language, "This did not come from this page. Decide here."), 403
    else:
        lack = _lack(vote, opened, language) or _lacks_code(vote, opened, deps)
    return _card(deps, opened, lack, status, vote) if lack else await _send(request, deps, opened, vote)


async def _send(request: Request, deps: Deps, opened: _Opened, vote: Vote) -> Response:
    link, approval = opened.found()
    verb: Any = vote.verb
    grant = opened.again if vote.decision == AGAIN else None
    restored_at = approval["restored_at"]
    told = restored_at if restored_at and int(vote.shown_at) > restored_at.timestamp() else None
    ask = Ask(verb, vote.digest, vote.reason.strip(), int(vote.revision), told, grant=grant)
    try:
        ask = await without_left_out(deps, approval, opened.left, ask)
        decided = await deps.decisions.decide(_caller(deps, link), approval["approval_id"], ask, link=link.token_hash)
    except MoreIsLeftOut as more:
        return _card(deps, replace(opened, left=more.entries), more.said(_language(deps, link)), 409, vote)
    except Refused as refusal:
        # What was marked stays so: sent again, the form must not approve more than before.
        now = replace(await _open(request, deps, opened.token), left=opened.left)
        if now.use is not None and now.use.verb == verb:
            return _see(opened.token)
        if now.standing in {Standing.OPEN, Standing.VOTED}:
            return _card(deps, now, in_words(refusal, _language(deps, link)), refusal.status)
        return _end(deps, now, 409)
    if decided is None:
        return render("link_sent.html", 202, _HEADERS, **_speaking(deps, link))
    return _see(opened.token)


async def _open(request: Request, deps: Deps, token: str) -> _Opened:
    """Look a link up; a token that is none of ours counts as a guess."""
    hashed, link, approval, use, counted = token_hash(token), None, None, None, None
    shown, plan, tools, may = None, None, await tools_of(deps.settings.rulebook), []
    if hashed is not None:
        async with reading(deps.runtime.database) as connection:
            link = await find_link(connection, hashed)
            if link is not None:
                approval = await load_approval(connection, link.tenant, link.approval_id)
                use = _as_vote(await find_use(connection, hashed))
            if link is not None and approval is not None and approval["state"] == "pending":
                may = await decidable(connection, [approval], _caller(deps, link), deps.directory())
                votes = await count_votes(connection, approval["tenant"], [approval], deps.directory())
                counted = votes[approval["approval_id"]]
                shown = (await shown_calls(connection, [approval], tools))[approval["approval_id"]]
                plan = (await plans_of(connection, [approval], tools)).get(approval["approval_id"])
    found = standing(link, approval, use, _vote_of(link, counted), deps.directory())
    if found in {Standing.OPEN, Standing.VOTED} and not may:
        found = Standing.NOT_ASKED
    elif found in {Standing.OPEN, Standing.VOTED} and hashed is not None and deps.codes.too_many(hashed):
        found = Standing.RESTING
    OPENED.labels(found).inc()
    if link is None:
        deps.guesses.miss(_whoever_asks(request))
    else:
        log.info("link.opened", method=request.method, approval_id=link.approval_id, standing=found)
    return _Opened(token, found, link, approval, use, counted, shown, plan)


def _caller(deps: Deps, link: Link) -> Caller:
    operator = deps.directory().is_operator(link.person)
    return Caller(link.tenant, link.person, "link", frozenset({Scope.DECIDE}), operator=operator)


def _as_vote(use: Use | None) -> Use | None:
    return None if use is None else replace(use, verb=_VERBS.get(use.verb, use.verb))


def _vote_of(link: Link | None, counted: Counted | None) -> Use | None:
    rows = counted.votes if link is not None and counted is not None else ()
    theirs = [row for row in rows if link is not None and row["person"] == link.person]
    return next((_as_vote(Use(str(row["verb"]), row["decided_at"])) for row in theirs), None)


def _lacks_code(vote: Vote, opened: _Opened, deps: Deps) -> str:
    """Return what is told to who does not know the code of the mail; what could be one and is wrong is a guess."""
    link, _ = opened.found()
    if hmac.compare_digest(code_hash(opened.token, vote.mail_code), link.code_hash):
        return ""
    language = _language(deps, link)
    if is_code(vote.mail_code):
        deps.codes.miss(link.token_hash)
    if vote.mail_code.strip():
        return text(language, "That code is wrong. Use the one next to the link in your newest mail.")
    return text(language, "Type the code that stands beside the link in your mail.")


def _card(deps: Deps, opened: _Opened, notice: str = "", status: int = 200, typed: Vote | None = None) -> HTMLResponse:
    """Show the card with its form as it was typed, sealed anew; where too many wrong codes were typed, that instead.

    What was typed as a code is not kept: it is typed anew.
    """
    link, approval = opened.found()
    if deps.codes.too_many(link.token_hash):
        return _end(deps, replace(opened, standing=Standing.RESTING), _STATUSES[Standing.RESTING][1])
    voters, tally = (opened.counted.votes[:VOTES_MAX], opened.counted.tally) if opened.counted else ((), None)
    language = _language(deps, link)
    rule, called = ApprovalRule.model_validate(approval["approval_rule"]), names_in(deps.directory())
    # Whom an escalation asked too is among them.
    ways = [way(each.approvers, each.approvals, language, called) for each in (tally.panels if tally else ())]
    seal = Seal(approval["digest"], approval["revision"], int(time.time()))
    return render(
        "link.html",
        status,
        _HEADERS,
        approval=approval_out(approval),
        person=deps.directory().person(link.person),
        called=called,
        deciders=[named(each, language, called) for each in approval["approvers"]],
        voted=[called(row["person"]) for row in voters],
        vote=opened.vote,
        again=opened.again,
        rule=rule,
        shown=opened.shown,
        plan=opened.plan,
        left=opened.left,
        needed=tally.joined(ways, text(language, "or"), text(language, "and")) if tally else "",
        code=code_of(approval),
        code_length=CODE_LENGTH,
        seal=seal,
        sealed=seal.of(opened.token),
        notice=notice,
        typed=typed or Vote(),
        **_speaking(deps, link),
    )


def _end(deps: Deps, opened: _Opened, status: int) -> HTMLResponse:
    """Show why nothing can be decided with the link; to one too weak or too old nothing of the call is told."""
    approval, summary, decided_by = None, "", ""
    if opened.standing in {Standing.OVER, Standing.USED, Standing.VOTED}:
        link, row = opened.found()
        approval = approval_out(row)
        summary = approval.summary if link.alive and link_is_enough(row) else ""
        decided_by = names_in(deps.directory())(approval.decided_by or "")
    values: dict[str, Any] = {"standing": opened.standing, "approval": approval, "summary": summary, "use": opened.use}
    values |= {"vote": opened.vote, "token": opened.token, "decided_by": decided_by}
    headers = _HEADERS
    if opened.standing is Standing.RESTING and opened.link is not None:
        seconds = deps.codes.seconds_left(opened.link.token_hash)
        values["minutes"] = ceil(seconds / 60)
        headers = {**_HEADERS, "retry-after": str(seconds)}
    return render("link_end.html", status, headers, **values, **_speaking(deps, opened.link))


def _language(deps: Deps, link: Link | None) -> str:
    """Return the language to speak to whom a link is for; the settings' where nobody said it."""
    person = deps.directory().person(link.person) if link is not None else None
    return language_of(person.language if person else "", deps.settings.notifier_language)


def _speaking(deps: Deps, link: Link | None = None) -> dict[str, Any]:
    """Return what a page needs to speak that language, and to tell times as the mail did that led to it."""
    language, reader = _language(deps, link), deps.directory().person(link.person) if link else None
    return {"language": language, "at": partial(moment, language, timezone=reader.zone if reader else "UTC")}


def _lack(vote: Vote, opened: _Opened, language: str) -> str:
    """Return what a sent page lacks to be counted, for the person; nothing where it lacks nothing."""
    _, approval = opened.found()
    if not (vote.revision and vote.shown_at):
        return text(language, "Review what needs your decision here.")
    seal = Seal(vote.digest, int(vote.revision), int(vote.shown_at))
    if not seal.holds(opened.token, vote.seal, time.time()):
        return text(language, "This page was open too long. Reload it, then decide.")
    if vote.decision not in {"approve", "deny"} | ({AGAIN} if opened.again else set()):
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


def _guessing(request: Request, deps: Deps) -> Response:
    """Return what is told to an address that tries links that do not exist."""
    OPENED.labels("guessing").inc()
    log.warning("link.guessing", address=_whoever_asks(request))
    headers = {**_HEADERS, "retry-after": str(deps.guesses.seconds_left(_whoever_asks(request)))}
    return render("link_end.html", 429, headers, standing="guessing", **_speaking(deps))


def _see(token: str) -> Response:
    return RedirectResponse(f"/l/{token}", 303, _HEADERS)


def _whoever_asks(request: Request) -> str:
    return whoever_has(request.client.host) if request.client else ""
