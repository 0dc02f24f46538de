"""A real SMTP server for tests: takes mails, refuses what it is told to refuse, offers TLS and asks for a login."""

from __future__ import annotations

import email.policy
import re
import ssl
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.ports import free_port


@dataclass(frozen=True)
class Received:
    """One mail as it came in."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    #: Whether it came over TLS.
    safe: bool
    raw: bytes

    def part(self, kind: str) -> str:
        """Return the text of the `plain` or `html` part."""
        body = self.message.get_body((kind,))
        assert body is not None
        return str(body.get_content()).replace("\r\n", "\n")

    @property
    def link(self) -> str:
        """The link that stands on a line of its own; empty where there is none."""
        lines = self.part("plain").splitlines()
        return next((line.strip() for line in lines if line.strip().startswith("http") and "/l/" in line), "")

    @property
    def code(self) -> str:
        """What the person types to decide with the link; empty where the mail has none."""
        found = re.search(r"Code to type there: (\S+)", self.part("plain"))
        return found[1] if found else ""


@dataclass
class MailServer:
    """What the server took, and what it says instead of taking it."""

    port: int = field(default_factory=free_port)
    inbox: list[Received] = field(default_factory=list)
    #: Recipient -> answers to RCPT, one for each try; then it is taken.
    refusals: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: Answers to DATA, one for each try; `lost` takes the mail and ends the connection without an answer.
    endings: list[str] = field(default_factory=list)
    login: tuple[str, str] | None = None

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's interface
        self, server: Any, session: Any, envelope: Any, address: str, rcpt_options: list[str]
    ) -> str:
        """Take a recipient, or say what it was told to say."""
        del server, session, rcpt_options
        if self.refusals[address]:
            return self.refusals[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - as above
        """Take a mail."""
        ending = self.endings.pop(0) if self.endings else ""
        if ending and ending != "lost":
            return ending
        message = message_from_bytes(envelope.content, policy=email.policy.default)
        recipients = tuple(envelope.rcpt_tos)
        safe = session.ssl is not None
        self.inbox.append(Received(envelope.mail_from, recipients, message, safe, envelope.content))
        if ending == "lost":
            server.transport.abort()
        return "250 taken"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        """Tell whether a login is the one."""
        del server, session, envelope, mechanism
        assert isinstance(data, LoginPassword)
        good = (data.login.decode(), data.password.decode()) == self.login
        return AuthResult(success=good, handled=False)

    def of(self, recipient: str) -> list[Received]:
        """Return the mails to somebody, oldest first."""
        return [each for each in self.inbox if each.recipients == (recipient,)]

    @contextmanager
    def running(self, **options: Any) -> Iterator[MailServer]:
        """Serve while the block runs, in a thread of its own."""
        if self.login:
            options |= {"authenticator": self.authenticate, "auth_required": True}
        controller = Controller(self, hostname="127.0.0.1", port=self.port, enable_SMTPUTF8=True, **options)
        controller.start()
        try:
            yield self
        finally:
            controller.stop()


def tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a context for a server on this machine, and the certificate that its clients trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    local = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(local, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "relay.pem", folder / "relay.key"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context, public
