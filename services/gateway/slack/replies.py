"""Replies in the thread of a card: what a person of the directory writes there is a comment on the approval.

Slack tells them by events, which it sends again until they are acknowledged: a reply is one comment, by its channel and
time. A comment decides nothing, whatever it says. What others write there stays in Slack.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError
from slack_sdk.web.async_client import AsyncWebClient

from placet.contracts.errors import Refused
from placet.contracts.ids import derived_id
from placet.domain.directory import Directory
from placet.gateway.approvals.comments import CommentIn, comment
from placet.gateway.approvals.decisions import Decisions, in_words
from placet.gateway.slack.acting import tried
from placet.gateway.slack.interactions import Place, Sender, text_in
from placet.gateway.slack.people import caller_of, hearing_of
from placet.gateway.store import reading
from placet.runtime.queries import load_queries
from placet.surfaces import block_kit as kit
from placet.surfaces.slack import Slack, Subject

log = structlog.get_logger(__name__)

QUERIES = load_queries(__file__, "replies.sql")

#: What people write themselves has no subtype, but for a reply that they show in the channel too, or with a file.
_WRITTEN = frozenset({"", "thread_broadcast", "file_share"})
#: What Slack puts in place of a person, a channel, a group or a link: `<@U…>`, `<#C…|ops>`, `<!here>`, `<url|words>`.
_CONTROL = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")


@dataclass(frozen=True, slots=True)
class Reply:
    """One message in a thread."""

    sender: Sender
    #: The message that the thread is about.
    place: Place
    #: Its own time stamp: with the channel, its name.
    ts: str
    #: As Slack writes it: with control sequences, and `&`, `<` and `>` escaped.
    words: str


def read_reply(payload: Mapping[str, Any]) -> Reply | None:
    """Return the reply that an event tells of; None where it tells of anything else, or a program wrote it."""
    event = payload.get("event")
    if payload.get("type") != "event_callback" or not isinstance(event, dict) or event.get("type") != "message":
        return None
    team = text_in(payload, "team_id")
    user, channel, thread, ts = (text_in(event, name) for name in ("user", "channel", "thread_ts", "ts"))
    by_program = event.get("bot_id") or event.get("hidden") or (event.get("subtype") or "") not in _WRITTEN
    if by_program or not (team and user and channel and thread and ts) or thread == ts:
        return None
    # Somebody from another workspace, in a channel that both share.
    home = text_in(event, "user_team") or text_in(event, "team") or team
    return Reply(Sender(team, home, user), Place(channel, thread), ts, text_in(event, "text"))


def plain_words(words: str, name_of: Callable[[str], str]) -> str:
    """Return what somebody wrote as plain text; `name_of` tells the id of the person behind a Slack id, or nothing."""

    def shown(found: re.Match[str]) -> str:
        kind, what, label = found[1], found[2], found[3] or ""
        if kind == "@":
            return f"@{name_of(what) or what}"
        if kind == "#":
            return f"#{label or what}"
        if kind == "!":
            return label or f"@{what.partition('^')[0]}"
        if what == f"mailto:{label}":
            return label
        return what if label in {"", what} else f"{label} ({what})"

    return html.unescape(_CONTROL.sub(shown, words))


@dataclass(frozen=True)
class Replies:
    """Keeps replies as comments."""

    slack: Slack
    decisions: Decisions
    directory: Callable[[], Directory]
    #: Language of people who have named none.
    language: str

    async def take(self, payload: Mapping[str, Any], client: AsyncWebClient) -> None:
        """Keep the comment that an event tells of, if it does; tell its writer alone why it was not kept."""
        reply = read_reply(payload)
        if reply is None or (subject := await self._subject(reply)) is None:
            return
        directory = self.directory()
        try:
            caller = caller_of(reply.sender, subject, self.slack, directory)
        except Refused:
            log.info("slack.reply_of_stranger", approval_id=subject.approval_id)
            return
        try:
            row = await self.decisions.find(caller, subject.approval_id)
            said_in = f"{reply.place.channel}/{reply.place.ts}"
            comment_id = derived_id("slack-comment", reply.place.channel, reply.ts)
            said = self._said(reply, directory)
            await comment(self.decisions.units, caller, row, said, comment_id=comment_id, said_in=said_in)
        except Refused as refusal:
            hearing = hearing_of(reply.sender, directory, self.language)
            words = in_words(refusal, hearing.locale, hearing.people)
            place, user = reply.place, reply.sender.user
            text = kit.escaped(words)
            await tried(client.chat_postEphemeral(channel=place.channel, thread_ts=place.ts, user=user, text=text))

    async def _subject(self, reply: Reply) -> Subject | None:
        """Return which approval's card the thread is about; None where it is about nothing of ours."""
        team = self.slack.by_team.get(reply.sender.team)
        if team is None:
            return None
        place = {"channel": reply.place.channel, "ts": reply.place.ts}
        async with reading(self.decisions.units.database) as connection:
            rows = await connection.run(QUERIES.card_at, **place, tenants=list(team.tenants))
        return Subject(rows[0]["tenant"], rows[0]["approval_id"], 1, "") if rows else None

    def _said(self, reply: Reply, directory: Directory) -> CommentIn:
        """Return the comment that a reply is; raise Refused (400) where it is none."""

        def name_of(user: str) -> str:
            person = directory.person_in_slack(reply.sender.team, user)
            return person.id if person else ""

        try:
            return CommentIn(text=plain_words(reply.words, name_of))
        except ValidationError as error:
            title = "Placet did not keep your reply as a comment: it is empty, or too long."
            raise Refused(title, status=400, kind="invalid-request") from error
