"""The health check of a container: asks the service in it whether it is ready.

Owns nothing and imports the standard library only, since it runs every few seconds beside the service. It asks on the
health port, unless told otherwise: `python -m placet.deploy.readiness [PORT [PATH]]`.
"""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping, Sequence

TIMEOUT_SECONDS = 4.0


def place(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Return the port and the path to ask; port 0 where none is opened."""
    port, path, *_ = [*arguments, *("", "")[len(arguments) :]]
    return int(port or environment.get("PLACET_HEALTH_PORT") or 0), path or "/readyz"


def is_ready(port: int, path: str) -> bool:
    """Tell whether this machine answers 200 there in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_ready(*place(sys.argv[1:], os.environ)) else 1)
