"""structlog, set up once per process: JSON lines on standard error, ids as keys, never in prose."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any

import structlog
from pydantic_core import to_json

from placet.contracts.sizes import is_longer

log = structlog.get_logger(__name__)

#: Tracebacks without the frames' locals: those hold keys, arguments and what people wrote.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
#: What an error holds may be no longer than this in bytes, or its text is not asked for: it may write out all of it.
_ERROR_BYTES_MAX = 256 * 1024
_NOISY = ("faststream", "aio_pika", "aiormq", "uvicorn.error", "uvicorn.access", "httpx", "httpcore")

#: What aiormq says of a broker that goes or is away, once for each try and each channel that waits; `broker.away` tells
#: it with its reason, and who waited tells what for.
_TOLD_BY_US = (
    "error when creating transport",
    "Cancelling cause reader exited abnormally",
    "Unexpected connection close from remote",
    "Closing channel",
)


def _is_news(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_TOLD_BY_US)


def pass_over_lookups(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle what a loop complains of, but for a name that was looked up for nobody any more.

    uvloop goes on with that where connecting has ended, which has been told with its own reason.
    """
    error, future = context.get("exception"), context.get("future")
    if isinstance(error, socket.gaierror) and future is not None and not isinstance(future, asyncio.Task):
        log.debug("lookup.too_late", error=str(error))
    else:
        loop.default_exception_handler(context)


def _within_bounds(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Leave out the text of an error that would be far too long; its kind and its frames stay."""
    error = event.get("exc_info")
    if error and not isinstance(error, BaseException):
        error = (error if isinstance(error, tuple) else sys.exc_info())[1]
    if error and is_longer(error, _ERROR_BYTES_MAX):
        kind = type(error)
        event["exc_info"] = (kind, Exception(f"{kind.__name__}, with too long a text"), error.__traceback__)
    return event


def _as_json(_: object, __: str, event: structlog.typing.EventDict) -> bytes:
    """Return one line; about a third of what the standard library's JSON takes."""
    return to_json(event, serialize_unknown=True)


def set_up_logging(level: str = "info", fmt: str = "json") -> None:
    """Send structlog and the standard library's logging to standard error in one form."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _within_bounds,
    ]
    own: list[structlog.typing.Processor] = [_TRACEBACKS, _as_json]
    others: list[structlog.typing.Processor] = [_TRACEBACKS, structlog.processors.JSONRenderer()]
    factory: Callable[..., structlog.typing.WrappedLogger] = structlog.BytesLoggerFactory(file=sys.stderr.buffer)
    if fmt != "json":
        # In a file or a journal, words are found only without codes of colours between them.
        tracebacks = structlog.dev.plain_traceback
        own = others = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=tracebacks)]
        factory = structlog.WriteLoggerFactory(file=sys.stderr)
    structlog.configure(
        processors=[*shared, *own],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *others],
    )
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    for name in ("aiormq.connection", "aiormq.channel"):
        logging.getLogger(name).addFilter(_is_news)
