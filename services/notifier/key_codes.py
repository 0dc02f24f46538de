"""Codes for people for whom somebody made an API key: sent to them alone, by mail or else in Slack.

It is done at once and may be done twice: the same code in two mails does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import structlog

from placet.contracts.errors import Poison, Transient
from placet.contracts.messages import KeyOffered
from placet.domain.approvers import name_of
from placet.domain.directory import Directory, Person
from placet.notifier.channels import Channel, ChannelFailed
from placet.runtime.work import Work
from placet.surfaces.texts import text

log = structlog.get_logger(__name__)


@runtime_checkable
class Speaks(Protocol):
    """A channel that can tell one person something that is no card."""

    def addresses(self, tenant: str, person: Person) -> Sequence[str]:
        """Return where it reaches a person, and nobody else, in a tenant."""

    async def say(self, tenant: str, recipient: str, subject: str, words: str) -> None:
        """Tell the person at an address; raise ChannelFailed where it did not arrive."""


async def send_code(
    offered: KeyOffered, _work: Work, *, directory: Callable[[], Directory], channels: Mapping[str, Channel]
) -> None:
    """Send a key's owner its code in the first way that takes it; raise Transient where one may take it later.

    Raise Poison where the code is gone, as it is from dead letters: whoever replays one is told so.
    """
    if not offered.code:
        raise Poison(f"the code of key {offered.key_id} is not kept: revoke the key, and make another")
    people = directory().people
    owner = people.get(offered.person)
    if owner is None or not owner.active:
        log.warning("key_code.nobody", person=offered.person)
        return
    maker = people.get(name_of(offered.by))
    subject, words = _words(offered, owner, maker.name if maker and maker.name else offered.by)
    later = ""
    for kind, channel, recipient in _ways(channels, offered.tenant, owner):
        try:
            await channel.say(offered.tenant, recipient, subject, words)
        except ChannelFailed as error:
            later = later or ("" if error.permanent else str(error))
            log.warning("key_code.failed", channel=kind, reason=str(error))
        else:
            return
    if later:
        raise Transient(f"the code of key {offered.key_id} was not sent: {later}")
    log.warning("key_code.no_way", person=offered.person, key_id=offered.key_id)


def _ways(channels: Mapping[str, Channel], tenant: str, owner: Person) -> Iterator[tuple[str, Speaks, str]]:
    for kind in ("email", "slack"):
        channel = channels.get(kind)
        if isinstance(channel, Speaks):
            yield from ((kind, channel, recipient) for recipient in channel.addresses(tenant, owner))


def _words(offered: KeyOffered, owner: Person, maker: str) -> tuple[str, str]:
    """Return subject and text, in the owner's language."""
    language = owner.language
    made = text(language, "{by} made the API key {key}, which decides in your name.", by=maker, key=offered.key_id)
    take = text(
        language, "It works only after you take it over with the key itself and this code: {code}", code=offered.code
    )
    doubt = text(language, "If you did not expect a key, do not share the code, and tell your Placet administrator.")
    command = f"    placet keys take-over --code {offered.code}"
    parts = (made, take, command, doubt)
    return text(language, "An API key in your name"), "\n\n".join(parts)
