"""How every service runs: the bus, the consumer, outbox and inbox, the database, settings, start and stop."""

import sys

# structlog takes rich for tracebacks that no service draws, and it weighs 4 MB in each of them.
if "rich" not in sys.modules and "structlog" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]
