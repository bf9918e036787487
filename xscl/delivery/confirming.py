"""Codes that confirm that a mail address is its user's: mailed there, and told back.

A mail with a code has no word that a user wrote, so nobody can have anything told to a stranger but
that there is such a service.
"""

from __future__ import annotations

import secrets
import smtplib
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from feeds.times import SECOND
from xscl.delivery.endpoint import Failed, Outcome
from xscl.delivery.mail import MailServer, hand_over

GOOD = 86_400 * SECOND
"""Ticks for which a code is good."""
CODES = 3
"""Codes that a user may have mailed to one address in a day: it may be a stranger's."""
TRIES = 5
"""Wrong codes after which another one has to be mailed."""
SECONDS = 10.0
"""How long the mail server may take to take a code."""


def new_code() -> str:
    """Return a code: eight digits."""
    return f"{secrets.randbelow(10**8):08d}"


def mail_with(code: str, sender: str, to: str) -> EmailMessage:
    """Return the mail that brings a code."""
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


def mail_code(server: MailServer, to: str, code: str) -> Outcome:
    """Hand the mail with a code to the server."""
    try:
        return hand_over(server, mail_with(code, server.sender, to), SECONDS)
    except (TimeoutError, smtplib.SMTPException, OSError) as error:
        return Failed(f"the mail server cannot be used: {type(error).__name__}")
