"""Confirmation codes for mail addresses: mailed to the address and sent back by its owner.

A mail with a code has no text from a user.  A user therefore cannot use the service to send
messages to strangers.
"""

from __future__ import annotations

import secrets
import smtplib
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from feeds.formats.times import SECOND
from xscl.delivery.channels.mail import MailServer, send_mail
from xscl.delivery.endpoint import SendFailed, SendOutcome

GOOD = 86_400 * SECOND
"""Lifetime of a code in ticks."""
CODES = 3
"""Codes a day that one user may have mailed to one address, which may be a stranger's."""
TRIES = 5
"""Wrong attempts after which a code is invalid."""
SECONDS = 10.0
"""Timeout in seconds for handing a code to the mail server."""


def new_code() -> str:
    """Return a random code of eight digits."""
    return f"{secrets.randbelow(10**8):08d}"


def mail_with(code: str, sender: str, to: str) -> EmailMessage:
    """Return the mail with a confirmation code."""
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = "Confirm your mail address"
    mail["Date"] = formatdate()
    mail["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(
        f"Somebody who uses the xscl service that mails from {sender} wants matches of a"
        " subscription\nmailed to this address. If that was you, the code is\n\n"
        f"    {code}\n\n"
        "It is good for a day. If it was not you, do nothing: without the code no matches are"
        f" mailed\nto you, and each of its users can have {CODES} codes a day mailed at most.\n",
        charset="utf-8",
    )
    return mail


def mail_code(server: MailServer, to: str, code: str) -> SendOutcome:
    """Send the mail with a code through the server; return the outcome."""
    try:
        return send_mail(server, mail_with(code, server.sender, to), SECONDS)
    except (TimeoutError, smtplib.SMTPException, OSError) as error:
        return SendFailed(f"the mail server cannot be used: {type(error).__name__}")
