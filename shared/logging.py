"""structlog, set up once per process: JSON lines on standard error, ids as keys, never in prose."""

from __future__ import annotations

import logging
import sys

import structlog

#: Tracebacks without the frames' locals: those hold keys, arguments and what people wrote.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
_NOISY = ("faststream", "aio_pika", "aiormq", "uvicorn.error", "uvicorn.access", "httpx", "httpcore")


def set_up_logging(level: str = "info", fmt: str = "json") -> None:
    """Send structlog and the standard library's logging to standard error in one form."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.typing.Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if fmt == "json"
        else [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
