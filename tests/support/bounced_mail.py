"""Delivery status notifications, RFC 3464, as mail systems send them back."""

from __future__ import annotations

#: Id of the mail that came back.
MAIL = "0123456789abcdef" * 2


def a_bounce(
    mail: str = MAIL,
    *,
    to: str | None = None,
    action: str = "failed",
    reason: str = "smtp; 550 5.1.1 no such user",
    returned: bool = False,
    headers_only: bool = False,
) -> bytes:
    """Return a report that a mail did not arrive; `returned` has the mail in it, or its headers only."""
    to = f"bounces+{mail}@example.org" if to is None else to
    kind = "text/rfc822-headers" if headers_only else "message/rfc822"
    original = f"--=_b\nContent-Type: {kind}\n\nMessage-ID: <{mail}@example.org>\nSubject: x\n\n" if returned else ""
    text = f"""From: MAILER-DAEMON@mail.example
To: {to}
Subject: Undelivered Mail Returned to Sender
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="=_b"

--=_b
Content-Type: text/plain

Your mail could not be delivered.

--=_b
Content-Type: message/delivery-status

Reporting-MTA: dns; mail.example
Arrival-Date: Thu, 1 Jan 2026 00:00:00 +0000

Final-Recipient: rfc822; ada@example.org
Action: {action}
Status: 5.1.1
Diagnostic-Code: {reason}

{original}
--=_b--
"""
    return text.encode()
