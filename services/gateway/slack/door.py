"""What happens when somebody presses a button or submits a modal: the same for HTTP and Socket Mode.

Slack wants an answer within three seconds, so a decision is acknowledged as soon as it is safe; what becomes of it
shows on the card, and a refusal reaches the person alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import structlog
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from placet.contracts.canonical import NotStrictJson, canonical_text, parse_arguments
from placet.contracts.errors import Refused
from placet.contracts.ids import derived_id
from placet.contracts.messages import ApprovalRule, GrantWish
from placet.contracts.messages.approvals import Verb
from placet.domain.catalog import Catalog, ToolSpec
from placet.domain.directory import Directory
from placet.domain.grants import offered_again
from placet.gateway.approvals.decisions import Ask, Decisions
from placet.gateway.approvals.leaving_out import arguments_without
from placet.gateway.identity.auth import Caller
from placet.gateway.slack import edit_form, modals
from placet.gateway.slack.acting import AWAY, Ack, Acting, on_click, on_submission
from placet.gateway.slack.interactions import Click, Sender, Submission, key_of
from placet.gateway.slack.people import Hearing, caller_of, hearing_of
from placet.gateway.slack.replies import Replies
from placet.gateway.slack.store import forget_old, is_new
from placet.gateway.store import reading
from placet.gateway.store.read import Row
from placet.gateway.workspaces.plans import plans_of
from placet.runtime.database import Database
from placet.runtime.driver import Outage
from placet.surfaces import slack as names
from placet.surfaces.card import names_in
from placet.surfaces.plan import Plan, is_commit
from placet.surfaces.slack import Slack, SlackMisconfigured, Subject
from placet.surfaces.texts import text

log = structlog.get_logger(__name__)

#: How long a modal waits for the answer to its decision before it closes; Slack waits three seconds.
MODAL_SECONDS = 2.0
#: How long one call of Slack's Web API may take, in seconds; a trigger is good for three.
CALL_SECONDS = 3
_SLOW = "Your decision was sent. The answer is taking longer than usual; the card will update."


@dataclass
class SlackDoor:
    """Turns what Slack says into decisions."""

    slack: Slack
    api_url: str
    public_url: str
    database: Database
    decisions: Decisions
    directory: Callable[[], Directory]
    #: The tools as the rulebook has them now.
    catalog: Callable[[], Catalog]
    #: Language of people who have named none.
    language: str
    app: AsyncApp = field(init=False)

    def __post_init__(self) -> None:
        """Make the app and say which of its parts does what."""
        # Requests come here with their signature checked, or through the socket that our own token opened.
        self.app = AsyncApp(
            name="placet",
            client=AsyncWebClient(base_url=self.api_url, timeout=CALL_SECONDS),
            authorize=_authorizing(self.slack),
            request_verification_enabled=False,
            ignoring_self_events_enabled=False,
            user_facing_authorize_error_message="This workspace is not connected to Placet.",
            logger=_quiet_logger(),
        )
        self._replies = Replies(self.slack, self.decisions, self.directory, self.language)
        self.app.middleware(self._only_once)
        for action, listener in (
            (names.APPROVE, self._approve),
            (names.AGAIN, self._approve_again),
            (names.DENY, self._deny),
            (names.EDIT, self._edit),
            (names.MORE, self._more),
        ):
            self.app.action(action)(on_click(listener, self._spoken))
        self.app.action(names.OPEN)(_acknowledge)
        for form, submitted in (
            (modals.APPROVE_FORM, self._reason_given("approve")),
            (modals.DENY_FORM, self._reason_given("deny")),
            (modals.EDIT_FORM, self._edited),
        ):
            self.app.view(form)(on_submission(submitted, self._spoken))

    async def forget_old(self) -> int:
        """Forget interactions whose copies nobody can send any more."""
        async with self.database.transaction() as connection:
            await forget_old(connection)
        return 0

    async def _only_once(
        self,
        body: dict[str, Any],
        client: AsyncWebClient,
        next: Ack,  # noqa: A002 - bolt's word
    ) -> BoltResponse | None:
        """Let an interaction through the first time; a replay or a repeated delivery is acknowledged, and no more.

        An event is handled here: it is a reply in a thread or nothing to us, and what is repeated is kept once.
        """
        if body.get("type") == "event_callback":
            await self._replies.take(body, client)
            return BoltResponse(status=200)
        try:
            async with self.database.transaction() as connection:
                new = await is_new(connection, key_of(body))
        except Outage:
            # Who acts is told by what comes next; were it a copy, its decision would have the id of the first.
            new = True
        if not new:
            log.debug("slack.repeated", type=body.get("type"))
            return BoltResponse(status=200)
        await next()
        return None

    async def _approve(self, click: Click, acting: Acting) -> None:
        caller, row = await self._seen(click)
        if row["state"] == "pending" and row["approval_rule"].get("reason_required") == "always":
            await acting.open(modals.reason_modal("approve", row, click, acting.locale, required=True))
        else:
            await self._decide_by_button(click, caller, acting)

    async def _approve_again(self, click: Click, acting: Acting) -> None:
        caller, row = await self._waiting(click)
        grant = offered_again(ApprovalRule.model_validate(row["approval_rule"]), row["tool"])
        if grant is None:
            title = "The rule does not let anybody allow such calls from now on."
            raise Refused(title, status=400, kind="invalid-decision")
        await self._decide_by_button(click, caller, acting, grant)

    async def _deny(self, click: Click, acting: Acting) -> None:
        _, row = await self._waiting(click)
        required = row["approval_rule"].get("reason_required") in {"deny", "always"}
        await acting.open(modals.reason_modal("deny", row, click, acting.locale, required=required))

    async def _edit(self, click: Click, acting: Acting) -> None:
        _, row = await self._waiting(click)
        if not row["approval_rule"].get("edits"):
            raise Refused("The rule does not allow changing the arguments.", status=400, kind="invalid-decision")
        _refuse_stale(row, click.subject)
        try:
            if is_commit(row["tool"]):
                fields = edit_form.leave_fields(await self._plan(row), acting.locale)
            else:
                fields = edit_form.edit_fields(_arguments(row), await self._spec(row))
        except edit_form.NotHere as why:
            raise Refused(self._not_here(row, why, acting.locale), status=400, kind="invalid-decision") from why
        await acting.open(modals.edit_modal(row, fields, click, acting.locale))

    async def _left_out(self, submission: Submission, caller: Caller, row: Row, acting: Acting) -> None:
        """Decide a commit without what was checked; where more goes along, say what before anything is decided."""
        asked = submission.chosen(edit_form.LEAVE_PREFIX)
        if not asked:
            await self._decide_by_modal(submission, caller, _ask("approve", submission), acting)
            return
        arguments, gone = await arguments_without(self.database, row, submission.subject.digest, asked)
        if gone != asked:
            entries = (await self._plan(row)).entries
            more = ", ".join(str(each.position) for each in entries if each.call_id in gone - asked)
            words = text(acting.locale, "These touch the same: check {entries} too, or none of them.", entries=more)
            await acting.ack(response_action="errors", errors={f"{edit_form.LEAVE_PREFIX}0": words})
            return
        await self._decide_by_modal(submission, caller, _ask("edit", submission, arguments), acting)

    async def _plan(self, row: Row) -> Plan:
        """Return the entries of a commit; raise Refused (404) where its workspace is not there any more."""
        tools = await asyncio.to_thread(self.catalog)
        async with reading(self.database) as connection:
            plan = (await plans_of(connection, [row], tools)).get(row["approval_id"])
        if plan is None:
            raise Refused("This call has no entries.", status=404, kind="not-found")
        return plan

    async def _more(self, click: Click, acting: Acting) -> None:
        _, row = await self._seen(click)
        await acting.open(modals.more_modal(row, self._page(row), acting.locale, names_in(self.directory())))

    def _reason_given(self, verb: Verb) -> Callable[[Submission, Acting], Awaitable[None]]:
        async def reason_given(submission: Submission, acting: Acting) -> None:
            await self._decide_by_modal(submission, self._caller(submission), _ask(verb, submission), acting)

        return reason_given

    async def _edited(self, submission: Submission, acting: Acting) -> None:
        caller, row = await self._waiting(submission)
        _refuse_stale(row, submission.subject)
        if is_commit(row["tool"]):
            await self._left_out(submission, caller, row, acting)
            return
        spec = await self._spec(row)
        made, problems = edit_form.edited(submission.inputs, _arguments(row), spec, acting.locale)
        try:
            arguments = canonical_text(made)
        except NotStrictJson as error:
            wrong = text(acting.locale, "These arguments are not strict JSON: {error}", error=error)
            problems, arguments = problems or {edit_form.REASON: wrong}, ""
        if problems:
            await acting.ack(response_action="errors", errors=problems)
            return
        await self._decide_by_modal(submission, caller, _ask("edit", submission, arguments), acting)

    async def _decide_by_button(
        self, click: Click, caller: Caller, acting: Acting, grant: GrantWish | None = None
    ) -> None:
        stored, ask = asyncio.Event(), replace(_ask("approve", click), grant=grant)
        deciding = asyncio.create_task(self._decide(caller, click, ask, stored))
        waiting = asyncio.create_task(stored.wait())
        await asyncio.wait({deciding, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if stored.is_set():
            await acting.ack()
        if await deciding is None:
            await acting.whisper(text(acting.locale, _SLOW))

    async def _decide_by_modal(self, submission: Submission, caller: Caller, ask: Ask, acting: Acting) -> None:
        stored = asyncio.Event()
        deciding = asyncio.create_task(self._decide(caller, submission, ask, stored))
        await asyncio.wait({deciding}, timeout=MODAL_SECONDS)
        if not deciding.done():
            # Stored, it cannot get lost, and the modal may go; else the person must know that it is not.
            if stored.is_set():
                await acting.ack()
            else:
                await acting.ack(response_action="errors", errors={edit_form.REASON: text(acting.locale, AWAY)})
        row = await deciding
        await acting.ack()
        if row is None:
            await acting.whisper(text(acting.locale, _SLOW))

    async def _decide(self, caller: Caller, told: Click | Submission, ask: Ask, stored: asyncio.Event) -> Row | None:
        decision_id = derived_id("slack-decision", told.key)
        if told.subject.restored:
            ask = replace(ask, restored_at=datetime.fromtimestamp(told.subject.restored / 1_000_000, UTC))
        return await self.decisions.decide(
            caller, told.subject.approval_id, ask, decision_id=decision_id, stored=stored
        )

    def _caller(self, told: Click | Submission) -> Caller:
        return caller_of(told.sender, told.subject, self.slack, self.directory())

    async def _seen(self, told: Click | Submission) -> tuple[Caller, Row]:
        """Return who acts, and the approval that they act on."""
        caller = self._caller(told)
        return caller, await self.decisions.find(caller, told.subject.approval_id)

    async def _waiting(self, told: Click | Submission) -> tuple[Caller, Row]:
        """Return the same; raise Refused where the approval is over."""
        caller, row = await self._seen(told)
        if row["state"] != "pending":
            facts = {"decided_by": row["decided_by"] or None, "state": row["state"]}
            raise Refused("This approval is already closed.", kind="already-decided", **facts)
        return caller, row

    async def _spec(self, row: Row) -> ToolSpec | None:
        """Return the tool as it was when the call was proposed; None where the rulebook has another by now."""
        spec = (await asyncio.to_thread(self.catalog)).get(row["tool"])
        return spec if spec is not None and spec.schema_digest == row["schema_digest"] else None

    def _spoken(self, sender: Sender) -> Hearing:
        return hearing_of(sender, self.directory(), self.language)

    def _not_here(self, row: Row, why: edit_form.NotHere, locale: str) -> str:
        """Return why arguments cannot be changed in Slack, and where they can."""
        words = "This call cannot be changed in Slack: {why}."
        told = text(locale, words, why=text(locale, str(why)))
        page = self._page(row)
        return f"{told} {text(locale, 'Change it here: {page}', page=page)}" if page else told

    def _page(self, row: Row) -> str:
        return f"{self.public_url.rstrip('/')}/inbox/{row['approval_id']}" if self.public_url else ""


def _refuse_stale(row: Row, subject: Subject) -> None:
    if row["digest"] != subject.digest:
        raise Refused("The card has changed since it was shown.", status=409, kind="stale-card")


def reachable(slack: Slack) -> Slack:
    """Return `slack`; raise SlackMisconfigured where it is used, and no click could ever come in."""
    if slack.teams and not (slack.signing_secret.get_secret_value() or slack.app_token.get_secret_value()):
        problem = "PLACET_SLACK_SIGNING_SECRET or PLACET_SLACK_APP_TOKEN is needed: nobody could press a button"
        raise SlackMisconfigured(problem)
    return slack


def _authorizing(slack: Slack) -> Callable[..., Awaitable[Any]]:
    """Return what tells bolt the token of a team; a function of its own, because bolt reads its arguments' names."""

    async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult | None:
        team = slack.by_team.get(team_id or enterprise_id or "")
        if team is None:
            return None
        token = team.bot_token.get_secret_value()
        return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token=token)

    return authorize


def _ask(verb: Verb, told: Click | Submission, arguments: str = "") -> Ask:
    reason = told.text(edit_form.REASON).strip() if isinstance(told, Submission) else ""
    return Ask(verb, told.subject.digest, reason, told.subject.revision, arguments=arguments)


def _arguments(row: Row) -> dict[str, Any]:
    """Return the arguments as people may see them; raise Refused where these are no object."""
    try:
        return parse_arguments(row["arguments"])
    except NotStrictJson as error:
        title = "Arguments that are hidden cannot be changed."
        raise Refused(title, status=400, kind="invalid-decision") from error


async def _acknowledge(ack: Ack) -> None:
    await ack()


def _quiet_logger() -> logging.Logger:
    """Return the logger of Slack's libraries. Below this level they write requests, with what people typed."""
    logger = logging.getLogger("slack")
    logger.setLevel(logging.WARNING)
    return logger
