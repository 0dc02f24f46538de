"""A program that hears webhooks: notes each request, and answers as it is told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.gateway.http.protocol import BoundedHttp
from placet.runtime.health import serving


@dataclass(frozen=True)
class Heard:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: str


@dataclass
class Receiver:
    """What came, and what is answered to the next requests: status and headers, one each, then 204."""

    url: str = ""
    heard: list[Heard] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        """Note a request and answer it."""
        body = (await request.body()).decode()
        self.heard.append(Heard(request.url.path, dict(request.headers), body))
        status, headers = self.answers.pop(0) if self.answers else (204, {})
        return Response(status_code=status, headers=headers)


@asynccontextmanager
async def a_receiver() -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of this machine."""
    receiver = Receiver()
    app = Starlette(routes=[Route("/{path:path}", receiver.take, methods=["GET", "POST"])])
    async with serving(app, host="127.0.0.1", port=0, http=BoundedHttp) as server:
        port = server.servers[0].sockets[0].getsockname()[1]
        receiver.url = f"http://127.0.0.1:{port}"
        yield receiver


@asynccontextmanager
async def a_tls_receiver(folder: Path, host: str) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """Run a receiver with a certificate for `host`; yield its port, and a context that trusts that certificate."""
    certificate = _certificate(folder, host)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], ssl.create_default_context(cafile=str(certificate))


def _certificate(folder: Path, host: str) -> Path:
    """Write a self-signed certificate with its key; return the file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "certificate.pem"
    file.write_bytes(secret + signed.public_bytes(serialization.Encoding.PEM))
    return file
