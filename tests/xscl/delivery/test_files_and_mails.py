"""Files and mails: what is on disk counts, and no header is what a feed wants it to be."""

from __future__ import annotations

import asyncio
import email
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email.policy import default
from pathlib import Path

import pytest

from tests.waiting import beside
from tests.xscl.delivery.post_office import Post, content
from tests.xscl.delivery.receiver import EACH, QUICK, Receiver, Sending, eventually, sending
from xscl.delivery.channels.file import append
from xscl.delivery.channels.mail import (
    AT_ONCE,
    MailLinks,
    MailServer,
    mail_of,
    mail_sender,
    mail_server,
    text_of,
)
from xscl.delivery.endpoint import Endpoint, File, Mail, SendFailed
from xscl.delivery.message import Message
from xscl.delivery.outbox.outbox import Outbox
from xscl.errors import XsclError
from xscl.polling.credentials import Credentials
from xscl.subscriptions.match import DocumentSource

# -- Files ---------------------------------------------------------------------------------


def test_file_has_a_line_for_each_message(receiver: Receiver, tmp_path: Path) -> None:
    with sending(receiver, Credentials(), files=tmp_path / "files") as sender:
        sender.engine.subscribe("q", EACH)
        sender.outbox.deliver("q", File("out.jsonl"))
        sender.items(5)
        file = tmp_path / "files" / "out.jsonl"
        eventually(lambda: file.exists() and len(file.read_bytes().splitlines()) == 5)
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert [one["data"]["id"] for one in lines] == [m.id for m in sender.engine.matches()]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("whole", [b'{"a": 1}\n', b""])
def test_a_cut_line_is_removed(tmp_path: Path, whole: bytes) -> None:
    file = tmp_path / "out.jsonl"
    file.write_bytes(whole + b'{"b"' + b"x" * 200_000)
    append(file, b'{"b": 2}\n')
    assert file.read_bytes() == whole + b'{"b": 2}\n'


def test_a_file_that_cannot_be_written_is_told(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").symlink_to(tmp_path / "elsewhere")
    with sending(receiver, Credentials(), files=tmp_path) as sender:
        sender.engine.subscribe("q", EACH)
        endpoint, _ = sender.outbox.deliver("q", File("out.jsonl"))
        sender.items()
        eventually(lambda: sender.outbox.endpoints[endpoint.id].failures > 0)
        assert "cannot be written" in sender.outbox.endpoints[endpoint.id].note
    assert not (tmp_path / "elsewhere").exists()


def test_a_name_that_leads_elsewhere_is_none() -> None:
    assert not any(
        map(File.form.fullmatch, ("../x", "/etc/x", ".x", "", "a/b", "x" * 101, "a\nb", "ä"))
    )


# -- Mails ---------------------------------------------------------------------------------


@pytest.fixture
def mailing(receiver: Receiver, post: Post) -> Iterator[Sending]:
    """An outbox that mails, with a subscription."""
    with sending(receiver, Credentials(), mail=post.server) as sender:
        sender.engine.subscribe("q", EACH)
        yield sender


def test_a_mail_for_each_message(mailing: Sending, post: Post) -> None:
    mailing.outbox.deliver("q", Mail("reader@example.org"))
    mailing.items(2)
    eventually(lambda: len(post.mails) == 2)
    ids = [m.id for m in mailing.engine.matches()]
    for number, (to, mail) in enumerate(post.mails):
        assert to == ["reader@example.org"]
        assert mail["Subject"] == f"q: Item {number}"
        assert mail["Message-ID"] == f"<{ids[number]}@example.org>"
        assert mail["Auto-Submitted"] == "auto-generated"
        assert mail["List-Unsubscribe"] is None  # the service has no public address
        for kind in ("plain", "html"):
            assert f"http://example.org/{number}" in content(mail, kind)
        assert f"<h3>Item {number}</h3>" in content(mail, "html")


def test_a_digest_is_due_after_its_interval(mailing: Sending, post: Post) -> None:
    mailing.outbox.deliver("q", Mail("reader@example.org", every=0.2))
    mailing.items()
    eventually(lambda: post.subjects == ["q: Item 0"])


def test_a_digest_has_what_came_meanwhile(mailing: Sending, post: Post) -> None:
    endpoint, _ = mailing.outbox.deliver("q", Mail("reader@example.org", every=3_600.0))
    mailing.items()
    eventually(lambda: "_digest_due" in holders(mailing.outbox, endpoint.id))
    mailing.items(2)
    assert post.mails == []
    mailing.outbox.finish(threading.Event())
    ((_, mail),) = post.mails
    assert mail["Subject"] == "q: Item 0 (and 2 more)"
    for kind in ("plain", "html"):
        assert all(f"http://example.org/{number}" in content(mail, kind) for number in range(3))


def holders(outbox: Outbox, id: str) -> set[str]:
    """Return the names of what an outbox keeps of an endpoint."""
    held = [*vars(outbox).items(), *vars(outbox.endpoints).items()]
    return {name for name, each in held if isinstance(each, dict | set) and id in each}


def test_nothing_is_kept_of_an_endpoint_that_is_removed(mailing: Sending) -> None:
    outbox = mailing.outbox
    endpoint, _ = outbox.deliver("q", Mail("reader@example.org", every=3_600.0))
    mailing.items()
    eventually(lambda: "_digest_due" in holders(outbox, endpoint.id))
    outbox.endpoints.remove([endpoint.id])
    eventually(lambda: not holders(outbox, endpoint.id))


def test_one_that_says_nothing_holds_up_neither_files_nor_the_end(
    receiver: Receiver, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = MailServer("127.0.0.1", silent.getsockname()[1], "none")
        quick = replace(QUICK, ending=0.1)
        with sending(receiver, Credentials(), mail=mute, files=tmp_path, pace=quick) as sender:
            sender.engine.subscribe("q", EACH)
            for number in range(AT_ONCE):
                sender.outbox.deliver("q", Mail(f"reader{number}@example.org"))
            sender.items()
            eventually(lambda: len(_handing_over()) >= 8)
            sender.outbox.deliver("q", File("matches.jsonl"), after=0)
            eventually(lambda: (tmp_path / "matches.jsonl").exists())
        assert all(thread.daemon for thread in _handing_over())


def _handing_over() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("mail-")]


def test_a_mail_has_one_deadline_for_all_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.delivery.channels.mail.SECONDS", 0.3)
    over = threading.Event()

    def greet_for_ever() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            while not over.wait(0.05):
                connection.sendall(b"220-there is more\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener, beside(greet_for_ever, until=over):
        slow = MailServer("127.0.0.1", listener.getsockname()[1], "none")
        found = asyncio.run(mail_sender(slow, "reader@example.org").send([message("late")]))
    assert isinstance(found, SendFailed)
    assert "within 0.3 s" in found.reason


def test_without_a_mail_server_it_is_said(receiver: Receiver) -> None:
    with sending(receiver, Credentials()) as sender:
        sender.engine.subscribe("q", EACH)
        endpoint, _ = sender.outbox.deliver("q", Mail("reader@example.org"))
        sender.items()
        eventually(lambda: sender.outbox.endpoints[endpoint.id].failures)
        assert "no mail server" in sender.outbox.endpoints[endpoint.id].note
        sender.outbox.endpoints.change(endpoint.id, Endpoint.paused)


TRICK = "a\r\nBcc: everybody@example.org\r\n\r\nSURPRISE\x00\x1b]0;x\x07"


def message(title: str, subscription: str = "q") -> Message:
    sources = (DocumentSource("d1", title, None),)
    return Message("0" * 32, subscription, 1, 1, 1, 0, False, sources, ())


def test_w9_no_title_is_a_header() -> None:
    mail = mail_of([message(TRICK, "name\r\nTo: x@example.org")], "a@example.org", "b@example.org")
    read = email.message_from_bytes(mail.as_bytes(), policy=default)
    assert read.get_all("Bcc") is None
    assert read.get_all("To") == ["b@example.org"]
    assert "SURPRISE" in str(read["Subject"])
    assert "\x1b" not in text_of(message(TRICK))


def test_html_of_a_mail_is_escaped_and_loads_nothing() -> None:
    links = MailLinks(
        "https://x.example", "https://x.example/subscriptions/a", 'https://x.example/u/"1"'
    )
    trick = message("<script>alert(1)</script>", "<img src=x>")
    html = content(mail_of([trick], "a@example.org", "b@example.org", links), "html")
    assert "<script" not in html
    assert "<img" not in html
    assert "src=" not in html.replace("&lt;img src=x&gt;", "")
    assert 'href="https://x.example/u/&quot;1&quot;"' in html
    assert f'href="https://x.example/matches/{"0" * 32}?at=1.1"' in html


def test_an_end_of_mails_is_an_address_in_one_line() -> None:
    end = f"https://service.example.org/unsubscribe/ep_{'a' * 24}/{'0' * 64}"
    service = "https://service.example.org"
    links = MailLinks(service, f"{service}/subscriptions/q", end)
    mail = mail_of([message("title")], "a@example.org", "b@example.org", links)
    assert f"List-Unsubscribe: <{end}>".encode() in mail.as_bytes().splitlines()
    assert f"List-Unsubscribe: <{end}>" in mail.as_string().splitlines()


def test_only_one_address_is_an_address() -> None:
    wrong = ("", "a", "a@", "a@b c", "a@b,c@d", "a@b\nBcc: c@d", "A <a@b>", "a@" + "b" * 300)
    assert not any(map(Mail.form.fullmatch, (*wrong, "a@é.org")))
    assert Mail.form.fullmatch("some.body+tag@mail.example.org")


def test_mail_server_of_an_address() -> None:
    told = mail_server("smtp+starttls://us%40er:p%2Fw@mail.example.org/xscl@example.org")
    assert told == MailServer(
        "mail.example.org", 587, "starttls", "us@er", "p/w", "xscl@example.org"
    )
    assert "p/w" not in repr(told)
    for wrong in ("http://mail.example.org", "smtp://", "smtp://host:x", "smtp://h/no address"):
        with pytest.raises(XsclError, match="no address of a mail server"):
            mail_server(wrong)
