"""How one interaction is answered: acknowledged once, a modal opened, and a person told what only they should hear."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from placet.contracts.errors import Refused
from placet.gateway.approvals.decisions import in_words
from placet.gateway.slack.edit_form import REASON
from placet.gateway.slack.interactions import (
    Click,
    Malformed,
    Sender,
    Submission,
    read_click,
    read_sender,
    read_submission,
)
from placet.gateway.slack.people import Hearing
from placet.runtime.database import is_outage
from placet.surfaces import block_kit as kit
from placet.surfaces.texts import text

log = structlog.get_logger(__name__)

#: What a person is told while the database is away.
AWAY = "Placet may not have saved this. Check the card in a moment and try again if it is still waiting."

Ack = Callable[..., Awaitable[Any]]
#: Tells the person who acts, and nobody else.
Whisper = Callable[[str], Awaitable[None]]
Listener = Callable[..., Awaitable[None]]
#: Returns how to speak to somebody in Slack.
Spoken = Callable[[Sender], Hearing]


class Acting:
    """What one interaction can be answered with, and in which language; the first acknowledgement counts."""

    def __init__(
        self, ack: Ack, whisper: Whisper, client: AsyncWebClient, hearing: Hearing, trigger_id: str = ""
    ) -> None:
        self._ack, self._client, self._trigger_id = ack, client, trigger_id
        self.whisper, self.locale, self.people = whisper, hearing.locale, hearing.people
        self.acknowledged = False

    async def ack(self, **answer: Any) -> None:
        """Acknowledge; what comes second is not said."""
        if not self.acknowledged:
            self.acknowledged = True
            await self._ack(**answer)

    async def open(self, view: kit.Block) -> None:
        """Open a modal and acknowledge."""
        await self._client.views_open(trigger_id=self._trigger_id, view=view)
        await self.ack()


def on_click(listener: Callable[[Click, Acting], Awaitable[None]], spoken: Spoken) -> Listener:
    """Return bolt's listener for a button: refusals are told to who pressed it."""

    async def clicked(ack: Ack, body: dict[str, Any], respond: Ack, client: AsyncWebClient) -> None:
        async def whisper(words: str) -> None:
            await respond(text=kit.escaped(words), response_type="ephemeral", replace_original=False)

        acting = Acting(ack, whisper, client, spoken(read_sender(body)), str(body.get("trigger_id", "")))

        async def refused(words: str) -> None:
            await acting.ack()
            await tried(whisper(words))

        await _guarded(lambda: listener(read_click(body), acting), refused, acting)

    return clicked


def on_submission(listener: Callable[[Submission, Acting], Awaitable[None]], spoken: Spoken) -> Listener:
    """Return bolt's listener for a modal: refusals stand in the modal, or come as a message where it has closed."""

    async def submitted(ack: Ack, body: dict[str, Any], client: AsyncWebClient) -> None:
        submission = read_submission(body)

        async def whisper(words: str) -> None:
            place, user = submission.place, submission.sender.user
            await client.chat_postEphemeral(channel=place.channel, user=user, text=kit.escaped(words))

        acting = Acting(ack, whisper, client, spoken(submission.sender))

        async def refused(words: str) -> None:
            if acting.acknowledged:
                await tried(whisper(words))
            else:
                await acting.ack(response_action="errors", errors={REASON: kit.cut(words, kit.ERROR_MAX)})

        await _guarded(lambda: listener(submission, acting), refused, acting)

    return submitted


async def _guarded(act: Callable[[], Awaitable[None]], refused: Whisper, acting: Acting) -> None:
    """Act; say what went wrong to the person. A bug goes on to bolt, which logs it and answers 500."""
    try:
        await act()
    except Refused as refusal:
        await refused(in_words(refusal, acting.locale, acting.people))
    except Malformed:
        log.warning("slack.malformed")
        await refused(text(acting.locale, "This button does not belong to Placet."))
    except (SlackApiError, SlackClientError, OSError, TimeoutError) as error:
        log.warning("slack.call_failed", error=type(error).__name__, code=word_of(error))
        words = "Slack rejected the request. Check the card and try again if it is still waiting."
        await refused(text(acting.locale, words))
    except Exception as error:
        if not is_outage(error):
            raise
        await refused(text(acting.locale, AWAY))


async def tried(telling: Awaitable[object]) -> None:
    """Tell somebody, or log that it could not be told: what was decided does not hang on it."""
    try:
        await telling
    except (SlackApiError, SlackClientError, OSError, TimeoutError, ValueError) as error:
        log.warning("slack.untold", error=type(error).__name__, code=word_of(error))


def word_of(error: Exception) -> str:
    """Return Slack's own word for what went wrong; empty where it has none."""
    response: Mapping[str, Any] = getattr(error, "response", {}) or {}
    return str(response.get("error", "")) if hasattr(response, "get") else ""
