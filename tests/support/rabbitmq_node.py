"""A RabbitMQ node of our own: own name, ports, data, cookie, and nothing left behind.

Tests that kill a broker need one they may kill; a machine without a broker needs one at all. Any user may
run it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_port
from tests.support.programs import RABBITMQ, apt, ensure
from tests.support.rabbitmq import control_beside

START_SECONDS = 90


class NodeError(Exception):
    """The private node did not start; the message ends with its own last words."""


class PrivateNode:
    """One node in `folder`. It may be killed and started again; its queues outlive that."""

    def __init__(
        self, folder: Path, server: Path, *, management: bool = False, definitions: Path | None = None
    ) -> None:
        self._folder = folder
        self._server = server
        self._management = management
        self._definitions = definitions
        self._port, self._management_port, distribution, self._epmd_port = (free_port() for _ in range(4))
        self._environment = self._write_settings(distribution)
        self.control = self._write_control()
        """A rabbitmqctl that commands this node."""
        self._epmd: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the node listens."""
        return f"amqp://guest:guest@127.0.0.1:{self._port}/"

    @property
    def management_url(self) -> str:
        """Where the management API listens."""
        return f"http://127.0.0.1:{self._management_port}"

    def start(self) -> None:
        """Start the node and return when it accepts connections."""
        self._start_epmd()
        log = (self._folder / "console.log").open("ab")
        with log:
            self._node = subprocess.Popen(
                [self._server], env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        wait = [self.control, "wait", "--timeout", str(START_SECONDS), str(self._folder / "pid")]
        if subprocess.run(wait, capture_output=True, check=False).returncode:
            self.kill()
            raise NodeError(f"the private RabbitMQ did not start: {self._last_words()}")

    def kill(self) -> None:
        """End the node as a power cut would.

        RabbitMQ 3.10 leaves a quorum queue without a leader for good when this happens within a second of the
        queue's declaration: let new queues settle first.
        """
        if self._node is not None and self._node.poll() is None:
            os.killpg(self._node.pid, signal.SIGKILL)
            self._node.wait()

    def close(self) -> None:
        """End the node and its port mapper; there is nothing to save."""
        self.kill()
        if self._epmd is not None:
            self._epmd.terminate()
            self._epmd.wait()

    def _start_epmd(self) -> None:
        # Erlang would start a port mapper by itself and leave it running for ever; ours ends with the node.
        epmd = shutil.which("epmd")
        if epmd and (self._epmd is None or self._epmd.poll() is not None):
            command = [epmd, "-port", str(self._epmd_port), "-address", "127.0.0.1"]
            self._epmd = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _write_settings(self, distribution_port: int) -> dict[str, str]:
        cookie = self._folder / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(20))
        cookie.chmod(0o400)
        (self._folder / "rabbitmq-env.conf").touch()
        (self._folder / "enabled_plugins").write_text("[rabbitmq_management]." if self._management else "[].")
        (self._folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self._port}\n"
            "disk_free_limit.absolute = 50MB\n"
            + f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self._management_port}\n" * self._management
            + (f"load_definitions = {self._definitions}\n" if self._definitions else "")
        )
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": "placet-test@localhost",
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _write_control(self) -> str:
        settings = "\n".join(f"export {name}='{value}'" for name, value in self._environment.items())
        path = self._folder / "rabbitmqctl"
        path.write_text(f'#!/bin/sh\n{settings}\nexec {control_beside(self._server)} "$@"\n')
        path.chmod(0o700)
        return str(path)

    def log(self) -> str:
        """Return what the node has logged."""
        return "".join(each.read_text(errors="replace") for each in sorted((self._folder / "log").glob("*.log")))

    def _last_words(self) -> str:
        lines = (self._folder / "console.log").read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


@contextmanager
def private_node(*, management: bool = False, definitions: Path | None = None) -> Iterator[PrivateNode]:
    """Run a node until the block ends, with the management API if wanted; its data goes with it.

    Where it loads `definitions` at each start, who writes them starts it.
    """
    server = ensure(RABBITMQ, apt())
    with tempfile.TemporaryDirectory(prefix="placet-rabbitmq-") as folder:
        node = PrivateNode(Path(folder), server, management=management, definitions=definitions)
        try:
            if definitions is None:
                node.start()
            yield node
        finally:
            node.close()
