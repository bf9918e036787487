"""A mail server on loopback, and what mails say."""

from __future__ import annotations

import email
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from typing import Literal

from xscl.delivery.channels.mail import MailServer


@dataclass
class Post:
    """A mail server on loopback that accepts all mails but those that it is set to refuse."""

    port: int
    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def server(self) -> MailServer:
        return MailServer("127.0.0.1", self.port, "none", sender="xscl@example.org")

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for _, mail in list(self.mails)]

    def talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as lines:

            def say(text: str) -> None:
                lines.write(text.encode() + b"\r\n")
                lines.flush()

            say("220 here")
            to: list[str] = []
            while command := lines.readline().strip():
                match command.upper().split(b":")[0].split()[0]:
                    case b"RCPT":
                        address = command.decode().split("<")[1].rstrip(">")
                        if address in self.refused:
                            say("550 nobody of that name")
                            continue
                        to.append(address)
                        say("250 fine")
                    case b"DATA":
                        say("354 go on")
                        body = b""
                        while (line := lines.readline()) != b".\r\n":
                            body += line.removeprefix(b".")
                        mail = email.message_from_bytes(body, policy=default)
                        self.mails.append((to, mail))
                        say("250 taken")
                    case b"QUIT":
                        say("221 bye")
                        return
                    case _:
                        say("250 fine")


@contextmanager
def post_office() -> Iterator[Post]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        post = Post(listener.getsockname()[1])
        over = threading.Event()

        def run() -> None:
            while True:
                connection, _ = listener.accept()
                if over.is_set():
                    connection.close()
                    return
                post.talk(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield post
        finally:
            over.set()
            socket.create_connection(("127.0.0.1", post.port)).close()
            thread.join(20)


def content(mail: EmailMessage, kind: Literal["plain", "html"]) -> str:
    """Return the text of a mail, or its HTML."""
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content())
