"""People's decisions: signed here, decided by the approval service, answered to this very instance.

A decision is safe with the broker, or in the outbox, before anybody waits, so a wait that ends early loses nothing: the
caller is told where to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any

from prometheus_client import Counter

from placet.contracts.canonical import ARGUMENTS_BYTES_MAX
from placet.contracts.errors import Refused
from placet.contracts.ids import new_id
from placet.contracts.messages import DecideApproval, DecisionAnswered, DecisionClaims, GrantWish
from placet.contracts.messages.approvals import Verb
from placet.contracts.messages.tool_calls import AnswerKind
from placet.contracts.signing import Purpose, Signer
from placet.domain.approvers import name_of
from placet.domain.catalog import Catalog
from placet.domain.directory import Person
from placet.gateway.approvals.store.links import settle_link, use_links
from placet.gateway.conversations.access import no_token, token_holds
from placet.gateway.conversations.store import note_words
from placet.gateway.http.awaited import Awaited, Waiting
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.identity.rates import Rates
from placet.gateway.store import reading
from placet.gateway.store.read import Row, load_approval, load_approvals, load_execution, why_stopped
from placet.gateway.texts import time_text
from placet.gateway.workspaces.plans import check_edit, plans_of
from placet.runtime.batcher import Batcher
from placet.runtime.sql import Connection
from placet.runtime.work import Cause, UnitOfWork, Work, cause_of_request
from placet.surfaces.plan import is_commit
from placet.surfaces.texts import text

#: What an approval is after a decision that closed it at once.
_STATES = {"approve": "approved", "deny": "denied"}

#: Decisions after which a call may run.
_LET_RUN = frozenset({"approve", "edit"})

DECISIONS = Counter("placet_gateway_decisions_total", "Decisions sent, by what became of them.", ["outcome"])


@dataclass(frozen=True, slots=True)
class Ask:
    """What a person wants done with an approval, and what they saw."""

    verb: Verb
    digest: str
    reason: str = ""
    revision: int | None = None
    #: The restore that the card told of; a call from before one lets nobody approve it who was not told.
    restored_at: datetime | None = None
    #: For `edit`: canonical JSON text.
    arguments: str = ""
    #: For `respond`.
    response: str = ""
    response_kind: AnswerKind = "instruction"
    #: For `delegate`: `person:<id>`.
    to: str = ""
    #: For `claim`.
    seconds: int | None = None
    #: For `approve`: "allow this from now on".
    grant: GrantWish | None = None
    #: For `deny`: the turn ends with it.
    end_turn: bool = False
    #: The words of the chat message that was taken for it.
    said: str = ""

    @property
    def tells_the_model(self) -> bool:
        """Whether the model may do what its words say, in the requester's name.

        Also from who may not decide the call, and where they are of arguments that somebody is just changing.
        """
        return self.verb == "respond" or (self.verb == "cancel" and self.reason != "")


#: What of a wish is signed, under the same names.
_SIGNED = tuple(each.name for each in fields(Ask) if each.name != "restored_at")


@dataclass(frozen=True, slots=True)
class _Wish:
    """One decision on its way."""

    caller: Caller
    approval_id: str
    ask: Ask
    decision_id: str
    #: Hash of the mailed link's token that it is made with; empty for everybody else.
    link: str = ""
    #: What its request is part of.
    cause: Cause = field(default_factory=cause_of_request)

    @property
    def place(self) -> tuple[str, str]:
        """The approval's key."""
        return self.caller.tenant, self.approval_id


#: The approval as it was, and what was signed about it.
_Sent = tuple[Row, DecisionClaims]


@dataclass
class Decisions:
    """Sends decisions and waits for their answers; decisions that come at the same moment share a transaction."""

    units: UnitOfWork
    signer: Signer
    #: This gateway instance; answers come to its own queue.
    instance: str
    answer_seconds: float
    #: Of decisions with a conversation's token, whose holder need not be known: each is kept, counted or not.
    rates: Rates
    _awaited: Awaited[DecisionAnswered] = field(init=False)
    _batcher: Batcher[_Wish, _Sent] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the waits, and what brings decisions together."""
        self._awaited = Awaited(self.answer_seconds)
        self._batcher = Batcher(self._send_all, isolate=True)

    async def decide(
        self,
        caller: Caller,
        approval_id: str,
        ask: Ask,
        *,
        decision_id: str = "",
        stored: asyncio.Event | None = None,
        link: str = "",
    ) -> Row | None:
        """Have a decision made; return the approval as it is then, or None where the answer takes its time.

        The same `decision_id` means the same decision; `stored` is set when it cannot be lost any more. `link` is the
        hash of the mailed link's token that it is made with: it is used up in the transaction that sends the decision,
        and given back where the decision did not count. Raises Refused: 400 (what the rule lets nobody do), 401 (a
        conversation's token that is good no more), 403 (scope, not among the approvers, or not known surely enough),
        404, 409 (already decided, a stale card, or a used link), 413 (arguments that no call may have), 429 (too many
        with a conversation's token).
        """
        caller.need(Scope.DECIDE)
        if caller.conversation_id is not None:
            self.rates.admit(caller)
        if len(ask.arguments.encode()) > ARGUMENTS_BYTES_MAX:
            detail = f"Arguments have at most {ARGUMENTS_BYTES_MAX} bytes."
            raise Refused(detail, status=413, kind="too-large")
        decision_id = decision_id or new_id()
        with self._awaited.expected(decision_id) as waiting:
            approval, claims = await self._batcher.submit(_Wish(caller, approval_id, ask, decision_id, link))
            if stored is not None:
                stored.set()
            answer = await self.outcome(waiting)
        if link and answer is not None:
            async with self.units.database.single() as connection:
                await settle_link(connection, decision_id, counted=answer.outcome == "accepted")
        if answer is None:
            return None
        if answer.outcome != "accepted":
            raise _refusal(answer, **await self._run_of(approval, ask, answer))
        return decided(approval, claims, answer) or await self.find(caller, approval_id)

    def expected(self, decision_id: str) -> AbstractContextManager[Waiting[DecisionAnswered]]:
        """Return the block in which the answer to a decision that is sent with other work can be waited for."""
        return self._awaited.expected(decision_id)

    def send(self, work: Work, caller: Caller, approval: Row, ask: Ask, decision_id: str) -> None:
        """Sign a decision and hand it over with a piece of work; whoever sends it has looked what the caller sees."""
        caller.need(Scope.DECIDE)
        if refusal := _not_now(ask, approval):
            raise refusal
        work.emit(self._signed(_claims(_Wish(caller, approval["approval_id"], ask, decision_id), approval, work.now)))

    async def outcome(self, waiting: Waiting[DecisionAnswered]) -> DecisionAnswered | None:
        """Return the answer to a decision that was sent; None where it takes its time."""
        answer = await self._awaited.answer(waiting)
        DECISIONS.labels(answer.outcome if answer else "unanswered").inc()
        return answer

    async def _run_of(self, approval: Row, ask: Ask, answer: DecisionAnswered) -> dict[str, Any]:
        """Return how far a call is that somebody wanted cancelled too late; nothing for any other decision."""
        if ask.verb != "cancel" or answer.state != "approved":
            return {}
        async with reading(self.units.database) as connection:
            execution = await load_execution(connection, approval["tenant"], approval["call_id"])
        return {"execution": execution["state"] if execution else None}

    async def find(self, caller: Caller, approval_id: str) -> Row:
        """Return an approval that exists for this caller; raise Refused (404) otherwise."""
        async with reading(self.units.database) as connection:
            approval = await load_approval(connection, caller.tenant, approval_id)
        if approval is None or not caller.sees(approval["conversation_id"]):
            raise _no_approval()
        return approval

    def answered(self, message: DecisionAnswered) -> None:
        """Take an answer; one that nobody waits for any more is dropped."""
        self._awaited.answered(message.decision_id, message)

    def close(self) -> None:
        """Let everybody go who waits; their decisions are on their way."""
        self._awaited.close()

    async def _send_all(self, wishes: Sequence[_Wish]) -> list[_Sent | Exception]:
        """Send decisions in one envelope; one about an approval that does not exist for its caller is refused."""
        outcomes: list[_Sent | Exception] = []
        by_link: dict[int, tuple[str, DecisionClaims]] = {}
        async with self.units.once(unstored=True) as work:
            found = await load_approvals(work.connection, [wish.place for wish in wishes])
            for at, wish in enumerate(wishes):
                approval = found.get(wish.place)
                if approval is None or not wish.caller.sees(approval["conversation_id"]):
                    outcomes.append(_no_approval())
                    continue
                if not await token_holds(work.connection, wish.caller):
                    outcomes.append(no_token())
                    continue
                if refusal := await _refused(work.connection, wish.ask, approval):
                    outcomes.append(refusal)
                    continue
                claims = _claims(wish, approval, work.now)
                if wish.ask.tells_the_model and approval["state"] == "pending":
                    place = (approval["tenant"], approval["conversation_id"])
                    await note_words(work.connection, place, wish.caller.writers)
                work.cause = wish.cause
                work.emit(self._signed(claims), key=claims.decision_id)
                outcomes.append((approval, claims))
                if wish.link:
                    by_link[at] = wish.link, claims
            if by_link:
                others = [each[1].decision_id for each in outcomes if not isinstance(each, Exception)]
                used = await use_links(work, by_link.values(), others)
                for at, (_, claims) in by_link.items():
                    if claims.decision_id not in used:
                        outcomes[at] = Refused("This link was already used.", status=409, kind="link-used")
        return outcomes

    def _signed(self, claims: DecisionClaims) -> DecideApproval:
        return DecideApproval(
            tenant=claims.tenant,
            approval_id=claims.approval_id,
            decision_id=claims.decision_id,
            answer_to=self.instance,
            decision=self.signer.sign(Purpose.DECISION, claims.model_dump(exclude_defaults=True)),
        )


def in_words(refusal: Refused, locale: str = "en", people: Mapping[str, Person] = MappingProxyType({})) -> str:
    """Return what a person is told of a refusal, in one or two sentences; what no catalogue has in English.

    Whoever was faster is called as `people` have it, who are found by id.
    """
    by = name_of(str(refusal.facts.get("decided_by") or ""))
    if by:
        who = text(locale, "Decided by {person}.", person=(people[by].name if by in people else "") or by)
        return f"{text(locale, refusal.title)} {who}"
    detail, title = str(refusal.facts.get("detail") or ""), text(locale, refusal.title)
    translated = text(locale, detail) if detail else title
    # Of what no catalogue has, at least the kind is told in the person's language.
    return f"{title} ({detail})" if translated == detail and title != refusal.title else translated


def _no_approval() -> Refused:
    return Refused("There is no such approval.", status=404, kind="not-found")


def _not_now(ask: Ask, approval: Row) -> Refused | None:
    """Return why nobody may let this call run now; what waits stays, and may be denied."""
    if ask.verb not in _LET_RUN:
        return None
    if restored := _restored_since(ask, approval):
        return restored
    if approval.get("stopped") is None:
        return None
    title = "An administrator has stopped such calls. It can be approved when they are allowed again."
    return Refused(title, status=409, kind="stopped", detail=approval["stopped"] or title)


def _restored_since(ask: Ask, approval: Row) -> Refused | None:
    """Return why a card lets nothing run that does not tell of a restore since: the call may have run.

    A conversation's log goes on as the backup had it, so its cards say nothing of that; other pages may have stood open
    since before, and what programs sent before, they send again.
    """
    if approval["state"] != "pending" or approval.get("restored_at") in {None, ask.restored_at}:
        return None
    title = "Placet was restored from a backup after this was asked: it may have run already."
    detail = (
        "Look at it again, and see first whether it ran. It can be approved in the inbox, in Slack, by mail, or over "
        "/v1/approvals with its `restored_at`."
    )
    return Refused(title, status=409, kind="restored", detail=detail)


async def _refused(connection: Connection, ask: Ask, approval: Row) -> Refused | None:
    """Return why a decision is not sent; None where it is. A commit may be approved without what is stopped in it."""
    if ask.verb == "edit" and is_commit(approval["tool"]) and approval.get("stopped") is not None:
        place = (approval["tenant"], approval["approval_id"])
        approval = {**approval, "stopped": await why_stopped(connection, *place, ask.arguments)}
    return _not_now(ask, approval) or await _no_edit(connection, ask, approval)


async def _no_edit(connection: Connection, ask: Ask, approval: Row) -> Refused | None:
    """Return why an edit of a commit would lose what waits; None for every other decision."""
    # What is over, or was changed since it was shown, approval answers.
    now = approval["state"] == "pending" and approval["digest"] == ask.digest
    if ask.verb != "edit" or not is_commit(approval["tool"]) or not now:
        return None
    plans = await plans_of(connection, [approval], Catalog([]))
    try:
        check_edit(plans.get(approval["approval_id"]), ask.arguments)
    except Refused as refusal:
        return refusal
    return None


def decided(approval: Row, claims: DecisionClaims, answer: DecisionAnswered) -> Row | None:
    """Return the approval as an accepted decision left it; None where the answer tells of anything else beside it.

    An approval closes once and changes no more, so a row read before and the answer say together all there is.
    """
    told = (answer.state, answer.revision, answer.digest, answer.decided_by)
    if told != (_STATES.get(claims.verb), approval["revision"], approval["digest"], claims.person):
        return None
    closed = {"state": answer.state, "decided_by": claims.person, "decision_reason": claims.reason}
    return {**approval, **closed, "closed_at": answer.decided_at} if answer.decided_at else None


def _claims(wish: _Wish, approval: Row, now: datetime) -> DecisionClaims:
    caller, ask = wish.caller, wish.ask
    return DecisionClaims(
        tenant=caller.tenant,
        approval_id=approval["approval_id"],
        decision_id=wish.decision_id,
        at=now.timestamp(),
        **{name: getattr(ask, name) for name in _SIGNED},
        person=caller.person,
        roles=caller.roles_for(approval["requester"]),
        conversation_id=caller.conversation_id,
        proof=caller.proof,
        key_id=caller.key_id,
        opened_by=approval["opened_by"],
        key_made_by=caller.key_made_by,
    )


def _refusal(answer: DecisionAnswered, **more: Any) -> Refused:
    now = {**_facts(answer), **more}
    match answer.outcome:
        case "already_decided":
            return Refused("This approval is already closed.", status=409, kind="already-decided", **now)
        case "stale":
            return Refused("The card has changed since it was shown.", status=409, kind="stale-card", **now)
        case "not_allowed":
            title = "You are not among this approval's approvers."
            # A stranger is told nothing of the approval, and not even that there is something to tell.
            return Refused(title, status=403, kind="not-an-approver", detail=answer.detail or title)
        case "too_weak":
            title = "This needs a stronger sign-in than yours."
            return Refused(title, status=403, kind="identity-too-weak", **now)
        case "invalid":
            return Refused("This cannot be done with this approval.", status=400, kind="invalid-decision", **now)
        case _:
            return _no_approval()


def _facts(answer: DecisionAnswered) -> Mapping[str, Any]:
    decided_at = time_text(answer.decided_at) if answer.decided_at else None
    return {
        "state": answer.state,
        "decided_by": answer.decided_by or None,
        "decided_at": decided_at,
        "revision": answer.revision,
        "digest": answer.digest,
        **({"detail": answer.detail} if answer.detail else {}),
    }
