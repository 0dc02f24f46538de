"""RabbitMQ's definitions file: exchanges, queues, bindings and users, made from the topology.

`python -m placet.deploy.rabbitmq.definitions` writes the committed file, in which nobody can log in: its users have no
password. `--output FILE` fills in the hashes of PLACET_RABBITMQ_PASSWORD_<SERVICE>; the broker loads that file at boot.
So services need no right to declare anything.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from placet.contracts.errors import PlacetError
from placet.contracts.topology import (
    EXCHANGES,
    QUEUES,
    RETRY_DELAYS_SECONDS,
    SERVICES,
    executor_queue,
    queue_arguments,
    retry_arguments,
    retry_name,
)
from placet.deploy.rabbitmq.rights import Rights, all_rights
from placet.domain.catalog import load_catalog

COMMITTED = Path(__file__).with_name("definitions.json")
RULEBOOK = Path(__file__).parents[1] / "rulebook.yaml"
VHOST = "placet"
_HASHING = "rabbit_password_hashing_sha256"

Definitions = dict[str, list[dict[str, Any]]]


class PasswordsMissing(PlacetError):
    """Not every service has a password: a broker that some of them cannot log in to helps nobody."""


def pools_of(rulebook: Path) -> tuple[str, ...]:
    """Return the executor pools that the tools of a rulebook name, and `default`."""
    return tuple(sorted({"default", *(spec.pool for spec in load_catalog(rulebook).values())}))


def user_name(service: str) -> str:
    """Return the broker user of a service."""
    return f"placet-{service.replace('_', '-')}"


def definitions(pools: Iterable[str], *, vhost: str = VHOST) -> Definitions:
    """Return the definitions of one virtual host as RabbitMQ imports them; no user has a password."""
    pools = tuple(pools)
    rights = all_rights(pools)
    return {
        "vhosts": [{"name": vhost}],
        "users": [_user(user_name(service)) for service in SERVICES],
        **permissions_of({user_name(service): right for service, right in rights.items()}, vhost),
        **_topology(pools, vhost),
    }


def permissions_of(rights: Mapping[str, Rights], vhost: str) -> Definitions:
    """Return what users may do in one virtual host; `rights` maps a user's name to its rights."""
    return {
        "permissions": [
            {"user": user, "vhost": vhost, "configure": right.configure, "write": right.write, "read": right.read}
            for user, right in rights.items()
        ],
        "topic_permissions": [
            {"user": user, "vhost": vhost, "exchange": exchange, "write": topic.write, "read": topic.read}
            for user, right in rights.items()
            for exchange, topic in right.topics.items()
        ],
    }


def with_passwords(made: Definitions, passwords: Mapping[str, str]) -> Definitions:
    """Return `made` with a salted hash for each user; `passwords` maps service to password."""
    users = [user_with_password(user_name(service), passwords[service]) for service in SERVICES]
    return {**made, "users": users}


def user_with_password(name: str, password: str) -> dict[str, Any]:
    """Return a user who can log in."""
    return {**_user(name), "password_hash": password_hash(password)}


def password_hash(password: str) -> str:
    """Return RabbitMQ's salted SHA-256 of a password, base64."""
    salt = secrets.token_bytes(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def passwords_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return each service's password; raise PasswordsMissing with the names of all variables that are not set."""
    names = {service: f"PLACET_RABBITMQ_PASSWORD_{service.upper()}" for service in SERVICES}
    if missing := [name for name in names.values() if not environment.get(name)]:
        raise PasswordsMissing(f"not set: {', '.join(missing)}")
    return {service: environment[name] for service, name in names.items()}


def text_of(made: Definitions) -> str:
    """Return the file's text."""
    return json.dumps(made, indent=2) + "\n"


def _user(name: str) -> dict[str, Any]:
    return {"name": name, "password_hash": "", "hashing_algorithm": _HASHING, "tags": []}


def _topology(pools: tuple[str, ...], vhost: str) -> Definitions:
    retries = {retry_name(delay): retry_arguments(delay) for delay in RETRY_DELAYS_SECONDS}
    specs = (*QUEUES, *(executor_queue(pool) for pool in pools))
    return {
        "exchanges": [exchange_of(name, vhost) for name in (*EXCHANGES, *retries)],
        "queues": [
            *(_queue(spec.name, queue_arguments(spec), vhost) for spec in specs),
            *(_queue(name, arguments, vhost) for name, arguments in retries.items()),
        ],
        "bindings": [
            *(binding_of(each.exchange, each.key, spec.name, vhost) for spec in specs for each in spec.bindings),
            *(binding_of(name, "#", name, vhost) for name in retries),
        ],
    }


def exchange_of(name: str, vhost: str) -> dict[str, Any]:
    """Return an exchange, as all of ours are."""
    fixed = {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    return {"name": name, "vhost": vhost, **fixed}


def _queue(name: str, arguments: Mapping[str, Any], vhost: str) -> dict[str, Any]:
    arguments = {"x-queue-type": "quorum", **arguments}
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": arguments}


def binding_of(source: str, key: str, destination: str, vhost: str, *, kind: str = "queue") -> dict[str, Any]:
    """Return what brings messages with a key from an exchange into a queue, or into another exchange."""
    return {
        "source": source,
        "vhost": vhost,
        "destination": destination,
        "destination_type": kind,
        "routing_key": key,
        "arguments": {},
    }


def main(arguments: Sequence[str]) -> int:
    """Write the committed file, or with `--output` the one that a broker loads; return the exit code."""
    parser = argparse.ArgumentParser(description="Write RabbitMQ's definitions.")
    parser.add_argument("--output", type=Path, help="fill in password hashes and write here")
    parser.add_argument("--rulebook", type=Path, default=RULEBOOK, help="names the executor pools")
    parser.add_argument("--vhost", default=VHOST, help="virtual host (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        made = definitions(pools_of(options.rulebook), vhost=options.vhost)
        if options.output:
            made = with_passwords(made, passwords_in(os.environ))
        (options.output or COMMITTED).write_text(text_of(made))
    except (PlacetError, OSError) as error:
        sys.stderr.write(f"placet: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
