"""The only door to SMTP: hands one mail for one recipient to the relay, and says what its refusal means."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Literal

import aiosmtplib
from pydantic import SecretStr

from placet.notifier.channels import ChannelFailed

#: How the connection is protected: `starttls` insists, so that nobody in between can talk it out of it.
Security = Literal["starttls", "tls", "none"]
#: How long nothing is tried where the relay does not take us at all, in seconds: a person must change something.
MISCONFIGURED_SECONDS = 300.0
#: Longest part of a relay's words that is kept.
WORDS_MAX = 300


@dataclass(frozen=True, slots=True)
class Relay:
    """Where mails are handed over."""

    host: str
    port: int
    security: Security = "starttls"
    username: str = ""
    password: SecretStr = field(default=SecretStr(""))
    #: Certificates to trust in place of the system's; None takes those.
    ca_file: Path | None = None
    timeout_seconds: float = 30.0

    async def send(self, message: EmailMessage, *, sender: str, recipient: str) -> None:
        """Return when the relay has taken the mail for its one recipient; raise ChannelFailed where it has not.

        A connection that ends after the text was sent says nothing: the mail may be on its way. It is tried again
        with the same Message-ID, by which mail programs tell a repeat.
        """
        with _failures():
            await aiosmtplib.send(
                message,
                sender=sender,
                recipients=[recipient],
                hostname=self.host,
                port=self.port,
                username=self.username or None,
                password=self.password.get_secret_value() or None,
                timeout=self.timeout_seconds,
                use_tls=self.security == "tls",
                start_tls=self.security == "starttls",
                tls_context=self._context() if self.security != "none" else None,
            )

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what goes wrong into ChannelFailed: what no further try can help is permanent.

    Whatever the relay says instead of yes, it has not taken the mail; a connection that never was carried none.
    """
    try:
        yield
    except aiosmtplib.SMTPRecipientsRefused as error:
        refused = error.recipients[0]
        said = _said(refused.code, refused.message)
        raise ChannelFailed(said, permanent=_is_final(refused.code), refused=True) from error
    except aiosmtplib.SMTPNotSupported as error:
        said = f"the relay cannot carry this address: {_words(error.message)}"
        raise ChannelFailed(said, permanent=True) from error
    except (aiosmtplib.SMTPAuthenticationError, aiosmtplib.SMTPSenderRefused) as error:
        # It is our own login or sender that the relay does not take: no recipient is at fault.
        raise ChannelFailed(_said(error.code, error.message), MISCONFIGURED_SECONDS, refused=True) from error
    except aiosmtplib.SMTPDataError as error:
        raise ChannelFailed(_said(error.code, error.message), permanent=_is_final(error.code), refused=True) from error
    except aiosmtplib.SMTPResponseException as error:
        raise ChannelFailed(_said(error.code, error.message), refused=True) from error
    except ssl.SSLError as error:
        unsafe = isinstance(error, ssl.SSLCertVerificationError)
        said = f"no safe connection to the relay: {error.reason}"
        raise ChannelFailed(said, MISCONFIGURED_SECONDS, refused=unsafe) from error
    except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
        if "STARTTLS extension not supported" in str(error):
            raise ChannelFailed("the relay offers no STARTTLS", MISCONFIGURED_SECONDS, refused=True) from error
        said = f"the relay is away: {type(error).__name__}: {_words(str(error))}"
        raise ChannelFailed(said, refused=isinstance(error, aiosmtplib.SMTPConnectError)) from error


def _is_final(code: int) -> bool:
    return 500 <= code <= 599  # noqa: PLR2004 - RFC 5321, 4.2.1: permanent negative completion


def _said(code: int, message: str) -> str:
    return f"the relay said {code} {_words(message)}"


def _words(text: str) -> str:
    return " ".join(text.split())[:WORDS_MAX]
