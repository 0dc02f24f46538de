"""A chat frontend's own broker user: definitions for one frontend of one tenant.

`python -m placet.deploy.rabbitmq.frontends acme:widget > widget.json` with the user's password in
PLACET_RABBITMQ_PASSWORD_FRONTEND; then `rabbitmqctl import_definitions widget.json` while the broker runs. Nothing else
changes by it: an import deletes nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placet.contracts.errors import PlacetError
from placet.contracts.frontends import frontend_key
from placet.deploy.rabbitmq.definitions import (
    VHOST,
    Definitions,
    PasswordsMissing,
    binding_of,
    exchange_of,
    permissions_of,
    text_of,
    user_with_password,
)
from placet.deploy.rabbitmq.rights import Rights, TopicRight

PASSWORD_VARIABLE = "PLACET_RABBITMQ_PASSWORD_FRONTEND"  # noqa: S105 - the variable's name
#: What a frontend's queue keeps at most, so that one which nobody reads any more fills no disk.
QUEUE_LIMITS: Mapping[str, int | str] = {"max-length": 10_000, "message-ttl": 3_600_000, "expires": 3_600_000}
#: First words of the keys on `conversations` that a frontend may bind; the last word is its tenant.
HEARD = ("items", "delta")
_FRONTEND = re.compile(r"([a-z0-9][a-z0-9-]{0,62}):([a-z0-9][a-z0-9-]{0,62})")


class NoFrontend(PlacetError):
    """Not the name of a frontend."""


@dataclass(frozen=True, slots=True)
class Frontend:
    """One chat frontend of one tenant. Neither name has a dot, so no frontend's prefix begins another's."""

    tenant: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Frontend:
        """Return the frontend that `<tenant>:<name>` names; raise NoFrontend."""
        found = _FRONTEND.fullmatch(text)
        if found is None:
            raise NoFrontend(f"{text!r} is no frontend: write tenant:name, lower-case letters, digits and hyphens")
        return cls(found[1], found[2])

    @property
    def user(self) -> str:
        """Name of its broker user and of its exchange, and, with a dot, the beginning of its queues' names."""
        return f"frontend.{self.tenant}.{self.name}"


def rights_of(frontend: Frontend) -> Rights:
    """Return what a frontend's user may do.

    It publishes to its exchange with the key of its tenant's frontends, which is what readers hold its envelopes to; it
    declares queues of its own prefix and binds them to what is said in its tenant's conversations. A binding's key is
    matched as text, so a wildcard in it is refused.

    The broker does not tell exchanges from queues by name, and asks for keys only where somebody publishes: what comes
    by an exchange that the frontend declares, or out of a queue, passes with any key. So it may write to none of ours.
    """
    own = rf"{re.escape(frontend.user)}\.[A-Za-z0-9_-]+"
    return Rights(
        configure=f"^{own}$",
        write=f"^({own}|{re.escape(frontend.user)})$",
        read=f"^({own}|conversations)$",
        topics={
            frontend.user: TopicRight(write=f"^{re.escape(frontend_key(frontend.tenant))}$"),
            "conversations": TopicRight(read=rf"^({'|'.join(HEARD)})\.{re.escape(frontend.tenant)}$"),
        },
    )


def definitions_of(frontend: Frontend, password: str, *, vhost: str = VHOST) -> Definitions:
    """Return the definitions of a frontend's user, its exchange and the limits of its queues, for a broker that runs.

    The exchange passes on to `messages` what has the key of its tenant's frontends, and nothing else.
    """
    policy = {
        "vhost": vhost,
        "name": frontend.user,
        "pattern": rf"^{re.escape(frontend.user)}\.",
        "apply-to": "queues",
        "priority": 10,
        "definition": dict(QUEUE_LIMITS),
    }
    return {
        "users": [user_with_password(frontend.user, password)],
        **permissions_of({frontend.user: rights_of(frontend)}, vhost),
        "policies": [policy],
        "exchanges": [exchange_of(frontend.user, vhost)],
        "bindings": [binding_of(frontend.user, frontend_key(frontend.tenant), "messages", vhost, kind="exchange")],
    }


def main(arguments: Sequence[str]) -> int:
    """Print the definitions of one frontend's user; return the exit code."""
    parser = argparse.ArgumentParser(description="Print RabbitMQ's definitions for a chat frontend's own user.")
    parser.add_argument("frontend", metavar="TENANT:NAME", help="whose frontend, and its name, for example acme:widget")
    parser.add_argument("--vhost", default=VHOST, help="virtual host (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        frontend = Frontend.parse(options.frontend)
        password = os.environ.get(PASSWORD_VARIABLE)
        if not password:
            raise PasswordsMissing(f"not set: {PASSWORD_VARIABLE}")
    except PlacetError as error:
        sys.stderr.write(f"placet: {error}\n")
        return 1
    sys.stdout.write(text_of(definitions_of(frontend, password, vhost=options.vhost)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
