"""Where the texts among a call's arguments stood before it: how that evidence is kept beside a call, and read. Pure.

The agent finds it (`placet.agent.origins`); policy's conditions and every card read it here. It is evidence and no
proof: a text may stand in somebody's words for a reason of its own. So only what was found says anything, and what was
not looked for, or not found, never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from placet.contracts.canonical import NotStrictJson, parse_arguments
from placet.domain.json_pointer import pointer

#: The places where each text stood, the one that says most first, by JSON pointer into the arguments.
Origins: TypeAlias = Mapping[str, Sequence[str]]

#: In the requester's own words, in the agent's instructions, in what the requester quoted or pasted, or nowhere.
USER, AGENT, QUOTED, NONE = "user", "agent", "quoted", "none"
#: Before the name of the tool in whose output it stood.
TOOL = "tool:"
#: What cards hold for the place of an address that nobody looked for, where others were: kept nowhere.
NOT_LOOKED = "not looked for"

#: Longest pointer to a text that is looked for, in characters: it is kept with every text below it.
POINTER_MAX = 256

#: Longest text that may be an address, in characters.
TARGET_MAX = 512
#: The number of an account (IBAN), also in groups of four as invoices print it.
_ACCOUNT = re.compile(r"[a-z]{2}\d\d ?(?:[a-z0-9]{4} ?){2,7}[a-z0-9]{1,4}", re.IGNORECASE)
#: What money, data or a message can be sent to: an address, a place on the net, an account.
_TARGET = re.compile(
    r"\S*(?:\w@\w|://)\S*|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?:[/:?#]\S*)?"
    rf"|{_ACCOUNT.pattern}",
    re.IGNORECASE,
)


def texts_in(arguments: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the JSON pointer to each text among the arguments, and the text; none that stands behind a longer one."""
    if len(above) > POINTER_MAX:
        return
    match arguments:
        case str():
            yield above, arguments
        case Mapping():
            for name, value in arguments.items():
                yield from texts_in(value, above + pointer([name]))
        case list() | tuple():
            for place, value in enumerate(arguments):
                yield from texts_in(value, f"{above}/{place}")


def origin(places: Sequence[str]) -> str:
    """Return what conditions read of a text that stood there."""
    return places[0] if places else NONE


def by_text(origins: Origins, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the origin of each text among the arguments; `none` of one that nothing is known of."""
    texts = dict(texts_in(arguments))
    found = {texts[at]: origin(places) for at, places in origins.items() if at in texts}
    return dict.fromkeys(texts.values(), NONE) | found


def unchanged(origins: Origins | None, before: str, after: str) -> dict[str, list[str]] | None:
    """Return what is still true of arguments that people changed, given as JSON texts; None where nothing was known.

    What they wrote stood nowhere: they did.
    """
    if origins is None:
        return None
    try:
        was, now = (dict(texts_in(parse_arguments(each))) for each in (before, after))
    except NotStrictJson:
        return {}
    return {at: list(places) for at, places in origins.items() if at in now and was.get(at) == now[at]}


def from_tools_alone(places: Sequence[str]) -> list[str]:
    """Return the tools in whose outputs alone a text stood; none where it stood anywhere else, or nowhere."""
    tools = [place.removeprefix(TOOL) for place in places if place.startswith(TOOL)]
    return tools if len(tools) == len(places) else []


def is_target(text: str) -> bool:
    """Tell whether a text looks like an address: what a message, data or money can be sent to."""
    return len(text) <= TARGET_MAX and _TARGET.fullmatch(text.strip()) is not None


def is_account(text: str) -> bool:
    """Tell whether a text looks like the number of an account, with spaces or without."""
    return _ACCOUNT.fullmatch(text) is not None
