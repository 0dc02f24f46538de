"""The channel `apprise:<name>`: Teams and a hundred other places, by the library Apprise. They are told, and no more.

Nobody can decide there: the text leads to the approval's page. A card is told when it opens, when people are reminded
or others asked, and when it is over; such places cannot change what they once showed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from threading import Semaphore

from pydantic import SecretStr

from placet.notifier.channels import Address, Card, ChannelFailed, Delivered
from placet.runtime.threads import call_in_thread
from placet.surfaces.texts import moment, text

#: News that is worth another message.
TOLD = frozenset({"opened", "edited", "reminded", "escalated", "closed", "finished"})
#: Requests without an answer that one place may have, those too that nobody awaits any more.
UNANSWERED_MAX = 32


class AppriseChannel:
    """Tells places that Apprise knows, each by the URL that the settings give its name."""

    def __init__(self, urls: Mapping[str, SecretStr]) -> None:
        self._urls = urls
        self._free: dict[str, Semaphore] = defaultdict(partial(Semaphore, UNANSWERED_MAX))

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Tell of the card, unless the place knows it already and nothing worth a message happened."""
        del key
        url = self._urls.get(address.recipient)
        if url is None:
            raise ChannelFailed(f"no apprise place is called {address.recipient!r}", permanent=True)
        # Such places say nothing that finds a card again: what they were told is all that is kept.
        told = (reference or {}).get("told", "")
        if not told or (card.happened in TOLD and card.news != told):
            await self._tell(address.recipient, url, card)
            told = card.news
        return Delivered({"told": told})

    async def _tell(self, name: str, url: SecretStr, card: Card) -> None:
        # The library waits for each byte as long as for the first: an answer may never end.
        free = self._free[name]
        if not free.acquire(blocking=False):
            raise ChannelFailed(f"the place has not answered the last {UNANSWERED_MAX} messages", refused=True)

        def tell() -> bool:
            try:
                return _notify(url, card)
            finally:
                free.release()

        if not await call_in_thread(tell, name=f"apprise {name}"):
            raise ChannelFailed("the place did not take it")


def _notify(url: SecretStr, card: Card) -> bool:
    # A megabyte of code, which only those need who use it.
    import apprise  # noqa: PLC0415

    # Without a limit of its own it sends in this thread, and not in a few that all places share.
    places = apprise.Apprise(asset=apprise.AppriseAsset(service_timeout=0))
    if not places.add(url.get_secret_value()):
        raise ChannelFailed("the URL of this place is none that Apprise knows", permanent=True)
    title = f"{text(card.locale, _TITLES[card.state])}: {card.tool}"
    return bool(places.notify(title=title, body=words_of(card), body_format="text"))


_TITLES = {
    "pending": "Waiting for a decision",
    "approved": "Approved",
    "denied": "Denied",
    "answered": "Answered instead",
    "expired": "Expired",
    "withdrawn": "Withdrawn",
}


def words_of(card: Card) -> str:
    """Return a card as plain lines."""
    lines = [card.summary, card.note, *card.warnings]
    if card.is_open:
        lines += [f"{text(card.locale, 'Why')}: {card.reason}", f"{text(card.locale, 'Needed')}: {card.needed}"]
        lines += [f"{text(card.locale, 'On duty')}: {each}" for each in card.duty_lines(partial(moment, card.locale))]
        if card.deadline is not None:
            lines.append(f"{text(card.locale, 'Until')}: {moment(card.locale, card.deadline)}")
    return "\n".join(line for line in [*lines, card.url] if line)
