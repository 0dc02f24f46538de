"""A tool's function, async or not, called; and what it returned or raised, made safe to store and to send.

Owns the bounds of a reply. A tool is foreign code: an answer that no JSON column can hold, or that would blow
up a model's context, must end as a typed failure here and not as a crash in the transaction that settles the
call.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from placet.contracts.canonical import NotStrictJson, check_depth
from placet.contracts.messages.tool_calls import HANDOVER_REASON_MAX
from placet.contracts.sizes import is_longer, text_of
from placet.runtime.threads import call_in_thread
from placet.runtime.watchdog import TooLong, at_leisure
from placet.tools.contract import ToolError, ToolOutcomeUnknown, ToolReply
from placet.tools.staging import DIFF_CHARACTERS_MAX, Described
from placet.tools.ui_blocks import UiBlock

REPLY_BYTES_MAX = 256 * 1024
"""Largest reply (data and blocks together) as UTF-8 JSON."""
DEPTH_MAX = 64
"""Deepest nesting of arrays and objects in a reply. Messages and rows wrap it, and their readers end at 200 levels."""
TEXT_CHARACTERS_MAX = 4_000
"""Longest error text that reaches the model."""
LINES_MAX = 2**31 - 1
"""Most lines that a column counts."""

# PostgreSQL's jsonb refuses U+0000. An even run of backslashes before it means the text merely spells the escape.
_NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


async def call_function(function: Callable[..., Any], keywords: Mapping[str, Any], *, name: str) -> Any:
    """Call `function` once, in a thread of its own where it is not async; return or raise what it does.

    It may take its time: it is the operator's own. What is done with what it returned is not.
    """
    call = partial(function, **keywords)
    with at_leisure():
        if inspect.iscoroutinefunction(function):
            return _whole(await call())
        returned = await call_in_thread(lambda: _whole(call()), name=f"tool {name}")
        # A decorator may hide an async function behind a plain one.
        return _whole(await returned) if inspect.isawaitable(returned) else returned


def _whole(returned: Any) -> Any:
    """Return what comes one by one as a list, as far as a reply can hold it: to make it is the function's work."""
    if not isinstance(returned, Iterator) or inspect.isawaitable(returned):
        return returned
    return list(islice(returned, REPLY_BYTES_MAX))


def checked_reply(returned: Any) -> ToolReply:
    """Return the tool's value as a reply of plain JSON values; ToolError when it is no JSON or too large.

    The texts say that the tool ran, because its effect may well have happened. What is far too large is neither copied
    nor written to find that out.
    """
    reply = returned if isinstance(returned, ToolReply) else ToolReply(data=returned)
    # What only yields its blocks, perhaps without end, has none that could be looked at and told.
    listed = isinstance(reply.ui_blocks, list | tuple)
    if not listed or not all(isinstance(block, UiBlock) for block in reply.ui_blocks):
        raise ToolError("The tool ran, but its ui_blocks are invalid.", code="reply_invalid")
    try:
        if not is_longer((reply.data, reply.ui_blocks), REPLY_BYTES_MAX):
            checked = ToolReply(
                data=_plain(reply.data), ui_blocks=tuple(reply.ui_blocks), handover=_handover(reply.handover)
            )
            if len(_encode(checked.to_json())) <= REPLY_BYTES_MAX:
                return checked
    except NotStrictJson as error:
        raise ToolError(f"The tool ran, but its reply is {error}.", code="reply_invalid") from error
    except _NOT_JSON as error:
        raise ToolError("The tool ran, but its reply is not valid JSON.", code="reply_invalid") from error
    text = f"The tool ran, but its reply is over the limit of {REPLY_BYTES_MAX} bytes."
    raise ToolError(text, code="reply_too_large")


def _handover(reason: Any) -> str:
    """Return a tool's reason for handing the conversation over, bounded."""
    return checked_text(reason)[:HANDOVER_REASON_MAX] if reason else ""


def checked_error(error: ToolError) -> ToolError:
    """Return the tool's error with a bounded text and with data that is plain JSON (dropped when it cannot be)."""
    return ToolError(checked_text(error.text), code=checked_text(error.code), data=_data_or_none(error.data))


def checked_unknown(error: ToolOutcomeUnknown) -> ToolOutcomeUnknown:
    """Return the tool's "unknown" with the same bounds as an error."""
    return ToolOutcomeUnknown(checked_text(error.text), data=_data_or_none(error.data))


#: The last where a value's own code takes its time to say what it is.
_NOT_JSON = (PydanticSerializationError, NotStrictJson, ValueError, TypeError, RecursionError, TooLong)


def _plain(value: Any) -> Any:
    """Return dates, ids, models and the like as the JSON values they stand for."""
    return to_jsonable_python(value)


def _encode(value: Any) -> bytes:
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    if _NUL_ESCAPE.search(text):
        raise NotStrictJson("not storable: a text in it has the character U+0000")
    if text.count("[") + text.count("{") > DEPTH_MAX:
        check_depth(value, DEPTH_MAX)
    return text.encode()


def _data_or_none(data: Any) -> Any:
    try:
        if is_longer(data, REPLY_BYTES_MAX):
            return None
        plain = _plain(data)
        return plain if len(_encode(plain)) <= REPLY_BYTES_MAX else None
    except _NOT_JSON:
        return None


def checked_text(text: Any) -> str:
    """Return what a tool or a pack gave for a text, bounded and fit to be stored."""
    storable = _storable(text_of(text, 2 * TEXT_CHARACTERS_MAX))
    return storable if len(storable) <= TEXT_CHARACTERS_MAX else storable[: TEXT_CHARACTERS_MAX - 1] + "…"


def checked_description(told: Described) -> Described:
    """Return what a pack says of a change, bounded and fit to be stored."""
    diff = text_of(told.diff, 2 * DIFF_CHARACTERS_MAX)
    return Described(
        checked_text(told.summary),
        _storable(diff)[:DIFF_CHARACTERS_MAX],
        cut=bool(told.cut) or len(diff) > DIFF_CHARACTERS_MAX,
        binary=bool(told.binary),
        added=_lines(told.added),
        removed=_lines(told.removed),
    )


def _lines(number: Any) -> int:
    return min(max(int(number), 0), LINES_MAX)


def _storable(text: str) -> str:
    return text.replace("\x00", "").encode(errors="replace").decode()
