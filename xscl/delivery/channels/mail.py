"""The mail channel: one mail for each message, or digests.

The operator configures the server; users choose addresses.  Headers are set through
`email.message`, which folds and encodes them.  Characters that could end a header are removed
first, and a text with more than one address is refused.  A mail has the first message's id as its
Message-ID, so that mail programs recognise one that is sent again.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
import smtplib
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import formatdate, make_msgid
from html import escape
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from feeds.daemons import DaemonPool
from feeds.formats.times import SECOND
from xscl.delivery.endpoint import Delivered, Later, Mail, Sender, SendFailed, SendOutcome
from xscl.delivery.message import Message
from xscl.errors import XsclError

Security: TypeAlias = Literal["none", "starttls", "tls"]

SECONDS = 30.0
"""Timeout in seconds of a mail, from the connection to the last response."""
AT_ONCE = 16
"""Maximum number of threads that send mail."""
MOST = 100
"""Maximum number of messages in a digest; further ones follow in another at once."""
LINES = 40
"""Maximum number of lines of a message in a mail."""
_UNSUBSCRIBE = "List-Unsubscribe"
_SCHEMES: dict[str, tuple[Security, int]] = {
    "smtp": ("none", 25),
    "smtp+starttls": ("starttls", 587),
    "smtps": ("tls", 465),
}


class _MailPolicy(EmailPolicy):
    """Leaves an address in a header in one line, which `email` would write as encoded words.

    Mail programs look for the address as it is (RFC 2369).
    """

    def fold(self, name: str, value: str) -> str:
        if name == _UNSUBSCRIBE and value.isascii():
            return f"{name}: {value}{self.linesep}"
        folded: str = super().fold(name, value)
        return folded

    def fold_binary(self, name: str, value: str) -> bytes:
        if name == _UNSUBSCRIBE and value.isascii():
            return self.fold(name, value).encode("ascii")
        folded: bytes = super().fold_binary(name, value)
        return folded


class MailLinks(NamedTuple):
    """Addresses in a mail: of the service, of the subscription's page, and to unsubscribe."""

    service: str
    subscription: str
    unsubscribe: str


@dataclass(frozen=True, slots=True)
class MailServer:
    """The outgoing mail server; its password is left out of `repr`."""

    host: str
    port: int
    security: Security = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = "xscl@localhost"


def mail_server(url: str) -> MailServer:
    """Parse `smtp+starttls://user:password@host:587/from@address`; raises XsclError."""
    try:
        parts = urlsplit(url)
        security, port = _SCHEMES[parts.scheme]
        host, port = parts.hostname or "", parts.port or port
    except (KeyError, ValueError):
        host, security, port = "", "none", 0
        parts = urlsplit("")
    sender = unquote(parts.path.strip("/")) or f"xscl@{host}"
    if not host or Mail.form.fullmatch(sender) is None:
        raise XsclError(
            "that is no address of a mail server",
            hint="such as smtp+starttls://user:password@mail.example.org:587/xscl@example.org",
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MailServer(host, port, security, user, password, sender)


def mail_sender(
    server: MailServer | None,
    to: str,
    every: float = 0.0,
    wait: Callable[[], float | None] = lambda: None,
    refund: Callable[[], None] = lambda: None,
    links: MailLinks | None = None,
) -> Sender:
    """Return the sender to a mail address: of a mail for each message, or of digests.

    `wait` counts a mail against the user's daily quota; it returns None, or the seconds until the
    quota is renewed.  `refund` refunds a mail that was not sent.  `links` are those of a service
    with a public address.  Digests come every `every` seconds; 0 is for single mails.
    """

    async def send(messages: Sequence[Message]) -> SendOutcome:
        if server is None:
            return SendFailed("this service has no mail server (xscl serve --smtp)")
        seconds = wait()
        if seconds is not None:
            return Later(seconds, "no more mails today: that is all you may have in a day")
        outcome = await _sent(server, mail_of(messages, server.sender, to, links))
        if not isinstance(outcome, Delivered):
            refund()
        return outcome

    host = "" if server is None else f"{server.host}:{server.port}"
    return Sender(send, host, MOST if every else 1, every)


async def _sent(server: MailServer, mail: EmailMessage) -> SendOutcome:
    try:
        async with asyncio.timeout(SECONDS):
            work = functools.partial(send_mail, server, mail, SECONDS)
            return await asyncio.wrap_future(_threads().submit(work))
    except TimeoutError:
        return SendFailed(f"the mail server did not take the mail within {SECONDS:g} s")
    except OSError as error:  # an SMTPException is one, too
        return SendFailed(f"the mail server cannot be used: {type(error).__name__}")


@functools.cache
def _threads() -> DaemonPool:
    return DaemonPool("mail", AT_ONCE)


def mail_of(
    messages: Sequence[Message], sender: str, to: str, links: MailLinks | None = None
) -> EmailMessage:
    """Render messages as one mail, as text and as HTML."""
    first = messages[0]
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    id = f"<{first.id}@{sender.rpartition('@')[2]}>"
    mail = _headed(sender, to, header_text(first.title) + more, id)
    mail["X-Xscl-Subscription"] = header_text(first.subscription)
    text = "\n\n".join(text_of(message, links) for message in messages) + "\n"
    if links is not None:
        # RFC 8058: the mail program asks by itself, so that no reader has to open a page.
        mail[_UNSUBSCRIBE] = f"<{links.unsubscribe}>"
        mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        text += f"\n-- \n{links.subscription}\nNo more of these mails: {links.unsubscribe}\n"
    mail.set_content(text, charset="utf-8")
    mail.add_alternative(html_of(messages, links), subtype="html", charset="utf-8")
    return mail


def _headed(sender: str, to: str, subject: str, id: str) -> EmailMessage:
    """Return a mail without a text."""
    mail = EmailMessage(_MailPolicy())
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = subject
    mail["Date"] = formatdate()
    mail["Message-ID"] = id
    mail["Auto-Submitted"] = "auto-generated"
    return mail


def html_of(messages: Sequence[Message], links: MailLinks | None = None) -> str:
    """Render messages as HTML that loads nothing."""
    shown = []
    for message in messages:
        shown.append(message.html or f"<pre>{escape(text_of(message))}</pre>")
        if links is not None and message.page:
            shown[-1] += f'<p><a href="{escape(links.service + message.page)}">This match</a></p>'
    if links is not None:
        matches, end = escape(links.subscription), escape(links.unsubscribe)
        shown.append(
            f'<p><a href="{matches}">All matches</a> \N{MIDDLE DOT} '
            f'<a href="{end}">No more of these mails</a></p>'
        )
    title, body = escape(messages[0].subscription), "<hr>".join(shown)
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h2>{title}</h2>{body}</body></html>\n"
    )


def text_of(message: Message, links: MailLinks | None = None) -> str:
    """Render a message as plain text, with the address of its match at the end."""
    lines = [plain(line) for line in message.lines()]
    left_out = [f"... and {len(lines) - LINES} lines more"] if len(lines) > LINES else []
    shown = [plain(message.title), *(f"  {line}" for line in lines[:LINES]), *left_out]
    if links is not None and message.page:
        shown.append(f"  {links.service}{message.page}")
    return "\n".join(shown)


def plain(text: str) -> str:
    """Replace unprintable characters, line ends included, by blanks."""
    return "".join(each if each.isprintable() else " " for each in text)


def header_text(text: str) -> str:
    """Return text that is safe in a header: one line of at most 200 characters."""
    return " ".join(plain(text).split())[:200]


def send_mail(server: MailServer, mail: EmailMessage, seconds: float) -> SendOutcome:
    """Send a mail through the server; raises TimeoutError after `seconds` in total."""
    until = time.monotonic() + seconds
    context = ssl.create_default_context()
    if server.security == "tls":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=seconds, context=context
        )
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=seconds)
    with connection:
        if server.security == "starttls":
            _limit_timeout(connection, until)
            connection.starttls(context=context)
        if server.user:
            _limit_timeout(connection, until)
            connection.login(server.user, server.password)
        _limit_timeout(connection, until)
        try:
            connection.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            ((code, _),) = error.recipients.values()
            return SendFailed(f"the mail server refuses the address ({code})")
        except smtplib.SMTPDataError as error:
            return SendFailed(f"the mail server refuses the mail ({error.smtp_code})")
    return Delivered()


def _limit_timeout(connection: smtplib.SMTP, until: float) -> None:
    """Set the socket timeout to the time that is left; raises TimeoutError if none is."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    if connection.sock is not None:
        connection.sock.settimeout(left)


# -- Confirmation ------------------------------------------------------------------------


GOOD = 86_400 * SECOND
"""Lifetime of a confirmation code in ticks."""
CODES = 3
"""Most codes a day that a user may have mailed to an address: it may be a stranger's."""
TRIES = 5
"""Wrong attempts after which a code is invalid."""
CODE_SECONDS = 10.0
"""Timeout in seconds for handing a code to the mail server."""


def new_code() -> str:
    """Return a random code of eight digits."""
    return f"{secrets.randbelow(10**8):08d}"


def mail_with(code: str, sender: str, to: str) -> EmailMessage:
    """Return the mail with a confirmation code."""
    id = make_msgid(domain=sender.rpartition("@")[2])
    mail = _headed(sender, to, "Confirm your mail address", id)
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
        return send_mail(server, mail_with(code, server.sender, to), CODE_SECONDS)
    except OSError as error:  # an SMTPException is one, too
        return SendFailed(f"the mail server cannot be used: {type(error).__name__}")
