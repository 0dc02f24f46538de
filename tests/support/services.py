"""Find the services that tests need, or start private ones, and run a command with their addresses set.

`python -m tests.support.services [--browser] [--durable] COMMAND …`. An address in the environment wins and must
answer; else a local server with the usual credentials is used, if it takes enough connections and no other run of
tests has left anything there; else private ones run as long as the command does.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from urllib.parse import urlsplit

from tests.support import postgres, rabbitmq
from tests.support.programs import CHROMIUM, MissingProgramError, apt, ensure
from tests.support.rabbitmq_node import NodeError, private_node

POSTGRES = "PLACET_TEST_POSTGRES_URL"
RABBITMQ = "PLACET_TEST_RABBITMQ_URL"
RABBITMQ_CONTROL = "PLACET_TEST_RABBITMQCTL"
RABBITMQ_MANAGEMENT = "PLACET_TEST_RABBITMQ_MANAGEMENT_URL"


class UnreachableError(Exception):
    """A service that the environment names does not do what tests need."""


def find_postgres(environment: Mapping[str, str]) -> str | None:
    """Return the admin URL of a server that answers; None where a private one is needed."""
    named = environment.get(POSTGRES)
    if named and not postgres.answers(named):
        raise UnreachableError(f"no PostgreSQL lets us in at {shown(named)} ({POSTGRES})")
    return named or (postgres.DEFAULT_URL if postgres.answers(postgres.DEFAULT_URL) else None)


def find_rabbitmq(environment: Mapping[str, str]) -> str | None:
    """Return the URL of a broker that answers and can be administered; None where a private one is needed."""
    named = environment.get(RABBITMQ)
    url = named or rabbitmq.DEFAULT_URL
    reachable = rabbitmq.answers(url)
    if named and not reachable:
        raise UnreachableError(f"no RabbitMQ lets us in at {shown(named)} ({RABBITMQ})")
    if reachable and administration(environment, url):
        return url
    if named:
        raise UnreachableError(
            f"tests must make virtual hosts on {shown(named)}: enable its management plugin, set "
            f"{RABBITMQ_MANAGEMENT} or {RABBITMQ_CONTROL}, or unset {RABBITMQ} for a private node"
        )
    return None


def administration(environment: Mapping[str, str], url: str) -> rabbitmq.Administration | None:
    """Return the way to make virtual hosts at `url` that `environment` allows."""
    return rabbitmq.administration(url, environment.get(RABBITMQ_CONTROL), environment.get(RABBITMQ_MANAGEMENT))


def provide(environment: Mapping[str, str], stack: ExitStack, *, durable: bool = False) -> dict[str, str]:
    """Return the variables that name both services; private ones end with `stack`.

    `durable`: a private PostgreSQL waits for the disk.
    """
    variables = {}
    found = find_postgres(environment)
    if found and POSTGRES not in environment and not postgres.has_room(found):
        found = None
    say("PostgreSQL", found)
    variables[POSTGRES] = found or stack.enter_context(postgres.private_server(durable=durable))
    found = find_rabbitmq(environment)
    if found and RABBITMQ not in environment and not rabbitmq.has_room(administration(environment, found)):
        found = None
    say("RabbitMQ", found)
    if found:
        return variables | {RABBITMQ: found}
    node = stack.enter_context(private_node())
    return variables | {RABBITMQ: node.url, RABBITMQ_CONTROL: node.control}


def shown(url: str) -> str:
    """Return `url` without its password."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}{parts.path}" if parts.hostname else parts.path


def say(service: str, found: str | None) -> None:
    """Tell which server is used."""
    print(f"{service}: {shown(found) if found else 'starting a private one …'}", flush=True)  # noqa: T201  # progress


def _quick(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with compiled modules kept: a run starts hundreds of processes that import the same ones."""
    return {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _end_in_order(_number: int, _frame: FrameType | None) -> None:
    # A plain SIGTERM would leave the private servers running.
    raise SystemExit(128 + signal.SIGTERM)


def main(arguments: Sequence[str]) -> int:
    """Run a command with services; returns its exit code, or 1 when a service cannot be had."""
    parser = argparse.ArgumentParser(description="Run a command with PostgreSQL and RabbitMQ for tests.")
    parser.add_argument("--browser", action="store_true", help="see that there is a Chromium, too")
    parser.add_argument("--durable", action="store_true", help="a private PostgreSQL waits for the disk, as a real one")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    # The client logs each refused connection; being refused is an answer here.
    logging.getLogger("aiormq").addHandler(logging.NullHandler())
    try:
        with ExitStack() as stack:
            if options.browser:
                ensure(CHROMIUM, apt())
            variables = provide(os.environ, stack, durable=options.durable)
            return subprocess.call(options.command, env=_quick(os.environ) | variables) if options.command else 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (MissingProgramError, NodeError, UnreachableError) as error:
        sys.stderr.write(f"placet: {error}\n")
        return 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end_in_order)
    sys.exit(main(sys.argv[1:]))
