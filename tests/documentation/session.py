"""A reader who does what a page says, from the first block to the last, in an empty directory.

Files are blocks with a title.  Lines of a console that begin with `$ ` are commands; the lines
below are what they print, with `...` for anything.  The directory is called /tour.  `xscl serve &`
and `python3 -m http.server 8080 &` run until the page ends, or until `^C`.  So does a program that
a page starts with `NAME=value python3 FILE &`: a text after it is what that program prints.  In a
command, `whsec_...` and `xscl_...` stand for the secret that was printed last, and `> FILE` at its
end keeps what it prints.  `export XSCL_SMTP=...` begins a mail server on loopback, which the
service of the page uses.
"""

from __future__ import annotations

import contextlib
import doctest
import http.server
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from lxml import etree

from tests.documentation.blocks import Block, blocks
from tests.plain_http import plain_client
from tests.thread_server import free_port
from tests.waiting import eventually
from tests.xscl.commandline import called
from tests.xscl.delivery.post_office import Post, post_office
from tests.xscl.service.conftest import ANY_PORT, serving
from xscl.cli.settings import config
from xscl.delivery.channels.mail import mail_server
from xscl.ingestion.data_directory import DataDirectory
from xscl.language.parser import parse
from xscl.polling.feed_poller import PollSettings

TOUR = "/tour"
_SERVICE = re.compile(r"(?:127\.0\.0\.1|localhost):8425")
_FILES = re.compile(r"(?:127\.0\.0\.1|localhost)(:|\", )8080")
_SECRET = re.compile(r"\b(whsec|xscl)_[\w+/=-]{20,}")
_SHELL = ("cat", "ls", "mkdir", "rm", "chmod", "grep", "wc", "sleep")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the output belongs to the page."""


@dataclass
class Session:
    """The state of a reader: directory, running servers, names of Python, the last output."""

    folder: Path
    servers: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    addresses: dict[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    printed: str | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    background: Path | None = None
    """The file with the output of the program that a page has started."""
    post: Post | None = None

    def run(self, page: Path) -> int:
        """Run a page; return how many of its blocks did something."""
        done = 0
        with self.servers:
            for block in blocks(page):
                if block.reason is None:
                    try:
                        self._do(block)
                    except Exception as error:
                        raise AssertionError(f"{page.name}:{block.line}: {error}") from error
                    done += 1
        return done

    def _do(self, block: Block) -> None:
        said, self.printed = self.printed, None
        if block.title is not None:
            target = self.folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.here(block.text))
        match block.language:
            case "python" if block.title is None:
                self.printed = self._python(block.text)
            case "console":
                self._console(block.text)
            case "text" | "" if self.background is not None:
                _compare(block.text, _grown(self.background, block.text.count("\n")))
            case "text" | "":
                assert said is not None, "a text that nothing before it prints"
                _compare(block.text, said)
            case "xscl":
                parse(block.text)
            case "json":
                for text in block.text.splitlines() if _is_lines(block) else [block.text]:
                    json.loads(text)
            case "toml":
                self._settings(block.text)
            case "xml":
                etree.fromstring(block.text.encode())
            case "sql":
                duckdb.extract_statements(block.text)
            case _:
                assert block.title is not None, f"nothing runs {block.language!r}"

    def here(self, text: str) -> str:
        """Return a text with the addresses and the directory of this run."""
        text = _SERVICE.sub(self.addresses.get("service", "127.0.0.1:8425"), text)
        if _FILES.search(text):
            files = self.addresses.setdefault("files", f"127.0.0.1:{free_port()}")
            text = _FILES.sub(lambda found: files.replace(":", found[1]), text)
        for kind, secret in self.secrets.items():
            text = text.replace(f"{kind}_...", secret)
        return text.replace(TOUR, str(self.folder))

    def _there(self, text: str) -> str:
        """Return an output with the addresses and the directory of the page."""
        for name, address in (("service", "127.0.0.1:8425"), ("files", "127.0.0.1:8080")):
            if name in self.addresses:
                text = text.replace(self.addresses[name], address)
        return text.replace(str(self.folder), TOUR)

    def _settings(self, text: str) -> None:
        """Read an `xscl.toml`, which refuses unknown keys."""
        file = self.folder / "settings" / "xscl.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        assert config(["--data", str(file.parent)], {}).keys() == tomllib.loads(text).keys()

    def _python(self, code: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self.here(code), "page", "exec"), self.names)
        return self._there(printed.getvalue())

    def _console(self, text: str) -> None:
        for command, wanted in _commands(text):
            printed = self._command(self.here(command), wanted)
            self.secrets |= {one[1]: one[0] for one in _SECRET.finditer(printed)}
            _compare(wanted, self._there(printed))

    def _command(self, line: str, wanted: str) -> str:
        """Do a command; one may fail if the page shows its message."""
        words = shlex.split(line, comments=True)
        background = words[-1:] == ["&"]
        kept = self.folder / words.pop() if words[-2:-1] == [">"] else None
        if kept is not None:
            words.pop()
        if words[0] == "export" and words[1].startswith("XSCL_SMTP="):
            mail_server(words[1].removeprefix("XSCL_SMTP="))
            self.post = self.servers.enter_context(post_office())
            return ""
        if line == "^C":
            self.servers.close()
            self.addresses.clear()
            return ""
        if words[:2] == ["xscl", "serve"]:
            return self._serve(words[2:])
        if words[:3] == ["python3", "-m", "http.server"] and background:
            return self._serve_files()
        if words[0] == "xscl":
            done = called(*words[1:])
            assert not done.exception or isinstance(done.exception, SystemExit), done.exception
            if done.exit_code and not wanted.startswith("xscl: "):
                raise AssertionError(f"{line}: {done.output}")
            if kept is not None:
                kept.write_text(done.stdout)
                return done.stderr
            return done.stderr + done.stdout
        if words[0] == "curl":
            return self._request(words[1:])
        if background and words[1] == "python3" and "=" in words[0]:
            return self._start(words[2], dict([words[0].split("=", 1)]))
        if words[0] == "python3":
            return self._python((self.folder / words[1]).read_text())
        assert words[0] in _SHELL, f"nothing runs {words[0]!r}"
        return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout

    def _serve(self, options: list[str]) -> str:
        allowed = [options[at + 1] for at, one in enumerate(options) if one == "--allow-address"]
        home = DataDirectory(self.folder / "xscl-data")
        fetching = PollSettings(allow_addresses=tuple(allowed))
        mail = None if self.post is None else self.post.server
        running = self.servers.enter_context(serving(home, ANY_PORT, fetching, mail))
        self.addresses["service"] = running.address.removeprefix("http://")
        return ""

    def _serve_files(self) -> str:
        handler = partial(_Quiet, directory=str(self.folder))
        host, port = self.addresses.setdefault("files", f"127.0.0.1:{free_port()}").split(":")
        server = http.server.ThreadingHTTPServer((host, int(port)), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.servers.callback(server.server_close)
        self.servers.callback(server.shutdown)
        return ""

    def _start(self, file: str, variables: dict[str, str]) -> str:
        """Run a server of the page in a process of its own."""
        self.background = self.folder / f"{file}.out"
        with self.background.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, self.folder / file],
                cwd=self.folder,
                env={**os.environ, **variables},
                stdout=out,
                stderr=subprocess.DEVNULL,
            )
        self.servers.callback(process.wait)
        self.servers.callback(process.terminate)
        host, port = self.addresses["files"].split(":")

        def listens() -> bool:
            assert process.poll() is None, f"{file} has ended"
            with socket.socket() as tried:
                return tried.connect_ex((host, int(port))) == 0

        eventually(listens)
        return ""

    def _request(self, words: list[str]) -> str:
        """Do what curl would; return the body of the answer, which must be a success."""
        method, url, body = "", "", None
        headers: dict[str, str] = {}
        options = iter(words)
        for word in options:
            match word:
                case "-X":
                    method = next(options)
                case "-H":
                    name, _, value = next(options).partition(": ")
                    headers[name] = value
                case "-d" | "--data-binary":
                    body = next(options)
                case "-s" | "-sS" | "-N":
                    pass
                case _:
                    url = word if "://" in word else f"http://{word}"
        if body is not None and body.startswith("@"):
            body = (self.folder / body[1:]).read_text()
        if body is not None:
            headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        method = method or ("GET" if body is None else "POST")
        with plain_client() as client:
            answer = client.request(method, url, headers=headers, content=body)
        assert answer.is_success, answer.text
        return answer.text + "\n" if answer.text else ""


def _grown(file: Path, lines: int) -> str:
    """Return the text of a file that a program writes, when it has so many lines."""
    eventually(lambda: file.read_text().count("\n") >= lines)
    return file.read_text()


def _is_lines(block: Block) -> bool:
    return block.title is not None and block.title.endswith(".jsonl")


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console with what it prints."""
    for part in re.split(r"^(?=\$ |\^C$)", text.replace("\\\n", ""), flags=re.MULTILINE):
        first, _, printed = part.partition("\n")
        if first:
            assert first == "^C" or first.startswith("$ "), f"no command: {first!r}"
            yield first.removeprefix("$ "), printed


def _compare(wanted: str, given: str) -> None:
    """Compare an output with what a page says of it; a page that says nothing is content."""
    if not wanted:
        return
    lines = "\n".join(one.rstrip() for one in given.strip("\n").splitlines()) + "\n"
    if not doctest.OutputChecker().check_output(wanted, lines, doctest.ELLIPSIS):
        raise AssertionError(f"it prints\n{given}\nnot\n{wanted}")
