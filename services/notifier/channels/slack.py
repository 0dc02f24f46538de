"""The Slack channel: one message per card, updated in place; reminders, escalations and verdicts in its thread.

Slack has no key that makes posting a card twice one card. So every message carries in its metadata whose it is, and
where a try did not come to its end they are searched before they are posted again: at most one and one per lost answer.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from placet.contracts.ids import derived_id
from placet.domain.directory import Directory, Person
from placet.notifier.cards import DOUBT, Card
from placet.notifier.channels import Address, ChannelFailed, Delivered
from placet.notifier.channels import slack_blocks as render
from placet.notifier.look_ups import LookUps
from placet.runtime.retry_after import asked_seconds
from placet.surfaces import block_kit as kit
from placet.surfaces.slack import METADATA_TYPE, Slack, SlackTeam

log = structlog.get_logger(__name__)

#: Longest wait for one answer of Slack, in seconds.
ANSWER_SECONDS = 10
#: Wait that a 429 without `Retry-After` asks for, in seconds.
RETRY_AFTER_SECONDS = 5.0
#: Messages that a search looks at, newest first.
SEARCHED_MAX = 200
#: Channels on one page of the list by which a name is looked up, and pages at most.
LISTED_MAX = 1_000
LIST_PAGES_MAX = 20

_ID = re.compile(r"[CGD][A-Z0-9]{6,30}")
_USER = re.compile(r"[UW][A-Z0-9]{6,30}")
#: Errors that no further try can help with. A token that Slack refuses is none: the next start may have another.
_FOR_GOOD = frozenset(
    {
        "app_missing_action_url",
        "cannot_dm_bot",
        "cant_update_message",
        "channel_not_found",
        "ekm_access_denied",
        "edit_window_closed",
        "is_archived",
        "missing_scope",
        "no_permission",
        "not_allowed_token_type",
        "not_in_channel",
        "org_login_required",
        "restricted_action",
        "team_access_not_granted",
        "user_disabled",
        "user_not_found",
    }
)
#: Errors of Slack itself, which may have happened behind the post.
_UNSURE = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable"})
_TOO_LONG = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"})


class SlackChannel:
    """Shows cards in the channels of every team."""

    def __init__(self, slack: Slack, api_url: str, directory: Callable[[], Directory]) -> None:
        self._teams = slack.by_tenant
        self._directory = directory
        self._clients = {
            each.team: AsyncWebClient(
                token=each.bot_token.get_secret_value(),
                base_url=api_url,
                timeout=ANSWER_SECONDS,
                # The SDK's own would post again after a lost answer without looking.
                retry_handlers=[],
            )
            for each in slack.teams
        }
        #: Channels by team and name.
        self._names: dict[tuple[str, str], str] = {}
        self._look_ups = LookUps[str]()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep connections to Slack open while the block runs; without it every message opens its own."""
        async with aiohttp.ClientSession(trust_env=True) as session:
            for client in self._clients.values():
                client.session = session
            try:
                yield
            finally:
                for client in self._clients.values():
                    client.session = None

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Post the card where `reference` has no message yet, else update its message and its thread."""
        del key
        team = self._teams.get(card.tenant)
        if team is None:
            raise ChannelFailed(f"no Slack workspace is set for the tenant {card.tenant}", permanent=True)
        client = self._clients[team.team]
        # Blocks call people by what Slack calls them.
        card = replace(card, asks=self._users(card.asks, team))
        made = dict(reference or {})
        try:
            await (self._update if "ts" in made else self._create)(client, team, card, address, made)
            if "ts" in made:
                await self._comment(client, team, card, address, made)
        except ChannelFailed as error:
            # The next try knows the message, and what its thread was told.
            error.reference = made if "ts" in made else None
            raise
        made.pop(DOUBT, None)
        return Delivered(made, shown="ts" in made)

    def sharing(self, tenant: str) -> Sequence[str]:
        """Return the tenants whose cards go to the workspace of this one."""
        team = self._teams.get(tenant)
        return team.tenants if team else [tenant]

    def addresses(self, tenant: str, person: Person) -> Sequence[str]:
        """Return who a person is in the tenant's team; nobody where it has none."""
        team = self._teams.get(tenant)
        return person.users_in(team.team) if team else ()

    async def say(self, tenant: str, recipient: str, subject: str, words: str) -> None:
        """Tell a user something in their direct messages; raise ChannelFailed where it did not arrive."""
        team = self._teams.get(tenant)
        if team is None:
            raise ChannelFailed(f"no Slack workspace is set for the tenant {tenant}", permanent=True)
        client = self._clients[team.team]
        where = await _direct_messages(client, recipient)
        await _call(client, "chat.postMessage", channel=where, text=f"{subject}\n\n{words}", **_LITERAL)

    async def _create(
        self, client: AsyncWebClient, team: SlackTeam, card: Card, address: Address, made: dict[str, str]
    ) -> None:
        where = await self._channel_id(client, team, address)
        mark = derived_id("slack", card.approval_id, address.channel, address.recipient)
        try:
            await self._find_or_post(client, card, where, mark, made)
        except ChannelFailed as error:
            if error.permanent:
                # The name may lead elsewhere by now: an archived channel is made anew under its old name.
                self._names.pop((team.team, _wanted(team, address)), None)
            raise

    async def _find_or_post(
        self, client: AsyncWebClient, card: Card, where: str, mark: str, made: dict[str, str]
    ) -> None:
        if DOUBT in made and (found := await self._find(client, where, mark)):
            made |= {"channel": where, "ts": found}
            await self._show(client, card, made, mark)
            return
        if not card.is_open:
            # Nobody saw it.
            return
        try:
            answer = await _call(client, "chat.postMessage", channel=where, **_content(card, mark), **_LITERAL)
        except _TooLong:
            content = _content(card, mark, short=True)
            answer = await _call(client, "chat.postMessage", channel=where, **content, **_LITERAL)
        made |= {"channel": str(answer["channel"]), "ts": str(answer["ts"])}

    async def _update(
        self, client: AsyncWebClient, team: SlackTeam, card: Card, address: Address, made: dict[str, str]
    ) -> None:
        mark = derived_id("slack", card.approval_id, address.channel, address.recipient)
        try:
            await self._show(client, card, made, mark)
        except _Gone:
            # Somebody deleted the card: as long as people can decide they need one.
            if not card.is_open:
                made["gone"] = "yes"
                return
            for each in made.keys() - {DOUBT}:
                del made[each]
            await self._create(client, team, card, address, made)
            return
        words = render.news(card)
        if words and made.get("told") != card.news:
            await self._tell(client, made, mark, card.news, words)
            made["told"] = card.news
        if not card.is_open and "verdict" not in made:
            for user in self._users([card.requested_by], team):
                pieces = [kit.mention(user), kit.literal(f" {render.verdict(card)}")]
                await self._tell(client, made, mark, f"verdict:{user}", pieces)
            made["verdict"] = card.state

    async def _comment(
        self, client: AsyncWebClient, team: SlackTeam, card: Card, address: Address, made: dict[str, str]
    ) -> None:
        """Say in the card's thread what people said elsewhere, once each."""
        mark = derived_id("slack", card.approval_id, address.channel, address.recipient)
        asked = self._users([card.requested_by], team)
        for each in render.unsaid(card, made.get("comment", "")) if "gone" not in made else ():
            pieces = render.comment(card, each, asked, lambda identity: "".join(self._users([identity], team)))
            await self._tell(client, made, mark, each.comment_id, pieces)
            made["comment"] = each.comment_id

    async def _show(self, client: AsyncWebClient, card: Card, made: Mapping[str, str], mark: str) -> None:
        place = {"channel": made["channel"], "ts": made["ts"]}
        try:
            await _call(client, "chat.update", **place, **_content(card, mark))
        except _TooLong:
            await _call(client, "chat.update", **place, **_content(card, mark, short=True))

    async def _tell(
        self, client: AsyncWebClient, made: Mapping[str, str], mark: str, key: str, pieces: list[kit.Block]
    ) -> None:
        """Say something in the card's thread, once: what a try in doubt said with the same key is not said again."""
        mark = derived_id("slack-thread", mark, key)
        if DOUBT in made and await self._find(client, made["channel"], mark, thread=made["ts"]):
            return
        content = {
            "text": kit.plainly(pieces),
            "blocks": [kit.rich_text({"type": "rich_text_section", "elements": pieces})],
            "metadata": _metadata(mark),
        }
        await _call(client, "chat.postMessage", channel=made["channel"], thread_ts=made["ts"], **content, **_LITERAL)

    def _users(self, identities: Iterable[str], team: SlackTeam) -> list[str]:
        """Return people as this team knows them: one user id each, none for who is not there."""
        people = map(self._directory().person, identities)
        known = (person.users_in(team.team) for person in people if person and person.active)
        return [users[0] for users in known if users]

    async def _channel_id(self, client: AsyncWebClient, team: SlackTeam, address: Address) -> str:
        wanted = _wanted(team, address)
        if not wanted:
            raise ChannelFailed("the rule names no Slack channel and PLACET_SLACK_CHANNEL is empty", permanent=True)
        if _ID.fullmatch(wanted):
            return wanted
        if _USER.fullmatch(wanted):
            people = self._directory().people.values()
            known = [(person, each.team) for person in people for each in person.slack if each.user == wanted]
            if known and not any(person.active for person, _ in known):
                raise ChannelFailed(f"the Slack user {wanted} is nobody who is active", permanent=True)
            if known and team.team not in {where for _, where in known}:
                raise ChannelFailed(f"the Slack user {wanted} is in another workspace", permanent=True)
        name = (team.team, wanted)
        if name not in self._names:
            self._names[name] = await self._look_ups.find(name, lambda: _resolve(client, wanted))
        return self._names[name]

    async def _find(self, client: AsyncWebClient, where: str, mark: str, *, thread: str = "") -> str:
        """Return the time stamp of our own message with a mark; empty where there is none or we may not look."""
        options = {"channel": where, "limit": SEARCHED_MAX, "include_all_metadata": True}
        method = "conversations.replies" if thread else "conversations.history"
        try:
            found = await _call(client, method, **options, **({"ts": thread} if thread else {}))
        except ChannelFailed as error:
            if not error.permanent:
                raise
            log.warning("slack.cannot_search", reason=str(error))
            return ""
        for message in found.get("messages", []):
            metadata = message.get("metadata") or {}
            payload = metadata.get("event_payload") or {}
            if metadata.get("event_type") == METADATA_TYPE and payload.get("mark") == mark:
                return str(message["ts"])
        return ""


class _TooLong(ChannelFailed):
    """Slack does not take the blocks."""


class _Gone(ChannelFailed):
    """There is no such message any more."""


#: Methods that Slack answers to GET.
_READING = frozenset({"conversations.history", "conversations.list", "conversations.replies"})
#: Nothing in our messages becomes a link, a picture or a mention by itself.
_LITERAL: Mapping[str, Any] = {"unfurl_links": False, "unfurl_media": False, "parse": "none", "link_names": False}


def _wanted(team: SlackTeam, address: Address) -> str:
    """Return the place that an address means, by id or name: the team's own where it says none."""
    return address.recipient or team.channel


def _content(card: Card, mark: str, *, short: bool = False) -> dict[str, Any]:
    blocks = render.short_blocks(card) if short else render.blocks(card)
    return {"text": render.notification(card), "blocks": blocks, "metadata": _metadata(mark)}


def _metadata(mark: str) -> dict[str, Any]:
    return {"event_type": METADATA_TYPE, "event_payload": {"mark": mark}}


async def _direct_messages(client: AsyncWebClient, user: str) -> str:
    """Return the id of the direct messages with a user."""
    opened = await _call(client, "conversations.open", users=user)
    return str(opened["channel"]["id"])


async def _resolve(client: AsyncWebClient, wanted: str) -> str:
    """Return the id of a channel's name, or of the direct messages with a user."""
    if _USER.fullmatch(wanted):
        return await _direct_messages(client, wanted)
    name, cursor = wanted.removeprefix("#"), ""
    for _ in range(LIST_PAGES_MAX):
        options = {"limit": LISTED_MAX, "exclude_archived": True, "types": "public_channel,private_channel"}
        page = await _call(client, "conversations.list", **options, **({"cursor": cursor} if cursor else {}))
        for channel in page.get("channels", []):
            if channel.get("name") == name:
                return str(channel["id"])
        cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
        if not cursor:
            break
    raise ChannelFailed(f"there is no Slack channel {wanted} that the app can see", permanent=True)


async def _call(client: AsyncWebClient, method: str, **arguments: Any) -> Mapping[str, Any]:
    """Call one method of Slack's Web API; raise ChannelFailed or one of its kinds where it fails."""
    try:
        if method in _READING:
            answer = await client.api_call(method, http_verb="GET", params=arguments)
        else:
            answer = await client.api_call(method, json=arguments)
    except SlackApiError as error:
        raise _failure(method, error) from error
    except (aiohttp.ClientError, SlackClientError, TimeoutError, OSError) as error:
        unheard = isinstance(error, aiohttp.ClientConnectorError)
        raise ChannelFailed(f"Slack did not answer {method}: {type(error).__name__}", refused=unheard) from error
    data = answer.data
    return data if isinstance(data, dict) else {}


def _failure(method: str, error: SlackApiError) -> ChannelFailed:
    response: Any = error.response
    status = getattr(response, "status_code", 0) or getattr(response, "status", 0)
    code = str(response.get("error", "")) if hasattr(response, "data") and isinstance(response.data, dict) else ""
    if status == 429 or code == "ratelimited":  # noqa: PLR2004 - HTTP's number
        return ChannelFailed(f"Slack limits {method}", _seconds(getattr(response, "headers", {}) or {}), refused=True)
    if code in _TOO_LONG:
        return _TooLong(f"Slack does not take the card: {code}", permanent=True)
    if code == "message_not_found":
        return _Gone("the card was deleted", permanent=True)
    if code in _FOR_GOOD:
        needed = response.get("needed")
        said = f"Slack refuses {method}: {code}" + (f" ({needed})" if needed else "")
        return ChannelFailed(said, permanent=True)
    if not code or status >= 500:  # noqa: PLR2004 - HTTP's number
        return ChannelFailed(f"Slack answers {method} with {status or 'no JSON'}")
    return ChannelFailed(f"Slack refuses {method}: {code}", refused=code not in _UNSURE)


def _seconds(headers: Mapping[str, Any]) -> float:
    """Return what `Retry-After` asks for."""
    told = next((str(value) for name, value in headers.items() if name.lower() == "retry-after"), "")
    asked = asked_seconds(told, datetime.now(UTC))
    return RETRY_AFTER_SECONDS if asked is None else max(asked, 0.1)
